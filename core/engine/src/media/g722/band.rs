// SPDX-License-Identifier: GPL-3.0-or-later
//! What the encoder and the decoder have in common in each of the two bands: the adaptive step of
//! the quantiser and the adaptive predictor with two poles and six zeros. Names in capitals are
//! the blocks of ITU-T G.722 section 6.2.

use super::tables::{ILB, QM2, QM4, STEP_HIGH, STEP_LOW};

/// To the 16 bits the Recommendation computes in.
pub(super) fn sat(v: i32) -> i32 {
    v.clamp(-32768, 32767)
}

/// Product of two numbers of 16 bits, as parts of 32768.
pub(super) fn mult(a: i32, b: i32) -> i32 {
    (a * b) >> 15
}

/// Whether two numbers have the same sign bit.
fn same_sign(a: i32, b: i32) -> bool {
    (a ^ b) >= 0
}

/// State of a band.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// Logarithmic scale factor.
    scale: i32,
    /// Step of the quantiser.
    pub(super) step: i32,
    /// Prediction of the next sample, and the zeros' part of it.
    pub(super) predicted: i32,
    predicted_zeros: i32,
    poles: [i32; 2],
    zeros: [i32; 6],
    /// Quantised differences, newest first.
    differences: [i32; 6],
    /// Reconstructed samples and their parts that the poles adapt by, newest first.
    samples: [i32; 2],
    partial: [i32; 2],
}

impl Band {
    pub(super) fn new(step: i32) -> Band {
        Band {
            scale: 0,
            step,
            predicted: 0,
            predicted_zeros: 0,
            poles: [0; 2],
            zeros: [0; 6],
            differences: [0; 6],
            samples: [0; 2],
            partial: [0; 2],
        }
    }

    /// Takes the upper 4 bits of a code of the lower band.
    pub(super) fn low(&mut self, code4: usize) {
        let difference = mult(self.step, QM4[code4 & 15]); // INVQAL
                                                           // LOGSCL, SCALEL
        self.scale = (mult(self.scale, 32512) + STEP_LOW[code4 & 15]).clamp(0, 18432);
        self.step = antilog(self.scale, 8);
        self.predict(difference);
    }

    /// Takes a code of the higher band; gives the sample it stands for.
    pub(super) fn high(&mut self, code2: usize) -> i32 {
        let difference = mult(self.step, QM2[code2 & 3]); // INVQAH
        let sample = sat(self.predicted + difference);
        // LOGSCH, SCALEH
        self.scale = (mult(self.scale, 32512) + STEP_HIGH[code2 & 3]).clamp(0, 22528);
        self.step = antilog(self.scale, 10);
        self.predict(difference);
        sample
    }

    fn predict(&mut self, difference: i32) {
        let sample = sat(self.predicted + difference); // RECONS
        let partial = sat(difference + self.predicted_zeros); // PARREC
        let alike = same_sign(partial, self.partial[0]);
        // UPPOL2
        let first = sat(self.poles[0] * 4);
        let turned = if alike { (-first).min(32767) } else { first };
        let towards = if same_sign(partial, self.partial[1]) { 128 } else { -128 };
        let second = (turned >> 7) + towards + mult(self.poles[1], 32512);
        self.poles[1] = second.clamp(-12288, 12288);
        // UPPOL1
        let towards = if alike { 192 } else { -192 };
        let limit = 15360 - self.poles[1];
        self.poles[0] = (towards + mult(self.poles[0], 32640)).clamp(-limit, limit);
        // UPZERO
        let by = if difference == 0 { 0 } else { 128 };
        for (zero, old) in self.zeros.iter_mut().zip(&self.differences) {
            let towards = if same_sign(*old, difference) { by } else { -by };
            // It cannot leave 16 bits: 32640/32768 of the most and 128 is the most again.
            *zero = towards + mult(*zero, 32640);
        }
        // DELAYA
        let [a, b, c, d, e, _] = self.differences;
        self.differences = [difference, a, b, c, d, e];
        self.samples = [sample, self.samples[0]];
        self.partial = [partial, self.partial[0]];
        // FILTEP
        let by_poles = mult(self.poles[0], sat(self.samples[0] * 2))
            + mult(self.poles[1], sat(self.samples[1] * 2));
        // FILTEZ: the sum saturates on its way, so its order counts, if it gets that far at all.
        let mut terms = [0; 6];
        for ((term, zero), old) in terms.iter_mut().zip(&self.zeros).zip(&self.differences) {
            *term = mult(*zero, sat(*old * 2));
        }
        self.predicted_zeros = if terms.iter().map(|t| t.abs()).sum::<i32>() <= 32767 {
            terms.iter().sum()
        } else {
            terms.iter().rev().fold(0, |sum, term| sat(sum + term))
        };
        self.predicted = sat(sat(by_poles) + self.predicted_zeros); // PREDIC
    }
}

/// SCALEL and SCALEH: from the logarithm to the step; `full` is the exponent of the whole mantissa.
fn antilog(scale: i32, full: i32) -> i32 {
    let mantissa = ILB[((scale >> 6) & 31) as usize];
    let shift = full - (scale >> 11);
    (if shift < 0 { mantissa << -shift } else { mantissa >> shift }) << 2
}
