// SPDX-License-Identifier: GPL-3.0-or-later
//! A caller's audio from the decoder on: level and gain, then windows, decisions and hand-over. The
//! tick runs it, and so do comparisons with the reference (examples/parity.rs).

use super::delivery::{Change, Delivery, What};
use super::denoise::Denoise;
use super::echo_guard::EchoGuard;
use super::gain::{Gain, GainConfig};
use super::prefetch::prefetch;
use super::speech::{Decision, Ear};
use crate::media::{MediaConfig, Rate, VadConfig, MAX_FRAME};

/// One caller.
#[derive(Debug)]
pub struct Listener {
    gain: Gain,
    ear: Ear,
    guard: Option<Box<EchoGuard>>,
    denoise: Option<Box<Denoise>>,
}

/// A change with what it needs, made outside of the tick. Afterwards it holds what is to be freed.
#[derive(Debug)]
pub struct Refit {
    change: Change,
    guard: Option<Box<EchoGuard>>,
    denoise: Option<Box<Denoise>>,
}

impl Refit {
    /// Allocates what the change adds.
    pub fn new(change: Change) -> Refit {
        let guard = change.echo_guard.unwrap_or(false).then(Box::default);
        let denoise = change.noise_suppression.unwrap_or(false).then(Box::default);
        Refit { change, guard, denoise }
    }
}

impl Listener {
    /// Nothing heard yet; as [`Ear::new`].
    pub fn new(gain: GainConfig, vad: VadConfig, preroll_ms: u32, wideband: bool) -> Listener {
        let ear = Ear::new(vad, preroll_ms, wideband);
        Listener { gain: Gain::new(gain), ear, guard: None, denoise: None }
    }

    /// As a call begins by its settings.
    pub(crate) fn of(cfg: &MediaConfig) -> Listener {
        let mut listener = Listener::new(cfg.gain, cfg.vad, cfg.preroll_ms, cfg.wideband);
        listener.ear.set_delivery(cfg.delivery);
        listener.guard = cfg.echo_guard.then(Box::default);
        listener.denoise = cfg.noise_suppression.then(Box::default);
        listener
    }

    /// The rate of what will be heard, before anything was.
    pub fn set_rate(&mut self, rate: Rate) {
        self.ear.set_rate(rate);
    }

    /// Another way of hearing from now on.
    pub fn change(&mut self, refit: &mut Refit) {
        let Refit { change, guard, denoise } = refit;
        let Delivery { what, chunk_ms } = self.ear.delivery();
        self.ear.set_delivery(Delivery {
            what: change.what.unwrap_or(what),
            chunk_ms: change.chunk_ms.unwrap_or(chunk_ms),
        });
        // One that is there knows the line.
        if change.echo_guard.is_some_and(|on| on != self.guard.is_some()) {
            std::mem::swap(&mut self.guard, guard);
        }
        if change.noise_suppression.is_some_and(|on| on != self.denoise.is_some()) {
            std::mem::swap(&mut self.denoise, denoise);
        }
    }

    /// Whether audio is handed over without voice activity too.
    pub(crate) fn hands_over_all(&self) -> bool {
        self.ear.delivery().what == What::Frames
    }

    pub(crate) fn prefetch(&self) {
        prefetch(&self.gain);
        self.ear.prefetch();
    }

    /// What was sent in this tick, and the decoded frame that is about to be heard.
    pub fn said(&mut self, sent: &[i16], heard: &[i16]) {
        if let Some(guard) = &mut self.guard {
            guard.frame(sent, heard);
        }
    }

    /// Takes a decoded frame whose first sample arrived at `at_ns`. Gives a window when one is full.
    pub fn hear(&mut self, frame: &[i16], at_ns: u64) -> Option<&[f32]> {
        if let Some(denoise) = &mut self.denoise {
            let mut heard = [0i16; MAX_FRAME];
            let heard = heard.get_mut(..frame.len())?;
            self.gain.run(frame, heard);
            denoise.run(heard);
            return self.ear.hear(heard, at_ns.saturating_sub(Denoise::DELAY_NS));
        }
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
        let mut probability = probability;
        if let Some(guard) = &mut self.guard {
            let (vad, talking) = self.ear.rules();
            // Searched for where a window could begin speech; else looked for where it was.
            let curious = guard.curious();
            let search = !talking && (probability >= vad.threshold || curious);
            if (probability >= vad.release || curious) && guard.is_echo(search) {
                probability = 0.0;
            }
        }
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
