// SPDX-License-Identifier: GPL-3.0-or-later
//! Field failure B63: storage that blocks. A pipe without a reader stands for a frozen disk: opening
//! it to write waits as a write to a frozen file system does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::rig;
use crate::events::{Batch, MediaEvent, Notice};
use crate::media::{Codec, MediaConfig, MediaEngine, MediaParams, RtpSockets};

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("voicecore-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A recording path whose file nobody can open before `unblock`.
fn blocked(dir: &Path) -> (PathBuf, PathBuf) {
    let path = dir.join("blocked.wav");
    let part = dir.join("blocked.wav.part");
    assert!(Command::new("mkfifo").arg(&part).status().unwrap().success());
    (path, part)
}

/// Lets the writer of a pipe go on, until it is through with it.
fn unblock(part: PathBuf) {
    std::thread::spawn(move || {
        let _ = std::fs::read(part);
    });
}

fn start(engine: &MediaEngine, call: u64, path: PathBuf) {
    let sockets = RtpSockets::open(IpAddr::V4(Ipv4Addr::LOCALHOST), (42_300, 42_399)).unwrap();
    engine.add_call(call, sockets, Some(path)).unwrap();
    let remote_rtp = SocketAddr::from(([127, 0, 0, 1], 9));
    engine.set_media(call, MediaParams { remote_rtp, ..rig::params(20, Codec::Pcma) });
}

fn events_until(
    engine: &MediaEngine,
    all: &mut Vec<MediaEvent>,
    done: impl Fn(&[MediaEvent]) -> bool,
) -> Duration {
    let begun = Instant::now();
    let mut batch = Batch::default();
    while !done(all) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{all:?}");
        std::thread::sleep(Duration::from_millis(5));
        engine.drain(&mut batch);
        all.append(&mut batch.events);
    }
    begun.elapsed()
}

fn closed(events: &[MediaEvent]) -> Vec<u64> {
    let pick = |e: &MediaEvent| match e {
        MediaEvent::Closed { call, .. } => Some(*call),
        _ => None,
    };
    events.iter().filter_map(pick).collect()
}

#[test]
fn b63_calls_go_on_and_end_while_storage_blocks_and_recording_resumes_after() {
    let dir = scratch("blocked");
    let (path, part) = blocked(&dir);
    let cfg = MediaConfig { recording: true, max_calls: 4, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    let mut events = Vec::new();
    start(&engine, 1, path);
    start(&engine, 2, dir.join("second.wav"));
    std::thread::sleep(Duration::from_millis(500));
    // The media thread does not wait for the disk.
    let sent = engine.call_stats(2).map_or(0, |s| s.tx_packets);
    assert!(sent > 10, "{sent} packets");
    engine.remove_call(1);
    engine.remove_call(2);
    let waited = events_until(&engine, &mut events, |e| closed(e).len() == 2);
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    let told = |e: &[MediaEvent], n: Notice| {
        e.iter().filter(|e| matches!(e, MediaEvent::Notice { notice, .. } if *notice == n)).count()
    };
    assert_eq!(told(&events, Notice::RecorderBlocked), 2, "{events:?}");
    assert!(engine.engine_stats().recording_errors >= 2);
    // Both places are free again, and the next call is served at once.
    start(&engine, 3, dir.join("third.wav"));
    unblock(part);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !dir.join("second.wav").exists() {
        assert!(Instant::now() < deadline, "the recorder did not go on");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    engine.remove_call(3);
    events_until(&engine, &mut events, |e| closed(e).len() == 3);
    assert_eq!(closed(&events).iter().filter(|c| **c == 3).count(), 1);
    assert_eq!(told(&events, Notice::RecorderBlocked), 2);
    assert!(engine.stop());
    let third = std::fs::metadata(dir.join("third.wav")).unwrap().len();
    assert!(third > 44 + 10 * 640, "{third} bytes");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn b63_an_engine_stops_while_storage_blocks() {
    let dir = scratch("blocked-stop");
    let (path, part) = blocked(&dir);
    let cfg = MediaConfig { recording: true, max_calls: 1, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    start(&engine, 1, path);
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert!(!engine.stop(), "the recording cannot be complete");
    assert!(begun.elapsed() < Duration::from_secs(10));
    unblock(part);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::remove_dir_all(dir).unwrap();
}
