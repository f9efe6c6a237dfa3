// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls: placed, answered, ended, and what is played in them.

use std::net::IpAddr;

use crate::engine::Engine;
use crate::error::{EngineError, SignallingError};
use crate::media::CallStats;
use crate::signalling::{next_id, Command, Dial, SrtpMode};

/// A call to place. Personal data and a password: no `Debug`.
pub struct DialParams {
    /// Request-URI.
    pub uri: String,
    /// An address of the peer, to choose our own address in the SDP by; `None`: the one that routes to where its name leads.
    pub towards: Option<IpAddr>,
    /// User name and password for digest authentication.
    pub credentials: Option<(String, String)>,
    /// INVITE without offer: the peer makes it.
    pub late_offer: bool,
    /// SRTP of this call; `None` is as configured.
    pub srtp: Option<SrtpMode>,
    /// Our address of record for `From`; `None`: the one registered under the user name, else our address.
    pub from: Option<String>,
    /// Outbound proxy, such as `sip:proxy.example.com;transport=tls`.
    pub proxy: Option<String>,
}

impl Engine {
    /// 180 Ringing. Like all commands about a call that has ended or ends with its engine, it does nothing then.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn ring(&self, call: u64) -> Result<(), EngineError> {
        self.about_call(Command::Ring(call))
    }

    /// 200 OK. Outcome: `Confirmed`, or `Failed`, or `Ended`.
    ///
    /// # Errors
    /// `call.gone` when the engine does not run, `engine.busy`.
    pub fn answer(&self, call: u64) -> Result<(), EngineError> {
        match self.command(Command::Answer(call)) {
            Err(EngineError::NotRunning) => Err(SignallingError::CallGone(call).into()),
            other => other,
        }
    }

    /// Refuses with a status of 400 to 699.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn reject(
        &self,
        call: u64,
        status: u16,
        retry_after: Option<u32>,
    ) -> Result<(), EngineError> {
        self.about_call(Command::Reject { call, status, retry_after })
    }

    /// Ends a call. A call that has ended is ignored.
    ///
    /// # Errors
    /// `engine.busy`.
    pub fn hangup(&self, call: u64) -> Result<(), EngineError> {
        self.about_call(Command::Hangup(call))
    }

    /// Places a call; returns its id at once. Outcome: `Progress`, `Confirmed`, or `Failed` and `Ended`.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn dial(&self, params: DialParams) -> Result<u64, EngineError> {
        let call = next_id();
        let DialParams { uri, towards, credentials, late_offer, from, proxy, srtp } = params;
        self.with_running(|tenant, sip| {
            let replaces = None;
            let dial = Box::new(Dial {
                call,
                uri,
                towards,
                credentials,
                replaces,
                late_offer,
                from,
                proxy,
                srtp,
            });
            Ok(sip.send(Command::Dial { tenant: tenant.id, dial })?)
        })?;
        Ok(call)
    }

    /// See [`MediaEngine::play`]. Resamples in the calling thread.
    ///
    /// # Errors
    /// `media.playout_full`, `media.bad_rate`, `call.gone`.
    pub fn play(&self, call: u64, pcm: &[u8], rate: u32, turn: u64) -> Result<(), EngineError> {
        let gone = || SignallingError::CallGone(call);
        let tenant = self.tenant().map_err(|_| gone())?;
        tenant.with_media(|m| m.play(call, pcm, rate, turn)).ok_or_else(gone)??;
        Ok(())
    }

    /// No more audio of `turn`.
    pub fn finish(&self, call: u64, turn: u64) {
        if let Ok(tenant) = self.tenant() {
            tenant.with_media(|m| m.finish(call, turn));
        }
    }

    /// Cuts `turn`, or all, within one tick.
    pub fn clear(&self, call: u64, turn: Option<u64>) {
        if let Ok(tenant) = self.tenant() {
            tenant.with_media(|m| m.clear(call, turn));
        }
    }

    /// Counters of one call; `None` once it has ended.
    pub fn call_stats(&self, call: u64) -> Option<CallStats> {
        self.tenant().ok()?.with_media(|m| m.call_stats(call)).flatten()
    }
}
