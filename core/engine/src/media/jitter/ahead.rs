// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples decoded before their turn.

use super::super::{Rate, MAX_FRAME};
use super::stretch::MAX_CUT;

/// They are the next ones to play. Lengths are in RTP time.
#[derive(Debug)]
pub(super) struct Ahead {
    samples: [i16; MAX_FRAME + 2 * MAX_CUT],
    len: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { samples: [0; MAX_FRAME + 2 * MAX_CUT], len: 0 }
    }
}

impl Ahead {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies what there is to the beginning of `out`.
    pub(super) fn copy(&self, rate: Rate, out: &mut [i16]) {
        for (o, s) in out.iter_mut().zip(self.samples.iter().take(self.len * rate.per_unit())) {
            *o = *s;
        }
    }

    /// Moves the first samples to `out`, of which there are at least as many.
    pub(super) fn take(&mut self, rate: Rate, out: &mut [i16]) {
        self.copy(rate, out);
        self.drop_first(rate, out.len() / rate.per_unit());
    }

    /// These are the next ones now, and no others.
    pub(super) fn keep(&mut self, rate: Rate, samples: &[i16]) {
        for (room, s) in self.samples.iter_mut().zip(samples) {
            *room = *s;
        }
        self.len = samples.len() / rate.per_unit();
    }

    /// Forgets the first `n`.
    pub(super) fn drop_first(&mut self, rate: Rate, n: usize) {
        let (n, per) = (n.min(self.len), rate.per_unit());
        self.samples.copy_within(n * per..self.len * per, 0);
        self.len -= n;
    }
}
