// SPDX-License-Identifier: GPL-3.0-or-later

mod sounds;

use super::*;
use sounds::{golden, sound};

const RATES: [(Rate, i64); 2] = [(Rate::R8k, 8000), (Rate::R16k, 16000)];

/// The bits of each call's probabilities: `[call][window]`, all calls in step.
fn run_all(bank: &mut Bank, calls: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let slots: Vec<Slot> = calls.iter().map(|_| bank.open().unwrap()).collect();
    let mut out = Vec::with_capacity(calls.len());
    let mut result = vec![Vec::new(); calls.len()];
    let window = bank.rate().window();
    for k in 0..calls[0].len() / window {
        for (slot, samples) in slots.iter().zip(calls) {
            bank.push(*slot, &samples[k * window..][..window]);
        }
        bank.run(&mut out);
        assert_eq!(out.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), slots);
        for (bits, (_, p)) in result.iter_mut().zip(&out) {
            bits.push(p.to_bits());
        }
    }
    slots.into_iter().for_each(|slot| bank.close(slot));
    result
}

/// `count` different calls of `windows` windows: the voice from different moments on, with noise.
fn voices(rate: Rate, hz: i64, count: usize, windows: usize) -> Vec<Vec<f32>> {
    let length = windows * rate.window();
    let voice = sound("voice", hz, length + count * 331);
    let noise = sound("noise", hz, length + count * 331);
    let call = |i: usize| {
        let pairs = voice[i * 331..].iter().zip(&noise[(count - i) * 331..]);
        let level = i as f32 / count as f32;
        pairs.take(length).map(|(v, n)| v * (1.0 - level) + n * level).collect()
    };
    (0..count).map(call).collect()
}

#[test]
fn probabilities_are_those_of_the_stock_model() {
    for (rate, hz) in RATES {
        for name in ["noise", "sweep", "clipped", "voice"] {
            let expected = golden(name, hz);
            let samples = sound(name, hz, expected.len() * rate.window());
            let found = run_all(&mut Bank::new(rate, 1), &[samples]);
            for (k, (bits, expected)) in found[0].iter().zip(&expected).enumerate() {
                let found = f64::from(f32::from_bits(*bits));
                let error = (found - expected).abs();
                assert!(error <= 1e-4, "{name} {hz} window {k}: {found}, stock {expected}");
            }
        }
    }
}

#[test]
fn every_tile_of_every_backend_gives_the_bits_of_scalar() {
    for (rate, hz) in RATES {
        // Two windows, so that state and context move on; one is enough for the other rate.
        let calls = voices(rate, hz, 33, if rate == Rate::R8k { 2 } else { 1 });
        let expected = run_all(&mut Bank::with_backend(rate, 33, Backend::Scalar), &calls);
        for backend in Backend::available() {
            for tile in backend.tiles() {
                let mut bank = Bank::with_backend(rate, 33, backend);
                bank.plan.fill(tile);
                for count in [1, tile.calls, tile.calls + 1] {
                    let found = run_all(&mut bank, &calls[..count]);
                    let place =
                        format!("{hz} {} tile {} calls {count}", backend.name(), tile.calls);
                    assert_eq!(found, expected[..count], "{place}");
                }
            }
        }
    }
}

#[test]
fn planned_tiles_give_the_bits_of_scalar() {
    let calls = voices(Rate::R8k, 8000, 40, 1);
    let expected = run_all(&mut Bank::with_backend(Rate::R8k, 40, Backend::Scalar), &calls);
    for backend in Backend::available() {
        let mut bank = Bank::with_backend(Rate::R8k, 40, backend);
        for count in [1, 3, 8, 17, 33, 40] {
            let found = run_all(&mut bank, &calls[..count]);
            assert_eq!(found, expected[..count], "{} {count}", backend.name());
        }
    }
}

#[test]
fn neighbours_and_their_number_do_not_change_a_call() {
    let rate = Rate::R8k;
    let voice = voices(rate, 8000, 1, 4).remove(0);
    // Scalar has no neighbours: it runs one call after the other.
    for backend in Backend::available().filter(|&backend| backend != Backend::Scalar) {
        let mut bank = Bank::with_backend(rate, 20, backend);
        let alone = run_all(&mut bank, std::slice::from_ref(&voice)).remove(0);
        for (place, disturbance) in [(0, 0.99), (7, f32::NAN), (12, f32::INFINITY), (19, 1e30)] {
            let mut calls = vec![vec![disturbance; voice.len()]; 20];
            calls[place] = voice.clone();
            let beside = run_all(&mut bank, &calls).remove(place);
            assert_eq!(alone, beside, "{} {disturbance} {place}", backend.name());
        }
    }
}

#[test]
fn calls_whose_windows_come_at_different_ticks_do_not_mix() {
    let rate = Rate::R8k;
    let calls = voices(rate, 8000, 5, 8);
    let mut bank = Bank::new(rate, 5);
    let expected = run_all(&mut bank, &calls);
    let slots: Vec<Slot> = calls.iter().map(|_| bank.open().unwrap()).collect();
    let mut found = vec![Vec::new(); 5];
    let mut out = Vec::new();
    for tick in 0..20 {
        for (call, slot) in slots.iter().enumerate() {
            let k = found[call].len();
            if (tick + call) % 2 == 0 && k < 8 {
                bank.push(*slot, &calls[call][k * rate.window()..][..rate.window()]);
            }
        }
        bank.run(&mut out);
        for (slot, p) in &out {
            found[slots.iter().position(|s| s == slot).unwrap()].push(p.to_bits());
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn a_call_that_got_rubbish_recovers() {
    for (rate, hz) in RATES {
        let mut bank = Bank::new(rate, 1);
        let slot = bank.open().unwrap();
        let mut out = Vec::new();
        for rubbish in [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE / 4.0] {
            bank.push(slot, &vec![rubbish; rate.window()]);
            bank.run(&mut out);
            assert!((0.0..=1.0).contains(&out[0].1), "{rubbish} gives {}", out[0].1);
        }
        let voice = sound("voice", hz, 30 * rate.window());
        let mut highest = 0f32;
        for window in voice.chunks_exact(rate.window()) {
            bank.push(slot, window);
            bank.run(&mut out);
            highest = highest.max(out[0].1);
        }
        assert!(highest > 0.9, "no speech heard afterwards: {highest}");
    }
}

#[test]
fn a_reset_slot_and_a_reopened_place_have_heard_nothing() {
    let rate = Rate::R8k;
    let voice = voices(rate, 8000, 1, 4).remove(0);
    let mut bank = Bank::new(rate, 1);
    let fresh = run_all(&mut bank, std::slice::from_ref(&voice));
    let reopened = run_all(&mut bank, std::slice::from_ref(&voice));
    assert_eq!(fresh, reopened);

    let slot = bank.open().unwrap();
    let mut out = Vec::new();
    bank.push(slot, &voice[..256]);
    bank.run(&mut out);
    bank.push(slot, &voice[256..512]);
    bank.reset(slot);
    bank.run(&mut out);
    assert!(out.is_empty(), "the staged window outlived the reset");
    for (k, window) in voice.chunks_exact(256).enumerate() {
        bank.push(slot, window);
        bank.run(&mut out);
        assert_eq!(out[0].1.to_bits(), fresh[0][k]);
    }
}

#[test]
fn a_closed_slot_is_stale() {
    let mut bank = Bank::new(Rate::R8k, 2);
    let (first, second) = (bank.open().unwrap(), bank.open().unwrap());
    assert_eq!(bank.open(), None);
    bank.push(first, &[0.1; 256]);
    bank.push(second, &[0.2; 256]);
    bank.close(first);
    bank.close(first);
    let reused = bank.open().unwrap();
    assert_ne!(reused, first);
    assert_eq!(bank.open(), None, "closing twice gave a place back twice");

    // The old slot neither stages, resets nor closes the new one's state.
    bank.push(reused, &[0.3; 256]);
    bank.push(first, &[0.9; 256]);
    bank.reset(first);
    bank.close(first);
    let mut out = Vec::new();
    bank.run(&mut out);
    assert_eq!(out.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [second, reused]);
    let alone = run_all(&mut Bank::new(Rate::R8k, 1), &[vec![0.3; 256]]);
    assert_eq!(out[1].1.to_bits(), alone[0][0]);
}

#[test]
fn a_second_window_before_the_run_replaces_the_first() {
    let voice = voices(Rate::R8k, 8000, 1, 2).remove(0);
    let mut bank = Bank::new(Rate::R8k, 1);
    let expected = run_all(&mut bank, &[voice[256..].to_vec()]);
    let slot = bank.open().unwrap();
    bank.push(slot, &voice[..256]);
    bank.push(slot, &voice[256..]);
    let mut out = Vec::new();
    bank.run(&mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].1.to_bits(), expected[0][0]);
}

#[test]
#[should_panic(expected = "samples in a window")]
fn a_window_of_another_rate_is_a_bug() {
    let mut bank = Bank::new(Rate::R16k, 1);
    let slot = bank.open().unwrap();
    bank.push(slot, &[0.0; 256]);
}

#[test]
fn the_plan_is_never_dearer_than_one_kind_of_tile() {
    for backend in Backend::available() {
        let tiles = backend.tiles();
        let plan = plan(tiles, 300);
        for windows in 1..=300usize {
            let (mut left, mut cost) = (windows, 0);
            while left > 0 {
                cost += plan[left].cost;
                left = left.saturating_sub(plan[left].calls);
            }
            for tile in tiles {
                let uniform = windows.div_ceil(tile.calls) as u32 * tile.cost;
                assert!(cost <= uniform, "{} {windows}: {cost} > {uniform}", backend.name());
            }
        }
    }
}
