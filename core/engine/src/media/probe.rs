// SPDX-License-Identifier: GPL-3.0-or-later
//! A shard driven from outside, part by part, for the benchmark only.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use pjsip_sys::sdes::{MasterKey, SrtpKeys, Suite};

use super::call::Call;
use super::counters::CallCounters;
use super::outbox::{rings, Garbage, Inbox};
use super::playout::{Entry, Level, Playout};
use super::roster::PHASES;
use super::shard::{take, Command, Line, Polls, Shard};
use super::srtp::Update;
use super::voice::{Push, FIRST_ROOM};
use super::waker::Waker;
use super::{Codec, Coding, MediaConfig, MediaParams, RtpSockets, TICK_NS};
use crate::transport::rtp::session::Identity;

/// Parts of a tick, in order.
pub const PARTS: [&str; 5] =
    ["play-out, encode, send", "receive", "jitter buffer, decode", "voice activity", "hand-over"];

/// Calls in pairs on loopback: what one sends the other receives.
pub struct Probe {
    shard: Shard,
    commands: Arc<ArrayQueue<Command>>,
    /// Until somebody else reads it.
    inbox: Option<Inbox>,
    waker: Arc<Waker>,
    addresses: Vec<SocketAddr>,
    garbage: Arc<ArrayQueue<Garbage>>,
    counters: Vec<Arc<CallCounters>>,
    now_ns: u64,
}

impl Probe {
    /// `calls` (an even number) that all play `pcm`, G.711 A-law, 20 ms packets.
    ///
    /// # Errors
    /// The system's error when sockets are refused.
    pub fn new(calls: usize, pcm: &[i16]) -> io::Result<Probe> {
        Probe::with_codec(calls, Codec::Pcma, pcm)
    }

    /// The same with another codec; `pcm` has its rate.
    ///
    /// # Errors
    /// The system's error when sockets are refused.
    pub fn with_codec(calls: usize, codec: Codec, pcm: &[i16]) -> io::Result<Probe> {
        Probe::with_config(calls, codec, &MediaConfig::default(), |_| pcm.to_vec())
    }

    /// The same with other settings, each call playing what `pcm` has for its number.
    ///
    /// # Errors
    /// The system's error when sockets are refused.
    pub fn with_config(
        calls: usize,
        codec: Codec,
        cfg: &MediaConfig,
        pcm: impl Fn(usize) -> Vec<i16>,
    ) -> io::Result<Probe> {
        let commands = Arc::new(ArrayQueue::new(calls * 4));
        let garbage = Arc::new(ArrayQueue::new(calls * 8));
        let (out, inbox) = rings(calls, Arc::clone(&garbage), Arc::new(AtomicU64::new(0)));
        let waker = Arc::new(Waker::new()?);
        let polls = Polls::new()?;
        let mut shard =
            Shard::new(0, calls, true, Arc::clone(&commands), out, Arc::clone(&waker), polls);
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for _ in 0..calls {
            let s = RtpSockets::open(IpAddr::V4(Ipv4Addr::LOCALHOST), (20_000, 29_999))?;
            addresses.push(s.rtp_addr()?);
            sockets.push(s);
        }
        let mut counters = Vec::new();
        for (place, sockets) in sockets.into_iter().enumerate() {
            let call = place as u64;
            let level = Arc::new(Level::default());
            let playout = Playout::new(call, VecDeque::with_capacity(FIRST_ROOM), level.clone());
            let identity = Identity::from_random(&[place as u8; 32]);
            let c = Arc::new(CallCounters::default());
            let media = Call::new(call, cfg, identity, playout, None, Arc::clone(&c));
            counters.push(c);
            let params = MediaParams::plain(
                codec,
                if codec == Codec::G722 { 9 } else { 8 },
                addresses.get(place ^ 1).copied().unwrap_or(([127, 0, 0, 1], 9).into()),
            );
            let pcm = pcm(place);
            level.samples.fetch_add(pcm.len() as u64, std::sync::atomic::Ordering::Relaxed);
            level.entries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let push = Push { entry: Entry::Audio { turn: 1, pcm }, room: None };
            let line = Box::new(Line::new(media, sockets));
            let sound = cfg.background.as_ref().map(|b| b.of(codec.rate()));
            let sound = sound.map(|s| (Arc::clone(&s), s.start(call)));
            for command in [
                Command::Add { place, phase: place / 2 % PHASES, line },
                Command::SetMedia { place, call, params, line: codec.rate() },
                Command::Background { place, call, sound },
                Command::Play { place, call, push },
            ] {
                if commands.push(command).is_err() {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
        }
        shard.take_commands(TICK_NS);
        let inbox = Some(inbox);
        Ok(Probe { shard, commands, inbox, waker, addresses, garbage, counters, now_ns: TICK_NS })
    }

    /// Encrypts all calls.
    ///
    /// # Errors
    /// When they are more than commands fit.
    pub fn encrypt(&mut self, suite: Suite) -> io::Result<()> {
        for place in 0..self.counters.len() {
            let key = |place: usize| MasterKey::from_random(suite, &[place as u8; 46]);
            let keys = SrtpKeys { local: key(place), remote: key(place ^ 1), remote_mki: None };
            let Ok(Some(update)) = Update::between(None, Some(&keys)) else { continue };
            let (call, update) = (place as u64, Box::new(update));
            if self.commands.push(Command::SetSrtp { place, call, update }).is_err() {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        self.shard.take_commands(self.now_ns);
        self.forget();
        Ok(())
    }

    /// One tick; `clock` is read between the parts. Gives what it showed for each of [`PARTS`].
    pub fn tick(&mut self, clock: impl Fn() -> u64) -> [u64; PARTS.len()] {
        let mut parts = [0; PARTS.len()];
        for phase in 0..PHASES {
            self.now_ns += TICK_NS / PHASES as u64;
            let now = self.now_ns;
            let start = clock();
            self.shard.send(phase, now);
            let sent = clock();
            self.shard.receive(phase, now);
            let received = clock();
            self.shard.decode(phase, now);
            let decoded = clock();
            self.shard.judge(now);
            let judged = clock();
            self.shard.finish(phase);
            let ends = [sent, received, decoded, judged, clock()];
            let begins = [start, sent, received, decoded, judged];
            for (part, (begin, end)) in parts.iter_mut().zip(begins.iter().zip(ends)) {
                *part += end - begin;
            }
        }
        self.forget();
        parts
    }

    /// The speaking half of a tick, without the system's part: play-out, mixing and encoding of all calls, in units of
    /// `clock`. The datagrams are thrown away.
    pub fn speak(&mut self, clock: impl Fn() -> u64) -> u64 {
        let begin = clock();
        for phase in 0..PHASES {
            self.now_ns += TICK_NS / PHASES as u64;
            self.shard.send_with(phase, self.now_ns, |_, _, _, _, _| true);
        }
        let took = clock() - begin;
        self.forget();
        took
    }

    /// What its calls tell, for another thread, and what wakes that one.
    pub(super) fn take_inbox(&mut self) -> Option<(Inbox, Arc<Waker>)> {
        Some((self.inbox.take()?, Arc::clone(&self.waker)))
    }

    /// The hearing half of a phase at `now_ns`, without the system's part: `packet` writes each call's RTP datagram and
    /// says how long it is. `clock` is read between receiving, decoding, voice activity and hand-over.
    pub(super) fn hear(
        &mut self,
        phase: usize,
        now_ns: u64,
        mut packet: impl FnMut(usize, &mut [u8]) -> usize,
        clock: impl Fn() -> u64,
    ) -> [u64; 4] {
        let mut buf = [0; 512];
        let start = clock();
        for place in (0..self.addresses.len()).filter(|place| place / 2 % PHASES == phase) {
            let n = packet(place, &mut buf);
            let (source, data) = (self.addresses.get(place ^ 1), buf.get(..n));
            if let (Some(source), Some(data)) = (source, data) {
                self.shard.hear(place, now_ns, *source, data);
            }
        }
        let received = clock();
        self.shard.decode(phase, now_ns);
        let decoded = clock();
        self.shard.judge(now_ns);
        let judged = clock();
        self.shard.finish(phase);
        self.forget();
        [received - start, decoded - received, judged - decoded, clock() - judged]
    }

    /// One tick in which it is timed, in units of `clock`, what each RTP datagram takes from when
    /// it was read until its payload is in the jitter buffer: of that, the hand-over from the RTP
    /// layer to the buffer, and all of it.
    pub fn tick_timed(&mut self, clock: impl Fn() -> u64, times: &mut Vec<(u64, u64)>) {
        for phase in 0..PHASES {
            self.now_ns += TICK_NS / PHASES as u64;
            let now = self.now_ns;
            self.shard.send(phase, now);
            self.shard.receive_with(phase, |line, rtcp, source, data| {
                if rtcp {
                    return take(line, rtcp, now, source, data);
                }
                let (begin, mut handed) = (clock(), 0);
                line.call.on_rtp_with(now, source, data, |jitter, arrival| {
                    let begin = clock();
                    jitter.insert(arrival);
                    handed = clock() - begin;
                });
                // Of it, two readings of the clock.
                times.push((handed, clock() - begin));
            });
            self.shard.decode(phase, now);
            self.shard.judge(now);
            self.shard.finish(phase);
        }
        self.forget();
    }

    fn forget(&mut self) {
        while self.garbage.pop().is_some() {}
        let Some(inbox) = &mut self.inbox else { return };
        while inbox.events.pop().is_ok() {}
        let n = inbox.audio.slots();
        if let Ok(chunk) = inbox.audio.read_chunk(n) {
            chunk.commit_all();
        }
    }

    /// Packets sent, received, lost; frames concealed; over all calls.
    pub fn totals(&self) -> [u64; 4] {
        self.counters.iter().map(|c| c.stats()).fold([0; 4], |t, s| {
            [t[0] + s.tx_packets, t[1] + s.rx_packets, t[2] + s.rx_lost, t[3] + s.concealed_frames]
        })
    }
}
