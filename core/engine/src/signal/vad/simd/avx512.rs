// SPDX-License-Identifier: GPL-3.0-or-later
//! AVX-512: 16 lanes, 32 registers.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::Simd;
use crate::signal::vad::kernel::{run, CallsInLanes, Job, RowsInLanes, Tile};

/// Proof that AVX-512 F, BW, DQ and VL, AVX2 and FMA are there.
#[derive(Clone, Copy)]
struct Avx512(());

pub fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && super::avx2::is_available()
}

impl Simd for Avx512 {
    type Vector = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: `self` proves AVX-512F; the caller answers for the pointer.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: __m512) {
        // SAFETY: `self` proves AVX-512F; the caller answers for the pointer.
        unsafe { _mm512_storeu_ps(to, vector) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn relu(self, vector: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F. The second operand is the result where the first is NaN.
        unsafe { _mm512_max_ps(vector, _mm512_setzero_ps()) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn lanes<const VECTORS: usize>(job: Job<'_>) {
    run(CallsInLanes::<_, 8, VECTORS>(Avx512(())), job);
}

/// A panel's rows fill half a register, so one call is as fast with 256 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn single(job: Job<'_>) {
    // SAFETY: this function's own features include AVX2 and FMA.
    run(RowsInLanes::<_, 1, 8>(unsafe { Avx2::assume() }), job);
}

pub static TILES: [Tile; 3] = [
    Tile { calls: 1, cost: 8, run: single },
    Tile { calls: 16, cost: 46, run: lanes::<1> },
    Tile { calls: 32, cost: 83, run: lanes::<2> },
];
