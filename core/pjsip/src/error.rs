// SPDX-License-Identifier: GPL-3.0-or-later
//! One error enum for the whole crate.

use std::fmt;
use std::net::SocketAddr;

use crate::types::{CallId, ProbeId, RegId};

/// Why a call into this crate failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SipError {
    /// PJSIP keeps its user agent in process-wide state: one endpoint at a time.
    EndpointExists,
    /// Not in a state for it (for example no SDP set before `answer`).
    NotReady(&'static str),
    /// The call is over or never existed.
    NoSuchCall(CallId),
    /// The registration is gone or never existed.
    NoSuchRegistration(RegId),
    /// The probe is gone or never existed.
    NoSuchProbe(ProbeId),
    /// A file of TLS cannot be used. Holds which and why.
    Tls(String),
    /// `max_calls` are up.
    TooManyCalls(usize),
    /// The SDP text is not valid (RFC 8866) or cannot be used here.
    BadSdp(String),
    /// The text is not a usable SIP URI. Holds what it was meant for, never the URI.
    BadUri(&'static str),
    /// A value out of range. Holds which one.
    BadArgument(&'static str),
    /// A socket could not be bound.
    Bind {
        /// Address asked for.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// A status of PJSIP's own, with the place where it came up.
    Pj {
        /// What was being done.
        place: &'static str,
        /// `pj_status_t`.
        status: i32,
        /// PJSIP's text for it.
        text: String,
    },
}

impl SipError {
    /// Stable code, for callers that map errors.
    pub fn code(&self) -> &'static str {
        match self {
            SipError::EndpointExists => "sip.endpoint_exists",
            SipError::NotReady(_) => "sip.not_ready",
            SipError::NoSuchCall(_) => "sip.no_such_call",
            SipError::NoSuchRegistration(_) => "sip.no_such_registration",
            SipError::NoSuchProbe(_) => "sip.no_such_probe",
            SipError::Tls(_) => "sip.tls",
            SipError::TooManyCalls(_) => "sip.too_many_calls",
            SipError::BadSdp(_) => "sip.bad_sdp",
            SipError::BadUri(_) => "sip.bad_uri",
            SipError::BadArgument(_) => "sip.bad_argument",
            SipError::Bind { .. } => "sip.bind",
            SipError::Pj { .. } => "sip.pj",
        }
    }
}

impl fmt::Display for SipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SipError::EndpointExists => {
                f.write_str("a SIP endpoint exists in this process already; shut it down first")
            }
            SipError::NotReady(what) => write!(f, "not possible now: {what}"),
            SipError::NoSuchCall(call) => write!(f, "call {call} is over or never existed"),
            SipError::NoSuchRegistration(reg) => {
                write!(f, "registration {reg} is gone or never existed")
            }
            SipError::NoSuchProbe(probe) => write!(f, "probe {probe} is gone or never existed"),
            SipError::Tls(why) => write!(f, "TLS: {why}"),
            SipError::TooManyCalls(max) => {
                write!(f, "{max} calls are up, which is the limit; raise max_calls or wait")
            }
            SipError::BadSdp(why) => write!(f, "SDP refused: {why}"),
            SipError::BadUri(which) => {
                write!(f, "{which} is not a SIP URI; expected something like sip:user@host:5060")
            }
            SipError::BadArgument(which) => write!(f, "{which} is out of range"),
            SipError::Bind { address, reason } => {
                write!(f, "cannot bind SIP to {address}: {reason}; choose another address or port")
            }
            SipError::Pj { place, status, text } => write!(f, "{place}: {text} ({status})"),
        }
    }
}

impl std::error::Error for SipError {}
