// SPDX-License-Identifier: GPL-3.0-or-later
//! One call on virtual time, with a peer behind a network of seeded impairments.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::media::call::Call;
use crate::media::counters::CallCounters;
use crate::media::flow::Port;
use crate::media::g711::{self, Law};
use crate::media::outbox::{rings, Inbox, Outbox, Record};
use crate::media::playout::{Level, Playout};
use crate::media::voice::{Voice, FIRST_ROOM};
use crate::media::{
    CallStats, Codec, Coding, MediaConfig, MediaError, MediaParams, FRAME, TICK_NS,
};
use crate::transport::rtp::packet::RtpPacket;
use crate::transport::rtp::session::Identity;

pub(super) const MS: u64 = 1_000_000;
pub(super) const PEER: ([u8; 4], u16) = ([127, 0, 0, 2], 4000);
const START_NS: u64 = 5_000_000_000_000;

/// A small generator, the same on every machine.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the network does to packets.
#[derive(Clone, Copy, Default)]
pub(super) struct Net {
    pub(super) loss_percent: u64,
    pub(super) duplicate_percent: u64,
    pub(super) jitter_ms: u64,
    /// Packets held back by this much now and then, so that others overtake them.
    pub(super) reorder_percent: u64,
    pub(super) reorder_ms: u64,
}

pub(super) fn params(ptime_ms: u8, codec: Codec) -> MediaParams {
    MediaParams {
        telephone_event: Some(101),
        rx_telephone_event: Some(101),
        ptime_ms,
        ..MediaParams::plain(codec, payload_type(codec), SocketAddr::from(PEER))
    }
}

fn payload_type(codec: Codec) -> u8 {
    match codec {
        Codec::Pcma => 8,
        Codec::Pcmu => 0,
        Codec::G722 => 9,
    }
}

fn law(codec: Codec) -> Law {
    codec.law().unwrap_or(Law::A)
}

/// The signal every peer sends: a tone of 400 Hz whose level swells, exact after A-law.
pub(super) fn signal(at: i64) -> i16 {
    let t = at as f64;
    let level = 6000.0 + 2500.0 * (t * std::f64::consts::TAU / 24_000.0).sin();
    let v = ((t * std::f64::consts::TAU / 20.0).sin() * level) as i16;
    g711::decode_one(Law::A, g711::encode_one(Law::A, v))
}

/// The peer's sending side.
pub(super) struct Peer {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    pub(super) codec: Codec,
    /// Samples sent so far: position in the signal.
    pub(super) at: i64,
    pub(super) lost: u64,
    pub(super) sent: u64,
}

impl Default for Peer {
    fn default() -> Self {
        let (sequence, timestamp) = (65_000, u32::MAX - 30_000);
        Peer { ssrc: 77, sequence, timestamp, codec: Codec::Pcma, at: 0, lost: 0, sent: 0 }
    }
}

impl Peer {
    /// The next packet, of `samples`.
    pub(super) fn packet(&mut self, samples: usize) -> Vec<u8> {
        let mut data = RtpPacket {
            marker: false,
            payload_type: payload_type(self.codec),
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.ssrc,
            payload: &[],
        }
        .header()
        .to_vec();
        for i in 0..samples as i64 {
            data.push(g711::encode_one(law(self.codec), signal(self.at + i)));
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(samples as u32);
        self.at += samples as i64;
        self.sent += 1;
        data
    }
}

pub(super) struct Rig {
    pub(super) call: Call,
    pub(super) now: u64,
    pub(super) voice: Voice,
    pub(super) heard: Vec<i16>,
    pub(super) sent: Vec<(u64, SocketAddr, Vec<u8>)>,
    pub(super) events: Vec<Record>,
    pub(super) audio: Vec<u8>,
    /// Probability of the next windows.
    pub(super) probability: f32,
    counters: Arc<CallCounters>,
    out: Outbox,
    inbox: Inbox,
    garbage: Arc<ArrayQueue<crate::media::outbox::Garbage>>,
    wire: Vec<(u64, SocketAddr, Vec<u8>)>,
    random: Random,
}

impl Rig {
    pub(super) fn new(cfg: &MediaConfig, seed: u64) -> Rig {
        let level = Arc::new(Level::default());
        let garbage = Arc::new(ArrayQueue::new(4096));
        let (out, inbox) = rings(4, Arc::clone(&garbage), Arc::new(AtomicU64::new(0)));
        let counters = Arc::new(CallCounters::default());
        let playout = Playout::new(1, VecDeque::with_capacity(FIRST_ROOM), Arc::clone(&level));
        let identity = Identity::from_random(&[9; 32]);
        let mut call = Call::new(1, cfg, identity, playout, None, Arc::clone(&counters));
        call.answered();
        Rig {
            call,
            now: START_NS,
            voice: Voice::new(1, cfg.playout_max_s, level),
            heard: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
            audio: Vec::new(),
            probability: 0.0,
            counters,
            out,
            inbox,
            garbage,
            wire: Vec::new(),
            random: Random::new(seed),
        }
    }

    /// A call with default settings whose media flows.
    pub(super) fn flowing(seed: u64) -> Rig {
        let mut rig = Rig::new(&MediaConfig::default(), seed);
        rig.set_media(params(20, Codec::Pcma));
        rig
    }

    pub(super) fn set_media(&mut self, params: MediaParams) {
        let line = self.voice.rate().unwrap_or(params.codec.rate());
        self.counters.set_codec(params.codec);
        self.counters.rate.set(u64::from(line.hz()));
        self.call.set_media(params, line, self.now);
        for push in self.voice.set_rate(line) {
            self.call.playout.push(push.entry, push.room, &mut self.out);
        }
    }

    /// Puts a datagram on the wire, to arrive at `at_ns`.
    pub(super) fn post(&mut self, at_ns: u64, source: SocketAddr, data: Vec<u8>) {
        self.wire.push((at_ns, source, data));
    }

    pub(super) fn tick(&mut self) {
        self.now += TICK_NS;
        let (now, sent) = (self.now, &mut self.sent);
        self.call.send(now, &mut self.out, &mut |port: Port, to, data: &[u8]| {
            if port == Port::Rtp {
                sent.push((now, to, data.to_vec()));
            }
            true
        });
        self.wire.sort_by_key(|(at, _, _)| *at);
        while self.wire.first().is_some_and(|(at, _, _)| *at <= now) {
            let (_, source, data) = self.wire.remove(0);
            self.call.on_rtp(now, source, &data);
        }
        if self.call.receive(now, &mut self.out).is_some() {
            self.call.on_probability(self.probability, now, &mut self.out);
        }
        self.call.finish_tick(&mut self.out);
        self.heard.extend_from_slice(self.call.caller_frame());
        while let Ok(r) = self.inbox.events.pop() {
            if let Record::Audio { len, .. } = r {
                for _ in 0..len {
                    self.audio.push(self.inbox.audio.pop().unwrap());
                }
            }
            self.events.push(r);
        }
        while self.garbage.pop().is_some() {}
    }

    pub(super) fn ticks(&mut self, n: usize) {
        (0..n).for_each(|_| self.tick());
    }

    /// `n` ticks in which `peer` sends 20 ms packets through `net`.
    pub(super) fn talk(&mut self, peer: &mut Peer, net: Net, n: usize) {
        for _ in 0..n {
            let data = peer.packet(FRAME);
            self.post_through(peer, net, data);
            self.tick();
        }
    }

    /// Sends one packet 5 ms before the next tick, through `net`.
    pub(super) fn post_through(&mut self, peer: &mut Peer, net: Net, data: Vec<u8>) {
        if self.random.chance(net.loss_percent) {
            peer.lost += 1;
            return;
        }
        let mut at = self.now + 15 * MS + self.random.below(net.jitter_ms * MS + 1);
        if self.random.chance(net.reorder_percent) {
            at += net.reorder_ms * MS;
        }
        if self.random.chance(net.duplicate_percent) {
            let again = at + self.random.below(30) * MS;
            self.post(again, SocketAddr::from(PEER), data.clone());
        }
        self.post(at, SocketAddr::from(PEER), data);
    }

    pub(super) fn play(&mut self, pcm: &[i16], rate: u32, turn: u64) -> Result<(), MediaError> {
        let bytes: Vec<u8> = pcm.iter().flat_map(|s| s.to_le_bytes()).collect();
        self.play_bytes(&bytes, rate, turn)
    }

    pub(super) fn play_bytes(
        &mut self,
        pcm: &[u8],
        rate: u32,
        turn: u64,
    ) -> Result<(), MediaError> {
        if let Some(p) = self.voice.play(pcm, rate, turn)? {
            self.call.playout.push(p.entry, p.room, &mut self.out);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, turn: u64) {
        for p in self.voice.finish(turn) {
            self.call.playout.push(p.entry, p.room, &mut self.out);
        }
    }

    pub(super) fn clear(&mut self, turn: Option<u64>) {
        let spare = self.voice.clear(turn);
        self.call.playout.clear(turn, spare, self.now + TICK_NS, &mut self.out);
    }

    pub(super) fn send_keys(&mut self, keys: crate::media::dtmf::Keys) {
        self.call.send_keys(keys, &mut self.out);
    }

    /// The call ends.
    pub(super) fn close(&mut self) {
        let (now, sent) = (self.now, &mut self.sent);
        self.call.close(now, &mut self.out, &mut |port: Port, to, data: &[u8]| {
            if port == Port::Rtp {
                sent.push((now, to, data.to_vec()));
            }
            true
        });
        while let Ok(r) = self.inbox.events.pop() {
            self.events.push(r);
        }
    }

    pub(super) fn stats(&self) -> CallStats {
        self.counters.stats()
    }

    /// Audio sent so far, decoded.
    pub(super) fn sent_pcm(&self) -> Vec<i16> {
        let mut pcm = Vec::new();
        for (_, _, data) in &self.sent {
            let p = RtpPacket::parse(data).unwrap();
            let law = if p.payload_type == 8 { Law::A } else { Law::Mu };
            pcm.extend(p.payload.iter().map(|b| g711::decode_one(law, *b)));
        }
        pcm
    }
}

/// Longest run of silence within `pcm`, in samples.
pub(super) fn longest_silence(pcm: &[i16]) -> usize {
    let (mut run, mut longest) = (0, 0);
    for s in pcm {
        run = if s.unsigned_abs() <= 8 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

pub(super) fn largest_step(pcm: &[i16]) -> i32 {
    pcm.windows(2).map(|w| (i32::from(w[1]) - i32::from(w[0])).abs()).max().unwrap_or(0)
}

/// Whether `pcm` is the signal from `at` on.
pub(super) fn is_signal(pcm: &[i16], at: i64) -> bool {
    pcm.iter().enumerate().all(|(i, s)| *s == signal(at + i as i64))
}
