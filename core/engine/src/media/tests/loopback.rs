// SPDX-License-Identifier: GPL-3.0-or-later
//! The whole engine over sockets of this machine: threads, clock, recorder.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::events::{Batch, MediaEvent};
use crate::media::{Codec, MediaConfig, MediaEngine, MediaParams, RtpSockets};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn params(remote_rtp: SocketAddr) -> MediaParams {
    MediaParams {
        telephone_event: Some(101),
        rx_telephone_event: Some(101),
        ..MediaParams::plain(Codec::Pcma, 8, remote_rtp)
    }
}

/// Drains until `done` or 10 s have passed; gives all events.
fn drain_until(engine: &MediaEngine, done: impl Fn(&[MediaEvent]) -> bool) -> Vec<MediaEvent> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut batch = Batch::default();
    let mut all = Vec::new();
    while !done(&all) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        engine.drain(&mut batch);
        all.append(&mut batch.events);
    }
    assert!(done(&all), "{all:?}");
    all
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("voicecore-{name}-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&dir).is_ok());
    dir
}

fn closed(events: &[MediaEvent]) -> usize {
    events.iter().filter(|e| matches!(e, MediaEvent::Closed { .. })).count()
}

#[test]
fn two_calls_talk_to_each_other_and_both_are_recorded() {
    let cfg = MediaConfig { recording: true, max_calls: 2, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    let dir = scratch("talk");
    let a = RtpSockets::open(LOOPBACK, (42_000, 42_099)).unwrap();
    let b = RtpSockets::open(LOOPBACK, (42_000, 42_099)).unwrap();
    let (to_a, to_b) = (a.rtp_addr().unwrap(), b.rtp_addr().unwrap());
    engine.add_call(1, a, Some(dir.join("a.wav"))).unwrap();
    engine.add_call(2, b, Some(dir.join("b.wav"))).unwrap();
    engine.set_media(1, params(to_b));
    engine.set_media(2, params(to_a));
    let pcm: Vec<u8> = (0..8000u32)
        .flat_map(|i| (((f64::from(i) * 0.3).sin() * 9000.0) as i16).to_le_bytes())
        .collect();
    engine.play(1, &pcm, 8000, 7).unwrap();
    engine.finish(1, 7);
    let played = |events: &[MediaEvent]| {
        events.iter().any(|e| {
            matches!(
                e,
                MediaEvent::PlayoutFinished {
                    call: 1,
                    turn: 7,
                    samples: 8000,
                    interrupted: false,
                    ..
                }
            )
        })
    };
    let events = drain_until(&engine, played);
    assert!(matches!(events.first(), Some(MediaEvent::PlayoutStarted { call: 1, turn: 7, .. })));
    std::thread::sleep(Duration::from_millis(200));
    engine.remove_call(1);
    engine.remove_call(2);
    let ended = drain_until(&engine, |events| closed(events) == 2);
    for event in &ended {
        if let MediaEvent::Closed { stats, .. } = event {
            assert!(stats.rx_packets > 30, "{stats:?}");
            assert_eq!((stats.rx_lost, stats.rx_malformed, stats.tx_errors), (0, 0, 0));
        }
    }
    assert_eq!(engine.call_stats(1), None);
    assert_eq!(engine.engine_stats().calls_total, 2);
    // The port is free when the end was told.
    assert!(std::net::UdpSocket::bind(to_a).is_ok());
    // A machine under load may conceal a frame or two; the tone is in its channel on both sides.
    let loud = |pcm: Vec<i16>| pcm.iter().filter(|s| s.unsigned_abs() > 1000).count();
    let agent = loud(samples(&dir.join("a.wav"), 1));
    let caller = loud(samples(&dir.join("b.wav"), 0));
    assert!((7400..7500).contains(&agent), "{agent} of 8000 samples were sent");
    assert!((6000..9000).contains(&caller), "{caller} of 8000 samples arrived");
    assert_eq!(loud(samples(&dir.join("a.wav"), 0)), 0);
    assert!(!dir.join("a.wav.part").exists());
    engine.stop();
    let _ = std::fs::remove_dir_all(dir);
}

/// Samples of one channel.
fn samples(path: &std::path::Path, channel: usize) -> Vec<i16> {
    let data = std::fs::read(path).unwrap();
    assert_eq!(&data[..4], b"RIFF");
    let told = u32::from_le_bytes([data[40], data[41], data[42], data[43]]) as usize;
    assert_eq!(told + 44, data.len());
    data[44..]
        .chunks_exact(4)
        .map(|f| i16::from_le_bytes([f[2 * channel], f[2 * channel + 1]]))
        .collect()
}

#[test]
fn stop_ends_running_calls_and_completes_their_recordings() {
    let cfg = MediaConfig { recording: true, max_calls: 1, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    let dir = scratch("stop");
    let a = RtpSockets::open(LOOPBACK, (42_100, 42_199)).unwrap();
    engine.add_call(1, a, Some(dir.join("a.wav"))).unwrap();
    engine.set_media(1, params(SocketAddr::from(([127, 0, 0, 1], 9))));
    std::thread::sleep(Duration::from_millis(300));
    assert!(dir.join("a.wav.part").exists());
    engine.stop();
    assert!(samples(&dir.join("a.wav"), 0).len() >= 1600);
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn an_unanswered_call_leaves_no_file() {
    let cfg = MediaConfig { recording: true, max_calls: 1, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    let dir = scratch("unanswered");
    let a = RtpSockets::open(LOOPBACK, (42_200, 42_299)).unwrap();
    engine.add_call(1, a, Some(dir.join("a.wav"))).unwrap();
    engine.remove_call(1);
    drain_until(&engine, |events| closed(events) == 1);
    engine.stop();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    let _ = std::fs::remove_dir_all(dir);
}
