// SPDX-License-Identifier: GPL-3.0-or-later
//! Offer and answer (RFC 3264) after the call is up, and what offers look like in the field.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{body, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{Codec, Direction};

fn reinvite(s: &mut Stage, uac: &mut Uac, offer: &str) -> String {
    s.send(uac.invite(Some(offer)));
    let answer = s.receive_line("200");
    s.send(uac.ack(None));
    answer
}

#[test]
fn hold_and_resume_without_final_line_end() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    for (theirs, answer, ours) in [
        ("sendonly", "a=recvonly", Direction::RecvOnly),
        ("inactive", "a=inactive", Direction::Inactive),
        ("sendrecv", "a=sendrecv", Direction::SendRecv),
    ] {
        let offer = OFFER.replace("a=sendrecv\r\n", &format!("a={theirs}"));
        let ok = reinvite(&mut s, &mut uac, &offer);
        assert!(body(&ok).contains(answer), "{theirs}: {ok}");
        assert!(body(&ok).contains("c=IN IP4 127.0.0.1"), "{ok}");
        assert_eq!(s.media().direction, ours, "{theirs}");
    }
}

#[test]
fn old_style_hold_stops_our_sending() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    reinvite(&mut s, &mut uac, &OFFER.replace("c=IN IP4 127.0.0.1", "c=IN IP4 0.0.0.0"));
    let media = s.media();
    assert_eq!(media.direction, Direction::RecvOnly);
    assert!(media.remote_rtp.ip().is_unspecified());
}

#[test]
fn codec_and_event_payload_type_switch_in_reinvite() {
    let mut s = Stage::new();
    let first =
        OFFER.replace("RTP/AVP 8 0 101", "RTP/AVP 0 101").replace("a=rtpmap:8 PCMA/8000\r\n", "");
    let (mut uac, _) = s.answered(Some(&first));
    assert_eq!(s.media().codec, Codec::Pcmu);
    s.confirmed();
    let second = OFFER
        .replace("RTP/AVP 8 0 101", "RTP/AVP 8 96")
        .replace("a=rtpmap:0 PCMU/8000\r\n", "")
        .replace(":101 ", ":96 ")
        .replace("40000", "40010");
    reinvite(&mut s, &mut uac, &second);
    let media = s.media();
    assert_eq!((media.codec, media.payload_type), (Codec::Pcma, 8));
    assert_eq!((media.telephone_event, media.rx_telephone_event), (Some(96), Some(96)));
    assert_eq!(media.remote_rtp.port(), 40010);
}

#[test]
fn unusable_reinvite_leaves_the_session_as_it_was() {
    let mut s = Stage::new();
    let (mut uac, call) = s.answered(Some(OFFER));
    s.confirmed();
    let bad = OFFER
        .replace("RTP/AVP 8 0 101", "RTP/AVP 18")
        .replace("a=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n", "");
    s.send(uac.invite(Some(&bad)));
    s.receive_line("488");
    s.send(uac.message("ACK", None));
    reinvite(&mut s, &mut uac, OFFER);
    assert_eq!(s.media().codec, Codec::Pcma);
    s.ep.hangup(call).unwrap();
    s.receive_line("BYE");
}

#[test]
fn reinvite_without_offer_gets_our_offer() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    s.send(uac.invite(None));
    let ok = s.receive_line("200");
    assert!(body(&ok).contains("m=audio 30000 RTP/AVP 8 0 101"), "{ok}");
    s.send(uac.ack(Some(&OFFER.replace("RTP/AVP 8 0 101", "RTP/AVP 0 101"))));
    assert_eq!(s.media().codec, Codec::Pcmu);
}

#[test]
fn update_with_offer_is_answered() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    s.send(uac.request("UPDATE", Some(&OFFER.replace("sendrecv", "sendonly"))));
    let ok = s.receive_line("200");
    assert!(body(&ok).contains("a=recvonly"), "{ok}");
    assert_eq!(s.media().direction, Direction::RecvOnly);
}

#[test]
fn every_event_payload_type_is_taken_from_sdp() {
    let mut s = Stage::new();
    for pt in [96_u8, 102, 127] {
        let offer =
            OFFER.replace("8 0 101", &format!("8 0 {pt}")).replace(":101 ", &format!(":{pt} "));
        let (_, call) = s.answered(Some(&offer));
        let media = s.media();
        assert_eq!((media.telephone_event, media.rx_telephone_event), (Some(pt), Some(pt)));
        s.confirmed();
        s.ep.hangup(call).unwrap();
    }
}

#[test]
fn packet_time_and_rtcp_port_are_honoured() {
    let mut s = Stage::new();
    let offer = OFFER.replace("a=ptime:20", "a=ptime:30\r\na=rtcp:41000 IN IP4 127.0.0.2");
    s.answered(Some(&offer));
    let media = s.media();
    assert_eq!(media.ptime_ms, 30);
    assert_eq!(media.remote_rtcp, Some("127.0.0.2:41000".parse().unwrap()));
}

#[test]
fn a_second_stream_is_refused_in_the_answer() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(
        uac.invite(Some(&format!("{OFFER}m=video 40004 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\n"))),
    );
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert!(body(&ok).contains("m=video 0 "), "{ok}");
    assert_eq!(s.media().codec, Codec::Pcma);
}

#[test]
fn bad_local_sdp_is_an_error_and_the_call_stays() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    for bad in ["", "v=0", "hello", "v=0\0"] {
        let error = s.ep.set_local_sdp(call, bad).unwrap_err();
        assert_eq!(error.code(), "sip.bad_sdp", "{bad:?}");
    }
    // One that fits nothing in the offer is an error before anybody hears of the call.
    let misfit = LOCAL.replace("8 0 101", "9").replace("PCMA/8000", "G722/8000");
    let error = s.ep.set_local_sdp(call, &misfit).unwrap_err();
    assert_eq!(error.code(), "sip.bad_sdp");
    assert!(error.to_string().contains("no codec in common"), "{error}");
    // The call stays: the right one is taken, and answered with.
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    s.receive_line("200");
    assert_eq!(s.media().codec, Codec::Pcma);
}
