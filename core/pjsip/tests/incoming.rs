// SPDX-License-Identifier: GPL-3.0-or-later
//! Incoming calls: their life and the requests that must not become one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, first_line, header, status, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{Codec, Direction, EndpointConfig, SipError, SipEvent};

#[test]
fn call_rings_is_answered_and_ended_by_the_caller() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let (call, from, source, has_offer) = s.event(|e| match e {
        SipEvent::Incoming { call, from, source, has_offer, .. } => {
            Some((*call, from.clone(), *source, *has_offer))
        }
        _ => None,
    });
    assert_eq!(from, "sip:4930123456@test");
    assert_eq!(source, s.peer.local_addr().unwrap());
    assert!(has_offer);
    assert_eq!(status(&s.receive()), 100);
    s.ep.ring(call).unwrap();
    assert_eq!(status(&s.receive()), 180);
    assert_eq!(s.ep.answer(call), Err(SipError::NotReady("set_local_sdp comes before answer")));
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive();
    assert_eq!(status(&ok), 200);
    assert_eq!(header(&ok, "Server"), "voice-edge");
    assert!(body(&ok).contains("m=audio 30000 RTP/AVP 8 101\r\n"), "{}", body(&ok));
    let media = s.media();
    assert_eq!(media.remote_rtp, "127.0.0.1:40000".parse().unwrap());
    assert_eq!(media.remote_rtcp, Some("127.0.0.1:40001".parse().unwrap()));
    assert_eq!((media.codec, media.payload_type, media.rx_payload_type), (Codec::Pcma, 8, 8));
    assert_eq!((media.telephone_event, media.ptime_ms), (Some(101), 20));
    assert_eq!(media.direction, Direction::SendRecv);
    uac.learn(&ok);
    s.send(uac.ack(None));
    assert_eq!(s.confirmed(), call);
    assert_eq!(s.ep.stats().calls, 1);
    s.send(uac.request("BYE", None));
    assert_eq!(status(&s.receive()), 200);
    assert_eq!(s.ended(), (200, true));
    assert_eq!(s.ep.stats().calls, 0);
    assert_eq!(s.ep.hangup(call), Err(SipError::NoSuchCall(call)));
}

#[test]
fn our_hangup_sends_bye_and_tells_at_once() {
    let mut s = Stage::new();
    let (_, call) = s.answered(Some(OFFER));
    s.confirmed();
    s.ep.hangup(call).unwrap();
    assert_eq!(s.ended(), (200, false));
    let bye = s.receive_line("BYE");
    let local = s.peer.local_addr().unwrap();
    s.send(common::response(&bye, "200 OK", local, "", None));
    let after = s.settle(Duration::from_millis(100));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Ended { .. })), "{after:?}");
}

#[test]
fn rejection_carries_status_and_retry_after() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    assert_eq!(s.ep.reject(call, 200, None), Err(SipError::BadArgument("status")));
    s.ep.reject(call, 486, Some(17)).unwrap();
    let busy = s.receive_line("486");
    assert_eq!(header(&busy, "Retry-After"), "17");
    assert_eq!(s.ended(), (486, false));
}

#[test]
fn unanswered_hangup_declines() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.hangup(call).unwrap();
    s.receive_line("603");
    assert_eq!(s.ended(), (603, false));
}

#[test]
fn retransmitted_invite_is_one_call() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    let invite = uac.invite(Some(OFFER));
    s.send(&invite);
    s.incoming();
    s.send(&invite);
    s.send(&invite);
    let after = s.settle(Duration::from_millis(100));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Incoming { .. })), "{after:?}");
    assert_eq!(s.ep.stats().calls, 1);
}

#[test]
fn merged_request_gets_482() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    s.incoming();
    uac.branch += 1; // the same request over another path: same Call-ID, From tag and CSeq (RFC 3261 8.2.2.2)
    s.send(uac.message("INVITE", Some(OFFER)));
    s.receive_line("482");
    assert_eq!(s.rejected(), 482);
}

#[test]
fn known_call_id_without_to_tag_is_a_new_call() {
    let mut s = Stage::new();
    let (mut uac, first) = s.answered(Some(OFFER));
    s.confirmed();
    uac.to_tag.clear();
    s.send(uac.invite(Some(OFFER)));
    let second = s.incoming();
    assert_ne!(first, second);
    assert_eq!(s.ep.stats().calls, 2);
}

#[test]
fn cancel_before_answer_gets_487() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.ring(call).unwrap();
    s.send(uac.cancel());
    let mut seen: Vec<u16> = (0..4).map(|_| status(&s.receive())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [100, 180, 200, 487]);
    assert_eq!(s.ended(), (487, true));
    assert_eq!(s.ep.answer(call), Err(SipError::NoSuchCall(call)));
}

#[test]
fn cancel_after_answer_changes_nothing() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    s.send(uac.cancel());
    s.receive_line("200"); // of the CANCEL, or the INVITE's again
    uac.learn(&ok);
    s.send(uac.ack(None));
    assert_eq!(s.confirmed(), call);
    assert_eq!(s.ep.stats().calls, 1);
}

#[test]
fn answer_in_ack_completes_an_invite_without_offer() {
    let mut s = Stage::new();
    let (_, call) = s.answered(None);
    let media = s.media();
    assert_eq!((media.codec, media.direction), (Codec::Pcma, Direction::SendRecv));
    assert_eq!(s.confirmed(), call);
}

#[test]
fn ack_without_answer_to_our_offer_gets_bye() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(None));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert!(body(&ok).contains("m=audio 30000 RTP/AVP 8 0 101"), "{ok}");
    uac.learn(&ok);
    s.send(uac.ack(None));
    let bye = s.receive_line("BYE");
    assert!(first_line(&bye).starts_with("BYE sip:peer@"), "{bye}");
    assert_eq!(s.ended(), (488, false));
}

#[test]
fn hangup_before_ack_waits_for_the_ack() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    s.ep.hangup(call).unwrap();
    assert_eq!(s.ended(), (200, false));
    // RFC 3261 15: no BYE before the ACK; the 200 is repeated instead.
    assert_eq!(status(&s.receive()), 200);
    uac.learn(&ok);
    s.send(uac.ack(None));
    s.receive_line("BYE");
}

#[test]
fn calls_above_the_limit_get_503() {
    let mut s = Stage::with(EndpointConfig { max_calls: 1, ..EndpointConfig::default() });
    let (mut first, _) = s.answered(Some(OFFER));
    s.confirmed();
    let mut second = Uac::new(&s);
    s.send(second.invite(Some(OFFER)));
    let refused = s.receive_line("503");
    assert!(header(&refused, "Retry-After").parse::<u32>().unwrap() > 0);
    assert_eq!(s.rejected(), 503);
    s.send(first.request("BYE", None));
    s.ended();
    s.send(Uac::new(&s).invite(Some(OFFER)));
    s.incoming();
}

#[test]
fn offers_without_common_codec_get_488() {
    let mut s = Stage::new();
    for offer in [
        OFFER
            .replace("8 0 101", "18")
            .replace("a=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n", ""),
        OFFER.replace("RTP/AVP", "RTP/SAVP"),
        OFFER.replace("m=audio 40000", "m=audio 0"),
        OFFER.replace("m=audio", "m=video"),
        OFFER.replace("PCMA/8000", "PCMA/16000").replace("PCMU/8000", "PCMU/16000"),
        OFFER.replace("c=IN IP4 127.0.0.1", "c=IN IP4 media.example.org"),
        // The first line of audio is off: our stream would go there.
        OFFER.replace("m=audio 40000", "m=audio 0 RTP/AVP 8\r\nm=audio 40000"),
        // More lines than an answer of ours could have.
        format!("{OFFER}{}", "m=video 40002 RTP/AVP 31\r\n".repeat(19)),
        // Stereo is no codec of ours, nor is a fixed number with another codec's name.
        OFFER.replace("8 0 101", "96").replace("a=rtpmap:8 PCMA/8000", "a=rtpmap:96 PCMA/8000/2"),
        OFFER.replace("8 0 101", "0").replace("a=rtpmap:0 PCMU/8000", "a=rtpmap:0 G722/8000"),
    ] {
        let mut uac = Uac::new(&s);
        s.send(uac.invite(Some(&offer)));
        assert_eq!(status(&s.receive()), 488, "{offer}");
        assert_eq!(s.rejected(), 488);
    }
    assert_eq!(s.ep.stats().rejected, 10);
}

#[test]
fn our_own_sdp_may_have_fewer_codecs_than_the_endpoint() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    let offer = OFFER.replace("8 0 101", "0 101").replace("a=rtpmap:8 PCMA/8000\r\n", "");
    s.send(uac.invite(Some(&offer)));
    let call = s.incoming();
    let ours = LOCAL.replace("8 0 101", "8 101").replace("a=rtpmap:0 PCMU/8000\r\n", "");
    assert!(matches!(s.ep.set_local_sdp(call, &ours), Err(SipError::BadSdp(_))));
    s.ep.set_local_sdp(call, LOCAL).unwrap();
}

#[test]
fn nul_in_the_sdp_gets_400() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(&OFFER.replace("101 0-15", "101 0-\0"))));
    assert_eq!(status(&s.receive()), 400);
    assert_eq!(s.rejected(), 400);
}

#[test]
fn answer_is_repeated_until_the_ack() {
    // What follows after 64*T1 without an ACK takes 32 s of wall clock: tests/hil has it.
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    s.receive_line("200");
    assert_eq!(status(&s.receive()), 200);
}

#[test]
fn ringing_is_reliable_when_the_caller_requires_it() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    uac.extra = "Require: 100rel\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.ring(call).unwrap();
    let ringing = s.receive_line("180");
    let rseq = header(&ringing, "RSeq");
    assert!(!rseq.is_empty(), "{ringing}");
    let invited = uac.cseq;
    uac.learn(&ringing);
    uac.extra = format!("RAck: {rseq} {invited} INVITE\r\n");
    s.send(uac.request("PRACK", None));
    s.receive_line("200");
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert_eq!(header(&ok, "CSeq"), format!("{invited} INVITE"));
    uac.extra.clear();
    uac.cseq = invited;
    s.send(uac.ack(None));
    assert_eq!(s.confirmed(), call);
}

#[test]
fn session_timer_below_the_minimum_gets_422() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    uac.extra = "Supported: timer\r\nSession-Expires: 30\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let refused = s.receive_line("422");
    assert_eq!(header(&refused, "Min-SE"), "90");
    assert_eq!(s.rejected(), 422);
    assert_eq!(s.ep.stats().calls, 0);
    uac.extra = "Supported: timer\r\nSession-Expires: 1800;refresher=uac\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert!(header(&ok, "Session-Expires").starts_with("1800"), "{ok}");
}
