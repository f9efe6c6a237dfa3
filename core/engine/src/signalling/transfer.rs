// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that take the place of others: by a REFER of the peer, which the application follows, and by an
//! INVITE with Replaces, which takes over a call of ours at once.

use std::net::SocketAddr;

use pjsip_sys::{redact_text, CallId, Endpoint};
use zeroize::Zeroizing;

use super::calls::Calls;
use super::queue::{LogLevel, SignalEvent};
use super::srtp::Agreed;
use super::thread::Attached;
use super::{net, sdp_edit, Dial};

/// Transfers that peers asked for, and the calls out that follow them.
#[derive(Default)]
pub(super) struct Transfers {
    asked: Vec<Asked>,
    /// The call out, and the stack's id of the call it was asked for in.
    follows: Vec<(u64, CallId)>,
    takeovers: Vec<Takeover>,
}

/// Personal data: no `Debug`.
struct Asked {
    call: u64,
    sip: CallId,
    target: String,
    replaces: Option<String>,
}

/// An INVITE with Replaces that was answered and waits for its ACK. Personal data: no `Debug`.
struct Takeover {
    call: u64,
    sip: CallId,
    agreed: Option<Agreed>,
    sip_call_id: String,
    from: String,
    source: SocketAddr,
    sdp: Zeroizing<String>,
}

impl Transfers {
    fn take_asked(&mut self, call: u64) -> Option<Asked> {
        let at = self.asked.iter().position(|asked| asked.call == call)?;
        Some(self.asked.swap_remove(at))
    }

    fn takeover(&mut self, sip: CallId) -> Option<&mut Takeover> {
        self.takeovers.iter_mut().find(|t| t.sip == sip)
    }

    fn takeover_of(&self, call: u64) -> Option<CallId> {
        self.takeovers.iter().find(|t| t.call == call).map(|t| t.sip)
    }
}

impl Calls {
    pub(super) fn transfer_asked(
        &mut self,
        endpoint: &mut Endpoint,
        sip: CallId,
        target: String,
        replaces: Option<String>,
    ) {
        let Some((id, call)) = self.find(sip) else {
            let _ = endpoint.refer_status(sip, 481);
            return;
        };
        call.tenant.tell(SignalEvent::TransferRequested { call: id, target: target.clone() });
        self.transfers.asked.push(Asked { call: id, sip, target, replaces });
    }

    pub(super) fn refuse_transfer(&mut self, endpoint: &mut Endpoint, call: u64, status: u16) {
        if let Some(asked) = self.transfers.take_asked(call) {
            let _ = endpoint.refer_status(asked.sip, status);
        }
    }

    /// Calls whom the peer of `call` asked for; its progress goes back there as NOTIFY.
    pub(super) fn follow(
        &mut self,
        endpoint: &mut Endpoint,
        attached: &Attached,
        call: u64,
        mut dial: Dial,
    ) {
        if let Some(asked) = self.transfers.take_asked(call) {
            dial.uri = asked.target;
            dial.replaces = asked.replaces;
            self.transfers.follows.push((dial.call, asked.sip));
        }
        // Without a request the URI is empty, which fails with its own error.
        self.dial(endpoint, attached, dial, None);
    }

    /// Tells the one who asked for a transfer how far its call has come.
    pub(super) fn tell_referrer(&mut self, endpoint: &mut Endpoint, call: u64, status: u16) {
        let Some(at) = self.transfers.follows.iter().position(|(id, _)| *id == call) else {
            return;
        };
        if let Some((_, sip)) = self.transfers.follows.get(at) {
            // It may not want to know any more.
            let _ = endpoint.refer_status(*sip, status);
        }
        if status >= 200 {
            self.transfers.follows.swap_remove(at);
        }
    }

    /// A call is over: nobody will follow what was asked for in it.
    pub(super) fn drop_asked(&mut self, endpoint: &mut Endpoint, call: u64) {
        self.refuse_transfer(endpoint, call, 603);
    }

    /// INVITE with Replaces (RFC 3891): answered at once with the media of the call it names. That call goes on
    /// until the ACK proves the new peer.
    pub(super) fn take_over(
        &mut self,
        endpoint: &mut Endpoint,
        sip: CallId,
        replaced: CallId,
        sip_call_id: String,
        from: String,
        source: SocketAddr,
    ) {
        let Some((id, call)) = self.find(replaced) else {
            let _ = endpoint.reject(sip, 481, None);
            return;
        };
        if self.transfers.takeover_of(id).is_some() {
            let _ = endpoint.reject(sip, 486, None);
            return;
        }
        let config = &call.tenant.config;
        let mut sdp = call.full_sdp.clone();
        if let Ok(address) =
            net::local_towards(config.bind, config.public_address, Some(source.ip()))
        {
            sdp = sdp_edit::with_address(&sdp, address);
        }
        let Ok(crypto) = call.srtp.lines() else {
            let _ = endpoint.reject(sip, 500, None);
            return;
        };
        sdp = sdp_edit::with_keys(&sdp, &crypto);
        let answered = endpoint.set_local_sdp(sip, &sdp).and_then(|()| endpoint.answer(sip));
        if let Err(e) = answered {
            call.tenant.log(LogLevel::Warning, format!("call {id}: not taken over: {e}"));
            let _ = endpoint.reject(sip, 488, None);
            return;
        }
        self.transfers.takeovers.push(Takeover {
            call: id,
            sip,
            agreed: None,
            sip_call_id,
            from,
            source,
            sdp,
        });
    }

    /// Keeps what was agreed when `sip` is such an INVITE, else gives it back.
    pub(super) fn takeover_media(&mut self, sip: CallId, agreed: Agreed) -> Option<Agreed> {
        match self.transfers.takeover(sip) {
            Some(takeover) => {
                takeover.agreed = Some(agreed);
                None
            }
            None => Some(agreed),
        }
    }

    /// The ACK: the call changes its peer, and the old one gets BYE or CANCEL.
    pub(super) fn takeover_confirmed(&mut self, endpoint: &mut Endpoint, sip: CallId) -> bool {
        let Some(at) = self.transfers.takeovers.iter().position(|t| t.sip == sip) else {
            return false;
        };
        let takeover = self.transfers.takeovers.swap_remove(at);
        let id = takeover.call;
        let Some(call) = self.by_id.get_mut(&id) else {
            let _ = endpoint.hangup(sip);
            return true;
        };
        let old = std::mem::replace(&mut call.sip, sip);
        if self.by_sip.remove(&old).is_some() {
            let _ = endpoint.hangup(old);
        }
        self.by_sip.insert(sip, id);
        call.full_sdp.clone_from(&takeover.sdp);
        call.dialog.restart(takeover.sdp);
        call.peer = Some(takeover.source.ip());
        call.unproved = false;
        let first = !std::mem::replace(&mut call.dialog.confirmed, true);
        if first {
            let recording = call.recording.clone();
            call.tenant.tell(SignalEvent::Confirmed { call: id, recording });
        }
        call.tenant.log(LogLevel::Info, format!("call {id}: taken over by {}", takeover.source));
        call.tenant.tell(SignalEvent::Replaced {
            call: id,
            sip_call_id: takeover.sip_call_id,
            from: takeover.from,
            source: takeover.source.to_string(),
        });
        if let Some(agreed) = takeover.agreed {
            call.apply(id, agreed);
        }
        true
    }

    /// The new peer left before its ACK: the old call goes on. True when `sip` was a take-over.
    pub(super) fn takeover_ended(&mut self, sip: CallId, reason: &str) -> bool {
        let Some(at) = self.transfers.takeovers.iter().position(|t| t.sip == sip) else {
            return false;
        };
        let takeover = self.transfers.takeovers.swap_remove(at);
        match self.by_id.get(&takeover.call) {
            // Its old peer has left meanwhile, and nobody else is there.
            Some(call) if !self.by_sip.contains_key(&call.sip) => {
                self.over(takeover.call, 481, reason, true);
            }
            Some(call) => {
                let text = redact_text(reason);
                let message = format!("call {}: not taken over: {text}", takeover.call);
                call.tenant.log(LogLevel::Warning, message);
            }
            None => {}
        }
        true
    }

    /// The old peer left while the new one is about to confirm: the call waits for that.
    pub(super) fn waits_for_takeover(&mut self, sip: CallId) -> bool {
        let Some(id) = self.by_sip.get(&sip).copied() else { return false };
        if self.transfers.takeover_of(id).is_none() {
            return false;
        }
        self.by_sip.remove(&sip);
        true
    }

    /// The application hangs up: so does whoever is about to take the call over.
    pub(super) fn hangup_takeover(&mut self, endpoint: &mut Endpoint, id: u64) {
        if let Some(sip) = self.transfers.takeover_of(id) {
            self.transfers.takeovers.retain(|t| t.sip != sip);
            let _ = endpoint.hangup(sip);
        }
    }
}
