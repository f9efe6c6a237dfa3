// SPDX-License-Identifier: GPL-3.0-or-later
//! CPU of the media thread, in microseconds of thread time for each call and frame of 20 ms.
//!
//! `cargo bench -p voicecore-engine --bench media [-- CALLS …]`. Calls run in pairs over loopback
//! sockets with G.711 A-law, and with G.722 for the parts; each sends and receives one packet a tick. Two figures: the parts of a
//! tick, with ticks one behind the other; and the whole thread at its real pace, where caches are
//! cold and the machine's other work counts. The kernel's delivery on loopback is within "send".

#[path = "support/rows.rs"]
mod rows;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use rustix::thread::ClockId;
use rustix::time::clock_gettime;
use voicecore_engine::events::Batch;
use voicecore_engine::media::probe::{Probe, PARTS};
use voicecore_engine::media::{
    Background, Codec, Coding, GainConfig, ListenChange, MediaConfig, MediaEngine, MediaParams,
    MixerConfig, RtpSockets, VadConfig, FRAME,
};
use voicecore_engine::signal::gain::Gain;
use voicecore_engine::signal::listener::{Listener, Refit};
use voicecore_engine::signal::mixer::Mixer;
use voicecore_engine::signal::vad::{Bank, Rate};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Frames measured in all, for each number of calls.
const FRAMES: usize = 200_000;
const PACED: Duration = Duration::from_secs(4);

fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Something with the rhythm of speech: noise and tone in bursts.
fn voice(samples: usize) -> Vec<i16> {
    let mut seed = 1u32;
    (0..samples)
        .map(|i| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = f64::from(seed >> 16) / 65_536.0 - 0.5;
            let t = i as f64 / 8000.0;
            let level = (t * 9.0).sin().max(0.0) * 6000.0 + 50.0;
            (((t * 1100.0).sin() + noise) * level) as i16
        })
        .collect()
}

fn by_parts(calls: usize, codec: Codec) -> Outcome<f64> {
    let ticks = (FRAMES / calls).clamp(500, 20_000);
    let samples = (ticks + 200) * codec.rate().frame();
    let mut probe = Probe::with_codec(calls, codec, &voice(samples))?;
    let kind = if codec == Codec::Pcma { "" } else { ", G722" };
    for _ in 0..100 {
        probe.tick(thread_ns);
    }
    let mut sums = [0u64; PARTS.len()];
    for _ in 0..ticks {
        for (s, p) in sums.iter_mut().zip(probe.tick(thread_ns)) {
            *s += p;
        }
    }
    let each = |ns: u64| ns as f64 / 1000.0 / (ticks * calls) as f64;
    println!("{calls} calls{kind}, {ticks} ticks back to back:");
    for (name, ns) in PARTS.iter().zip(sums) {
        println!("  {name:<24} {:>7.2} µs", each(ns));
        rows::add(&format!("{name}, {calls} calls{kind}"), "us", each(ns), None)?;
    }
    let all = each(sums.iter().sum());
    println!("  {:<24} {all:>7.2} µs", "together");
    rows::add(&format!("tick back to back, {calls} calls{kind}"), "us", all, None)?;
    let [sent, received, lost, concealed] = probe.totals();
    println!("  packets sent {sent}, received {received}, lost {lost}; concealed {concealed}");
    Ok(all)
}

/// CPU time of the thread called `name`, ns.
fn cpu_of(name: &str) -> Outcome<u64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let dir = task?.path();
        if std::fs::read_to_string(dir.join("comm"))?.trim() == name {
            let stat = std::fs::read_to_string(dir.join("schedstat"))?;
            return Ok(stat.split_whitespace().next().unwrap_or("0").parse()?);
        }
    }
    Err("no such thread".into())
}

fn paced(calls: usize) -> Outcome<()> {
    let engine = MediaEngine::start(MediaConfig { max_calls: calls, ..MediaConfig::default() })?;
    let pcm: Vec<u8> = voice(8000 * 10).iter().flat_map(|s| s.to_le_bytes()).collect();
    let mut sockets = Vec::new();
    for _ in 0..calls {
        sockets.push(RtpSockets::open(IpAddr::V4(Ipv4Addr::LOCALHOST), (20_000, 29_999))?);
    }
    let mut addresses = Vec::new();
    for s in &sockets {
        addresses.push(s.rtp_addr()?);
    }
    for (i, s) in sockets.into_iter().enumerate() {
        let call = i as u64;
        engine.add_call(call, s, None)?;
        engine.set_media(call, MediaParams::plain(Codec::Pcma, 8, addresses[i ^ 1]));
        engine.play(call, &pcm, 8000, 1)?;
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut batch = Batch::default();
    let (before, stats) = (cpu_of("vc-media-0")?, engine.engine_stats());
    let end = Instant::now() + PACED;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        engine.drain(&mut batch);
    }
    let (after, now) = (cpu_of("vc-media-0")?, engine.engine_stats());
    let ticks = now.ticks - stats.ticks;
    let frames = (ticks * calls as u64) as f64;
    let us = (after - before) as f64 / 1000.0 / frames;
    rows::add(&format!("media thread at pace, {calls} calls"), "us", us, Some(40.0))?;
    println!(
        "  whole thread at pace     {:>7.2} µs  ({ticks} ticks, {} late, {} skipped, latest {} µs; \
         sent {}, received {}, lost {}, concealed {})",
        us,
        now.late_ticks,
        now.skipped_ticks,
        now.max_lateness_us,
        now.tx_packets,
        now.rx_packets,
        now.rx_lost,
        now.concealed_frames,
    );
    engine.stop();
    Ok(())
}

/// What is done to the frame of a call, by its number.
type Work = Box<dyn FnMut(usize, &mut [i16])>;

/// Gain control and mixer alone, over the state of so many calls, on frames of 8 kHz.
fn signal(calls: usize) -> Outcome<()> {
    let sound = voice(8000 * 20);
    let frames: Vec<&[i16]> = sound.chunks_exact(FRAME).collect();
    let rounds = (FRAMES / calls).max(200);
    let each = |name: &str, mut work: Work| -> Outcome<()> {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let begin = thread_ns();
            for round in 0..rounds {
                for call in 0..calls {
                    let mut frame = [0i16; FRAME];
                    frame.copy_from_slice(frames[(round + call * 37) % frames.len()]);
                    work(call, &mut frame);
                    std::hint::black_box(&frame);
                }
            }
            best = best.min((thread_ns() - begin) as f64 / 1000.0 / (rounds * calls) as f64);
        }
        println!("  {name:<24} {best:>7.3} µs  ({calls} calls)");
        Ok(rows::add(&format!("{name}, {calls} calls"), "us", best, None)?)
    };
    each("a frame copied", Box::new(|_, _| {}))?;
    for (name, enabled) in [("level", false), ("level and gain", true)] {
        let cfg = GainConfig { enabled, ..GainConfig::default() };
        let mut gains = vec![Gain::new(cfg); calls];
        let work = move |call: usize, frame: &mut [i16]| {
            let mut out = [0i16; FRAME];
            gains[call].run(frame, &mut out);
            frame.copy_from_slice(&out);
        };
        each(name, Box::new(work))?;
    }
    let noise = Background::noise().ok_or("no noise")?.of(Rate::R8k);
    for (name, voice_db, background) in [
        ("mixer, nothing to do", 0.0, false),
        ("mixer, level", -3.0, false),
        ("mixer, background", 0.0, true),
    ] {
        let cfg = MixerConfig { voice_db, ..MixerConfig::default() };
        let mut mixers: Vec<Mixer> = (0..calls).map(|_| Mixer::new(cfg)).collect();
        for (call, mixer) in mixers.iter_mut().enumerate() {
            let start = noise.start(call as u64);
            mixer.set(background.then(|| (noise.clone(), start)));
        }
        let mut tick = 0;
        let work = move |call: usize, frame: &mut [i16]| {
            // The agent talks for two seconds of each three: ducked and open, and the ways between.
            tick += usize::from(call == 0);
            mixers[call].mix(frame, (tick + call) % 150 < 100);
        };
        each(name, Box::new(work))?;
    }
    Ok(())
}

/// Hearing callers, with and without what can be added for a call; voice activity has its own figures. Nobody speaks,
/// the agent talks; then everything that is heard is the agent's echo, and sounds like speech.
fn hearing(calls: usize) -> Outcome<()> {
    let sound = voice(8000 * 20);
    let frames: Vec<&[i16]> = sound.chunks_exact(FRAME).collect();
    let rounds = (FRAMES / calls).max(200);
    let plain = ListenChange::default;
    let guard = || ListenChange { echo_guard: Some(true), ..plain() };
    type Change<'a> = &'a dyn Fn() -> ListenChange;
    let quiet = || ListenChange { noise_suppression: Some(true), ..plain() };
    let kinds: [(&str, Change, bool); 5] = [
        ("hearing", &plain, false),
        ("hearing, echo guard", &guard, false),
        ("hearing, noise suppression", &quiet, false),
        ("hearing an echo", &plain, true),
        ("hearing an echo, echo guard", &guard, true),
    ];
    for (name, change, echo) in kinds {
        let mut best = f64::MAX;
        for _ in 0..3 {
            let mut listeners: Vec<Listener> = (0..calls)
                .map(|_| {
                    let (gain, vad) = (GainConfig::default(), VadConfig::default());
                    let mut listener = Listener::new(gain, vad, 300, false);
                    listener.change(&mut Refit::new(change()));
                    listener
                })
                .collect();
            let begin = thread_ns();
            for round in 10..rounds + 10 {
                for (call, listener) in listeners.iter_mut().enumerate() {
                    let at = round + call * 37;
                    let said = frames[at % frames.len()];
                    let mut heard = [0i16; FRAME];
                    // 160 ms late, 18 dB down; or next to nothing.
                    let source = frames[(at - 8) % frames.len()];
                    let shift = if echo { 3 } else { 10 };
                    heard.iter_mut().zip(source).for_each(|(h, s)| *h = s >> shift);
                    listener.said(said, &heard);
                    if listener.hear(&heard, 0).is_some() {
                        std::hint::black_box(listener.decide(if echo { 0.9 } else { 0.05 }));
                    }
                }
            }
            best = best.min((thread_ns() - begin) as f64 / 1000.0 / (rounds * calls) as f64);
        }
        println!("  {name:<27} {best:>7.3} µs  ({calls} calls)");
        rows::add(&format!("{name}, {calls} calls"), "us", best, None)?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![2, 100, 400] } else { asked };
    println!("voice activity backend: {}", Bank::new(Rate::R8k, 1).backend());
    for calls in counts {
        let calls = calls.next_multiple_of(2);
        by_parts(calls, Codec::Pcma)?;
        by_parts(calls, Codec::G722)?;
        paced(calls)?;
        signal(calls)?;
        hearing(calls)?;
    }
    Ok(())
}
