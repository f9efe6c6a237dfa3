// SPDX-License-Identifier: GPL-3.0-or-later
//! One enum per layer, and [`EngineError`] which rolls them up. Every error has a stable code that an application
//! may branch on and an operator may search for; [`CODES`] documents all of them.

use std::net::SocketAddr;

use pjsip_sys::SipError;

use crate::media::MediaError;

/// Every code of this core with what it means. Codes are never reused for something else.
pub const CODES: &[(&str, &str)] = &[
    ("config.invalid", "A setting cannot work. The message names the field and a value that can."),
    (
        "engine.port_in_use",
        "Another process holds the SIP port. Stop it, or choose another sip_port.",
    ),
    ("engine.address_not_available", "The address of `bind` is not one of this machine."),
    ("engine.permission_denied", "The system refused the SIP port (below 1024) to this user."),
    ("engine.start_failed", "The SIP stack, a thread or the event descriptor could not be made."),
    ("engine.not_running", "The engine was not started, or was stopped."),
    ("engine.already_running", "start() on an engine that was started before."),
    (
        "engine.busy",
        "The command queue to the SIP thread is full: commands come faster than SIP can take them.",
    ),
    ("sip.pj", "The SIP stack refused an operation. The message carries its own words and status."),
    ("sip.endpoint_exists", "Something else in this process runs a SIP stack of its own."),
    ("sip.not_ready", "The call is not in a state for this operation, such as answering twice."),
    ("sip.no_such_call", "The SIP stack does not know the call any more."),
    ("sip.no_such_registration", "The SIP stack does not know the registration any more."),
    ("sip.no_such_probe", "The SIP stack does not probe this trunk any more."),
    (
        "sip.tls",
        "A file of TLS cannot be used. The message names the setting, the file and the reason.",
    ),
    ("sip.too_many_calls", "max_calls are up."),
    ("sip.bad_sdp", "A session description that is not valid (RFC 8866) or cannot be used here."),
    ("sip.bad_uri", "Not a SIP URI that can be called or registered with."),
    ("sip.bad_argument", "A value given to the SIP stack is out of range."),
    ("sip.bind", "A SIP socket could not be bound. The message has the address and the reason."),
    (
        "sip.call_failed",
        "The peer, or the network, ended a dialled call before it was answered. See `status`.",
    ),
    (
        "sip.offer_refused",
        "The far end refused a new offer (hold, resume, codecs); the session stays as it was. See `status`.",
    ),
    (
        "sip.transfer_failed",
        "The far end refused a transfer, or its new call failed. The call is still up. See `status`.",
    ),
    ("sip.transfer_timeout", "A transfer has not ended in time; what becomes of it is not known."),
    ("sip.dial_timeout", "A dialled call was not answered in time and was cancelled."),
    ("sip.no_rtp_port", "No free pair of UDP ports within rtp_ports for another call."),
    ("sip.rtp_socket", "The system refused an RTP socket, or there is no route to the peer."),
    ("call.gone", "The call has ended, or never was."),
    (
        "media.playout_full",
        "play() would queue more than playout_max_s. Nothing of the chunk was taken.",
    ),
    ("media.bad_rate", "A sampling rate play() cannot resample to the line."),
    ("media.too_many_calls", "max_calls are running."),
    (
        "media.bad_keys",
        "send_dtmf() takes 1 to 64 of the keys 0-9 * # A-D, and nothing else.",
    ),
    (
        "dtmf.not_negotiated",
        "dtmf is \"rtp\" and the peer did not agree on telephone-event. Use \"auto\" to send INFO instead.",
    ),
    (
        "dtmf.interrupted",
        "Not all keys were sent: the call was held, changed or ended in between. Send the rest again.",
    ),
    (
        "dtmf.refused",
        "The peer refused an INFO with a key; `status` says how. Have it offer telephone-event.",
    ),
    ("media.failed", "The media thread or the recorder thread could not be started or reached."),
    ("internal", "A defect of this core. Please report it."),
];

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}; {remedy}")]
pub struct ConfigError {
    /// Field of [`crate::EngineConfig`].
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl ConfigError {
    /// An error about `field`.
    pub fn new(field: &'static str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        ConfigError { field, problem: problem.into(), remedy: remedy.into() }
    }
}

/// Errors of the signalling layer.
#[derive(Debug, thiserror::Error)]
pub enum SignallingError {
    /// The port is taken.
    #[error("{proto} port {addr} is in use by another process; stop it (`ss -lpn 'sport = :{}'` names it) or choose another sip_port", addr.port())]
    PortInUse {
        /// What was to be bound.
        addr: SocketAddr,
        /// "UDP" or "TCP".
        proto: &'static str,
    },
    /// The address is not ours.
    #[error("{addr}: this machine has no such address; set bind to one that `ip address` shows, or to 0.0.0.0")]
    AddressNotAvailable {
        /// What was to be bound.
        addr: SocketAddr,
    },
    /// The system said no.
    #[error("{proto} port {addr}: permission denied; choose a sip_port of 1024 or above, or grant CAP_NET_BIND_SERVICE")]
    PermissionDenied {
        /// What was to be bound.
        addr: SocketAddr,
        /// "UDP" or "TCP".
        proto: &'static str,
    },
    /// The stack or the thread around it did not come up.
    #[error("SIP did not start: {0}")]
    StartFailed(String),
    /// No such call, or no longer.
    #[error("call {0} has ended")]
    CallGone(u64),
    /// Keys may go by RTP only and the peer takes none.
    #[error("call {0}: the peer did not agree on telephone-event; set dtmf to \"auto\" to send keys by INFO")]
    NoTelephoneEvent(u64),
    /// The command channel is full.
    #[error("the command queue of the SIP thread is full; slow down, or spread calls over more processes")]
    Busy,
    /// All RTP ports are in use.
    #[error("no free RTP port pair in {first}-{last}; widen rtp_ports")]
    NoRtpPort {
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
    /// The system refused an RTP socket.
    #[error("RTP socket: {0}; see bind, rtp_ports and the limit of open files")]
    RtpSocket(std::io::Error),
    /// The SIP stack refused.
    #[error("SIP: {0}")]
    Sip(#[from] SipError),
}

impl SignallingError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            SignallingError::PortInUse { .. } => "engine.port_in_use",
            SignallingError::AddressNotAvailable { .. } => "engine.address_not_available",
            SignallingError::PermissionDenied { .. } => "engine.permission_denied",
            SignallingError::StartFailed(_) => "engine.start_failed",
            SignallingError::CallGone(_) => "call.gone",
            SignallingError::NoTelephoneEvent(_) => "dtmf.not_negotiated",
            SignallingError::Busy => "engine.busy",
            SignallingError::NoRtpPort { .. } => "sip.no_rtp_port",
            SignallingError::RtpSocket(_) => "sip.rtp_socket",
            SignallingError::Sip(e) => e.code(),
        }
    }
}

/// Any error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// SIP.
    #[error(transparent)]
    Signalling(#[from] SignallingError),
    /// RTP, play-out, recording.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// Not started, or stopped.
    #[error("the engine is not running; call start() first, and nothing after stop()")]
    NotRunning,
    /// Started twice.
    #[error("the engine was started before; make another one")]
    AlreadyRunning,
}

impl EngineError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            EngineError::Config(_) => "config.invalid",
            EngineError::Signalling(e) => e.code(),
            EngineError::Media(e) => e.code(),
            EngineError::NotRunning => "engine.not_running",
            EngineError::AlreadyRunning => "engine.already_running",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjsip_sys::{CallId, ProbeId, RegId};
    use std::collections::HashSet;

    /// One of each variant of each layer. The matches in `code` are exhaustive, so a new variant has a
    /// code; a new variant that is missing here is found by the count below.
    fn one_of_each() -> Vec<EngineError> {
        let addr = SocketAddr::from(([127, 0, 0, 1], 5060));
        let signalling = [
            SignallingError::PortInUse { addr, proto: "UDP" },
            SignallingError::AddressNotAvailable { addr },
            SignallingError::PermissionDenied { addr, proto: "TCP" },
            SignallingError::StartFailed("x".into()),
            SignallingError::CallGone(1),
            SignallingError::Busy,
            SignallingError::NoTelephoneEvent(1),
            SignallingError::NoRtpPort { first: 1, last: 2 },
            SignallingError::RtpSocket(std::io::Error::from_raw_os_error(24)),
        ];
        let sip = [
            SipError::EndpointExists,
            SipError::NotReady("x"),
            SipError::NoSuchCall(CallId(1)),
            SipError::NoSuchRegistration(RegId(1)),
            SipError::NoSuchProbe(ProbeId(1)),
            SipError::Tls("x".into()),
            SipError::TooManyCalls(1),
            SipError::BadSdp("x".into()),
            SipError::BadUri("x"),
            SipError::BadArgument("x"),
            SipError::Bind { address: addr, reason: "x".into() },
            SipError::Pj { place: "x", status: 1, text: "x".into() },
        ];
        let media = [
            MediaError::Start { what: "x", source: std::io::Error::from_raw_os_error(1) },
            MediaError::TooManyCalls { max: 1 },
            MediaError::CallExists(1),
            MediaError::NoSuchCall(1),
            MediaError::PlayoutFull { call: 1, queued_ms: 1 },
            MediaError::BadRate { rate: 1 },
            MediaError::BadKeys,
            MediaError::Busy,
        ];
        let mut all: Vec<EngineError> = signalling.into_iter().map(EngineError::from).collect();
        all.extend(sip.into_iter().map(|e| SignallingError::from(e).into()));
        all.extend(media.into_iter().map(EngineError::from));
        all.push(ConfigError::new("bind", "x", "y").into());
        all.push(EngineError::NotRunning);
        all.push(EngineError::AlreadyRunning);
        all
    }

    /// Codes that the Python layer raises by itself.
    const PYTHON_ONLY: [&str; 8] = [
        "sip.call_failed",
        "sip.offer_refused",
        "sip.transfer_failed",
        "sip.transfer_timeout",
        "sip.dial_timeout",
        "dtmf.interrupted",
        "dtmf.refused",
        "internal",
    ];

    #[test]
    fn every_code_is_unique_and_documented() {
        let documented: HashSet<_> = CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(documented.len(), CODES.len(), "a code is documented twice");
        for (code, meaning) in CODES {
            assert!(meaning.len() > 15 && meaning.ends_with('.'), "{code}: {meaning}");
        }
        let used: HashSet<_> =
            one_of_each().iter().map(EngineError::code).chain(PYTHON_ONLY).collect();
        assert_eq!(used, documented);
    }

    #[test]
    fn messages_name_place_and_remedy() {
        let addr = SocketAddr::from(([192, 0, 2, 1], 5060));
        let text = EngineError::from(SignallingError::PortInUse { addr, proto: "UDP" }).to_string();
        assert!(
            text.contains("192.0.2.1:5060") && text.contains("choose another sip_port"),
            "{text}"
        );
        for error in one_of_each() {
            assert!(error.to_string().len() > 5, "{error:?}");
        }
    }
}
