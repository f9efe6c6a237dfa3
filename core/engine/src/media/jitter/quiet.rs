// SPDX-License-Identifier: GPL-3.0-or-later
//! What is played where the peer sends no audio on purpose: keys and its background.

use super::super::noise::ComfortNoise;
use super::super::FRAME;
use super::{Arrival, JitterBuffer, EVENT_AHEAD};

/// Background that takes the place of what a silent peer does not send.
#[derive(Debug)]
pub(super) struct Background {
    noise: ComfortNoise,
    /// Where it begins.
    pub(super) from: i64,
}

impl JitterBuffer {
    /// A key is down since the RTP time `timestamp`, for `duration` so far or, at its `end`, in all.
    /// The sender has put it in the place of audio (RFC 4733 section 2.5.1): there is silence, and
    /// no concealment. A tone that got into the audio all the same tells the key to every recording,
    /// so it is left out.
    pub fn event(&mut self, timestamp: u32, duration: u16, end: bool) {
        if !self.running {
            return;
        }
        let at = self.reference.1 + i64::from(timestamp.wrapping_sub(self.reference.0) as i32);
        let more = if end { 0 } else { EVENT_AHEAD };
        let to = at + i64::from(duration) + more;
        let limit = self.ring.len() / 2;
        // Events on a timeline of their own say nothing about the audio's.
        if to < self.play - limit || at > self.play + limit {
            return;
        }
        let from = if self.play >= self.hush.1 { at } else { at.min(self.hush.0) };
        // The end of the last one is sure; before that it is a guess that may be taken back.
        self.hush = (from, if end { to } else { to.max(self.hush.1) });
        let first = from.max(self.play);
        self.ring.mark(first, (to - more - first).clamp(0, limit) as usize, false);
    }

    /// Whether the next position lies within a key, and for how many of the next `n` that holds.
    pub(super) fn hushed(&self, n: usize) -> (bool, usize) {
        let (from, to) = self.hush;
        let within = self.play >= from && self.play < to;
        let edge = if within { to } else { from };
        let left = edge - self.play;
        (within, if left > 0 { n.min(left as usize) } else { n })
    }

    /// Takes comfort noise in (RFC 3389): heard from its time on until audio comes. The payload is
    /// the noise's, not audio.
    pub fn insert_noise(&mut self, a: &Arrival<'_>) {
        let before = self.background.as_ref().map(|b| &b.noise);
        let Some(noise) = ComfortNoise::from_payload(a.payload, before) else { return };
        let mut from = self.play;
        if self.running {
            if let Some(at) = self.place(a, 0) {
                from = at;
                if a.newest || a.fresh {
                    self.reference = (a.timestamp, at);
                    self.expected = at;
                    self.expected_ns = a.at_ns;
                }
            }
        }
        // News of a background that is heard already counts at once, unless audio waits in between.
        let heard = self.background.as_ref().is_some_and(|b| b.from <= self.play);
        if heard && self.head <= self.play {
            from = self.play;
        }
        self.background = Some(Background { noise, from });
    }

    /// What is heard of a peer that sends nothing: its background, if it told one, or silence.
    pub(super) fn idle(&mut self, out: &mut [i16]) {
        let per = self.rate.per_unit();
        let Some(background) = &mut self.background else {
            out.fill(0);
            return;
        };
        for out in out.chunks_mut(FRAME * per) {
            let mut narrow = [0; FRAME];
            let narrow = &mut narrow[..out.len() / per];
            background.noise.fill(narrow);
            self.decoder.narrow(narrow, out);
        }
    }

    /// How much of `n` missing positions lies on one side of the beginning of the background.
    pub(super) fn until_background(&self, n: usize) -> usize {
        match &self.background {
            Some(b) if b.from > self.play => n.min((b.from - self.play) as usize),
            _ => n,
        }
    }

    /// Audio behind the beginning of the background ends it.
    pub(super) fn end_background(&mut self) {
        if self.background.as_ref().is_some_and(|b| b.from <= self.play) {
            self.background = None;
        }
    }
}
