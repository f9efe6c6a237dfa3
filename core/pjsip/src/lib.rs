// SPDX-License-Identifier: GPL-3.0-or-later
//! The pinned PJSIP behind a narrow C shim, with a safe Rust API.
//!
//! One [`Endpoint`] lives on one thread. The owner calls [`Endpoint::poll`] in a loop and reads what happened as
//! [`SipEvent`]s; a [`Waker`] ends a poll early from any thread. PJSIP does dialogs, transactions, digest,
//! session timers and offer/answer; media is not touched here. All `unsafe` of the workspace outside SIMD
//! kernels is in this crate.

mod check;
mod convert;
mod dialog;
mod dns;
mod endpoint;
mod error;
mod ffi;
mod gate;
mod listen;
mod outward;
mod redact;
mod refuse;
pub mod sdes;
mod sink;
mod slim;
mod types;

pub use check::{header_text as check_header_text, uri as check_uri};
pub use endpoint::{Endpoint, Waker};
pub use error::SipError;
pub use gate::{hash, Credential, Gate, Hash, Origin, Refusal, Request, Verdict};
pub use listen::check_tls;
pub use redact::{redact_text, redact_uri};
pub use types::{
    CallId, Codec, Credentials, DialExtra, DialRequest, Direction, EndpointConfig, EndpointStats,
    Extension, Listen, MediaDescription, Policy, Probe, ProbeId, RegId, Registration, RtcpWay,
    SipEvent, TlsConfig, Transport, FAILOVER,
};
