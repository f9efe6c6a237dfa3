// SPDX-License-Identifier: GPL-3.0-or-later
//! Automatic gain control of a caller, feed-forward on the level of speech, with a guard against
//! clipping. Step by step in core/reference/README.md, "Gain"; the same bits come of both.

use super::level::{Level, PARTS};
use super::{round, steps};
use crate::media::MAX_FRAME;

/// Least gain, in steps: -12 dB.
const LEAST: i32 = -12 * steps::PER_DB;
/// Noise is not raised above this level, in steps: -50 dBov.
const NOISE_TOP: i32 = steps::FULL - 50 * steps::PER_DB;
/// Peak a frame is raised to at most: -1 dBov.
const PEAK: f32 = 29_204.0;
/// Bounds of the gain's change in a frame, in 1/64 steps: with speech, and without.
const FALL: i32 = -128;
const RISE: i32 = 32;
const DRIFT: i32 = -16;
/// The greatest rise of the factor in a frame: 0.2 dB.
const RECOVERY: f32 = 1.023_293;

/// Settings of the gain control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainConfig {
    /// Off: the level is measured, audio is left as it is.
    pub enabled: bool,
    /// Level speech is brought to, dBov, -50 to -10.
    pub target_dbov: f64,
    /// Greatest gain, dB, 0 to 30.
    pub max_db: f64,
}

impl Default for GainConfig {
    fn default() -> Self {
        GainConfig { enabled: false, target_dbov: -26.0, max_db: 18.0 }
    }
}

/// One caller's gain.
#[derive(Clone, Debug)]
pub struct Gain {
    enabled: bool,
    target: i32,
    most: i32,
    level: Level,
    /// In 1/64 steps.
    gain: i32,
    /// Factor at the end of the last frame.
    last: f32,
}

impl Gain {
    /// Nothing heard yet.
    pub fn new(cfg: GainConfig) -> Gain {
        let target = steps::of_dbov(cfg.target_dbov);
        Gain {
            enabled: cfg.enabled,
            target,
            most: steps::of_db(cfg.max_db),
            level: Level::new(target),
            gain: 0,
            last: 1.0,
        }
    }

    /// What is measured of what comes in.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// The gain now, dB.
    pub fn db(&self) -> f64 {
        f64::from(self.gain) / f64::from(PARTS * steps::PER_DB)
    }

    /// The same in 1/64 steps.
    pub(crate) fn parts(&self) -> i32 {
        self.gain
    }

    /// Whether it changes audio.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Measures a frame that goes on as it is.
    pub fn measure(&mut self, frame: &[i16]) {
        self.level.measure(frame);
    }

    /// Takes a frame; `out`, of the same length, is what goes on.
    pub fn run(&mut self, frame: &[i16], out: &mut [i16]) {
        if !self.enabled {
            self.measure(frame);
            out.iter_mut().zip(frame).for_each(|(o, s)| *o = *s);
            return;
        }
        let measured = self.level.measure(frame);
        let top = self.most.min((NOISE_TOP - self.level.floor()).max(0)) * PARTS;
        let want = (self.target * PARTS - self.level.speech()).max(LEAST * PARTS).min(top);
        let change = want - self.gain;
        self.gain +=
            if measured.active { change.clamp(FALL, RISE) } else { change.clamp(DRIFT, 0) };
        let cap = (PEAK / measured.peak.max(1) as f32).max(1.0);
        let start = self.last.min(cap);
        let end = steps::factor(self.gain >> 6).min(cap).min(self.last * RECOVERY);
        self.last = end;
        scale(frame, out, start, end);
    }
}

/// Multiplies with a factor that goes from `start` to `end` in a line.
fn scale(frame: &[i16], out: &mut [i16], start: f32, end: f32) {
    let step = (end - start) / frame.len().min(MAX_FRAME) as f32;
    for (i, (o, s)) in out.iter_mut().zip(frame).enumerate() {
        let g = start + step * (i as i32 + 1) as f32;
        // Never clamped: that is what the guard is for.
        *o = round::sample(f32::from(*s) * g).0;
    }
}
