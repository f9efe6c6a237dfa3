// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys in a call: what is told, what is heard around them, and what is sent.

use std::net::SocketAddr;

use super::rig::{is_signal, largest_step, params, Net, Peer, Rig, MS, PEER};
use crate::media::dtmf::Keys;
use crate::media::outbox::Record;
use crate::media::{Codec, Direction, MediaParams, FRAME};
use crate::transport::rtp::event::Payload;
use crate::transport::rtp::packet::RtpPacket;

/// Presses told so far: code, ms.
fn told(rig: &Rig) -> Vec<(u8, u32)> {
    let pick = |r: &Record| match r {
        Record::Dtmf { key, duration_ms, .. } => Some((key.event(), *duration_ms)),
        _ => None,
    };
    rig.events.iter().filter_map(pick).collect()
}

fn sent(rig: &Rig) -> Vec<(u64, bool)> {
    let pick = |r: &Record| match r {
        Record::DtmfSent { request, sent, .. } => Some((*request, *sent)),
        _ => None,
    };
    rig.events.iter().filter_map(pick).collect()
}

/// The peer presses a key for `ticks` in the place of audio.
fn press(rig: &mut Rig, peer: &mut Peer, payload_type: u8, code: u8, ticks: u16) {
    let start = peer.timestamp;
    for i in 1..=ticks + 2 {
        let payload = Payload { code, end: i >= ticks, duration: 160 * i.min(ticks) }.to_bytes();
        let mut data = RtpPacket {
            marker: i == 1,
            payload_type,
            sequence: peer.sequence,
            timestamp: start,
            ssrc: peer.ssrc,
            payload: &[],
        }
        .header()
        .to_vec();
        data.extend(payload);
        peer.sequence = peer.sequence.wrapping_add(1);
        if i > ticks {
            // The end's repeats go beside audio.
            rig.post(rig.now + 14 * MS, SocketAddr::from(PEER), data);
            rig.talk(peer, Net::default(), 1);
        } else {
            // Time goes on in the peer's signal, unheard.
            peer.timestamp = peer.timestamp.wrapping_add(FRAME as u32);
            peer.at += FRAME as i64;
            rig.post(rig.now + 15 * MS, SocketAddr::from(PEER), data);
            rig.tick();
        }
    }
}

/// Field failure B27.
#[test]
fn b27_keys_are_taken_on_the_payload_type_of_either_description() {
    for (ours, theirs) in [(101, 101), (101, 96), (96, 102), (127, 127), (102, 101)] {
        for used in [ours, theirs] {
            let mut rig = Rig::flowing(1);
            let media = MediaParams {
                telephone_event: Some(theirs),
                rx_telephone_event: Some(ours),
                ..params(20, Codec::Pcma)
            };
            rig.set_media(media);
            let mut peer = Peer::default();
            rig.talk(&mut peer, Net::default(), 20);
            press(&mut rig, &mut peer, used, 9, 5);
            rig.talk(&mut peer, Net::default(), 5);
            assert_eq!(told(&rig), [(9, 100)], "ours {ours}, theirs {theirs}, used {used}");
            assert_eq!(rig.stats().rx_wrong_type, 0);
        }
    }
    // A type that nobody named is no key.
    let mut rig = Rig::flowing(1);
    let mut peer = Peer::default();
    rig.talk(&mut peer, Net::default(), 20);
    press(&mut rig, &mut peer, 96, 9, 5);
    assert_eq!((told(&rig).len(), rig.stats().rx_wrong_type), (0, 7));
}

#[test]
fn there_is_silence_under_a_key_and_no_concealment() {
    for ticks in [3u16, 5, 10, 25, 100] {
        let mut rig = Rig::flowing(2);
        let mut peer = Peer::default();
        rig.talk(&mut peer, Net::default(), 50);
        press(&mut rig, &mut peer, 101, 1, ticks);
        rig.talk(&mut peer, Net::default(), 30);
        assert_eq!(rig.stats().concealed_frames, 0, "{ticks} ticks");
        assert_eq!(told(&rig), [(1, u32::from(ticks) * 20)]);
        // 20 ms of delay; then audio, then 5 ms of fade, silence, and audio exactly where it was.
        let from = FRAME + 50 * FRAME;
        let to = from + usize::from(ticks) * FRAME;
        assert!(is_signal(&rig.heard[FRAME..from], 0));
        assert!(rig.heard[from + 40..to].iter().all(|s| *s == 0), "{ticks} ticks");
        let at = (50 + i64::from(ticks)) * FRAME as i64;
        assert!(is_signal(&rig.heard[to + 32..to + 20 * FRAME], at + 32), "{ticks} ticks");
        assert!(largest_step(&rig.heard) < 3600, "{ticks} ticks: {}", largest_step(&rig.heard));
        assert_eq!((rig.stats().rx_lost, rig.stats().rx_late), (0, 0));
    }
}

#[test]
fn a_tone_that_leaks_beside_the_event_is_left_out() {
    let mut rig = Rig::flowing(3);
    let mut peer = Peer::default();
    rig.talk(&mut peer, Net::default(), 50);
    let start = peer.timestamp;
    for i in 1..=10u16 {
        let audio = peer.packet(FRAME);
        rig.post(rig.now + 10 * MS, SocketAddr::from(PEER), audio);
        let payload = Payload { code: 5, end: i == 10, duration: 160 * i }.to_bytes();
        let mut data = peer.packet(0);
        data[1] = 101;
        data[4..8].copy_from_slice(&start.to_be_bytes());
        data.extend(payload);
        rig.post(rig.now + 11 * MS, SocketAddr::from(PEER), data);
        rig.tick();
    }
    rig.talk(&mut peer, Net::default(), 10);
    let from = FRAME + 50 * FRAME;
    assert!(rig.heard[from + 40..from + 10 * FRAME].iter().all(|s| *s == 0));
    assert_eq!(told(&rig), [(5, 200)]);
}

#[test]
fn no_key_is_told_while_the_peer_is_not_to_send_nor_twice_at_the_end() {
    let mut rig = Rig::flowing(4);
    let mut peer = Peer::default();
    rig.talk(&mut peer, Net::default(), 10);
    rig.set_media(MediaParams { direction: Direction::SendOnly, ..params(20, Codec::Pcma) });
    press(&mut rig, &mut peer, 101, 1, 5);
    assert!(told(&rig).is_empty());
}

/// Packets sent since `from`: time since the first in ticks, payload type, marker, timestamp, payload.
fn packets(rig: &Rig, from: usize) -> Vec<(u64, u8, bool, u32, Vec<u8>)> {
    let first = rig.sent[from].0;
    let parse = |(at, _, data): &(u64, SocketAddr, Vec<u8>)| {
        let p = RtpPacket::parse(data).unwrap();
        let tick = (at - first) / (20 * MS);
        (tick, p.payload_type, p.marker, p.timestamp, p.payload.to_vec())
    };
    rig.sent[from..].iter().map(parse).collect()
}

#[test]
fn keys_are_sent_by_the_book_while_the_play_out_waits() {
    let mut rig = Rig::flowing(5);
    rig.set_media(MediaParams { telephone_event: Some(96), ..params(20, Codec::Pcma) });
    let tone: Vec<i16> = (0..8000).map(|i| if i % 2 == 0 { 5000 } else { -5000 }).collect();
    rig.play(&tone, 8000, 1).unwrap();
    rig.finish(1);
    rig.ticks(10);
    rig.send_keys(Keys::new(77, "1#", 100, 80).unwrap());
    let from = rig.sent.len();
    rig.ticks(60);
    let p = packets(&rig, from);
    let sequence = |i: usize| RtpPacket::parse(&rig.sent[i].2).unwrap().sequence;
    assert!((1..rig.sent.len()).all(|i| sequence(i) == sequence(i - 1).wrapping_add(1)));
    // Each key: 5 growing packets, 2 repeats of the end, 2 of silence that begin marked.
    for (key, code) in [(0usize, 1u8), (1, 11)] {
        let k = &p[key * 9..key * 9 + 9];
        let start = k[0].3;
        for (i, (tick, payload_type, marker, timestamp, payload)) in k[..7].iter().enumerate() {
            assert_eq!((*tick, *payload_type), ((key * 9 + i) as u64, 96));
            assert_eq!((*marker, *timestamp), (i == 0, start));
            let duration = 160 * (i.min(4) as u16 + 1);
            let want = Payload { code, end: i >= 4, duration };
            assert_eq!(Payload::parse(payload), Some(want));
        }
        for (i, (_, payload_type, marker, timestamp, payload)) in k[7..].iter().enumerate() {
            assert_eq!((*payload_type, *marker), (8, i == 0));
            assert_eq!(*timestamp, start.wrapping_add(160 * (7 + i as u32)));
            assert!(payload.iter().all(|b| *b == 0xD5));
        }
    }
    // Then the agent goes on where it was, on the same timeline.
    assert_eq!(p[18].3, p[0].3.wrapping_add(18 * 160));
    assert!(p[18].4.iter().all(|b| *b != 0xD5));
    assert_eq!(sent(&rig), [(77, true)]);
    let finished = rig.events.iter().find_map(|r| match r {
        Record::PlayoutFinished { samples, interrupted, .. } => Some((*samples, *interrupted)),
        _ => None,
    });
    assert_eq!(finished, Some((8000, false)));
}

#[test]
fn keys_wait_for_a_packet_of_any_length_to_be_full() {
    for ptime in [10u8, 20, 30, 40, 60] {
        let mut rig = Rig::flowing(6);
        rig.set_media(params(ptime, Codec::Pcma));
        rig.ticks(7);
        rig.send_keys(Keys::new(1, "5", 100, 40).unwrap());
        rig.ticks(40);
        let all = packets(&rig, 0);
        let at = all.iter().position(|p| p.1 == 101).unwrap();
        assert_eq!(all.iter().filter(|p| p.1 == 101).count(), 7, "ptime {ptime}");
        // The key goes down where the audio before it ends, and the audio after it begins where the
        // repeats end.
        let before = &all[at - 1];
        assert_eq!(all[at].3, before.3.wrapping_add(before.4.len() as u32), "ptime {ptime}");
        assert_eq!(all[at + 7].3, all[at].3.wrapping_add(7 * 160), "ptime {ptime}");
        assert_eq!(sent(&rig), [(1, true)]);
    }
}

#[test]
fn keys_that_cannot_be_sent_are_told() {
    let mut rig = Rig::flowing(7);
    rig.set_media(MediaParams { telephone_event: None, ..params(20, Codec::Pcma) });
    rig.send_keys(Keys::new(1, "5", 100, 40).unwrap());
    rig.ticks(2);
    rig.set_media(params(20, Codec::Pcma));
    // Hold in mid-key, and the end of the call.
    rig.send_keys(Keys::new(2, "55", 100, 40).unwrap());
    rig.ticks(3);
    rig.set_media(MediaParams { direction: Direction::RecvOnly, ..params(20, Codec::Pcma) });
    rig.ticks(3);
    rig.set_media(params(20, Codec::Pcma));
    rig.send_keys(Keys::new(3, "5", 100, 40).unwrap());
    rig.ticks(3);
    rig.close();
    assert_eq!(sent(&rig), [(1, false), (2, false), (3, false)]);
}
