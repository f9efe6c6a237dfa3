// SPDX-License-Identifier: GPL-3.0-or-later
//! What happens inside of dialogs: early media, new offers, transfers.

use crate::check;
use crate::endpoint::Endpoint;
use crate::error::SipError;
use crate::ffi;
use crate::types::CallId;

/// How far a SIP extension is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// Not at all: peers that require it are refused with 420.
    Off,
    /// When the peer can and asks for it.
    #[default]
    Supported,
    /// Peers that cannot are refused with 421, or refuse us with 420.
    Required,
    /// Also when the peer knows nothing of it. For session timers only; as `Supported` otherwise.
    Always,
}

impl Extension {
    fn to_c(self) -> u8 {
        match self {
            Extension::Off => 0,
            Extension::Supported => 1,
            Extension::Required => 2,
            Extension::Always => 3,
        }
    }
}

/// What is agreed to inside of dialogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Reliable provisional responses (RFC 3262), both roles.
    pub reliable: Extension,
    /// Session timers (RFC 4028), both roles.
    pub timer: Extension,
    /// `Session-Expires` asked for, s; at least `min_se_s`.
    pub session_expires_s: u32,
    /// Least `Session-Expires` taken, s; at least 90 (RFC 4028 §5).
    pub min_se_s: u32,
    /// Whether REFER is taken: 202 and [`SipEvent::Refer`](crate::SipEvent::Refer); else 603.
    pub refer: bool,
    /// Whether INVITE with `Replaces` is taken: [`SipEvent::Takeover`](crate::SipEvent::Takeover); else 403.
    pub replaces: bool,
    /// 3xx answers that one outgoing call follows at most; no target is tried twice.
    pub redirects: u8,
    /// Whether an INVITE too large for UDP (1300 bytes, with room for credentials) is tried over TCP first; when that
    /// fails it goes over UDP (RFC 3261 §18.1.1). Else over UDP at once, with a warning in the log.
    pub large_over_tcp: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            reliable: Extension::Supported,
            timer: Extension::Supported,
            session_expires_s: 1800,
            min_se_s: 90,
            refer: false,
            replaces: true,
            redirects: 3,
            large_over_tcp: false,
        }
    }
}

/// What some outgoing calls have beside the rest of a [`DialRequest`](crate::DialRequest).
#[derive(Clone, Default)]
pub struct DialExtra {
    /// Value of a `Replaces` header, such as a [`SipEvent::Refer`](crate::SipEvent::Refer) brings.
    pub replaces: Option<String>,
    /// Port of ours whose [`Policy`] holds for the call.
    pub port: u16,
    /// INVITE without offer: the peer's 200 has it, our ACK answers from `sdp`.
    pub late_offer: bool,
}

impl DialExtra {
    pub(crate) fn to_c(&self) -> Result<ffi::DialExtra, SipError> {
        let replaces = self.replaces.as_deref().unwrap_or("");
        check::header_text(replaces, "replaces")?;
        Ok(ffi::DialExtra {
            replaces: ffi::Str::new(replaces),
            port: self.port,
            late: u8::from(self.late_offer),
        })
    }
}

impl Endpoint {
    /// Sets what is agreed to in calls by this local port from now on; 0 means ports without one of their own.
    pub fn set_policy(&mut self, port: u16, policy: &Policy) -> Result<(), SipError> {
        let raw = ffi::Policy {
            port,
            reliable: policy.reliable.to_c(),
            timer: policy.timer.to_c(),
            refer: u8::from(policy.refer),
            replaces: u8::from(policy.replaces),
            redirects: policy.redirects,
            large_tcp: u8::from(policy.large_over_tcp),
            session_expires: policy.session_expires_s,
            min_se: policy.min_se_s,
            reserved2: 0,
        };
        // SAFETY: self.raw is live until Drop; the policy lives over the call, and the shim copies it.
        let status = unsafe { ffi::vc_set_policy(self.raw, &raw) };
        self.done(CallId(0), "setting the policy", status)
    }

    /// Sends 183 with SDP to a caller, reliably when the caller can (RFC 3262). `EarlyMedia` follows when the caller has
    /// it. Needs `set_local_sdp` first. Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`] when the call is not
    /// waiting, or has no offer and no 100rel; [`SipError::Pj`] when our SDP does not fit: then `Ended` follows.
    pub fn early_media(&mut self, call: CallId) -> Result<(), SipError> {
        // SAFETY: self.raw is live until Drop.
        self.done(call, "sending 183", unsafe { ffi::vc_early(self.raw, call.0) })
    }

    /// Offers `sdp` anew: by re-INVITE, or by UPDATE before the call is confirmed (RFC 3311). It waits for other
    /// exchanges to end, and after 491 for the time of RFC 3261 §14.1. `Offered` follows, after a `Media` when it was
    /// taken. Later offers of the peer are answered from `sdp` too.
    /// Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`] while another one is out, [`SipError::BadSdp`].
    pub fn offer(&mut self, call: CallId, sdp: &str) -> Result<(), SipError> {
        check::sdp(sdp)?;
        // SAFETY: self.raw is live until Drop; the text lives over the call, and the shim copies it.
        let status = unsafe { ffi::vc_offer(self.raw, call.0, ffi::Str::new(sdp)) };
        self.done(call, "offering", status)
    }

    /// Asks the peer to call `target` instead of us (blind transfer, RFC 3515). `Referred` events follow.
    /// Errors: [`SipError::NoSuchCall`], [`SipError::BadUri`], [`SipError::NotReady`].
    pub fn refer(&mut self, call: CallId, target: &str) -> Result<(), SipError> {
        check::uri(target, "the target of the transfer")?;
        // SAFETY: self.raw is live until Drop; the text lives over the call, and the shim copies it.
        let status = unsafe { ffi::vc_refer(self.raw, call.0, ffi::Str::new(target)) };
        self.done(call, "transferring", status)
    }

    /// Asks the peer of `call` to take our place in `other` (attended transfer, RFC 5589 §7). `Referred` events follow
    /// for `call`. Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`] unless both calls are confirmed.
    pub fn refer_to(&mut self, call: CallId, other: CallId) -> Result<(), SipError> {
        // SAFETY: self.raw is live until Drop.
        let status = unsafe { ffi::vc_refer_to(self.raw, call.0, other.0) };
        self.done(call, "transferring", status)
    }

    /// Tells the peer how far the transfer has come that it asked for in `call`; 200 and above is the end of it.
    /// Errors: [`SipError::NoSuchCall`] when there is none, or the peer does not want to know any more.
    pub fn refer_status(&mut self, call: CallId, status: u16) -> Result<(), SipError> {
        if !(100..=699).contains(&status) {
            return Err(SipError::BadArgument("status"));
        }
        // SAFETY: self.raw is live until Drop.
        let result = unsafe { ffi::vc_refer_status(self.raw, call.0, u32::from(status)) };
        self.done(call, "telling a transfer's state", result)
    }
}
