// SPDX-License-Identifier: GPL-3.0-or-later
//! What the agent says, and how it leaves.

use super::rig::{largest_step, longest_silence, params, Rig, MS, PEER};
use crate::media::outbox::Record;
use crate::media::{Codec, Direction, MediaConfig, MediaError, MediaParams, FRAME, TICK_NS};
use crate::transport::rtp::packet::RtpPacket;

/// A tone of 250 Hz from sample `from` on.
fn tone(from: usize, n: usize) -> Vec<i16> {
    (from..from + n)
        .map(|i| ((i as f64 * std::f64::consts::TAU / 32.0).sin() * 9000.0) as i16)
        .collect()
}

fn started(rig: &Rig) -> Vec<(u64, u64)> {
    let pick = |r: &Record| match r {
        Record::PlayoutStarted { turn, at_ns, .. } => Some((*turn, *at_ns)),
        _ => None,
    };
    rig.events.iter().filter_map(pick).collect()
}

/// Turn, samples, interrupted.
fn finished(rig: &Rig) -> Vec<(u64, u64, bool)> {
    let pick = |r: &Record| match r {
        Record::PlayoutFinished { turn, samples, interrupted, .. } => {
            Some((*turn, *samples, *interrupted))
        }
        _ => None,
    };
    rig.events.iter().filter_map(pick).collect()
}

fn close_to(a: &[i16], b: &[i16]) -> bool {
    // A-law of 9000 is right to about 3 percent.
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 260)
}

#[test]
fn silence_is_sent_while_nobody_speaks() {
    let mut rig = Rig::flowing(1);
    rig.ticks(100);
    assert_eq!(rig.sent.len(), 100);
    assert!(rig.sent.iter().all(|(_, _, d)| d.len() == 172 && d[12..].iter().all(|b| *b == 0xD5)));
    let markers = rig.sent.iter().filter(|(_, _, d)| d[1] & 0x80 != 0).count();
    assert_eq!((markers, rig.sent[0].2[1]), (1, 0x88));
}

#[test]
fn a_turn_is_sent_whole_and_told() {
    let mut rig = Rig::flowing(2);
    rig.ticks(3);
    rig.play(&tone(0, 1000), 8000, 5).unwrap();
    rig.play(&tone(1000, 500), 8000, 5).unwrap();
    rig.finish(5);
    let first = rig.now + TICK_NS;
    rig.ticks(20);
    assert_eq!(started(&rig), [(5, first)]);
    assert_eq!(finished(&rig), [(5, 1500, false)]);
    let end = rig.events.iter().find_map(|r| match r {
        Record::PlayoutFinished { at_ns, .. } => Some(*at_ns),
        _ => None,
    });
    assert_eq!(end, Some(first + 1500 * 125_000));
    let pcm = rig.sent_pcm();
    assert!(close_to(&pcm[3 * FRAME..3 * FRAME + 1500], &tone(0, 1500)));
    // Cut off in mid-wave it fades out.
    assert!(pcm[3 * FRAME + 1540..].iter().all(|s| s.abs() <= 8));
    assert!(largest_step(&pcm) <= largest_step(&tone(0, 400)) + 300);
    assert_eq!(rig.stats().playout_underruns, 0);
}

#[test]
fn a_turn_that_begins_and_ends_in_mid_wave_does_not_click() {
    for (from, n) in [(8, 1000), (8, 320), (24, 13), (40, 160)] {
        for before in [0, 30, 150] {
            let mut rig = Rig::flowing(17);
            rig.ticks(1);
            rig.play(&vec![0; before], 8000, 1).unwrap();
            rig.finish(1);
            for (i, part) in tone(from, n).chunks(29).enumerate() {
                rig.play(part, 8000, 2).unwrap();
                if i == 7 {
                    rig.ticks(1);
                }
            }
            rig.finish(2);
            rig.ticks(12);
            let pcm = rig.sent_pcm();
            let step = largest_step(&pcm);
            assert!(step <= largest_step(&tone(0, 400)) + 300, "{from} {n} {before}: {step}");
            let start = FRAME + before;
            let (whole, skip) = (tone(from, n), 40.min(n));
            assert!(close_to(&pcm[start + skip..start + n], &whole[skip..]), "{from} {n} {before}");
        }
    }
}

#[test]
fn turns_follow_each_other_without_a_gap() {
    let mut rig = Rig::flowing(3);
    for turn in 0..5u64 {
        rig.play(&tone(turn as usize * 500, 500), 8000, turn).unwrap();
        rig.finish(turn);
    }
    rig.ticks(20);
    assert!(close_to(&rig.sent_pcm()[..2500], &tone(0, 2500)));
    let turns: Vec<_> = (0..5).map(|t| (t, 500, false)).collect();
    assert_eq!(finished(&rig), turns);
    assert_eq!(started(&rig).len(), 5);
}

#[test]
fn clear_falls_silent_within_the_next_packet_and_without_a_click() {
    let mut rig = Rig::flowing(4);
    rig.play(&tone(0, 80_000), 8000, 1).unwrap();
    rig.play(&tone(0, 80_000), 8000, 2).unwrap();
    rig.finish(1);
    rig.ticks(50);
    rig.clear(None);
    rig.ticks(10);
    let pcm = rig.sent_pcm();
    // 5 ms of fade, then nothing.
    assert!(pcm[50 * FRAME + 40..].iter().all(|s| s.abs() <= 8));
    assert!(pcm[50 * FRAME..50 * FRAME + 30].iter().any(|s| s.abs() > 500));
    assert!(largest_step(&pcm) <= largest_step(&pcm[..49 * FRAME]) + 300);
    // What was heard, to the sample; the other turn was never heard.
    let mut told = finished(&rig);
    told.sort_unstable();
    assert_eq!(told, [(1, 50 * FRAME as u64 + 40, true), (2, 0, true)]);
    // Audio that comes late for a cleared turn is ignored.
    rig.play(&tone(0, 800), 8000, 1).unwrap();
    rig.finish(1);
    rig.ticks(10);
    assert_eq!(finished(&rig).len(), 2);
    assert!(rig.sent_pcm()[51 * FRAME..].iter().all(|s| s.abs() <= 8));
}

#[test]
fn clearing_one_turn_leaves_the_others() {
    let mut rig = Rig::flowing(5);
    rig.play(&tone(0, 8000), 8000, 1).unwrap();
    rig.play(&tone(0, 1600), 8000, 2).unwrap();
    rig.play(&tone(0, 8000), 8000, 3).unwrap();
    for turn in 1..=3 {
        rig.finish(turn);
    }
    rig.ticks(5);
    rig.clear(Some(3));
    rig.ticks(5);
    assert_eq!(finished(&rig), [(3, 0, true)]);
    rig.clear(Some(1));
    rig.ticks(20);
    assert_eq!(finished(&rig)[1..], [(1, 1600 + 40, true), (2, 1600, false)]);
    assert_eq!(rig.voice.queued(), 0);
}

#[test]
fn a_cleared_queue_takes_a_new_turn_in_the_same_tick() {
    let mut rig = Rig::flowing(6);
    rig.play(&tone(0, 8000), 8000, 1).unwrap();
    rig.ticks(10);
    rig.clear(None);
    rig.play(&tone(0, 1600), 8000, 2).unwrap();
    rig.finish(2);
    rig.ticks(15);
    let pcm = rig.sent_pcm();
    assert!(close_to(&pcm[10 * FRAME + 40..10 * FRAME + 1640], &tone(0, 1600)));
    assert_eq!(finished(&rig), [(1, 1640, true), (2, 1600, false)]);
}

#[test]
fn a_slow_voice_runs_dry_softly_and_is_counted_once_a_gap() {
    let mut rig = Rig::flowing(7);
    for part in 0..3 {
        rig.play(&tone(part * 400, 400), 8000, 1).unwrap();
        rig.ticks(10);
    }
    rig.finish(1);
    rig.ticks(2);
    assert_eq!(rig.stats().playout_underruns, 3);
    assert_eq!(finished(&rig), [(1, 1200, false)]);
    let clean = largest_step(&tone(0, 400));
    assert!(largest_step(&rig.sent_pcm()) <= clean + 300);
}

#[test]
fn an_end_without_audio_is_told_too() {
    let mut rig = Rig::flowing(8);
    rig.finish(9);
    rig.play(&[], 24_000, 10).unwrap();
    rig.finish(10);
    rig.ticks(2);
    assert_eq!(finished(&rig), [(9, 0, false), (10, 0, false)]);
    assert_eq!(started(&rig), []);
}

/// Field failure B45.
#[test]
fn chunks_of_any_byte_count_sound_the_same() {
    let bytes: Vec<u8> = (0..24_000)
        .map(|i| ((f64::from(i) * 0.05).sin() * 9000.0) as i16)
        .flat_map(i16::to_le_bytes)
        .collect();
    let mut all = Vec::new();
    for size in [48_000usize, 4063, 1697, 3, 1] {
        let mut rig = Rig::flowing(9);
        for chunk in bytes.chunks(size) {
            rig.play_bytes(chunk, 24_000, 1).unwrap();
        }
        rig.finish(1);
        rig.ticks(60);
        assert_eq!(finished(&rig), [(1, 8000, false)], "chunks of {size}");
        all.push(rig.sent_pcm());
    }
    assert!(all.windows(2).all(|w| w[0] == w[1]));
}

#[test]
fn a_full_queue_takes_nothing_of_the_chunk() {
    let mut rig = Rig::new(&MediaConfig { playout_max_s: 2.0, ..MediaConfig::default() }, 10);
    rig.set_media(params(20, Codec::Pcma));
    rig.play(&tone(0, 12_000), 8000, 1).unwrap();
    let refused = rig.play(&tone(0, 4001), 8000, 1);
    assert!(matches!(refused, Err(MediaError::PlayoutFull { queued_ms: 1500, .. })));
    assert_eq!(rig.voice.queued(), 12_000);
    rig.play(&tone(0, 4000), 8000, 1).unwrap();
    rig.ticks(10);
    rig.play(&tone(0, 1600), 8000, 1).unwrap();
    assert!(rig.play(&tone(0, 1), 8000, 1).is_err());
    // Another turn is refused as well, and then knows nothing.
    assert!(rig.play(&tone(0, 1), 8000, 2).is_err());
    rig.clear(None);
    rig.play(&tone(0, 160), 8000, 2).unwrap();
    rig.finish(2);
    rig.ticks(5);
    assert_eq!(finished(&rig), [(1, 1640, true), (2, 160, false)]);
}

#[test]
fn unusable_rates_are_refused() {
    let mut rig = Rig::flowing(11);
    assert!(matches!(rig.play(&[0; 10], 7000, 1), Err(MediaError::BadRate { rate: 7000 })));
    rig.play(&[0; 10], 16_000, 1).unwrap();
    assert!(matches!(rig.play(&[0; 10], 24_000, 1), Err(MediaError::BadRate { .. })));
}

#[test]
fn packets_have_the_length_the_peer_asks_for() {
    for (asked, got) in
        [(10, 10), (20, 20), (30, 30), (40, 40), (60, 60), (0, 20), (25, 30), (200, 60)]
    {
        let mut rig = Rig::new(&MediaConfig::default(), 12);
        rig.set_media(params(asked, Codec::Pcmu));
        rig.play(&tone(0, 4800), 8000, 1).unwrap();
        rig.finish(1);
        rig.ticks(60);
        let samples = got as usize * 8;
        assert_eq!(rig.sent.len(), 60 * 160 / samples, "ptime {asked}");
        let mut last: Option<(u16, u32)> = None;
        for (_, _, data) in &rig.sent {
            assert_eq!(data.len(), 12 + samples);
            let p = RtpPacket::parse(data).unwrap();
            if let Some((sequence, timestamp)) = last {
                assert_eq!(p.sequence, sequence.wrapping_add(1));
                assert_eq!(p.timestamp, timestamp.wrapping_add(samples as u32));
            }
            last = Some((p.sequence, p.timestamp));
        }
        assert!(close_to(&rig.sent_pcm()[..4800], &tone(0, 4800)), "ptime {asked}");
        // The start is told for the moment the packet with the first sample left.
        let left = rig.sent.first().map(|(at, _, _)| *at);
        assert_eq!(started(&rig).first().map(|s| s.1), left, "ptime {asked}");
    }
}

#[test]
fn on_hold_nothing_is_sent_and_the_turn_waits() {
    let mut rig = Rig::flowing(13);
    let hold = MediaParams { direction: Direction::RecvOnly, ..params(20, Codec::Pcma) };
    rig.play(&tone(0, 8000), 8000, 1).unwrap();
    rig.finish(1);
    rig.ticks(10);
    rig.set_media(hold);
    rig.ticks(100);
    assert_eq!(rig.sent.len(), 10);
    assert_eq!(finished(&rig), []);
    rig.set_media(params(20, Codec::Pcma));
    rig.ticks(50);
    assert_eq!(finished(&rig), [(1, 8000, false)]);
    assert!(close_to(&rig.sent_pcm()[..8000], &tone(0, 8000)));
    let head = |i: usize| {
        let p = RtpPacket::parse(&rig.sent[i].2).unwrap();
        (p.marker, p.sequence, p.timestamp)
    };
    let ((_, s0, t0), (marker, s1, t1)) = (head(9), head(10));
    assert_eq!((marker, s1.wrapping_sub(s0), t1.wrapping_sub(t0)), (true, 1, 101 * 160));
    assert!(!head(11).0);
}

#[test]
fn an_sdp_with_an_address_of_zeros_or_port_0_gets_nothing() {
    for to in [([0u8, 0, 0, 0], 4000u16), ([127, 0, 0, 2], 0)] {
        let mut rig = Rig::flowing(16);
        rig.set_media(MediaParams { remote_rtp: to.into(), ..params(20, Codec::Pcma) });
        rig.ticks(10);
        assert_eq!(rig.sent.len(), 0);
        rig.set_media(params(20, Codec::Pcma));
        rig.ticks(10);
        assert_eq!(rig.sent.len(), 10);
    }
}

#[test]
fn silence_of_the_peer_is_told_once_and_not_on_hold() {
    let cfg = MediaConfig { media_timeout_s: 3.0, ..MediaConfig::default() };
    let timeouts = |rig: &Rig| -> Vec<u64> {
        let pick = |r: &Record| match r {
            Record::MediaTimeout { silent_ns, .. } => Some(*silent_ns / MS),
            _ => None,
        };
        rig.events.iter().filter_map(pick).collect()
    };
    let mut rig = Rig::new(&cfg, 14);
    // Before media flows there is nothing to wait for.
    rig.ticks(500);
    assert_eq!(timeouts(&rig), []);
    rig.set_media(params(20, Codec::Pcma));
    rig.ticks(500);
    assert_eq!(timeouts(&rig), [3000]);
    let mut peer = super::rig::Peer::default();
    rig.talk(&mut peer, super::rig::Net::default(), 10);
    // Packets that cannot be decoded are no sign of life (B23).
    for _ in 0..200 {
        let mut data = peer.packet(FRAME);
        data[1] = 96;
        rig.post(rig.now + MS, PEER.into(), data);
        rig.tick();
    }
    assert_eq!(timeouts(&rig).len(), 2);
    for direction in [Direction::SendOnly, Direction::Inactive] {
        rig.set_media(MediaParams { direction, ..params(20, Codec::Pcma) });
        rig.ticks(500);
    }
    rig.set_media(params(20, Codec::Pcma));
    rig.ticks(100);
    assert_eq!(timeouts(&rig).len(), 2);
    rig.ticks(100);
    assert_eq!(timeouts(&rig).len(), 3);
}

#[test]
fn speech_is_told_with_its_audio() {
    let mut rig = Rig::flowing(15);
    let mut peer = super::rig::Peer::default();
    rig.talk(&mut peer, super::rig::Net::default(), 100);
    rig.probability = 0.55; // speech, but not sure
    rig.talk(&mut peer, super::rig::Net::default(), 100);
    rig.probability = 0.0;
    rig.talk(&mut peer, super::rig::Net::default(), 100);
    let edges: Vec<_> = rig
        .events
        .iter()
        .filter(|r| matches!(r, Record::SpeechStarted { .. } | Record::SpeechEnded { .. }))
        .collect();
    let [Record::SpeechStarted { at_ns: from, decided_ns, .. }, Record::SpeechEnded { at_ns: to, decided_ns: over, .. }] =
        edges[..]
    else {
        unreachable!("{edges:?}")
    };
    // Two windows of 32 ms behind 20 ms of buffer and up to a window of alignment.
    assert!((64..=120).contains(&((decided_ns - from) / MS)), "{}", (decided_ns - from) / MS);
    assert!((600..=680).contains(&((over - to) / MS)), "{}", (over - to) / MS);
    let audio: Vec<i16> =
        rig.audio.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
    let first = rig.events.iter().find_map(|r| match r {
        Record::Audio { at_ns, .. } => Some(*at_ns),
        _ => None,
    });
    assert_eq!(first, Some(from - 300 * MS));
    assert!(audio.len() as u64 > (to - from) / 125_000 + 2400);
    let heard = rig.heard.windows(audio.len()).position(|w| w == audio);
    assert!(heard.is_some(), "handed over is what was heard, without a gap");
    assert!(longest_silence(&audio) < 20);
}
