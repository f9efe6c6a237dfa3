// SPDX-License-Identifier: GPL-3.0-or-later
//! The side of the media threads that other threads see. Locks here are between those other threads
//! only; the media threads are reached through lock-free queues.

mod drain;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::call::Call;
use super::clock;
use super::counters::{CallCounters, ClockCounters};
use super::outbox::{rings, Garbage, Inbox};
use super::playout::{Level, Playout};
use super::roster::{Known, Roster, Seat};
use super::shard::{Command, Line, Polls, Shard};
use super::srtp::Update;
use super::voice::{Voice, FIRST_ROOM};
use super::waker::Waker;
use super::{Coding, Delivered, MediaConfig, MediaError, MediaParams, Rate};
use crate::record::{tap, Recorder, RecorderQueues};
use crate::signal::vad::stock::Stock;
use crate::signal::vad::Bank;
use crate::transport::rtp::session::Identity;
use crate::transport::RtpSockets;
use crate::watchdog::Pulse;

/// Places beyond `max_calls`: calls that have ended but were not drained yet.
const SPARE_PLACES: usize = 64;
/// Attempts, one a millisecond, before the media thread counts as not running.
const PATIENCE: u32 = 500;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves these maps whole: every change to them is a single operation.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A media thread and the way to it.
#[derive(Debug)]
struct Worker {
    commands: Arc<ArrayQueue<Command>>,
    clock: Arc<ClockCounters>,
    thread: Option<JoinHandle<()>>,
}

/// The media threads, and the recorder thread if asked for. Shared by reference between threads.
#[derive(Debug)]
pub struct MediaEngine {
    cfg: MediaConfig,
    waker: Arc<Waker>,
    workers: Vec<Worker>,
    garbage: Arc<ArrayQueue<Garbage>>,
    /// One for each worker.
    inboxes: Mutex<Vec<Inbox>>,
    roster: Mutex<Roster>,
    dropped: Arc<AtomicU64>,
    records: Arc<RecorderQueues>,
    stop: Arc<AtomicBool>,
    recorder: Option<Recorder>,
}

impl MediaEngine {
    /// Starts the threads: one for each core of `cfg.cores`, or one that is not pinned.
    ///
    /// # Errors
    /// [`MediaError::Start`] when the system refuses a thread or descriptor. A refused priority or
    /// core is no error: it arrives as a notice.
    pub fn start(cfg: MediaConfig) -> Result<MediaEngine, MediaError> {
        let start = |what| move |source| MediaError::Start { what, source };
        let shards = cfg.cores.len().max(1);
        // A new call goes to the shard with the fewest, so none has more than its part.
        let places = cfg.max_calls.div_ceil(shards) + SPARE_PLACES;
        let waker = Arc::new(Waker::new().map_err(start("event descriptor"))?);
        let garbage = Arc::new(ArrayQueue::new(4096 + shards * places * 16));
        let records = Arc::new(RecorderQueues::new(shards * places));
        let recorder = if cfg.recording {
            let queues = (Arc::clone(&records), Arc::clone(&garbage), Arc::clone(&waker));
            let recorder = Recorder::start(queues.0, queues.1, queues.2);
            Some(recorder.map_err(start("recorder thread"))?)
        } else {
            None
        };
        let roster = Mutex::new(Roster::new(shards, places, Bank::lanes()));
        let mut engine = MediaEngine {
            cfg,
            waker,
            workers: Vec::with_capacity(shards),
            garbage,
            inboxes: Mutex::new(Vec::with_capacity(shards)),
            roster,
            dropped: Arc::new(AtomicU64::new(0)),
            records,
            stop: Arc::new(AtomicBool::new(false)),
            recorder,
        };
        for number in 0..shards {
            // When one is refused, those that run are stopped by the drop.
            engine.start_worker(number, places)?;
        }
        Ok(engine)
    }

    fn start_worker(&mut self, number: usize, places: usize) -> Result<(), MediaError> {
        let start = |what| move |source| MediaError::Start { what, source };
        let commands = Arc::new(ArrayQueue::new(4096 + places * 8));
        // In speech delivery a third of the callers talk at a time.
        let every = self.cfg.delivery.what == Delivered::Frames;
        let talkers = places * if every { 3 } else { 1 };
        let (outbox, inbox) = rings(talkers, Arc::clone(&self.garbage), Arc::clone(&self.dropped));
        let polls = Polls::new().map_err(start("epoll"))?;
        let name = format!("vc-media-{number}");
        let clock = Arc::new(ClockCounters::new(&name));
        let (counters, flag) = (Arc::clone(&clock), Arc::clone(&self.stop));
        let (core, priority) = (self.cfg.cores.get(number).copied(), self.cfg.priority);
        let (asked, woken) = (Arc::clone(&commands), Arc::clone(&self.waker));
        let wide = self.cfg.wideband;
        let stock = self.stock().map_err(start("voice activity by onnxruntime"))?;
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let mut shard = Shard::new(number, places, wide, asked, outbox, woken, polls);
                shard.use_stock(stock);
                clock::run(shard, core, priority, &counters, &flag);
            })
            .map_err(start("media thread"))?;
        lock(&self.inboxes).push(inbox);
        self.workers.push(Worker { commands, clock, thread: Some(thread) });
        Ok(())
    }

    /// Sessions of a media thread, each for one rate, if they are to be used.
    fn stock(&self) -> std::io::Result<Vec<Stock>> {
        let Some(library) = &self.cfg.vad_onnxruntime else { return Ok(Vec::new()) };
        let rates = if self.cfg.wideband { &[Rate::R8k, Rate::R16k][..] } else { &[Rate::R8k] };
        let load = |rate: &Rate| Stock::load(library, *rate).map_err(std::io::Error::other);
        rates.iter().map(load).collect()
    }

    /// Readable when events wait. Written at most once a tick.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Makes [`MediaEngine::event_fd`] readable, for events that come from elsewhere (signalling).
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Signs of life of all its threads, and of whoever drains.
    pub(crate) fn pulses(&self) -> Vec<Arc<Pulse>> {
        let media = self.workers.iter().map(|w| &w.clock.pulse);
        let recorder = self.recorder.iter().map(Recorder::pulse);
        media.chain(recorder).chain([self.waker.pulse()]).map(Arc::clone).collect()
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
        let line = Box::new(Line::new(media, sockets));
        let voice = Voice::new(call, self.cfg.playout_max_s, level);
        let seat = lock(&self.roster).add(call, self.cfg.max_calls, counters, voice)?;
        if let Some(reel) = reel {
            // As many places as calls: it is never full.
            let _ = self.records.new.push(reel);
        }
        let Seat { phase, place, .. } = seat;
        let sent = self.command(seat, Command::Add { place, phase, line });
        if sent.is_err() {
            lock(&self.roster).forget(call);
        }
        sent
    }

    /// Outcome of an offer/answer exchange. The first one starts the flow and the recording, and its
    /// codec decides the rate of the call. Unknown calls are ignored.
    pub fn set_media(&self, call: u64, media: MediaParams) {
        let Some(known) = self.known(call) else { return };
        known.set_events(media.telephone_event.is_some());
        let Seat { place, .. } = known.seat;
        // Held until all is queued: what is played now must not overtake what was played before.
        let mut voice = lock(&known.voice);
        let wanted = if self.cfg.wideband { media.codec.rate() } else { Rate::R8k };
        let first = voice.rate().is_none();
        let line = voice.rate().unwrap_or(wanted);
        known.counters.set_codec(media.codec);
        known.counters.rate.set(u64::from(line.hz()));
        let _ = self.command(known.seat, Command::SetMedia { place, call, params: media, line });
        if first {
            self.begin_background(call, &known, voice.background.take(), line);
        }
        for push in voice.set_rate(line) {
            let _ = self.command(known.seat, Command::Play { place, call, push });
        }
    }

    /// Puts keys of SRTP in force, or takes them away; before the [`MediaEngine::set_media`] they belong to. Unknown calls
    /// are ignored.
    ///
    /// # Errors
    /// [`MediaError::Busy`]: then `set_media` must not follow, for what it starts would be in clear.
    pub(crate) fn set_srtp(&self, call: u64, update: Update) -> Result<(), MediaError> {
        let Some(known) = self.known(call) else { return Ok(()) };
        let Seat { place, .. } = known.seat;
        // Before the next tick: who hears of the answer may ask.
        known.counters.set_srtp(update.suite());
        let update = Box::new(update);
        self.command(known.seat, Command::SetSrtp { place, call, update })
    }

    /// Ends a call: RTCP BYE, sockets closed, WAV finished; then
    /// [`crate::events::MediaEvent::Closed`]. Unknown calls are ignored.
    pub fn remove_call(&self, call: u64) {
        let seat = lock(&self.roster).leave(call);
        if let Some(seat) = seat {
            let _ = self.command(seat, Command::Remove { place: seat.place, call });
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
        if known.removed() {
            return Err(MediaError::NoSuchCall(call));
        }
        // Held until the command is queued: chunks of two threads must not change places.
        let mut voice = lock(&known.voice);
        match voice.play(pcm, rate, turn)? {
            Some(push) => {
                let Seat { place, .. } = known.seat;
                self.command(known.seat, Command::Play { place, call, push })
            }
            None => Ok(()),
        }
    }

    /// No more audio of `turn`: [`crate::events::MediaEvent::PlayoutFinished`] follows when all of
    /// it was sent.
    pub fn finish(&self, call: u64, turn: u64) {
        let Some(known) = self.known(call) else { return };
        let mut voice = lock(&known.voice);
        for push in voice.finish(turn) {
            let Seat { place, .. } = known.seat;
            let _ = self.command(known.seat, Command::Play { place, call, push });
        }
    }

    /// Cuts `turn`, or all turns, within one tick.
    pub fn clear(&self, call: u64, turn: Option<u64>) {
        let Some(known) = self.known(call) else { return };
        let mut voice = lock(&known.voice);
        let spare = voice.clear(turn);
        let Seat { place, .. } = known.seat;
        let _ = self.command(known.seat, Command::Clear { place, call, turn, spare });
    }

    /// Ends all calls, closes all recordings and joins the threads. False when storage blocks the
    /// recorder: then some recordings are not complete.
    pub fn stop(mut self) -> bool {
        self.shut_down()
    }

    fn shut_down(&mut self) -> bool {
        self.stop.store(true, Ordering::Release);
        for thread in self.workers.iter_mut().filter_map(|w| w.thread.take()) {
            // A panic there was printed by the panic hook; the recordings are still completed.
            let _ = thread.join();
        }
        let complete = self.recorder.take().is_none_or(Recorder::stop);
        while self.garbage.pop().is_some() {}
        for worker in &self.workers {
            while worker.commands.pop().is_some() {}
        }
        complete
    }

    pub(super) fn config(&self) -> &MediaConfig {
        &self.cfg
    }

    pub(super) fn known(&self, call: u64) -> Option<Arc<Known>> {
        lock(&self.roster).get(call).cloned()
    }

    /// Queues a command; waits a little for a media thread that lags.
    pub(super) fn command(&self, seat: Seat, command: Command) -> Result<(), MediaError> {
        let Some(worker) = self.workers.get(seat.shard) else { return Err(MediaError::Busy) };
        let mut command = command;
        for _ in 0..PATIENCE {
            match worker.commands.push(command) {
                Ok(()) => return Ok(()),
                Err(back) => command = back,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(MediaError::Busy)
    }
}

#[cfg(test)]
impl MediaEngine {
    pub(crate) fn block(&self, shard: usize, time: Duration) {
        let block = self.workers.get(shard).map(|w| &w.clock.block_ms);
        block.inspect(|ms| ms.store(time.as_millis() as u64, Ordering::Relaxed));
    }

    pub(crate) fn block_recorder(&self, time: Duration) {
        self.records.block_ms.store(time.as_millis() as u64, Ordering::Relaxed);
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
