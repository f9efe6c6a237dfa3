// SPDX-License-Identifier: GPL-3.0-or-later
//! Several media threads: calls on different ones talk to each other, and one drain has all of it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::events::{Batch, MediaEvent, Notice};
use crate::media::{Codec, MediaConfig, MediaEngine, MediaParams, RtpSockets};

const CALLS: u64 = 12;

fn threads(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let name = |dir: std::fs::DirEntry| std::fs::read_to_string(dir.path().join("comm"));
    tasks.filter_map(|t| name(t).ok()).filter(|n| n.starts_with(prefix)).count()
}

/// Cores that do not exist serve as well: their threads run unpinned, and that is told.
#[test]
fn calls_on_three_threads_talk_and_each_event_is_told_once() {
    let cfg =
        MediaConfig { cores: vec![1021, 1022, 1023], max_calls: 12, ..MediaConfig::default() };
    let engine = MediaEngine::start(cfg).unwrap();
    let mut sockets = Vec::new();
    for _ in 0..CALLS {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        sockets.push(RtpSockets::open(ip, (42_300, 42_399)).unwrap());
    }
    let addresses: Vec<_> = sockets.iter().map(|s| s.rtp_addr().unwrap()).collect();
    for (call, s) in (0..CALLS).zip(sockets) {
        engine.add_call(call, s, None).unwrap();
        // Neighbours sit on different threads.
        engine.set_media(call, MediaParams::plain(Codec::Pcma, 8, addresses[(call ^ 1) as usize]));
        engine.play(call, &[0x55; 16_000], 8000, 7).unwrap();
        engine.finish(call, 7);
    }
    let mut batch = Batch::default();
    let mut finished: HashMap<u64, u64> = HashMap::new();
    let (mut closed, mut refused) = (Vec::new(), 0);
    let end = Instant::now() + Duration::from_secs(20);
    while closed.len() < CALLS as usize && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        engine.drain(&mut batch);
        for event in batch.events.drain(..) {
            match event {
                MediaEvent::PlayoutFinished { call, samples, .. } => {
                    assert!(finished.insert(call, samples).is_none(), "told once");
                    engine.remove_call(call);
                }
                MediaEvent::Closed { call, stats } => {
                    assert!(finished.contains_key(&call), "the end is told last");
                    assert!(stats.tx_packets >= 50 && stats.rx_packets > 0, "{stats:?}");
                    closed.push(call);
                }
                MediaEvent::Notice { notice: Notice::CoreRefused { .. }, .. } => refused += 1,
                _ => {}
            }
        }
    }
    closed.sort_unstable();
    assert_eq!(closed, (0..CALLS).collect::<Vec<_>>());
    assert!(finished.values().all(|samples| *samples == 8000), "{finished:?}");
    assert_eq!(refused, 3);
    let stats = engine.engine_stats();
    assert_eq!((stats.calls_active, stats.calls_total), (0, CALLS));
    assert_eq!((stats.rx_lost, stats.tx_errors), (0, 0));
    assert!(stats.ticks >= 3 * 50 && stats.lateness_p99_us <= stats.max_lateness_us * 17 / 16 + 1);
    engine.stop();
}

#[test]
fn a_stopped_engine_leaves_no_thread() {
    for _ in 0..5 {
        let cfg = MediaConfig { cores: vec![1020; 4], recording: true, ..MediaConfig::default() };
        let engine = MediaEngine::start(cfg).unwrap();
        // A thread names itself once it runs.
        let end = Instant::now() + Duration::from_secs(10);
        while threads("vc-media-3") == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(threads("vc-media-3"), 1);
        engine.stop();
    }
    // Only this test has a fourth media thread.
    assert_eq!(threads("vc-media-3"), 0);
}
