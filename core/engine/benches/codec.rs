// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of each codec for a frame of 20 ms, one way. The signal has the rhythm of speech.

#[path = "support/rows.rs"]
mod rows;

use std::time::{Duration, Instant};

use voicecore_engine::media::g711::{self, Law};
use voicecore_engine::media::g722::{Decoder, Encoder};
use voicecore_engine::media::FRAME;

const BUDGET: Duration = Duration::from_millis(300);
const FRAMES: usize = 100;

fn main() -> std::io::Result<()> {
    let (narrow, wide) = (voice(8000), voice(16_000));
    let mut codes = vec![0u8; FRAME * FRAMES];
    let mut pcm = vec![0i16; 2 * FRAME * FRAMES];
    println!("µs per frame of 20 ms: best run / median run");
    for (law, name) in [(Law::A, "PCMA"), (Law::Mu, "PCMU")] {
        let encode = frames(|i| {
            let at = i * FRAME..(i + 1) * FRAME;
            g711::encode(law, &narrow[at.clone()], &mut codes[at]);
        });
        let decode = frames(|i| {
            let at = i * FRAME..(i + 1) * FRAME;
            g711::decode(law, &codes[at.clone()], &mut pcm[at]);
        });
        tell(name, encode, decode)?;
    }
    let mut encoder = Encoder::default();
    let encode = frames(|i| {
        let (at, samples) = (i * FRAME..(i + 1) * FRAME, 2 * i * FRAME..2 * (i + 1) * FRAME);
        encoder.encode(&wide[samples], &mut codes[at]);
    });
    let mut decoder = Decoder::default();
    let decode = frames(|i| {
        let (at, samples) = (i * FRAME..(i + 1) * FRAME, 2 * i * FRAME..2 * (i + 1) * FRAME);
        decoder.decode(&codes[at], &mut pcm[samples]);
    });
    tell("G722", encode, decode)
}

fn tell(name: &str, encode: (f64, f64), decode: (f64, f64)) -> std::io::Result<()> {
    for (way, (best, median)) in [("encode", encode), ("decode", decode)] {
        println!("{name} {way}  {best:>6.2} / {median:.2}");
        rows::add(&format!("{name}, {way}, 20 ms"), "us", median, None)?;
    }
    Ok(())
}

/// Best and median µs a frame over as many runs through all frames as the budget allows.
fn frames(mut one: impl FnMut(usize)) -> (f64, f64) {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 5 || begin.elapsed() < BUDGET {
        let start = Instant::now();
        (0..FRAMES).for_each(&mut one);
        times.push(start.elapsed().as_secs_f64() * 1e6 / FRAMES as f64);
    }
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

/// Two seconds of bursts of noise and tone.
fn voice(rate: usize) -> Vec<i16> {
    let mut seed = 1u32;
    (0..2 * rate)
        .map(|i| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = f64::from(seed >> 16) / 65_536.0 - 0.5;
            let t = i as f64 / rate as f64;
            let level = (t * 9.0).sin().max(0.0) * 6000.0 + 50.0;
            (((t * 1100.0).sin() + noise) * level) as i16
        })
        .collect()
}
