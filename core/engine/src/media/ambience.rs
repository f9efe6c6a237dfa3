// SPDX-License-Identifier: GPL-3.0-or-later
//! What is heard behind the agent, as other threads ask for it.

use super::roster::{Known, Seat};
use super::shard::Command;
use super::{Background, MediaEngine, MediaError, Rate};

impl MediaEngine {
    /// Another background for a call, or none: the one there is fades out first. Before the first
    /// SDP it is what the call begins with.
    ///
    /// # Errors
    /// [`MediaError::NoSuchCall`], [`MediaError::Busy`].
    pub fn set_background(
        &self,
        call: u64,
        background: Option<Background>,
    ) -> Result<(), MediaError> {
        let known = self.known(call).filter(|k| !k.removed());
        let known = known.ok_or(MediaError::NoSuchCall(call))?;
        // Held so that the rate is not decided in between.
        let mut voice = known.lock_voice();
        match voice.rate() {
            Some(line) => self.send_background(call, &known, background.as_ref(), line),
            None => {
                voice.background = Some(background);
                Ok(())
            }
        }
    }

    /// The call's rate is decided: its first background, if it has one.
    pub(super) fn begin_background(
        &self,
        call: u64,
        known: &Known,
        asked: Option<Option<Background>>,
        line: Rate,
    ) {
        let first = asked.unwrap_or_else(|| self.config().background.clone());
        if first.is_some() {
            let _ = self.send_background(call, known, first.as_ref(), line);
        }
    }

    fn send_background(
        &self,
        call: u64,
        known: &Known,
        background: Option<&Background>,
        line: Rate,
    ) -> Result<(), MediaError> {
        let Seat { place, .. } = known.seat;
        let sound = background.map(|b| {
            let sound = b.of(line);
            let at = sound.start(call);
            (sound, at)
        });
        self.command(known.seat, Command::Background { place, call, sound })
    }
}
