// SPDX-License-Identifier: GPL-3.0-or-later
//! Noise suppression: what a steady noise adds to the caller's audio is taken out ahead of voice
//! activity and hand-over.
//!
//! Frames overlap by 12 ms in a transform of 32 ms (256 or 512 points, square-root windows), which
//! delays the audio by those 12 ms. The noise of each bin is the least of its smoothed power over the last 1.6 to
//! 1.8 s, times a bias (minimum statistics, R. Martin 2001); its gain is Wiener's by the
//! decision-directed a priori ratio (Ephraim and Malah, 1984), not below -15 dB, so that what is left
//! sounds like the line and not like water. Noise that changes within a word stays.

use crate::media::{FRAME, MAX_FRAME};

/// Points of the transform at 16 kHz.
const MOST: usize = 512;
/// Samples two transforms share at 16 kHz.
const SHARED: usize = MOST - MAX_FRAME;
/// Part of the smoothed power that stays, each frame.
const STAYS: f32 = 0.7;
/// Mean over minimum of the smoothed power of noise.
const BIAS: f32 = 2.4;
/// Part of the a priori ratio that comes from the frame before.
const BEFORE: f32 = 0.94;
/// The least gain: -15 dB.
const LEAST: f32 = 0.178;
/// Frames before which nothing is known of the noise: 300 ms.
const DEAF: u32 = 15;

/// What is known of a frequency.
#[derive(Clone, Copy, Debug)]
struct Bin {
    power: f32,
    /// Least power within the last stretches of ten frames, and in this one.
    least: [f32; 8],
    now: f32,
    /// Power of the speech in the frame before.
    speech: f32,
}

/// One caller's noise suppression.
#[derive(Clone, Debug)]
pub struct Denoise {
    /// Samples of a frame, once one was heard.
    frame: usize,
    frames: u32,
    /// Half of a period of 1024 samples' cosine and sine: those of all transforms.
    turns: [(f32, f32); MOST / 2],
    /// The rising edge of the window, at 8 and at 16 kHz.
    narrow: [f32; SHARED / 2],
    wide: [f32; SHARED],
    /// Samples of the frame before that the next transform begins with.
    before: [f32; SHARED],
    /// What the last transform adds to the next frame.
    rest: [f32; SHARED],
    bins: [Bin; MOST / 2 + 1],
    real: [f32; MOST],
    imaginary: [f32; MOST],
}

impl Default for Denoise {
    fn default() -> Self {
        Denoise::new()
    }
}

impl Denoise {
    /// Nothing heard yet.
    pub fn new() -> Denoise {
        let turn = |k: usize| {
            let angle = std::f64::consts::TAU * k as f64 / MOST as f64;
            (angle.cos() as f32, -angle.sin() as f32)
        };
        let rise = |i: usize, n: usize| {
            let part = (i as f64 + 0.5) / n as f64;
            (part * std::f64::consts::FRAC_PI_2).sin() as f32
        };
        let bin = Bin { power: 0.0, least: [f32::MAX; 8], now: f32::MAX, speech: 0.0 };
        Denoise {
            frame: 0,
            frames: 0,
            turns: std::array::from_fn(turn),
            narrow: std::array::from_fn(|i| rise(i, SHARED / 2)),
            wide: std::array::from_fn(|i| rise(i, SHARED)),
            before: [0.0; SHARED],
            rest: [0.0; SHARED],
            bins: [bin; MOST / 2 + 1],
            real: [0.0; MOST],
            imaginary: [0.0; MOST],
        }
    }

    /// How much later what comes out is than what went in, ns.
    pub const DELAY_NS: u64 = 12_000_000;

    /// A frame in place.
    pub fn run(&mut self, samples: &mut [i16]) {
        let frame = samples.len();
        if frame != self.frame {
            let Denoise { frames, before, rest, bins, .. } = Denoise::new();
            (self.frames, self.before, self.rest, self.bins) = (frames, before, rest, bins);
            self.frame = frame;
        }
        let wide = frame > FRAME;
        let points = if wide { MOST } else { MOST / 2 };
        let shared = points - frame;
        // The window: rising over what is shared with the frame before, falling over the last of this one.
        let heard = self.before.iter().take(shared).copied();
        let new = samples.iter().map(|s| f32::from(*s));
        for (to, from) in self.real.iter_mut().zip(heard.chain(new)) {
            *to = from;
        }
        let last = samples.iter().skip(frame - shared);
        self.before.iter_mut().zip(last).for_each(|(b, s)| *b = f32::from(*s));
        let edge: &[f32] = if wide { &self.wide } else { &self.narrow };
        window(&mut self.real, points, edge);
        self.imaginary.fill(0.0);
        transform(&mut self.real, &mut self.imaginary, points, &self.turns);
        self.suppress(points);
        // The inverse: the same transform of the conjugate.
        transform(&mut self.real, &mut self.imaginary, points, &self.turns);
        let edge: &[f32] = if wide { &self.wide } else { &self.narrow };
        window(&mut self.real, points, edge);
        let scale = 1.0 / points as f32;
        for (at, (sample, new)) in samples.iter_mut().zip(&self.real).enumerate() {
            let rest = self.rest.get(at).filter(|_| at < shared).copied().unwrap_or(0.0);
            let value = (new * scale + rest).round_ties_even();
            *sample = value.clamp(-32_768.0, 32_767.0) as i16;
        }
        let tail = self.real.iter().take(points).skip(frame);
        self.rest.iter_mut().zip(tail).for_each(|(r, v)| *r = v * scale);
    }

    /// Weighs each frequency; the imaginary parts come out with their signs changed.
    fn suppress(&mut self, points: usize) {
        self.frames = self.frames.saturating_add(1);
        let stretch = self.frames / 10;
        let turns = self.frames.is_multiple_of(10);
        let deaf = self.frames < DEAF;
        for (k, bin) in self.bins.iter_mut().take(points / 2 + 1).enumerate() {
            let (Some(re), Some(im)) = (self.real.get(k), self.imaginary.get(k)) else { break };
            let power = re * re + im * im;
            bin.power = STAYS * bin.power + (1.0 - STAYS) * power;
            if self.frames > 5 {
                bin.now = bin.now.min(bin.power);
            }
            if turns {
                if let Some(least) = bin.least.get_mut(stretch as usize % 8) {
                    *least = bin.now;
                }
                bin.now = f32::MAX;
            }
            let least = bin.least.iter().fold(bin.now, |a, b| a.min(*b));
            let noise = least.min(1e30) * BIAS + 1e-3;
            let over = (power / noise - 1.0).max(0.0);
            let prior = BEFORE * bin.speech / noise + (1.0 - BEFORE) * over;
            let gain = if deaf { 1.0 } else { (prior / (1.0 + prior)).max(LEAST) };
            bin.speech = gain * gain * power;
            let mirror = (points - k) % points;
            for place in [k, mirror] {
                if let (Some(re), Some(im)) =
                    (self.real.get_mut(place), self.imaginary.get_mut(place))
                {
                    *re *= gain;
                    *im *= -gain;
                }
                if k == mirror {
                    break;
                }
            }
        }
    }
}

fn window(samples: &mut [f32; MOST], points: usize, edge: &[f32]) {
    samples.iter_mut().zip(edge).for_each(|(s, w)| *s *= w);
    let end = samples.iter_mut().take(points).rev();
    end.zip(edge).for_each(|(s, w)| *s *= w);
}

/// The discrete Fourier transform of `points`, a power of two, in place.
fn transform(
    real: &mut [f32; MOST],
    imaginary: &mut [f32; MOST],
    points: usize,
    turns: &[(f32, f32); MOST / 2],
) {
    let shift = usize::BITS - points.trailing_zeros();
    for i in 0..points {
        let j = i.reverse_bits() >> shift;
        if i < j {
            real.swap(i, j);
            imaginary.swap(i, j);
        }
    }
    let mut half = 1;
    while half < points {
        let step = MOST / (2 * half);
        let (Some(re), Some(im)) = (real.get_mut(..points), imaginary.get_mut(..points)) else {
            return;
        };
        for (re, im) in re.chunks_exact_mut(2 * half).zip(im.chunks_exact_mut(2 * half)) {
            let ((re_a, re_b), (im_a, im_b)) = (re.split_at_mut(half), im.split_at_mut(half));
            let a = re_a.iter_mut().zip(im_a);
            let b = re_b.iter_mut().zip(im_b);
            for (((ra, ia), (rb, ib)), (c, s)) in a.zip(b).zip(turns.iter().step_by(step)) {
                let (r, i) = (*rb * c - *ib * s, *rb * s + *ib * c);
                (*rb, *ib) = (*ra - r, *ia - i);
                (*ra, *ia) = (*ra + r, *ia + i);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: &mut u32, amplitude: f64) -> f64 {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(*seed >> 8) / f64::from(1 << 24) - 0.5) * 12f64.sqrt() * amplitude
    }

    fn power(v: &[i16]) -> f64 {
        v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len() as f64
    }

    #[test]
    fn before_anything_is_known_audio_comes_out_as_it_went_in_12_ms_later() {
        for frame in [FRAME, MAX_FRAME] {
            let (mut denoise, mut seed) = (Denoise::new(), 1);
            let sound: Vec<i16> =
                (0..frame * (DEAF as usize - 1)).map(|_| noise(&mut seed, 3000.0) as i16).collect();
            let mut out = sound.clone();
            out.chunks_mut(frame).for_each(|f| denoise.run(f));
            let late = frame * 12 / 20;
            let pairs = sound.iter().zip(&out[late..]);
            assert!(pairs.skip(late).all(|(a, b)| a.abs_diff(*b) <= 1), "{frame}");
        }
    }

    #[test]
    fn steady_noise_goes_down_by_15_db_and_a_voice_over_it_stays() {
        for frame in [FRAME, MAX_FRAME] {
            let (mut denoise, mut seed) = (Denoise::new(), 5);
            // Noise of -50 dBov; in it, from the fifth second on, a tone of -20 dBov in bursts.
            let sound: Vec<i16> = (0..frame * 400)
                .map(|i| {
                    let on = i / frame >= 250 && (i / frame) % 25 < 10;
                    let tone = (i as f64 * 0.35).sin() * 4634.0 * f64::from(u8::from(on));
                    (tone + noise(&mut seed, 104.0)).round() as i16
                })
                .collect();
            let mut out = sound.clone();
            out.chunks_mut(frame).for_each(|f| denoise.run(f));
            let of = |v: &[i16], a: usize, b: usize| power(&v[a * frame..b * frame]);
            let down = 10.0 * (of(&sound, 150, 240) / of(&out, 150, 240)).log10();
            assert!((12.0..=15.5).contains(&down), "{frame}: {down} dB");
            let kept = 10.0 * (of(&sound, 277, 284) / of(&out, 277, 284)).log10();
            assert!(kept.abs() < 0.5, "{frame}: {kept} dB");
        }
    }
}
