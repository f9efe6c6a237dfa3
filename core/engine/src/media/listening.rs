// SPDX-License-Identifier: GPL-3.0-or-later
//! Voice activity over the calls of a phase: the network has weights for each rate, so the calls of
//! each have a bank of their own.

use super::Rate;
use crate::signal::vad::stock::Stock;
use crate::signal::vad::{Bank, Slot};

struct One {
    bank: Bank,
    probabilities: Vec<(Slot, f32)>,
    /// Places that staged a window in this phase, in the bank's order.
    staged: Vec<usize>,
}

impl One {
    fn new(rate: Rate, places: usize) -> One {
        One {
            bank: Bank::new(rate, places),
            probabilities: Vec::with_capacity(places),
            staged: Vec::with_capacity(places),
        }
    }
}

/// The banks of a shard.
pub(crate) struct Listening {
    narrow: One,
    wide: Option<One>,
}

impl Listening {
    /// For up to `places` calls, of 16 kHz too if `wideband`.
    pub(crate) fn new(places: usize, wideband: bool) -> Listening {
        Listening {
            narrow: One::new(Rate::R8k, places),
            wide: wideband.then(|| One::new(Rate::R16k, places)),
        }
    }

    /// The stock model for the windows of its rate.
    pub(crate) fn use_stock(&mut self, stock: Stock) {
        if let Some(one) = self.of(stock.rate()) {
            one.bank.use_stock(stock);
        }
    }

    fn of(&mut self, rate: Rate) -> Option<&mut One> {
        match rate {
            Rate::R8k => Some(&mut self.narrow),
            Rate::R16k => self.wide.as_mut(),
        }
    }

    /// A slot for a call that has heard nothing yet.
    pub(crate) fn open(&mut self, rate: Rate) -> Option<Slot> {
        self.of(rate)?.bank.open()
    }

    /// Gives it back.
    pub(crate) fn close(&mut self, rate: Rate, slot: Slot) {
        if let Some(one) = self.of(rate) {
            one.bank.close(slot);
        }
    }

    /// Stages a full window of the call at `place`.
    pub(crate) fn push(&mut self, place: usize, rate: Rate, slot: Slot, window: &[f32]) {
        if let Some(one) = self.of(rate) {
            one.bank.push(slot, window);
            one.staged.push(place);
        }
    }

    /// Runs what is staged; `tell` gets each place, its slot and the probability of speech.
    pub(crate) fn run(&mut self, mut tell: impl FnMut(usize, Slot, f32)) {
        for one in [Some(&mut self.narrow), self.wide.as_mut()].into_iter().flatten() {
            if one.staged.is_empty() {
                continue;
            }
            one.bank.run(&mut one.probabilities);
            for (place, (slot, probability)) in one.staged.iter().zip(&one.probabilities) {
                tell(*place, *slot, *probability);
            }
            one.staged.clear();
        }
    }
}
