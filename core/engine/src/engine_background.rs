// SPDX-License-Identifier: GPL-3.0-or-later
//! What is heard behind the agent.

use crate::engine::Engine;
use crate::error::{EngineError, SignallingError};
use crate::media::Background;

impl Engine {
    /// Another background for a call, or none; see [`crate::media::MediaEngine::set_background`].
    ///
    /// # Errors
    /// `call.gone`, `media.failed`.
    pub fn set_background(
        &self,
        call: u64,
        background: Option<Background>,
    ) -> Result<(), EngineError> {
        let gone = || SignallingError::CallGone(call);
        let tenant = self.tenant().map_err(|_| gone())?;
        tenant.with_media(|m| m.set_background(call, background)).ok_or_else(gone)??;
        Ok(())
    }
}
