// SPDX-License-Identifier: GPL-3.0-or-later
//! The line-echo guard: tells whether what is heard is what was said, come back over the line.
//!
//! What is sent and what is heard are kept at 4 kHz, first differences of both, so that all of
//! speech counts alike. Asked about a window that sounds like speech, the guard searches the last
//! 640 ms of what was said for where it fits, and takes the share of the heard energy that a short
//! filter (16 taps, 4 ms: the line's hybrid) explains there by least squares. An echo is explained;
//! a voice is not, and a voice over an echo outweighs it. Once found, an echo is looked for
//! where it was. Nothing adapts and nothing is subtracted: levels, clock drift, codecs and
//! jitter buffers move what is found, and the next search finds it again.

/// Samples of a question: 80 ms at 4 kHz.
const SPAN: usize = 320;
/// Greatest delay of an echo: 640 ms, with the jitter buffers of both ends.
const MOST: usize = 2560;
/// Taps of the filter.
const TAPS: usize = 16;
/// Taps before the delay that fits best.
const BEFORE: usize = 5;
/// The share of the energy from which on what is heard is an echo, when none was expected.
const SHARE: f64 = 0.75;
/// The same where one was found several times of late.
const EXPECTED: f64 = 0.5;
/// Of the energy, at most so much is left out as noise of the line.
const NOISE: f64 = 0.3;
/// What is not explained and weaker than this, beside the echoes of late, is no voice: 10 dB.
const REST: f64 = 0.1;
/// By which they are forgotten, a frame: 2.2 dB/s.
const FADE: f64 = 0.995;
/// Times after which it is sure where the echo is.
const SURE: u32 = 3;
/// How far a frame stands out of the line's noise for an echo to be looked for in it: 10 dB.
const LOUD: i64 = 10;
/// Frames in which an echo is expected after one was found.
const FRESH: u32 = 500;
/// Peaks of the search that are looked at more closely.
const PEAKS: usize = 3;
/// Samples kept of what was said.
const SAID: usize = 4096;
/// Samples kept of what is heard.
const HEARD: usize = 512;
/// Frames without the agent's voice after which there is no echo: 640 ms and the span.
const FORGET: u32 = 38;
/// Energy of a frame at 4 kHz above which the agent is heard: about -57 dBov.
const AUDIBLE: i64 = 80 * 8 * 8;

/// Whether windows of a call are echo.
#[derive(Clone, Debug)]
pub struct EchoGuard {
    said: Band<SAID, { 2 * SAID }>,
    heard: Band<HEARD, { 2 * HEARD }>,
    /// Where the echo was found last.
    delay: Option<usize>,
    /// Frames since the agent was last heard.
    silent: u32,
    /// Frames since an echo was found, and how often there.
    since: u32,
    times: u32,
    floor: Floor,
    loud: bool,
    /// Energy of the loudest echo of late.
    level: f64,
}

impl Default for EchoGuard {
    fn default() -> Self {
        EchoGuard::new()
    }
}

impl EchoGuard {
    /// Nothing said or heard yet.
    pub fn new() -> EchoGuard {
        EchoGuard {
            said: Band::new(),
            heard: Band::new(),
            delay: None,
            silent: FORGET,
            since: FRESH,
            times: 0,
            floor: Floor::default(),
            loud: false,
            level: 0.0,
        }
    }

    /// A tick: the frame that was sent, and the one that is heard.
    pub fn frame(&mut self, sent: &[i16], heard: &[i16]) {
        let energy = self.said.push(sent);
        let came = self.heard.push(heard);
        self.floor.push(came);
        self.loud = came > LOUD * self.floor.energy();
        self.since = (self.since + 1).min(FRESH);
        self.level *= FADE;
        self.silent = if energy > AUDIBLE { 0 } else { (self.silent + 1).min(FORGET) };
    }

    fn sure(&self) -> bool {
        self.since < FRESH && self.times >= SURE
    }

    /// Whether to ask though it does not sound like speech (yet): there may be an echo, and where is not known.
    pub fn curious(&self) -> bool {
        self.loud && self.silent < FORGET && !self.sure()
    }

    /// Whether the last 80 ms are echo. `search`: not only where it was found last.
    pub fn is_echo(&mut self, search: bool) -> bool {
        if self.silent >= FORGET {
            return false;
        }
        let Some(heard) = self.heard.last::<SPAN>(0) else { return false };
        let energy = heard.iter().map(|s| f64::from(*s) * f64::from(*s)).sum::<f64>();
        if energy == 0.0 {
            return false;
        }
        let noise = (self.floor.energy() as f64 * 6.0).min(NOISE * energy);
        let sure = self.sure();
        let share = if sure { EXPECTED } else { SHARE };
        let explained = |delay| self.explained(delay, heard);
        let known = self.delay.map(|delay| (explained(delay), delay));
        let mut found = known.filter(|(e, _)| *e >= share * energy - noise);
        let weak = |(e, _): (f64, usize)| energy - e <= REST * self.level;
        if found.is_none() && sure && known.is_some_and(weak) {
            return true;
        }
        if found.is_none() && search {
            let peaks = self.peaks(heard).into_iter().flatten();
            let mut peaks = peaks.map(|delay| (explained(delay), delay));
            found = peaks.find(|(e, _)| *e >= SHARE * energy - noise);
        }
        if let Some((explained, delay)) = found {
            let same = self.delay.is_some_and(|known| known.abs_diff(delay) <= 1);
            self.times = if same { self.times.saturating_add(1) } else { 1 };
            self.delay = Some(delay);
            self.since = 0;
            self.level = self.level.max(explained);
        }
        found.is_some()
    }

    /// Delays at which what was said fits best, the best first.
    fn peaks(&self, heard: &[i16; SPAN]) -> [Option<usize>; PEAKS] {
        // Scaled so that sums of products fit in 32 bits.
        let most = heard.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0).max(1);
        let scaled = heard.map(|s| (i32::from(s) * 255 / i32::from(most)) as i16);
        let mut best = [(0.0f32, None); PEAKS];
        let mut energy = 0i64;
        let Some(first) = self.said.last::<SPAN>(0) else { return [None; PEAKS] };
        energy += first.iter().map(|s| i64::from(*s) * i64::from(*s)).sum::<i64>();
        let square = |s: Option<i16>| s.map_or(0, |s| i64::from(s) * i64::from(s));
        let mut last = 0.0f32;
        let mut rising = true;
        for delay in 0..MOST {
            let Some(said) = self.said.last::<SPAN>(delay) else { break };
            let product = scaled.iter().zip(said).map(|(a, b)| i32::from(*a) * i32::from(*b));
            let sum = product.sum::<i32>() as f32;
            let fit = if energy > 0 { sum * sum / energy as f32 } else { 0.0 };
            // A peak is told when it is passed.
            if rising && fit < last {
                keep(&mut best, last, delay - 1);
            }
            rising = fit >= last;
            last = fit;
            energy += square(self.said.at(delay + SPAN)) - square(self.said.at(delay));
        }
        best.map(|(_, delay)| delay)
    }

    /// The energy of what is heard that what was said explains at a delay.
    fn explained(&self, delay: usize, heard: &[i16; SPAN]) -> f64 {
        let nearest = delay.saturating_sub(BEFORE);
        let mut said = [0f32; SPAN + TAPS];
        let Some(kept) = self.said.last::<{ SPAN + TAPS }>(nearest) else { return 0.0 };
        said.iter_mut().zip(kept).for_each(|(to, s)| *to = f32::from(*s));
        let heard = heard.map(f32::from);
        // Tap k is the sound `nearest + k` samples before.
        let of = |k: usize| said.get(TAPS - k..TAPS - k + SPAN).unwrap_or(&[]);
        let mut products = [[0f64; TAPS]; TAPS];
        let mut sides = [0f64; TAPS];
        for k in 0..TAPS {
            sides[k] = dot(of(k), &heard);
            products[0][k] = dot(of(0), of(k));
            products[k][0] = products[0][k];
        }
        let sample = |at: usize| said.get(at).map_or(0.0, |s| f64::from(*s));
        for i in 1..TAPS {
            for j in i..TAPS {
                // One sample earlier in both: the first comes in, the last goes out.
                let come = sample(TAPS - i) * sample(TAPS - j);
                let gone = sample(TAPS - i + SPAN) * sample(TAPS - j + SPAN);
                products[i][j] = products[i - 1][j - 1] + come - gone;
                products[j][i] = products[i][j];
            }
        }
        let spoken = products[0][0];
        let explained = project(&mut products, sides);
        // No line gives back more than it got.
        if explained <= spoken {
            explained
        } else {
            0.0
        }
    }
}

/// Keeps the best, the best first.
fn keep(best: &mut [(f32, Option<usize>); PEAKS], fit: f32, delay: usize) {
    let mut new = (fit, Some(delay));
    for place in best {
        if new.0 > place.0 {
            std::mem::swap(place, &mut new);
        }
    }
}

/// The quietest frame of the last 1.6 to 1.8 s.
#[derive(Clone, Debug)]
struct Floor {
    least: [i64; 8],
    now: i64,
    count: usize,
}

impl Default for Floor {
    fn default() -> Self {
        Floor { least: [i64::MAX; 8], now: i64::MAX, count: 0 }
    }
}

impl Floor {
    fn push(&mut self, energy: i64) {
        self.now = self.now.min(energy);
        self.count += 1;
        if self.count.is_multiple_of(10) {
            if let Some(least) = self.least.get_mut(self.count / 10 % 8) {
                *least = self.now;
            }
            self.now = i64::MAX;
        }
    }

    fn energy(&self) -> i64 {
        self.least.iter().fold(self.now, |a, b| a.min(*b))
    }
}

/// Product sum in eight lanes.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

/// Energy of the part of a sound that lies in the span of others: sides' · products⁻¹ · sides, by
/// Cholesky.
fn project(products: &mut [[f64; TAPS]; TAPS], mut sides: [f64; TAPS]) -> f64 {
    let load = 1e-4 * products[0][0] + 1e-9;
    let mut explained = 0.0;
    for i in 0..TAPS {
        let mut row = products[i];
        for k in 0..i {
            let mut sum = row[k];
            for (a, b) in row.iter().zip(products[k].iter()).take(k) {
                sum -= a * b;
            }
            row[k] = sum / products[k][k];
        }
        let squares: f64 = row.iter().take(i).map(|v| v * v).sum();
        row[i] = (row[i] + load - squares).max(load).sqrt();
        let before: f64 = row.iter().zip(&sides).take(i).map(|(a, b)| a * b).sum();
        sides[i] = (sides[i] - before) / row[i];
        explained += sides[i] * sides[i];
        products[i] = row;
    }
    explained
}

/// The newest samples of a sound at 4 kHz; `TWICE` is `KEPT` twice: each sample stands in it twice, so that any stretch
/// lies in one piece.
#[derive(Clone, Debug)]
struct Band<const KEPT: usize, const TWICE: usize> {
    ring: [i16; TWICE],
    at: usize,
    halves: [Half; 2],
    before: i32,
}

impl<const KEPT: usize, const TWICE: usize> Band<KEPT, TWICE> {
    fn new() -> Self {
        Band { ring: [0; TWICE], at: 0, halves: [Half::default(); 2], before: 0 }
    }

    /// Takes a frame of 8 or 16 kHz; gives the energy of what was added.
    fn push(&mut self, frame: &[i16]) -> i64 {
        let mut energy = 0;
        let wide = frame.len() > crate::media::FRAME;
        let Band { ring, at, halves: [first, second], before } = self;
        let mut add = |sample: i32| {
            // Of the 17 bits of a difference 14 are kept.
            let new = ((sample - *before * 15 / 16) >> 2) as i16;
            *before = sample;
            for place in [*at, *at + KEPT] {
                if let Some(s) = ring.get_mut(place) {
                    *s = new;
                }
            }
            *at = (*at + 1) % KEPT;
            energy += i64::from(new) * i64::from(new);
        };
        for sample in frame {
            let Some(half) = first.take(i32::from(*sample)) else { continue };
            if !wide {
                add(half);
            } else if let Some(quarter) = second.take(half) {
                add(quarter);
            }
        }
        energy
    }

    /// The newest `N` samples but for the `back` newest of all.
    fn last<const N: usize>(&self, back: usize) -> Option<&[i16; N]> {
        let start = (self.at + KEPT).checked_sub(back + N)?;
        self.ring.get(start..start + N)?.try_into().ok()
    }

    /// The sample `back` before the newest.
    fn at(&self, back: usize) -> Option<i16> {
        self.ring.get((self.at + KEPT).checked_sub(back + 1)?).copied()
    }
}

/// Halves the rate: a half-band filter of seven taps (-1 0 9 16 9 0 -1)/32.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    line: [i32; 7],
    odd: Option<i32>,
}

impl Half {
    /// The next sample; gives one for every two.
    fn take(&mut self, sample: i32) -> Option<i32> {
        let Some(before) = self.odd.take() else {
            self.odd = Some(sample);
            return None;
        };
        let [_, _, c, d, e, f, g] = self.line;
        self.line = [c, d, e, f, g, before, sample];
        Some((16 * f + 9 * (e + g) - (c + sample) + 16) >> 5)
    }
}
