// SPDX-License-Identifier: GPL-3.0-or-later
//! The instruction sets that the kernel is compiled for, and the choice among them at run time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod product;
mod scalar;

use super::kernel::Tile;

/// Operations on a vector of f32. A value of an implementing type is proof that the processor has
/// the instructions; it is made only behind a check.
pub trait Simd: Copy {
    /// [`Simd::LANES`] values.
    type Vector: Copy;
    /// Values in a vector.
    const LANES: usize;

    /// The same value in all lanes.
    fn splat(self, value: f32) -> Self::Vector;

    /// Reads a vector.
    ///
    /// # Safety
    /// `LANES` values from `from` on must be readable; no alignment is asked.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Writes a vector.
    ///
    /// # Safety
    /// `LANES` values from `to` on must be writable; no alignment is asked.
    unsafe fn store(self, to: *mut f32, vector: Self::Vector);

    /// a * b + c in each lane, rounded once.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// a + b in each lane.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// [`super::activation::relu`] in each lane.
    fn relu(self, vector: Self::Vector) -> Self::Vector;
}

/// An instruction set of the kernel. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// 512-bit vectors (F, BW, DQ and VL).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 128-bit vectors.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// One value at a time: slow, everywhere.
    Scalar,
}

/// Every backend of this architecture, the fastest first.
const BACKENDS: &[Backend] = &[
    #[cfg(target_arch = "x86_64")]
    Backend::Avx512,
    #[cfg(target_arch = "x86_64")]
    Backend::Avx2,
    #[cfg(target_arch = "aarch64")]
    Backend::Neon,
    Backend::Scalar,
];

impl Backend {
    /// The backends that this processor can run, the fastest first. Never empty.
    pub fn available() -> impl Iterator<Item = Backend> {
        BACKENDS.iter().copied().filter(|backend| backend.is_available())
    }

    /// Whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => avx512::is_available(),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => avx2::is_available(),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => neon::is_available(),
            Backend::Scalar => true,
        }
    }

    /// "avx512", "avx2", "neon" or "scalar".
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => "neon",
            Backend::Scalar => "scalar",
        }
    }

    /// The tiles compiled for this instruction set; see [`Tile::run`] for who may run them.
    pub(super) fn tiles(self) -> &'static [Tile] {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => &avx512::TILES,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => &avx2::TILES,
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => &neon::TILES,
            Backend::Scalar => &scalar::TILES,
        }
    }
}
