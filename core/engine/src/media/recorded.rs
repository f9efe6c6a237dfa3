// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that come from a recording instead of from sockets, heard by the tick's own code at its own pace and drained as
//! real ones are: the core's side of `just bench frame`, where the other side has no network either.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::thread::ClockId;
use rustix::time::clock_gettime;

use super::clock::{now_ns, sleep_until};
use super::g711::{self, Law};
use super::outbox::{Inbox, Record};
use super::probe::Probe;
use super::roster::PHASES;
use super::waker::Waker;
use super::{Codec, MediaConfig, FRAME, TICK_NS};
use crate::events::{Batch, MediaEvent};

/// Where the time went, ns: RTP and jitter buffer in, decoding and what follows, voice activity, hand-over; and in the
/// thread that drains, fetching.
pub type Spent = [u64; 5];

const HEADER: usize = 12;

/// A media thread over recorded calls. It ends after its time, or when it is dropped.
#[derive(Debug)]
pub struct Recorded {
    inbox: Mutex<Inbox>,
    waker: Arc<Waker>,
    spent: Arc<[AtomicU64; 5]>,
    /// Ticks still to come.
    left: Arc<AtomicU64>,
    begin: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Recorded {
    /// `calls` (an even number) that say `pcm`, 8 kHz, each from another place on, in G.711 A-law, for `ticks` of 20 ms.
    ///
    /// # Errors
    /// The system's error when a socket or thread is refused.
    pub fn new(calls: usize, pcm: &[i16], ticks: u64, cfg: &MediaConfig) -> io::Result<Recorded> {
        let mut voice = vec![0; pcm.len() / FRAME * FRAME];
        g711::encode(Law::A, pcm.get(..voice.len()).unwrap_or(&[]), &mut voice);
        if voice.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let spent = Arc::new([const { AtomicU64::new(0) }; 5]);
        let left = Arc::new(AtomicU64::new(ticks));
        let (told, rest, cfg) = (Arc::clone(&spent), Arc::clone(&left), cfg.clone());
        // A shard stays in the thread that made it.
        let (tell, made) = mpsc::sync_channel(1);
        let (begin, begun) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("vc-media-0".into()).spawn(move || {
            let mut probe = match Probe::with_config(calls, Codec::Pcma, &cfg, |_| Vec::new()) {
                Ok(probe) => probe,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let ends = probe.take_inbox().ok_or_else(|| io::ErrorKind::InvalidInput.into());
            let _ = tell.send(ends);
            // Dropped unstarted, it ends too.
            if begun.recv().is_ok() {
                run(&mut probe, &voice, &told, &rest);
            }
        })?;
        let (inbox, waker) = made.recv().map_err(io::Error::other)??;
        Ok(Recorded {
            inbox: Mutex::new(inbox),
            waker,
            spent,
            left,
            begin: Some(begin),
            thread: Some(thread),
        })
    }

    /// Lets the calls begin.
    pub fn start(&self) {
        // Full when that was said before.
        if let Some(begin) = &self.begin {
            let _ = begin.try_send(());
        }
    }

    /// Readable when events wait.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Whether the recording has not ended yet.
    pub fn running(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }

    /// Thread time so far.
    pub fn spent(&self) -> Spent {
        [0, 1, 2, 3, 4].map(|n| self.spent[n].load(Ordering::Relaxed))
    }

    /// As [`super::MediaEngine::drain`], for speech and audio, which is all that there is.
    pub fn drain(&self, batch: &mut Batch) {
        let begin = thread_ns();
        self.fetch(batch);
        self.spent[4].fetch_add(thread_ns() - begin, Ordering::Relaxed);
    }

    fn fetch(&self, batch: &mut Batch) {
        batch.clear();
        self.waker.drain();
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..inbox.events.slots() {
            let Ok(record) = inbox.events.pop() else { break };
            match record {
                Record::Audio { call, at_ns, len } => {
                    let offset = batch.audio.len();
                    if let Ok(chunk) = inbox.audio.read_chunk(len) {
                        let (a, b) = chunk.as_slices();
                        batch.audio.extend_from_slice(a);
                        batch.audio.extend_from_slice(b);
                        chunk.commit_all();
                        batch.events.push(MediaEvent::Audio { call, at_ns, offset, len });
                    }
                }
                Record::SpeechStarted { call, at_ns, decided_ns } => {
                    batch.events.push(MediaEvent::SpeechStarted { call, at_ns, decided_ns });
                }
                Record::SpeechEnded { call, at_ns, decided_ns } => {
                    batch.events.push(MediaEvent::SpeechEnded { call, at_ns, decided_ns });
                }
                _ => {}
            }
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.left.store(0, Ordering::Release);
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(probe: &mut Probe, voice: &[u8], spent: &[AtomicU64; 5], left: &AtomicU64) {
    let begin = now_ns() + TICK_NS;
    let frames = voice.len() / FRAME;
    for tick in 0u64.. {
        for phase in 0..PHASES {
            sleep_until(begin + tick * TICK_NS + phase as u64 * TICK_NS / PHASES as u64);
            let packet = |place: usize, to: &mut [u8]| {
                let frame = (place * 997 + tick as usize) % frames;
                let (sequence, stamp) = (tick as u16, tick as u32 * FRAME as u32);
                let payload = voice.get(frame * FRAME..(frame + 1) * FRAME).unwrap_or(&[]);
                let Some(to) = to.get_mut(..HEADER + payload.len()) else { return 0 };
                // RFC 3550 section 5.1: version 2, payload type 8 (A-law).
                to[..2].copy_from_slice(&[0x80, 8]);
                to[2..4].copy_from_slice(&sequence.to_be_bytes());
                to[4..8].copy_from_slice(&stamp.to_be_bytes());
                to[8..HEADER].copy_from_slice(&(place as u32 + 1).to_be_bytes());
                to[HEADER..].copy_from_slice(payload);
                HEADER + payload.len()
            };
            let took = probe.hear(phase, now_ns(), packet, thread_ns);
            for (sum, ns) in spent.iter().zip(took) {
                sum.fetch_add(ns, Ordering::Relaxed);
            }
        }
        // Zero already when dropped.
        let before = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        if before.unwrap_or(0) <= 1 {
            return;
        }
    }
}
