// SPDX-License-Identifier: GPL-3.0-or-later
//! The side of the media thread that other threads see. Locks here are between those other threads
//! only; the media thread is reached through lock-free queues.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use rustix::event::epoll;

use super::call::Call;
use super::clock;
use super::counters::{sum_up, CallCounters, ClockCounters};
use super::outbox::{rings, Garbage, Inbox, Record};
use super::playout::{Level, Playout};
use super::shard::{Command, Line, Shard};
use super::voice::{Voice, FIRST_ROOM};
use super::waker::Waker;
use super::{CallStats, MediaConfig, MediaError, MediaParams, MediaStats};
use crate::events::{Batch, MediaEvent};
use crate::record::{tap, Recorder, RecorderQueues};
use crate::transport::rtp::session::Identity;
use crate::transport::RtpSockets;

/// Places beyond `max_calls`: calls that have ended but were not drained yet.
const SPARE_PLACES: usize = 64;
/// Attempts, one a millisecond, before the media thread counts as not running.
const PATIENCE: u32 = 500;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves these maps whole: every change to them is a single operation.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Known {
    place: usize,
    counters: Arc<CallCounters>,
    voice: Mutex<Voice>,
    removed: AtomicBool,
}

#[derive(Debug)]
struct Registry {
    calls: HashMap<u64, Arc<Known>>,
    free: Vec<usize>,
    total: u64,
    /// Counters of calls that have ended.
    ended: MediaStats,
}

/// The media thread, and the recorder thread if asked for. Shared by reference between threads.
#[derive(Debug)]
pub struct MediaEngine {
    cfg: MediaConfig,
    waker: Arc<Waker>,
    commands: Arc<ArrayQueue<Command>>,
    garbage: Arc<ArrayQueue<Garbage>>,
    inbox: Mutex<Inbox>,
    registry: Mutex<Registry>,
    clock: Arc<ClockCounters>,
    dropped: Arc<AtomicU64>,
    records: Arc<RecorderQueues>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    recorder: Option<Recorder>,
}

impl MediaEngine {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`MediaError::Start`] when the system refuses a thread or descriptor. A refused priority or
    /// core is no error: it arrives as a notice.
    pub fn start(cfg: MediaConfig) -> Result<MediaEngine, MediaError> {
        let start = |what| move |source| MediaError::Start { what, source };
        let places = cfg.max_calls + SPARE_PLACES;
        let waker = Arc::new(Waker::new().map_err(start("event descriptor"))?);
        let commands = Arc::new(ArrayQueue::new(4096 + places * 8));
        let garbage = Arc::new(ArrayQueue::new(4096 + places * 16));
        let dropped = Arc::new(AtomicU64::new(0));
        let (outbox, inbox) = rings(places, Arc::clone(&garbage), Arc::clone(&dropped));
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| MediaError::Start { what: "epoll", source: e.into() })?;
        let records = Arc::new(RecorderQueues::new(places));
        let recorder = if cfg.recording {
            let queues = (Arc::clone(&records), Arc::clone(&garbage), Arc::clone(&waker));
            let recorder = Recorder::start(queues.0, queues.1, queues.2);
            Some(recorder.map_err(start("recorder thread"))?)
        } else {
            None
        };
        let clock = Arc::new(ClockCounters::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (counters, flag) = (Arc::clone(&clock), Arc::clone(&stop));
        let (core, priority) = (cfg.core, cfg.priority);
        let (asked, woken) = (Arc::clone(&commands), Arc::clone(&waker));
        let thread = std::thread::Builder::new()
            .name("vc-media-0".into())
            .spawn(move || {
                let shard = Shard::new(places, asked, outbox, woken, poll);
                clock::run(shard, core, priority, &counters, &flag);
            })
            .map_err(start("media thread"))?;
        let registry = Registry {
            calls: HashMap::new(),
            free: (0..places).rev().collect(),
            total: 0,
            ended: MediaStats::default(),
        };
        Ok(MediaEngine {
            cfg,
            waker,
            commands,
            garbage,
            inbox: Mutex::new(inbox),
            registry: Mutex::new(registry),
            clock,
            dropped,
            records,
            stop,
            thread: Some(thread),
            recorder,
        })
    }

    /// Readable when events wait. Written at most once a tick.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Makes [`MediaEngine::event_fd`] readable, for events that come from elsewhere (signalling).
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Takes a call: its sockets are read from the next tick on, media flows after `set_media`.
    /// `recording` is the WAV's final path; while written it ends in `.part`.
    ///
    /// # Errors
    /// [`MediaError::TooManyCalls`], [`MediaError::CallExists`], [`MediaError::Busy`].
    pub fn add_call(
        &self,
        call: u64,
        sockets: RtpSockets,
        recording: Option<PathBuf>,
    ) -> Result<(), MediaError> {
        let level = Arc::new(Level::default());
        let counters = Arc::new(CallCounters::default());
        let room = std::collections::VecDeque::with_capacity(FIRST_ROOM);
        let playout = Playout::new(call, room, Arc::clone(&level));
        let recording = recording.filter(|_| self.recorder.is_some());
        let (tap, reel) = match recording {
            Some(path) => {
                let (tap, reel) = tap();
                (Some(tap), Some((call, path, reel)))
            }
            None => (None, None),
        };
        let media = Call::new(call, &self.cfg, identity()?, playout, tap, Arc::clone(&counters));
        let line = Box::new(Line { call: media, sockets });
        let place = {
            let mut registry = lock(&self.registry);
            if registry.calls.contains_key(&call) {
                return Err(MediaError::CallExists(call));
            }
            let max = self.cfg.max_calls;
            let running =
                registry.calls.values().filter(|k| !k.removed.load(Ordering::Relaxed)).count();
            if running >= max {
                return Err(MediaError::TooManyCalls { max });
            }
            let place = registry.free.pop().ok_or(MediaError::TooManyCalls { max })?;
            registry.total += 1;
            let voice = Mutex::new(Voice::new(call, self.cfg.playout_max_s, level));
            let removed = AtomicBool::new(false);
            registry.calls.insert(call, Arc::new(Known { place, counters, voice, removed }));
            place
        };
        if let Some(reel) = reel {
            // As many places as calls: it is never full.
            let _ = self.records.new.push(reel);
        }
        let sent = self.command(Command::Add { place, line });
        if sent.is_err() {
            let mut registry = lock(&self.registry);
            registry.calls.remove(&call);
            registry.free.push(place);
        }
        sent
    }

    /// Outcome of an offer/answer exchange. The first one starts the flow and the recording.
    /// Unknown calls are ignored.
    pub fn set_media(&self, call: u64, media: MediaParams) {
        if let Some(known) = self.known(call) {
            let place = known.place;
            let _ = self.command(Command::SetMedia { place, call, params: media });
        }
    }

    /// Ends a call: RTCP BYE, sockets closed, WAV finished; then
    /// [`crate::events::MediaEvent::Closed`]. Unknown calls are ignored.
    pub fn remove_call(&self, call: u64) {
        if let Some(known) = self.known(call) {
            if !known.removed.swap(true, Ordering::Relaxed) {
                let _ = self.command(Command::Remove { place: known.place, call });
            }
        }
    }

    /// Appends 16-bit little-endian mono PCM at `rate` Hz to `turn`. Resampled here, in the
    /// caller's thread; an odd byte is carried to the next chunk of the turn. A turn that was
    /// cleared or finished takes no more: such audio is dropped without error.
    ///
    /// # Errors
    /// [`MediaError::PlayoutFull`] (nothing of the chunk was taken), [`MediaError::BadRate`],
    /// [`MediaError::NoSuchCall`], [`MediaError::Busy`].
    pub fn play(&self, call: u64, pcm: &[u8], rate: u32, turn: u64) -> Result<(), MediaError> {
        let known = self.known(call).ok_or(MediaError::NoSuchCall(call))?;
        if known.removed.load(Ordering::Relaxed) {
            return Err(MediaError::NoSuchCall(call));
        }
        // Held until the command is queued: chunks of two threads must not change places.
        let mut voice = lock(&known.voice);
        match voice.play(pcm, rate, turn)? {
            Some(push) => self.command(Command::Play { place: known.place, call, push }),
            None => Ok(()),
        }
    }

    /// No more audio of `turn`: [`crate::events::MediaEvent::PlayoutFinished`] follows when all of
    /// it was sent.
    pub fn finish(&self, call: u64, turn: u64) {
        let Some(known) = self.known(call) else { return };
        let mut voice = lock(&known.voice);
        for push in voice.finish(turn) {
            let _ = self.command(Command::Play { place: known.place, call, push });
        }
    }

    /// Cuts `turn`, or all turns, within one tick.
    pub fn clear(&self, call: u64, turn: Option<u64>) {
        let Some(known) = self.known(call) else { return };
        let mut voice = lock(&known.voice);
        let spare = voice.clear(turn);
        let _ = self.command(Command::Clear { place: known.place, call, turn, spare });
    }

    /// Fetches what happened since the last drain into `batch`, which is cleared first. Also makes
    /// [`MediaEngine::event_fd`] unreadable.
    pub fn drain(&self, batch: &mut Batch) {
        batch.clear();
        // First of all: an event after this makes the descriptor readable again.
        self.waker.drain();
        let mut inbox = lock(&self.inbox);
        // The recorder tells the end of a call only after the media thread told the rest, so its
        // queue is looked at first and told last.
        let late = self.records.events.len();
        let ready = inbox.events.slots();
        for _ in 0..ready {
            let Ok(record) = inbox.events.pop() else { break };
            if let Record::Audio { call, at_ns, len } = record {
                let offset = batch.audio.len();
                if let Ok(chunk) = inbox.audio.read_chunk(len) {
                    let (a, b) = chunk.as_slices();
                    batch.audio.extend_from_slice(a);
                    batch.audio.extend_from_slice(b);
                    chunk.commit_all();
                    batch.events.push(MediaEvent::Audio { call, at_ns, offset, len });
                }
            } else {
                self.translate(record, batch);
            }
        }
        // Sockets of ended calls are closed before their end is heard of.
        while self.garbage.pop().is_some() {}
        for _ in 0..late {
            let Some(record) = self.records.events.pop() else { break };
            self.translate(record, batch);
        }
    }

    fn translate(&self, record: Record, batch: &mut Batch) {
        let event = match record {
            Record::SpeechStarted { call, at_ns, decided_ns } => {
                MediaEvent::SpeechStarted { call, at_ns, decided_ns }
            }
            Record::SpeechEnded { call, at_ns, decided_ns } => {
                MediaEvent::SpeechEnded { call, at_ns, decided_ns }
            }
            Record::PlayoutStarted { call, turn, at_ns } => {
                MediaEvent::PlayoutStarted { call, turn, at_ns }
            }
            Record::PlayoutFinished { call, turn, samples, at_ns, interrupted } => {
                MediaEvent::PlayoutFinished { call, turn, samples, at_ns, interrupted }
            }
            Record::MediaTimeout { call, silent_ns } => {
                MediaEvent::MediaTimeout { call, silent_ns }
            }
            Record::Notice { call, notice } => MediaEvent::Notice { call, notice },
            Record::Closed { call } => {
                let Some(stats) = self.forget(call) else { return };
                MediaEvent::Closed { call, stats: Box::new(stats) }
            }
            Record::Audio { .. } => return,
        };
        batch.events.push(event);
    }

    fn forget(&self, call: u64) -> Option<CallStats> {
        let mut registry = lock(&self.registry);
        let known = registry.calls.remove(&call)?;
        let stats = known.counters.stats();
        sum_up(&mut registry.ended, &stats);
        registry.free.push(known.place);
        Some(stats)
    }

    /// Counters over all calls. Reads atomics; never waits for the media thread.
    pub fn engine_stats(&self) -> MediaStats {
        let registry = lock(&self.registry);
        let mut all = registry.ended;
        for known in registry.calls.values() {
            sum_up(&mut all, &known.counters.stats());
            all.calls_active += u64::from(!known.removed.load(Ordering::Relaxed));
        }
        all.calls_total = registry.total;
        all.ticks = self.clock.ticks.get();
        all.late_ticks = self.clock.late_ticks.get();
        all.skipped_ticks = self.clock.skipped_ticks.get();
        all.max_lateness_us = self.clock.max_lateness_us.get();
        all.events_dropped = self.dropped.load(Ordering::Relaxed);
        all.recording_errors = self.records.errors.load(Ordering::Relaxed);
        all
    }

    /// Counters of one call, `None` once its `Closed` event was drained.
    pub fn call_stats(&self, call: u64) -> Option<CallStats> {
        self.known(call).map(|known| known.counters.stats())
    }

    /// Ends all calls, closes all recordings and joins the threads.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed by the panic hook; the recordings are still completed.
            let _ = thread.join();
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.stop();
        }
        while self.garbage.pop().is_some() {}
        while self.commands.pop().is_some() {}
    }

    fn known(&self, call: u64) -> Option<Arc<Known>> {
        lock(&self.registry).calls.get(&call).cloned()
    }

    /// Queues a command; waits a little for a media thread that lags.
    fn command(&self, command: Command) -> Result<(), MediaError> {
        let mut command = command;
        for _ in 0..PATIENCE {
            match self.commands.push(command) {
                Ok(()) => return Ok(()),
                Err(back) => command = back,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(MediaError::Busy)
    }
}

impl Drop for MediaEngine {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn identity() -> Result<Identity, MediaError> {
    let mut random = [0u8; 32];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| MediaError::Start { what: "random numbers", source: e.into() })?;
    Ok(Identity::from_random(&random))
}
