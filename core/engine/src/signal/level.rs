// SPDX-License-Identifier: GPL-3.0-or-later
//! The level of a caller: of each frame, of the noise beneath, of the speech in it. Whole numbers
//! only (core/reference/README.md, "Level").

use super::steps;
use crate::media::MAX_FRAME;

/// Frames of a block, and blocks, whose least level is the noise floor: 1.6 to 1.8 s.
const BLOCK: u32 = 10;
const BLOCKS: usize = 8;
/// Speech lies so far above the floor (9 dB), and above -55 dBov, in steps.
const ABOVE_FLOOR: i32 = 36;
const LEAST_SPEECH: i32 = steps::FULL - 55 * steps::PER_DB;
/// Parts of a step.
pub const PARTS: i32 = 64;

/// What was measured so far.
#[derive(Clone, Debug)]
pub struct Level {
    lowest: i32,
    frames: u32,
    at: usize,
    lows: [i32; BLOCKS],
    floor: i32,
    speech: i32,
    heard: bool,
}

/// A frame, measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Level, in steps ([`steps`]).
    pub level: i32,
    /// Greatest magnitude of a sample.
    pub peak: i32,
    /// Whether there is speech in it.
    pub active: bool,
}

impl Level {
    /// Nothing heard yet; speech is taken to be at `target` steps until it was.
    pub fn new(target: i32) -> Level {
        Level {
            lowest: steps::FULL,
            frames: 0,
            at: 0,
            lows: [steps::FULL; BLOCKS],
            floor: steps::FULL,
            speech: target * PARTS,
            heard: false,
        }
    }

    /// Measures the next frame.
    pub fn measure(&mut self, frame: &[i16]) -> Measured {
        let power = power(frame);
        let (low, high) =
            frame.iter().fold((0, 0), |(low, high): (i16, i16), s| (low.min(*s), high.max(*s)));
        let peak = i32::from(high).max(-i32::from(low));
        let level = steps::level(power / frame.len().max(1) as i64);
        self.lowest = self.lowest.min(level);
        self.floor = self.lows.iter().fold(self.lowest, |least, low| least.min(*low));
        self.frames += 1;
        if self.frames == BLOCK {
            if let Some(low) = self.lows.get_mut(self.at) {
                *low = self.lowest;
            }
            (self.at, self.lowest, self.frames) = ((self.at + 1) % BLOCKS, steps::FULL, 0);
        }
        let active = level >= self.floor + ABOVE_FLOOR && level >= LEAST_SPEECH;
        if active {
            let more = level * PARTS - self.speech;
            self.speech += more >> if more > 0 { 4 } else { 5 };
            self.heard = true;
        }
        Measured { level, peak, active }
    }

    /// The noise floor, in steps.
    pub fn floor(&self) -> i32 {
        self.floor
    }

    /// The same, once anything was heard.
    pub fn floor_steps(&self) -> Option<i32> {
        (self.frames > 0 || self.at > 0 || self.lows[0] < steps::FULL).then_some(self.floor)
    }

    /// Level of speech, in 1/64 steps.
    pub(super) fn speech(&self) -> i32 {
        self.speech
    }

    /// The same in steps, if there was any.
    pub fn speech_steps(&self) -> Option<i32> {
        self.heard.then_some(self.speech / PARTS)
    }
}

/// Sum of the squares, exact. In halves of 16 bits, whose sums over a frame fit 32: twice as many
/// lanes as with 64.
fn power(frame: &[i16]) -> i64 {
    let mut power = 0;
    for part in frame.chunks(MAX_FRAME) {
        let (mut low, mut high) = (0u32, 0u32);
        for s in part {
            let square = i32::from(*s) * i32::from(*s);
            low += square as u32 & 0xFFFF;
            high += square as u32 >> 16;
        }
        power += i64::from(low) + (i64::from(high) << 16);
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(amplitude: i16) -> [i16; 160] {
        std::array::from_fn(|i| if i % 2 == 0 { amplitude } else { -amplitude })
    }

    #[test]
    fn speech_is_what_stands_out_of_the_last_seconds() {
        let mut level = Level::new(257);
        let run = |level: &mut Level, amplitude, frames| {
            (0..frames).map(|_| level.measure(&frame(amplitude)).active).filter(|a| *a).count()
        };
        assert_eq!(run(&mut level, 30, 100), 0, "the first sound is noise until there is less");
        assert_eq!(level.speech_steps(), None);
        assert_eq!(run(&mut level, 3000, 40), 40);
        // -20.8 dBov, measured from -26.
        let speech = level.speech_steps().map(steps::dbov);
        assert!(speech.is_some_and(|s| (-22.0..-20.0).contains(&s)), "{speech:?}");
        assert_eq!(level.floor(), steps::level(900));
        // It does not stop: by then it is no speech.
        assert_eq!(run(&mut level, 3000, 200), 40, "1.6 s after it began");
        // Faint sound is none, however silent it was before.
        run(&mut level, 0, 100);
        assert_eq!(run(&mut level, 50, 20), 0);
    }

    #[test]
    fn the_sum_of_squares_is_exact() {
        let sounds: Vec<Vec<i16>> = vec![
            vec![i16::MIN; 1000],
            (0..777).map(|i| (i * 7919 % 65_536 - 32_768) as i16).collect(),
            vec![],
        ];
        for sound in sounds {
            let want: i64 = sound.iter().map(|s| i64::from(*s).pow(2)).sum();
            assert_eq!(power(&sound), want);
        }
    }

    #[test]
    fn full_scale_both_ways_is_measured() {
        let m = Level::new(257).measure(&[i16::MIN; 320]);
        assert_eq!((m.level, m.peak), (steps::FULL, 32_768));
        assert_eq!(Level::new(257).measure(&[]), Measured { level: 0, peak: 0, active: false });
    }
}
