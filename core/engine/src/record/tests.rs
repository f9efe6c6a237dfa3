// SPDX-License-Identifier: GPL-3.0-or-later
//! Recordings, named by what happens to them.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

use super::wav::{Wav, HEADER};
use super::{tap, Recorder, RecorderQueues};
use crate::events::Notice;
use crate::media::outbox::Record;
use crate::media::waker::Waker;
use crate::media::{Rate, FRAME};

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("voicecore-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Bytes of audio the header tells, and those that are there. Fails on a header no player takes.
fn sizes(path: &Path) -> (u64, u64) {
    let d = std::fs::read(path).unwrap();
    assert_eq!((&d[..4], &d[8..16], &d[36..40]), (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..]));
    let word = |at: usize| u64::from(u32::from_le_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]));
    assert_eq!((word(24), word(28), d[22], d[32], d[34]), (8000, 32_000, 2, 4, 16));
    assert_eq!(word(4), word(40) + HEADER - 8);
    (word(40), d.len() as u64 - HEADER)
}

#[test]
fn the_file_plays_after_every_single_write() {
    let dir = scratch("wav");
    let path = dir.join("call.wav");
    let part = dir.join("call.wav.part");
    let mut wav = Wav::create(&path, Rate::R8k).unwrap();
    assert_eq!(sizes(&part), (0, 0));
    for n in 1..=20u64 {
        wav.append(&[1; 640]).unwrap();
        let (told, there) = sizes(&part);
        assert!(told <= there);
        wav.refresh().unwrap();
        assert_eq!(sizes(&part), (n * 640, n * 640));
    }
    wav.append_silence(100);
    wav.append(&[2; 4]).unwrap();
    wav.append_silence(50);
    wav.finish().unwrap();
    assert!(!part.exists());
    assert_eq!(sizes(&path), (20 * 640 + 604, 20 * 640 + 604));
    let data = std::fs::read(&path).unwrap();
    let audio = &data[HEADER as usize + 20 * 640..];
    assert!(audio[..400].iter().all(|b| *b == 0));
    assert_eq!(audio[400..404], [2; 4]);
    assert!(audio[404..].iter().all(|b| *b == 0));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_recorder_that_sleeps_costs_silence_but_no_alignment() {
    let (mut tap, mut reel) = tap();
    let frame = |v: i16| [v; FRAME];
    let mut got = Vec::new();
    for n in 1..=400i16 {
        tap.frame(&frame(n), &frame(-n));
        // Asleep from frame 50 to frame 250; the ring holds 100.
        if !(50..250).contains(&n) {
            while let Ok(s) = reel.ring.pop() {
                got.push(s);
            }
        }
    }
    tap.finish();
    while let Ok(s) = reel.ring.pop() {
        got.push(s);
    }
    let rest = reel.done().unwrap_or(u64::MAX);
    assert_eq!(got.len() / 2 + rest as usize, 400 * FRAME);
    assert!(tap.lost() >= 100 * FRAME as u64);
    let mut silent = 0;
    for (i, pair) in got.chunks_exact(2).enumerate() {
        let n = (i / FRAME) as i16 + 1;
        assert!(pair == [n, -n] || pair == [0, 0], "sample {i}: {pair:?}, expected {n}");
        silent += u64::from(pair == [0, 0]);
    }
    assert_eq!(silent + rest, tap.lost());
}

#[test]
fn a_folder_that_appears_late_is_told_once_and_then_used() {
    let dir = scratch("late");
    let path = dir.join("sub/call.wav");
    let queues = Arc::new(RecorderQueues::new(4));
    let garbage = Arc::new(ArrayQueue::new(4));
    let waker = Arc::new(Waker::new().unwrap());
    let recorder = Recorder::start(Arc::clone(&queues), garbage, waker).unwrap();
    let (mut tap, reel) = tap();
    queues.new.push((7, path.clone(), reel)).unwrap();
    tap.frame(&[5; FRAME], &[6; FRAME]);
    wait_for(|| queues.errors.load(Ordering::Relaxed) == 1);
    std::fs::create_dir(dir.join("sub")).unwrap();
    // The next attempt is about a second later.
    let part = dir.join("sub/call.wav.part");
    let mut frames = 1u64;
    wait_for(|| {
        tap.frame(&[5; FRAME], &[6; FRAME]);
        frames += 1;
        part.exists()
    });
    tap.finish();
    wait_for(|| path.exists());
    recorder.stop();
    assert_eq!(sizes(&path), (frames * FRAME as u64 * 4, frames * FRAME as u64 * 4));
    let notice = Notice::RecordingFailed { errno: 2 };
    assert_eq!(queues.events.pop(), Some(Record::Notice { call: Some(7), notice }));
    assert_eq!(queues.events.pop(), Some(Record::Closed { call: 7 }));
    assert_eq!(queues.events.pop(), None);
    std::fs::remove_dir_all(dir).unwrap();
}

fn wait_for(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}
