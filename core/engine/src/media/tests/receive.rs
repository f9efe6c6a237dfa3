// SPDX-License-Identifier: GPL-3.0-or-later
//! What the caller sends, through networks good and bad.

use std::net::SocketAddr;

use super::rig::{
    is_signal, largest_step, longest_silence, params, signal, Net, Peer, Random, Rig, MS, PEER,
};
use crate::media::{Codec, MediaConfig, FRAME};
use crate::transport::rtp::packet::RtpPacket;

const CLEAN: Net =
    Net { loss_percent: 0, duplicate_percent: 0, jitter_ms: 0, reorder_percent: 0, reorder_ms: 0 };
/// Greatest step between neighbours of the clean signal, with room for the codec's error.
const STEP: i32 = 3600;

#[test]
fn a_clean_stream_is_heard_bit_by_bit_20_ms_later() {
    let mut rig = Rig::flowing(1);
    rig.talk(&mut Peer::default(), CLEAN, 500);
    assert!(rig.heard[..FRAME].iter().all(|s| *s == 0));
    assert!(is_signal(&rig.heard[FRAME..], 0));
    let s = rig.stats();
    assert_eq!((s.rx_packets, s.rx_lost, s.rx_late, s.concealed_frames), (500, 0, 0, 0));
    assert!(s.jitter_ms < 0.1);
}

#[test]
fn loss_is_concealed_without_clicks() {
    let mut rig = Rig::flowing(2);
    let mut peer = Peer::default();
    rig.talk(&mut peer, Net { loss_percent: 5, ..CLEAN }, 3000);
    rig.talk(&mut peer, CLEAN, 10);
    let s = rig.stats();
    assert!(peer.lost > 100);
    assert_eq!(s.rx_lost, peer.lost);
    assert_eq!(s.concealed_frames, peer.lost);
    assert!(largest_step(&rig.heard) < 2 * STEP, "{}", largest_step(&rig.heard));
    assert!(longest_silence(&rig.heard[FRAME..]) < FRAME);
}

#[test]
fn jitter_grows_the_delay_until_nothing_is_missed() {
    for seed in 0..5 {
        let mut rig = Rig::flowing(seed);
        let mut peer = Peer::default();
        let net = Net { jitter_ms: 80, ..CLEAN };
        rig.talk(&mut peer, net, 500);
        let before = rig.stats();
        rig.talk(&mut peer, net, 2000);
        let s = rig.stats();
        let new = s.concealed_frames - before.concealed_frames;
        assert!(new <= 20, "seed {seed}: {new} of 2000 frames concealed");
        assert!(s.rx_late - before.rx_late <= 10, "seed {seed}: {s:?}");
        assert!(s.jitter_ms > 5.0, "seed {seed}");
        assert!(largest_step(&rig.heard) < 2 * STEP);
        // A calm network gets its short delay back.
        rig.talk(&mut peer, CLEAN, 1000);
        assert!(rig.stats().jitter_delay_ms <= 45.0, "seed {seed}: {:?}", rig.stats());
        assert_eq!(rig.stats().rx_lost, 0, "seed {seed}");
    }
}

#[test]
fn overtaken_packets_are_waited_for_once_it_is_known_that_they_come() {
    let mut rig = Rig::flowing(4);
    let mut peer = Peer::default();
    let net = Net { reorder_percent: 10, reorder_ms: 50, ..CLEAN };
    rig.talk(&mut peer, net, 500);
    let before = rig.stats();
    rig.talk(&mut peer, net, 1000);
    let s = rig.stats();
    assert!(s.rx_late - before.rx_late <= 3, "{before:?} {s:?}");
    assert_eq!(s.rx_lost, 0);
}

#[test]
fn duplicates_are_counted_and_not_heard() {
    let mut rig = Rig::flowing(5);
    rig.talk(&mut Peer::default(), Net { duplicate_percent: 30, ..CLEAN }, 500);
    assert!(is_signal(&rig.heard[FRAME..], 0));
    let s = rig.stats();
    assert!(s.rx_duplicate > 100, "{s:?}");
    assert_eq!((s.rx_lost, s.concealed_frames), (0, 0));
}

/// Field failure B31.
#[test]
fn packets_of_10_to_60_ms_mix_without_a_gap() {
    let mut rig = Rig::flowing(6);
    let mut peer = Peer::default();
    let mut random = Random::new(6);
    // Each packet is sent when its last sample was spoken. What is behind it waits for it.
    let (start, mut spoken_ms) = (rig.now, 60);
    for _ in 0..400 {
        let ms = [10, 20, 30, 40, 60][random.below(5) as usize];
        let data = peer.packet(ms as usize * 8);
        rig.post(start + spoken_ms * MS, SocketAddr::from(PEER), data);
        spoken_ms += ms;
    }
    rig.ticks((spoken_ms / 20) as usize + 2);
    let s = rig.stats();
    assert_eq!((s.rx_packets, s.rx_lost, s.rx_late), (400, 0, 0));
    // The delay grows to what the longest packets need; after that every sample is exact.
    assert!(s.concealed_frames <= 6, "{s:?}");
    let tail = &rig.heard[rig.heard.len() - 40_000..rig.heard.len() - 2000];
    let at = (0..peer.at - 36_000).find(|at| is_signal(&tail[..400], *at));
    assert!(at.is_some_and(|at| is_signal(tail, at)));
}

/// Field failure B23.
#[test]
fn a_new_ssrc_with_a_lower_sequence_is_heard_within_100_ms() {
    let mut rig = Rig::flowing(7);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 500);
    let heard = rig.heard.len();
    peer.ssrc = 78;
    peer.sequence = peer.sequence.wrapping_sub(9000);
    peer.timestamp = 12_345;
    rig.talk(&mut peer, CLEAN, 100);
    assert!(longest_silence(&rig.heard[heard..]) < 800);
    // From the third packet on nothing is missing.
    let tail = &rig.heard[heard + 8 * FRAME..];
    assert!(is_signal(tail, peer.at - tail.len() as i64 - FRAME as i64));
    let s = rig.stats();
    assert_eq!((s.ssrc_changes, s.rx_lost, s.rx_late), (1, 0, 0));
}

/// Field failure B25.
#[test]
fn a_timestamp_jump_of_30_s_without_marker_leaves_no_gap() {
    for jump in [240_000i32, -240_000, 4000, -4000, 1_000_000_000, -1_000_000_000] {
        let mut rig = Rig::flowing(8);
        let mut peer = Peer::default();
        rig.talk(&mut peer, CLEAN, 100);
        peer.timestamp = peer.timestamp.wrapping_add_signed(jump);
        rig.talk(&mut peer, CLEAN, 100);
        assert!(longest_silence(&rig.heard[FRAME..]) < FRAME, "jump {jump}");
        assert!(is_signal(&rig.heard[FRAME..], 0), "jump {jump}");
        assert_eq!(rig.stats().rx_late, 0, "jump {jump}");
        assert!(rig.stats().jitter_ms < 1.0, "jump {jump}");
    }
}

#[test]
fn a_jump_together_with_loss_is_found_too() {
    for jump in [240_000i32, -240_000] {
        let mut rig = Rig::flowing(8);
        let mut peer = Peer::default();
        rig.talk(&mut peer, CLEAN, 100);
        peer.packet(FRAME);
        peer.timestamp = peer.timestamp.wrapping_add_signed(jump);
        rig.talk(&mut peer, CLEAN, 100);
        assert!(longest_silence(&rig.heard[FRAME..]) < 1600, "jump {jump}");
        let tail = &rig.heard[150 * FRAME..];
        let late =
            (0..10).find(|k| is_signal(tail, peer.at - tail.len() as i64 - k * FRAME as i64));
        assert!(late.is_some(), "jump {jump}");
    }
}

/// Field failure B33.
#[test]
fn an_intruder_is_not_heard_and_draws_no_packet() {
    let mut rig = Rig::flowing(9);
    let mut peer = Peer::default();
    let mut intruder = Peer { ssrc: 666, ..Peer::default() };
    let from = SocketAddr::from(([127, 0, 0, 3], 4000));
    for _ in 0..300 {
        let data = intruder.packet(FRAME);
        rig.post(rig.now + MS, from, data);
        let data = peer.packet(FRAME);
        rig.post(rig.now + 10 * MS, SocketAddr::from(PEER), data);
        rig.tick();
    }
    assert!(is_signal(&rig.heard[FRAME..], 0));
    assert!(rig.sent.iter().all(|(_, to, _)| *to == SocketAddr::from(PEER)));
    assert_eq!(rig.stats().rx_foreign, 300);
}

/// Field failure B35.
#[test]
fn padding_extension_and_csrc_do_not_change_what_is_heard() {
    let mut rig = Rig::flowing(10);
    let mut peer = Peer::default();
    for i in 0..200usize {
        let mut data = peer.packet(FRAME);
        let payload = data.split_off(12);
        let csrc = i % 16;
        data[0] |= csrc as u8;
        data.extend(vec![0xC5; csrc * 4]);
        if i % 3 == 0 {
            data[0] |= 0x10;
            data.extend([0xBE, 0xDE, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        data.extend(payload);
        if i % 2 == 0 {
            data[0] |= 0x20;
            let count = 1 + i % 250;
            data.extend(vec![0; count - 1]);
            data.push(count as u8);
        }
        rig.post(rig.now + MS, SocketAddr::from(PEER), data);
        rig.tick();
    }
    assert!(is_signal(&rig.heard[FRAME..], 0));
    assert_eq!(rig.stats().rx_malformed, 0);
}

#[test]
fn clock_drift_is_followed_for_half_an_hour_without_growing_delay() {
    for ppm in [-300i64, 300] {
        let mut rig = Rig::flowing(11);
        let mut peer = Peer::default();
        let start = rig.now;
        let mut n = 0i64;
        for _ in 0..90_000 {
            loop {
                let at = start as i64 + n * 20_000_000 * (1_000_000 + ppm) / 1_000_000;
                if at as u64 > rig.now + 20 * MS {
                    break;
                }
                let data = peer.packet(FRAME);
                rig.post(at as u64, SocketAddr::from(PEER), data);
                n += 1;
            }
            rig.tick();
            rig.heard.clear();
            rig.sent.clear();
        }
        let s = rig.stats();
        assert!(s.jitter_delay_ms <= 65.0, "{ppm} ppm: {s:?}");
        // 540 ms of drift are 27 frames; each may cost a concealed one, not more.
        assert!(s.concealed_frames <= 30, "{ppm} ppm: {s:?}");
        assert!(s.rx_late <= 2, "{ppm} ppm: {s:?}");
    }
}

#[test]
fn a_stall_and_its_burst_are_survived() {
    let mut rig = Rig::flowing(12);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 100);
    let late: Vec<Vec<u8>> = (0..25).map(|_| peer.packet(FRAME)).collect();
    rig.ticks(25);
    for data in late {
        rig.post(rig.now + MS, SocketAddr::from(PEER), data);
    }
    rig.talk(&mut peer, CLEAN, 50);
    assert!(rig.stats().jitter_delay_ms <= 500.0, "{:?}", rig.stats());
    rig.talk(&mut peer, CLEAN, 1500);
    assert!(rig.stats().jitter_delay_ms <= 45.0, "{:?}", rig.stats());
    assert!(longest_silence(&rig.heard[rig.heard.len() - 80_000..]) < 20);
    assert_eq!(rig.stats().rx_lost, 0);
}

#[test]
fn a_pause_of_the_peer_is_silence_and_its_return_is_heard_at_once() {
    for clock_runs_on in [true, false] {
        for pause in [10, 40, 60, 500] {
            let mut rig = Rig::flowing(13);
            let mut peer = Peer::default();
            rig.talk(&mut peer, CLEAN, 100);
            let from = rig.heard.len();
            rig.ticks(pause);
            assert!(rig.heard[from + 5 * FRAME..].iter().all(|s| *s == 0));
            if clock_runs_on {
                peer.timestamp = peer.timestamp.wrapping_add((pause * FRAME) as u32);
            }
            let back = rig.heard.len();
            rig.talk(&mut peer, CLEAN, 20);
            let gap = rig.heard[back..].iter().take_while(|s| **s == 0).count();
            assert!(gap <= 2 * FRAME, "{pause} ticks, clock {clock_runs_on}: {gap} samples");
            assert!(rig.stats().concealed_frames <= 8);
        }
    }
}

#[test]
fn a_codec_switched_by_the_peer_ahead_of_its_sdp_is_understood() {
    let mut rig = Rig::flowing(14);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 50);
    peer.codec = Codec::Pcmu;
    rig.talk(&mut peer, CLEAN, 50);
    rig.set_media(params(20, Codec::Pcmu));
    rig.talk(&mut peer, CLEAN, 50);
    let want: Vec<i16> = (0..149 * FRAME as i64).map(signal).collect();
    let close = rig.heard[FRAME..].iter().zip(&want).all(|(a, b)| (a - b).abs() < 400);
    assert!(close, "mu-law was taken for A-law or the other way round");
    assert_eq!((rig.stats().rx_malformed, rig.stats().codec), (0, Some(Codec::Pcmu)));
    let last = rig.sent.last().map(|(_, _, d)| d[1] & 0x7F);
    assert_eq!(last, Some(0));
}

#[test]
fn digits_and_comfort_noise_are_no_audio_and_no_fault() {
    let mut rig = Rig::flowing(15);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 50);
    for payload_type in [101u8, 13, 101] {
        let mut data = peer.packet(4);
        data[1] = payload_type;
        rig.post(rig.now + MS, SocketAddr::from(PEER), data);
        rig.tick();
    }
    assert_eq!(rig.stats().rx_malformed, 0);
}

#[test]
fn a_flood_of_broken_datagrams_harms_nothing() {
    let mut rig = Rig::flowing(16);
    let mut peer = Peer::default();
    let mut random = Random::new(99);
    for _ in 0..500 {
        for _ in 0..20 {
            let mut bad = Peer { ssrc: random.below(3) as u32, ..Peer::default() }.packet(FRAME);
            for _ in 0..4 {
                let at = random.below(bad.len() as u64) as usize;
                bad[at] = random.below(256) as u8;
            }
            bad.truncate(random.below(180) as usize);
            rig.post(rig.now + MS, SocketAddr::from(PEER), bad.clone());
            rig.call.on_rtcp(rig.now, SocketAddr::from(PEER), &bad);
        }
        let data = peer.packet(FRAME);
        rig.post(rig.now + 2 * MS, SocketAddr::from(PEER), data);
        rig.tick();
    }
    // A peer that sends garbage from its own address may spoil its own audio, nothing else.
    assert!(rig.stats().rx_malformed > 100);
    rig.talk(&mut peer, CLEAN, 100);
    let tail = &rig.heard[rig.heard.len() - 40 * FRAME..];
    assert!(longest_silence(tail) < 100);
}

#[test]
fn packets_before_the_first_sdp_are_ignored() {
    let mut rig = Rig::new(&MediaConfig::default(), 17);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 10);
    assert_eq!((rig.stats().rx_packets, rig.sent.len()), (0, 0));
    let p = RtpPacket::parse(&peer.packet(FRAME)).map(|p| p.payload.len());
    assert_eq!(p, Ok(FRAME));
}

#[test]
fn the_score_of_a_call_falls_with_loss_and_needs_no_reports() {
    let scores: Vec<f64> = [0, 2, 5, 20]
        .iter()
        .map(|loss_percent| {
            let mut rig = Rig::flowing(21);
            rig.talk(&mut Peer::default(), Net { loss_percent: *loss_percent, ..CLEAN }, 1500);
            assert_eq!(rig.stats().mos_tx, None, "nobody reported");
            rig.stats().mos_rx.unwrap_or(0.0)
        })
        .collect();
    println!("mos_rx at 0, 2, 5, 20 % loss: {scores:.2?}");
    assert!(scores[0] > 4.4 && scores[3] < 3.0, "{scores:?}");
    assert!(scores.windows(2).all(|s| s[1] < s[0] - 0.1), "{scores:?}");
}
