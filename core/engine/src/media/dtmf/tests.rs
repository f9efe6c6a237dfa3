// SPDX-License-Identifier: GPL-3.0-or-later
//! One press for each key, through networks that lose, double and shuffle its packets.

use super::receive::EventReceiver;
use super::Pressed;
use crate::transport::rtp::event::{Key, Payload};
use crate::transport::rtp::packet::RtpPacket;

const MS: u64 = 1_000_000;

/// A packet of a key, as sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at_ns: u64,
    sequence: u16,
    timestamp: u32,
    marker: bool,
    payload: Payload,
}

/// What a good sender sends: presses of (code, ms), 100 ms of audio between them, 20 ms apart.
struct Sender {
    sequence: u16,
    now: u64,
    sent: Vec<Sent>,
}

impl Sender {
    fn new() -> Sender {
        Sender { sequence: 65_500, now: 1_000_000 * MS, sent: Vec::new() }
    }

    fn clock(&self) -> u32 {
        (self.now / 125_000) as u32
    }

    fn packet(&mut self, timestamp: u32, marker: bool, payload: Payload) {
        let (at_ns, sequence) = (self.now, self.sequence);
        self.sent.push(Sent { at_ns, sequence, timestamp, marker, payload });
        self.sequence = self.sequence.wrapping_add(1);
        self.now += 20 * MS;
    }

    fn press(&mut self, code: u8, ms: u32) {
        let (mut start, packets) = (self.clock(), ms / 20);
        let mut base = 0u32;
        for i in 1..=packets {
            let units = i * 160 - base;
            let end = i == packets;
            if units > 0xFFFF {
                // RFC 4733 section 2.5.1.3: the segment is full; another one begins where it ends.
                let full = Payload { code, end: false, duration: 0xFFFF };
                self.packet(start, false, full);
                start = start.wrapping_add(0xFFFF);
                base += 0xFFFF;
            }
            let duration = (i * 160 - base) as u16;
            self.packet(start, i == 1, Payload { code, end, duration });
        }
        for _ in 0..2 {
            let last = self.sent[self.sent.len() - 1];
            self.packet(last.timestamp, false, last.payload);
        }
        self.gap(60);
    }

    fn gap(&mut self, ms: u64) {
        self.now += ms * MS;
        self.sequence = self.sequence.wrapping_add((ms / 20) as u16);
    }
}

/// What is told of these packets, in this order.
fn hear(packets: &[Sent]) -> Vec<Pressed> {
    let mut r = EventReceiver::default();
    let mut told = Vec::new();
    let mut highest: Option<u16> = None;
    for s in packets {
        told.extend(r.poll(s.at_ns));
        let newest = highest.is_none_or(|h| (s.sequence.wrapping_sub(h) as i16) > 0);
        if newest {
            highest = Some(s.sequence);
        }
        let p = RtpPacket {
            marker: s.marker,
            payload_type: 101,
            sequence: s.sequence,
            timestamp: s.timestamp,
            ssrc: 1,
            payload: &[],
        };
        told.extend(r.on_packet(&p, s.payload, newest, false, s.at_ns).into_iter().flatten());
    }
    let end = packets.last().map_or(0, |s| s.at_ns) + 1000 * MS;
    told.extend(r.poll(end));
    assert!(!r.is_down() && r.poll(end).is_none());
    told
}

fn codes(told: &[Pressed]) -> Vec<u8> {
    told.iter().map(|p| p.key.event()).collect()
}

#[test]
fn a_key_is_told_once_with_its_time_and_duration() {
    let mut s = Sender::new();
    let down = s.now;
    s.press(5, 200);
    let told = hear(&s.sent);
    let key = Key::from_event(5).unwrap();
    // The first packet leaves when its first 20 ms are counted.
    assert_eq!(told, [Pressed { key, duration_ms: 200, at_ns: down - 20 * MS }]);
}

#[test]
fn every_subset_of_a_presss_packets_tells_it_once() {
    let mut s = Sender::new();
    s.press(7, 100);
    assert_eq!(s.sent.len(), 7);
    for kept in 1u32..1 << 7 {
        let some: Vec<Sent> = (0..7).filter(|i| kept >> i & 1 == 1).map(|i| s.sent[i]).collect();
        let told = hear(&some);
        assert_eq!(codes(&told), [7], "kept {kept:07b}");
        let longest = (0..7).rev().find(|i| kept >> i & 1 == 1).map_or(0, |i| i.min(4) + 1);
        assert_eq!(told[0].duration_ms, longest as u32 * 20, "kept {kept:07b}");
    }
}

#[test]
fn the_same_key_twice_is_two_presses_whatever_subset_of_each_arrives() {
    let mut s = Sender::new();
    s.press(1, 60);
    s.press(1, 140);
    let (first, second) = s.sent.split_at(5);
    for a in 1u32..1 << first.len() {
        for b in [1u32, 2, 8, 0x40, 0x100, 0x1C0, 0x1C1, 0x3F, 0x1FF] {
            let pick = |v: &[Sent], bits: u32| -> Vec<Sent> {
                v.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, s)| *s).collect()
            };
            let mut some = pick(first, a);
            some.extend(pick(second, b));
            assert_eq!(codes(&hear(&some)), [1, 1], "{a:b} {b:b}");
        }
    }
}

#[test]
fn seeded_loss_reordering_and_duplicates_change_no_digit() {
    let pin = [1u8, 2, 2, 2, 9, 0, 10, 11, 11, 3];
    for seed in 1..=300u64 {
        let mut s = Sender::new();
        pin.iter().for_each(|code| s.press(*code, 80 + u32::from(*code) * 20));
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 11) % n
        };
        let mut wire = Vec::new();
        let mut starts: Vec<u32> = Vec::new();
        for p in &s.sent {
            // 20 % are lost, but one packet of each press is not.
            let first = !starts.contains(&p.timestamp);
            starts.push(p.timestamp);
            if !first && below(100) < 20 {
                continue;
            }
            for _ in 0..1 + u64::from(below(10) == 0) {
                let late = if below(10) == 0 { below(60) } else { 0 };
                wire.push(Sent { at_ns: p.at_ns + late * MS, ..*p });
            }
        }
        wire.sort_by_key(|p| p.at_ns);
        assert_eq!(codes(&hear(&wire)), pin, "seed {seed}");
    }
}

#[test]
fn a_press_of_a_minute_in_segments_is_one() {
    let mut s = Sender::new();
    s.press(11, 60_000);
    let told = hear(&s.sent);
    assert_eq!(codes(&told), [11]);
    assert_eq!(told[0].duration_ms, 60_000);
    // The same with every tenth packet lost, those at the seams too.
    for phase in 0..10 {
        let some: Vec<Sent> = (0..s.sent.len())
            .filter(|i| (i + phase) % 10 != 0 || *i + 3 > s.sent.len())
            .map(|i| s.sent[i])
            .collect();
        let told = hear(&some);
        assert_eq!((codes(&told), told[0].duration_ms), (vec![11], 60_000), "phase {phase}");
    }
}

#[test]
fn a_key_held_over_lost_packets_is_told_once_by_the_time() {
    let mut s = Sender::new();
    s.press(4, 2000);
    let mut some = s.sent[..20].to_vec();
    some.extend(&s.sent[60..]);
    let told = hear(&some);
    assert_eq!((codes(&told), told[0].duration_ms), (vec![4], 400));
}

/// Some senders let the timestamp run with the event.
#[test]
fn a_timestamp_that_runs_along_is_one_press() {
    let mut s = Sender::new();
    for code in [3u8, 3] {
        let start = s.clock();
        for i in 0..8u32 {
            let payload = Payload { code, end: i >= 5, duration: 160 * (i.min(5) as u16 + 1) };
            s.packet(start + 160 * i.min(5), i == 0, payload);
        }
        s.gap(100);
    }
    assert_eq!(codes(&hear(&s.sent)), [3, 3]);
}

#[test]
fn keys_without_a_gap_and_with_all_ends_lost_are_told_in_order() {
    let mut s = Sender::new();
    for code in [1u8, 2, 3] {
        let start = s.clock();
        for i in 1..=4 {
            s.packet(start, i == 1, Payload { code, end: false, duration: 160 * i });
        }
    }
    assert_eq!(codes(&hear(&s.sent)), [1, 2, 3]);
}

#[test]
fn tones_and_trunk_signals_are_no_keys() {
    let mut s = Sender::new();
    s.press(32, 100);
    s.press(66, 100);
    s.press(16, 100);
    assert_eq!(codes(&hear(&s.sent)), [16]);
}

/// Some devices know no clock at all.
#[test]
fn presses_that_share_one_timestamp_are_told_apart_by_their_markers() {
    for ends_lost in [false, true] {
        let mut s = Sender::new();
        for code in [1u8, 1, 2, 1, 1] {
            for i in 1..=7u16 {
                let end = i >= 5;
                let payload = Payload { code, end, duration: 160 * i.min(5) };
                if end && ends_lost {
                    s.gap(20);
                } else {
                    s.packet(4711, i == 1, payload);
                }
            }
            s.gap(60);
        }
        assert_eq!(codes(&hear(&s.sent)), [1, 1, 2, 1, 1], "ends lost: {ends_lost}");
    }
}
