// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the events of signalling and of media become one batch.

use std::collections::HashMap;

use crate::dtmf::{DtmfFilter, DtmfSource, Key};
use crate::events::{Batch, MediaEvent};
use crate::media::CallStats;
use crate::signalling::{LogLevel, SignalEvent, Tenant};

/// One event, as handed to the application.
pub enum EngineEvent {
    /// Signalling, but [`SignalEvent::Ended`], which comes as [`EngineEvent::Ended`].
    Signal(SignalEvent),
    /// Media, but `Closed` and `Notice`. Ranges of `Audio` lie within [`EventBatch::audio`].
    Media(MediaEvent),
    /// The caller pressed a key. No `Debug`.
    Dtmf {
        /// Call it is about.
        call: u64,
        /// Which.
        key: Key,
        /// How long it was down, ms; by INFO what the peer says.
        duration_ms: u32,
        /// When it went down, CLOCK_MONOTONIC ns; by INFO when that arrived.
        at_ns: u64,
        /// How it came.
        source: DtmfSource,
    },
    /// A call is over; nothing follows about it.
    Ended {
        /// Call it is about.
        call: u64,
        /// 200 for a BYE, else the final status of the INVITE.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Whether the peer ended it.
        by_remote: bool,
        /// Final counters.
        stats: Box<CallStats>,
    },
}

/// What one drain fetched. Use the same one again: its buffers are kept.
#[derive(Default)]
pub struct EventBatch {
    /// In order for each call.
    pub events: Vec<EngineEvent>,
    /// What the ranges of [`MediaEvent::Audio`] lie in.
    pub audio: Vec<u8>,
    media: Batch,
    signals: Vec<SignalEvent>,
}

/// How a call ended, until its final counters arrive.
pub(crate) struct PendingEnd {
    status: u16,
    reason: String,
    by_remote: bool,
}

/// What `drain` keeps between calls, and what `stop` leaves for the last one.
#[derive(Default)]
pub(crate) struct Intake {
    pub ends: HashMap<u64, PendingEnd>,
    pub leftover: EventBatch,
    pub dtmf: HashMap<u64, DtmfFilter>,
}

impl PendingEnd {
    pub(crate) fn finish(self, call: u64, stats: Box<CallStats>) -> EngineEvent {
        EngineEvent::Ended {
            call,
            status: self.status,
            reason: self.reason,
            by_remote: self.by_remote,
            stats,
        }
    }
}

/// Appends what both sources have to `batch`.
pub(crate) fn fetch(
    tenant: &Tenant,
    ends: &mut HashMap<u64, PendingEnd>,
    dtmf: &mut HashMap<u64, DtmfFilter>,
    batch: &mut EventBatch,
) {
    let mode = tenant.config.dtmf;
    let mut passes = |call: u64, key, source, at_ns| {
        dtmf.entry(call).or_default().passes(mode, key, source, at_ns)
    };
    let EventBatch { events, audio, media, signals } = batch;
    media.clear();
    tenant.with_media(|m| m.drain(media));
    let base = audio.len();
    if base == 0 {
        std::mem::swap(audio, &mut media.audio);
    } else {
        audio.append(&mut media.audio);
    }
    // After media: a call's last media event is only there when its Ended was queued before.
    signals.clear();
    tenant.events.drain_into(signals);
    for signal in signals.drain(..) {
        match signal {
            SignalEvent::Ended { call, status, reason, by_remote, in_media } => {
                let end = PendingEnd { status, reason, by_remote };
                if in_media {
                    ends.insert(call, end);
                } else {
                    events.push(end.finish(call, Box::default()));
                }
            }
            SignalEvent::Dtmf { call, key, duration_ms, at_ns } => {
                let source = DtmfSource::Info;
                if passes(call, key, source, at_ns) {
                    events.push(EngineEvent::Dtmf { call, key, duration_ms, at_ns, source });
                }
            }
            other => events.push(EngineEvent::Signal(other)),
        }
    }
    let mut ended = Vec::new();
    for event in media.events.drain(..) {
        match event {
            MediaEvent::Audio { call, at_ns, offset, len } => {
                let offset = offset + base;
                events.push(EngineEvent::Media(MediaEvent::Audio { call, at_ns, offset, len }));
            }
            MediaEvent::Dtmf { call, key, duration_ms, at_ns } => {
                let source = DtmfSource::Rtp;
                if passes(call, key, source, at_ns) {
                    events.push(EngineEvent::Dtmf { call, key, duration_ms, at_ns, source });
                }
            }
            MediaEvent::Closed { call, stats } => {
                ended.push(call);
                // Unknown: a call that was refused before the application heard of it.
                if let Some(end) = ends.remove(&call) {
                    events.push(end.finish(call, stats));
                }
            }
            MediaEvent::Notice { call, notice } => {
                let level = if notice.is_warning() { LogLevel::Warning } else { LogLevel::Info };
                let message = match call {
                    Some(call) => format!("call {call}: {notice}"),
                    None => notice.to_string(),
                };
                events.push(EngineEvent::Signal(SignalEvent::Log { level, message }));
            }
            other => events.push(EngineEvent::Media(other)),
        }
    }
    for call in ended {
        dtmf.remove(&call);
    }
}
