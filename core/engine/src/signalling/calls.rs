// SPDX-License-Identifier: GPL-3.0-or-later
//! The calls of the SIP thread: between the stack's dialogs and the media threads.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjsip_sys::sdes::SrtpKeys;
use pjsip_sys::{
    CallId, Credentials, DialExtra, DialRequest, Endpoint, MediaDescription, SipError,
};

use zeroize::{Zeroize, Zeroizing};

use super::dialog::Dialog;
use super::prepare::{fail, params, prepare, refuse, status_of, Prepared};
use super::queue::{LogLevel, SignalEvent};
use super::srtp::{Agreed, Srtp, SrtpMode};
use super::thread::Attached;
use super::transfer::Transfers;
use super::{next_id, Dial, Tenant};
use crate::error::{EngineError, SignallingError};
use crate::media::MediaEngine;

/// How long a 200 waits for its ACK, 64·T1 (RFC 3261 section 13.3.1.4); then the call gives its place free and its BYE goes
/// out behind it.
const ACK_WAIT: Duration = Duration::from_secs(32);

pub(super) struct Call {
    pub(super) sip: CallId,
    pub(super) tenant: Arc<Tenant>,
    pub(super) recording: Option<PathBuf>,
    /// A call that came in and whose ACK has not: a 200 alone sends no media, for the SDP may name a
    /// victim whose address the caller forged.
    pub(super) unproved: bool,
    /// What the SDP agreed on before the ACK.
    pub(super) agreed: Option<Agreed>,
    /// Whether media is encrypted.
    pub(super) srtp: SrtpMode,
    /// Keys in force.
    pub(super) keys: Option<Box<SrtpKeys>>,
    /// When the 200 went out.
    answered: Option<Instant>,
    /// Where the peer's signalling comes from, or goes to.
    pub(super) peer: Option<IpAddr>,
    /// Our description with all codecs.
    pub(super) full_sdp: Zeroizing<String>,
    pub(super) dialog: Dialog,
}

impl Call {
    fn new(
        sip: CallId,
        tenant: &Arc<Tenant>,
        prepared: Prepared,
        came_in: bool,
        peer: Option<IpAddr>,
    ) -> Call {
        let Prepared { sdp, recording, srtp } = prepared;
        Call {
            sip,
            tenant: Arc::clone(tenant),
            recording,
            unproved: came_in,
            agreed: None,
            keys: None,
            srtp,
            answered: None,
            peer,
            full_sdp: sdp.clone(),
            dialog: Dialog::new(sdp),
        }
    }
}

#[derive(Default)]
pub(super) struct Calls {
    pub(super) by_id: HashMap<u64, Call>,
    pub(super) by_sip: HashMap<CallId, u64>,
    pub(super) transfers: Transfers,
}

impl Calls {
    /// Prepares a call that came in and tells of it, or refuses it.
    pub(super) fn incoming(
        &mut self,
        endpoint: &mut Endpoint,
        attached: &Attached,
        sip: CallId,
        (source, has_offer): (SocketAddr, bool),
        event: impl FnOnce(u64) -> SignalEvent,
    ) {
        let tenant = &attached.tenant;
        let id = next_id();
        let full = tenant.calls_active.load(Ordering::Relaxed) >= tenant.config.max_calls;
        if full || attached.is_leaving() || tenant.events.is_full() {
            let why =
                if full { "max_calls are up" } else { "the application is behind or stopping" };
            refuse(endpoint, tenant, sip, 503, why);
            return;
        }
        let mode = tenant.srtp.of(Some(source.ip())).unwrap_or(tenant.config.srtp);
        let prepared =
            prepare(tenant, id, Some(source.ip()), mode, has_offer).and_then(|prepared| {
                endpoint.set_local_sdp(sip, &prepared.sdp).map_err(SignallingError::from)?;
                Ok(prepared)
            });
        match prepared {
            Ok(prepared) => {
                self.insert(id, Call::new(sip, tenant, prepared, true, Some(source.ip())));
                tenant.tell(event(id));
            }
            Err(e) => {
                tenant.with_media(|m| m.remove_call(id));
                let status = if matches!(e, EngineError::Signalling(SignallingError::Sip(_))) {
                    488
                } else {
                    503
                };
                refuse(endpoint, tenant, sip, status, &e.to_string());
            }
        }
    }

    /// Calls out. What goes wrong is told as `Failed` and `Ended`.
    pub(super) fn dial(
        &mut self,
        endpoint: &mut Endpoint,
        attached: &Attached,
        dial: Dial,
        from: Option<String>,
    ) {
        let tenant = &attached.tenant;
        let id = dial.call;
        let full = tenant.calls_active.load(Ordering::Relaxed) >= tenant.config.max_calls;
        let dialled = if full || attached.is_leaving() {
            Err(SignallingError::Sip(SipError::TooManyCalls(tenant.config.max_calls)).into())
        } else {
            let mode = dial.srtp.or(tenant.srtp.of(dial.towards)).unwrap_or(tenant.config.srtp);
            prepare(tenant, id, dial.towards, mode, dial.late_offer).and_then(|prepared| {
                let credentials = dial.credentials.map(|(username, password)| Credentials {
                    realm: "*".to_owned(),
                    username,
                    password,
                });
                let extra = DialExtra {
                    replaces: dial.replaces,
                    port: attached.sockets.address.port(),
                    late_offer: dial.late_offer,
                };
                let mut request = DialRequest {
                    uri: dial.uri,
                    from,
                    sdp: prepared.sdp.to_string(),
                    credentials,
                    route: dial.proxy,
                    group: attached.sockets.group,
                    extra,
                    ..DialRequest::default()
                };
                let dialled = endpoint.dial(&request);
                request.sdp.zeroize();
                Ok((dialled.map_err(SignallingError::from)?, prepared))
            })
        };
        match dialled {
            Ok((sip, prepared)) => {
                self.insert(id, Call::new(sip, tenant, prepared, false, dial.towards));
            }
            Err(e) => {
                tenant.with_media(|m| m.remove_call(id));
                self.tell_referrer(endpoint, id, status_of(&e));
                fail(tenant, id, &e);
                tenant.tell(SignalEvent::Ended {
                    call: id,
                    status: status_of(&e),
                    reason: "not sent".to_owned(),
                    by_remote: false,
                    in_media: false,
                });
            }
        }
    }

    pub(super) fn ring(&mut self, endpoint: &mut Endpoint, id: u64) {
        if let Some(call) = self.by_id.get(&id) {
            if let Err(e) = endpoint.ring(call.sip) {
                call.tenant.log(LogLevel::Debug, format!("call {id}: ring: {e}"));
            }
        }
    }

    pub(super) fn answer(&mut self, endpoint: &mut Endpoint, id: u64) {
        // A call that is not known any more has ended, and its end is on the way to the application.
        let Some(call) = self.by_id.get_mut(&id) else { return };
        call.answered.get_or_insert_with(Instant::now);
        if let Err(e) = endpoint.answer(call.sip) {
            fail(&call.tenant, id, &SignallingError::from(e).into());
            let _ = endpoint.hangup(call.sip);
        }
    }

    pub(super) fn reject(
        &mut self,
        endpoint: &mut Endpoint,
        id: u64,
        status: u16,
        retry_after: Option<u32>,
    ) {
        let Some(call) = self.by_id.get(&id) else { return };
        if endpoint.reject(call.sip, status, retry_after).is_err() {
            // Answered before: a refusal is a hang-up now.
            let _ = endpoint.hangup(call.sip);
        }
    }

    pub(super) fn hangup(&mut self, endpoint: &mut Endpoint, id: u64) {
        self.hangup_takeover(endpoint, id);
        let Some(call) = self.by_id.get(&id) else { return };
        if !self.by_sip.contains_key(&call.sip) {
            // Its peer had left, and who was to take over was just sent away.
            self.over(id, 200, "hung up", false);
        } else if let Err(e) = endpoint.hangup(call.sip) {
            call.tenant.log(LogLevel::Warning, format!("call {id}: hang-up: {e}"));
        }
    }

    /// Ends calls whose ACK does not come.
    pub(super) fn end_unacknowledged(&mut self, endpoint: &mut Endpoint) {
        let late = |call: &&Call| {
            !call.dialog.confirmed && call.answered.is_some_and(|at| at.elapsed() >= ACK_WAIT)
        };
        for call in self.by_id.values().filter(late) {
            call.tenant.log(LogLevel::Info, "a call got no ACK and is given up".to_owned());
            let _ = endpoint.hangup(call.sip);
        }
    }

    pub(super) fn hangup_all(&mut self, endpoint: &mut Endpoint, tenant: u64) {
        let theirs = |(_, call): &(&u64, &Call)| call.tenant.id == tenant;
        let ids: Vec<u64> = self.by_id.iter().filter(theirs).map(|(id, _)| *id).collect();
        for id in ids {
            self.hangup(endpoint, id);
        }
    }

    pub(super) fn has_any(&self, tenant: u64) -> bool {
        self.by_id.values().any(|c| c.tenant.id == tenant)
    }

    /// Ends, for the application, what the stack did not end in time.
    pub(super) fn forget_all(&mut self, tenant: u64) {
        let left: Vec<(u64, CallId)> = self
            .by_id
            .iter()
            .filter(|(_, c)| c.tenant.id == tenant)
            .map(|(id, c)| (*id, c.sip))
            .collect();
        for (id, sip) in left {
            self.by_sip.remove(&sip);
            self.over(id, 408, "engine stopped", false);
        }
    }

    pub(super) fn progress(&mut self, endpoint: &mut Endpoint, sip: CallId, status: u16) {
        if let Some((id, call)) = self.find(sip) {
            call.tenant.tell(SignalEvent::Progress { call: id, status });
            self.tell_referrer(endpoint, id, status);
        }
    }

    pub(super) fn media(&mut self, sip: CallId, media: &MediaDescription, srtp: Srtp) {
        let agreed = Agreed { params: params(media), srtp };
        let Some(mut agreed) = self.takeover_media(sip, agreed) else { return };
        let Some(id) = self.by_sip.get(&sip).copied() else { return };
        let Some(call) = self.by_id.get_mut(&id) else { return };
        // Of a call to a name it was not known before.
        if !media.remote_rtp.ip().is_unspecified() {
            call.peer.get_or_insert(media.remote_rtp.ip());
        }
        agreed.params.signalling = call.peer;
        if call.unproved {
            call.agreed = Some(agreed);
        } else {
            call.apply(id, agreed);
        }
    }

    pub(super) fn confirmed(&mut self, endpoint: &mut Endpoint, sip: CallId) {
        if self.takeover_confirmed(endpoint, sip) {
            return;
        }
        let Some(id) = self.by_sip.get(&sip).copied() else { return };
        let Some(call) = self.by_id.get_mut(&id) else { return };
        call.unproved = false;
        call.dialog.confirmed = true;
        // Media first: who hears of the answer may speak.
        let agreed = call.agreed.take();
        let direction = agreed.as_ref().map(|a| a.params.direction).or(call.dialog.agreed);
        if let Some(agreed) = agreed {
            agreed.start(&call.tenant, id, &mut call.keys);
        }
        call.tenant.with_media(|m: &MediaEngine| m.answered(id));
        call.tenant.tell(SignalEvent::Confirmed { call: id, recording: call.recording.clone() });
        if let Some(direction) = direction {
            call.tell_hold(id, direction);
        }
        self.tell_referrer(endpoint, id, 200);
    }

    pub(super) fn ended(
        &mut self,
        endpoint: &mut Endpoint,
        sip: CallId,
        status: u16,
        reason: &str,
        by_remote: bool,
    ) {
        if self.takeover_ended(sip, reason) || self.waits_for_takeover(sip) {
            return;
        }
        let Some(id) = self.by_sip.remove(&sip) else { return };
        self.drop_asked(endpoint, id);
        // A call that was up has told its referrer already.
        self.tell_referrer(endpoint, id, if status < 300 { 487 } else { status });
        self.over(id, status, reason, by_remote);
    }

    pub(super) fn over(&mut self, id: u64, status: u16, reason: &str, by_remote: bool) {
        let Some(call) = self.by_id.remove(&id) else { return };
        call.tenant.calls_active.fetch_sub(1, Ordering::Relaxed);
        let reason = reason.to_owned();
        // In this order: when the media thread's last event is fetched, this one is there already.
        call.tenant.tell(SignalEvent::Ended {
            call: id,
            status,
            reason,
            by_remote,
            in_media: true,
        });
        call.tenant.with_media(|m| m.remove_call(id));
    }

    pub(super) fn tenant_of(&self, id: u64) -> Option<(CallId, &Tenant)> {
        self.by_id.get(&id).map(|call| (call.sip, &*call.tenant))
    }

    pub(super) fn tenant_by(&self, sip: CallId) -> Option<(u64, &Tenant)> {
        self.find(sip).map(|(id, call)| (id, &*call.tenant))
    }

    fn insert(&mut self, id: u64, call: Call) {
        call.tenant.calls_active.fetch_add(1, Ordering::Relaxed);
        call.tenant.calls_total.fetch_add(1, Ordering::Relaxed);
        self.by_sip.insert(call.sip, id);
        self.by_id.insert(id, call);
    }

    pub(super) fn find(&self, sip: CallId) -> Option<(u64, &Call)> {
        let id = *self.by_sip.get(&sip)?;
        Some((id, self.by_id.get(&id)?))
    }
}
