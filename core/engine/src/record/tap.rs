// SPDX-License-Identifier: GPL-3.0-or-later
//! The ring between a call and the recorder.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::media::Rate;

/// Two seconds of both channels at 8 kHz, one at 16.
const RING: usize = 2 * 2 * 8000;

#[derive(Debug, Default)]
struct Shared {
    /// Samples a second and channel; 0 until the first frame may come.
    rate: AtomicU32,
    done: AtomicBool,
    /// Samples a channel that are still to follow as silence when the call is done.
    rest: AtomicU64,
    /// The end of the call was told.
    told: AtomicBool,
}

/// Who tells the end of a recorded call: whoever claims it first.
#[derive(Debug)]
pub(crate) struct End(Arc<Shared>);

impl End {
    /// True for the first to ask.
    pub(crate) fn claim(&self) -> bool {
        !self.0.told.swap(true, Ordering::AcqRel)
    }

    /// Whether somebody did.
    pub(crate) fn is_told(&self) -> bool {
        self.0.told.load(Ordering::Acquire)
    }
}

/// The call's end.
#[derive(Debug)]
pub(crate) struct Tap {
    ring: Producer<i16>,
    shared: Arc<Shared>,
    /// Samples a channel for which there was no room, not yet made up for by silence.
    owed: u64,
    lost: u64,
}

/// The recorder's end.
#[derive(Debug)]
pub(crate) struct Reel {
    pub(crate) ring: Consumer<i16>,
    shared: Arc<Shared>,
}

/// A ring for one call.
pub(crate) fn tap() -> (Tap, Reel) {
    let (producer, consumer) = RingBuffer::new(RING);
    let shared = Arc::new(Shared::default());
    let tap = Tap { ring: producer, shared: Arc::clone(&shared), owed: 0, lost: 0 };
    (tap, Reel { ring: consumer, shared })
}

impl Tap {
    /// The rate of what will be recorded, before anything is.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.shared.rate.store(rate.hz(), Ordering::Release);
    }

    /// Records one frame of both channels; without room, silence takes its place later.
    pub(crate) fn frame(&mut self, caller: &[i16], agent: &[i16]) {
        let frame = caller.len();
        self.pay();
        let both = caller.iter().zip(agent).flat_map(|(l, r)| [*l, *r]);
        match self.ring.write_chunk_uninit(frame * 2) {
            Ok(chunk) if self.owed == 0 => {
                chunk.fill_from_iter(both);
            }
            _ => {
                self.owed += frame as u64;
                self.lost += frame as u64;
            }
        }
    }

    /// Time that has no audio: silence of `samples`.
    pub(crate) fn skip(&mut self, samples: u64) {
        self.owed += samples;
    }

    /// Writes owed silence as far as there is room. All at once: audio that comes while silence is
    /// still owed would be lost.
    fn pay(&mut self) {
        let room = self.ring.slots() / 2;
        let n = (self.owed as usize).min(room);
        if n == 0 {
            return;
        }
        if let Ok(chunk) = self.ring.write_chunk_uninit(n * 2) {
            chunk.fill_from_iter(std::iter::repeat_n(0, n * 2));
            self.owed -= n as u64;
        }
    }

    /// Samples a channel lost to a slow recorder so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The right to tell the end of the call.
    pub(crate) fn end(&self) -> End {
        End(Arc::clone(&self.shared))
    }

    /// No more audio.
    pub(crate) fn finish(&mut self) {
        self.shared.rest.store(self.owed, Ordering::Relaxed);
        self.shared.done.store(true, Ordering::Release);
    }
}

impl Reel {
    /// The right to tell the end of the call.
    pub(crate) fn end(&self) -> End {
        End(Arc::clone(&self.shared))
    }

    /// Rate of what the ring holds.
    pub(crate) fn rate(&self) -> Rate {
        Rate::of_hz(self.shared.rate.load(Ordering::Acquire)).unwrap_or(Rate::R8k)
    }

    /// Whether the call is done; then the ring holds all that will come, but for silence of this
    /// many samples.
    pub(crate) fn done(&self) -> Option<u64> {
        self.shared.done.load(Ordering::Acquire).then(|| self.shared.rest.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::FRAME;

    #[test]
    fn after_skipped_time_the_next_frame_is_kept() {
        let (mut tap, mut reel) = tap();
        tap.skip(20 * FRAME as u64);
        tap.frame(&[1; FRAME], &[2; FRAME]);
        assert_eq!(tap.lost(), 0);
        let mut both = Vec::new();
        while let Ok(sample) = reel.ring.pop() {
            both.push(sample);
        }
        let (silence, frame) = both.split_at(20 * FRAME * 2);
        assert!(silence.iter().all(|s| *s == 0));
        assert_eq!(frame, [1, 2].repeat(FRAME));
    }
}
