// SPDX-License-Identifier: GPL-3.0-or-later
//! Events of signalling on their way to the application, bounded.

use crate::dtmf::Key;
use crate::watchdog::Stall;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What signalling tells. URIs are personal data: no `Debug`.
pub enum SignalEvent {
    /// A call came in and waits for ring, answer or reject.
    Incoming {
        /// Call it is about.
        call: u64,
        /// Call-ID header.
        sip_call_id: String,
        /// URI of From.
        from: String,
        /// URI of To.
        to: String,
        /// `address:port` of the sender.
        source: String,
        /// The user that the caller authenticated as.
        account: Option<Box<str>>,
    },
    /// A provisional response to our INVITE.
    Progress {
        /// Call it is about.
        call: u64,
        /// 101 to 199.
        status: u16,
    },
    /// Answered and acknowledged; audio runs.
    Confirmed {
        /// Call it is about.
        call: u64,
        /// The WAV, if the call is recorded.
        recording: Option<PathBuf>,
    },
    /// Audio runs before the answer.
    EarlyMedia {
        /// Call it is about.
        call: u64,
        /// The WAV, if the call is recorded.
        recording: Option<PathBuf>,
    },
    /// Outcome of an operation inside of a call.
    Done {
        /// Call it is about.
        call: u64,
        /// `offer`, `transfer` or `early_media`.
        operation: &'static str,
        /// 200, or why not.
        status: u16,
        /// Code and message, when it never left this machine.
        error: Option<(&'static str, String)>,
    },
    /// The peer has put us on hold.
    Held {
        /// Call it is about.
        call: u64,
        /// When, CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// The peer hears us again.
    Resumed {
        /// Call it is about.
        call: u64,
        /// When, CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// How far the transfer that we asked for has come.
    Transfer {
        /// Call it is about.
        call: u64,
        /// Of the peer's new call.
        status: u16,
        /// Nothing follows.
        last: bool,
    },
    /// The peer asks us to call somebody else.
    TransferRequested {
        /// Call it is about.
        call: u64,
        /// Whom: a SIP URI. Personal data.
        target: String,
    },
    /// The call has another peer now (RFC 3891).
    Replaced {
        /// Call it is about.
        call: u64,
        /// Call-ID header of the new dialog.
        sip_call_id: String,
        /// URI of From.
        from: String,
        /// `address:port` of the sender.
        source: String,
    },
    /// A command about a call could not be carried out.
    Failed {
        /// Call it is about.
        call: u64,
        /// Stable code.
        code: &'static str,
        /// Place and remedy.
        message: String,
        /// SIP status that fits it.
        status: u16,
    },
    /// The call is over. `in_media`: the final counters follow from the media thread.
    Ended {
        /// Call it is about.
        call: u64,
        /// 200 for a BYE, else the final status of the INVITE.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Whether the peer ended it.
        by_remote: bool,
        /// Whether the media thread knew the call.
        in_media: bool,
    },
    /// A key came by SIP INFO.
    Dtmf {
        /// Call it is about.
        call: u64,
        /// Which.
        key: Key,
        /// How long it was down, as the peer says, ms.
        duration_ms: u32,
        /// When the INFO was read, CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// An INFO of ours was answered, or not.
    InfoDone {
        /// Call it is about.
        call: u64,
        /// Request as given by `send_info`.
        request: u64,
        /// Final status; 408 when none came.
        status: u16,
    },
    /// A registration changed or was refreshed.
    Registration {
        /// Which.
        registration: u64,
        /// Status of the last response, 408 or 503 when none came.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Lifetime granted, s; 0 when not registered.
        expires_s: u32,
        /// `address:port` of the server that answered or did not.
        server: Option<String>,
        /// After a failure: s until the next try.
        retry_s: Option<f64>,
    },
    /// A trunk answered OPTIONS, or did not.
    Trunk {
        /// Which.
        watch: u64,
        /// Whether it answered.
        alive: bool,
        /// Status of the answer; 408, 502 or 503 also when none came.
        status: u16,
        /// Reason phrase, or what is in the way.
        reason: String,
        /// From request to answer, ms.
        rtt_ms: Option<f64>,
        /// `address:port` of the server that answered or did not.
        server: Option<String>,
    },
    /// A thread of the engine, or the application, does not come back in time, or has come back.
    Stalled(Stall),
    /// A line for the log, without personal data.
    Log {
        /// How grave.
        level: LogLevel,
        /// The line.
        message: String,
    },
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something to look at.
    Warning,
    /// Worth knowing.
    Info,
    /// For developers.
    Debug,
}

/// One producer (the SIP thread), one consumer (drain).
///
/// Log lines, progress and keys by INFO, which a peer can send without end, are dropped and counted when it
/// is full. Events in which calls begin and end are never dropped: their number is bounded since no new call
/// is let in while the queue is full.
pub(crate) struct EventQueue {
    events: Mutex<VecDeque<SignalEvent>>,
    limit: usize,
    dropped: AtomicU64,
}

impl EventQueue {
    pub(crate) fn new(limit: usize) -> EventQueue {
        EventQueue {
            events: Mutex::new(VecDeque::with_capacity(limit.min(1024))),
            limit,
            dropped: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SignalEvent>> {
        // Nothing in here panics while it holds the lock; a poisoned queue is still a queue.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: SignalEvent) {
        let droppable = matches!(
            event,
            SignalEvent::Log { .. }
                | SignalEvent::Progress { .. }
                | SignalEvent::Stalled(_)
                | SignalEvent::Dtmf { .. }
        );
        let mut events = self.lock();
        if droppable && events.len() >= self.limit {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            events.push_back(event);
        }
    }

    /// True when new calls must be refused until the application has caught up.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().len() >= self.limit
    }

    /// Moves everything behind what is in `out`.
    pub(crate) fn drain_into(&self, out: &mut Vec<SignalEvent>) {
        out.extend(self.lock().drain(..));
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> SignalEvent {
        SignalEvent::Log { level: LogLevel::Info, message: String::new() }
    }

    #[test]
    fn a_full_queue_drops_log_lines_and_counts_them_but_keeps_ends() {
        let queue = EventQueue::new(2);
        for _ in 0..5 {
            queue.push(log());
        }
        assert!(queue.is_full());
        queue.push(SignalEvent::Confirmed { call: 1, recording: None });
        let mut out = Vec::new();
        queue.drain_into(&mut out);
        assert_eq!((out.len(), queue.dropped()), (3, 3));
        assert!(matches!(out.last(), Some(SignalEvent::Confirmed { call: 1, .. })));
        assert!(!queue.is_full());
    }
}
