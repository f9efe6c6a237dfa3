// SPDX-License-Identifier: GPL-3.0-or-later
//! A caller's audio from the decoder on: level and gain, then windows, decisions and hand-over. The
//! tick runs it, and so do comparisons with the reference (examples/parity.rs).

use super::delivery::{Change, Delivery, What};
use super::gain::{Gain, GainConfig};
use super::prefetch::prefetch;
use super::speech::{Decision, Ear};
use crate::media::{MediaConfig, Rate, VadConfig, MAX_FRAME};

/// One caller.
#[derive(Debug)]
pub struct Listener {
    gain: Gain,
    ear: Ear,
}

impl Listener {
    /// Nothing heard yet; as [`Ear::new`].
    pub fn new(gain: GainConfig, vad: VadConfig, preroll_ms: u32, wideband: bool) -> Listener {
        Listener { gain: Gain::new(gain), ear: Ear::new(vad, preroll_ms, wideband) }
    }

    /// As a call begins by its settings.
    pub(crate) fn of(cfg: &MediaConfig) -> Listener {
        let mut listener = Listener::new(cfg.gain, cfg.vad, cfg.preroll_ms, cfg.wideband);
        listener.ear.set_delivery(cfg.delivery);
        listener
    }

    /// The rate of what will be heard, before anything was.
    pub fn set_rate(&mut self, rate: Rate) {
        self.ear.set_rate(rate);
    }

    /// Another way of hearing from now on.
    pub fn change(&mut self, change: &Change) {
        let Delivery { what, chunk_ms } = self.ear.delivery();
        self.ear.set_delivery(Delivery {
            what: change.what.unwrap_or(what),
            chunk_ms: change.chunk_ms.unwrap_or(chunk_ms),
        });
    }

    /// Whether audio is handed over without voice activity too.
    pub(crate) fn hands_over_all(&self) -> bool {
        self.ear.delivery().what == What::Frames
    }

    pub(crate) fn prefetch(&self) {
        prefetch(&self.gain);
        self.ear.prefetch();
    }

    /// Takes a decoded frame whose first sample arrived at `at_ns`. Gives a window when one is full.
    pub fn hear(&mut self, frame: &[i16], at_ns: u64) -> Option<&[f32]> {
        if !self.gain.enabled() {
            self.gain.measure(frame);
            return self.ear.hear(frame, at_ns);
        }
        let mut heard = [0i16; MAX_FRAME];
        let heard = heard.get_mut(..frame.len())?;
        self.gain.run(frame, heard);
        self.ear.hear(heard, at_ns)
    }

    /// The full window has this probability.
    pub fn decide(&mut self, probability: f32) -> Option<Decision> {
        self.ear.decide(probability)
    }

    /// Levels and gain.
    pub fn gain(&self) -> &Gain {
        &self.gain
    }

    /// What was heard, and when.
    pub fn ear(&self) -> &Ear {
        &self.ear
    }

    /// As [`Ear::rest`].
    pub fn rest(&mut self) -> Option<(u64, u64, usize)> {
        self.ear.rest()
    }

    /// As [`Ear::audio`].
    pub fn audio(&mut self, ended_now: bool) -> Option<(u64, u64, usize)> {
        self.ear.audio(ended_now)
    }
}
