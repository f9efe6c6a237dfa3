// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys to send, as an application asks for them.

use crate::dtmf::{DtmfMode, DtmfSource, Key};
use crate::engine::Engine;
use crate::error::{EngineError, SignallingError};
use crate::media::MediaError;
use crate::signalling::{next_id, Command};

impl Engine {
    /// Whether [`Engine::send_dtmf`] can be used; else keys go one by one by [`Engine::send_info`].
    ///
    /// # Errors
    /// `dtmf.not_negotiated` when only telephone-event may be used and was not agreed on.
    pub fn dtmf_way(&self, call: u64) -> Result<DtmfSource, EngineError> {
        let agreed = self
            .tenant()
            .ok()
            .and_then(|t| t.with_media(|m| m.sends_events(call)))
            .unwrap_or_default();
        match (self.config.dtmf, agreed) {
            (DtmfMode::Info, _) | (DtmfMode::Auto, false) => Ok(DtmfSource::Info),
            (_, true) => Ok(DtmfSource::Rtp),
            (DtmfMode::Rtp, false) => Err(SignallingError::NoTelephoneEvent(call).into()),
        }
    }

    /// Sends keys as telephone-events; returns the request's number, which `DtmfSent` has when it is
    /// done. Durations are rounded up to 20 ms.
    ///
    /// # Errors
    /// `media.bad_keys`, `call.gone`.
    pub fn send_dtmf(
        &self,
        call: u64,
        keys: &str,
        duration_ms: u32,
        gap_ms: u32,
    ) -> Result<u64, EngineError> {
        let gone = || SignallingError::CallGone(call);
        let tenant = self.tenant().map_err(|_| gone())?;
        let request = next_id();
        tenant
            .with_media(|m| m.send_keys(call, request, keys, duration_ms, gap_ms))
            .ok_or_else(gone)??;
        Ok(request)
    }

    /// Sends one key by SIP INFO (`application/dtmf-relay`); returns the request's number, which
    /// `InfoDone` has with the peer's status.
    ///
    /// # Errors
    /// `media.bad_keys`, `call.gone`, `engine.busy`.
    pub fn send_info(&self, call: u64, key: char, duration_ms: u32) -> Result<u64, EngineError> {
        let key = Key::from_char(key).ok_or(MediaError::BadKeys)?;
        let request = next_id();
        match self.command(Command::Info { call, request, key, duration_ms }) {
            Ok(()) => Ok(request),
            Err(EngineError::NotRunning) => Err(SignallingError::CallGone(call).into()),
            Err(other) => Err(other),
        }
    }
}
