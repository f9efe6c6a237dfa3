// SPDX-License-Identifier: GPL-3.0-or-later
//! NEON (Advanced SIMD of AArch64): 4 lanes, 32 registers.

use std::arch::aarch64::*;

use super::Simd;
use crate::signal::vad::kernel::{run, CallsInLanes, Job, RowsInLanes, Tile};

/// Proof that NEON is there.
#[derive(Clone, Copy)]
struct Neon(());

pub fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

impl Simd for Neon {
    type Vector = float32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        // SAFETY: `self` proves NEON; the caller answers for the pointer.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: float32x4_t) {
        // SAFETY: `self` proves NEON; the caller answers for the pointer.
        unsafe { vst1q_f32(to, vector) }
    }

    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vaddq_f32(a, b) }
    }

    #[inline(always)]
    fn relu(self, vector: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON. FMAX would hand on NaN where the x86 maximum gives 0.
        unsafe {
            let zero = vdupq_n_f32(0.0);
            vbslq_f32(vcgtq_f32(vector, zero), vector, zero)
        }
    }
}

#[target_feature(enable = "neon")]
fn lanes<const VECTORS: usize>(job: Job<'_>) {
    run(CallsInLanes::<_, 8, VECTORS>(Neon(())), job);
}

#[target_feature(enable = "neon")]
fn single(job: Job<'_>) {
    run(RowsInLanes::<_, 2, 4>(Neon(())), job);
}

// Costs are a guess from the number of instructions: not measured on a processor yet.
pub static TILES: [Tile; 3] = [
    Tile { calls: 1, cost: 12, run: single },
    Tile { calls: 4, cost: 40, run: lanes::<1> },
    Tile { calls: 8, cost: 76, run: lanes::<2> },
];
