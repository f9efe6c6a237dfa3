// SPDX-License-Identifier: GPL-3.0-or-later
//! No vectors: the reference that the other backends must equal bit by bit.
//!
//! Where the target has no fused multiply-add by default (x86_64), `mul_add` is a call of the C
//! library's `fmaf`: exact, but some ten times slower than the instruction.

use super::Simd;
use crate::signal::vad::kernel::{run, Job, RowsInLanes, Tile};

#[derive(Clone, Copy)]
struct Scalar;

impl Simd for Scalar {
    type Vector = f32;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> f32 {
        value
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> f32 {
        // SAFETY: the caller answers for the pointer.
        unsafe { *from }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: f32) {
        // SAFETY: the caller answers for the pointer.
        unsafe { *to = value }
    }

    #[inline(always)]
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn relu(self, value: f32) -> f32 {
        crate::signal::vad::activation::relu(value)
    }
}

fn single(job: Job<'_>) {
    run(RowsInLanes::<_, 8, 1>(Scalar), job);
}

pub static TILES: [Tile; 1] = [Tile { calls: 1, cost: 1, run: single }];
