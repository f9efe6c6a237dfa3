// SPDX-License-Identifier: GPL-3.0-or-later
//! Voice activity: the Silero network over many calls at once.
//!
//! A [`Bank`] keeps the recurrent state of every call and runs all windows that became complete in
//! one tick together, with the calls in the lanes of SIMD registers. It gives a speech probability
//! for each window; what counts as the start and the end of speech is decided elsewhere.

/// Sample rate of the windows. The two rates have their own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// 8 kHz: windows of 256 samples.
    R8k,
    /// 16 kHz: windows of 512 samples.
    R16k,
}

impl Rate {
    /// Samples in one window (32 ms).
    pub const fn window(self) -> usize {
        match self {
            Rate::R8k => 256,
            Rate::R16k => 512,
        }
    }
}

/// A call's place in a [`Bank`]. A slot that was closed is stale for good: using it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    index: u32,
    generation: u32,
}

/// State of up to `capacity` calls of one sample rate. Nothing allocates after [`Bank::new`].
pub struct Bank {
    rate: Rate,
    generations: Vec<u32>,
    free: Vec<u32>,
    staged: Vec<Slot>,
}

impl Bank {
    /// A bank for up to `capacity` calls, on the widest instruction set of this processor.
    pub fn new(rate: Rate, capacity: usize) -> Bank {
        let free = (0..capacity as u32).rev().collect();
        Bank {
            rate,
            generations: vec![0; capacity],
            free,
            staged: Vec::with_capacity(capacity),
        }
    }

    /// Name of the instruction set in use: "avx512", "avx2", "neon" or "scalar".
    pub fn backend(&self) -> &'static str {
        "scalar"
    }

    /// Takes a slot with fresh state, or `None` when all are taken.
    pub fn open(&mut self) -> Option<Slot> {
        let index = self.free.pop()?;
        let generation = *self.generations.get(index as usize)?;
        Some(Slot { index, generation })
    }

    /// Gives a slot back; a window staged for it is dropped.
    pub fn close(&mut self, slot: Slot) {
        if let Some(generation) = self.generations.get_mut(slot.index as usize) {
            if *generation == slot.generation {
                *generation = generation.wrapping_add(1);
                self.staged.retain(|s| *s != slot);
                self.free.push(slot.index);
            }
        }
    }

    /// Forgets what the slot has heard, as if it were just opened; a window staged for it is
    /// dropped.
    pub fn reset(&mut self, slot: Slot) {
        self.staged.retain(|s| *s != slot);
    }

    /// Stages the slot's next window: [`Rate::window`] samples in [-1, 1). At most one per slot
    /// between two runs: a second one replaces the first. A stale slot is ignored.
    pub fn push(&mut self, slot: Slot, window: &[f32]) {
        debug_assert_eq!(window.len(), self.rate.window());
        let live = self.generations.get(slot.index as usize) == Some(&slot.generation);
        if live && !self.staged.contains(&slot) {
            self.staged.push(slot);
        }
    }

    /// Runs all staged windows. `out` is cleared, then gets each staged slot and its speech
    /// probability in the order of [`Bank::push`]; it does not allocate when its capacity is the
    /// bank's.
    pub fn run(&mut self, out: &mut Vec<(Slot, f32)>) {
        out.clear();
        out.extend(self.staged.drain(..).map(|slot| (slot, 0.0)));
    }
}
