// SPDX-License-Identifier: GPL-3.0-or-later
//! AVX2 with FMA: 8 lanes, 16 registers.

use std::arch::x86_64::*;

use super::Simd;
use crate::signal::vad::kernel::{run, CallsInLanes, Job, RowsInLanes, Tile};

/// Proof that AVX2 and FMA are there.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn assume() -> Avx2 {
        Avx2(())
    }
}

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

impl Simd for Avx2 {
    type Vector = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: `self` proves AVX2; the caller answers for the pointer.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: __m256) {
        // SAFETY: `self` proves AVX2; the caller answers for the pointer.
        unsafe { _mm256_storeu_ps(to, vector) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn relu(self, vector: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2. The second operand is the result where the first is NaN.
        unsafe { _mm256_max_ps(vector, _mm256_setzero_ps()) }
    }
}

#[target_feature(enable = "avx2,fma")]
fn lanes<const ROWS: usize, const VECTORS: usize>(job: Job<'_>) {
    run(CallsInLanes::<_, ROWS, VECTORS>(Avx2(())), job);
}

#[target_feature(enable = "avx2,fma")]
fn single(job: Job<'_>) {
    run(RowsInLanes::<_, 1, 8>(Avx2(())), job);
}

pub static TILES: [Tile; 3] = [
    Tile { calls: 1, cost: 8, run: single },
    Tile { calls: 8, cost: 44, run: lanes::<8, 1> },
    Tile { calls: 16, cost: 86, run: lanes::<4, 2> },
];
