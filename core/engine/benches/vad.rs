// SPDX-License-Identifier: GPL-3.0-or-later
//! Time of voice activity detection per call and 20 ms of its audio, by backend and number of
//! calls. A window is 32 ms, so a call costs 0.625 of a window each 20 ms.

#[path = "support/rows.rs"]
mod rows;

use std::time::{Duration, Instant};

use voicecore_engine::signal::vad::{Backend, Bank, Rate};

const CALLS: [usize; 7] = [1, 3, 8, 16, 32, 100, 200];
const BUDGET: Duration = Duration::from_millis(250);

fn main() -> std::io::Result<()> {
    println!("µs per call and 20 ms frame, staging included: best run / median run");
    for (rate, name) in [(Rate::R8k, "8 kHz"), (Rate::R16k, "16 kHz")] {
        for backend in Backend::available() {
            print!("{name:>6} {:>7}", backend.name());
            for calls in CALLS {
                let (best, median) = measure(rate, backend, calls);
                print!("  {calls:>3}: {best:.2} / {median:.2}");
                let metric = format!("{name}, {}, {calls} calls", backend.name());
                rows::add(&metric, "us", median, None)?;
            }
            println!();
        }
    }
    Ok(())
}

/// Best and median µs per call and frame over as many runs as the budget allows.
fn measure(rate: Rate, backend: Backend, calls: usize) -> (f64, f64) {
    let mut bank = Bank::with_backend(rate, calls, backend);
    let slots: Vec<_> = (0..calls).filter_map(|_| bank.open()).collect();
    let noise = noise(rate.window() * 16);
    let mut out = Vec::with_capacity(calls);
    let mut times = Vec::new();
    let begin = Instant::now();
    for round in 0.. {
        let start = Instant::now();
        for (i, slot) in slots.iter().enumerate() {
            let at = (round + i) % 16 * rate.window();
            bank.push(*slot, &noise[at..at + rate.window()]);
        }
        bank.run(&mut out);
        times.push(start.elapsed().as_secs_f64() * 1e6 * 0.625 / calls as f64);
        if times.len() >= 5 && begin.elapsed() > BUDGET {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

/// Uniform noise of half the full scale.
fn noise(samples: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..samples).map(|_| next()).collect()
}
