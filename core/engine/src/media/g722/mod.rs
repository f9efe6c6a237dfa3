// SPDX-License-Identifier: GPL-3.0-or-later
//! G.722 at 64 kbit/s (ITU-T G.722, mode 1): audio of 16 kHz, a byte for each two samples.
//!
//! Written from the Recommendation. Samples are 16 bit where it has 14 and 15: the encoder's
//! filters shift two more bits out, the decoder's one less, as every telephone does. Bit for bit
//! what spandsp, an independent implementation, makes (`core/reference/g722_golden.py`).

mod band;
mod tables;

use band::{mult, sat, Band};
use tables::{ILN, ILP, LEVELS, QM6, TO_FIRST, TO_HIGH, TO_LOW, TO_SECOND};

/// Samples of a byte.
pub const PER_BYTE: usize = 2;
/// Samples the filters look back.
const REACH: usize = 22;
/// Bytes coded in one go.
const BLOCK: usize = 80;

/// From samples to bytes; one stream.
#[derive(Clone, Debug)]
pub struct Encoder {
    low: Band,
    high: Band,
    past: [i16; REACH],
}

/// From bytes to samples; one stream.
#[derive(Clone, Debug)]
pub struct Decoder {
    low: Band,
    high: Band,
    /// Sum and difference of the bands, in turn.
    past: [i16; REACH],
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder { low: Band::new(32), high: Band::new(8), past: [0; REACH] }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { low: Band::new(32), high: Band::new(8), past: [0; REACH] }
    }
}

/// A filter over the 24 samples from `at` on.
fn filtered(window: &[i16], at: usize, taps: &[i16; REACH + 2]) -> i32 {
    let Some(part) = window.get(at..).and_then(|w| w.first_chunk::<{ REACH + 2 }>()) else {
        return 0;
    };
    part.iter().zip(taps).map(|(s, t)| i32::from(*s) * i32::from(*t)).sum()
}

impl Encoder {
    /// Encodes as many pairs of samples as both slices hold.
    pub fn encode(&mut self, samples: &[i16], out: &mut [u8]) {
        for (samples, out) in samples.chunks(BLOCK * PER_BYTE).zip(out.chunks_mut(BLOCK)) {
            let mut window = [0i16; REACH + BLOCK * PER_BYTE];
            let end = REACH + samples.len();
            window[..REACH].copy_from_slice(&self.past);
            window[REACH..end].copy_from_slice(samples);
            for (i, byte) in (0..samples.len() / PER_BYTE).zip(out.iter_mut()) {
                let at = i * PER_BYTE;
                let (low, high) = (filtered(&window, at, &TO_LOW), filtered(&window, at, &TO_HIGH));
                *byte = self.code(low >> 14, high >> 14);
            }
            self.past.copy_from_slice(&window[end - REACH..end]);
        }
    }

    fn code(&mut self, low: i32, high: i32) -> u8 {
        let low = quantise_low(sat(low - self.low.predicted), self.low.step);
        self.low.low(usize::from(low >> 2));
        let high = quantise_high(sat(high - self.high.predicted), self.high.step);
        self.high.high(usize::from(high));
        (high << 6) | low
    }
}

impl Decoder {
    /// Decodes as many bytes as both slices hold, two samples each.
    pub fn decode(&mut self, bytes: &[u8], out: &mut [i16]) {
        for (bytes, out) in bytes.chunks(BLOCK).zip(out.chunks_mut(BLOCK * PER_BYTE)) {
            let mut window = [0i16; REACH + BLOCK * PER_BYTE];
            window[..REACH].copy_from_slice(&self.past);
            let end = REACH + bytes.len() * PER_BYTE;
            for (byte, pair) in bytes.iter().zip(window[REACH..].chunks_exact_mut(PER_BYTE)) {
                let (low, high) = self.bands(*byte);
                // 15 bits each: sum and difference have 16.
                pair[0] = (low + high) as i16;
                pair[1] = (low - high) as i16;
            }
            for (i, pair) in (0..bytes.len()).zip(out.chunks_exact_mut(PER_BYTE)) {
                let at = i * PER_BYTE;
                pair[0] = sat(filtered(&window, at, &TO_FIRST) >> 11) as i16;
                pair[1] = sat(filtered(&window, at, &TO_SECOND) >> 11) as i16;
            }
            self.past.copy_from_slice(&window[end - REACH..end]);
        }
    }

    /// Samples of both bands, 15 bits.
    fn bands(&mut self, byte: u8) -> (i32, i32) {
        let code = usize::from(byte & 0x3F);
        let band = &mut self.low;
        // INVQBL with all 6 bits, LIMIT; the predictor goes by the upper 4, as the encoder's does.
        let low = band.predicted + mult(band.step, QM6[code]);
        band.low(code >> 2);
        let high = self.high.high(usize::from(byte >> 6));
        (low.clamp(-16384, 16383), high.clamp(-16384, 16383))
    }
}

/// QUANTL: 6 bits of a difference.
fn quantise_low(difference: i32, step: i32) -> u8 {
    let size = if difference < 0 { -1 - difference } else { difference } as i16;
    // All levels at once are faster than the few of a search, one after the other.
    let mut interval = 0i16;
    for level in &LEVELS {
        let level = (u32::from(*level) * step as u32) >> 16;
        interval += i16::from(size >= level as i16);
    }
    let interval = usize::from(interval as u16).min(ILN.len() - 1);
    if difference < 0 {
        ILN[interval]
    } else {
        ILP[interval]
    }
}

/// QUANTH: 2 bits of a difference.
fn quantise_high(difference: i32, step: i32) -> u8 {
    let size = if difference < 0 { -1 - difference } else { difference };
    let outer = size >= mult(564 * 8, step);
    match (difference < 0, outer) {
        (true, false) => 1,
        (true, true) => 0,
        (false, false) => 3,
        (false, true) => 2,
    }
}

#[cfg(test)]
mod tests;
