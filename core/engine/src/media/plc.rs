// SPDX-License-Identifier: GPL-3.0-or-later
//! Concealment of missing audio by repeating the last pitch period, after the idea of ITU-T G.711
//! Appendix I but without its delay: full level for 10 ms, then falling to silence at 60 ms.

/// Pitch periods looked for: 66 to 200 Hz at 8 kHz.
const MIN_PITCH: usize = 40;
const MAX_PITCH: usize = 120;
/// Samples compared when looking for the pitch.
const COMPARE: usize = 160;
const HISTORY: usize = MAX_PITCH + COMPARE;
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
    history: [i16; HISTORY],
    cycle: [f32; MAX_PITCH],
    pitch: usize,
    /// Position within the cycle.
    at: usize,
    /// Samples concealed in this gap; 0 outside of one.
    age: usize,
    /// Step between the last real sample and the cycle, faded out.
    step: f32,
}

impl Default for Plc {
    fn default() -> Self {
        Plc {
            history: [0; HISTORY],
            cycle: [0.0; MAX_PITCH],
            pitch: MIN_PITCH,
            at: 0,
            age: 0,
            step: 0.0,
        }
    }
}

impl Plc {
    /// Takes real audio; its beginning is blended with the concealment before it.
    pub fn good(&mut self, audio: &mut [i16]) {
        if self.age > 0 {
            let fade = RETURN_FADE.min(audio.len());
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
        let audible = self.age < END;
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
        &self.history
    }

    fn next(&mut self) -> f32 {
        let gain = match self.age {
            0..HOLD => 1.0,
            HOLD..END => (END - self.age) as f32 / (END - HOLD) as f32,
            _ => 0.0,
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
        let mut h = [0f32; HISTORY];
        for (f, s) in h.iter_mut().zip(&self.history) {
            *f = f32::from(*s);
        }
        self.at = 0;
        self.step = 0.0;
        self.cycle = [0.0; MAX_PITCH];
        self.pitch = MIN_PITCH;
        let (past, now) = h.split_at(MAX_PITCH);
        let energy: f32 = now.iter().map(|v| v * v).sum();
        if energy < SILENT * COMPARE as f32 {
            return;
        }
        let mut best = f32::MIN;
        for lag in MIN_PITCH..=MAX_PITCH {
            let Some(shifted) = h.get(MAX_PITCH - lag..HISTORY - lag) else { continue };
            let dot: f32 = now.iter().zip(shifted).map(|(a, b)| a * b).sum();
            let norm: f32 = shifted.iter().map(|v| v * v).sum();
            let score = dot / (norm + SILENT).sqrt();
            if score > best {
                best = score;
                self.pitch = lag;
            }
        }
        debug_assert_eq!(past.len(), MAX_PITCH);
        let p = self.pitch;
        // The last period, its end blended into what came before its beginning, so that it loops.
        let blend = p / 4;
        for i in 0..p {
            let here = h.get(HISTORY - p + i).copied().unwrap_or(0.0);
            let before = h.get(HISTORY - 2 * p.min(HISTORY / 2) + i).copied().unwrap_or(0.0);
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
        if let Some(tail) = audio.len().checked_sub(HISTORY).and_then(|from| audio.get(from..)) {
            self.history.copy_from_slice(tail);
            return;
        }
        self.history.copy_within(audio.len().., 0);
        if let Some(end) = self.history.get_mut(HISTORY - audio.len()..) {
            end.copy_from_slice(audio);
        }
    }
}

fn to_i16(v: f32) -> i16 {
    // A cast from float saturates.
    v.round() as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(from: usize, n: usize, hz: f32) -> Vec<i16> {
        (from..from + n)
            .map(|i| ((i as f32 * hz * std::f32::consts::TAU / 8000.0).sin() * 8000.0) as i16)
            .collect()
    }

    fn largest_step(audio: &[i16]) -> i32 {
        audio.windows(2).map(|w| (i32::from(w[1]) - i32::from(w[0])).abs()).max().unwrap_or(0)
    }

    #[test]
    fn a_lost_frame_of_a_steady_tone_is_hardly_heard() {
        for hz in [100.0f32, 140.0, 190.0, 210.0, 433.0] {
            let mut plc = Plc::default();
            let mut all = Vec::new();
            for frame in 0..20 {
                let mut audio = tone(frame * 160, 160, hz);
                if frame == 12 {
                    assert!(plc.conceal(&mut audio));
                } else {
                    plc.good(&mut audio);
                }
                all.extend(audio);
            }
            let want = tone(0, all.len(), hz);
            let power = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>();
            let range = 12 * 160..13 * 160;
            let err = power(&mut range.clone().map(|i| f64::from(all[i]) - f64::from(want[i])));
            let sig = power(&mut range.map(|i| f64::from(want[i])));
            assert!(err < sig * 0.2, "{hz} Hz: {:.1} dB", 10.0 * (sig / err).log10());
            assert!(largest_step(&all) < 2 * largest_step(&want) + 100, "{hz} Hz clicks");
        }
    }

    #[test]
    fn a_long_gap_fades_to_silence_in_60_ms() {
        let mut plc = Plc::default();
        plc.good(&mut tone(0, 480, 150.0));
        let mut out = [0i16; 160];
        for _ in 0..3 {
            assert!(plc.conceal(&mut out));
            assert!(out.iter().any(|s| *s != 0));
        }
        assert!(!plc.conceal(&mut out));
        assert!(out.iter().all(|s| *s == 0));
    }

    #[test]
    fn silence_is_concealed_by_silence() {
        let mut plc = Plc::default();
        let mut out = [9i16; 160];
        plc.conceal(&mut out);
        assert!(out.iter().all(|s| *s == 0));
        plc.good(&mut [100; 7]);
    }

    #[test]
    fn gaps_of_any_length_at_any_place_keep_the_level() {
        let mut plc = Plc::default();
        let mut seed = 1u64;
        let mut at = 0;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = 1 + (seed >> 40) as usize % 300;
            let mut audio = tone(at, n, 170.0);
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
