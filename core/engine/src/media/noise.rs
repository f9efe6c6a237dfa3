// SPDX-License-Identifier: GPL-3.0-or-later
//! Comfort noise (RFC 3389): the background of a peer that sends nothing while its user is silent.
//! At 8 kHz, as its payload describes it.

/// Static payload type (RFC 3551 table 4). Other RTP clocks would have a dynamic one.
pub const PAYLOAD_TYPE: u8 = 13;
/// Order of the model beyond which coefficients are left out; senders use 10 at most.
const ORDER: usize = 12;
/// Loudest noise made: a peer that claims more is wrong about its silence.
const LOUDEST_DBOV: u8 = 20;

/// A generator.
#[derive(Clone, Debug)]
pub struct ComfortNoise {
    /// Reflection coefficients and the lattice's state.
    reflection: [f32; ORDER],
    backward: [f32; ORDER],
    /// Deviation of the white noise that goes in.
    level: f32,
    seed: u32,
}

impl ComfortNoise {
    /// The noise that a payload describes; `None` when it is empty. `before` is the noise until
    /// now, whose state goes on.
    pub fn from_payload(payload: &[u8], before: Option<&ComfortNoise>) -> Option<ComfortNoise> {
        let (level, model) = payload.split_first()?;
        // The first bit is reserved.
        let dbov = (level & 0x7F).max(LOUDEST_DBOV);
        let mut reflection = [0f32; ORDER];
        for (k, n) in reflection.iter_mut().zip(model) {
            // RFC 3389 section 3.1, kept off the edge of stability.
            *k = (258.0 * (f32::from(*n) - 127.0) / 32_768.0).clamp(-0.98, 0.98);
        }
        // The level is that of the noise made; the lattice amplifies by the root of this product.
        let gain: f32 = reflection.iter().map(|k| 1.0 - k * k).product();
        let level = 32_768.0 * 10f32.powf(-f32::from(dbov) / 20.0) * gain.sqrt();
        let (backward, seed) = before.map_or(([0.0; ORDER], 1), |b| (b.backward, b.seed));
        Some(ComfortNoise { reflection, backward, level, seed })
    }

    /// The next samples.
    pub fn fill(&mut self, out: &mut [i16]) {
        for sample in out {
            let mut forward = self.white() * self.level;
            // All-pole lattice, from the last stage to the first.
            for at in (0..ORDER).rev() {
                let (k, back) = (self.reflection[at], self.backward[at]);
                forward -= k * back;
                if let Some(next) = self.backward.get_mut(at + 1) {
                    *next = k * forward + back;
                }
            }
            self.backward[0] = forward;
            *sample = forward.round() as i16;
        }
    }

    /// White noise of deviation 1.
    fn white(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((self.seed >> 8) as f32 / (1 << 24) as f32 - 0.5) * 3.464_101_6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(payload: &[u8]) -> Vec<i16> {
        let mut out = vec![0; 40_000];
        if let Some(mut noise) = ComfortNoise::from_payload(payload, None) {
            noise.fill(&mut out);
        }
        out
    }

    fn dbov(v: &[i16]) -> f64 {
        let power = v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len() as f64;
        20.0 * (power.sqrt() / 32_768.0).log10()
    }

    /// Correlation of neighbours.
    fn tilt(v: &[i16]) -> f64 {
        let power: f64 = v.iter().map(|s| f64::from(*s).powi(2)).sum();
        v.windows(2).map(|w| f64::from(w[0]) * f64::from(w[1])).sum::<f64>() / power
    }

    #[test]
    fn the_level_is_the_one_asked_for_whatever_the_spectrum() {
        for level in [25u8, 40, 55, 70] {
            for model in [&[][..], &[60], &[200, 150], &[50, 180, 100, 140, 120, 127, 130, 125]] {
                let payload: Vec<u8> = [&[level], model].concat();
                let got = dbov(&made(&payload));
                assert!((got + f64::from(level)).abs() < 1.0, "{payload:?}: {got}");
            }
        }
        assert!(dbov(&made(&[0x80 | 50])) < -45.0, "the first bit is no part of the level");
        assert!(dbov(&made(&[0])) < -19.0);
        assert!(made(&[127]).iter().all(|s| s.abs() <= 1));
    }

    #[test]
    fn the_spectrum_follows_the_reflection_coefficients() {
        // k = -0.5 is noise of low pitch: neighbours are alike by 0.5.
        assert!((tilt(&made(&[30, 127 - 63])) - 0.5).abs() < 0.05);
        assert!((tilt(&made(&[30, 127 + 63])) + 0.5).abs() < 0.05);
        assert!(tilt(&made(&[30])).abs() < 0.05);
    }

    #[test]
    fn no_payload_makes_it_burst() {
        for n in 0..=255u8 {
            let v = made(&[40, n, n, 255 - n, n, n, 255 - n, n, n, n, n, n, n, n, n, n, n]);
            assert!(dbov(&v) < -30.0, "{n}: {}", dbov(&v));
        }
        assert!(ComfortNoise::from_payload(&[], None).is_none());
    }
}
