// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters.

use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;
use voicecore_engine::media;

/// Declares a frozen class of plain counters with a repr of all of them and keyword construction.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[pyclass(frozen, eq, get_all, module = "voicecore")]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),+ }

        #[pymethods]
        impl $name {
            /// Keyword-only; everything that is left out is 0 or None. For tests of applications.
            #[new]
            #[pyo3(signature = (*, $($field = <$type>::default()),+))]
            #[allow(clippy::too_many_arguments)] // one for each counter
            fn new($($field: $type),+) -> Self {
                $name { $($field),+ }
            }

            /// All counters by name.
            fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let dict = pyo3::types::PyDict::new(py);
                $(dict.set_item(stringify!($field), self.$field.clone())?;)+
                Ok(dict)
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let fields: Vec<(&str, Bound<'_, PyAny>)> =
                    vec![$((stringify!($field), self.$field.clone().into_bound_py_any(py)?)),+];
                crate::repr(stringify!($name), &fields)
            }
        }
    };
}

counters! {
    /// Counters of one call's media.
    CallStats {
        rx_packets: u64,
        rx_bytes: u64,
        rx_lost: u64,
        rx_late: u64,
        rx_duplicate: u64,
        rx_malformed: u64,
        rx_foreign: u64,
        rx_wrong_type: u64,
        ssrc_changes: u64,
        jitter_ms: f64,
        jitter_delay_ms: f64,
        tx_packets: u64,
        tx_bytes: u64,
        tx_errors: u64,
        concealed_frames: u64,
        rtt_ms: Option<f64>,
        remote_fraction_lost: Option<f64>,
        remote_lost: Option<u64>,
        remote_jitter_ms: Option<f64>,
        mos_rx: Option<f64>,
        mos_tx: Option<f64>,
        playout_underruns: u64,
        tx_overs: u64,
        gain_db: f64,
        speech_level_dbov: Option<f64>,
        noise_level_dbov: Option<f64>,
        recording_gap_samples: u64,
        codec: Option<String>,
        rate: u32,
        srtp: Option<String>,
        srtp_auth_errors: u64,
        srtp_replays: u64,
    }
}

counters! {
    /// Counters of an engine since its start.
    EngineStats {
        ticks: u64,
        late_ticks: u64,
        skipped_ticks: u64,
        max_lateness_us: u64,
        lateness_p50_us: u64,
        lateness_p99_us: u64,
        calls_active: u64,
        calls_total: u64,
        rx_packets: u64,
        rx_lost: u64,
        rx_late: u64,
        rx_duplicate: u64,
        rx_malformed: u64,
        rx_foreign: u64,
        rx_wrong_type: u64,
        tx_packets: u64,
        tx_errors: u64,
        concealed_frames: u64,
        playout_underruns: u64,
        tx_overs: u64,
        events_dropped: u64,
        recording_errors: u64,
        srtp_auth_errors: u64,
        srtp_replays: u64,
        sip_transactions: u64,
        sip_dialogs: u64,
        sip_malformed: u64,
        sip_rejected: u64,
        sip_unlisted: u64,
        sip_scanners: u64,
        sip_muted: u64,
        sip_limited: u64,
        sip_challenged: u64,
        sip_auth_failed: u64,
        registrations: u64,
        registrations_up: u64,
        trunks: u64,
        trunks_up: u64,
    }
}

impl From<&media::CallStats> for CallStats {
    fn from(s: &media::CallStats) -> Self {
        CallStats {
            rx_packets: s.rx_packets,
            rx_bytes: s.rx_bytes,
            rx_lost: s.rx_lost,
            rx_late: s.rx_late,
            rx_duplicate: s.rx_duplicate,
            rx_malformed: s.rx_malformed,
            rx_foreign: s.rx_foreign,
            rx_wrong_type: s.rx_wrong_type,
            ssrc_changes: s.ssrc_changes,
            jitter_ms: s.jitter_ms,
            jitter_delay_ms: s.jitter_delay_ms,
            tx_packets: s.tx_packets,
            tx_bytes: s.tx_bytes,
            tx_errors: s.tx_errors,
            concealed_frames: s.concealed_frames,
            rtt_ms: s.rtt_ms,
            // RTCP counts in 1/256 (RFC 3550 section 6.4.1).
            remote_fraction_lost: s.remote_fraction_lost.map(|f| f64::from(f) / 256.0),
            remote_lost: s.remote_lost,
            remote_jitter_ms: s.remote_jitter_ms,
            mos_rx: s.mos_rx,
            mos_tx: s.mos_tx,
            playout_underruns: s.playout_underruns,
            tx_overs: s.tx_overs,
            gain_db: s.gain_db,
            speech_level_dbov: s.speech_level_dbov,
            noise_level_dbov: s.noise_level_dbov,
            recording_gap_samples: s.recording_gap_samples,
            codec: s.codec.map(|c| c.name().to_owned()),
            rate: s.rate,
            srtp: s.srtp.map(|suite| suite.name().to_owned()),
            srtp_auth_errors: s.srtp_auth_errors,
            srtp_replays: s.srtp_replays,
        }
    }
}

impl EngineStats {
    /// `consumer_dropped`: what the Python layer dropped for slow consumers.
    pub fn from_engine(s: &voicecore_engine::EngineStats, consumer_dropped: u64) -> Self {
        let m = &s.media;
        EngineStats {
            ticks: m.ticks,
            late_ticks: m.late_ticks,
            skipped_ticks: m.skipped_ticks,
            max_lateness_us: m.max_lateness_us,
            lateness_p50_us: m.lateness_p50_us,
            lateness_p99_us: m.lateness_p99_us,
            calls_active: s.calls_active,
            calls_total: s.calls_total,
            rx_packets: m.rx_packets,
            rx_lost: m.rx_lost,
            rx_late: m.rx_late,
            rx_duplicate: m.rx_duplicate,
            rx_malformed: m.rx_malformed,
            rx_foreign: m.rx_foreign,
            rx_wrong_type: m.rx_wrong_type,
            tx_packets: m.tx_packets,
            tx_errors: m.tx_errors,
            concealed_frames: m.concealed_frames,
            playout_underruns: m.playout_underruns,
            tx_overs: m.tx_overs,
            events_dropped: m.events_dropped + s.signals_dropped + consumer_dropped,
            recording_errors: m.recording_errors,
            srtp_auth_errors: m.srtp_auth_errors,
            srtp_replays: m.srtp_replays,
            sip_transactions: s.sip_transactions,
            sip_dialogs: s.sip_dialogs,
            sip_malformed: s.sip_malformed,
            sip_rejected: s.sip_rejected,
            sip_unlisted: s.sip_unlisted,
            sip_scanners: s.sip_scanners,
            sip_muted: s.sip_muted,
            sip_limited: s.sip_limited,
            sip_challenged: s.sip_challenged,
            sip_auth_failed: s.sip_auth_failed,
            registrations: s.trunks.registrations,
            registrations_up: s.trunks.registered,
            trunks: s.trunks.watched,
            trunks_up: s.trunks.up,
        }
    }
}
