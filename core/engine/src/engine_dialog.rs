// SPDX-License-Identifier: GPL-3.0-or-later
//! What the engine does inside of calls.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::signalling::{next_id, Change, Command, Dial, DialogCommand};

impl Engine {
    /// 183 with SDP: audio runs before the answer. Outcome: `EarlyMedia`, or `Done` with an error.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn early_media(&self, call: u64) -> Result<(), EngineError> {
        self.about_call(Command::Dialog(DialogCommand::Early(call)))
    }

    /// Offers the session anew. Outcome: `Done` of `offer`.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn offer(&self, call: u64, change: Change) -> Result<(), EngineError> {
        self.about_call(Command::Dialog(DialogCommand::Offer { call, change }))
    }

    /// Blind transfer to `target`, a SIP URI. Outcome: `Transfer` events, or `Done` of `transfer` with an error.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn transfer(&self, call: u64, target: String) -> Result<(), EngineError> {
        self.about_call(Command::Dialog(DialogCommand::Refer { call, target }))
    }

    /// Attended transfer: the peer of `call` takes our place in `other`. Outcome as of [`Engine::transfer`].
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn transfer_to(&self, call: u64, other: u64) -> Result<(), EngineError> {
        self.about_call(Command::Dialog(DialogCommand::ReferTo { call, other }))
    }

    /// Does not follow the transfer that the peer asked for.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn refuse_transfer(&self, call: u64, status: u16) -> Result<(), EngineError> {
        self.about_call(Command::Dialog(DialogCommand::RefuseTransfer { call, status }))
    }

    /// Calls whom the peer of `call` asked for; returns the new call's id at once. Outcome as of
    /// [`Engine::dial`], told to the peer beside.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn follow_transfer(
        &self,
        call: u64,
        credentials: Option<(String, String)>,
    ) -> Result<u64, EngineError> {
        let new = next_id();
        let dial = Dial {
            call: new,
            uri: String::new(),
            towards: None,
            credentials,
            replaces: None,
            late_offer: false,
            srtp: None,
            from: None,
            proxy: None,
        };
        self.with_running(|tenant, sip| {
            Ok(sip.send(Command::Follow { tenant: tenant.id, call, dial: Box::new(dial) })?)
        })?;
        Ok(new)
    }
}
