// SPDX-License-Identifier: GPL-3.0-or-later
//! How a caller is heard, as other threads ask for it.

use super::roster::Seat;
use super::shard::Command;
use super::{ListenChange, MediaEngine, MediaError};
use crate::signal::listener::Refit;

impl MediaEngine {
    /// Hears the caller in another way from the next tick on; may come before the first SDP.
    ///
    /// # Errors
    /// [`MediaError::NoSuchCall`], [`MediaError::Busy`].
    pub fn listen(&self, call: u64, change: ListenChange) -> Result<(), MediaError> {
        let known = self.known(call).filter(|k| !k.removed());
        let known = known.ok_or(MediaError::NoSuchCall(call))?;
        let refit = Box::new(Refit::new(change));
        let Seat { place, .. } = known.seat;
        self.command(known.seat, Command::Listen { place, call, refit })
    }
}
