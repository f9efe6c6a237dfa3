// SPDX-License-Identifier: GPL-3.0-or-later
//! Synthetic sounds, sample for sample those of core/reference/vad_golden.py, which says what
//! they are. Integers only, so that both languages agree.

/// One period of a phase.
const TURN: i64 = 1 << 32;

/// The stock model's probabilities and the resonators' coefficients.
const GOLDEN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vad_golden.txt"));

/// The numbers of a line of the golden file.
pub fn golden(name: &str, rate: i64) -> Vec<f64> {
    let key = format!("{name} {rate} ");
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(&key)).unwrap();
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// The first `count` samples of a sound, in [-1, 1).
pub fn sound(name: &str, rate: i64, count: usize) -> Vec<f32> {
    let mut next: Box<dyn FnMut(i64) -> i64> = match name {
        "noise" => Box::new(noise()),
        "sweep" => Box::new(sweep(rate)),
        "clipped" => Box::new(move |n| clipped(n, rate)),
        "voice" => Box::new(voice(rate)),
        _ => panic!("no sound {name}"),
    };
    (0..count as i64).map(|n| next(n) as f32 / 32768.0).collect()
}

fn triangle(phase: i64) -> i64 {
    (((phase % TURN) >> 16) - 32768).abs()
}

fn noise() -> impl FnMut(i64) -> i64 {
    let mut state = 1i64;
    move |_| {
        state = (state * 1_664_525 + 1_013_904_223) % TURN;
        (state >> 16) / 10 - 3277
    }
}

fn sweep(rate: i64) -> impl FnMut(i64) -> i64 {
    let mut phase = 0;
    move |n| {
        phase += (100 + 2000 * n / rate) * TURN / rate;
        triangle(phase) / 2 - 8192
    }
}

fn clipped(n: i64, rate: i64) -> i64 {
    match (n * 10 < 3 * rate, n * 400 / rate % 2) {
        (false, _) => 0,
        (true, 0) => 32767,
        (true, _) => -32768,
    }
}

fn voice(rate: i64) -> impl FnMut(i64) -> i64 {
    let coefficients: Vec<i64> =
        golden("resonators", rate).into_iter().map(|value| value as i64).collect();
    let (mut pitch, mut syllable, mut vibrato) = (0, 0, 0);
    let mut memory = [(0, 0); 3];
    move |n| {
        syllable += 4 * TURN / rate;
        vibrato += TURN * 5 / rate / 4;
        pitch += (100 + triangle(vibrato) * 60 / 32768) * TURN / rate;
        let mut pulse = 0;
        if pitch >= TURN {
            pitch -= TURN;
            pulse = (8000 * triangle(syllable)) >> 15;
        }
        let vowel = n / (rate * 3 / 8) % 3 * 6;
        for ((last, before), b) in memory.iter_mut().zip(coefficients[vowel as usize..].chunks(2)) {
            let value = (pulse * 4096 + b[0] * *last - b[1] * *before) >> 14;
            (*last, *before) = (value, *last);
        }
        memory.iter().map(|(last, _)| last).sum::<i64>().clamp(-32768, 32767)
    }
}
