// SPDX-License-Identifier: GPL-3.0-or-later
//! What [`MediaEngine`] is told about the answer of a call, and keys to send.

use super::dtmf::Keys;
use super::shard::Command;
use super::{MediaEngine, MediaError};

impl MediaEngine {
    /// The call is answered: from now on the peer's silence counts. Unknown calls are ignored.
    pub fn answered(&self, call: u64) {
        if let Some(known) = self.known(call) {
            let place = known.seat.place;
            let _ = self.command(known.seat, Command::Answered { place, call });
        }
    }

    /// Whether keys can go to the peer as telephone-events.
    pub fn sends_events(&self, call: u64) -> bool {
        self.known(call).is_some_and(|known| known.events())
    }

    /// Sends keys as telephone-events; [`crate::events::MediaEvent::DtmfSent`] with the request
    /// follows.
    ///
    /// # Errors
    /// [`MediaError::BadKeys`], [`MediaError::NoSuchCall`], [`MediaError::Busy`].
    pub fn send_keys(
        &self,
        call: u64,
        request: u64,
        keys: &str,
        duration_ms: u32,
        gap_ms: u32,
    ) -> Result<(), MediaError> {
        let keys = Keys::new(request, keys, duration_ms, gap_ms).ok_or(MediaError::BadKeys)?;
        let known =
            self.known(call).filter(|k| !k.removed()).ok_or(MediaError::NoSuchCall(call))?;
        let place = known.seat.place;
        self.command(known.seat, Command::SendKeys { place, call, keys })
    }
}
