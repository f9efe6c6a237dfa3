// SPDX-License-Identifier: GPL-3.0-or-later
//! The rate of a call: what its audio is inside, between the decoder and the encoder.
//!
//! The first codec agreed on decides it and it stays for the call's life, so that its recording,
//! its audio events, its voice activity and what waits in its play-out queue are of one rate. A
//! codec of the other rate that comes with a later offer is resampled where it is decoded and
//! encoded: a call that began wide goes on at 16 kHz, one that began narrow stays narrow.
//!
//! RTP time is 8000 a second for every codec here, G.722 too (RFC 3551 section 4.5.2): positions
//! in the jitter buffer and packet lengths are counted in it, and samples are one or two to each.

pub use crate::signal::vad::Rate;

use super::TICK_NS;

/// RTP time of a tick: 20 ms. Also the samples of a frame at 8 kHz.
pub const FRAME: usize = 160;
/// Samples of a frame at the greatest rate.
pub const MAX_FRAME: usize = 320;
/// Nanoseconds of one unit of RTP time.
pub const UNIT_NS: u64 = 125_000;

impl Rate {
    /// Samples a second.
    pub const fn hz(self) -> u32 {
        match self {
            Rate::R8k => 8000,
            Rate::R16k => 16_000,
        }
    }

    /// The rate of this many samples a second.
    pub const fn of_hz(hz: u32) -> Option<Rate> {
        match hz {
            8000 => Some(Rate::R8k),
            16_000 => Some(Rate::R16k),
            _ => None,
        }
    }

    /// Samples of one unit of RTP time.
    pub const fn per_unit(self) -> usize {
        match self {
            Rate::R8k => 1,
            Rate::R16k => 2,
        }
    }

    /// Samples of a tick.
    pub const fn frame(self) -> usize {
        FRAME * self.per_unit()
    }

    /// Samples of a millisecond.
    pub const fn per_ms(self) -> usize {
        8 * self.per_unit()
    }

    /// Nanoseconds of one sample.
    pub const fn sample_ns(self) -> u64 {
        TICK_NS / self.frame() as u64
    }
}
