// SPDX-License-Identifier: GPL-3.0-or-later
//! Many calls' RTP, sent evenly and counted as it comes back.
//!
//! Reads lines on stdin: `mark` prints the counters and begins a new longest gap, `stop` ends the
//! calls, prints the counters and ends.

use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;

use pjsip_sys::sdes::{MasterKey, Suite};
use rustix::thread::{clock_nanosleep_absolute, ClockId, Timespec};
use voicecore_engine::media::g711::{self, Law};
use voicecore_engine::transport::srtp::Sender;

use crate::sip::{Heard, State, Uac, KEY};
use crate::{now_ns, pcm, Options, Outcome};

const FRAME: usize = 160;
const HEADER: usize = 12;
/// Tag that SRTP appends (RFC 3711 section 3.1).
const TAG: usize = 10;
/// Parts of a tick: in each a tenth of the calls sends.
const SLOTS: u64 = 10;
const SLOT_NS: u64 = 20_000_000 / SLOTS;
/// Calls that share a socket of ours.
const SHARING: usize = 32;

/// A call's RTP.
#[derive(Default)]
struct Stream {
    protect: Option<Sender>,
    to: Option<SocketAddr>,
    sequence: u16,
    timestamp: u32,
    at: usize,
    newest: Option<u16>,
    heard_ns: u64,
}

#[derive(Default)]
struct Counters {
    sent: u64,
    refused: u64,
    received: u64,
    lost: u64,
    strange: u64,
    gap_ns: u64,
    slots_late: u64,
}

struct Generator {
    uac: Uac,
    sockets: Vec<UdpSocket>,
    ports: Vec<u16>,
    streams: Vec<Stream>,
    /// Call by the port that its RTP comes from.
    by_port: Vec<u32>,
    voice: Vec<u8>,
    counters: Counters,
}

/// See the module.
pub fn run(options: &Options) -> Outcome<()> {
    let target: SocketAddr = options.text("target")?.parse()?;
    let calls = options.number("calls", 1)?;
    let rate = options.number("rate", 200)?;
    let samples = pcm(options.text("pcm")?)?;
    let mut voice = vec![0; samples.len()];
    g711::encode(Law::A, &samples, &mut voice);
    let mut g = Generator::new(target, calls, voice)?;
    if options.number("srtp", 0)? == 1 {
        g.protect();
    }
    let (tell, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    let mut placed = 0;
    let mut all_up = false;
    let begin = now_ns();
    for slot in 0u64.. {
        let due = begin + slot * SLOT_NS;
        sleep_until(due);
        if now_ns() > due + 4 * SLOT_NS {
            g.counters.slots_late += 1;
        }
        while placed < calls && (placed as u64) < slot * SLOT_NS * rate as u64 / 1_000_000_000 + 1 {
            let port = g.port(placed);
            g.uac.invite(placed, port)?;
            placed += 1;
        }
        g.send(slot)?;
        g.signalling(slot)?;
        g.receive()?;
        let (up, failed) = (g.uac.count(State::Up), g.uac.count(State::Failed));
        if !all_up && placed == calls && up + failed == calls {
            all_up = true;
            println!("up {up} {:.3}", (now_ns() - begin) as f64 / 1e9);
            io::stdout().flush()?;
        }
        match asked.try_recv().as_deref() {
            Ok("mark") => g.print()?,
            Ok("stop") => return g.stop(),
            Ok(other) => return Err(format!("unknown: {other}").into()),
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => return g.stop(),
        }
    }
    Ok(())
}

impl Generator {
    fn new(target: SocketAddr, calls: usize, voice: Vec<u8>) -> Outcome<Generator> {
        let mut sockets = Vec::new();
        let mut ports = Vec::new();
        for _ in 0..calls.div_ceil(SHARING) {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_nonblocking(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
            ports.push(socket.local_addr()?.port());
            sockets.push(socket);
        }
        let stream = |n: usize| Stream { at: n * 7919 * FRAME, ..Stream::default() };
        Ok(Generator {
            uac: Uac::new(target, calls)?,
            sockets,
            ports,
            streams: (0..calls).map(stream).collect(),
            by_port: vec![u32::MAX; 65536],
            voice,
            counters: Counters::default(),
        })
    }

    /// SRTP on all calls; what comes is counted by its header, which is in clear.
    fn protect(&mut self) {
        let mut random = [0; 46];
        random[..KEY.len()].copy_from_slice(KEY);
        self.uac.srtp = true;
        for stream in &mut self.streams {
            let key = MasterKey::from_random(Suite::AesCm128HmacSha1_80, &random);
            stream.protect = Sender::new(&key);
        }
    }

    fn port(&self, call: usize) -> u16 {
        self.ports[call / SHARING]
    }

    fn send(&mut self, slot: u64) -> Outcome<()> {
        let first = (slot % SLOTS) as usize;
        let mut packet = [0u8; HEADER + FRAME + TAG];
        for n in (first..self.streams.len()).step_by(SLOTS as usize) {
            let stream = &mut self.streams[n];
            let Some(to) = stream.to else { continue };
            packet[0] = 0x80;
            packet[1] = 8;
            packet[2..4].copy_from_slice(&stream.sequence.to_be_bytes());
            packet[4..8].copy_from_slice(&stream.timestamp.to_be_bytes());
            packet[8..12].copy_from_slice(&(n as u32 + 1).to_be_bytes());
            stream.at %= self.voice.len() - FRAME;
            packet[HEADER..HEADER + FRAME]
                .copy_from_slice(&self.voice[stream.at..stream.at + FRAME]);
            stream.sequence = stream.sequence.wrapping_add(1);
            stream.timestamp = stream.timestamp.wrapping_add(FRAME as u32);
            stream.at += FRAME;
            let mut len = HEADER + FRAME;
            if let Some(sender) = &mut stream.protect {
                len = sender.protect_rtp(&mut packet, len).map_err(|_| "SRTP refused a packet")?;
            }
            match self.sockets[n / SHARING].send_to(&packet[..len], to) {
                Ok(_) => self.counters.sent += 1,
                Err(_) => self.counters.refused += 1,
            }
        }
        Ok(())
    }

    fn signalling(&mut self, slot: u64) -> Outcome<()> {
        while let Some(heard) = self.uac.hear()? {
            match heard {
                Heard::Up(n) => {
                    let to = self.uac.legs[n].rtp;
                    self.streams[n].to = to;
                    if let Some(to) = to {
                        self.by_port[usize::from(to.port())] = n as u32;
                    }
                }
                Heard::Over(n) => self.streams[n].to = None,
                Heard::Other => {}
            }
        }
        if slot.is_multiple_of(50) {
            let ports = &self.ports;
            self.uac.repeat(|n| ports[n / SHARING])?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Outcome<()> {
        let mut buffer = [0u8; 2048];
        let now = now_ns();
        for socket in &self.sockets {
            loop {
                let (n, source) = match socket.recv_from(&mut buffer) {
                    Ok(got) => got,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    // A port that was closed, as ICMP tells.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                    Err(e) => return Err(e.into()),
                };
                let call = self.by_port[usize::from(source.port())];
                let Some(stream) = self.streams.get_mut(call as usize) else { continue };
                let tag = if stream.protect.is_some() { TAG } else { 0 };
                if n != HEADER + FRAME + tag || buffer[1] & 0x7f != 8 {
                    self.counters.strange += 1;
                    continue;
                }
                let sequence = u16::from_be_bytes([buffer[2], buffer[3]]);
                self.counters.received += 1;
                if let Some(newest) = stream.newest {
                    let step = sequence.wrapping_sub(newest);
                    match step {
                        1..0x8000 => self.counters.lost += u64::from(step) - 1,
                        _ => self.counters.strange += 1,
                    }
                    self.counters.gap_ns = self.counters.gap_ns.max(now - stream.heard_ns);
                }
                stream.newest = Some(sequence);
                stream.heard_ns = now;
            }
        }
        Ok(())
    }

    fn print(&mut self) -> Outcome<()> {
        let c = &mut self.counters;
        println!(
            "{{\"up\": {}, \"failed\": {}, \"sent\": {}, \"refused\": {}, \"received\": {}, \
             \"lost\": {}, \"strange\": {}, \"gap_ms\": {:.1}, \"slots_late\": {}, \
             \"repeated\": {}}}",
            self.uac.count(State::Up),
            self.uac.count(State::Failed),
            c.sent,
            c.refused,
            c.received,
            c.lost,
            c.strange,
            c.gap_ns as f64 / 1e6,
            c.slots_late,
            self.uac.repeated,
        );
        c.gap_ns = 0;
        io::stdout().flush()?;
        Ok(())
    }

    /// Ends all calls: what is under way is still received.
    fn stop(&mut self) -> Outcome<()> {
        for stream in &mut self.streams {
            stream.to = None;
        }
        let begin = now_ns();
        let mut left: Vec<usize> =
            (0..self.streams.len()).filter(|n| self.uac.legs[*n].state == State::Up).collect();
        for slot in 0u64.. {
            sleep_until(begin + slot * SLOT_NS);
            // First what is under way arrives. A thousand BYE at once would overflow the socket of
            // any SIP stack.
            for _ in 0..if slot < 100 { 0 } else { 4 } {
                if let Some(n) = left.pop() {
                    self.uac.bye(n)?;
                }
            }
            self.signalling(slot)?;
            self.receive()?;
            let waits = self.uac.count(State::Leaving) + left.len();
            if waits == 0 || now_ns() - begin > 20_000_000_000 {
                break;
            }
        }
        self.print()
    }
}

fn sleep_until(ns: u64) {
    let at = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
