// SPDX-License-Identifier: GPL-3.0-or-later
//! What goes out: calls, registrations, probes.

use std::ptr;

use crate::check;
use crate::convert::{addr_to_c, millis, optional};
use crate::endpoint::{credentials_to_c, error, Endpoint};
use crate::error::SipError;
use crate::ffi;
use crate::sink::Ask;
use crate::types::{CallId, Credentials, DialRequest, Probe, ProbeId, RegId, Registration};

const NO_TRANSPORT: SipError =
    SipError::NotReady("no transport leads there; listen on UDP, TCP or TLS first");

impl Endpoint {
    /// Sends an INVITE with an offer, once the host name in it is looked up, to one server after the other until one
    /// answers (RFC 3263). Errors: [`SipError::BadUri`], [`SipError::BadSdp`], [`SipError::TooManyCalls`],
    /// [`SipError::NotReady`] without a transport. With a host name those that concern its address come as `Ended`.
    pub fn dial(&mut self, req: &DialRequest) -> Result<CallId, SipError> {
        check::uri(&req.uri, "the called URI")?;
        req.from.as_deref().map_or(Ok(()), |uri| check::uri(uri, "the From URI"))?;
        req.route.as_deref().map_or(Ok(()), |uri| check::uri(uri, "the route"))?;
        check::sdp(&req.sdp)?;
        let credentials = req.credentials.as_ref().map(credentials_to_c).transpose()?;
        let extra = req.extra.to_c()?;
        let request = ffi::DialRequest {
            uri: ffi::Str::new(&req.uri),
            from: optional(req.from.as_deref()),
            sdp: ffi::Str::new(&req.sdp),
            route: optional(req.route.as_deref()),
            credentials: credentials.as_ref().map_or(ptr::null(), ptr::from_ref),
            group: req.group,
            failover_ms: millis(req.failover),
            extra: &extra,
        };
        let mut call = 0;
        // SAFETY: raw is live until Drop; all text lives over the call, and the shim copies it.
        match unsafe { ffi::vc_dial(self.raw, &request, &mut call) } {
            0 => Ok(CallId(call)),
            ffi::EURI => Err(SipError::BadUri("the called URI, the From URI or the route")),
            ffi::ESTATE => Err(NO_TRANSPORT),
            other => self.done(CallId(call), "dialling", other).map(|()| CallId(call)),
        }
    }

    /// Registers and keeps the binding fresh; each outcome is an event `Registration`. After a failure it tries again,
    /// ever more slowly. Errors: [`SipError::BadUri`], [`SipError::BadArgument`].
    pub fn register(&mut self, req: &Registration) -> Result<RegId, SipError> {
        check::uri(&req.aor, "the address of record")?;
        check::uri(&req.registrar, "the registrar")?;
        req.proxy.as_deref().map_or(Ok(()), |uri| check::uri(uri, "the proxy"))?;
        if !(10..=604_800).contains(&req.expires_s) {
            return Err(SipError::BadArgument("expires_s"));
        }
        if req.retry_first.is_zero() || req.retry_max < req.retry_first {
            return Err(SipError::BadArgument("retry_first"));
        }
        let credentials = credentials_to_c(&req.credentials)?;
        let request = ffi::RegRequest {
            aor: ffi::Str::new(&req.aor),
            registrar: ffi::Str::new(&req.registrar),
            route: optional(req.proxy.as_deref()),
            credentials: &credentials,
            expires: req.expires_s,
            group: req.group,
            failover_ms: millis(req.failover),
            retry_first_ms: millis(req.retry_first),
            retry_max_ms: millis(req.retry_max),
            keepalive_ms: millis(req.keepalive),
        };
        let mut reg = 0;
        // SAFETY: raw is live until Drop; all text lives over the call, and the shim copies it.
        match unsafe { ffi::vc_register(self.raw, &request, &mut reg) } {
            0 => Ok(RegId(reg)),
            ffi::EURI => Err(SipError::BadUri("the address of record, the registrar or the proxy")),
            other => Err(error("registering", other)),
        }
    }

    /// Registers again at once with other credentials, which replace the old ones; the binding stays.
    /// Errors: [`SipError::NoSuchRegistration`], [`SipError::BadArgument`].
    pub fn reregister(&mut self, reg: RegId, credentials: &Credentials) -> Result<(), SipError> {
        let credentials = credentials_to_c(credentials)?;
        // SAFETY: raw is live until Drop; all text lives over the call, and the shim copies it.
        match unsafe { ffi::vc_reregister(self.raw, reg.0, &credentials) } {
            0 => Ok(()),
            ffi::ENOREG => Err(SipError::NoSuchRegistration(reg)),
            other => Err(error("registering again", other)),
        }
    }

    /// Removes the binding. An event `Registration` with `expires_s` 0 follows. Errors: [`SipError::NoSuchRegistration`].
    pub fn unregister(&mut self, reg: RegId) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        match unsafe { ffi::vc_unregister(self.raw, reg.0) } {
            0 => Ok(()),
            ffi::ENOREG => Err(SipError::NoSuchRegistration(reg)),
            other => Err(error("unregistering", other)),
        }
    }

    /// Sends OPTIONS now and at the interval; each round ends in an event `Probe`.
    /// Errors: [`SipError::BadUri`], [`SipError::BadArgument`].
    pub fn probe(&mut self, req: &Probe) -> Result<ProbeId, SipError> {
        check::uri(&req.uri, "the probed URI")?;
        req.from.as_deref().map_or(Ok(()), |uri| check::uri(uri, "the From URI"))?;
        req.proxy.as_deref().map_or(Ok(()), |uri| check::uri(uri, "the proxy"))?;
        if req.interval.is_zero() || req.timeout.is_zero() {
            return Err(SipError::BadArgument("interval"));
        }
        let request = ffi::ProbeRequest {
            uri: ffi::Str::new(&req.uri),
            route: optional(req.proxy.as_deref()),
            from: optional(req.from.as_deref()),
            group: req.group,
            interval_ms: millis(req.interval),
            timeout_ms: millis(req.timeout),
            reserved: 0,
        };
        let mut probe = 0;
        // SAFETY: raw is live until Drop; all text lives over the call, and the shim copies it.
        match unsafe { ffi::vc_probe_start(self.raw, &request, &mut probe) } {
            0 => Ok(ProbeId(probe)),
            ffi::EURI => Err(SipError::BadUri("the probed URI or the proxy")),
            other => Err(error("probing", other)),
        }
    }

    /// No more OPTIONS. Errors: [`SipError::NoSuchProbe`].
    pub fn stop_probe(&mut self, probe: ProbeId) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        match unsafe { ffi::vc_probe_stop(self.raw, probe.0) } {
            0 => Ok(()),
            _ => Err(SipError::NoSuchProbe(probe)),
        }
    }

    /// Hands names to the resolver and its answers to the shim.
    pub(crate) fn resolve(&mut self) {
        loop {
            while let Some(ask) = self.sink.next_ask() {
                match ask {
                    Ask::Resolve { query, host, port, transport } => {
                        self.resolver.start(query, &host, port, transport);
                    }
                    Ask::Blame { server, transport, time } => {
                        self.resolver.blame(server, transport, time);
                    }
                }
            }
            let Some((query, servers)) = self.resolver.next_answer() else { return };
            let servers: Vec<ffi::Addr> = servers.into_iter().map(addr_to_c).collect();
            // SAFETY: raw is live until Drop; servers live over the call.
            unsafe { ffi::vc_resolved(self.raw, query, servers.as_ptr(), servers.len()) };
        }
    }
}
