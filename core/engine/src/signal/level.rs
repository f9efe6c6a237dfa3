// SPDX-License-Identifier: GPL-3.0-or-later
//! The level of a caller: of each frame, of the noise beneath, of the speech in it. Whole numbers
//! only (core/reference/README.md, "Level").

use super::steps;

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
        let (mut power, mut peak) = (0i64, 0i32);
        // A square has 30 bits: eight of them fit 33, so the sum of a piece is kept in 64.
        for s in frame {
            let s = i32::from(*s);
            power += i64::from(s * s);
            peak = peak.max(s.abs());
        }
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
    fn full_scale_both_ways_is_measured() {
        let m = Level::new(257).measure(&[i16::MIN; 320]);
        assert_eq!((m.level, m.peak), (steps::FULL, 32_768));
        assert_eq!(Level::new(257).measure(&[]), Measured { level: 0, peak: 0, active: false });
    }
}
