// SPDX-License-Identifier: GPL-3.0-or-later
//! Datagrams on the ports of a call (RTP, RTCP, STUN, garbage) and all behind them: packets, latch, statistics, jitter
//! buffer, concealment, play-out, reports.
//!
//! The first byte of an input is the outcome of the first offer and answer, the second whether there is SRTP; then come
//! steps, each a byte that says which, and its arguments (see `step`). Whatever comes: no panic, nothing allocated,
//! well-formed packets out, and counters that add up.

use std::cell::RefCell;
use std::net::SocketAddr;

use pjsip_sys::sdes::{MasterKey, Suite};
use voicecore_engine::media::drive::Driver;
use voicecore_engine::media::{Codec, Direction, MediaConfig, MediaParams, RtcpWay};
use voicecore_engine::transport::rtp::packet::RtpPacket;
use voicecore_engine::transport::rtp::rtcp::Compound;
use voicecore_engine::transport::srtp::{Receiver, Sender, OVERHEAD};

use crate::counting::without_allocation;

/// 6 s: past a media timeout of 3 s and a report.
const MAX_TICKS: u32 = 300;
const MAX_DATAGRAMS: u64 = 1500;
const MAX_DATAGRAM: usize = 2048;

thread_local! {
    static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let [first, secure, rest @ ..] = input else { return };
    DRIVER.with_borrow_mut(|driver| {
        let config = MediaConfig { media_timeout_s: 3.0, ..MediaConfig::default() };
        let driver = driver.get_or_insert_with(|| Driver::new(&config));
        driver.restart(&config);
        let mut course = Course {
            driver,
            input: rest,
            srtp: (secure & 1 != 0).then(srtp).flatten(),
            ticks: 0,
            received: 0,
            rtp_sent: 0,
            packet_changed: false,
            stream: Stream { ssrc: 0x5EED, sequence: 65_530, timestamp: 0xFFFF_F000 },
        };
        course.driver.set_media(params(*first, 20));
        course.driver.answered();
        while course.step().is_some() {}
        course.end();
    });
}

/// A peer's stream, so that a few bytes of input make many packets in order.
struct Stream {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

struct Course<'a> {
    driver: &'a mut Driver,
    input: &'a [u8],
    srtp: Option<Srtp>,
    ticks: u32,
    received: u64,
    rtp_sent: u64,
    /// The packet time may have changed since audio was last sent.
    packet_changed: bool,
    stream: Stream,
}

/// The peer's side, and ours. What is not a run of the peer's stream comes unprotected, as an attacker's would.
struct Srtp {
    peer: Sender,
    ours: Receiver,
}

fn srtp() -> Option<Srtp> {
    let key = MasterKey::from_random(Suite::AesCm128HmacSha1_80, &[7; 46]);
    Some(Srtp { peer: Sender::new(&key)?, ours: Receiver::new(&key, None)? })
}

fn source(which: u8) -> SocketAddr {
    match which & 3 {
        0 | 1 => SocketAddr::from(([127, 0, 0, 2], 4000)),
        2 => SocketAddr::from(([127, 0, 0, 3], 4000)),
        _ => SocketAddr::from(([127, 0, 0, 2], 4001)),
    }
}

fn params(bits: u8, ptime_ms: u8) -> MediaParams {
    let (codec, payload_type) = match bits & 65 {
        0 => (Codec::Pcma, 8),
        1 => (Codec::Pcmu, 0),
        _ => (Codec::G722, 9),
    };
    let remote = if bits & 8 == 0 { source(0) } else { SocketAddr::from(([0, 0, 0, 0], 4000)) };
    MediaParams {
        signalling: (bits & 4 != 0).then(|| source(2).ip()),
        remote_rtcp: (bits & 16 != 0).then(|| source(3)),
        telephone_event: (bits & 32 == 0).then_some(101),
        rx_telephone_event: (bits & 32 == 0).then_some(101),
        rtcp: if bits & 128 == 0 { RtcpWay::Beside } else { RtcpWay::Mux },
        comfort_noise: (bits & 64 != 0).then_some(97),
        ptime_ms,
        direction: match bits >> 1 & 3 {
            0 => Direction::SendRecv,
            1 => Direction::SendOnly,
            2 => Direction::RecvOnly,
            _ => Direction::Inactive,
        },
        ..MediaParams::plain(codec, payload_type, remote)
    }
}

impl<'a> Course<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.input.split_first()?;
        self.input = rest;
        Some(*first)
    }

    /// Bytes after their number, which is as long as `wide` says.
    fn bytes(&mut self, wide: bool) -> Option<&'a [u8]> {
        let mut len = usize::from(self.byte()?);
        if wide {
            len = (len << 8 | usize::from(self.byte()?)).min(MAX_DATAGRAM);
        }
        let (taken, rest) = self.input.split_at(len.min(self.input.len()));
        self.input = rest;
        Some(taken)
    }

    fn step(&mut self) -> Option<()> {
        let op = self.byte()?;
        match op & 0x0F {
            0..=2 => {
                let data = self.bytes(op & 0x40 != 0)?;
                self.rtp(source(op >> 4), data);
            }
            3 => {
                let data = self.bytes(op & 0x40 != 0)?;
                self.received += 1;
                let from = source(op >> 4);
                let mut opened = [0; MAX_DATAGRAM];
                if let Some(srtp) = &mut self.srtp {
                    if let Some(place) = opened.get_mut(..data.len()) {
                        place.copy_from_slice(data);
                        let _ = without_allocation("SRTCP", || srtp.ours.open_rtcp(place));
                    }
                    return Some(());
                }
                without_allocation("RTCP", || self.driver.on_rtcp(from, data));
            }
            4..=7 => self.talk(op)?,
            8 | 9 => {
                let n = self.byte()?;
                let probability = if op & 0x10 == 0 { 0.0 } else { 0.99 };
                (0..=n & 63).for_each(|_| self.tick(probability));
            }
            10 => {
                let (bits, ptime_ms) = (self.byte()?, self.byte()?);
                self.driver.set_media(params(bits, ptime_ms));
                self.packet_changed = true;
            }
            11 => {
                // The stream jumps: a new source, or the same one elsewhere.
                let by = u32::from(self.byte()?) << 8 | u32::from(self.byte()?);
                match op >> 4 & 3 {
                    0 => self.stream.ssrc = by,
                    1 => self.stream.sequence = self.stream.sequence.wrapping_add(by as u16),
                    2 => self.stream.timestamp = self.stream.timestamp.wrapping_add(by << 8),
                    _ => self.stream.timestamp = self.stream.timestamp.wrapping_sub(by),
                }
            }
            12 => {
                let data = self.bytes(op & 0x40 != 0)?;
                let rate = [8000, 16_000, 24_000, 44_100][usize::from(op >> 4 & 3)];
                self.driver.play(data, rate, 1 + u64::from(op >> 7));
            }
            13 if op >> 4 == 7 => {
                let n = usize::from(self.byte()?);
                let keys = "0123456789*#ABCDABCD0123456789*#";
                self.driver.send_keys(keys.get(n % 16..n % 16 + 1 + n / 16).unwrap_or(""), 100);
            }
            13 => self.driver.finish(u64::from(op >> 4 & 3)),
            14 => self.driver.clear((op & 0x80 != 0).then_some(u64::from(op >> 4 & 3))),
            _ => {
                let n = u64::from(self.byte()?);
                self.driver.skip(n * n / 4);
            }
        }
        Some(())
    }

    fn rtp(&mut self, from: SocketAddr, data: &[u8]) {
        self.received += 1;
        let mut opened = [0; MAX_DATAGRAM];
        let data = match &mut self.srtp {
            None => data,
            Some(srtp) => {
                let Some(place) = opened.get_mut(..data.len()) else { return };
                place.copy_from_slice(data);
                let got = without_allocation("SRTP", || srtp.ours.open_rtp(place));
                let Ok(len) = got else { return };
                opened.get(..len).unwrap_or(&[])
            }
        };
        without_allocation("RTP", || self.driver.on_rtp(from, data));
    }

    /// A run of packets of the stream, with ticks between them: how many, of which length, which payload type, and what
    /// is wrong with every other one.
    fn talk(&mut self, op: u8) -> Option<()> {
        let (count, length, fault) = (self.byte()? & 31, self.byte()?, self.byte()?);
        let payload_type = match op & 3 {
            0 => 8,
            1 => 0,
            2 => 101,
            _ => 13,
        };
        let samples = usize::from(length) * 4;
        for n in 0..=count {
            let faulty = n & 1 == 1;
            let lost = faulty && fault & 1 != 0;
            if !lost {
                let mut data = [0x55; 12 + 255 * 4 + OVERHEAD];
                let header = RtpPacket {
                    marker: faulty && fault & 2 != 0,
                    payload_type,
                    sequence: self.stream.sequence,
                    timestamp: self.stream.timestamp,
                    ssrc: self.stream.ssrc,
                    payload: &[],
                }
                .header();
                data[..12].copy_from_slice(&header);
                for (i, d) in data[12..12 + samples].iter_mut().enumerate() {
                    *d = (i as u8).wrapping_mul(29).wrapping_add(n);
                }
                if faulty && fault & 4 != 0 {
                    data[0] |= fault & 0x30; // padding, extension
                }
                let mut end = 12 + samples;
                if let Some(srtp) = &mut self.srtp {
                    end = srtp.peer.protect_rtp(&mut data, end).unwrap_or(end);
                }
                self.rtp(source(op >> 4), &data[..end]);
                if faulty && fault & 8 != 0 {
                    self.rtp(source(op >> 4), &data[..end]); // twice
                }
            }
            self.stream.sequence = self.stream.sequence.wrapping_add(1);
            self.stream.timestamp = self.stream.timestamp.wrapping_add(samples as u32);
            if fault & 0x40 == 0 || faulty {
                self.tick(if fault & 0x80 == 0 { 0.0 } else { 0.9 });
            }
        }
        Some(())
    }

    fn tick(&mut self, probability: f32) {
        if self.ticks >= MAX_TICKS || self.received > MAX_DATAGRAMS {
            self.input = &[];
            return;
        }
        self.ticks += 1;
        let mut sent = 0;
        without_allocation("a tick", || {
            self.driver
                .tick(probability, &mut |rtcp, to, data| check_sent(&mut sent, rtcp, to, data));
        });
        // 10 ms packets are two in a tick; when they become so, up to 50 ms more wait for a packet of 60 ms.
        let most = if self.packet_changed { 7 } else { 2 };
        assert!(sent <= most, "{sent} packets in one tick");
        self.packet_changed &= sent == 0;
        self.rtp_sent += sent;
        if self.ticks.is_multiple_of(50) {
            self.driver.drain();
        }
    }

    fn end(&mut self) {
        self.tick(0.0);
        let mut sent = 0;
        without_allocation("the end", || {
            self.driver.close(&mut |rtcp, to, data| check_sent(&mut sent, rtcp, to, data));
        });
        self.driver.drain();
        let s = self.driver.stats();
        assert_eq!(s.tx_packets, self.rtp_sent, "{s:?}");
        let told = s.rx_packets + s.rx_foreign;
        assert!(told <= self.received, "{told} packets told of {} received: {s:?}", self.received);
        assert!(s.rx_duplicate <= s.rx_packets && s.rx_late <= s.rx_packets, "{s:?}");
        assert!(s.jitter_delay_ms >= 0.0 && s.jitter_delay_ms < 5000.0, "{s:?}");
        assert!(s.jitter_ms.is_finite() && s.rtt_ms.is_none_or(|ms| ms <= 30_000.0), "{s:?}");
    }
}

/// What leaves is well-formed and goes to an address.
fn check_sent(sent: &mut u64, rtcp: bool, to: SocketAddr, data: &[u8]) -> bool {
    assert!(!to.ip().is_unspecified(), "sent to {to}");
    // Both may share a port (RFC 5761).
    if rtcp || data.get(1).is_some_and(|kind| (192..=223).contains(kind)) {
        assert!(Compound::parse(data).is_ok(), "our RTCP does not parse: {data:?}");
    } else {
        assert!(RtpPacket::parse(data).is_ok_and(|p| !p.payload.is_empty()), "our RTP: {data:?}");
        *sent += 1;
    }
    true
}
