// SPDX-License-Identifier: GPL-3.0-or-later
//! Streams over time: loss, order, roll-over, replay, strangers, new sources, new keys.

use pjsip_sys::sdes::{Mki, Suite};

use super::super::cipher::{Half, Place, Protection};
use super::super::{Receiver, Refused, Sender};
use super::{key, open, open_rtcp, pair, rtcp, rtp, seal, seal_rtcp};

const CM: Suite = Suite::AesCm128HmacSha1_80;

#[test]
fn every_suite_there_and_back_with_all_that_a_header_can_hold() {
    for suite in Suite::ALL {
        let (mut tx, mut rx) = pair(suite);
        for sequence in 0..300 {
            let mut packet = rtp(7, sequence);
            if sequence % 3 == 1 {
                // Two CSRCs, an extension of one word, padding.
                packet[0] = 0x80 | 0x20 | 0x10 | 2;
                packet.splice(12..12, [1, 1, 1, 1, 2, 2, 2, 2, 0xBE, 0xDE, 0, 1, 9, 9, 9, 9]);
                packet.extend([0, 0, 3]);
            }
            if sequence % 3 == 2 {
                packet.truncate(12);
            }
            let sealed = seal(&mut tx, &packet);
            if packet.len() > 60 {
                assert_ne!(sealed[40..60], packet[40..60], "{suite:?}: in clear");
            }
            assert_eq!(open(&mut rx, &sealed).as_deref(), Ok(&packet[..]), "{suite:?} {sequence}");
            if sequence % 50 == 0 {
                let report = rtcp(7);
                let sealed = seal_rtcp(&mut tx, &report);
                assert_ne!(sealed[8..40], report[8..40]);
                assert_eq!(open_rtcp(&mut rx, &sealed).as_deref(), Ok(&report[..]), "{suite:?}");
            }
        }
    }
}

/// 65536 packets are 22 minutes at 20 ms; here three times that, with loss and disorder around each roll-over.
#[test]
fn the_roll_over_counter_survives_loss_and_disorder() {
    for suite in [CM, Suite::AeadAes128Gcm] {
        let (mut tx, mut rx) = pair(suite);
        let mut late: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut heard = 0u32;
        for n in 30_000..30_000 + 3 * 65_536u32 {
            let sequence = n as u16;
            let packet = rtp(7, sequence);
            let sealed = seal(&mut tx, &packet);
            let edge = !(100..65_436).contains(&sequence);
            late = late.filter(|_| edge);
            match n % 7 {
                // Far from an edge most packets are lost, which must not matter either.
                _ if !edge && n % 1000 != 0 => {}
                3 if edge => {}
                5 if edge => late = Some((packet, sealed)),
                _ => {
                    assert_eq!(open(&mut rx, &sealed).as_deref(), Ok(&packet[..]), "{n}");
                    heard += 1;
                    if let Some((packet, sealed)) = late.take() {
                        assert_eq!(open(&mut rx, &sealed).as_deref(), Ok(&packet[..]), "late {n}");
                        heard += 1;
                    }
                }
            }
        }
        assert!(heard > 600, "{heard}");
    }
}

#[test]
fn replays_are_told_from_forgeries_and_neither_is_taken() {
    for suite in Suite::ALL {
        let (mut tx, mut rx) = pair(suite);
        let packets: Vec<_> = (0..200).map(|n| seal(&mut tx, &rtp(7, n))).collect();
        for p in &packets {
            assert!(open(&mut rx, p).is_ok());
        }
        for p in &packets {
            assert_eq!(open(&mut rx, p), Err(Refused::Replay), "{suite:?}");
        }
        let report = seal_rtcp(&mut tx, &rtcp(7));
        assert!(open_rtcp(&mut rx, &report).is_ok());
        assert_eq!(open_rtcp(&mut rx, &report), Err(Refused::Replay));
        // Every bit counts: of the header, the text, the tag, the index.
        let fresh = seal(&mut tx, &rtp(7, 200));
        for bit in 0..fresh.len() * 8 {
            let mut bad = fresh.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&mut rx, &bad).is_err(), "{suite:?} bit {bit}");
        }
        let fresh_report = seal_rtcp(&mut tx, &rtcp(7));
        for bit in 0..fresh_report.len() * 8 {
            let mut bad = fresh_report.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open_rtcp(&mut rx, &bad).is_err(), "{suite:?} RTCP bit {bit}");
        }
        // None of the forgeries moved the window or the counter.
        assert!(open(&mut rx, &fresh).is_ok());
        assert!(open_rtcp(&mut rx, &fresh_report).is_ok());
    }
}

#[test]
fn what_is_too_short_or_no_packet_is_refused_at_every_length() {
    for suite in Suite::ALL {
        let (mut tx, mut rx) = pair(suite);
        let (packet, report) = (seal(&mut tx, &rtp(7, 1)), seal_rtcp(&mut tx, &rtcp(7)));
        for len in 0..packet.len() {
            assert!(open(&mut rx, &packet[..len]).is_err(), "{suite:?} {len}");
        }
        for len in 0..report.len() {
            assert!(open_rtcp(&mut rx, &report[..len]).is_err(), "{suite:?} {len}");
        }
        for len in 0..64 {
            for first in [0x80, 0x8F, 0x9F, 0xBF, 0x00, 0xFF] {
                let junk = vec![first; len];
                assert!(open(&mut rx, &junk).is_err() && open_rtcp(&mut rx, &junk).is_err());
                // The sender's side has our own packets only, yet it must not panic either.
                let _ = tx.protect_rtp(&mut junk.clone(), len);
                let _ = tx.protect_rtcp(&mut junk.clone(), len);
            }
        }
        assert_eq!(tx.protect_rtp(&mut rtp(7, 9), 172), Err(Refused::Room));
        assert_eq!(tx.protect_rtp(&mut rtp(7, 9), 1000), Err(Refused::Malformed));
    }
}

#[test]
fn a_new_ssrc_has_state_of_its_own_and_the_old_one_stays_protected() {
    let (mut tx, mut rx) = pair(CM);
    let first = seal(&mut tx, &rtp(1, 40_000));
    assert!(open(&mut rx, &first).is_ok());
    // Another sequence, far lower, and without a roll-over counter (B23).
    for n in 0..50 {
        assert!(open(&mut rx, &seal(&mut tx, &rtp(2, n))).is_ok());
    }
    assert_eq!(open(&mut rx, &first), Err(Refused::Replay));
    // Any number of sources keeps working, in room that does not grow.
    for ssrc in 100..1000 {
        assert!(open(&mut rx, &seal(&mut tx, &rtp(ssrc, 1))).is_ok());
    }
    // A forged SSRC leaves no trace.
    let mut forged = seal(&mut tx, &rtp(999, 2));
    forged[11] ^= 1;
    assert_eq!(open(&mut rx, &forged), Err(Refused::Auth));
    assert!(open(&mut rx, &seal(&mut tx, &rtp(999, 3))).is_ok());
}

#[test]
fn a_stream_whose_first_packets_are_lost_at_the_roll_over_is_heard() {
    let (mut tx, mut rx) = pair(CM);
    for n in 65_530..=65_535 {
        seal(&mut tx, &rtp(7, n));
    }
    for n in 0..20 {
        assert!(open(&mut rx, &seal(&mut tx, &rtp(7, n))).is_ok(), "{n}");
    }
}

#[test]
fn under_a_new_key_the_counter_may_go_on_or_begin_again() {
    for goes_on in [true, false] {
        let (_, mut old) = pair(CM);
        let Some(mut before) = Sender::new(&key(CM, 1)) else { unreachable!() };
        // The old receiver is led to round 3, in steps it can follow.
        let mut index = 0u64;
        while index < 240_000 {
            index += 30_000;
            before.wind(7, index - 1, 0);
            assert!(open(&mut old, &seal(&mut before, &rtp(7, index as u16))).is_ok(), "{index}");
        }
        let fresh = key(CM, 99);
        let (Some(mut tx), Some(mut rx)) = (Sender::new(&fresh), Receiver::new(&fresh, None))
        else {
            unreachable!()
        };
        rx.follow(&old);
        tx.wind(7, if goes_on { 3 << 16 | 60_100 } else { 60_100 }, 0);
        for n in 60_101..60_200 {
            assert!(open(&mut rx, &seal(&mut tx, &rtp(7, n))).is_ok(), "{goes_on} {n}");
        }
    }
}

#[test]
fn a_key_identifier_is_taken_off_and_must_be_the_announced_one() {
    for suite in Suite::ALL {
        for (value, octets) in [(1u64, 1usize), (0x0102, 4), (7, 12)] {
            let key = key(suite, 1);
            let mki = Mki { value, octets: octets as u8 };
            let Some(mut tx) = Sender::new(&key) else { unreachable!() };
            let Some(mut rx) = Receiver::new(&key, Some(mki)) else { unreachable!() };
            let mut field = vec![0; octets];
            for (i, b) in value.to_be_bytes().iter().rev().take(octets).enumerate() {
                field[octets - 1 - i] = *b;
            }
            let gcm = suite.salt_len() == 12;
            let short = matches!(suite, Suite::AesCm128HmacSha1_32 | Suite::AesCm256HmacSha1_32);
            let put = |packet: &mut Vec<u8>, tag: usize, field: &[u8]| {
                let at = if gcm { packet.len() } else { packet.len() - tag };
                packet.splice(at..at, field.iter().copied());
            };
            let packet = seal(&mut tx, &rtp(7, 1));
            let mut with = packet.clone();
            put(&mut with, if short { 4 } else { 10 }, &field);
            assert_eq!(open(&mut rx, &with), Ok(rtp(7, 1)), "{suite:?}");
            let mut report = seal_rtcp(&mut tx, &rtcp(7));
            put(&mut report, 10, &field);
            assert_eq!(open_rtcp(&mut rx, &report), Ok(rtcp(7)), "{suite:?}");
            assert!(open(&mut rx, &packet).is_err(), "without the field");
            let mut other = seal(&mut tx, &rtp(7, 2));
            field[octets - 1] ^= 1;
            put(&mut other, if short { 4 } else { 10 }, &field);
            assert_eq!(open(&mut rx, &other), Err(Refused::Auth), "another key's field");
        }
    }
}

#[test]
fn nothing_is_sent_twice_under_one_index_nor_beyond_what_a_key_may_protect() {
    let (mut tx, _) = pair(CM);
    let mut buf = rtp(7, 5);
    buf.resize(200, 0);
    assert!(tx.protect_rtp(&mut buf.clone(), 172).is_ok());
    assert_eq!(tx.protect_rtp(&mut buf.clone(), 172), Err(Refused::Replay));
    tx.wind(7, (1 << 48) - 1, u32::MAX >> 1);
    let mut next = rtp(7, 0);
    next.resize(200, 0);
    assert_eq!(tx.protect_rtp(&mut next, 172), Err(Refused::Exhausted));
    let mut report = rtcp(7);
    report.resize(100, 0);
    assert!(tx.protect_rtcp(&mut report.clone(), 52).is_ok());
    assert_eq!(tx.protect_rtcp(&mut report, 52), Err(Refused::Exhausted));
}

/// Authentic, but with the flag that says it is not encrypted: only who agreed to that may take it.
#[test]
fn srtcp_in_clear_is_refused() {
    let (_, mut rx) = pair(CM);
    let report = rtcp(7);
    let index = 5u32.to_be_bytes();
    let Some(half) = Protection::new(&key(CM, 1), Half::Rtcp) else { unreachable!() };
    let place = Place { ssrc: 7, index: 5 };
    let Ok(tag) = half.seal(place, &report, &mut [], index) else { unreachable!() };
    let clear = [&report[..], &index, &tag[..10]].concat();
    assert_eq!(open_rtcp(&mut rx, &clear), Err(Refused::Auth));
}

/// The two directions have keys of their own; our own packets sent back to us are nobody's.
#[test]
fn packets_under_another_key_are_refused() {
    let (mut tx, mut rx) = pair(CM);
    let Some(mut other) = Sender::new(&key(CM, 2)) else { unreachable!() };
    assert_eq!(open(&mut rx, &seal(&mut other, &rtp(7, 1))), Err(Refused::Auth));
    assert_eq!(open_rtcp(&mut rx, &seal_rtcp(&mut other, &rtcp(7))), Err(Refused::Auth));
    assert_eq!(open(&mut rx, &rtp(7, 1)), Err(Refused::Auth), "plain RTP");
    assert!(open(&mut rx, &seal(&mut tx, &rtp(7, 1))).is_ok());
}
