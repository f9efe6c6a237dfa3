// SPDX-License-Identifier: GPL-3.0-or-later
//! Matrix times activations, in the two ways a vector can be laid over them.
//!
//! Both give each output one chain of fused multiply-adds over the columns in order, for each
//! [`BLOCK`] of columns, and add up the blocks in order. So the bits of a result depend neither on
//! the vector width nor on which of the two ways was taken.

use std::ops::Range;

use super::Simd;
use crate::signal::vad::network::{Panels, PANEL};

/// Columns in one chain. A chain's rounding errors grow with its sum: over 130 minutes of speech at
/// 16 kHz, one chain over all columns was up to 9.3e-5 off the stock model, blocks of 128 up to
/// 3.5e-5; smaller blocks gained nothing.
const BLOCK: usize = 128;

/// How many calls run at once, and how their products are formed. Activations are `[row][call]`.
pub trait Product: Copy {
    /// Calls in a tile.
    const CALLS: usize;

    /// `out[row][call]` = bias\[row\] + sum over `cols` of matrix\[row\]\[col\] *
    /// `x[col - cols.start][call]`, for all rows of the padded matrix; with `relu`, not below 0.
    ///
    /// # Panics
    /// When `cols` is not within the matrix, or `x` or `out` is shorter than that.
    fn product(self, matrix: &Panels, cols: Range<usize>, x: &[f32], out: &mut [f32], relu: bool);
}

/// Each lane is a call; a register tile of `ROWS` rows by `VECTORS` vectors of calls.
#[derive(Clone, Copy)]
pub struct CallsInLanes<S, const ROWS: usize, const VECTORS: usize>(pub S);

impl<S: Simd, const ROWS: usize, const VECTORS: usize> Product for CallsInLanes<S, ROWS, VECTORS> {
    const CALLS: usize = VECTORS * S::LANES;

    #[inline(always)]
    fn product(self, matrix: &Panels, cols: Range<usize>, x: &[f32], out: &mut [f32], relu: bool) {
        const { assert!(PANEL.is_multiple_of(ROWS)) };
        let simd = self.0;
        let depth = cols.len();
        assert!(cols.end <= matrix.cols() && x.len() >= depth * Self::CALLS);
        let rows = matrix.rows();
        let out = &mut out[..rows * Self::CALLS];
        for (stripe, out) in out.chunks_exact_mut(ROWS * Self::CALLS).enumerate() {
            let row = stripe * ROWS;
            let weights = &matrix.panel(row / PANEL)[cols.start * PANEL..cols.end * PANEL];
            let weights = &weights[row % PANEL..];
            let mut sums = [[simd.splat(0.0); VECTORS]; ROWS];
            for (sum, &bias) in sums.iter_mut().zip(&matrix.bias()[row..row + ROWS]) {
                *sum = [simd.splat(bias); VECTORS];
            }
            for block in (0..depth).step_by(BLOCK) {
                let mut chains = [[simd.splat(0.0); VECTORS]; ROWS];
                for col in block..depth.min(block + BLOCK) {
                    let mut inputs = [simd.splat(0.0); VECTORS];
                    for (v, input) in inputs.iter_mut().enumerate() {
                        let at = col * Self::CALLS + v * S::LANES;
                        // SAFETY: x has depth * CALLS values, asserted above; col < depth and
                        // (v + 1) * LANES <= CALLS.
                        *input = unsafe { simd.load(x.as_ptr().add(at)) };
                    }
                    for (r, chain) in chains.iter_mut().enumerate() {
                        // SAFETY: weights starts at row % PANEL of depth * PANEL values; ROWS
                        // divides PANEL, so row % PANEL + r < PANEL.
                        let weight = simd.splat(unsafe { *weights.as_ptr().add(col * PANEL + r) });
                        for (chain, &input) in chain.iter_mut().zip(&inputs) {
                            *chain = simd.mul_add(input, weight, *chain);
                        }
                    }
                }
                for (sum, &chain) in sums.as_flattened_mut().iter_mut().zip(chains.as_flattened()) {
                    *sum = simd.add(*sum, chain);
                }
            }
            for (sum, out) in sums.iter().zip(out.chunks_exact_mut(Self::CALLS)) {
                for (&sum, out) in sum.iter().zip(out.chunks_exact_mut(S::LANES)) {
                    let result = if relu { simd.relu(sum) } else { sum };
                    // SAFETY: out is a chunk of LANES values.
                    unsafe { simd.store(out.as_mut_ptr(), result) };
                }
            }
        }
    }
}

/// One call; each lane is a row of the matrix. A panel is `VECTORS` vectors wide, and `GROUP`
/// panels go side by side, as one chain would wait for its own multiply-adds.
#[derive(Clone, Copy)]
pub struct RowsInLanes<S, const VECTORS: usize, const GROUP: usize>(pub S);

impl<S: Simd, const VECTORS: usize, const GROUP: usize> RowsInLanes<S, VECTORS, GROUP> {
    /// `PANELS` panels from `first` on, into `out[PANELS * PANEL]`; `x` is as long as `cols`.
    #[inline(always)]
    fn panels<const PANELS: usize>(
        self,
        matrix: &Panels,
        first: usize,
        cols: Range<usize>,
        x: &[f32],
        out: &mut [f32],
        relu: bool,
    ) {
        let simd = self.0;
        let out = &mut out[..PANELS * PANEL];
        let bias = &matrix.bias()[first * PANEL..][..PANELS * PANEL];
        let mut weights: [&[f32]; PANELS] = [&[]; PANELS];
        let mut sums = [[simd.splat(0.0); VECTORS]; PANELS];
        for (p, (weights, sums)) in weights.iter_mut().zip(&mut sums).enumerate() {
            *weights = &matrix.panel(first + p)[cols.start * PANEL..][..x.len() * PANEL];
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: bias has PANELS * PANEL values and VECTORS * LANES is PANEL.
                *sum = unsafe { simd.load(bias.as_ptr().add(p * PANEL + v * S::LANES)) };
            }
        }
        for (block, x) in x.chunks(BLOCK).enumerate() {
            let mut chains = [[simd.splat(0.0); VECTORS]; PANELS];
            for (col, &x) in x.iter().enumerate() {
                let x = simd.splat(x);
                for (weights, chains) in weights.iter().zip(&mut chains) {
                    for (v, chain) in chains.iter_mut().enumerate() {
                        let at = (block * BLOCK + col) * PANEL + v * S::LANES;
                        // SAFETY: weights has PANEL values for each of all x, and
                        // VECTORS * LANES is PANEL.
                        let weight = unsafe { simd.load(weights.as_ptr().add(at)) };
                        *chain = simd.mul_add(x, weight, *chain);
                    }
                }
            }
            for (sum, &chain) in sums.as_flattened_mut().iter_mut().zip(chains.as_flattened()) {
                *sum = simd.add(*sum, chain);
            }
        }
        for (&sum, out) in sums.as_flattened().iter().zip(out.chunks_exact_mut(S::LANES)) {
            let result = if relu { simd.relu(sum) } else { sum };
            // SAFETY: out is a chunk of LANES values.
            unsafe { simd.store(out.as_mut_ptr(), result) };
        }
    }
}

impl<S: Simd, const VECTORS: usize, const GROUP: usize> Product for RowsInLanes<S, VECTORS, GROUP> {
    const CALLS: usize = 1;

    #[inline(always)]
    fn product(self, matrix: &Panels, cols: Range<usize>, x: &[f32], out: &mut [f32], relu: bool) {
        const { assert!(VECTORS * S::LANES == PANEL) };
        let x = &x[..cols.len()];
        let panels = matrix.rows() / PANEL;
        let grouped = panels / GROUP * GROUP;
        for first in (0..grouped).step_by(GROUP) {
            let out = &mut out[first * PANEL..];
            self.panels::<GROUP>(matrix, first, cols.clone(), x, out, relu);
        }
        for first in grouped..panels {
            let out = &mut out[first * PANEL..];
            self.panels::<1>(matrix, first, cols.clone(), x, out, relu);
        }
    }
}
