// SPDX-License-Identifier: GPL-3.0-or-later
//! How callers are heard.

use crate::config_signal::check;
use crate::engine::Engine;
use crate::error::{EngineError, SignallingError};
use crate::media::{Delivery, ListenChange};

impl Engine {
    /// Hears a call's caller in another way; see [`crate::media::MediaEngine::listen`].
    ///
    /// # Errors
    /// `config.invalid`, `call.gone`, `media.failed`.
    pub fn listen(&self, call: u64, change: ListenChange) -> Result<(), EngineError> {
        if let Some(chunk_ms) = change.chunk_ms {
            check(&Delivery { chunk_ms, ..Delivery::default() })?;
        }
        let gone = || SignallingError::CallGone(call);
        let tenant = self.tenant().map_err(|_| gone())?;
        tenant.with_media(|m| m.listen(call, change)).ok_or_else(gone)??;
        Ok(())
    }
}
