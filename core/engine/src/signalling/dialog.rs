// SPDX-License-Identifier: GPL-3.0-or-later
//! What happens inside of calls: early media, hold, new offers.

use pjsip_sys::{CallId, Codec, Endpoint, SipError, SipEvent};
use zeroize::Zeroizing;

use super::calls::{Call, Calls};
use super::queue::SignalEvent;
use super::srtp::Agreed;
use super::{net, sdp_edit, Tenant};
use crate::error::{EngineError, SignallingError};
use crate::media::clock::now_ns;
use crate::media::Direction;

/// What a new offer of ours changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Hold and resume.
    Direction(Direction),
    /// These codecs only, of those of the engine.
    Codecs(Vec<Codec>),
    /// Nothing but our address, if it is another one by now.
    Address,
}

pub(crate) enum DialogCommand {
    Early(u64),
    Offer { call: u64, change: Change },
    Refer { call: u64, target: String },
    ReferTo { call: u64, other: u64 },
    RefuseTransfer { call: u64, status: u16 },
}

/// What the SIP stack does not keep of a call's dialog.
pub(super) struct Dialog {
    /// Our description, with `a=sendrecv`.
    pub(super) sdp: Zeroizing<String>,
    /// What we want; the peer may allow less.
    wanted: Direction,
    /// Both as they were before the offer that is out.
    before: Option<(Zeroizing<String>, Direction)>,
    /// The peer holds us, as told.
    held: bool,
    /// Answered and acknowledged.
    pub(super) confirmed: bool,
    early_told: bool,
    /// Direction of the early session.
    pub(super) agreed: Option<Direction>,
}

impl Dialog {
    pub(super) fn new(sdp: Zeroizing<String>) -> Dialog {
        Dialog {
            sdp,
            wanted: Direction::SendRecv,
            before: None,
            held: false,
            confirmed: false,
            early_told: false,
            agreed: None,
        }
    }

    /// A new peer begins without hold.
    pub(super) fn restart(&mut self, sdp: Zeroizing<String>) {
        self.sdp = sdp;
        self.wanted = Direction::SendRecv;
        self.before = None;
    }
}

impl Call {
    /// Gives the media thread what was agreed on, and tells early media and hold by the peer.
    pub(super) fn apply(&mut self, id: u64, agreed: Agreed) {
        let direction = agreed.params.direction;
        agreed.start(&self.tenant, id, &mut self.keys);
        if self.dialog.confirmed {
            self.tell_hold(id, direction);
        } else {
            self.dialog.agreed = Some(direction);
        }
    }

    pub(super) fn tell_hold(&mut self, id: u64, agreed: Direction) {
        // Where we do not want to send, the peer's direction says nothing.
        let held = self.dialog.wanted.sends() && !agreed.sends();
        if held != self.dialog.held {
            self.dialog.held = held;
            let at_ns = now_ns();
            self.tenant.tell(if held {
                SignalEvent::Held { call: id, at_ns }
            } else {
                SignalEvent::Resumed { call: id, at_ns }
            });
        }
    }
}

pub(super) fn failed(tenant: &Tenant, call: u64, operation: &'static str, error: SipError) {
    let status = if matches!(error, SipError::BadUri(_)) { 416 } else { 500 };
    let error = EngineError::from(SignallingError::from(error));
    let message = format!("call {call}: {error}");
    let error = Some((error.code(), message));
    tenant.tell(SignalEvent::Done { call, operation, status, error });
}

impl Calls {
    pub(super) fn on_dialog_command(&mut self, endpoint: &mut Endpoint, command: DialogCommand) {
        match command {
            DialogCommand::Early(id) => {
                self.about(id, "early_media", |call| endpoint.early_media(call.sip));
            }
            DialogCommand::Offer { call, change } => self.offer(endpoint, call, &change),
            DialogCommand::Refer { call, target } => {
                self.about(call, "transfer", |call| endpoint.refer(call.sip, &target));
            }
            DialogCommand::ReferTo { call, other } => {
                let sip = self.by_id.get(&other).map_or(CallId(0), |c| c.sip);
                self.about(call, "transfer", |call| endpoint.refer_to(call.sip, sip));
            }
            DialogCommand::RefuseTransfer { call, status } => {
                self.refuse_transfer(endpoint, call, status);
            }
        }
    }

    pub(super) fn on_dialog_event(&mut self, endpoint: &mut Endpoint, event: SipEvent) {
        match event {
            SipEvent::EarlyMedia { call } => self.early_known(call),
            SipEvent::Offered { call, status } => self.offered(endpoint, call, status),
            SipEvent::Referred { call, status, last } => {
                if let Some((id, call)) = self.find(call) {
                    call.tenant.tell(SignalEvent::Transfer { call: id, status, last });
                }
            }
            SipEvent::Refer { call, target, replaces } => {
                self.transfer_asked(endpoint, call, target, replaces);
            }
            SipEvent::Takeover { call, replaced, sip_call_id, from, source } => {
                self.take_over(endpoint, call, replaced, sip_call_id, from, source);
            }
            _ => {}
        }
    }

    /// Runs `f` for a call that lives; its error is told as the outcome of `operation`.
    fn about(
        &self,
        id: u64,
        operation: &'static str,
        f: impl FnOnce(&Call) -> Result<(), SipError>,
    ) {
        // A call that is not known any more has ended, and its end is on the way to the application.
        let Some(call) = self.by_id.get(&id) else { return };
        if let Err(e) = f(call) {
            failed(&call.tenant, id, operation, e);
        }
    }

    /// Media runs before the answer. Of a caller it is known by now that it sends from its own address.
    fn early_known(&mut self, sip: CallId) {
        let Some(id) = self.by_sip.get(&sip).copied() else { return };
        let Some(call) = self.by_id.get_mut(&id) else { return };
        call.unproved = false;
        if let Some(agreed) = call.agreed.take() {
            call.apply(id, agreed);
        }
        if !std::mem::replace(&mut call.dialog.early_told, true) {
            let recording = call.recording.clone();
            call.tenant.tell(SignalEvent::EarlyMedia { call: id, recording });
        }
    }

    fn offer(&mut self, endpoint: &mut Endpoint, id: u64, change: &Change) {
        let Some(call) = self.by_id.get_mut(&id) else { return };
        let config = &call.tenant.config;
        let mut sdp = call.dialog.sdp.clone();
        let mut wanted = call.dialog.wanted;
        match change {
            Change::Direction(direction) => wanted = *direction,
            Change::Codecs(keep) => {
                sdp = sdp_edit::with_codecs(&call.full_sdp, &config.codecs, keep);
            }
            Change::Address => {}
        }
        if let Ok(address) = net::local_towards(config.bind, config.public_address, call.peer) {
            sdp = sdp_edit::with_address(&sdp, address);
        }
        match endpoint.offer(call.sip, &sdp_edit::with_direction(&sdp, wanted)) {
            Ok(()) => {
                let old = std::mem::replace(&mut call.dialog.sdp, sdp);
                let before = (old, std::mem::replace(&mut call.dialog.wanted, wanted));
                call.dialog.before.get_or_insert(before);
            }
            Err(e) => failed(&call.tenant, id, "offer", e),
        }
    }

    fn offered(&mut self, endpoint: &mut Endpoint, sip: CallId, status: u16) {
        let Some(id) = self.by_sip.get(&sip).copied() else { return };
        let Some(call) = self.by_id.get_mut(&id) else { return };
        let before = call.dialog.before.take();
        if let Some((sdp, wanted)) = before.filter(|_| status >= 300) {
            // The session stays as it was, and so do our answers to the peer's offers.
            let _ = endpoint.set_local_sdp(call.sip, &sdp_edit::with_direction(&sdp, wanted));
            call.dialog.sdp = sdp;
            call.dialog.wanted = wanted;
        }
        call.tenant.tell(SignalEvent::Done { call: id, operation: "offer", status, error: None });
    }
}
