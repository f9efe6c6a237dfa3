// SPDX-License-Identifier: GPL-3.0-or-later
//! The engine as an application sees it: start, commands, one drain, stop.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::EngineConfig;
use crate::engine_trunks::TrunkStats;
use crate::error::EngineError;
use crate::events::Notice;
use crate::intake::{fetch, EngineEvent, EventBatch, Intake};
use crate::media::cores::isolated;
use crate::media::{Distribution, MediaConfig, MediaEngine, MediaStats, VadConfig};
use crate::signalling::{attach, detach, Command, LogLevel, SignalEvent, SipHandle, Tenant};
use crate::watchdog::Watchdog;

/// Longest that [`Engine::stop`] takes.
const STOP_LIMIT: Duration = Duration::from_secs(3);
/// Longest that [`Engine::stop`] waits for the media thread to close its calls.
const CLOSE_LIMIT: Duration = Duration::from_millis(600);

/// Counters of the engine since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineStats {
    /// Of the media thread.
    pub media: MediaStats,
    /// Calls the SIP thread has, answered or not.
    pub calls_active: u64,
    /// Calls so far, in and out.
    pub calls_total: u64,
    /// Log lines and progress events dropped on the way to the application.
    pub signals_dropped: u64,
    /// Transactions the stack holds now (all engines of the process).
    pub sip_transactions: u64,
    /// Dialogs the stack holds now (all engines of the process).
    pub sip_dialogs: u64,
    /// What arrived and was no SIP message (all engines of the process).
    pub sip_malformed: u64,
    /// Requests refused before they became calls (the stack's own refusals: all engines of the process).
    pub sip_rejected: u64,
    /// Of the trunks.
    pub trunks: TrunkStats,
    /// Requests dropped in silence: from outside the ACL.
    pub sip_unlisted: u64,
    /// Requests dropped in silence: of scanners.
    pub sip_scanners: u64,
    /// Requests dropped in silence: of sources that sent too much that was malformed or refused.
    pub sip_muted: u64,
    /// INVITEs and connections over a limit of their source.
    pub sip_limited: u64,
    /// INVITEs challenged for credentials.
    pub sip_challenged: u64,
    /// INVITEs with wrong credentials.
    pub sip_auth_failed: u64,
}

enum State {
    New,
    Running {
        tenant: Arc<Tenant>,
        sip: SipHandle,
        address: SocketAddr,
    },
    /// No commands any more, but events still come.
    Stopping {
        tenant: Arc<Tenant>,
    },
    Stopped,
}

/// SIP and media for many calls. All methods may be called from any thread.
pub struct Engine {
    pub(crate) config: EngineConfig,
    state: Mutex<State>,
    intake: Mutex<Intake>,
    /// A duplicate of the media engine's: its number stays valid in a poller until the engine is dropped.
    event_fd: Mutex<Option<OwnedFd>>,
    malformed_before: AtomicU64,
    rejected_before: AtomicU64,
    last_stats: Mutex<EngineStats>,
    watchdog: Mutex<Option<Watchdog>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks guard stays consistent across a panic: all updates are single assignments.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine that is not started.
    ///
    /// # Errors
    /// [`EngineError::Config`] naming the field.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        config.validate()?;
        Ok(Engine {
            config,
            state: Mutex::new(State::New),
            intake: Mutex::default(),
            event_fd: Mutex::new(None),
            malformed_before: AtomicU64::new(0),
            rejected_before: AtomicU64::new(0),
            last_stats: Mutex::default(),
            watchdog: Mutex::new(None),
        })
    }

    /// Binds the SIP sockets and starts the threads. Returns the SIP address as bound. Blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// `engine.port_in_use` and its kin; `engine.already_running`; `media.failed`.
    pub fn start(&self) -> Result<SocketAddr, EngineError> {
        let mut state = lock(&self.state);
        if !matches!(*state, State::New) {
            return Err(EngineError::AlreadyRunning);
        }
        let media = MediaEngine::start(media_config(&self.config))?;
        let event_fd = media.event_fd().try_clone_to_owned().map_err(|source| {
            crate::media::MediaError::Start { what: "event descriptor", source }
        })?;
        let tenant = Arc::new(Tenant::new(self.config.clone(), media));
        let (sip, address) = match attach(&tenant) {
            Ok(attached) => attached,
            Err(e) => {
                stop_media(&tenant);
                return Err(e.into());
            }
        };
        self.malformed_before
            .store(sip.counters.malformed.load(Ordering::Relaxed), Ordering::Relaxed);
        self.rejected_before
            .store(sip.counters.rejected.load(Ordering::Relaxed), Ordering::Relaxed);
        *lock(&self.event_fd) = Some(event_fd);
        *lock(&self.watchdog) = watch(&tenant, &sip);
        *state = State::Running { tenant, sip, address };
        Ok(address)
    }

    /// BYE to all calls, unregister, close recordings, join threads; within 3 s. What happened meanwhile
    /// is fetched by one more [`Engine::drain`]. Does nothing the second time.
    pub fn stop(&self) {
        let (tenant, sip) = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut *state, State::Stopped) {
                State::Running { tenant, sip, .. } => {
                    *state = State::Stopping { tenant: Arc::clone(&tenant) };
                    (tenant, sip)
                }
                State::Stopping { tenant } => {
                    *state = State::Stopping { tenant };
                    drop(state);
                    return self.wait_stopped();
                }
                State::New | State::Stopped => return,
            }
        };
        drop(lock(&self.watchdog).take());
        detach(&sip, tenant.id);
        let deadline = Instant::now() + CLOSE_LIMIT;
        loop {
            let mut intake = lock(&self.intake);
            let Intake { ends, leftover, dtmf } = &mut *intake;
            fetch(&tenant, ends, dtmf, leftover);
            if ends.is_empty() || Instant::now() >= deadline {
                break;
            }
            drop(intake);
            std::thread::sleep(Duration::from_millis(5));
        }
        *lock(&self.last_stats) = self.read_stats(&tenant, &sip);
        let complete = stop_media(&tenant);
        let mut intake = lock(&self.intake);
        let Intake { ends, leftover, .. } = &mut *intake;
        if !complete {
            let message = format!("stop: {}", Notice::RecorderBlocked);
            let log = SignalEvent::Log { level: LogLevel::Error, message };
            leftover.events.push(EngineEvent::Signal(log));
        }
        // The media thread did not close these in time; the application waits for their end all the same.
        leftover.events.extend(ends.drain().map(|(call, end)| end.finish(call, Box::default())));
        *lock(&self.state) = State::Stopped;
    }

    /// For a second stop(), such as the one at exit after an impatient Ctrl-C: the process must not end while the
    /// first one closes recordings.
    fn wait_stopped(&self) {
        let deadline = Instant::now() + STOP_LIMIT;
        while !matches!(*lock(&self.state), State::Stopped) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Readable when [`Engine::drain`] would give something. Valid until the engine is dropped.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`] before start.
    pub fn event_fd(&self) -> Result<RawFd, EngineError> {
        lock(&self.event_fd).as_ref().map(AsRawFd::as_raw_fd).ok_or(EngineError::NotRunning)
    }

    /// A duplicate of [`Engine::event_fd`], to wait on.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`] before start, `media.failed` when descriptors have run out.
    pub fn clone_event_fd(&self) -> Result<OwnedFd, EngineError> {
        let fd = lock(&self.event_fd);
        let clone = fd.as_ref().ok_or(EngineError::NotRunning)?.try_clone();
        clone.map_err(|source| {
            crate::media::MediaError::Start { what: "event descriptor", source }.into()
        })
    }

    /// How late the parts of the ticks began so far, ns; empty unless running.
    pub fn lateness(&self) -> Distribution {
        self.tenant().ok().and_then(|t| t.with_media(MediaEngine::lateness)).unwrap_or_default()
    }

    /// Fetches all that happened since the last time. Never waits for the media thread.
    pub fn drain(&self, batch: &mut EventBatch) {
        batch.events.clear();
        batch.audio.clear();
        let mut intake = lock(&self.intake);
        let Intake { ends, leftover, dtmf } = &mut *intake;
        if !leftover.events.is_empty() {
            std::mem::swap(leftover, batch);
        }
        let tenant = match &*lock(&self.state) {
            State::Running { tenant, .. } | State::Stopping { tenant } => Some(Arc::clone(tenant)),
            State::New | State::Stopped => None,
        };
        if let Some(tenant) = tenant {
            fetch(&tenant, ends, dtmf, batch);
        } else if let Some(fd) = &*lock(&self.event_fd) {
            // The media engine is gone and does not reset it any more. An error means it is not readable.
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
    }

    /// Counters since start; after `stop` those at its end.
    pub fn stats(&self) -> EngineStats {
        match &*lock(&self.state) {
            State::Running { tenant, sip, .. } => self.read_stats(tenant, sip),
            _ => *lock(&self.last_stats),
        }
    }

    /// The SIP address as bound, while running.
    pub fn sip_address(&self) -> Option<SocketAddr> {
        match &*lock(&self.state) {
            State::Running { address, .. } => Some(*address),
            _ => None,
        }
    }

    fn read_stats(&self, tenant: &Tenant, sip: &SipHandle) -> EngineStats {
        let since = |now: &AtomicU64, before: &AtomicU64| {
            now.load(Ordering::Relaxed).saturating_sub(before.load(Ordering::Relaxed))
        };
        EngineStats {
            media: tenant.with_media(MediaEngine::engine_stats).unwrap_or_default(),
            calls_active: tenant.calls_active.load(Ordering::Relaxed) as u64,
            calls_total: tenant.calls_total.load(Ordering::Relaxed),
            signals_dropped: tenant.events.dropped(),
            sip_transactions: sip.counters.transactions.load(Ordering::Relaxed),
            sip_dialogs: sip.counters.dialogs.load(Ordering::Relaxed),
            sip_malformed: since(&sip.counters.malformed, &self.malformed_before),
            sip_rejected: since(&sip.counters.rejected, &self.rejected_before)
                + tenant.refused.load(Ordering::Relaxed),
            trunks: TrunkStats::of(tenant),
            sip_unlisted: tenant.guard.unlisted.load(Ordering::Relaxed),
            sip_scanners: tenant.guard.scanners.load(Ordering::Relaxed),
            sip_muted: tenant.guard.muted.load(Ordering::Relaxed),
            sip_limited: tenant.guard.limited.load(Ordering::Relaxed),
            sip_challenged: tenant.guard.challenged.load(Ordering::Relaxed),
            sip_auth_failed: tenant.guard.auth_failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn command(&self, command: Command) -> Result<(), EngineError> {
        self.with_running(|_, sip| Ok(sip.send(command)?))
    }

    pub(crate) fn about_call(&self, command: Command) -> Result<(), EngineError> {
        match self.command(command) {
            Err(EngineError::NotRunning) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn tenant(&self) -> Result<Arc<Tenant>, EngineError> {
        self.with_running(|tenant, _| Ok(Arc::clone(tenant)))
    }

    pub(crate) fn with_running<R>(
        &self,
        f: impl FnOnce(&Arc<Tenant>, &SipHandle) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        match &*lock(&self.state) {
            State::Running { tenant, sip, .. } => f(tenant, sip),
            _ => Err(EngineError::NotRunning),
        }
    }
}

#[cfg(test)]
impl Engine {
    /// Blocks a media thread.
    pub(crate) fn block_media(&self, shard: usize, time: Duration) {
        if let Ok(tenant) = self.tenant() {
            tenant.with_media(|m| m.block(shard, time));
        }
    }

    /// Blocks the recorder thread.
    pub(crate) fn block_recorder(&self, time: Duration) {
        if let Ok(tenant) = self.tenant() {
            tenant.with_media(|m| m.block_recorder(time));
        }
    }

    /// Blocks the SIP thread.
    pub(crate) fn block_sip(&self, time: Duration) {
        let _ = self.command(Command::Block(time));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An engine serves calls without its watchdog too: a refused thread is told, not an error.
fn watch(tenant: &Arc<Tenant>, sip: &SipHandle) -> Option<Watchdog> {
    let mut pulses = tenant.with_media(MediaEngine::pulses).unwrap_or_default();
    pulses.push(Arc::clone(&sip.pulse));
    let told = Arc::clone(tenant);
    let started = Watchdog::start(pulses, move |stall| told.tell(SignalEvent::Stalled(stall)));
    started.map_err(|e| tenant.log(LogLevel::Warning, format!("watchdog: not started: {e}"))).ok()
}

/// False when recordings were left incomplete.
fn stop_media(tenant: &Tenant) -> bool {
    let media = tenant.media.write().unwrap_or_else(PoisonError::into_inner).take();
    media.is_none_or(MediaEngine::stop)
}

fn media_config(config: &EngineConfig) -> MediaConfig {
    MediaConfig {
        jitter_min_ms: config.jitter_min_ms,
        jitter_max_ms: config.jitter_max_ms,
        preroll_ms: config.preroll_ms,
        playout_max_s: config.playout_max_s,
        media_timeout_s: config.media_timeout_s,
        media_timeout_dtx_s: config.media_timeout_dtx_s,
        recording: config.recording_dir.is_some(),
        cores: if config.media_cores.is_empty() { isolated() } else { config.media_cores.clone() },
        priority: config.media_priority,
        vad: VadConfig {
            enabled: config.vad,
            threshold: config.vad_threshold,
            release: config.vad_release,
            speech_start_ms: config.speech_start_ms,
            speech_end_ms: config.speech_end_ms,
        },
        vad_onnxruntime: config.vad_onnxruntime.clone(),
        gain: config.gain,
        delivery: config.delivery,
        echo_guard: config.echo_guard,
        noise_suppression: config.noise_suppression,
        mixer: config.mixer,
        background: config.background.clone(),
        max_calls: config.max_calls,
        wideband: config.codecs.contains(&pjsip_sys::Codec::G722),
    }
}
