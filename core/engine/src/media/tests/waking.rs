// SPDX-License-Identifier: GPL-3.0-or-later
//! When the application is woken: for decisions at once, for audio alone once a tick.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::media::outbox::Record;
use crate::media::probe::Probe;
use crate::media::roster::PHASES;
use crate::media::waker::Waker;
use crate::media::{Codec, MediaConfig, VadConfig, FRAME, TICK_NS};

const TICKS: u64 = 50;

fn woken(waker: &Arc<Waker>) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN)];
    let ready = poll(&mut fds, Some(&at_once)).unwrap() == 1;
    waker.drain();
    ready
}

fn silence(sequence: u64, call: usize, to: &mut [u8]) -> usize {
    let to = &mut to[..12 + FRAME];
    to.fill(0xD5);
    to[..2].copy_from_slice(&[0x80, 8]);
    to[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
    to[4..8].copy_from_slice(&(sequence as u32 * FRAME as u32).to_be_bytes());
    to[8..12].copy_from_slice(&(call as u32 + 1).to_be_bytes());
    to.len()
}

/// Phases in which `calls` woke the application in a tick, once all of them talk; and when speech starts.
fn wakes(calls: usize) -> Vec<Vec<usize>> {
    // Everything is speech.
    let vad = VadConfig { threshold: 0.0, release: 0.0, ..VadConfig::default() };
    let cfg = MediaConfig { vad, ..MediaConfig::default() };
    let mut probe = Probe::with_config(calls, Codec::Pcma, &cfg, |_| Vec::new()).unwrap();
    let (mut inbox, waker) = probe.take_inbox().unwrap();
    woken(&waker);
    let mut ticks = Vec::new();
    for tick in 0..TICKS {
        let mut found = Vec::new();
        for phase in 0..PHASES {
            let now = TICK_NS * (tick + 100) + phase as u64 * TICK_NS / PHASES as u64;
            probe.hear(phase, now, |call, to| silence(tick, call, to), || 0);
            let woken = woken(&waker);
            let mut records = Vec::new();
            while let Ok(record) = inbox.events.pop() {
                records.push(record);
            }
            let chunk = inbox.audio.read_chunk(inbox.audio.slots()).unwrap();
            chunk.commit_all();
            if records.iter().any(|r| !matches!(r, Record::Audio { .. })) {
                assert!(woken, "a decision waits for nobody: tick {tick}, phase {phase}");
            } else if woken {
                found.push(phase);
            }
        }
        ticks.push(found);
    }
    ticks.split_off(TICKS as usize - 20)
}

#[test]
fn audio_alone_wakes_once_a_tick_after_the_last_phase_with_calls() {
    assert!(wakes(8).iter().all(|phases| *phases == [3]));
    // Two phases are without calls.
    assert!(wakes(4).iter().all(|phases| *phases == [1]));
    assert!(wakes(2).iter().all(|phases| *phases == [0]), "few calls wait for nothing");
}
