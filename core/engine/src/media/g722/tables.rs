// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables of ITU-T G.722 (09/2012), by the names they have there.

/// Coefficients of the transmit and receive filters (table 11), one phase; the other is its mirror.
const QMF: [i16; 12] = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11];

/// Both phases over 24 samples in turn, the first one times `first`, the other times `second`.
const fn filter(first: i16, second: i16) -> [i16; 24] {
    let mut taps = [0; 24];
    let mut i = 0;
    while i < 12 {
        taps[2 * i] = first * QMF[i];
        taps[2 * i + 1] = second * QMF[11 - i];
        i += 1;
    }
    taps
}

/// The encoder's filters: sum and difference of the phases.
pub(super) const TO_LOW: [i16; 24] = filter(1, 1);
pub(super) const TO_HIGH: [i16; 24] = filter(-1, 1);
/// The decoder's: a phase for each sample.
pub(super) const TO_FIRST: [i16; 24] = filter(0, 1);
pub(super) const TO_SECOND: [i16; 24] = filter(1, 0);

/// Decision levels of the 6-bit quantiser (table 14), from the second one on, times 16; filled up
/// with something greater.
pub(super) const LEVELS: [u16; 32] = {
    let mut levels = [u16::MAX; 32];
    let mut i = 0;
    while i < Q6.len() {
        levels[i] = 16 * Q6[i];
        i += 1;
    }
    levels
};

const Q6: [u16; 29] = [
    35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1023,
    1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
];

/// Code of the lower band by interval, for a negative difference (table 17).
pub(super) const ILN: [u8; 30] = [
    63, 62, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10,
    9, 8, 7, 6, 5, 4,
];

/// Code of the lower band by interval, for a positive difference (table 17).
pub(super) const ILP: [u8; 30] = [
    61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38,
    37, 36, 35, 34, 33, 32,
];

/// Output values of the inverse quantiser of the predictor in the lower band, 4 bits.
pub(super) const QM4: [i32; 16] = [
    0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584,
    1200, 0,
];

/// Output values of the inverse quantiser of the decoder in the lower band, 6 bits.
pub(super) const QM6: [i32; 64] = [
    -136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232,
    -9360, -8576, -7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776,
    -2400, -2032, -1688, -1360, -1040, -728, 24808, 21904, 19008, 16704, 14984, 13512, 12280,
    11192, 10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456, 4944, 4464, 4008, 3576, 3168, 2776,
    2400, 2032, 1688, 1360, 1040, 728, 432, 136, -432, -136,
];

/// Output values of the inverse quantiser of the higher band, 2 bits.
pub(super) const QM2: [i32; 4] = [-7408, -1616, 7408, 1616];

/// Steps of the logarithmic scale factor in the lower band, by 4-bit code: W of its RL42.
pub(super) const STEP_LOW: [i32; 16] =
    [-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60];

/// Steps of the logarithmic scale factor in the higher band, by 2-bit code: W of its RH2.
pub(super) const STEP_HIGH: [i32; 4] = [798, -214, 798, -214];

/// Mantissas of the inverse logarithm (table 12).
pub(super) const ILB: [i32; 32] = [
    2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
    2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
];
