// SPDX-License-Identifier: GPL-3.0-or-later
//! What CI's speed gate times (tools/bench/gate.py): the parts of a tick in nanoseconds of thread
//! time a call and frame, one JSON object on stdout.
//!
//! The gate compiles this file, as it stands in the change, in the tree of the merge base too: it
//! keeps to what has been public for long. `--slow PERCENT` is the deliberate slowdown that shows
//! that the gate fails: that share of all work is done twice and counted once.

use rustix::thread::ClockId;
use rustix::time::clock_gettime;
use voicecore_engine::media::probe::Probe;
use voicecore_engine::media::{Codec, Coding, Suite};
use voicecore_engine::signal::vad::{Bank, Rate};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const CALLS: usize = 100;
const CHUNKS: usize = 20;
const TICKS: usize = 10;
const WARM_UP: usize = 60;

fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Does work again for its share of the times that it is asked.
struct Slow {
    percent: usize,
    owed: usize,
}

impl Slow {
    fn again(&mut self) -> bool {
        self.owed += self.percent;
        let due = self.owed >= 100;
        self.owed -= if due { 100 } else { 0 };
        due
    }
}

/// Speech-like bursts of noise and tone, 16-bit.
fn voice(samples: usize, rate: f64) -> Vec<i16> {
    let mut seed = 1u32;
    (0..samples)
        .map(|i| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = f64::from(seed >> 16) / 65_536.0 - 0.5;
            let t = i as f64 / rate;
            let level = (t * 9.0).sin().max(0.0) * 6000.0 + 50.0;
            (((t * 1100.0).sin() + noise) * level) as i16
        })
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Each part of a tick: sending and receiving, voice activity, and the rest.
fn ticks(codec: Codec, secure: bool, slow: &mut Slow) -> Outcome<[f64; 3]> {
    let rate = codec.rate();
    let all = WARM_UP + CHUNKS * TICKS * (100 + slow.percent) / 100 + 50;
    let mut probe = Probe::with_codec(CALLS, codec, &voice(all * rate.frame(), 8000.0))?;
    if secure {
        probe.encrypt(Suite::AesCm128HmacSha1_80)?;
    }
    for _ in 0..WARM_UP {
        probe.tick(thread_ns);
    }
    let mut chunks = [const { Vec::new() }; 3];
    for _ in 0..CHUNKS {
        let mut sums = [0; 3];
        for _ in 0..TICKS {
            for _ in 0..=usize::from(slow.again()) {
                let [send, receive, decode, judge, finish] = probe.tick(thread_ns);
                for (sum, part) in sums.iter_mut().zip([send + receive, judge, decode + finish]) {
                    *sum += part;
                }
            }
        }
        for (chunk, sum) in chunks.iter_mut().zip(sums) {
            chunk.push(sum as f64 / (TICKS * CALLS) as f64);
        }
    }
    Ok(chunks.map(median))
}

/// Voice activity of 16 kHz, a call and 20 ms.
fn wide_vad(slow: &mut Slow) -> f64 {
    let mut bank = Bank::new(Rate::R16k, CALLS);
    let slots: Vec<_> = (0..CALLS).filter_map(|_| bank.open()).collect();
    let window = Rate::R16k.window();
    let sound: Vec<f32> =
        voice(window * 16, 16_000.0).iter().map(|s| f32::from(*s) / 32768.0).collect();
    let mut out = Vec::with_capacity(CALLS);
    let mut round = |at: usize| {
        for (i, slot) in slots.iter().enumerate() {
            let at = (at + i) % 16 * window;
            bank.push(*slot, &sound[at..at + window]);
        }
        bank.run(&mut out);
    };
    round(0);
    let chunks = (0..CHUNKS * 2).map(|n| {
        let begin = thread_ns();
        for _ in 0..=usize::from(slow.again()) {
            round(n);
        }
        (thread_ns() - begin) as f64 * 0.625 / CALLS as f64
    });
    // A chunk is one round here: the mean, or repeated ones would not show in it.
    chunks.sum::<f64>() / (CHUNKS * 2) as f64
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip_while(|word| word != "--slow").skip(1);
    let percent = words.next().map_or(Ok(0), |word| word.parse())?;
    let mut slow = Slow { percent, owed: 0 };
    let [sockets, vad, rest] = ticks(Codec::Pcma, false, &mut slow)?;
    let [secure, _, _] = ticks(Codec::Pcma, true, &mut slow)?;
    let [_, _, wide] = ticks(Codec::G722, false, &mut slow)?;
    println!(
        "{{\"encode, send, receive\": {sockets:.1}, \"the same with SRTP\": {secure:.1}, \
         \"decode and hand-over\": {rest:.1}, \"decode and hand-over, G.722\": {wide:.1}, \
         \"voice activity\": {vad:.1}, \"voice activity, 16 kHz\": {:.1}}}",
        wide_vad(&mut slow)
    );
    Ok(())
}
