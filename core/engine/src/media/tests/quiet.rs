// SPDX-License-Identifier: GPL-3.0-or-later
//! Comfort noise: what is heard of a peer that sends nothing while its user is silent.

use std::net::SocketAddr;

use super::rig::Rig;
use super::rig::{longest_silence, Net, Peer, MS, PEER};
use super::wide::{calling, Wide};
use crate::media::{Codec, Coding, FRAME};

const CLEAN: Net =
    Net { loss_percent: 0, duplicate_percent: 0, jitter_ms: 0, reorder_percent: 0, reorder_ms: 0 };

fn noise(head: &mut Peer, level: u8) -> Vec<u8> {
    let mut data = head.packet(0);
    data[1] = 13;
    data.push(level);
    data
}

fn dbov(v: &[i16]) -> f64 {
    let power = v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len() as f64;
    20.0 * (power.sqrt() / 32_768.0).log10()
}

#[test]
fn comfort_noise_takes_the_place_of_a_silent_peers_audio() {
    for (codec, pause) in
        [(Codec::Pcma, 20), (Codec::Pcma, 300), (Codec::G722, 20), (Codec::G722, 300)]
    {
        let mut rig = calling(codec, 10);
        let per = codec.rate().per_unit();
        let mut peer = Wide::new();
        peer.head.codec = codec;
        let talk = |rig: &mut Rig, peer: &mut Wide, ticks: usize| match codec {
            Codec::G722 => peer.talk(rig, CLEAN, ticks),
            _ => rig.talk(&mut peer.head, CLEAN, ticks),
        };
        talk(&mut rig, &mut peer, 50);
        let from = rig.heard.len();
        let data = noise(&mut peer.head, 50);
        rig.post(rig.now + 15 * MS, SocketAddr::from(PEER), data);
        rig.ticks(pause);
        peer.head.timestamp = peer.head.timestamp.wrapping_add((pause * FRAME) as u32);
        let back = rig.heard.len();
        talk(&mut rig, &mut peer, 20);
        // The last frame of the voice is still to be played when the noise arrives.
        let quiet = &rig.heard[from + 3 * FRAME * per..back];
        let db = dbov(quiet);
        assert!((db + 50.0).abs() < 1.5, "{codec:?}, {pause} ticks: {db}");
        assert!(longest_silence(quiet) < 40 * per);
        assert_eq!(rig.stats().concealed_frames, 0, "{codec:?}, {pause} ticks");
        let voice = &rig.heard[back + 3 * FRAME * per..];
        assert!(dbov(voice) > -25.0, "{codec:?}, {pause} ticks: {}", dbov(voice));
        let s = rig.stats();
        assert_eq!((s.rx_lost, s.rx_malformed, s.rx_late), (0, 0, 0));
    }
}

#[test]
fn news_of_the_background_changes_its_level_without_a_gap() {
    for codec in [Codec::Pcma, Codec::G722] {
        let mut rig = calling(codec, 12);
        let mut head = Peer { codec, ..Peer::default() };
        // A call that begins with silence.
        for level in [60u8, 60, 40, 40] {
            let data = noise(&mut head, level);
            rig.post(rig.now + 15 * MS, SocketAddr::from(PEER), data);
            rig.ticks(10);
            head.timestamp = head.timestamp.wrapping_add(1600);
        }
        let frame = codec.rate().frame();
        for (from, to, want) in [(2, 20, -60.0), (22, 40, -40.0)] {
            for part in rig.heard[from * frame..to * frame].chunks(3 * frame) {
                assert!((dbov(part) - want).abs() < 3.0, "{codec:?}: {} for {want}", dbov(part));
            }
        }
        assert_eq!(rig.stats().concealed_frames, 0);
    }
}

#[test]
fn a_loss_within_speech_after_comfort_noise_is_concealed_again() {
    let mut rig = calling(Codec::Pcma, 11);
    let mut peer = Peer::default();
    rig.talk(&mut peer, CLEAN, 20);
    let data = noise(&mut peer, 60);
    rig.post(rig.now + 15 * MS, SocketAddr::from(PEER), data);
    rig.ticks(10);
    peer.timestamp = peer.timestamp.wrapping_add(1600);
    rig.talk(&mut peer, CLEAN, 20);
    peer.packet(FRAME);
    rig.talk(&mut peer, CLEAN, 20);
    assert_eq!(rig.stats().concealed_frames, 1);
}
