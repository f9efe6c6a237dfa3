// SPDX-License-Identifier: GPL-3.0-or-later
//! G.722, packet times and comfort noise in offer and answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{body, Stage, Uac};
use pjsip_sys::Codec;

/// Ours with all there is.
const LOCAL: &str = "v=0\r\no=- 7 7 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 30000 RTP/AVP 8 0 9 13 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:9 G722/8000\r\na=rtpmap:13 CN/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-16\r\na=ptime:20\r\na=sendrecv\r\n";

/// An offer with these formats and lines.
fn offer(formats: &str, lines: &str) -> String {
    format!(
        "v=0\r\no=peer 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio 40000 RTP/AVP {formats}\r\n{lines}"
    )
}

/// The peer's offer answered with [`LOCAL`]; gives our answer.
fn answer_to(s: &mut Stage, offer: &str) -> (Uac, String) {
    let mut uac = Uac::new(s);
    s.send(uac.invite(Some(offer)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    uac.learn(&ok);
    s.send(uac.ack(None));
    (uac, body(&ok).to_owned())
}

#[test]
fn the_peers_first_choice_is_taken_and_g722_has_a_clock_of_8000() {
    let mut s = Stage::new();
    for (lines, map) in [
        ("a=rtpmap:9 G722/8000\r\n", "a=rtpmap:9 G722/8000"),
        // Without the line the static number says it; with the sampling rate in it, it is meant.
        ("", "a=rtpmap:9 G722/8000"),
        ("a=rtpmap:9 G722/16000\r\n", "a=rtpmap:9 G722/8000"),
    ] {
        let (_, answer) = answer_to(&mut s, &offer("9 8", lines));
        assert!(answer.contains("m=audio 30000 RTP/AVP 9\r\n"), "{answer}");
        assert!(answer.contains(map), "{answer}");
        let media = s.media();
        assert_eq!((media.codec, media.payload_type), (Codec::G722, 9));
        s.confirmed();
    }
}

#[test]
fn a_switch_between_narrow_and_wide_and_a_number_of_their_own() {
    let mut s = Stage::new();
    let (mut uac, _) = answer_to(&mut s, &offer("9 101", "a=rtpmap:101 telephone-event/8000\r\n"));
    let media = s.media();
    assert_eq!((media.codec, media.telephone_event), (Codec::G722, Some(101)));
    s.confirmed();
    s.send(uac.invite(Some(&offer("8", ""))));
    s.receive_line("200");
    s.send(uac.ack(None));
    assert_eq!(s.media().codec, Codec::Pcma);
    s.send(uac.invite(Some(&offer("108", "a=rtpmap:108 G722/8000\r\n"))));
    s.receive_line("200");
    s.send(uac.ack(None));
    let media = s.media();
    assert_eq!((media.codec, media.payload_type, media.rx_payload_type), (Codec::G722, 108, 108));
}

#[test]
fn comfort_noise_is_answered_where_offered_and_is_never_the_codec() {
    let mut s = Stage::new();
    for (formats, lines, answered, noise) in [
        ("8 13", "", "8 13", Some(13)),
        ("8", "", "8", None),
        // First in the offer, it is still no codec.
        ("13 9 8", "", "13 9", Some(13)),
        ("13 13 0 8 13", "", "13 0", Some(13)),
        ("0 118", "a=rtpmap:118 CN/8000\r\n", "0 118", Some(118)),
        ("118 0", "a=rtpmap:118 CN/8000\r\n", "118 0", Some(118)),
        // One for another clock goes with none of our codecs.
        ("118 0", "a=rtpmap:118 CN/16000\r\n", "0", None),
    ] {
        let (_, answer) = answer_to(&mut s, &offer(formats, lines));
        let line = format!("m=audio 30000 RTP/AVP {answered}\r\n");
        assert!(answer.contains(&line), "{formats}: {answer}");
        let media = s.media();
        assert_eq!(media.comfort_noise, noise, "{formats}");
        assert_ne!(media.payload_type, 13, "{formats}");
        s.confirmed();
    }
}

#[test]
fn comfort_noise_alone_is_no_offer_of_audio() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(&offer("13", ""))));
    assert_eq!(s.rejected(), 488);
}

#[test]
fn in_mid_call_comfort_noise_is_only_offered_to_whom_it_was_agreed_with() {
    let mut s = Stage::new();
    for (formats, has) in [("8 13", true), ("8", false)] {
        let (mut uac, _) = answer_to(&mut s, &offer(formats, ""));
        s.media();
        s.confirmed();
        s.send(uac.invite(None));
        let ok = s.receive_line("200");
        assert_eq!(body(&ok).contains("a=rtpmap:13 CN/8000"), has, "{ok}");
        assert_eq!(body(&ok).contains(" 13 "), has, "{ok}");
        s.send(uac.ack(Some(&offer("0", ""))));
        assert_eq!(s.media().codec, Codec::Pcmu);
    }
}

#[test]
fn the_answer_has_the_packet_time_of_the_offer_and_sending_heeds_the_greatest() {
    let mut s = Stage::new();
    for (lines, answered, sent) in [
        ("", "a=ptime:20", 20),
        ("a=ptime:10\r\n", "a=ptime:10", 10),
        ("a=ptime:30\r\n", "a=ptime:30", 30),
        ("a=ptime:40\r\n", "a=ptime:40", 40),
        ("a=ptime:60\r\na=maxptime:60\r\n", "a=ptime:60", 60),
        ("a=ptime:200\r\n", "a=ptime:60", 200),
        ("a=maxptime:10\r\n", "a=ptime:20", 10),
        ("a=ptime:40\r\na=maxptime:35\r\n", "a=ptime:30", 30),
        ("a=ptime:0\r\n", "a=ptime:20", 20),
        ("a=ptime:x\r\n", "a=ptime:20", 20),
    ] {
        let (_, answer) = answer_to(&mut s, &offer("8", lines));
        assert!(answer.contains(&format!("{answered}\r\n")), "{lines:?}: {answer}");
        assert_eq!(answer.matches("ptime").count(), 1, "{answer}");
        assert_eq!(s.media().ptime_ms, sent, "{lines:?}");
        s.confirmed();
    }
}
