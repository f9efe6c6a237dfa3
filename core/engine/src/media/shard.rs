// SPDX-License-Identifier: GPL-3.0-or-later
//! A media shard: the calls of one thread, their sockets, and what is done with them in a tick.
//!
//! Each call belongs to one of the tick's phases. Order within a phase: commands, sending (so that
//! our packets leave evenly), receiving, voice activity over all its calls at once, hand-over, and
//! at most one wake-up: for decisions at once, for audio alone after the last phase.

mod commands;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use rustix::event::epoll;
use rustix::event::Timespec;

pub(crate) use commands::Command;

use super::call::Call;
use super::dtmf::Keys;
use super::farewell::Farewells;
use super::flow::Port;
use super::listening::Listening;
use super::outbox::{Garbage, Outbox, Record};
use super::playout::Entry;
use super::roster::PHASES;
use super::srtp::{Guard, Update};
use super::voice::Push;
use super::waker::Waker;
use super::{MediaParams, Rate};
use crate::events::Notice;
use crate::signal::background::Loop;
use crate::signal::listener::Refit;
use crate::signal::vad::stock::Stock;
use crate::transport::sockets::canonical;
use crate::transport::RtpSockets;

/// Rounds of reading in a tick; each takes at most one datagram from each socket. More than any
/// honest peer sends, and what bounds a flood: the rest waits in its own socket's buffer.
const ROUNDS: usize = 16;
/// Larger datagrams than Ethernet carries are no media.
const DATAGRAM: usize = 2048;

/// A call with its sockets.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) call: Call,
    pub(crate) sockets: RtpSockets,
    srtp: Guard,
}

impl Line {
    /// With plain RTP until [`Command::SetSrtp`].
    pub(crate) fn new(call: Call, sockets: RtpSockets) -> Line {
        let srtp = Guard::new(Arc::clone(call.counters()));
        Line { call, sockets, srtp }
    }
}

/// What the sockets of each phase are looked for with.
#[derive(Debug)]
pub(crate) struct Polls([OwnedFd; PHASES]);

impl Polls {
    pub(crate) fn new() -> io::Result<Polls> {
        let one = || epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Polls([one()?, one()?, one()?, one()?]))
    }
}

/// A phase's calls.
struct Phase {
    epoll: OwnedFd,
    /// Their places.
    active: Vec<usize>,
}

/// The shard.
pub(crate) struct Shard {
    number: usize,
    commands: Arc<ArrayQueue<Command>>,
    out: Outbox,
    waker: Arc<Waker>,
    ready: Vec<epoll::Event>,
    /// By place. A place keeps its call from add to remove.
    lines: Vec<Option<Box<Line>>>,
    /// By place: the phase of its call.
    phase_of: Vec<usize>,
    phases: [Phase; PHASES],
    listening: Listening,
    /// Ends that found no room in the event ring.
    unsaid: Vec<u64>,
    /// Recorded calls that have left.
    farewells: Farewells,
}

impl Shard {
    pub(crate) fn new(
        number: usize,
        places: usize,
        wideband: bool,
        commands: Arc<ArrayQueue<Command>>,
        out: Outbox,
        waker: Arc<Waker>,
        polls: Polls,
    ) -> Shard {
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let phase = |epoll| Phase { epoll, active: Vec::with_capacity(places) };
        Shard {
            number,
            commands,
            out,
            waker,
            ready: vec![none; places * 2],
            lines: (0..places).map(|_| None).collect(),
            phase_of: vec![0; places],
            phases: polls.0.map(phase),
            listening: Listening::new(places, wideband),
            unsaid: Vec::with_capacity(places),
            farewells: Farewells::new(places),
        }
    }

    /// Has the stock model run voice activity, from before the first call on. A tick allocates then.
    pub(crate) fn use_stock(&mut self, sessions: Vec<Stock>) {
        for stock in sessions {
            self.listening.use_stock(stock);
        }
    }

    /// Tells an operator something about the thread itself.
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.out.tell(Record::Notice { call: None, notice });
    }

    /// Ticks were given up: every call's clocks run on.
    pub(crate) fn skip(&mut self, ticks: u64) {
        self.notice(Notice::TicksSkipped { shard: self.number, count: ticks });
        for line in self.lines.iter_mut().flatten() {
            line.call.skip(ticks);
        }
    }

    /// A phase of a tick. The same calls come again 20 ms later.
    pub(crate) fn tick(&mut self, phase: usize, now_ns: u64) {
        self.take_commands(now_ns);
        self.farewells.poll(now_ns, &mut self.unsaid, &mut self.out);
        self.send(phase, now_ns);
        self.receive(phase, now_ns);
        self.decode(phase, now_ns);
        self.judge(now_ns);
        self.finish(phase);
    }

    pub(crate) fn send(&mut self, phase: usize, now_ns: u64) {
        self.send_with(phase, now_ns, |srtp, sockets, port, to, data| {
            srtp.send(sockets, port, to, data)
        });
    }

    /// Gives each of the phase's datagrams to `on`, which says whether it was sent.
    #[inline]
    pub(crate) fn send_with(
        &mut self,
        phase: usize,
        now_ns: u64,
        mut on: impl FnMut(&mut Guard, &RtpSockets, Port, SocketAddr, &[u8]) -> bool,
    ) {
        let Some(phase) = self.phases.get(phase) else { return };
        for (i, place) in phase.active.iter().enumerate() {
            let next = phase.active.get(i + 1).and_then(|p| self.lines.get(*p)?.as_deref());
            next.inspect(|line| line.call.prefetch_send());
            let Some(Some(line)) = self.lines.get_mut(*place) else { continue };
            let Line { call, sockets, srtp } = &mut **line;
            call.send(now_ns, &mut self.out, &mut |port, to, data: &[u8]| {
                on(srtp, sockets, port, to, data)
            });
        }
    }

    pub(crate) fn receive(&mut self, phase: usize, now_ns: u64) {
        self.receive_with(phase, |line, rtcp, source, data| take(line, rtcp, now_ns, source, data));
    }

    /// Reads what has come for the phase's calls and gives each datagram to `on`.
    pub(crate) fn receive_with(
        &mut self,
        phase: usize,
        mut on: impl FnMut(&mut Line, bool, SocketAddr, &[u8]),
    ) {
        let Some(phase) = self.phases.get(phase) else { return };
        let mut buf = [0u8; DATAGRAM];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        for _ in 0..ROUNDS {
            let ready = epoll::wait(&phase.epoll, &mut self.ready[..], Some(&at_once));
            let Ok(n @ 1..) = ready else { break };
            let ready = self.ready.get(..n).unwrap_or(&[]);
            // Memory of the calls after this one comes while this one's socket is read.
            let call = |lines: &[Option<Box<Line>>], i: usize, ask: fn(&Call)| {
                let place = ready.get(i).map(|e| (e.data.u64() >> 1) as usize);
                let line = place.and_then(|p| lines.get(p)?.as_deref());
                line.inspect(|line| ask(&line.call));
            };
            call(&self.lines, 0, Call::prefetch);
            call(&self.lines, 1, Call::prefetch);
            call(&self.lines, 0, Call::expect);
            for (i, event) in ready.iter().enumerate() {
                call(&self.lines, i + 2, Call::prefetch);
                call(&self.lines, i + 1, Call::expect);
                let data = event.data.u64();
                let Some(Some(line)) = self.lines.get_mut((data >> 1) as usize) else { continue };
                let rtcp = data & 1 == 1;
                let socket = if rtcp { line.sockets.rtcp() } else { line.sockets.rtp() };
                // Readable may also mean an error the peer's host sent (ICMP); reading it clears it.
                let Ok((n, source)) = socket.recv_from(&mut buf) else { continue };
                let port = if rtcp { Port::Rtcp } else { Port::Rtp };
                let Some(n) = line.srtp.open(port, &mut buf, n) else { continue };
                on(line, rtcp, canonical(source), buf.get(..n).unwrap_or(&[]));
            }
        }
    }

    /// Gives the call at `place` an RTP datagram that no socket had.
    pub(crate) fn hear(&mut self, place: usize, now_ns: u64, source: SocketAddr, data: &[u8]) {
        if let Some(Some(line)) = self.lines.get_mut(place) {
            take(line, false, now_ns, source, data);
        }
    }

    pub(crate) fn decode(&mut self, phase: usize, now_ns: u64) {
        let Some(phase) = self.phases.get(phase) else { return };
        for (i, place) in phase.active.iter().enumerate() {
            let next = phase.active.get(i + 1).and_then(|p| self.lines.get(*p)?.as_deref());
            next.inspect(|line| line.call.prefetch_receive());
            let Some(Some(line)) = self.lines.get_mut(*place) else { continue };
            let (slot, rate) = (line.call.slot, line.call.rate());
            let window = line.call.receive(now_ns, &mut self.out);
            if let (Some(window), Some(slot), Some(rate)) = (window, slot, rate) {
                self.listening.push(*place, rate, slot, window);
            }
        }
    }

    pub(crate) fn judge(&mut self, now_ns: u64) {
        let Shard { listening, lines, out, .. } = self;
        listening.run(|place, slot, probability| {
            let Some(Some(line)) = lines.get_mut(place) else { return };
            debug_assert_eq!(line.call.slot, Some(slot));
            line.call.on_probability(probability, now_ns, out);
        });
    }

    pub(crate) fn finish(&mut self, phase: usize) {
        for place in self.phases.get(phase).map_or(&[][..], |p| &p.active) {
            if let Some(Some(line)) = self.lines.get_mut(*place) {
                line.call.finish_tick(&mut self.out);
            }
        }
        // Audio that no decision comes with is fetched once a tick, after the last phase with calls: being woken costs the
        // application the same for few calls as for many. Without calls any phase serves.
        let later = self.phases.get(phase + 1..).unwrap_or(&[]);
        self.hand_over(later.iter().all(|p| p.active.is_empty()));
    }

    fn hand_over(&mut self, last: bool) {
        while let Some(call) = self.unsaid.last() {
            if !self.out.tell_closed(*call) {
                break;
            }
            self.unsaid.pop();
        }
        if self.out.take_due(last) {
            self.waker.wake();
        }
    }
}

/// Gives a datagram to its call.
pub(crate) fn take(line: &mut Line, rtcp: bool, now_ns: u64, source: SocketAddr, data: &[u8]) {
    if rtcp {
        line.call.on_rtcp(now_ns, source, data);
    } else {
        line.call.on_rtp(now_ns, source, data);
    }
}
