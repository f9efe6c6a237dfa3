// SPDX-License-Identifier: GPL-3.0-or-later
//! What is sent: the agent's voice over a background that gives way while it talks. Step by step in
//! core/reference/README.md, "Mixing". Nothing here allocates or frees.

use std::sync::Arc;

use super::background::Loop;
use super::{round, steps};
use crate::media::MAX_FRAME;

/// Frames the background stays ducked after the agent's last sample.
const HOLD: u32 = 15;
/// Frames from open to ducked and back.
const ATTACK: f32 = 5.0;
const RELEASE: f32 = 20.0;

/// Settings of what is sent, in decibels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixerConfig {
    /// Level of the agent's voice, dB, -40 to 20.
    pub voice_db: f64,
    /// Level of the background, dB, -40 to 20.
    pub background_db: f64,
    /// What the background is lowered by while the agent talks, dB, -40 to 0.
    pub duck_db: f64,
}

impl Default for MixerConfig {
    fn default() -> Self {
        MixerConfig { voice_db: 0.0, background_db: 0.0, duck_db: -12.0 }
    }
}

/// One call's mixer.
#[derive(Debug)]
pub struct Mixer {
    voice: f32,
    open: f32,
    ducked: f32,
    factor: f32,
    quiet: u32,
    sound: Option<Arc<Loop>>,
    at: usize,
    /// What comes in its place when it has faded out.
    next: Option<Option<(Arc<Loop>, usize)>>,
    overs: u64,
}

impl Mixer {
    /// No background yet.
    pub fn new(cfg: MixerConfig) -> Mixer {
        let (voice, open) = (steps::of_db(cfg.voice_db), steps::of_db(cfg.background_db));
        let ducked = steps::of_db(cfg.background_db + cfg.duck_db);
        Mixer {
            voice: steps::factor(voice),
            open: steps::factor(open),
            ducked: steps::factor(ducked),
            factor: 0.0,
            quiet: HOLD,
            sound: None,
            at: 0,
            next: None,
            overs: 0,
        }
    }

    /// Samples sent that had to be clamped.
    pub fn overs(&self) -> u64 {
        self.overs
    }

    /// Takes a background, to be read from a sample on, or `None` for silence, in place of the one
    /// there is; the two are faded. Gives back one that was to come and never will.
    pub fn set(&mut self, sound: Option<(Arc<Loop>, usize)>) -> Option<Arc<Loop>> {
        self.next.replace(sound).flatten().map(|(sound, _)| sound)
    }

    /// Where the background is read next.
    pub(crate) fn ahead(&self) -> &[i16] {
        let sound = self.sound.as_ref().map_or(&[][..], |s| s.samples());
        let rest = sound.get(self.at..).unwrap_or(&[]);
        rest.get(..MAX_FRAME / 2).unwrap_or(rest)
    }

    /// Mixes a frame, in place: the agent's samples in, what is sent out. `talking` is whether any
    /// of them is of a turn. Gives back a background that is over.
    pub fn mix(&mut self, frame: &mut [i16], talking: bool) -> Option<Arc<Loop>> {
        self.quiet = if talking { 0 } else { (self.quiet + 1).min(HOLD) };
        let mut over = None;
        if self.factor == 0.0 {
            if let Some(next) = self.next.take() {
                let (sound, at) = next.map_or((None, 0), |(sound, at)| (Some(sound), at));
                over = std::mem::replace(&mut self.sound, sound);
                self.at = at;
            }
        }
        let (start, end) = (self.factor, self.next_factor());
        self.factor = end;
        match &self.sound {
            Some(sound) if start != 0.0 || end != 0.0 => {
                let mut behind = [0i16; MAX_FRAME];
                let frame = frame.get_mut(..MAX_FRAME.min(frame.len())).unwrap_or(&mut []);
                let behind = behind.get_mut(..frame.len()).unwrap_or(&mut []);
                self.at = sound.read(self.at, behind);
                self.overs += blend(frame, self.voice, behind, start, end);
            }
            _ if self.voice != 1.0 => self.overs += amplify(frame, self.voice),
            _ => {}
        }
        over
    }

    fn next_factor(&self) -> f32 {
        let goal = match (&self.sound, &self.next) {
            (Some(_), None) if self.quiet < HOLD => self.ducked,
            (Some(_), None) => self.open,
            _ => 0.0,
        };
        let (down, up) = (self.open / ATTACK, self.open / RELEASE);
        let change = goal - self.factor;
        if change > up {
            self.factor + up
        } else if change < -down {
            self.factor - down
        } else {
            goal
        }
    }
}

/// Voice and background summed; gives how many samples were clamped.
fn blend(frame: &mut [i16], voice: f32, behind: &[i16], start: f32, end: f32) -> u64 {
    let step = (end - start) / frame.len() as f32;
    let mut overs = 0u32;
    for (i, (a, b)) in frame.iter_mut().zip(behind).enumerate() {
        let h = start + step * (i as i32 + 1) as f32;
        let (sample, over) = round::sample(f32::from(*a) * voice + f32::from(*b) * h);
        *a = sample;
        overs += u32::from(over);
    }
    u64::from(overs)
}

fn amplify(frame: &mut [i16], voice: f32) -> u64 {
    let mut overs = 0u32;
    for a in frame {
        let (sample, over) = round::sample(f32::from(*a) * voice);
        *a = sample;
        overs += u32::from(over);
    }
    u64::from(overs)
}
