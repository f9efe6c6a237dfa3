// SPDX-License-Identifier: GPL-3.0-or-later
//! What the signal work of the tick costs, on recorded speech: `signal PCM [CALLS …]`, where PCM
//! holds 16-bit little-endian samples at 8 kHz. Run it by `just bench signal`.
//!
//! Thread time of the parts of a tick, ticks one behind the other, between real sockets whose time
//! is left out; then media threads at their real pace; and the memory of a call, which
//! `signal memory PCM CALLS ROOM` prints in KiB, in a process of its own.

#[path = "support/rows.rs"]
mod rows;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::ClockId;
use rustix::time::clock_gettime;
use voicecore_engine::events::Batch;
use voicecore_engine::media::probe::Probe;
use voicecore_engine::media::{
    Background, Codec, GainConfig, MediaConfig, MediaEngine, MediaParams, RtpSockets,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const WARM_UP: usize = 60;
/// Of each kind.
const FRAMES: usize = 120_000;
const RUNS: usize = 5;
const PACED: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(3);
const FRAME: usize = 160;

/// What others have published of the same work (shared figures, not measured here).
const PUBLISHED_US: f64 = 3.7;
const PUBLISHED_ALL_US: f64 = 20.7;
const PUBLISHED_HANDOVER_US: f64 = 500.0;
const PUBLISHED_MEMORY_KIB: f64 = 134.0;

fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn pcm(path: &str) -> Outcome<Vec<i16>> {
    let bytes = fs::read(path)?;
    Ok(bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect())
}

/// What call `n` says: its own stretch of the recording, `frames` long.
fn speech(all: &[i16], n: usize, frames: usize) -> Vec<i16> {
    all.iter().copied().cycle().skip(n * 7919 % all.len()).take(frames * FRAME).collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Hearing and speaking, µs a call and tick.
fn parts(calls: usize, all: &[i16], cfg: &MediaConfig) -> Outcome<[f64; 4]> {
    let ticks = (FRAMES / calls).max(60);
    let frames = ticks + WARM_UP + 20;
    let mut kinds = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        let mut probe = Probe::with_config(calls, Codec::Pcma, cfg, |n| speech(all, n, frames))?;
        let mut sums = [0; 4];
        for tick in 0..WARM_UP + ticks {
            let [_, _, decode, judge, finish] = probe.tick(thread_ns);
            if tick >= WARM_UP {
                let now = [decode, judge, finish, 0];
                sums.iter_mut().zip(now).for_each(|(sum, ns)| *sum += ns);
            }
        }
        let mut probe = Probe::with_config(calls, Codec::Pcma, cfg, |n| speech(all, n, frames))?;
        for tick in 0..WARM_UP + ticks {
            let took = probe.speak(thread_ns);
            sums[3] += if tick >= WARM_UP { took } else { 0 };
        }
        for (kind, ns) in kinds.iter_mut().zip(sums) {
            kind.push(ns as f64 / 1000.0 / (ticks * calls) as f64);
        }
    }
    Ok(kinds.map(|mut kind| median(&mut kind)))
}

/// Gain control, and the agent's voice over comfort noise that ducks.
fn with_all() -> MediaConfig {
    let gain = GainConfig { enabled: true, ..GainConfig::default() };
    MediaConfig { gain, background: Background::noise(), ..MediaConfig::default() }
}

/// Hearing a call and tick; the parts go to the table.
fn hearing(calls: usize, all: &[i16], name: &str, cfg: &MediaConfig) -> Outcome<(f64, f64)> {
    let [decode, judge, finish, speak] = parts(calls, all, cfg)?;
    for (part, us) in [
        ("jitter buffer, decoding, level, gain", decode),
        ("voice activity and its decisions", judge),
        ("delivery", finish),
        ("play-out, mixing, encoding", speak),
    ] {
        rows::add(&format!("{name}: {part}, {calls} calls"), "us", us, None)?;
    }
    Ok((decode + judge + finish, speak))
}

/// Media threads at their pace: p50 and p99 from wake-up to the end of the hand-over, µs.
fn paced(calls: usize, all: &[i16]) -> Outcome<[f64; 2]> {
    let engine = start(calls, calls, all)?;
    let mut batch = Batch::default();
    let drain = |batch: &mut Batch, time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            engine.drain(batch);
        }
    };
    drain(&mut batch, Duration::from_secs(1));
    let before = engine.worked();
    drain(&mut batch, PACED);
    let worked = engine.worked().since(&before);
    let found = [0.5, 0.99].map(|q| worked.quantile(q) as f64 / 1000.0);
    engine.stop();
    Ok(found)
}

/// An engine whose calls, in pairs, speak to each other.
fn start(calls: usize, room: usize, all: &[i16]) -> Outcome<MediaEngine> {
    let cfg = MediaConfig { max_calls: room, priority: Some(60), ..with_all() };
    let engine = MediaEngine::start(cfg)?;
    let mut sockets = Vec::new();
    for _ in 0..calls {
        sockets.push(RtpSockets::open(IpAddr::V4(Ipv4Addr::LOCALHOST), (20_000, 29_999))?);
    }
    let addresses = sockets.iter().map(RtpSockets::rtp_addr).collect::<Result<Vec<_>, _>>()?;
    let frames = ((PACED + SETTLE).as_millis() / 20 + 100) as usize;
    for (n, s) in sockets.into_iter().enumerate() {
        let call = n as u64;
        engine.add_call(call, s, None)?;
        engine.set_media(call, MediaParams::plain(Codec::Pcma, 8, addresses[n ^ 1]));
        let bytes: Vec<u8> = speech(all, n, frames).iter().flat_map(|s| s.to_le_bytes()).collect();
        engine.play(call, &bytes, 8000, 1)?;
    }
    Ok(engine)
}

/// Memory of this process while so many calls are up, KiB, less what they say.
fn memory(calls: usize, room: usize, all: &[i16]) -> Outcome<f64> {
    let engine = start(calls, room, all)?;
    let mut batch = Batch::default();
    let end = Instant::now() + SETTLE;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        engine.drain(&mut batch);
    }
    let said = ((PACED + SETTLE).as_millis() / 20 + 100) as usize * FRAME * 2 * calls / 1024;
    let rollup = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:")).ok_or("no Pss")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    engine.stop();
    Ok(kib - said as f64)
}

fn memory_of_another(path: &str, calls: usize, room: usize) -> Outcome<f64> {
    let program = std::env::current_exe()?;
    let words = ["memory", path, &calls.to_string(), &room.to_string()];
    let done = Command::new(program).args(words).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().parse()?)
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| w != "--bench").collect();
    let number = |n: usize| words.get(n).and_then(|w| w.parse().ok());
    if words.first().is_some_and(|w| w == "memory") {
        let [Some(calls), Some(room)] = [2, 3].map(number) else { return Err("how many?".into()) };
        println!("{}", memory(calls, room, &pcm(&words[1])?)?);
        return Ok(());
    }
    let path = words.first().ok_or("signal PCM [CALLS …]")?;
    let all = pcm(path)?;
    let asked: Vec<usize> = words[1..].iter().filter_map(|w| w.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![200, 1000] } else { asked };
    let mut each = Vec::new();
    for calls in &counts {
        let (hear, speak) = hearing(*calls, &all, "as shipped", &MediaConfig::default())?;
        let metric = format!("as shipped: hearing and speaking, {calls} calls");
        rows::add(&metric, "us", hear + speak, None)?;
        let (hear, speak) = hearing(*calls, &all, "with all", &with_all())?;
        let metric = format!("level, gain, voice activity, delivery, {calls} calls");
        rows::add(&metric, "us", hear, Some(PUBLISHED_US))?;
        let metric = format!("all of it, and the mixer with ducking and noise, {calls} calls");
        rows::add(&metric, "us", hear + speak, Some(PUBLISHED_ALL_US))?;
        each.push(hear);
    }
    if let [few, .., many] = each[..] {
        let metric =
            format!("a call at {} calls by one at {}", counts[counts.len() - 1], counts[0]);
        rows::add(&metric, "", many / few, Some(1.0))?;
    }
    let [p50, p99] = paced(200, &all)?;
    let metric = "wake-up to end of hand-over, 200 calls in four parts";
    rows::add(&format!("{metric}, p50"), "us", p50, None)?;
    rows::add(&format!("{metric}, p99"), "us", p99, Some(PUBLISHED_HANDOVER_US))?;
    let (few, many) = (100, 600);
    let slope = (memory_of_another(path, many, 1000)? - memory_of_another(path, few, 1000)?)
        / (many - few) as f64;
    rows::add("memory a call", "KiB", slope, Some(PUBLISHED_MEMORY_KIB))?;
    Ok(())
}
