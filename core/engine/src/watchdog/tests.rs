// SPDX-License-Identifier: GPL-3.0-or-later
//! Threads of a running engine that really block.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::Stall;
use crate::{Engine, EngineConfig, EngineEvent, EventBatch, SignalEvent};

fn config(dir: &std::path::Path) -> EngineConfig {
    EngineConfig {
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        sip_port: 0,
        recording_dir: Some(dir.to_owned()),
        media_cores: vec![1018, 1019],
        max_calls: 4,
        ..EngineConfig::default()
    }
}

/// What is told until `done`, or within `limit`.
fn stalls(engine: &Engine, limit: Duration, done: impl Fn(&[Stall]) -> bool) -> Vec<Stall> {
    let (mut batch, mut all) = (EventBatch::default(), Vec::new());
    let end = Instant::now() + limit;
    while !done(&all) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        engine.drain(&mut batch);
        for event in batch.events.drain(..) {
            if let EngineEvent::Signal(SignalEvent::Stalled(stall)) = event {
                all.push(stall);
            }
        }
    }
    all
}

/// The one thread that was blocked for `blocked` is told of, as stuck and as running again.
fn names(engine: &Engine, thread: &str, blocked: Duration) {
    let told = stalls(engine, Duration::from_secs(20), |all| all.iter().any(|s| s.over));
    assert!(told.len() >= 2 && told.iter().all(|s| s.thread == thread), "{told:?}");
    let (first, last) = (&told[0], &told[told.len() - 1]);
    assert!(!first.over && last.over);
    assert!(first.stuck < last.stuck);
    let s = last.stuck.as_secs_f64();
    assert!(s > blocked.as_secs_f64() - 0.7 && s < blocked.as_secs_f64() + 2.0, "{told:?}");
}

#[test]
fn each_thread_that_blocks_is_named_and_nobody_else() {
    let dir = std::env::temp_dir().join(format!("voicecore-watchdog-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&dir).is_ok());
    let engine = Engine::new(config(&dir)).unwrap();
    engine.start().unwrap();
    assert_eq!(stalls(&engine, Duration::from_secs(1), |_| false), [], "all run");
    let long = Duration::from_secs(3);
    engine.block_media(1, long);
    names(&engine, "vc-media-1", long);
    engine.block_recorder(long);
    names(&engine, "vc-record", long);
    // Its limit counts from when it wanted to be back, half a second later.
    let longer = Duration::from_secs(4);
    engine.block_sip(longer);
    names(&engine, "vc-sip", longer);
    // The application itself: this thread does not drain, though there is something to fetch.
    engine.block_media(0, Duration::from_millis(900));
    std::thread::sleep(long);
    let told = stalls(&engine, Duration::from_secs(5), |all| {
        all.iter().any(|s| s.over && s.thread == "application")
    });
    let of = |name: &str| told.iter().filter(|s| s.thread == name).count();
    assert!(of("application") >= 2 && of("vc-media-0") == 2, "{told:?}");
    assert_eq!(of("application") + of("vc-media-0"), told.len(), "{told:?}");
    engine.stop();
    let _ = std::fs::remove_dir_all(dir);
}
