// SPDX-License-Identifier: GPL-3.0-or-later
//! What of the caller's audio is handed over, and in what portions.

use super::rig::{is_signal, params, Net, Peer, Rig};
use crate::media::outbox::Record;
use crate::media::{Codec, Delivered, Delivery, ListenChange, MediaConfig, VadConfig, FRAME};
use crate::signal::listener::Refit;

/// Samples of the portions so far.
fn portions(rig: &Rig) -> Vec<usize> {
    let pick = |r: &Record| match r {
        Record::Audio { len, .. } => Some(len / 2),
        _ => None,
    };
    rig.events.iter().filter_map(pick).collect()
}

fn handed(rig: &Rig) -> Vec<i16> {
    rig.audio.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect()
}

fn rig(what: Delivered, chunk_ms: u32, listens: bool) -> Rig {
    let vad = VadConfig { enabled: listens, ..VadConfig::default() };
    let delivery = Delivery { what, chunk_ms };
    let mut rig = Rig::new(&MediaConfig { vad, delivery, ..MediaConfig::default() }, 1);
    rig.set_media(params(20, Codec::Pcma));
    rig
}

fn talk(rig: &mut Rig, peer: &mut Peer, ticks: usize, probability: f32) {
    rig.probability = probability;
    rig.talk(peer, Net::default(), ticks);
}

#[test]
fn every_frame_is_handed_over_once_whether_it_is_listened_to_or_not() {
    for listens in [true, false] {
        let mut rig = rig(Delivered::Frames, 20, listens);
        let mut peer = Peer::default();
        talk(&mut rig, &mut peer, 40, 0.1);
        talk(&mut rig, &mut peer, 40, 0.9);
        talk(&mut rig, &mut peer, 60, 0.1);
        assert_eq!(portions(&rig), vec![FRAME; 140], "listens: {listens}");
        assert!(is_signal(&handed(&rig)[FRAME..], 0));
        let speech = |r: &Record| matches!(r, Record::SpeechStarted { .. });
        assert_eq!(rig.events.iter().any(speech), listens);
        // Each frame has the time of its arrival.
        let at: Vec<u64> = rig
            .events
            .iter()
            .filter_map(|r| match r {
                Record::Audio { at_ns, .. } => Some(*at_ns),
                _ => None,
            })
            .collect();
        assert!(at[3..].windows(2).all(|w| w[1] - w[0] == 20_000_000), "{at:?}");
    }
}

#[test]
fn portions_have_the_set_length_and_a_call_that_ends_hands_over_the_rest() {
    let mut rig = rig(Delivered::Frames, 100, false);
    let mut peer = Peer::default();
    talk(&mut rig, &mut peer, 52, 0.1);
    assert_eq!(portions(&rig), vec![5 * FRAME; 10]);
    rig.close();
    assert_eq!(portions(&rig).last(), Some(&(2 * FRAME)));
}

#[test]
fn speech_comes_in_portions_behind_its_pre_roll() {
    let mut rig = rig(Delivered::Speech, 200, true);
    let mut peer = Peer::default();
    talk(&mut rig, &mut peer, 80, 0.1);
    assert!(portions(&rig).is_empty());
    talk(&mut rig, &mut peer, 57, 0.9);
    talk(&mut rig, &mut peer, 60, 0.1);
    let portions = portions(&rig);
    let (first, last) = (portions[0], portions[portions.len() - 1]);
    // 300 ms of pre-roll and the onset at once.
    assert!((332 * 8..=372 * 8).contains(&first), "{portions:?}");
    assert!(portions[1..portions.len() - 1].iter().all(|n| *n == 10 * FRAME), "{portions:?}");
    assert!(last <= 10 * FRAME);
    // Nothing is missing, nothing comes twice, and the end of speech comes behind its audio.
    let audio = handed(&rig);
    let begin = (60..80 * FRAME as i64).find(|at| is_signal(&audio, *at));
    assert!(begin.is_some());
    assert!(matches!(rig.events.last(), Some(Record::SpeechEnded { .. })), "{:?}", rig.events);
}

#[test]
fn a_call_may_change_its_mind() {
    let mut rig = rig(Delivered::Speech, 20, true);
    let mut peer = Peer::default();
    let change = |what, chunk_ms| {
        let what = Some(what);
        Refit::new(ListenChange { what, chunk_ms, ..Default::default() })
    };
    talk(&mut rig, &mut peer, 50, 0.1);
    // What was heard before is not handed over after all.
    rig.call.listen(&mut change(Delivered::Frames, Some(40)));
    talk(&mut rig, &mut peer, 20, 0.1);
    assert_eq!(portions(&rig), vec![2 * FRAME; 10]);
    assert!(is_signal(&handed(&rig), 49 * FRAME as i64));
    rig.call.listen(&mut change(Delivered::Speech, None));
    talk(&mut rig, &mut peer, 20, 0.1);
    assert_eq!(portions(&rig).len(), 10);
    // The pre-roll is as long as ever.
    talk(&mut rig, &mut peer, 10, 0.9);
    assert!(portions(&rig)[10] >= 332 * 8, "{:?}", portions(&rig));
    assert_eq!(portions(&rig)[11], 2 * FRAME);
}
