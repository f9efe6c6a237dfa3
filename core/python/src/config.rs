// SPDX-License-Identifier: GPL-3.0-or-later
//! `EngineConfig`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use voicecore_engine::media::{Delivered, Delivery, GainConfig, MixerConfig};
use voicecore_engine::{
    Codec, ConfigError, DtmfMode, EngineConfig as Config, Extension, Policy, SrtpMode, TlsConfig,
};

use crate::background::named;
use crate::errors::raise;
use crate::guard::GuardConfig;
use crate::number::{maybe_real, maybe_whole, real, several, two, whole};

/// Settings of an engine, checked at construction.
#[pyclass(frozen, module = "voicecore")]
pub struct EngineConfig {
    pub inner: Config,
    /// As it was given.
    background: String,
}

fn bad(py: Python<'_>, field: &'static str, problem: String, remedy: &str) -> PyErr {
    raise(py, &ConfigError::new(field, problem, remedy).into())
}

pub fn address(py: Python<'_>, field: &'static str, text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| {
        bad(
            py,
            field,
            format!("{text:?} is not an IP address"),
            "write it like 192.0.2.1 or 2001:db8::1",
        )
    })
}

pub fn ranged<T: TryFrom<i64>>(py: Python<'_>, field: &'static str, value: i64) -> PyResult<T> {
    T::try_from(value).map_err(|_| {
        bad(py, field, format!("{value} is out of range"), "see the documentation of EngineConfig")
    })
}

pub fn codec(py: Python<'_>, name: &str) -> PyResult<Codec> {
    match name.to_ascii_uppercase().as_str() {
        "PCMA" => Ok(Codec::Pcma),
        "PCMU" => Ok(Codec::Pcmu),
        "G722" => Ok(Codec::G722),
        _ => Err(bad(py, "codecs", format!("{name:?} is not known"), "use PCMA, PCMU, G722")),
    }
}

fn extension(py: Python<'_>, field: &'static str, name: &str, always: bool) -> PyResult<Extension> {
    match name {
        "off" => Ok(Extension::Off),
        "supported" => Ok(Extension::Supported),
        "required" => Ok(Extension::Required),
        "always" if always => Ok(Extension::Always),
        _ => {
            let remedy = if always {
                "use off, supported, required or always"
            } else {
                "use off, supported or required"
            };
            Err(bad(py, field, format!("{name:?} is not known"), remedy))
        }
    }
}

fn extension_name(extension: Extension) -> &'static str {
    match extension {
        Extension::Off => "off",
        Extension::Supported => "supported",
        Extension::Required => "required",
        Extension::Always => "always",
    }
}

fn allowed(py: Python<'_>, field: &'static str, name: &str) -> PyResult<bool> {
    match name {
        "allow" => Ok(true),
        "refuse" => Ok(false),
        _ => Err(bad(py, field, format!("{name:?} is not known"), "use allow or refuse")),
    }
}

fn over_tcp(py: Python<'_>, name: &str) -> PyResult<bool> {
    match name {
        "tcp" => Ok(true),
        "udp" => Ok(false),
        _ => Err(bad(py, "large_requests", format!("{name:?} is not known"), "use udp or tcp")),
    }
}

fn allowed_name(allowed: bool) -> &'static str {
    if allowed {
        "allow"
    } else {
        "refuse"
    }
}

fn dtmf_mode(py: Python<'_>, name: &str) -> PyResult<DtmfMode> {
    match name {
        "auto" => Ok(DtmfMode::Auto),
        "rtp" => Ok(DtmfMode::Rtp),
        "info" => Ok(DtmfMode::Info),
        _ => Err(bad(py, "dtmf", format!("{name:?} is not known"), "use auto, rtp or info")),
    }
}

/// "off", "optional" or "required".
pub fn srtp_mode(py: Python<'_>, name: &str) -> PyResult<SrtpMode> {
    SrtpMode::from_name(name).ok_or_else(|| {
        let remedy = "use \"off\", \"optional\" or \"required\"";
        bad(py, "srtp", format!("{name:?} is not known"), remedy)
    })
}

/// "speech" or "frames".
pub fn delivered(py: Python<'_>, name: &str) -> PyResult<Delivered> {
    let unknown =
        || bad(py, "delivery", format!("{name:?} is not known"), "use \"speech\" or \"frames\"");
    Delivered::from_name(name).ok_or_else(unknown)
}

/// An address, with a port where it is not 53.
fn nameserver(py: Python<'_>, text: &str) -> PyResult<SocketAddr> {
    let with_port = text.parse::<SocketAddr>();
    with_port.or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53))).map_err(|_| {
        bad(
            py,
            "nameservers",
            format!("{text:?} is not an IP address"),
            "write it like 192.0.2.53 or [2001:db8::53]:53",
        )
    })
}

fn default_codecs() -> Vec<String> {
    Config::default().codecs.iter().map(|c| c.name().to_owned()).collect()
}

fn shown(path: Option<&Path>) -> Option<String> {
    path.map(|p| p.to_string_lossy().into_owned())
}

#[pymethods]
impl EngineConfig {
    #[new]
    #[pyo3(signature = (*, bind="0.0.0.0", sip_port=5060, tcp=true, public_address=None, rtp_ports=(16384, 32767),
        codecs=default_codecs(), comfort_noise=false, max_calls=200, user_agent="voice-edge", tls_port=5061, tls_ca_file=None, tls_cert_file=None,
        tls_key_file=None, tls_verify_client=false, nameservers=Vec::new(), prack="supported", session_timer="supported",
        session_expires_s=1800, min_session_expires_s=90, transfer_requests="refuse", replaces="allow", redirects=3, large_requests="udp",
        recording_dir=None, vad=true, preroll_ms=300,
        vad_threshold=0.5, vad_release=0.35, speech_start_ms=64, speech_end_ms=600, jitter_min_ms=20,
        jitter_max_ms=200, media_timeout_s=30.0, media_timeout_dtx_s=None, dtmf="auto", playout_max_s=120.0, media_cores=Vec::new(), media_priority=None, guard=None,
        srtp="off", gain=false, gain_target_dbov=-26.0, gain_max_db=18.0, voice_level_db=0.0,
        background="none", background_level_db=0.0, duck_db=-12.0, vad_onnxruntime=None,
        delivery="speech", chunk_ms=20, echo_guard=false, noise_suppression=false))]
    // Keyword arguments of Python, one for each setting.
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        bind: &str,
        #[pyo3(from_py_with = whole)] sip_port: i64,
        tcp: bool,
        public_address: Option<&str>,
        #[pyo3(from_py_with = two)] rtp_ports: (i64, i64),
        codecs: Vec<String>,
        comfort_noise: bool,
        #[pyo3(from_py_with = whole)] max_calls: i64,
        user_agent: &str,
        #[pyo3(from_py_with = whole)] tls_port: i64,
        tls_ca_file: Option<PathBuf>,
        tls_cert_file: Option<PathBuf>,
        tls_key_file: Option<PathBuf>,
        tls_verify_client: bool,
        nameservers: Vec<String>,
        prack: &str,
        session_timer: &str,
        #[pyo3(from_py_with = whole)] session_expires_s: i64,
        #[pyo3(from_py_with = whole)] min_session_expires_s: i64,
        transfer_requests: &str,
        replaces: &str,
        #[pyo3(from_py_with = whole)] redirects: i64,
        large_requests: &str,
        recording_dir: Option<PathBuf>,
        vad: bool,
        #[pyo3(from_py_with = whole)] preroll_ms: i64,
        #[pyo3(from_py_with = real)] vad_threshold: f64,
        #[pyo3(from_py_with = real)] vad_release: f64,
        #[pyo3(from_py_with = whole)] speech_start_ms: i64,
        #[pyo3(from_py_with = whole)] speech_end_ms: i64,
        #[pyo3(from_py_with = whole)] jitter_min_ms: i64,
        #[pyo3(from_py_with = whole)] jitter_max_ms: i64,
        #[pyo3(from_py_with = real)] media_timeout_s: f64,
        #[pyo3(from_py_with = maybe_real)] media_timeout_dtx_s: Option<f64>,
        dtmf: &str,
        #[pyo3(from_py_with = real)] playout_max_s: f64,
        #[pyo3(from_py_with = several)] media_cores: Vec<i64>,
        #[pyo3(from_py_with = maybe_whole)] media_priority: Option<i64>,
        guard: Option<&Bound<'_, GuardConfig>>,
        srtp: &str,
        gain: bool,
        #[pyo3(from_py_with = real)] gain_target_dbov: f64,
        #[pyo3(from_py_with = real)] gain_max_db: f64,
        #[pyo3(from_py_with = real)] voice_level_db: f64,
        background: &str,
        #[pyo3(from_py_with = real)] background_level_db: f64,
        #[pyo3(from_py_with = real)] duck_db: f64,
        vad_onnxruntime: Option<PathBuf>,
        delivery: &str,
        #[pyo3(from_py_with = whole)] chunk_ms: i64,
        echo_guard: bool,
        noise_suppression: bool,
    ) -> PyResult<Self> {
        let inner = Config {
            bind: address(py, "bind", bind)?,
            sip_port: ranged(py, "sip_port", sip_port)?,
            tcp,
            public_address: public_address.map(|a| address(py, "public_address", a)).transpose()?,
            rtp_ports: (
                ranged(py, "rtp_ports", rtp_ports.0)?,
                ranged(py, "rtp_ports", rtp_ports.1)?,
            ),
            codecs: codecs.iter().map(|n| codec(py, n)).collect::<PyResult<_>>()?,
            comfort_noise,
            max_calls: ranged(py, "max_calls", max_calls)?,
            user_agent: user_agent.to_owned(),
            tls_port: ranged(py, "tls_port", tls_port)?,
            tls: TlsConfig {
                ca_file: tls_ca_file,
                cert_file: tls_cert_file,
                key_file: tls_key_file,
                verify_client: tls_verify_client,
            },
            nameservers: nameservers.iter().map(|n| nameserver(py, n)).collect::<PyResult<_>>()?,
            dialogs: Policy {
                reliable: extension(py, "prack", prack, false)?,
                timer: extension(py, "session_timer", session_timer, true)?,
                session_expires_s: ranged(py, "session_expires_s", session_expires_s)?,
                min_se_s: ranged(py, "min_session_expires_s", min_session_expires_s)?,
                refer: allowed(py, "transfer_requests", transfer_requests)?,
                replaces: allowed(py, "replaces", replaces)?,
                redirects: ranged(py, "redirects", redirects)?,
                large_over_tcp: over_tcp(py, large_requests)?,
            },
            recording_dir,
            vad,
            preroll_ms: ranged(py, "preroll_ms", preroll_ms)?,
            vad_threshold: vad_threshold as f32,
            vad_release: vad_release as f32,
            speech_start_ms: ranged(py, "speech_start_ms", speech_start_ms)?,
            speech_end_ms: ranged(py, "speech_end_ms", speech_end_ms)?,
            jitter_min_ms: ranged(py, "jitter_min_ms", jitter_min_ms)?,
            jitter_max_ms: ranged(py, "jitter_max_ms", jitter_max_ms)?,
            media_timeout_s,
            media_timeout_dtx_s: media_timeout_dtx_s
                .unwrap_or_else(|| (4.0 * media_timeout_s).min(86_400.0)),
            dtmf: dtmf_mode(py, dtmf)?,
            playout_max_s,
            media_cores: media_cores
                .into_iter()
                .map(|v| ranged(py, "media_cores", v))
                .collect::<PyResult<_>>()?,
            media_priority: media_priority.map(|v| ranged(py, "media_priority", v)).transpose()?,
            srtp: srtp_mode(py, srtp)?,
            vad_onnxruntime,
            gain: GainConfig { enabled: gain, target_dbov: gain_target_dbov, max_db: gain_max_db },
            mixer: MixerConfig {
                voice_db: voice_level_db,
                background_db: background_level_db,
                duck_db,
            },
            delivery: Delivery {
                what: delivered(py, delivery)?,
                chunk_ms: ranged(py, "chunk_ms", chunk_ms)?,
            },
            echo_guard,
            noise_suppression,
            background: named(py, background)?,
            guard: guard.map(|g| g.get().inner.clone()).unwrap_or_default(),
        };
        inner.validate().map_err(|e| raise(py, &e.into()))?;
        Ok(EngineConfig { inner, background: background.to_owned() })
    }

    #[getter]
    fn bind(&self) -> String {
        self.inner.bind.to_string()
    }

    #[getter]
    fn sip_port(&self) -> u16 {
        self.inner.sip_port
    }

    #[getter]
    fn tcp(&self) -> bool {
        self.inner.tcp
    }

    #[getter]
    fn public_address(&self) -> Option<String> {
        self.inner.public_address.map(|a| a.to_string())
    }

    #[getter]
    fn rtp_ports(&self) -> (u16, u16) {
        self.inner.rtp_ports
    }

    #[getter]
    fn codecs(&self) -> Vec<&'static str> {
        self.inner.codecs.iter().map(|c| c.name()).collect()
    }

    #[getter]
    fn comfort_noise(&self) -> bool {
        self.inner.comfort_noise
    }

    #[getter]
    fn max_calls(&self) -> usize {
        self.inner.max_calls
    }

    #[getter]
    fn user_agent(&self) -> &str {
        &self.inner.user_agent
    }

    #[getter]
    fn tls_port(&self) -> u16 {
        self.inner.tls_port
    }

    #[getter]
    fn tls_ca_file(&self) -> Option<String> {
        shown(self.inner.tls.ca_file.as_deref())
    }

    #[getter]
    fn tls_cert_file(&self) -> Option<String> {
        shown(self.inner.tls.cert_file.as_deref())
    }

    #[getter]
    fn tls_key_file(&self) -> Option<String> {
        shown(self.inner.tls.key_file.as_deref())
    }

    #[getter]
    fn tls_verify_client(&self) -> bool {
        self.inner.tls.verify_client
    }

    #[getter]
    fn nameservers(&self) -> Vec<String> {
        self.inner.nameservers.iter().map(ToString::to_string).collect()
    }

    #[getter]
    fn prack(&self) -> &'static str {
        extension_name(self.inner.dialogs.reliable)
    }

    #[getter]
    fn session_timer(&self) -> &'static str {
        extension_name(self.inner.dialogs.timer)
    }

    #[getter]
    fn session_expires_s(&self) -> u32 {
        self.inner.dialogs.session_expires_s
    }

    #[getter]
    fn min_session_expires_s(&self) -> u32 {
        self.inner.dialogs.min_se_s
    }

    #[getter]
    fn transfer_requests(&self) -> &'static str {
        allowed_name(self.inner.dialogs.refer)
    }

    #[getter]
    fn replaces(&self) -> &'static str {
        allowed_name(self.inner.dialogs.replaces)
    }

    #[getter]
    fn redirects(&self) -> u8 {
        self.inner.dialogs.redirects
    }

    #[getter]
    fn large_requests(&self) -> &'static str {
        if self.inner.dialogs.large_over_tcp {
            "tcp"
        } else {
            "udp"
        }
    }

    #[getter]
    fn recording_dir(&self) -> Option<String> {
        self.inner.recording_dir.as_ref().map(|d| d.to_string_lossy().into_owned())
    }

    #[getter]
    fn vad(&self) -> bool {
        self.inner.vad
    }

    #[getter]
    fn preroll_ms(&self) -> u32 {
        self.inner.preroll_ms
    }

    #[getter]
    fn vad_threshold(&self) -> f32 {
        self.inner.vad_threshold
    }

    #[getter]
    fn vad_release(&self) -> f32 {
        self.inner.vad_release
    }

    #[getter]
    fn speech_start_ms(&self) -> u32 {
        self.inner.speech_start_ms
    }

    #[getter]
    fn speech_end_ms(&self) -> u32 {
        self.inner.speech_end_ms
    }

    #[getter]
    fn jitter_min_ms(&self) -> u32 {
        self.inner.jitter_min_ms
    }

    #[getter]
    fn jitter_max_ms(&self) -> u32 {
        self.inner.jitter_max_ms
    }

    #[getter]
    fn media_timeout_s(&self) -> f64 {
        self.inner.media_timeout_s
    }

    #[getter]
    fn media_timeout_dtx_s(&self) -> f64 {
        self.inner.media_timeout_dtx_s
    }

    #[getter]
    fn dtmf(&self) -> &'static str {
        match self.inner.dtmf {
            DtmfMode::Auto => "auto",
            DtmfMode::Rtp => "rtp",
            DtmfMode::Info => "info",
        }
    }

    #[getter]
    fn playout_max_s(&self) -> f64 {
        self.inner.playout_max_s
    }

    #[getter]
    fn media_cores(&self) -> Vec<usize> {
        self.inner.media_cores.clone()
    }

    #[getter]
    fn media_priority(&self) -> Option<u8> {
        self.inner.media_priority
    }

    #[getter]
    fn srtp(&self) -> &'static str {
        self.inner.srtp.name()
    }

    #[getter]
    fn vad_onnxruntime(&self) -> Option<String> {
        shown(self.inner.vad_onnxruntime.as_deref())
    }

    #[getter]
    fn delivery(&self) -> &'static str {
        self.inner.delivery.what.name()
    }

    #[getter]
    fn echo_guard(&self) -> bool {
        self.inner.echo_guard
    }

    #[getter]
    fn noise_suppression(&self) -> bool {
        self.inner.noise_suppression
    }

    #[getter]
    fn chunk_ms(&self) -> u32 {
        self.inner.delivery.chunk_ms
    }

    #[getter]
    fn gain(&self) -> bool {
        self.inner.gain.enabled
    }

    #[getter]
    fn gain_target_dbov(&self) -> f64 {
        self.inner.gain.target_dbov
    }

    #[getter]
    fn gain_max_db(&self) -> f64 {
        self.inner.gain.max_db
    }

    #[getter]
    fn voice_level_db(&self) -> f64 {
        self.inner.mixer.voice_db
    }

    #[getter]
    fn background(&self) -> &str {
        &self.background
    }

    #[getter]
    fn background_level_db(&self) -> f64 {
        self.inner.mixer.background_db
    }

    #[getter]
    fn duck_db(&self) -> f64 {
        self.inner.mixer.duck_db
    }

    fn __repr__(&self) -> String {
        let c = &self.inner;
        format!(
            "EngineConfig(bind='{}', sip_port={}, max_calls={}, …)",
            c.bind, c.sip_port, c.max_calls
        )
    }
}
