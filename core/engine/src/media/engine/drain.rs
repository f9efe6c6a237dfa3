// SPDX-License-Identifier: GPL-3.0-or-later
//! What happened, for the other threads to fetch, and counters.

use std::sync::atomic::Ordering;

use super::super::histogram::Distribution;
use super::super::outbox::{Inbox, Record};
use super::super::{CallStats, MediaStats};
use super::{lock, MediaEngine, Worker};
use crate::events::{Batch, MediaEvent, Notice};

impl MediaEngine {
    /// Fetches what happened since the last drain into `batch`, which is cleared first. Also makes
    /// [`MediaEngine::event_fd`] unreadable.
    pub fn drain(&self, batch: &mut Batch) {
        batch.clear();
        // First of all: an event after this makes the descriptor readable again.
        self.waker.drain();
        let mut inboxes = lock(&self.inboxes);
        // The recorder tells the end of a call only after the media thread told the rest, so its
        // queue is looked at first and told last.
        let late = self.records.events.len();
        for inbox in inboxes.iter_mut() {
            self.drain_one(inbox, batch);
        }
        // Sockets of ended calls are closed before their end is heard of.
        while self.garbage.pop().is_some() {}
        for _ in 0..late {
            let Some(record) = self.records.events.pop() else { break };
            self.translate(record, batch);
        }
    }

    fn drain_one(&self, inbox: &mut Inbox, batch: &mut Batch) {
        for _ in 0..inbox.events.slots() {
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
            Record::Dtmf { call, key, duration_ms, at_ns } => {
                MediaEvent::Dtmf { call, key, duration_ms, at_ns }
            }
            Record::DtmfSent { call, request, sent } => {
                MediaEvent::DtmfSent { call, request, sent }
            }
            Record::Notice { call, notice: notice @ Notice::RecorderBlocked } => {
                self.records.errors.fetch_add(1, Ordering::Relaxed);
                MediaEvent::Notice { call, notice }
            }
            Record::Notice { call, notice } => MediaEvent::Notice { call, notice },
            Record::Closed { call } => {
                let Some(stats) = lock(&self.roster).forget(call) else { return };
                MediaEvent::Closed { call, stats: Box::new(stats) }
            }
            Record::Audio { .. } => return,
        };
        batch.events.push(event);
    }

    /// Counters over all calls and threads. Reads atomics; never waits for a media thread.
    pub fn engine_stats(&self) -> MediaStats {
        let mut all = lock(&self.roster).stats();
        for Worker { clock, .. } in &self.workers {
            all.ticks += clock.ticks.get();
            all.late_ticks += clock.late_ticks.get();
            all.skipped_ticks += clock.skipped_ticks.get();
            all.max_lateness_us = all.max_lateness_us.max(clock.max_lateness_us.get());
        }
        let lateness = self.lateness();
        all.lateness_p50_us = lateness.quantile(0.5) / 1000;
        all.lateness_p99_us = lateness.quantile(0.99) / 1000;
        all.events_dropped = self.dropped.load(Ordering::Relaxed);
        all.recording_errors = self.records.errors.load(Ordering::Relaxed);
        all
    }

    /// How late the phases of all ticks began, ns.
    pub fn lateness(&self) -> Distribution {
        let mut all = Distribution::default();
        self.workers.iter().for_each(|w| w.clock.lateness.add_to(&mut all));
        all
    }

    /// From the wake-up of the phases of all ticks until their events were handed over, ns.
    pub fn worked(&self) -> Distribution {
        let mut all = Distribution::default();
        self.workers.iter().for_each(|w| w.clock.worked.add_to(&mut all));
        all
    }

    /// Counters of one call, `None` once its `Closed` event was drained.
    pub fn call_stats(&self, call: u64) -> Option<CallStats> {
        self.known(call).map(|known| known.counters.stats())
    }
}
