// SPDX-License-Identifier: GPL-3.0-or-later
//! SIP: one thread owns the stack, takes commands and tells events.
//!
//! PJSIP keeps its user agent in process-wide state, so all engines of a process share one SIP thread and one
//! endpoint; each is a [`Tenant`] with its own sockets, calls, media thread and event queue. The first engine
//! starts the thread, the last one to leave ends it.

mod calls;
mod dialog;
mod info;
mod net;
mod prepare;
mod queue;
mod sdp;
mod sdp_edit;
mod sockets;
mod srtp;
mod thread;
mod transfer;
mod trunks;

pub use dialog::Change;
pub(crate) use dialog::DialogCommand;
pub(crate) use queue::EventQueue;
pub use queue::{LogLevel, SignalEvent};
pub use srtp::SrtpMode;
use srtp::SrtpPeers;
pub(crate) use trunks::{Register, TrunkCommand, Watch};

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use pjsip_sys::Waker;

use crate::config::EngineConfig;
use crate::dtmf::Key;
use crate::error::SignallingError;
use crate::guard::{Draining, GuardCounters, Network};
use crate::media::MediaEngine;
use crate::watchdog::Pulse;

/// The SIP thread may be this late before it counts as stuck.
const STUCK: Duration = Duration::from_secs(2);
/// Commands that may wait for the SIP thread.
const COMMANDS: usize = 4096;
/// Longest a detach may take: BYEs and unregistrations that get no answer.
pub(crate) const DETACH_LIMIT: Duration = Duration::from_millis(1200);

/// What the SIP thread and the facade share of one engine.
pub(crate) struct Tenant {
    pub id: u64,
    pub config: EngineConfig,
    /// `None` before start and after stop.
    pub media: RwLock<Option<MediaEngine>>,
    pub events: EventQueue,
    pub srtp: SrtpPeers,
    pub calls_active: AtomicUsize,
    pub calls_total: AtomicU64,
    /// Requests refused for this engine, beside those the stack refuses by itself.
    pub refused: AtomicU64,
    pub guard: Arc<GuardCounters>,
    pub trunks: TrunkCounters,
    pub draining: Arc<Draining>,
}

impl Tenant {
    pub(crate) fn new(config: EngineConfig, media: MediaEngine) -> Tenant {
        // Room for an application that stands still for a moment under full load.
        let limit = 512 + config.max_calls * 4;
        Tenant {
            id: next_id(),
            config,
            media: RwLock::new(Some(media)),
            events: EventQueue::new(limit),
            srtp: SrtpPeers::default(),
            calls_active: AtomicUsize::new(0),
            calls_total: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            guard: Arc::default(),
            trunks: TrunkCounters::default(),
            draining: Arc::default(),
        }
    }

    /// Runs `f` with the media engine unless it was stopped.
    pub(crate) fn with_media<R>(&self, f: impl FnOnce(&MediaEngine) -> R) -> Option<R> {
        self.media.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(f)
    }

    pub(crate) fn tell(&self, event: SignalEvent) {
        self.events.push(event);
        self.with_media(MediaEngine::wake);
    }

    pub(crate) fn log(&self, level: LogLevel, message: String) {
        self.tell(SignalEvent::Log { level, message });
    }
}

/// How the trunks of an engine stand.
#[derive(Default)]
pub(crate) struct TrunkCounters {
    pub registrations: AtomicI64,
    pub registered: AtomicI64,
    pub watched: AtomicI64,
    pub up: AtomicI64,
}

/// What the stack of the process is made with: the settings of its first engine.
pub(crate) struct StackSetup {
    pub user_agent: String,
    pub nameservers: Vec<SocketAddr>,
}

/// Ids of engines, calls and registrations: unique in the process, never reused.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An outgoing call. Personal data and a password: no `Debug`.
pub(crate) struct Dial {
    pub call: u64,
    pub uri: String,
    /// An address of the peer, when the caller knows one.
    pub towards: Option<IpAddr>,
    pub credentials: Option<(String, String)>,
    /// Our address of record; `None`: the one registered under the user name, else our address.
    pub from: Option<String>,
    /// Outbound proxy.
    pub proxy: Option<String>,
    /// Value of a Replaces header (RFC 3891).
    pub replaces: Option<String>,
    /// INVITE without offer.
    pub late_offer: bool,
    /// SRTP of this call, if not as configured.
    pub srtp: Option<SrtpMode>,
}

pub(crate) enum Command {
    Attach {
        tenant: Arc<Tenant>,
        reply: SyncSender<Result<SocketAddr, SignallingError>>,
    },
    Detach {
        tenant: u64,
        reply: SyncSender<()>,
    },
    Ring(u64),
    Answer(u64),
    Reject {
        call: u64,
        status: u16,
        retry_after: Option<u32>,
    },
    Hangup(u64),
    Info {
        call: u64,
        request: u64,
        key: Key,
        duration_ms: u32,
    },
    Dial {
        tenant: u64,
        dial: Box<Dial>,
    },
    /// Calls whom the peer of `call` asked for by REFER.
    Follow {
        tenant: u64,
        call: u64,
        dial: Box<Dial>,
    },
    Dialog(DialogCommand),
    Trunk(TrunkCommand),
    SetAcl {
        tenant: u64,
        acl: Option<Vec<Network>>,
    },
    /// The files of TLS have changed.
    ReloadTls {
        tenant: u64,
    },
    /// Does nothing for so long.
    #[cfg(test)]
    Block(Duration),
    Quit,
}

/// Counters of the stack, shared by all engines of the process.
#[derive(Default)]
pub(crate) struct StackCounters {
    pub transactions: AtomicU64,
    pub dialogs: AtomicU64,
    pub malformed: AtomicU64,
    pub rejected: AtomicU64,
}

/// How to reach the SIP thread.
#[derive(Clone)]
pub(crate) struct SipHandle {
    commands: SyncSender<Command>,
    waker: Waker,
    pub counters: Arc<StackCounters>,
    pub pulse: Arc<Pulse>,
}

impl SipHandle {
    /// Hands a command over without waiting.
    pub(crate) fn send(&self, command: Command) -> Result<(), SignallingError> {
        self.commands.try_send(command).map_err(|e| match e {
            TrySendError::Full(_) => SignallingError::Busy,
            TrySendError::Disconnected(_) => {
                SignallingError::StartFailed("the SIP thread has ended".to_owned())
            }
        })?;
        self.waker.wake();
        Ok(())
    }
}

struct Running {
    handle: SipHandle,
    thread: JoinHandle<()>,
    engines: usize,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// Joins the SIP thread (started if need be) and opens the engine's sockets.
pub(crate) fn attach(tenant: &Arc<Tenant>) -> Result<(SipHandle, SocketAddr), SignallingError> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hub = match running.take() {
        Some(hub) => hub,
        None => start_thread(StackSetup {
            user_agent: tenant.config.user_agent.clone(),
            nameservers: tenant.config.nameservers.clone(),
        })?,
    };
    let (reply, answer) = mpsc::sync_channel(1);
    let attached = hub
        .handle
        .send(Command::Attach { tenant: Arc::clone(tenant), reply })
        .and_then(|()| wait(&answer, Duration::from_secs(10))?);
    match attached {
        Ok(address) => {
            hub.engines += 1;
            let handle = hub.handle.clone();
            *running = Some(hub);
            Ok((handle, address))
        }
        Err(e) => {
            if hub.engines == 0 {
                end_thread(hub);
            } else {
                *running = Some(hub);
            }
            Err(e)
        }
    }
}

/// Ends the engine's calls and registrations, closes its sockets; the last engine ends the thread. Bounded by
/// [`DETACH_LIMIT`] and the stack's own limit.
pub(crate) fn detach(handle: &SipHandle, tenant: u64) {
    let (reply, done) = mpsc::sync_channel(1);
    // Not try_send: a full queue must not keep an engine from stopping, and the thread empties it.
    if handle.commands.send(Command::Detach { tenant, reply }).is_ok() {
        handle.waker.wake();
        let _ = done.recv_timeout(DETACH_LIMIT + Duration::from_millis(500));
    }
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut hub) = running.take() {
        hub.engines = hub.engines.saturating_sub(1);
        if hub.engines == 0 {
            end_thread(hub);
        } else {
            *running = Some(hub);
        }
    }
}

fn start_thread(setup: StackSetup) -> Result<Running, SignallingError> {
    let (commands, inbox) = mpsc::sync_channel(COMMANDS);
    let (ready, started) = mpsc::sync_channel(1);
    let counters = Arc::new(StackCounters::default());
    let shared = Arc::clone(&counters);
    let pulse = Pulse::new("vc-sip", STUCK);
    let beat = Arc::clone(&pulse);
    let thread = std::thread::Builder::new()
        .name("vc-sip".to_owned())
        .spawn(move || thread::run(&setup, &inbox, &ready, &shared, &beat))
        .map_err(|e| SignallingError::StartFailed(format!("no thread: {e}")))?;
    match wait(&started, Duration::from_secs(10)).and_then(|r| r) {
        Ok(waker) => Ok(Running {
            handle: SipHandle { commands, waker, counters, pulse },
            thread,
            engines: 0,
        }),
        Err(e) => {
            let _ = thread.join();
            Err(e)
        }
    }
}

fn end_thread(hub: Running) {
    if hub.handle.commands.send(Command::Quit).is_ok() {
        hub.handle.waker.wake();
    }
    // A panic in there was a defect; its calls are gone either way.
    let _ = hub.thread.join();
}

fn wait<T>(answer: &Receiver<T>, limit: Duration) -> Result<T, SignallingError> {
    answer
        .recv_timeout(limit)
        .map_err(|_| SignallingError::StartFailed("the SIP thread does not answer".to_owned()))
}
