// SPDX-License-Identifier: GPL-3.0-or-later
//! Counters one thread writes and any thread reads, without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use super::histogram::Histogram;
use super::quality::{mos, Delay, Loss};
use super::{CallStats, Codec, MediaStats, Suite};
use crate::signal::gain::Gain;
use crate::signal::level::PARTS;
use crate::signal::steps;
use crate::watchdog::Pulse;

/// A media thread may be this late before it counts as stuck.
const STUCK: Duration = Duration::from_millis(500);

/// A number with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn set(&self, v: u64) {
        self.0.store(v, Relaxed);
    }

    /// For its one writer only: cheaper than an atomic addition.
    pub(crate) fn add(&self, v: u64) {
        self.0.store(self.0.load(Relaxed) + v, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Optional values are stored one higher; 0 is none.
fn some(v: u64) -> Option<u64> {
    v.checked_sub(1)
}

/// One call's counters; the media thread writes them once a tick.
#[derive(Debug, Default)]
pub(crate) struct CallCounters {
    pub(crate) rx_packets: Counter,
    pub(crate) rx_bytes: Counter,
    pub(crate) rx_lost: Counter,
    pub(crate) rx_late: Counter,
    pub(crate) rx_duplicate: Counter,
    pub(crate) rx_malformed: Counter,
    pub(crate) rx_foreign: Counter,
    pub(crate) rx_wrong_type: Counter,
    pub(crate) ssrc_changes: Counter,
    pub(crate) jitter_us: Counter,
    pub(crate) jitter_delay_us: Counter,
    pub(crate) tx_packets: Counter,
    pub(crate) tx_bytes: Counter,
    pub(crate) tx_errors: Counter,
    pub(crate) concealed_frames: Counter,
    pub(crate) rtt_us_plus1: Counter,
    pub(crate) remote_lost_plus1: Counter,
    pub(crate) remote_lost_total: Counter,
    pub(crate) remote_expected: Counter,
    pub(crate) remote_jitter_us: Counter,
    pub(crate) rx_gaps: Counter,
    /// Jitter buffer delay of all ticks so far, and their number.
    pub(crate) delay_sum_us: Counter,
    pub(crate) delay_ticks: Counter,
    pub(crate) playout_underruns: Counter,
    pub(crate) recording_gap: Counter,
    pub(crate) tx_overs: Counter,
    /// In 1/64 of a step, as the bits of an i64.
    gain: Counter,
    speech_plus1: Counter,
    noise_plus1: Counter,
    /// These two are written by who tells of an SDP, so that they are known when the call is up.
    pub(crate) codec_plus1: Counter,
    pub(crate) rate: Counter,
    pub(crate) srtp_plus1: Counter,
    pub(crate) srtp_auth_errors: Counter,
    pub(crate) srtp_replays: Counter,
}

impl CallCounters {
    pub(crate) fn stats(&self) -> CallStats {
        let mut stats = self.plain_stats();
        let Some(codec) = stats.codec else { return stats };
        let unique = stats.rx_packets.saturating_sub(stats.rx_duplicate);
        let heard = Loss {
            expected: unique + stats.rx_lost,
            lost: stats.rx_lost + stats.rx_late,
            gaps: Some(self.rx_gaps.get() + stats.rx_late),
        };
        let ticks = self.delay_ticks.get().max(1);
        let buffer = (self.delay_sum_us.get() / ticks) as f64 / 1000.0;
        stats.mos_rx = mos(codec, heard, Delay { round_trip: stats.rtt_ms, buffer });
        if let (Some(lost), Some(jitter)) = (stats.remote_lost, stats.remote_jitter_ms) {
            let told = Loss { expected: self.remote_expected.get(), lost, gaps: None };
            // Its buffer is not told; one that takes most of the jitter away is twice as long.
            let delay = Delay { round_trip: stats.rtt_ms, buffer: 2.0 * jitter };
            stats.mos_tx = mos(codec, told, delay);
        }
        stats
    }

    fn plain_stats(&self) -> CallStats {
        let reported = self.remote_lost_plus1.get() > 0;
        CallStats {
            rx_packets: self.rx_packets.get(),
            rx_bytes: self.rx_bytes.get(),
            rx_lost: self.rx_lost.get(),
            rx_late: self.rx_late.get(),
            rx_duplicate: self.rx_duplicate.get(),
            rx_malformed: self.rx_malformed.get(),
            rx_foreign: self.rx_foreign.get(),
            rx_wrong_type: self.rx_wrong_type.get(),
            ssrc_changes: self.ssrc_changes.get(),
            jitter_ms: self.jitter_us.get() as f64 / 1000.0,
            jitter_delay_ms: self.jitter_delay_us.get() as f64 / 1000.0,
            tx_packets: self.tx_packets.get(),
            tx_bytes: self.tx_bytes.get(),
            tx_errors: self.tx_errors.get(),
            concealed_frames: self.concealed_frames.get(),
            rtt_ms: some(self.rtt_us_plus1.get()).map(|us| us as f64 / 1000.0),
            remote_fraction_lost: some(self.remote_lost_plus1.get()).map(|v| v as u8),
            remote_lost: reported.then(|| self.remote_lost_total.get()),
            remote_jitter_ms: reported.then(|| self.remote_jitter_us.get() as f64 / 1000.0),
            mos_rx: None,
            mos_tx: None,
            playout_underruns: self.playout_underruns.get(),
            tx_overs: self.tx_overs.get(),
            gain_db: self.gain.get() as i64 as f64 / f64::from(PARTS * steps::PER_DB),
            speech_level_dbov: some(self.speech_plus1.get()).map(|s| steps::dbov(s as i32)),
            noise_level_dbov: some(self.noise_plus1.get()).map(|s| steps::dbov(s as i32)),
            recording_gap_samples: self.recording_gap.get(),
            rate: self.rate.get() as u32,
            codec: some(self.codec_plus1.get()).map(|v| match v {
                0 => Codec::Pcma,
                1 => Codec::Pcmu,
                _ => Codec::G722,
            }),
            srtp: some(self.srtp_plus1.get()).and_then(|at| Suite::ALL.get(at as usize).copied()),
            srtp_auth_errors: self.srtp_auth_errors.get(),
            srtp_replays: self.srtp_replays.get(),
        }
    }

    /// What the gain control measured and does.
    pub(crate) fn set_levels(&self, gain: &Gain) {
        let level = gain.level();
        self.gain.set(i64::from(gain.parts()) as u64);
        self.speech_plus1.set(level.speech_steps().map_or(0, |s| s.max(0) as u64 + 1));
        self.noise_plus1.set(level.floor_steps().map_or(0, |s| s.max(0) as u64 + 1));
    }

    pub(crate) fn set_srtp(&self, suite: Option<Suite>) {
        let at = Suite::ALL.iter().position(|s| Some(*s) == suite);
        self.srtp_plus1.set(at.map_or(0, |at| at as u64 + 1));
    }

    pub(crate) fn set_codec(&self, codec: Codec) {
        self.codec_plus1.set(match codec {
            Codec::Pcma => 1,
            Codec::Pcmu => 2,
            Codec::G722 => 3,
        });
    }
}

/// A media thread's counters of its clock.
#[derive(Debug)]
pub(crate) struct ClockCounters {
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) ticks: Counter,
    pub(crate) late_ticks: Counter,
    pub(crate) skipped_ticks: Counter,
    pub(crate) max_lateness_us: Counter,
    /// Of each phase, ns.
    pub(crate) lateness: Histogram,
    /// From each phase's wake-up until its calls' events are handed over, ns.
    pub(crate) worked: Histogram,
    /// The next tick blocks for so long.
    #[cfg(test)]
    pub(crate) block_ms: AtomicU64,
}

impl ClockCounters {
    /// Of the thread with that name.
    pub(crate) fn new(thread: &str) -> ClockCounters {
        ClockCounters {
            pulse: Pulse::new(thread, STUCK),
            ticks: Counter::default(),
            late_ticks: Counter::default(),
            skipped_ticks: Counter::default(),
            max_lateness_us: Counter::default(),
            lateness: Histogram::default(),
            worked: Histogram::default(),
            #[cfg(test)]
            block_ms: AtomicU64::new(0),
        }
    }
}

/// Adds a call's counters to those of all calls.
pub(crate) fn sum_up(all: &mut MediaStats, one: &CallStats) {
    all.rx_packets += one.rx_packets;
    all.rx_lost += one.rx_lost;
    all.rx_late += one.rx_late;
    all.rx_duplicate += one.rx_duplicate;
    all.rx_malformed += one.rx_malformed;
    all.rx_foreign += one.rx_foreign;
    all.rx_wrong_type += one.rx_wrong_type;
    all.tx_packets += one.tx_packets;
    all.tx_errors += one.tx_errors;
    all.srtp_auth_errors += one.srtp_auth_errors;
    all.srtp_replays += one.srtp_replays;
    all.concealed_frames += one.concealed_frames;
    all.playout_underruns += one.playout_underruns;
    all.tx_overs += one.tx_overs;
}
