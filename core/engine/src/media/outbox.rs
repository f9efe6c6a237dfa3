// SPDX-License-Identifier: GPL-3.0-or-later
//! The media thread's side of the hand-over: lock-free rings of fixed size for events, their audio,
//! and buffers to be freed elsewhere. Nothing here waits; what does not fit is counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use rtrb::{Consumer, Producer, RingBuffer};

use super::playout::Entry;
use super::shard::Line;
use super::srtp::Update;
use crate::events::Notice;
use crate::record::End;
use crate::signal::background::Loop;
use crate::signal::listener::Refit;
use crate::transport::rtp::event::Key;

/// An event on its way, without heap memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    SpeechStarted { call: u64, at_ns: u64, decided_ns: u64 },
    Audio { call: u64, at_ns: u64, len: usize },
    SpeechEnded { call: u64, at_ns: u64, decided_ns: u64 },
    PlayoutStarted { call: u64, turn: u64, at_ns: u64 },
    PlayoutFinished { call: u64, turn: u64, samples: u64, at_ns: u64, interrupted: bool },
    MediaTimeout { call: u64, silent_ns: u64 },
    Dtmf { call: u64, key: Key, duration_ms: u32, at_ns: u64 },
    DtmfSent { call: u64, request: u64, sent: bool },
    Closed { call: u64 },
    Notice { call: Option<u64>, notice: Notice },
}

/// What is freed by another thread. The fields are never read: dropping them is the purpose.
#[derive(Debug)]
#[allow(dead_code, reason = "held only to be dropped elsewhere")]
pub(crate) enum Garbage {
    Pcm(Vec<i16>),
    Background(Arc<Loop>),
    Queue(std::collections::VecDeque<Entry>),
    Line(Box<Line>),
    Keys(Box<Update>),
    Refit(Box<Refit>),
    End(End),
}

/// Who has to be woken for what was told since the last wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    Nothing,
    /// Audio: a wake-up a tick, for all calls, is soon enough.
    Audio,
    /// Anything else: at once.
    Urgent,
}

/// Buffers that may wait to be freed without anybody being woken for it.
const PILE: usize = 64;

/// Producer ends, owned by the media thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    events: Producer<Record>,
    audio: Producer<u8>,
    garbage: Arc<ArrayQueue<Garbage>>,
    /// Event places that only the last event of a call may take.
    reserve: usize,
    dropped_total: Arc<AtomicU64>,
    dropped: u64,
    waits: Waits,
}

/// Consumer ends.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) events: Consumer<Record>,
    pub(crate) audio: Consumer<u8>,
}

/// Rings for `calls` calls.
pub(crate) fn rings(
    calls: usize,
    garbage: Arc<ArrayQueue<Garbage>>,
    dropped_total: Arc<AtomicU64>,
) -> (Outbox, Inbox) {
    let reserve = calls + 16;
    // Two seconds of a frozen consumer while a third of the callers talk.
    let (events, events_in) = RingBuffer::new(reserve + 4096 + calls * 40);
    let (audio, audio_in) = RingBuffer::new((1 << 20) + calls * 12_000);
    let outbox = Outbox {
        events,
        audio,
        garbage,
        reserve,
        dropped_total,
        dropped: 0,
        waits: Waits::Nothing,
    };
    (outbox, Inbox { events: events_in, audio: audio_in })
}

impl Outbox {
    /// Tells an event, or counts it as dropped.
    pub(crate) fn tell(&mut self, record: Record) {
        self.push(record, Waits::Urgent);
    }

    fn push(&mut self, record: Record, waits: Waits) {
        self.tell_dropped();
        if self.events.slots() <= self.reserve || self.events.push(record).is_err() {
            self.note_drop();
            return;
        }
        self.waits = self.waits.max(waits);
    }

    /// Tells the end of a call. False if even the reserved places are taken: try again.
    pub(crate) fn tell_closed(&mut self, call: u64) -> bool {
        self.waits = Waits::Urgent;
        self.events.push(Record::Closed { call }).is_ok()
    }

    /// Tells caller audio made of two pieces of samples.
    pub(crate) fn tell_audio(&mut self, call: u64, at_ns: u64, pieces: (&[i16], &[i16])) {
        let len = (pieces.0.len() + pieces.1.len()) * 2;
        if self.events.slots() <= self.reserve {
            self.note_drop();
            return;
        }
        let Ok(chunk) = self.audio.write_chunk_uninit(len) else {
            self.note_drop();
            return;
        };
        let samples = pieces.0.iter().chain(pieces.1);
        chunk.fill_from_iter(samples.flat_map(|s| s.to_le_bytes()));
        self.push(Record::Audio { call, at_ns, len }, Waits::Audio);
    }

    /// Hands a buffer to whoever frees it. An application that has nothing to fetch is woken for
    /// it now and then: what was played would pile up.
    pub(crate) fn discard(&mut self, garbage: Garbage) {
        // A full queue means nobody frees: then it is freed here, late rather than never.
        drop(self.garbage.push(garbage));
        if self.garbage.len() >= PILE {
            self.waits = Waits::Urgent;
        }
    }

    /// Whether the consumer is to be woken now; it is then taken to be. Audio alone waits until
    /// `all` have told theirs.
    pub(crate) fn take_due(&mut self, all: bool) -> bool {
        let due = self.waits == Waits::Urgent || (all && self.waits == Waits::Audio);
        if due {
            self.waits = Waits::Nothing;
        }
        due
    }

    fn note_drop(&mut self) {
        self.dropped += 1;
        self.dropped_total.fetch_add(1, Relaxed);
        self.waits = Waits::Urgent;
    }

    fn tell_dropped(&mut self) {
        if self.dropped == 0 || self.events.slots() <= self.reserve + 1 {
            return;
        }
        let notice = Notice::EventsDropped { count: self.dropped };
        if self.events.push(Record::Notice { call: None, notice }).is_ok() {
            self.dropped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_alone_waits_for_the_last_phase_and_a_decision_for_nobody() {
        let (mut out, _inbox) = rings(4, Arc::new(ArrayQueue::new(4)), Arc::default());
        assert!(!out.take_due(true));
        out.tell_audio(1, 5, (&[1; 160], &[]));
        assert!(!out.take_due(false) && out.take_due(true) && !out.take_due(true));
        out.tell_audio(1, 6, (&[1; 160], &[]));
        out.tell(Record::SpeechEnded { call: 1, at_ns: 6, decided_ns: 7 });
        out.tell_audio(2, 6, (&[1; 160], &[]));
        assert!(out.take_due(false) && !out.take_due(true), "one wake-up tells all of it");
        assert!(out.tell_closed(1) && out.take_due(false));
    }
}
