// SPDX-License-Identifier: GPL-3.0-or-later
//! The recorder thread.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

use super::tap::Reel;
use super::wav::Wav;
use crate::events::Notice;
use crate::media::now_ns;
use crate::media::outbox::{Garbage, Record};
use crate::media::waker::Waker;
use crate::watchdog::Pulse;

/// How often rings are emptied. Far below their second or two.
const PERIOD: Duration = Duration::from_millis(100);
/// Periods between two header refreshes.
const REFRESH: u32 = 10;
/// Longest that completing the files may take at the end.
const STOP_LIMIT: Duration = Duration::from_millis(1500);
/// Periods between two attempts after a disk error.
const RETRY: u32 = 10;
/// The recorder may be this late before it counts as stuck: before a ring of two seconds is full.
const STUCK: Duration = Duration::from_millis(1500);

/// What the recorder shares with the other threads.
#[derive(Debug)]
pub(crate) struct RecorderQueues {
    /// New recordings: call, path, ring.
    pub(crate) new: ArrayQueue<(u64, PathBuf, Reel)>,
    /// Events about recordings, and the ends of recorded calls.
    pub(crate) events: ArrayQueue<Record>,
    /// Recordings with a disk error.
    pub(crate) errors: AtomicU64,
    stop: AtomicBool,
    /// The next round blocks for so long.
    #[cfg(test)]
    pub(crate) block_ms: AtomicU64,
}

impl RecorderQueues {
    pub(crate) fn new(calls: usize) -> RecorderQueues {
        RecorderQueues {
            new: ArrayQueue::new(calls),
            events: ArrayQueue::new(calls * 4),
            errors: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            #[cfg(test)]
            block_ms: AtomicU64::new(0),
        }
    }
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    queues: Arc<RecorderQueues>,
    pulse: Arc<Pulse>,
    thread: JoinHandle<()>,
}

impl Recorder {
    pub(crate) fn start(
        queues: Arc<RecorderQueues>,
        garbage: Arc<ArrayQueue<Garbage>>,
        waker: Arc<Waker>,
    ) -> io::Result<Recorder> {
        let shared = Arc::clone(&queues);
        let pulse = Pulse::new("vc-record", STUCK);
        let beat = Arc::clone(&pulse);
        let thread = Builder::new().name("vc-record".into()).spawn(move || {
            let mut desk = Desk { queues: shared, waker, open: Vec::new(), buffer: Vec::new() };
            while !desk.queues.stop.load(Ordering::Acquire) {
                desk.round();
                // The media thread's buffers are freed here, whoever else may sleep.
                while garbage.pop().is_some() {}
                beat.back_by(now_ns() + PERIOD.as_nanos() as u64);
                std::thread::park_timeout(PERIOD);
            }
            beat.rest();
            desk.round();
            desk.close_all();
        })?;
        Ok(Recorder { queues, pulse, thread })
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Completes all recordings and ends the thread. Calls must be finished. False when storage
    /// blocks it: then it is left to itself, and what it holds back is lost with the process.
    pub(crate) fn stop(self) -> bool {
        self.queues.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let end = Instant::now() + STOP_LIMIT;
        while !self.thread.is_finished() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // A panic there has been printed; there is nothing left to save here.
        let _ = self.thread.join();
        true
    }
}

struct Recording {
    call: u64,
    path: PathBuf,
    reel: Reel,
    wav: Option<Wav>,
    /// Periods until the next attempt; 0 is no error.
    retry: u32,
    failed: bool,
    /// Periods since the error without another one.
    well: u32,
    age: u32,
    /// Samples that came while no file could be created.
    before: u64,
}

struct Desk {
    queues: Arc<RecorderQueues>,
    waker: Arc<Waker>,
    open: Vec<Recording>,
    buffer: Vec<u8>,
}

impl Desk {
    fn round(&mut self) {
        #[cfg(test)]
        std::thread::sleep(Duration::from_millis(self.queues.block_ms.swap(0, Ordering::Relaxed)));
        while let Some((call, path, reel)) = self.queues.new.pop() {
            self.open.push(Recording {
                call,
                path,
                reel,
                wav: None,
                retry: 0,
                failed: false,
                well: 0,
                age: 0,
                before: 0,
            });
        }
        let mut i = 0;
        while let Some(r) = self.open.get_mut(i) {
            // Asked before the ring is read: afterwards there might be more.
            let done = r.reel.done();
            match r.round(&mut self.buffer) {
                Ok(()) => r.recover(&self.queues, &self.waker),
                Err(e) => r.fail(&self.queues, &self.waker, &e),
            }
            match done {
                Some(rest) => {
                    let r = self.open.swap_remove(i);
                    close(r, rest, &self.queues, &self.waker);
                }
                None => i += 1,
            }
        }
    }

    fn close_all(&mut self) {
        for r in self.open.drain(..) {
            close(r, 0, &self.queues, &self.waker);
        }
    }
}

fn close(mut r: Recording, rest: u64, queues: &RecorderQueues, waker: &Waker) {
    if let Some(mut wav) = r.wav.take() {
        wav.append_silence(rest);
        if let Err(e) = wav.finish() {
            r.fail(queues, waker, &e);
        }
    }
    if r.reel.end().claim() {
        tell(queues, waker, Record::Closed { call: r.call });
    }
}

fn tell(queues: &RecorderQueues, waker: &Waker, record: Record) {
    // The queue holds more than all calls can tell before they are drained; a notice may be lost
    // to a consumer that is gone, an end may not.
    let mut record = Some(record);
    for _ in 0..100 {
        let Some(r) = record.take() else { break };
        if let Err(back) = queues.events.push(r) {
            record = Some(back);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    waker.wake();
}

impl Recording {
    fn round(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let n = self.reel.ring.slots() / 2 * 2;
        buffer.clear();
        if let Ok(chunk) = self.reel.ring.read_chunk(n) {
            for s in chunk {
                buffer.extend_from_slice(&s.to_le_bytes());
            }
        }
        self.retry = self.retry.saturating_sub(1);
        if self.retry > 0 || (n == 0 && self.wav.is_none()) {
            self.give_up(n as u64 / 2);
            return Ok(());
        }
        if self.wav.is_none() {
            match Wav::create(&self.path, self.reel.rate()) {
                Ok(mut wav) => {
                    wav.append_silence(std::mem::take(&mut self.before));
                    self.wav = Some(wav);
                }
                Err(e) => {
                    self.give_up(n as u64 / 2);
                    return Err(e);
                }
            }
        }
        let Some(wav) = &mut self.wav else { return Ok(()) };
        if n > 0 {
            wav.append(buffer)?;
        }
        self.age += 1;
        if self.age.is_multiple_of(REFRESH) {
            wav.refresh()?;
        }
        Ok(())
    }

    /// Silence takes the place of what is not written.
    fn give_up(&mut self, samples: u64) {
        match &mut self.wav {
            Some(wav) => wav.append_silence(samples),
            None => self.before += samples,
        }
    }

    /// Tells that an error is over, once that has lasted.
    fn recover(&mut self, queues: &RecorderQueues, waker: &Waker) {
        if !self.failed || self.retry > 0 || self.wav.is_none() {
            return;
        }
        self.well += 1;
        if self.well >= RETRY {
            self.failed = false;
            let notice = Notice::RecordingResumed;
            tell(queues, waker, Record::Notice { call: Some(self.call), notice });
        }
    }

    fn fail(&mut self, queues: &RecorderQueues, waker: &Waker, error: &io::Error) {
        self.retry = RETRY;
        self.well = 0;
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        queues.errors.fetch_add(1, Ordering::Relaxed);
        let notice = Notice::RecordingFailed { errno: error.raw_os_error().unwrap_or(0) };
        tell(queues, waker, Record::Notice { call: Some(self.call), notice });
    }
}
