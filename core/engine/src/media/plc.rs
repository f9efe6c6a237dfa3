// SPDX-License-Identifier: GPL-3.0-or-later
//! Concealment of missing audio by repeating the last pitch period, after the idea of ITU-T G.711
//! Appendix I but without its delay: full level for 10 ms, then falling to silence at 60 ms. The
//! same at both rates; lengths here are for 8 kHz and double at 16.

use super::Rate;

/// Pitch periods looked for: 66 to 200 Hz at 8 kHz.
const MIN_PITCH: usize = 40;
const MAX_PITCH: usize = 120;
/// Samples compared when looking for the pitch.
const COMPARE: usize = 160;
const HISTORY: usize = MAX_PITCH + COMPARE;
/// Samples of the greatest rate for one of 8 kHz.
const MOST: usize = 2;
/// Samples of cross-fade when real audio returns.
const RETURN_FADE: usize = 32;
const HOLD: usize = 80;
const END: usize = 480;
/// Fade before a silence that is none of the network's doing.
const HUSH: usize = 40;
/// Mean square below which there is no pitch worth repeating (about -60 dBFS).
const SILENT: f32 = 1000.0;

/// State of one call's concealment.
#[derive(Debug)]
pub struct Plc {
    /// Samples for one of 8 kHz.
    scale: usize,
    /// Its first `HISTORY * scale` samples are in use.
    history: [i16; HISTORY * MOST],
    cycle: [f32; MAX_PITCH * MOST],
    pitch: usize,
    /// Position within the cycle.
    at: usize,
    /// Samples concealed in this gap; 0 outside of one.
    age: usize,
    /// Step between the last real sample and the cycle, faded out.
    step: f32,
}

impl Plc {
    /// For audio of `rate`.
    pub fn new(rate: Rate) -> Plc {
        let scale = rate.per_unit();
        Plc {
            scale,
            history: [0; HISTORY * MOST],
            cycle: [0.0; MAX_PITCH * MOST],
            pitch: MIN_PITCH * scale,
            at: 0,
            age: 0,
            step: 0.0,
        }
    }

    /// Takes real audio; its beginning is blended with the concealment before it.
    pub fn good(&mut self, audio: &mut [i16]) {
        if self.age > 0 {
            let fade = (RETURN_FADE * self.scale).min(audio.len());
            for (i, s) in audio.iter_mut().take(fade).enumerate() {
                let w = (i + 1) as f32 / (fade + 1) as f32;
                *s = to_i16(f32::from(*s) * w + self.next() * (1.0 - w));
            }
            self.age = 0;
        }
        self.remember(audio);
    }

    /// Fills `out` with a guess. False once the gap is so long that the guess is silence.
    pub fn conceal(&mut self, out: &mut [i16]) -> bool {
        if self.age == 0 {
            self.begin();
        }
        let audible = self.age < END * self.scale;
        for s in out.iter_mut() {
            *s = to_i16(self.next());
        }
        self.remember(out);
        audible
    }

    /// Silence in the place of audio that was never sent: the last sound goes down in 5 ms.
    pub fn hush(&mut self, out: &mut [i16]) {
        if self.age == 0 {
            self.begin();
        }
        for (i, s) in out.iter_mut().enumerate() {
            let left = HUSH.saturating_sub(i) as f32 / HUSH as f32;
            *s = to_i16(self.next() * left);
        }
        self.remember(out);
        self.age = self.age.max(END);
    }

    /// The last samples played, real or concealed.
    pub fn past(&self) -> &[i16] {
        self.history.get(..HISTORY * self.scale).unwrap_or(&[])
    }

    fn next(&mut self) -> f32 {
        let (hold, end) = (HOLD * self.scale, END * self.scale);
        let gain = if self.age < hold {
            1.0
        } else {
            end.saturating_sub(self.age) as f32 / (end - hold) as f32
        };
        // The step at the edge is gone after a quarter of a period.
        let quarter = self.pitch / 4;
        let bend = if self.age < quarter {
            self.step * (quarter - self.age) as f32 / quarter as f32
        } else {
            0.0
        };
        let v = self.cycle.get(self.at).copied().unwrap_or(0.0);
        self.at = if self.at + 1 >= self.pitch { 0 } else { self.at + 1 };
        self.age = self.age.saturating_add(1);
        (v + bend) * gain
    }

    fn begin(&mut self) {
        let scale = self.scale;
        let (length, compare) = (HISTORY * scale, COMPARE * scale);
        let mut h = [0f32; HISTORY * MOST];
        for (f, s) in h.iter_mut().zip(&self.history) {
            *f = f32::from(*s);
        }
        let h = &h[..length];
        self.at = 0;
        self.step = 0.0;
        self.cycle = [0.0; MAX_PITCH * MOST];
        self.pitch = MIN_PITCH * scale;
        let energy: f32 = h[length - compare..].iter().map(|v| v * v).sum();
        if energy < SILENT * compare as f32 {
            return;
        }
        // Every lag of 8 kHz first, on every sample of that rate; then its neighbours at 16.
        let lags = (MIN_PITCH..=MAX_PITCH).map(|lag| lag * scale);
        let coarse = best_lag(h, compare, scale, lags);
        let fine = (coarse + 1 - scale)..=(coarse + scale - 1).min(MAX_PITCH * scale);
        let p = if scale > 1 { best_lag(h, compare, 1, fine) } else { coarse };
        self.pitch = p;
        // The last period, its end blended into what came before its beginning, so that it loops.
        let blend = p / 4;
        for i in 0..p {
            let here = h.get(length - p + i).copied().unwrap_or(0.0);
            let before = h.get(length - 2 * p.min(length / 2) + i).copied().unwrap_or(0.0);
            let tail = (i + blend).saturating_sub(p - 1) as f32 / blend as f32;
            if let Some(c) = self.cycle.get_mut(i) {
                *c = here * (1.0 - tail) + before * tail;
            }
        }
        let last = h.last().copied().unwrap_or(0.0);
        let loops_from = self.cycle.get(p - 1).copied().unwrap_or(0.0);
        self.step = last - loops_from;
    }

    fn remember(&mut self, audio: &[i16]) {
        let length = HISTORY * self.scale;
        let Some(history) = self.history.get_mut(..length) else { return };
        if let Some(tail) = audio.len().checked_sub(length).and_then(|from| audio.get(from..)) {
            history.copy_from_slice(tail);
            return;
        }
        history.copy_within(audio.len().., 0);
        if let Some(end) = history.get_mut(length - audio.len()..) {
            end.copy_from_slice(audio);
        }
    }
}

/// The lag by which the last `compare` samples of `h` resemble what was before them most, comparing
/// each `every`th.
fn best_lag(h: &[f32], compare: usize, every: usize, lags: impl Iterator<Item = usize>) -> usize {
    let from = h.len() - compare;
    let mut best = (f32::MIN, 0);
    for lag in lags {
        let (Some(now), Some(then)) = (h.get(from..), h.get(from - lag..h.len() - lag)) else {
            continue;
        };
        let (mut dot, mut norm) = (0f32, 0f32);
        for (a, b) in now.iter().zip(then).step_by(every) {
            dot += a * b;
            norm += b * b;
        }
        let score = dot / (norm + SILENT).sqrt();
        if score > best.0 {
            best = (score, lag);
        }
    }
    best.1
}

fn to_i16(v: f32) -> i16 {
    // A cast from float saturates.
    v.round() as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Rate; 2] = [Rate::R8k, Rate::R16k];

    fn tone(rate: Rate, from: usize, n: usize, hz: f32) -> Vec<i16> {
        let step = hz * std::f32::consts::TAU / rate.hz() as f32;
        (from..from + n).map(|i| ((i as f32 * step).sin() * 8000.0) as i16).collect()
    }

    fn largest_step(audio: &[i16]) -> i32 {
        audio.windows(2).map(|w| (i32::from(w[1]) - i32::from(w[0])).abs()).max().unwrap_or(0)
    }

    #[test]
    fn a_lost_frame_of_a_steady_tone_is_hardly_heard() {
        for rate in BOTH {
            let n = rate.frame();
            for hz in [100.0f32, 140.0, 190.0, 210.0, 433.0] {
                let mut plc = Plc::new(rate);
                let mut all = Vec::new();
                for frame in 0..20 {
                    let mut audio = tone(rate, frame * n, n, hz);
                    if frame == 12 {
                        assert!(plc.conceal(&mut audio));
                    } else {
                        plc.good(&mut audio);
                    }
                    all.extend(audio);
                }
                let want = tone(rate, 0, all.len(), hz);
                let power = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>();
                let range = 12 * n..13 * n;
                let err = power(&mut range.clone().map(|i| f64::from(all[i]) - f64::from(want[i])));
                let sig = power(&mut range.map(|i| f64::from(want[i])));
                let db = 10.0 * (sig / err).log10();
                assert!(err < sig * 0.2, "{rate:?} {hz} Hz: {db:.1} dB");
                assert!(largest_step(&all) < 2 * largest_step(&want) + 100, "{hz} Hz clicks");
            }
        }
    }

    #[test]
    fn a_long_gap_fades_to_silence_in_60_ms() {
        for rate in BOTH {
            let mut plc = Plc::new(rate);
            plc.good(&mut tone(rate, 0, 3 * rate.frame(), 150.0));
            let mut out = vec![0i16; rate.frame()];
            for _ in 0..3 {
                assert!(plc.conceal(&mut out));
                assert!(out.iter().any(|s| *s != 0));
            }
            assert!(!plc.conceal(&mut out));
            assert!(out.iter().all(|s| *s == 0));
        }
    }

    #[test]
    fn silence_is_concealed_by_silence() {
        for rate in BOTH {
            let mut plc = Plc::new(rate);
            let mut out = vec![9i16; rate.frame()];
            plc.conceal(&mut out);
            assert!(out.iter().all(|s| *s == 0));
            plc.good(&mut [100; 7]);
        }
    }

    #[test]
    fn gaps_of_any_length_at_any_place_keep_the_level() {
        for rate in BOTH {
            let mut plc = Plc::new(rate);
            let mut seed = 1u64;
            let mut at = 0;
            for _ in 0..2000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let n = 1 + (seed >> 40) as usize % 300;
                let mut audio = tone(rate, at, n, 170.0);
                at += n;
                if seed >> 62 == 0 {
                    plc.conceal(&mut audio);
                } else {
                    plc.good(&mut audio);
                }
                assert!(audio.iter().all(|s| s.unsigned_abs() < 12_000));
            }
        }
    }
}
