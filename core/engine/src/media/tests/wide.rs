// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls on G.722, and the change between it and G.711.

use std::net::SocketAddr;

use super::rig::{longest_silence, params, Net, Peer, Random, Rig, MS, PEER};
use crate::media::outbox::Record;
use crate::media::{
    g722, Codec, Coding, Direction, MediaConfig, MediaError, MediaParams, Rate, FRAME, TICK_NS,
};
use crate::transport::rtp::packet::RtpPacket;

const CLEAN: Net =
    Net { loss_percent: 0, duplicate_percent: 0, jitter_ms: 0, reorder_percent: 0, reorder_ms: 0 };
/// Samples that G.722's filters hold back, both ways together.
const FILTERS: usize = 22;

/// Something with content on both sides of 4 kHz, at 16 kHz.
fn voice(at: i64) -> i16 {
    let t = at as f64 * std::f64::consts::TAU / 16_000.0;
    let level = 1.0 + 0.4 * (t * 2.0).sin();
    (((t * 400.0).sin() * 5000.0 + (t * 5600.0).sin() * 1500.0) * level) as i16
}

fn wide(samples: usize) -> Vec<i16> {
    (0..samples as i64).map(voice).collect()
}

/// A peer that sends G.722.
pub(super) struct Wide {
    pub(super) head: Peer,
    encoder: g722::Encoder,
    at: i64,
}

impl Wide {
    pub(super) fn new() -> Wide {
        let head = Peer { codec: Codec::G722, ..Peer::default() };
        Wide { head, encoder: g722::Encoder::default(), at: 0 }
    }

    /// The next packet, of so many bytes: one for each unit of RTP time.
    fn packet(&mut self, bytes: usize) -> Vec<u8> {
        let mut data = self.head.packet(bytes);
        let samples: Vec<i16> = (0..2 * bytes as i64).map(|i| voice(self.at + i)).collect();
        self.at += 2 * bytes as i64;
        self.encoder.encode(&samples, &mut data[12..]);
        data
    }

    pub(super) fn talk(&mut self, rig: &mut Rig, net: Net, ticks: usize) {
        for _ in 0..ticks {
            let data = self.packet(FRAME);
            rig.post_through(&mut self.head, net, data);
            rig.tick();
        }
    }
}

pub(super) fn calling(codec: Codec, seed: u64) -> Rig {
    let mut rig = Rig::new(&MediaConfig::default(), seed);
    rig.set_media(params(20, codec));
    rig
}

/// Signal to noise of `got` against `want`, dB.
fn quality(got: &[i16], want: &[i16]) -> f64 {
    let power = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>();
    let signal = power(&mut want.iter().map(|s| f64::from(*s)));
    let noise = power(&mut got.iter().zip(want).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    10.0 * (signal / noise.max(1.0)).log10()
}

/// The best [`quality`] over delays of up to `most` samples of `got`, and that delay.
fn aligned(got: &[i16], want: &[i16], most: usize) -> (f64, usize) {
    let score = |d: usize| (quality(&got[d..d + want.len()], want), d);
    (0..=most).map(score).fold((f64::MIN, 0), |best, s| if s.0 > best.0 { s } else { best })
}

/// Level at one frequency, relative to the samples.
fn level(pcm: &[i16], rate: Rate, hz: f64) -> f64 {
    let step = hz * std::f64::consts::TAU / f64::from(rate.hz());
    let (mut re, mut im) = (0.0, 0.0);
    for (i, s) in pcm.iter().enumerate() {
        let (sin, cos) = (i as f64 * step).sin_cos();
        re += f64::from(*s) * cos;
        im += f64::from(*s) * sin;
    }
    2.0 * f64::hypot(re, im) / pcm.len() as f64
}

/// RTP payloads sent so far, decoded as G.722.
fn sent_wide(rig: &Rig) -> Vec<i16> {
    let bytes: Vec<u8> = rig.sent.iter().flat_map(|(_, _, d)| d[12..].to_vec()).collect();
    let mut pcm = vec![0; 2 * bytes.len()];
    g722::Decoder::default().decode(&bytes, &mut pcm);
    pcm
}

/// Marker, type, sequence, timestamp of the packets sent.
fn heads(rig: &Rig) -> Vec<(bool, u8, u16, u32)> {
    let head = |d: &Vec<u8>| {
        let p = RtpPacket::parse(d).unwrap();
        (p.marker, p.payload_type, p.sequence, p.timestamp)
    };
    rig.sent.iter().map(|(_, _, d)| head(d)).collect()
}

#[test]
fn a_clean_stream_is_heard_bit_by_bit_as_its_decoder_makes_it() {
    let mut rig = calling(Codec::G722, 1);
    let mut peer = Wide::new();
    peer.talk(&mut rig, CLEAN, 200);
    let mut bytes = vec![0; 200 * FRAME];
    g722::Encoder::default().encode(&wide(400 * FRAME), &mut bytes);
    let mut want = vec![0; 400 * FRAME];
    g722::Decoder::default().decode(&bytes, &mut want);
    assert_eq!(rig.heard[2 * FRAME..], want[..398 * FRAME]);
    let (db, delay) = aligned(&rig.heard[2 * FRAME..], &wide(300 * FRAME), 40);
    assert!(db > 15.0 && delay == FILTERS, "{db} dB after {delay}");
    let s = rig.stats();
    assert_eq!((s.rate, s.codec, s.concealed_frames), (16_000, Some(Codec::G722), 0));
}

/// Field failure B31.
#[test]
fn packets_of_10_to_60_ms_mix_without_a_gap() {
    let mut rig = calling(Codec::G722, 6);
    let mut peer = Wide::new();
    let mut random = Random::new(6);
    let (start, mut spoken_ms) = (rig.now, 60);
    for _ in 0..300 {
        let ms = [10, 20, 30, 40, 60][random.below(5) as usize];
        let data = peer.packet(ms as usize * 8);
        rig.post(start + spoken_ms * MS, SocketAddr::from(PEER), data);
        spoken_ms += ms;
    }
    rig.ticks((spoken_ms / 20) as usize + 2);
    let s = rig.stats();
    assert_eq!((s.rx_packets, s.rx_lost, s.rx_late), (300, 0, 0));
    assert!(s.concealed_frames <= 6, "{s:?}");
    let tail = &rig.heard[rig.heard.len() - 60_000..rig.heard.len() - 4000];
    assert!(longest_silence(tail) < 40);
    assert!(level(tail, Rate::R16k, 5600.0) > 1000.0);
}

#[test]
fn loss_jitter_and_drift_are_dealt_with_as_at_8_khz() {
    let mut rig = calling(Codec::G722, 2);
    let mut peer = Wide::new();
    peer.talk(&mut rig, Net { loss_percent: 5, ..CLEAN }, 2000);
    let s = rig.stats();
    assert!(peer.head.lost > 50);
    // A loss before the last packet is seen when it is passed.
    assert!(peer.head.lost - s.rx_lost <= 1);
    assert!(longest_silence(&rig.heard[2 * FRAME..]) < 2 * FRAME);
    let loudest = rig.heard.iter().map(|s| s.unsigned_abs()).max();
    assert!(loudest < Some(20_000), "{loudest:?}");

    for seed in 0..3 {
        let mut rig = calling(Codec::G722, seed);
        let mut peer = Wide::new();
        let net = Net { jitter_ms: 80, ..CLEAN };
        peer.talk(&mut rig, net, 500);
        let before = rig.stats();
        peer.talk(&mut rig, net, 1500);
        let s = rig.stats();
        let new = s.concealed_frames - before.concealed_frames;
        assert!(new <= 20, "seed {seed}: {new} frames concealed");
        peer.talk(&mut rig, CLEAN, 1000);
        assert!(rig.stats().jitter_delay_ms <= 45.0, "seed {seed}: {:?}", rig.stats());
        // What was decoded ahead to play faster and slower was not lost: the tone is whole.
        let tail = &rig.heard[rig.heard.len() - 100 * 2 * FRAME..];
        assert!(level(tail, Rate::R16k, 5600.0) > 1000.0, "seed {seed}");
    }
}

#[test]
fn what_is_played_is_sent_wide_with_a_clock_of_8000() {
    let mut rig = calling(Codec::G722, 3);
    rig.ticks(3);
    let samples = wide(16_000);
    rig.play(&samples, 16_000, 5).unwrap();
    rig.finish(5);
    let first = rig.now + TICK_NS;
    rig.ticks(60);
    let pcm = sent_wide(&rig);
    let (db, delay) = aligned(&pcm[6 * FRAME..], &samples[..15_900], 40);
    assert!(db > 15.0 && delay == FILTERS, "{db} dB after {delay}");
    for (one, next) in heads(&rig).iter().zip(&heads(&rig)[1..]) {
        assert_eq!((next.1, next.3.wrapping_sub(one.3)), (9, 160));
    }
    let end = rig.events.iter().find_map(|r| match r {
        Record::PlayoutFinished { samples, at_ns, .. } => Some((*samples, *at_ns)),
        _ => None,
    });
    assert_eq!(end, Some((16_000, first + 1_000 * MS)));
    // Narrow audio becomes wide, without images.
    let mut rig = calling(Codec::G722, 3);
    let narrow: Vec<i16> = (0..8000)
        .map(|i| ((f64::from(i) * 400.0 * std::f64::consts::TAU / 8000.0).sin() * 9000.0) as i16)
        .collect();
    rig.play(&narrow, 8000, 1).unwrap();
    rig.ticks(60);
    let pcm = &sent_wide(&rig)[1000..15_000];
    assert!(level(pcm, Rate::R16k, 400.0) > 8500.0);
    assert!(level(pcm, Rate::R16k, 7600.0) < 60.0);
}

#[test]
fn silence_stays_silence() {
    let mut rig = calling(Codec::G722, 4);
    rig.ticks(50);
    assert!(sent_wide(&rig).iter().all(|s| s.abs() <= 8));
}

#[test]
fn packets_have_the_length_the_peer_asks_for() {
    for ms in [10usize, 20, 30, 40, 50, 60] {
        let mut rig = Rig::new(&MediaConfig::default(), 12);
        rig.set_media(params(ms as u8, Codec::G722));
        let samples = wide(9600);
        rig.play(&samples, 16_000, 1).unwrap();
        rig.ticks(60);
        assert_eq!(rig.sent.len(), 1200 / ms, "ptime {ms}");
        assert!(rig.sent.iter().all(|(_, _, d)| d.len() == 12 + ms * 8), "ptime {ms}");
        for (one, next) in heads(&rig).iter().zip(&heads(&rig)[1..]) {
            assert_eq!(next.3.wrapping_sub(one.3), ms as u32 * 8, "ptime {ms}");
        }
        let (db, _) = aligned(&sent_wide(&rig), &samples[..9500], 40);
        assert!(db > 15.0, "ptime {ms}: {db} dB");
        // Two packets of 10 ms leave in one tick; 30 ms leave after one tick and two in turn.
        let times: Vec<u64> =
            rig.sent.windows(2).map(|w| (w[1].0 - w[0].0) / MS).skip(2).take(6).collect();
        let want = match ms {
            10 => [0, 20, 0, 20, 0, 20],
            30 => [20, 40, 20, 40, 20, 40],
            50 => [40, 60, 40, 60, 40, 60],
            _ => [ms as u64; 6],
        };
        let turned: Vec<u64> = want.iter().cycle().skip(1).take(6).copied().collect();
        assert!(times == want || times == turned, "ptime {ms}: {times:?}");
    }
}

#[test]
fn a_call_that_began_wide_stays_wide_when_the_codec_becomes_narrow_and_wide_again() {
    let mut rig = calling(Codec::G722, 5);
    let mut peer = Wide::new();
    let samples = wide(80_000);
    rig.play(&samples, 16_000, 1).unwrap();
    peer.talk(&mut rig, CLEAN, 50);
    // The re-INVITE: the peer's packets change a little before or after we hear of it.
    let mut narrow = Peer {
        codec: Codec::Pcma,
        sequence: peer.head.sequence,
        timestamp: peer.head.timestamp,
        ..Peer::default()
    };
    rig.talk(&mut narrow, CLEAN, 3);
    rig.set_media(params(20, Codec::Pcma));
    rig.talk(&mut narrow, CLEAN, 47);
    let (middle, sent) = (rig.heard.len(), rig.sent.len());
    assert_eq!((rig.stats().rate, rig.stats().codec), (16_000, Some(Codec::Pcma)));
    // Frames stay frames of 16 kHz, and what is heard is the peer's tone of 400 Hz.
    assert_eq!(middle, 100 * 2 * FRAME);
    let heard = &rig.heard[60 * 2 * FRAME..middle];
    assert!(level(heard, Rate::R16k, 400.0) > 3000.0);
    assert!(level(heard, Rate::R16k, 7600.0) < 30.0);
    assert!(longest_silence(&rig.heard[2 * FRAME..]) < 40);
    // Ours: one stream, one clock, no marker in its middle (field failure B25).
    let all = heads(&rig);
    for (one, next) in all.iter().zip(&all[1..]) {
        assert_eq!((next.2.wrapping_sub(one.2), next.3.wrapping_sub(one.3)), (1, 160));
        assert!(!next.0);
    }
    assert_eq!((all[52].1, all[53].1), (9, 8));
    let g711 = &rig.sent[60..sent];
    let bytes: Vec<u8> = g711.iter().flat_map(|(_, _, d)| d[12..].to_vec()).collect();
    let mut pcm = vec![0; bytes.len()];
    crate::media::g711::decode(crate::media::g711::Law::A, &bytes, &mut pcm);
    assert!(level(&pcm, Rate::R8k, 400.0) > 4000.0);
    assert!(level(&pcm, Rate::R8k, 2400.0) < 30.0, "5600 Hz has folded into the band");
    // And back.
    rig.set_media(params(20, Codec::G722));
    let mut again = Wide::new();
    again.head.sequence = narrow.sequence;
    again.head.timestamp = narrow.timestamp;
    again.talk(&mut rig, CLEAN, 50);
    let tail = &rig.heard[rig.heard.len() - 40 * 2 * FRAME..];
    assert!(level(tail, Rate::R16k, 5600.0) > 1000.0);
    // The turn went on through it all, and is counted at the call's rate.
    rig.clear(None);
    rig.tick();
    let done = rig.events.iter().find_map(|r| match r {
        Record::PlayoutFinished { samples, .. } => Some(*samples),
        _ => None,
    });
    assert_eq!(done, Some(150 * 320 + 80));
}

#[test]
fn a_call_that_began_narrow_stays_narrow() {
    let mut rig = calling(Codec::Pcma, 7);
    let mut peer = Peer::default();
    rig.play(&(0..8000 * 4).map(|i| voice(2 * i)).collect::<Vec<_>>(), 8000, 1).unwrap();
    rig.talk(&mut peer, CLEAN, 50);
    rig.set_media(params(20, Codec::G722));
    let mut wide = Wide::new();
    wide.head.sequence = peer.sequence;
    wide.head.timestamp = peer.timestamp;
    let sent = rig.sent.len();
    wide.talk(&mut rig, CLEAN, 100);
    assert_eq!((rig.stats().rate, rig.stats().codec), (8000, Some(Codec::G722)));
    assert_eq!(rig.heard.len(), 150 * FRAME);
    let heard = &rig.heard[60 * FRAME..];
    assert!(level(heard, Rate::R8k, 400.0) > 4000.0);
    assert!(level(heard, Rate::R8k, 2400.0) < 30.0, "5600 Hz has folded into the band");
    rig.sent.drain(..sent);
    assert!(rig.sent.iter().all(|(_, _, d)| d[1] == 9 && d.len() == 172));
    let pcm = sent_wide(&rig);
    assert!(level(&pcm[4000..28_000], Rate::R16k, 400.0) > 4000.0);
}

#[test]
fn over_a_hold_the_clock_runs_on_and_the_first_packet_is_marked() {
    let mut rig = calling(Codec::G722, 8);
    rig.ticks(10);
    let hold = MediaParams { direction: Direction::RecvOnly, ..params(20, Codec::G722) };
    rig.set_media(hold);
    rig.ticks(100);
    // Resumed with another codec and another packet length.
    rig.set_media(params(40, Codec::Pcmu));
    rig.ticks(10);
    let all = heads(&rig);
    assert_eq!(all.len(), 15);
    let ((_, _, s0, t0), (marker, kind, s1, t1)) = (all[9], all[10]);
    assert_eq!((marker, kind, s1.wrapping_sub(s0)), (true, 0, 1));
    assert_eq!(t1.wrapping_sub(t0), 101 * 160);
    assert_eq!((all[11].0, all[11].3.wrapping_sub(t1)), (false, 320));
}

#[test]
fn what_is_played_before_the_codec_is_known_waits_for_it() {
    for codec in [Codec::G722, Codec::Pcma] {
        let mut rig = Rig::new(&MediaConfig { playout_max_s: 2.0, ..MediaConfig::default() }, 9);
        rig.play(&wide(16_000)[..8000], 16_000, 1).unwrap();
        rig.play(&wide(16_000)[8000..], 16_000, 1).unwrap();
        assert!(matches!(rig.play(&[0; 10], 7000, 2), Err(MediaError::BadRate { .. })));
        assert!(matches!(rig.play(&[0; 10], 8000, 1), Err(MediaError::BadRate { .. })));
        rig.finish(1);
        // After its end a turn takes no more; a turn that is cleared is never heard.
        rig.play(&[9000; 100], 16_000, 1).unwrap();
        rig.play(&[9000; 8000], 8000, 2).unwrap();
        let full = rig.play(&[0; 8], 8000, 3);
        assert!(matches!(full, Err(MediaError::PlayoutFull { queued_ms: 2000, .. })), "{full:?}");
        rig.clear(Some(2));
        rig.play(&[0; 800], 8000, 3).unwrap();
        rig.finish(3);
        rig.finish(4);
        rig.ticks(5);
        rig.set_media(params(20, codec));
        rig.ticks(100);
        let ends: Vec<_> = rig
            .events
            .iter()
            .filter_map(|r| match r {
                Record::PlayoutFinished { turn, samples, interrupted, .. } => {
                    Some((*turn, *samples, *interrupted))
                }
                _ => None,
            })
            .collect();
        let per = codec.rate().per_unit() as u64;
        let want = [(2, 0, true), (1, 8000 * per, false), (3, 800 * per, false)];
        let mut sorted = ends.clone();
        sorted.sort_unstable();
        let mut want: Vec<_> = want.into_iter().chain([(4, 0, false)]).collect();
        want.sort_unstable();
        assert_eq!(sorted, want, "{codec:?}");
        assert_eq!(rig.voice.queued(), 0);
    }
}

#[test]
fn speech_is_told_at_16_khz_with_its_audio() {
    let mut rig = calling(Codec::G722, 15);
    let mut peer = Wide::new();
    peer.talk(&mut rig, CLEAN, 100);
    rig.probability = 0.55;
    peer.talk(&mut rig, CLEAN, 100);
    rig.probability = 0.0;
    peer.talk(&mut rig, CLEAN, 100);
    let (mut from, mut to, mut first) = (0, 0, 0);
    for r in &rig.events {
        match r {
            Record::SpeechStarted { at_ns, decided_ns, .. } => {
                from = *at_ns;
                assert!((64..=120).contains(&((decided_ns - at_ns) / MS)));
            }
            Record::SpeechEnded { at_ns, decided_ns, .. } => {
                to = *at_ns;
                assert!((600..=680).contains(&((decided_ns - at_ns) / MS)));
            }
            Record::Audio { at_ns, .. } if first == 0 => first = *at_ns,
            _ => {}
        }
    }
    assert_eq!(first, from - 300 * MS);
    let audio: Vec<i16> =
        rig.audio.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
    assert!(audio.len() as u64 > (to - from) / 62_500 + 4800);
    assert!(rig.heard.windows(audio.len()).any(|w| w == audio));
}
