// SPDX-License-Identifier: GPL-3.0-or-later
//! The endpoint: PJSIP's user agent on one thread.

use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use crate::error::SipError;
use crate::types::{
    CallId, DialRequest, EndpointConfig, EndpointStats, RegId, Registration, SipEvent,
};

/// Ends a running or the next [`Endpoint::poll`] at once, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker {
    tx: Arc<UnixDatagram>,
}

impl Waker {
    /// Wakes. Never blocks; wakes that pile up are one.
    pub fn wake(&self) {
        // A full socket means that a wake is pending already; a closed one that the endpoint is gone.
        let _ = self.tx.send(&[1]);
    }
}

/// PJSIP's user agent. `!Send`: created, used and dropped on one thread.
pub struct Endpoint {
    _not_send: PhantomData<*const ()>,
}

impl Endpoint {
    /// Starts PJSIP. Errors: [`SipError::EndpointExists`], [`SipError::Pj`].
    pub fn new(_cfg: &EndpointConfig) -> Result<(Endpoint, Waker), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Opens a UDP transport and returns the address it is bound to. `public` is what peers are told instead.
    pub fn add_udp(&mut self, _bind: SocketAddr, _public: Option<IpAddr>) -> Result<SocketAddr, SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Opens a TCP listener and returns the address it is bound to. `public` is what peers are told instead.
    pub fn add_tcp(&mut self, _bind: SocketAddr, _public: Option<IpAddr>) -> Result<SocketAddr, SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Runs the stack until something happened, `timeout` passed or a [`Waker`] woke, and appends to `out`.
    pub fn poll(&mut self, _timeout: Duration, _out: &mut Vec<SipEvent>) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Sends 180 Ringing.
    pub fn ring(&mut self, _call: CallId) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Sets our SDP: the answer to the offer received, or the offer of our 200. Before `answer`; kept for later
    /// re-INVITEs.
    pub fn set_local_sdp(&mut self, _call: CallId, _sdp: &str) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Sends 200 with SDP. Needs `set_local_sdp` first.
    pub fn answer(&mut self, _call: CallId) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Refuses an incoming call with a status of 300..=699. `Ended` follows.
    pub fn reject(&mut self, _call: CallId, _status: u16, _retry_after: Option<u32>) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Ends a call in whatever state it is: BYE, CANCEL or 603. `Ended` follows at once.
    pub fn hangup(&mut self, _call: CallId) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Sends an INVITE with an offer.
    pub fn dial(&mut self, _req: &DialRequest) -> Result<CallId, SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Registers and keeps the binding fresh; each outcome is an event `Registration`.
    pub fn register(&mut self, _req: &Registration) -> Result<RegId, SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Removes the binding. An event `Registration` with `expires_s` 0 follows.
    pub fn unregister(&mut self, _reg: RegId) -> Result<(), SipError> {
        Err(SipError::NotReady("being written"))
    }

    /// Counters since creation.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats::default()
    }

    /// BYE to all calls, unregister, wait a bounded time for answers, destroy.
    pub fn shutdown(self) {}
}
