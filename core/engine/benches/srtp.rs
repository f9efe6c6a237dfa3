// SPDX-License-Identifier: GPL-3.0-or-later
//! What SRTP costs: each suite by packet (20 ms of G.711, 172 octets of RTP), and the whole way of a frame out of one
//! call and into another, encrypted beside plain. `just bench srtp` puts libsrtp beside the first.

#[path = "support/rows.rs"]
mod rows;

use pjsip_sys::sdes::{MasterKey, Suite};
use rustix::thread::ClockId;
use voicecore_engine::media::probe::Probe;
use voicecore_engine::transport::srtp::{Receiver, Sender, OVERHEAD};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const PACKETS: usize = 20_000;
const RUNS: usize = 9;
const OCTETS: usize = 172;
const CALLS: usize = 100;
const TICKS: usize = 400;

fn thread_us() -> f64 {
    let t = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn packets(suite: Suite) -> Outcome<(f64, f64)> {
    let key = MasterKey::from_random(suite, &[7; 46]);
    let (mut protect, mut open) = (Vec::new(), Vec::new());
    let mut buf = vec![[0u8; OCTETS + OVERHEAD]; PACKETS];
    let mut lens = vec![0; PACKETS];
    for _ in 0..RUNS {
        let mut tx = Sender::new(&key).ok_or("key")?;
        let mut rx = Receiver::new(&key, None).ok_or("key")?;
        for (i, p) in buf.iter_mut().enumerate() {
            p.fill(i as u8);
            p[..12].copy_from_slice(&[0x80, 8, (i >> 8) as u8, i as u8, 0, 0, 0, 0, 1, 2, 3, 4]);
        }
        let start = thread_us();
        for (p, len) in buf.iter_mut().zip(&mut lens) {
            *len = tx.protect_rtp(p, OCTETS)?;
        }
        protect.push((thread_us() - start) / PACKETS as f64);
        let start = thread_us();
        for (p, len) in buf.iter_mut().zip(&lens) {
            rx.open_rtp(&mut p[..*len])?;
        }
        open.push((thread_us() - start) / PACKETS as f64);
    }
    Ok((median(protect), median(open)))
}

/// µs a call and frame for sending and receiving, and for all of a tick.
fn way(suite: Option<Suite>, pcm: &[i16]) -> Outcome<(f64, f64)> {
    let mut probe = Probe::new(CALLS, pcm)?;
    if let Some(suite) = suite {
        probe.encrypt(suite)?;
    }
    let ns = || (thread_us() * 1e3) as u64;
    for _ in 0..50 {
        probe.tick(ns);
    }
    let (mut moved, mut all) = (0, 0);
    for _ in 0..TICKS {
        let parts = probe.tick(ns);
        moved += parts[0] + parts[1];
        all += parts.iter().sum::<u64>();
    }
    let [sent, received, lost, _] = probe.totals();
    if lost > 0 || received + 4 * (CALLS as u64) < sent {
        return Err(format!("sent {sent}, received {received}, lost {lost}").into());
    }
    let each = |ns: u64| ns as f64 / 1e3 / (TICKS * CALLS) as f64;
    Ok((each(moved), each(all)))
}

fn main() -> Outcome<()> {
    // `--ways`: the way of a frame only.
    if !std::env::args().any(|word| word == "--ways") {
        all_suites()?;
    }
    ways()
}

fn all_suites() -> Outcome<()> {
    println!("µs of CPU for a packet of {OCTETS} octets, median of {RUNS} runs: protect, open");
    for suite in Suite::ALL {
        let (protect, open) = packets(suite)?;
        println!("  {:<26} {protect:.3}  {open:.3}", suite.name());
        rows::add(&format!("{} protect", suite.name()), "us", protect, None)?;
        rows::add(&format!("{} open", suite.name()), "us", open, None)?;
    }
    Ok(())
}

fn ways() -> Outcome<()> {
    let pcm: Vec<i16> =
        (0..(TICKS + 100) * 160).map(|i| ((i as f64 * 0.3).sin() * 8000.0) as i16).collect();
    println!("µs of CPU for a call and frame, {CALLS} calls in pairs on loopback: send and receive, whole tick");
    // In turns: other work on the machine meets each alike.
    let ways = [None, Some(Suite::AesCm128HmacSha1_80), Some(Suite::AeadAes256Gcm)];
    let mut found = vec![(Vec::new(), Vec::new()); ways.len()];
    for _ in 0..3 {
        for (suite, (moved, all)) in ways.iter().zip(&mut found) {
            let (m, a) = way(*suite, &pcm)?;
            moved.push(m);
            all.push(a);
        }
    }
    let mut plain = (0.0, 0.0);
    for (suite, (moved, all)) in ways.into_iter().zip(found) {
        let (moved, all) = (median(moved), median(all));
        let name = suite.map_or("plain RTP", Suite::name);
        if suite.is_none() {
            plain = (moved, all);
        }
        println!("  {name:<26} {moved:.2}  {all:.2}");
        rows::beside(&format!("{name}, send and receive"), "us", moved, plain.0)?;
        rows::beside(&format!("{name}, whole tick"), "us", all, plain.1)?;
    }
    Ok(())
}
