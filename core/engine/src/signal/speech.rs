// SPDX-License-Identifier: GPL-3.0-or-later
//! From speech probabilities to the start and the end of speech, and the caller's audio between
//! them. Without I/O: frames, probabilities and times come in as arguments.

use super::delivery::{Delivery, What, MAX_CHUNK_MS};
use super::prefetch::prefetch;
use crate::media::{Rate, VadConfig, MAX_FRAME};

/// A window this sure of speech starts it alone: who interrupts is heard a window (32 ms) sooner.
/// On recorded speech in noise it costs no false start (docs/measurements.md, "Onsets").
const SURE: f32 = 0.6;
/// Who asks for longer speech than two windows wants to wait for it.
const SURE_UP_TO_MS: u32 = 64;

/// Samples of the greatest window of the network.
const MAX_WINDOW: usize = Rate::R16k.window();
/// How much longer than `speech_start_ms` an onset may take: four windows.
const WAVER_MS: u32 = 4 * 32;

/// A decision about one window, with sample positions of the caller's audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Speech began at this sample.
    Started(u64),
    /// Speech ended before this sample.
    Ended(u64),
}

/// Threshold with hysteresis both ways: speech begins at a window that reaches the threshold when
/// the windows of `speech_start_ms` up to it began with such a one and none was below the release,
/// or with one window that is sure where two would do; a pause begins below the release and is only
/// forgotten at the threshold again.
#[derive(Debug)]
pub struct Detector {
    cfg: VadConfig,
    rate: Rate,
    talking: bool,
    since: Option<u64>,
}

impl Detector {
    /// Not talking yet.
    pub fn new(cfg: VadConfig, rate: Rate) -> Detector {
        Detector { cfg, rate, talking: false, since: None }
    }

    /// Whether the caller talks, by the decisions so far.
    pub fn talking(&self) -> bool {
        self.talking
    }

    /// The window that began at sample `start` has this probability.
    pub fn on_window(&mut self, start: u64, probability: f32) -> Option<Decision> {
        let high = probability >= self.cfg.threshold;
        let end = start + self.rate.window() as u64;
        let per_ms = self.rate.per_ms() as u64;
        let (continues, least_ms) = if self.talking {
            let pause = self.since.is_some() || probability < self.cfg.release;
            (pause && !high, self.cfg.speech_end_ms)
        } else {
            // A soft onset wavers: what has begun is only forgotten below the release, or when
            // it comes to nothing.
            let most = u64::from(self.cfg.speech_start_ms + WAVER_MS) * per_ms;
            let young = |since| end - since <= most;
            let onset = probability >= self.cfg.release && self.since.is_some_and(young);
            (high || onset, self.cfg.speech_start_ms)
        };
        if !continues {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(start);
        let sure = !self.talking && probability >= SURE && least_ms <= SURE_UP_TO_MS;
        let long = end - since >= u64::from(least_ms) * per_ms;
        let decided = self.talking || high;
        if !decided || !(sure || long) {
            return None;
        }
        self.since = None;
        self.talking = !self.talking;
        Some(if self.talking { Decision::Started(since) } else { Decision::Ended(since) })
    }
}

/// One call's caller: cuts windows, remembers audio for the pre-roll, knows when samples arrived.
#[derive(Debug)]
pub struct Ear {
    detector: Detector,
    rate: Rate,
    preroll_ms: u32,
    /// Samples heard so far; sample positions count from 0.
    heard: u64,
    audio: Box<[i16]>,
    /// Arrival of the first sample of each of the last frames.
    stamps: Box<[u64]>,
    window: [f32; MAX_WINDOW],
    filled: usize,
    /// Samples before this were handed over.
    handed: u64,
    delivery: Delivery,
}

impl Ear {
    /// Nothing heard yet; at 8 kHz, until told otherwise, with room for 16 if `wideband`.
    pub fn new(cfg: VadConfig, preroll_ms: u32, wideband: bool) -> Ear {
        let back_ms = preroll_ms + cfg.speech_start_ms + WAVER_MS;
        let per_ms = if wideband { Rate::R16k } else { Rate::R8k }.per_ms();
        let kept_ms = back_ms.max(MAX_CHUNK_MS + 20);
        let audio = (kept_ms as usize * per_ms).next_power_of_two().max(MAX_FRAME);
        let frames = (cfg.speech_end_ms.max(back_ms) / 20 + 16) as usize;
        Ear {
            detector: Detector::new(cfg, Rate::R8k),
            rate: Rate::R8k,
            preroll_ms,
            heard: 0,
            audio: vec![0; audio].into_boxed_slice(),
            stamps: vec![0; frames.next_power_of_two()].into_boxed_slice(),
            window: [0.0; MAX_WINDOW],
            filled: 0,
            handed: 0,
            delivery: Delivery::default(),
        }
    }

    /// The rate of what will be heard, before anything was.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.detector.rate = rate;
    }

    /// What is decided by, and whether the caller talks.
    pub(crate) fn rules(&self) -> (&VadConfig, bool) {
        (&self.detector.cfg, self.detector.talking)
    }

    /// Another way of handing over from now on.
    pub fn set_delivery(&mut self, delivery: Delivery) {
        let all = delivery.what == What::Frames && self.delivery.what == What::Speech;
        if all && !self.detector.talking() {
            // Every frame means those to come.
            self.handed = self.heard;
        }
        self.delivery = delivery;
    }

    /// How audio is handed over.
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Asks for the state beside the audio.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.heard);
        prefetch(&self.filled);
        prefetch(&self.detector);
    }

    /// Takes a frame whose first sample arrived at `at_ns`. Gives a window when one is full; its
    /// probability goes to [`Ear::decide`].
    pub fn hear(&mut self, frame: &[i16], at_ns: u64) -> Option<&[f32]> {
        let (length, window) = (self.rate.frame(), self.rate.window());
        let slot = (self.heard / length as u64) as usize & (self.stamps.len() - 1);
        if let Some(s) = self.stamps.get_mut(slot) {
            *s = at_ns;
        }
        let start = self.heard as usize & (self.audio.len() - 1);
        let first = frame.len().min(self.audio.len() - start);
        for (at, part) in [(start, frame.get(..first)), (0, frame.get(first..))] {
            let part = part.unwrap_or(&[]);
            if let Some(room) = self.audio.get_mut(at..at + part.len()) {
                room.copy_from_slice(part);
            }
        }
        self.heard += length as u64;
        // A window nobody decided upon is given up.
        if self.filled >= window {
            self.filled = 0;
        }
        let fits = (window - self.filled).min(length);
        fill(&mut self.window, &mut self.filled, frame.get(..fits).unwrap_or(&[]));
        if self.filled < window {
            return None;
        }
        self.window.get(..window)
    }

    /// The full window has this probability.
    pub fn decide(&mut self, probability: f32) -> Option<Decision> {
        let end = self.windows_end();
        let decision = self.detector.on_window(end - self.rate.window() as u64, probability);
        // What the window did not take of the last frame begins the next one.
        let rest = (self.heard - end) as usize;
        self.filled = 0;
        let (window, filled) = (&mut self.window, &mut self.filled);
        for piece in <[&[i16]; 2]>::from(pieces(&self.audio, end, rest)) {
            fill(window, filled, piece);
        }
        if let Some(Decision::Started(at)) = decision {
            let preroll = u64::from(self.preroll_ms) * self.rate.per_ms() as u64;
            self.handed = at.saturating_sub(preroll).max(self.handed);
        }
        decision
    }

    fn windows_end(&self) -> u64 {
        let window = self.rate.window() as u64;
        self.heard / window * window
    }

    /// Audio to hand over now: `(arrival of its first sample, first sample, samples)`. Call once a
    /// frame; `None` unless the caller talks (or every frame is asked for) and a portion is full.
    pub fn audio(&mut self, ended_now: bool) -> Option<(u64, u64, usize)> {
        let least = match self.delivery.what {
            What::Speech if ended_now => 1,
            What::Speech if !self.detector.talking() => return None,
            _ => self.delivery.chunk_ms as usize * self.rate.per_ms(),
        };
        self.waiting(least)
    }

    /// What waits for its portion to become full, as [`Ear::audio`]: at the end of a call.
    pub fn rest(&mut self) -> Option<(u64, u64, usize)> {
        let all = self.delivery.what == What::Frames || self.detector.talking();
        all.then(|| self.waiting(1)).flatten()
    }

    fn waiting(&mut self, least: usize) -> Option<(u64, u64, usize)> {
        let oldest = self.heard.saturating_sub(self.audio.len() as u64);
        let from = self.handed.max(oldest);
        let len = (self.heard - from) as usize;
        if len < least {
            return None;
        }
        self.handed = self.heard;
        Some((self.at_ns(from), from, len))
    }

    /// Samples `from..from + len` as they lie in the ring: one or two pieces.
    pub fn pieces(&self, from: u64, len: usize) -> (&[i16], &[i16]) {
        pieces(&self.audio, from, len)
    }

    /// When a sample arrived.
    pub fn at_ns(&self, sample: u64) -> u64 {
        let length = self.rate.frame() as u64;
        let frame = (sample / length).min((self.heard / length).saturating_sub(1));
        let stamp = self.stamps.get(frame as usize & (self.stamps.len() - 1)).copied();
        stamp.unwrap_or(0) + (sample - frame * length) * self.rate.sample_ns()
    }
}

/// Appends samples to a window.
fn fill(window: &mut [f32], filled: &mut usize, samples: &[i16]) {
    let room = window.get_mut(*filled..).unwrap_or(&mut []);
    for (w, s) in room.iter_mut().zip(samples) {
        *w = f32::from(*s) / 32768.0;
    }
    *filled += samples.len().min(room.len());
}

/// Samples `from..from + len` of a ring whose length is a power of two.
fn pieces(ring: &[i16], from: u64, len: usize) -> (&[i16], &[i16]) {
    let start = from as usize & (ring.len() - 1);
    let first = len.min(ring.len() - start);
    let a = ring.get(start..start + first).unwrap_or(&[]);
    let b = ring.get(..len - first).unwrap_or(&[]);
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{FRAME, UNIT_NS};

    const WINDOW: usize = Rate::R8k.window();

    const CFG: VadConfig = VadConfig {
        enabled: true,
        threshold: 0.5,
        release: 0.35,
        speech_start_ms: 64,
        speech_end_ms: 600,
    };

    fn run(cfg: VadConfig, probabilities: &[f32]) -> Vec<(usize, Decision)> {
        let mut d = Detector::new(cfg, Rate::R8k);
        probabilities
            .iter()
            .enumerate()
            .filter_map(|(i, p)| d.on_window((i * WINDOW) as u64, *p).map(|d| (i, d)))
            .collect()
    }

    #[test]
    fn speech_starts_at_its_first_window_and_ends_where_the_pause_began() {
        let mut p = vec![0.1; 10];
        p.extend([0.55; 20]);
        p.extend([0.1; 40]);
        // 64 ms are two windows; 600 ms are 18.75, so the 19th decides.
        assert_eq!(
            run(CFG, &p),
            [(11, Decision::Started(10 * 256)), (30 + 18, Decision::Ended(30 * 256))]
        );
    }

    #[test]
    fn a_click_is_no_speech() {
        assert_eq!(run(CFG, &[0.1, 0.55, 0.3, 0.59, 0.1, 0.55, 0.1]), []);
        // Its echo may stay above the release: without a second window of speech it is none.
        assert_eq!(run(CFG, &[0.1, 0.55, 0.4, 0.4, 0.4, 0.1]), []);
    }

    #[test]
    fn an_onset_that_wavers_is_still_an_onset() {
        assert_eq!(run(CFG, &[0.1, 0.55, 0.4, 0.59]), [(3, Decision::Started(256))]);
        // One that comes to nothing for long is forgotten: the next begins anew.
        let mut p = vec![0.55];
        p.extend([0.4; 10]);
        p.extend([0.55; 2]);
        assert_eq!(run(CFG, &p), [(12, Decision::Started(11 * 256))]);
    }

    #[test]
    fn a_sure_window_is_enough_unless_longer_speech_is_asked_for() {
        assert_eq!(run(CFG, &[0.1, 0.9]), [(1, Decision::Started(256))]);
        let patient = VadConfig { speech_start_ms: 200, ..CFG };
        assert_eq!(run(patient, &[0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]), []);
    }

    #[test]
    fn between_release_and_threshold_nothing_changes() {
        let mut p = vec![0.55; 5];
        p.extend([0.4; 100]);
        assert_eq!(run(CFG, &p), [(1, Decision::Started(0))]);
        // A pause that has begun is not ended by them either.
        p.push(0.2);
        p.extend([0.4; 18]);
        assert_eq!(run(CFG, &p).last(), Some(&(105 + 18, Decision::Ended(105 * 256))));
    }

    #[test]
    fn a_word_within_the_pause_starts_it_anew() {
        let mut p = vec![0.55; 5];
        p.extend([0.1; 18]);
        p.push(0.55);
        p.extend([0.1; 19]);
        assert_eq!(run(CFG, &p)[1..], [(42, Decision::Ended(24 * 256))]);
    }

    #[test]
    fn no_start_time_means_the_first_window_counts() {
        let cfg = VadConfig { speech_start_ms: 0, ..CFG };
        assert_eq!(run(cfg, &[0.1, 0.9]), [(1, Decision::Started(256))]);
    }

    /// Frames numbered by their samples, so that every sample handed over can be told.
    fn frame(n: u64) -> [i16; FRAME] {
        let mut f = [0; FRAME];
        for (i, s) in f.iter_mut().enumerate() {
            *s = (n * FRAME as u64 + i as u64) as i16;
        }
        f
    }

    #[test]
    fn windows_are_contiguous_and_audio_has_the_preroll_once() {
        let mut ear = Ear::new(CFG, 300, false);
        let mut next_window = 0i16;
        let mut audio = Vec::new();
        let mut first_at = None;
        let mut decisions = Vec::new();
        for n in 0..150u64 {
            let at_ns = 1_000_000_000 + n * 20_000_000;
            let mut ended = false;
            if let Some(w) = ear.hear(&frame(n), at_ns) {
                for s in w {
                    assert_eq!((s * 32768.0) as i16, next_window);
                    next_window = next_window.wrapping_add(1);
                }
                let start = u64::from(next_window as u16) - WINDOW as u64;
                let p = if (4000..9000).contains(&start) { 0.55 } else { 0.05 };
                if let Some(d) = ear.decide(p) {
                    decisions.push((d, n));
                    if let Decision::Ended(at) = d {
                        assert_eq!(ear.at_ns(at), 1_000_000_000 + at * UNIT_NS);
                        ended = true;
                    }
                }
            }
            if let Some((at, from, len)) = ear.audio(ended) {
                first_at.get_or_insert((at, from));
                let (a, b) = ear.pieces(from, len);
                audio.extend_from_slice(a);
                audio.extend_from_slice(b);
            }
        }
        assert_eq!(decisions[0].0, Decision::Started(4096));
        assert_eq!(decisions[1].0, Decision::Ended(9216));
        let from = 4096 - 2400;
        assert_eq!(first_at, Some((1_000_000_000 + from * UNIT_NS, from)));
        let want: Vec<i16> = (from..(decisions[1].1 + 1) * 160).map(|s| s as i16).collect();
        assert_eq!(audio, want);
    }
}
