// SPDX-License-Identifier: GPL-3.0-or-later
//! What gain control and mixer do to sounds, named by what is heard.

use std::sync::Arc;

use super::background::Loop;
use super::gain::{Gain, GainConfig};
use super::mixer::{Mixer, MixerConfig};
use crate::media::FRAME;

const ON: GainConfig = GainConfig { enabled: true, target_dbov: -26.0, max_db: 18.0 };

/// Noise of uniform distribution, deviation 1.
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(self.0 >> 8) / f64::from(1 << 24) - 0.5) * 12f64.sqrt()
    }
}

/// Syllables of 200 ms with pauses of 100 ms at `speech` dBov, over noise of `noise` dBov.
fn talk(speech: f64, noise: f64, frames: usize) -> Vec<i16> {
    let (mut random, amplitude) = (Noise(7), |dbov: f64| 32_768.0 * 10f64.powf(dbov / 20.0));
    (0..frames * FRAME)
        .map(|i| {
            let syllable = i % (15 * FRAME) < 10 * FRAME;
            let voice = (i as f64 * 0.4).sin() * 2f64.sqrt() * amplitude(speech);
            (if syllable { voice } else { 0.0 } + random.next() * amplitude(noise)).round() as i16
        })
        .collect()
}

fn dbov(v: &[i16]) -> f64 {
    let power: f64 = v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len() as f64;
    10.0 * (power.max(1e-9) / f64::from(1 << 30)).log10()
}

fn gained(gain: &mut Gain, sound: &[i16]) -> Vec<i16> {
    let mut out = vec![0; sound.len()];
    sound.chunks(FRAME).zip(out.chunks_mut(FRAME)).for_each(|(i, o)| gain.run(i, o));
    out
}

/// Samples of the last syllable.
fn syllable(frames: usize, v: &[i16]) -> &[i16] {
    let start = (frames / 15 - 1) * 15 * FRAME;
    &v[start + FRAME..start + 9 * FRAME]
}

#[test]
fn quiet_and_loud_callers_come_to_the_target() {
    for speech in [-42.0, -35.0, -26.0, -20.0, -15.0] {
        let mut gain = Gain::new(ON);
        let out = gained(&mut gain, &talk(speech, -75.0, 600));
        let got = dbov(syllable(600, &out));
        assert!((got + 26.0).abs() < 1.5, "{speech} dBov became {got}");
        let told = gain.level().speech_steps().map(super::steps::dbov);
        assert!(told.is_some_and(|t| (t - speech).abs() < 1.5), "{speech}: {told:?}");
    }
    // No more than allowed: 18 dB up, 12 down.
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-50.0, -75.0, 900));
    assert_eq!(gain.db(), 18.0);
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-6.0, -75.0, 600));
    assert_eq!(gain.db(), -12.0);
}

#[test]
fn noise_is_not_raised_and_pauses_keep_the_gain() {
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-40.0, -60.0, 900));
    let noisy = gain.db();
    assert!((8.0..=12.0).contains(&noisy), "{noisy} dB bring -60 to -50");
    // Ten seconds of the same noise alone.
    let before = gain.db();
    let pause: Vec<i16> = talk(-100.0, -60.0, 500);
    let out = gained(&mut gain, &pause);
    assert!((gain.db() - before).abs() < 1.5, "{before} became {}", gain.db());
    assert!(dbov(&out[out.len() / 2..]) < -48.0);
    // Noise from the start is no speech.
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-100.0, -45.0, 500));
    assert_eq!(gain.db(), 0.0);
}

#[test]
fn a_shout_after_whispers_is_not_clipped() {
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-45.0, -80.0, 900));
    assert!(gain.db() > 15.0);
    let shout: Vec<i16> =
        (0..100 * FRAME).map(|i| if i / 10 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
    let out = gained(&mut gain, &shout);
    assert!(out.iter().zip(&shout).all(|(o, s)| (*o < 0) == (*s < 0)));
    let loud: Vec<i16> =
        (0..100 * FRAME).map(|i| ((i as f64 * 0.3).sin() * 20_000.0) as i16).collect();
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-45.0, -80.0, 900));
    let out = gained(&mut gain, &loud);
    assert!(out.iter().all(|s| s.unsigned_abs() <= 29_205), "{:?}", out.iter().max());
}

#[test]
fn switched_off_it_only_measures() {
    let mut gain = Gain::new(GainConfig { enabled: false, ..ON });
    let sound = talk(-40.0, -70.0, 300);
    assert_eq!(gained(&mut gain, &sound), sound);
    assert!(gain.level().speech_steps().is_some());
    assert_eq!(gain.db(), 0.0);
}

#[test]
fn the_factor_has_no_steps() {
    // A constant sound after whispers: what changes is the gain alone.
    let mut gain = Gain::new(ON);
    gained(&mut gain, &talk(-45.0, -80.0, 900));
    let out = gained(&mut gain, &[8000; 60 * FRAME]);
    let largest = out[FRAME..].windows(2).map(|w| (w[1] - w[0]).abs()).max();
    assert!(largest < Some(20), "{largest:?}");
}

fn looped(samples: Vec<i16>) -> Arc<Loop> {
    match Loop::new(samples) {
        Some(sound) => Arc::new(sound),
        None => unreachable!(),
    }
}

fn mixed(mixer: &mut Mixer, agent: i16, talking: bool, frames: usize) -> Vec<i16> {
    let mut out = vec![agent; frames * FRAME];
    out.chunks_mut(FRAME).for_each(|f| drop(mixer.mix(f, talking)));
    out
}

fn largest_step(v: &[i16]) -> i32 {
    v.windows(2).map(|w| (i32::from(w[1]) - i32::from(w[0])).abs()).max().unwrap_or(0)
}

#[test]
fn the_background_comes_softly_gives_way_and_comes_back() {
    let mut mixer = Mixer::new(MixerConfig { duck_db: -12.0, ..MixerConfig::default() });
    assert_eq!(mixed(&mut mixer, 0, false, 2), vec![0; 2 * FRAME]);
    assert!(mixer.set(Some((looped(vec![4000; 1000]), 0))).is_none());
    let rise = mixed(&mut mixer, 0, false, 30);
    assert!(largest_step(&rise) <= 3, "{}", largest_step(&rise));
    assert_eq!((rise[0], rise[20 * FRAME]), (1, 4000));
    let talk = mixed(&mut mixer, 1000, true, 20);
    // 12 dB are a factor of 0.251, and reached within 100 ms.
    assert_eq!(talk[5 * FRAME], 1000 + 1005);
    assert!(largest_step(&talk) <= 6);
    let rest = mixed(&mut mixer, 0, false, 40);
    // 300 ms of silence later it comes back, over 300 ms (three quarters of 400).
    assert_eq!((rest[14 * FRAME - 1], rest[35 * FRAME]), (1005, 4000));
    assert!(rest[16 * FRAME] > 1005);
    assert!(largest_step(&rest) <= 3);
    assert!(mixer.set(None).is_none());
    let fall = mixed(&mut mixer, 0, false, 6);
    assert!(largest_step(&fall) <= 6);
    assert_eq!(fall[5 * FRAME..], [0; FRAME]);
    assert_eq!(mixer.overs(), 0);
}

#[test]
fn another_background_takes_its_place_without_a_step_and_the_old_one_is_given_back() {
    let mut mixer = Mixer::new(MixerConfig::default());
    let (old, new) = (looped(vec![4000; 500]), looped(vec![-4000; 500]));
    mixer.set(Some((Arc::clone(&old), 3)));
    mixed(&mut mixer, 0, false, 30);
    mixer.set(Some((Arc::clone(&new), 0)));
    assert!(mixer
        .set(Some((Arc::clone(&new), 9)))
        .is_some_and(|unheard| Arc::ptr_eq(&unheard, &new)));
    let (mut all, mut back) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let mut frame = [0; FRAME];
        back.extend(mixer.mix(&mut frame, false));
        all.extend(frame);
    }
    assert!(matches!(&back[..], [one] if Arc::ptr_eq(one, &old)));
    assert!(largest_step(&all) <= 6);
    assert_eq!((all[0], all.last()), (3995, Some(&-4000)));
}

#[test]
fn a_voice_alone_is_sent_as_it_is_and_louder_as_told() {
    let sound = talk(-20.0, -60.0, 10);
    for (voice_db, factor) in [(0.0, 1.0), (6.0, 1.995), (-20.0, 0.1)] {
        let mut mixer = Mixer::new(MixerConfig { voice_db, ..MixerConfig::default() });
        let mut out = sound.clone();
        out.chunks_mut(FRAME).for_each(|f| drop(mixer.mix(f, true)));
        let near = |(o, s): (&i16, &i16)| {
            (f64::from(*o) - f64::from(*s) * factor).abs() < 1.0 + f64::from(s.abs()) * 0.001
        };
        assert!(out.iter().zip(&sound).all(near), "{voice_db}");
        assert_eq!(mixer.overs(), 0);
    }
    assert_eq!(sound, {
        let mut mixer = Mixer::new(MixerConfig::default());
        let mut out = sound.clone();
        out.chunks_mut(FRAME).for_each(|f| drop(mixer.mix(f, true)));
        out
    });
}

#[test]
fn what_is_too_loud_is_clamped_and_counted() {
    let mut mixer = Mixer::new(MixerConfig { voice_db: 6.0, ..MixerConfig::default() });
    assert_eq!(mixed(&mut mixer, 20_000, true, 1), vec![i16::MAX; FRAME]);
    assert_eq!(mixed(&mut mixer, -20_000, true, 1), vec![i16::MIN; FRAME]);
    assert_eq!(mixed(&mut mixer, 10_000, true, 1).first(), Some(&19_953));
    assert_eq!(mixer.overs(), 2 * FRAME as u64);
    let mut mixer = Mixer::new(MixerConfig { duck_db: 0.0, ..MixerConfig::default() });
    mixer.set(Some((looped(vec![30_000; 50]), 0)));
    mixed(&mut mixer, 0, false, 30);
    mixed(&mut mixer, 2767, true, 1);
    assert_eq!(mixer.overs(), 0);
    mixed(&mut mixer, 2768, true, 1);
    assert_eq!(mixer.overs(), FRAME as u64);
}
