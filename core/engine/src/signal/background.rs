// SPDX-License-Identifier: GPL-3.0-or-later
//! What is heard behind the agent: a loop of a file or of comfort noise, made ahead of the call and
//! shared by calls.

use std::path::Path;
use std::sync::Arc;

use super::wav;
use crate::error::ConfigError;
use crate::media::resample::{Resampler, RATES};
use crate::media::Rate;

/// Comfort noise: its length and its root mean square, -50 dBov.
const NOISE_S: usize = 8;
const NOISE_RMS: f64 = 103.62;
/// Longest file, s.
const LONGEST_S: u64 = 300;
/// Where a loop's end goes over into its beginning, ms.
const SEAM_MS: usize = 50;

/// A loop at the rate of a line; never empty.
#[derive(Debug, PartialEq, Eq)]
pub struct Loop {
    samples: Box<[i16]>,
}

impl Loop {
    /// `None` when there is nothing.
    pub fn new(samples: Vec<i16>) -> Option<Loop> {
        (!samples.is_empty()).then(|| Loop { samples: samples.into() })
    }

    /// One round.
    pub fn samples(&self) -> &[i16] {
        &self.samples
    }

    /// Where a call begins to hear it: each somewhere else, so that lines side by side differ.
    pub fn start(&self, call: u64) -> usize {
        (call.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16) as usize % self.samples.len()
    }

    /// Reads from `at` on, round and round; gives where to go on.
    pub fn read(&self, at: usize, out: &mut [i16]) -> usize {
        let (mut at, mut out) = (at, out);
        while !out.is_empty() {
            let rest = self.samples.get(at..).filter(|r| !r.is_empty()).unwrap_or(&self.samples);
            let n = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(n);
            now.copy_from_slice(rest.get(..n).unwrap_or(&[]));
            at = if n == rest.len() { 0 } else { self.samples.len() - rest.len() + n };
            out = later;
        }
        at
    }

    fn noise(rate: Rate) -> Option<Loop> {
        let mut seed = 1u32;
        let white: Vec<i32> = (0..NOISE_S * rate.hz() as usize)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 16) as i32 - 32_768
            })
            .collect();
        let before = white.iter().cycle().skip(white.len() - 1);
        let after = white.iter().cycle().skip(1);
        let soft: Vec<i32> = white
            .iter()
            .zip(before.zip(after))
            .map(|(w, (before, after))| (before + 2 * w + after) >> 2)
            .collect();
        let power: i64 = soft.iter().map(|z| i64::from(*z) * i64::from(*z)).sum();
        let scale = NOISE_RMS / (power as f64 / soft.len() as f64).sqrt();
        Loop::new(soft.iter().map(|z| (f64::from(*z) * scale).round_ties_even() as i16).collect())
    }

    /// A sound whose end is faded into its beginning.
    fn seamless(mut sound: Vec<i16>, rate: Rate) -> Option<Loop> {
        let seam = (SEAM_MS * rate.per_ms()).min(sound.len() / 2);
        let mut body = sound.split_off(seam);
        let from = body.len() - seam;
        for (i, (end, start)) in body.iter_mut().skip(from).zip(&sound).enumerate() {
            let w = (i + 1) as f64 / (seam + 1) as f64;
            *end = (f64::from(*end) * (1.0 - w) + f64::from(*start) * w) as i16;
        }
        Loop::new(body)
    }
}

/// A background for lines of any rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    narrow: Arc<Loop>,
    wide: Arc<Loop>,
}

impl Background {
    /// By its name in the settings: "noise" or the path of a WAV file; "none" is none.
    ///
    /// # Errors
    /// As [`Background::file`].
    pub fn named(name: &str) -> Result<Option<Background>, ConfigError> {
        match name {
            "none" | "" => Ok(None),
            "noise" => Ok(Background::noise()),
            path => Background::file(Path::new(path)).map(Some),
        }
    }

    /// Comfort noise of -50 dBov.
    pub fn noise() -> Option<Background> {
        let (narrow, wide) = (Loop::noise(Rate::R8k)?, Loop::noise(Rate::R16k)?);
        Some(Background { narrow: Arc::new(narrow), wide: Arc::new(wide) })
    }

    /// A WAV file: PCM of 16 bits, of one or two channels, 8 to 48 kHz, up to five minutes. Takes a
    /// while: reads and resamples.
    ///
    /// # Errors
    /// When it cannot be read or is another kind of file.
    pub fn file(path: &Path) -> Result<Background, ConfigError> {
        let bad = |problem: String| {
            let remedy =
                "give \"none\", \"noise\" or a WAV file of 16-bit PCM, 8 to 48 kHz, up to 300 s";
            ConfigError::new("background", format!("{}: {problem}", path.display()), remedy)
        };
        let bytes = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
        let sound = wav::read(&bytes).map_err(|problem| bad(problem.to_owned()))?;
        if !RATES.contains(&sound.rate) {
            return Err(bad(format!("{} Hz", sound.rate)));
        }
        if sound.samples.len() as u64 > LONGEST_S * u64::from(sound.rate) {
            return Err(bad("too long".to_owned()));
        }
        let at = |line: Rate| {
            let mut out = Vec::new();
            let mut resampler = Resampler::new(sound.rate, line)?;
            resampler.push(sound.samples.iter().copied(), &mut out);
            resampler.flush(&mut out);
            Loop::seamless(out, line).map(Arc::new)
        };
        match (at(Rate::R8k), at(Rate::R16k)) {
            (Some(narrow), Some(wide)) => Ok(Background { narrow, wide }),
            _ => Err(bad("no audio in it".to_owned())),
        }
    }

    /// For a line of that rate.
    pub fn of(&self, rate: Rate) -> Arc<Loop> {
        Arc::clone(match rate {
            Rate::R8k => &self.narrow,
            Rate::R16k => &self.wide,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_level_and_no_seam() {
        for rate in [Rate::R8k, Rate::R16k] {
            let Some(noise) = Loop::noise(rate) else { unreachable!() };
            let v = noise.samples();
            let power: f64 = v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len() as f64;
            let dbov = 10.0 * (power / f64::from(1 << 30)).log10();
            assert!((dbov + 50.0).abs() < 0.05, "{dbov}");
            assert_eq!(v.len(), 8 * rate.hz() as usize);
        }
    }

    #[test]
    fn a_loop_is_read_round_and_round_in_any_pieces() {
        let Some(sound) = Loop::new((0..7).collect()) else { unreachable!() };
        let (mut at, mut all) = (3, Vec::new());
        for n in [1, 0, 5, 20, 2] {
            let mut out = vec![0; n];
            at = sound.read(at, &mut out);
            all.extend(out);
        }
        let want: Vec<i16> = (3..31).map(|i| i % 7).collect();
        assert_eq!(all, want);
        assert!(Loop::new(Vec::new()).is_none());
        assert!((0..1000).all(|call| sound.start(call) < 7));
    }

    #[test]
    fn the_end_of_a_file_goes_over_into_its_beginning() {
        let ramp: Vec<i16> = (0..8000).collect();
        let Some(sound) = Loop::seamless(ramp, Rate::R8k) else { unreachable!() };
        let v = sound.samples();
        assert_eq!((v.len(), v[0]), (7600, 400));
        let jump = (i32::from(v[0]) - i32::from(v[7599])).abs();
        assert!(jump < 40, "{jump}");
        assert_eq!(Loop::seamless(vec![5], Rate::R8k).map(|l| l.samples().len()), Some(1));
    }

    #[test]
    fn what_is_no_wav_file_is_named() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("voice-edge-background-{}.wav", std::process::id()));
        assert!(std::fs::write(&path, b"RIFF....").is_ok());
        let told = Background::named(&path.to_string_lossy()).map_err(|e| e.to_string());
        let _ = std::fs::remove_file(&path);
        assert!(
            matches!(&told, Err(e) if e.contains("background-") && e.contains("16-bit")),
            "{told:?}"
        );
        assert!(Background::named("/nowhere.wav").is_err());
        assert_eq!(Background::named("none").ok(), Some(None));
    }
}
