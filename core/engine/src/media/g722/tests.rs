// SPDX-License-Identifier: GPL-3.0-or-later
//! Against spandsp, by the hashes that `core/reference/g722_golden.py` wrote; sounds made there too.

use super::{Decoder, Encoder};

const GOLDEN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/g722_golden.txt"));
const SAMPLES: usize = 64_000;

fn random(mut state: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(state)
    })
}

fn noise() -> Vec<i16> {
    let value = |(n, v): (usize, u32)| (((v >> 16) as i32 - 32768) >> (n / 1000 % 16)) as i16;
    random(1).enumerate().map(value).take(SAMPLES).collect()
}

/// Phases of a sweep from `hz` up.
fn phases(hz: u32) -> impl Iterator<Item = (usize, u32)> {
    let mut phase = 0u32;
    (0..SAMPLES).map(move |n| {
        phase = phase.wrapping_add((hz + n as u32 / 10).wrapping_mul(268_435));
        (n, phase)
    })
}

fn square() -> Vec<i16> {
    phases(50).map(|(_, p)| if p < 1 << 31 { i16::MAX } else { i16::MIN }).collect()
}

fn triangle() -> Vec<i16> {
    let height = |p: u32| ((p >> 16) as i32 - 32768).abs() - 16384;
    phases(20).map(|(n, p)| (height(p) * (n % 8000) as i32).div_euclid(4000) as i16).collect()
}

fn clicks() -> Vec<i16> {
    let one = |n: usize| match (n % 999, n % 1998) {
        (0, 0) => i16::MIN,
        (0, _) => i16::MAX,
        _ => 0,
    };
    (0..SAMPLES).map(one).collect()
}

fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, step))
}

fn encode(samples: &[i16], piece: usize) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut out = vec![0; samples.len() / 2];
    for (samples, out) in samples.chunks(piece * 2).zip(out.chunks_mut(piece)) {
        encoder.encode(samples, out);
    }
    out
}

fn decode(bytes: &[u8], piece: usize) -> Vec<i16> {
    let mut decoder = Decoder::default();
    let mut out = vec![0; bytes.len() * 2];
    for (bytes, out) in bytes.chunks(piece).zip(out.chunks_mut(piece * 2)) {
        decoder.decode(bytes, out);
    }
    out
}

fn hash(samples: &[i16]) -> String {
    fnv(samples.iter().flat_map(|s| s.to_le_bytes()))
}

#[test]
fn code_and_audio_are_bit_for_bit_those_of_spandsp() {
    let mut seen = 0;
    for line in GOLDEN.lines().filter(|l| !l.starts_with('#')) {
        let [name, whole, half, audio] = line.split(' ').collect::<Vec<_>>()[..] else {
            unreachable!("{line}")
        };
        let samples = match name {
            "noise" => noise(),
            "square" => square(),
            "triangle" => triangle(),
            _ => clicks(),
        };
        assert_eq!(fnv(encode(&samples, 80)), whole, "{name}");
        let code = encode(&samples.iter().map(|s| s >> 1).collect::<Vec<_>>(), 80);
        assert_eq!(fnv(code.iter().copied()), half, "{name} at half level");
        assert_eq!(hash(&decode(&code, 80)), audio, "{name} decoded");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn what_overshoots_is_clipped_and_no_byte_upsets_the_decoder() {
    let heard = decode(&encode(&square(), 80), 80);
    // Wrapped around, full scale would turn into full scale of the other sign.
    let turns = |v: &[i16]| v.windows(2).filter(|w| w[0].abs_diff(w[1]) > 60_000).count();
    assert!(turns(&heard[100..20_000]) < 2 * turns(&square()[100..20_000]) + 10);
    let bytes: Vec<u8> = random(7).take(SAMPLES).map(|v| (v >> 24) as u8).collect();
    assert_eq!(decode(&bytes, 80).len(), 2 * SAMPLES);
}

#[test]
fn pieces_of_any_length_give_the_same() {
    let samples = triangle();
    let whole = encode(&samples, SAMPLES);
    for piece in [1, 3, 79, 80, 81, 160, 480] {
        assert_eq!(encode(&samples, piece), whole, "{piece}");
        assert_eq!(decode(&whole, piece), decode(&whole, SAMPLES), "{piece}");
    }
}

#[test]
fn slices_of_unequal_length_do_what_fits() {
    let (mut bytes, mut samples) = ([0u8; 5], [7i16; 7]);
    Encoder::default().encode(&[100; 31], &mut bytes);
    Encoder::default().encode(&[100; 3], &mut bytes);
    Encoder::default().encode(&[], &mut bytes);
    Decoder::default().decode(&[0x55; 100], &mut samples);
    assert_eq!(samples[6], 7, "half a pair is left alone");
    Decoder::default().decode(&[0x55], &mut samples);
    Decoder::default().decode(&[], &mut samples);
}

/// Signal to noise of a steady tone, dB, once the filters have filled.
fn quality(hz: f64) -> f64 {
    let step = hz * std::f64::consts::TAU / 16_000.0;
    let tone: Vec<i16> =
        (0..16_000).map(|i| ((f64::from(i) * step).sin() * 8000.0) as i16).collect();
    let heard = decode(&encode(&tone, 160), 160);
    // The two filters together delay by 22 samples.
    let (mut signal, mut error) = (0.0, 0.0);
    for (a, b) in tone.iter().zip(&heard[22..]).skip(2000) {
        signal += f64::from(*a).powi(2);
        error += (f64::from(*a) - f64::from(*b)).powi(2);
    }
    10.0 * (signal / error).log10()
}

#[test]
fn tones_on_both_sides_of_4_khz_pass() {
    for (hz, least) in
        [(300.0, 25.0), (1000.0, 25.0), (3000.0, 25.0), (5000.0, 12.0), (6500.0, 12.0)]
    {
        assert!(quality(hz) > least, "{hz} Hz: {:.1} dB", quality(hz));
    }
}
