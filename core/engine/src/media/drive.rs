// SPDX-License-Identifier: GPL-3.0-or-later
//! One call driven from outside, without threads, sockets or clock: for fuzzing only.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::call::Call;
use super::counters::CallCounters;
use super::dtmf::Keys;
use super::flow::Port;
use super::outbox::{rings, Garbage, Inbox, Outbox, Record};
use super::playout::{Level, Playout};
use super::voice::{Voice, FIRST_ROOM};
use super::{CallStats, Coding, MediaConfig, MediaParams, TICK_NS};
use crate::transport::rtp::session::Identity;

const START_NS: u64 = 5_000_000_000_000;

/// The rings of a media thread with one call at a time.
pub struct Driver {
    call: Call,
    voice: Voice,
    counters: Arc<CallCounters>,
    out: Outbox,
    inbox: Inbox,
    garbage: Arc<ArrayQueue<Garbage>>,
    now_ns: u64,
}

impl Driver {
    /// A call before its first SDP.
    pub fn new(cfg: &MediaConfig) -> Driver {
        let garbage = Arc::new(ArrayQueue::new(4096));
        let (out, inbox) = rings(1, Arc::clone(&garbage), Arc::new(AtomicU64::new(0)));
        let (call, voice, counters) = begin(cfg);
        Driver { call, voice, counters, out, inbox, garbage, now_ns: START_NS }
    }

    /// Another call in the same rings.
    pub fn restart(&mut self, cfg: &MediaConfig) {
        self.drain();
        (self.call, self.voice, self.counters) = begin(cfg);
        self.now_ns = START_NS;
    }

    /// Outcome of an offer/answer exchange.
    pub fn set_media(&mut self, params: MediaParams) {
        let line = self.voice.rate().unwrap_or(params.codec.rate());
        self.call.set_media(params, line, self.now_ns);
        for push in self.voice.set_rate(line) {
            self.call.playout.push(push.entry, push.room, &mut self.out);
        }
    }

    /// The call is answered.
    pub fn answered(&mut self) {
        self.call.answered();
    }

    /// Keys to send.
    pub fn send_keys(&mut self, text: &str, duration_ms: u32) {
        if let Some(keys) = Keys::new(1, text, duration_ms, 50) {
            self.call.send_keys(keys, &mut self.out);
        }
    }

    /// A datagram on the RTP port.
    pub fn on_rtp(&mut self, source: SocketAddr, data: &[u8]) {
        self.call.on_rtp(self.now_ns, source, data);
    }

    /// A datagram on the RTCP port.
    pub fn on_rtcp(&mut self, source: SocketAddr, data: &[u8]) {
        self.call.on_rtcp(self.now_ns, source, data);
    }

    /// One tick. `sent` gets each datagram, and whether it is RTCP; false refuses it.
    pub fn tick(
        &mut self,
        probability: f32,
        sent: &mut impl FnMut(bool, SocketAddr, &[u8]) -> bool,
    ) {
        self.now_ns += TICK_NS;
        let now = self.now_ns;
        self.call.send(now, &mut self.out, &mut |port: Port, to, data: &[u8]| {
            sent(port == Port::Rtcp, to, data)
        });
        if self.call.receive(now, &mut self.out).is_some() {
            self.call.on_probability(probability, now, &mut self.out);
        }
        self.call.finish_tick(&mut self.out);
    }

    /// Ticks given up.
    pub fn skip(&mut self, ticks: u64) {
        self.now_ns += ticks * TICK_NS;
        self.call.skip(ticks);
    }

    /// The application plays.
    pub fn play(&mut self, pcm: &[u8], rate: u32, turn: u64) {
        if let Ok(Some(push)) = self.voice.play(pcm, rate, turn) {
            self.call.playout.push(push.entry, push.room, &mut self.out);
        }
    }

    /// The application has played all of a turn.
    pub fn finish(&mut self, turn: u64) {
        for push in self.voice.finish(turn) {
            self.call.playout.push(push.entry, push.room, &mut self.out);
        }
    }

    /// The application takes a turn, or all of them, back.
    pub fn clear(&mut self, turn: Option<u64>) {
        let spare = self.voice.clear(turn);
        self.call.playout.clear(turn, spare, self.now_ns + TICK_NS, &mut self.out);
    }

    /// The call ends.
    pub fn close(&mut self, sent: &mut impl FnMut(bool, SocketAddr, &[u8]) -> bool) {
        self.call.close(self.now_ns, &mut self.out, &mut |port: Port, to, data: &[u8]| {
            sent(port == Port::Rtcp, to, data)
        });
    }

    /// What the application does with the hand-over. Gives how many bytes of audio there were.
    pub fn drain(&mut self) -> usize {
        let mut bytes = 0;
        while let Ok(record) = self.inbox.events.pop() {
            if let Record::Audio { len, .. } = record {
                bytes += len;
            }
        }
        if let Ok(chunk) = self.inbox.audio.read_chunk(self.inbox.audio.slots()) {
            chunk.commit_all();
        }
        while self.garbage.pop().is_some() {}
        bytes
    }

    /// Counters as the last tick left them.
    pub fn stats(&self) -> CallStats {
        self.counters.stats()
    }
}

fn begin(cfg: &MediaConfig) -> (Call, Voice, Arc<CallCounters>) {
    let level = Arc::new(Level::default());
    let counters = Arc::new(CallCounters::default());
    let playout = Playout::new(1, VecDeque::with_capacity(FIRST_ROOM), Arc::clone(&level));
    let identity = Identity::from_random(&[9; 32]);
    let call = Call::new(1, cfg, identity, playout, None, Arc::clone(&counters));
    (call, Voice::new(1, cfg.playout_max_s, level), counters)
}
