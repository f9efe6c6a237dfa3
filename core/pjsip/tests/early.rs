// SPDX-License-Identifier: GPL-3.0-or-later
//! Media before the answer, reliable provisional answers (RFC 3262), forked answers, offers in the 200.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, first_line, header, response, status, tag, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, DialExtra, DialRequest, Extension, Policy, SipError, SipEvent};

fn stage(reliable: Extension) -> Stage {
    let mut s = Stage::new();
    s.ep.set_policy(0, &Policy { reliable, ..Policy::default() }).unwrap();
    s
}

fn dial(s: &mut Stage, extra: DialExtra) -> (CallId, String) {
    let request = DialRequest {
        uri: format!("sip:100@{}", s.peer.local_addr().unwrap()),
        sdp: LOCAL.to_owned(),
        extra,
        ..DialRequest::default()
    };
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    (call, invite)
}

/// An answer of the fork with this tag.
fn reply(s: &Stage, to: &str, status: &str, fork: &str, extra: &str, body: Option<&str>) {
    let answer = response(to, status, s.peer.local_addr().unwrap(), extra, body);
    s.send(answer.replace(";tag=p1", &format!(";tag={fork}")));
}

fn at_port(port: u16) -> String {
    OFFER.replace("40000", &port.to_string())
}

fn media_port(s: &mut Stage) -> u16 {
    s.media().remote_rtp.port()
}

fn early(s: &mut Stage) -> CallId {
    s.event(|e| match e {
        SipEvent::EarlyMedia { call } => Some(*call),
        _ => None,
    })
}

fn waiting(s: &mut Stage, extra: &str, offer: Option<&str>) -> (Uac, CallId) {
    let mut uac = Uac::new(s);
    uac.extra = extra.to_owned();
    s.send(uac.invite(offer));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    (uac, call)
}

fn prack(uac: &mut Uac, response: &str, body: Option<&str>) -> String {
    let invite = header(response, "CSeq");
    uac.learn(response);
    uac.extra = format!("RAck: {} {invite}\r\n", header(response, "RSeq"));
    uac.request("PRACK", body)
}

#[test]
fn early_answer_of_the_peer_starts_media_and_the_200_keeps_it() {
    let mut s = stage(Extension::Supported);
    let (call, invite) = dial(&mut s, DialExtra::default());
    assert!(header(&invite, "Supported").contains("100rel"), "{invite}");
    reply(&s, &invite, "183 Session Progress", "a", "", Some(&at_port(41000)));
    assert_eq!(media_port(&mut s), 41000);
    reply(&s, &invite, "200 OK", "a", "", Some(&at_port(41000)));
    s.receive_line("ACK");
    assert_eq!(s.confirmed(), call);
}

#[test]
fn reliable_answer_is_acknowledged_by_prack_once() {
    let mut s = stage(Extension::Supported);
    let (_, invite) = dial(&mut s, DialExtra::default());
    let reliable = "Require: 100rel\r\nRSeq: 4711\r\n";
    reply(&s, &invite, "183 Session Progress", "a", reliable, Some(&at_port(41000)));
    let prack = s.receive_line("PRACK");
    let cseq = header(&invite, "CSeq").replace(" INVITE", "");
    assert_eq!(header(&prack, "RAck"), format!("4711 {cseq} INVITE"));
    assert_eq!(tag(&prack, "To"), "a");
    reply(&s, &prack, "200 OK", "a", "", None);
    reply(&s, &invite, "183 Session Progress", "a", reliable, Some(&at_port(41000)));
    assert_eq!(s.receive_within(Duration::from_millis(200)), None, "a repeated 183 has its PRACK");
    reply(&s, &invite, "200 OK", "a", "", None);
    s.receive_line("ACK");
    assert_eq!(media_port(&mut s), 41000);
    s.confirmed();
}

#[test]
fn forked_early_media_is_one_session_and_the_fork_that_answers_has_it() {
    let mut s = stage(Extension::Supported);
    let (call, invite) = dial(&mut s, DialExtra::default());
    for (fork, port) in [("a", 41000), ("b", 42000), ("c", 43000)] {
        reply(&s, &invite, "183 Session Progress", fork, "", Some(&at_port(port)));
        assert_eq!(media_port(&mut s), port);
    }
    reply(&s, &invite, "200 OK", "a", "", Some(&at_port(41000)));
    let ack = s.receive_line("ACK");
    assert_eq!(tag(&ack, "To"), "a");
    assert_eq!(media_port(&mut s), 41000);
    assert_eq!(s.confirmed(), call);
    // The other one that answers is sent away (RFC 3261 13.2.2.4) and changes nothing.
    reply(&s, &invite, "200 OK", "b", "", Some(&at_port(42000)));
    let ack = s.receive_line("ACK");
    assert_eq!(tag(&ack, "To"), "b");
    let bye = s.receive_line("BYE");
    assert_eq!(tag(&bye, "To"), "b");
    let after = s.settle(Duration::from_millis(50));
    let changed = |e: &&SipEvent| matches!(e, SipEvent::Media { .. } | SipEvent::Ended { .. });
    assert!(!after.iter().any(|e| changed(&e)), "{after:?}");
}

#[test]
fn reliable_answers_of_two_forks_each_get_their_prack() {
    let mut s = stage(Extension::Supported);
    let (_, invite) = dial(&mut s, DialExtra::default());
    for (fork, rseq) in [("a", 10), ("b", 77)] {
        let reliable = format!("Require: 100rel\r\nRSeq: {rseq}\r\n");
        reply(&s, &invite, "183 Session Progress", fork, &reliable, Some(&at_port(41000)));
        let prack = s.receive_line("PRACK");
        assert_eq!(tag(&prack, "To"), fork);
        assert!(header(&prack, "RAck").starts_with(&format!("{rseq} ")), "{prack}");
        reply(&s, &prack, "200 OK", fork, "", None);
    }
}

#[test]
fn dialled_without_offer_the_ack_has_our_answer() {
    let mut s = stage(Extension::Supported);
    let extra = DialExtra { late_offer: true, ..DialExtra::default() };
    let (call, invite) = dial(&mut s, extra);
    assert_eq!(body(&invite), "");
    let offer = at_port(41000).replace("8 0 101", "0 96").replace(":101 ", ":96 ");
    reply(&s, &invite, "200 OK", "a", "", Some(&offer));
    let ack = s.receive_line("ACK");
    assert!(body(&ack).contains("m=audio 30000 RTP/AVP 0 96"), "{ack}");
    assert_eq!(media_port(&mut s), 41000);
    assert_eq!(s.confirmed(), call);
}

#[test]
fn dialled_without_offer_a_200_without_a_codec_of_ours_ends_in_ack_and_bye() {
    let mut s = stage(Extension::Supported);
    let extra = DialExtra { late_offer: true, ..DialExtra::default() };
    let (_, invite) = dial(&mut s, extra);
    reply(&s, &invite, "200 OK", "a", "", Some(&OFFER.replace("8 0 101", "97")));
    s.receive_line("ACK");
    let bye = s.receive_line("BYE");
    reply(&s, &bye, "200 OK", "a", "", None);
    assert_ne!(s.ended().0, 200);
}

#[test]
fn early_media_without_100rel_is_known_at_once_and_the_200_says_the_same() {
    let mut s = stage(Extension::Supported);
    let (mut uac, call) = waiting(&mut s, "", Some(OFFER));
    s.ep.early_media(call).unwrap();
    let progress = s.receive_line("183");
    assert!(header(&progress, "RSeq").is_empty(), "{progress}");
    assert_eq!(media_port(&mut s), 40000);
    assert_eq!(early(&mut s), call);
    s.ep.early_media(call).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert_eq!(body(&ok), body(&progress), "an early answer is the answer (RFC 3261 13.2.1)");
    uac.learn(&ok);
    s.send(uac.ack(None));
    assert_eq!(s.confirmed(), call);
}

#[test]
fn early_media_is_reliable_for_a_caller_that_can_and_known_with_its_prack() {
    let mut s = stage(Extension::Supported);
    let (mut uac, call) = waiting(&mut s, "Supported: 100rel\r\n", Some(OFFER));
    s.ep.ring(call).unwrap();
    assert!(header(&s.receive_line("180"), "RSeq").is_empty());
    s.ep.early_media(call).unwrap();
    let progress = s.receive_line("183");
    assert_eq!(header(&progress, "Require"), "100rel");
    assert!(body(&progress).contains("m=audio"), "{progress}");
    let before = s.settle(Duration::from_millis(50));
    assert!(!before.iter().any(|e| matches!(e, SipEvent::EarlyMedia { .. })), "{before:?}");
    // Lost: it comes again after T1 (RFC 3262 3).
    assert_eq!(header(&s.receive_line("183"), "RSeq"), header(&progress, "RSeq"));
    // Answered before the PRACK: the 200 has to wait for it.
    s.ep.answer(call).unwrap();
    s.send(prack(&mut uac, &progress, None));
    let answers = [s.receive_line("200"), s.receive_line("200")];
    assert_eq!(early(&mut s), call);
    assert!(answers.iter().any(|ok| header(ok, "CSeq") == "2 PRACK"), "{answers:?}");
    let ok = answers.iter().find(|ok| header(ok, "CSeq") == "1 INVITE").expect("no 200");
    assert_eq!(body(ok), "", "the answer was in the reliable 183 (RFC 3262 5)");
    uac.cseq = 1;
    uac.extra.clear();
    s.send(uac.ack(None));
    assert_eq!(s.confirmed(), call);
    // Later exchanges are ordinary ones.
    uac.cseq = 2;
    s.send(uac.invite(Some(&OFFER.replace("sendrecv", "sendonly"))));
    let held = s.receive_line("200");
    assert!(body(&held).contains("a=recvonly"), "{held}");
    s.send(uac.ack(None));
    s.ep.offer(call, LOCAL).unwrap();
    assert!(body(&s.receive_line("INVITE")).contains("m=audio"));
}

#[test]
fn early_media_without_offer_makes_one_in_a_reliable_183() {
    let mut s = stage(Extension::Supported);
    let (mut uac, call) = waiting(&mut s, "Supported: 100rel\r\n", None);
    s.ep.early_media(call).unwrap();
    let progress = s.receive_line("183");
    assert!(body(&progress).contains("m=audio 30000"), "{progress}");
    s.send(prack(&mut uac, &progress, Some(OFFER)));
    s.receive_line("200");
    assert_eq!(early(&mut s), call);
    assert_eq!(media_port(&mut s), 40000);

    let (_, plain) = waiting(&mut s, "", None);
    assert!(matches!(s.ep.early_media(plain), Err(SipError::NotReady(_))));
    s.ep.answer(plain).unwrap();
    s.receive_line("200");
}

#[test]
fn prack_off_required_and_by_the_peer() {
    let mut s = stage(Extension::Off);
    let mut uac = Uac::new(&s);
    uac.extra = "Require: 100rel\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let refusal = s.receive();
    assert_eq!((status(&refusal), header(&refusal, "Unsupported")), (420, "100rel".to_owned()));
    let (_, call) = waiting(&mut s, "Supported: 100rel\r\n", Some(OFFER));
    s.ep.early_media(call).unwrap();
    assert!(header(&s.receive_line("183"), "RSeq").is_empty());
    let (_, invite) = dial(&mut s, DialExtra::default());
    assert!(!header(&invite, "Supported").contains("100rel"), "{invite}");

    s.ep.set_policy(0, &Policy { reliable: Extension::Required, ..Policy::default() }).unwrap();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let refusal = s.receive_line("421");
    assert_eq!(header(&refusal, "Require"), "100rel");
    let (_, invite) = dial(&mut s, DialExtra::default());
    assert_eq!(header(&invite, "Require"), "100rel");

    s.ep.set_policy(0, &Policy::default()).unwrap();
    let (mut uac, call) = waiting(&mut s, "Require: 100rel\r\n", Some(OFFER));
    s.ep.ring(call).unwrap();
    let ringing = s.receive_line("180");
    assert_eq!(header(&ringing, "Require"), "100rel");
    s.send(prack(&mut uac, &ringing, None));
    assert_eq!(header(&s.receive_line("200"), "CSeq"), "2 PRACK");
    assert!(first_line(&ringing).contains("180"));
}

#[test]
fn update_changes_an_early_session() {
    let mut s = stage(Extension::Supported);
    let (mut uac, call) = waiting(&mut s, "Supported: 100rel\r\nAllow: UPDATE\r\n", Some(OFFER));
    s.ep.early_media(call).unwrap();
    let progress = s.receive_line("183");
    s.send(prack(&mut uac, &progress, None));
    s.receive_line("200");
    early(&mut s);
    uac.extra.clear();
    s.send(uac.request("UPDATE", Some(&at_port(47000))));
    let ok = s.receive_line("200");
    assert_eq!(header(&ok, "CSeq"), "3 UPDATE");
    loop {
        if media_port(&mut s) == 47000 {
            break;
        }
    }
    // Ours: by UPDATE too, for the INVITE is still open.
    s.ep.offer(call, &LOCAL.replace("sendrecv", "inactive")).unwrap();
    let update = s.receive_line("UPDATE");
    assert!(body(&update).contains("a=inactive"), "{update}");
    s.send(response(
        &update,
        "200 OK",
        s.peer.local_addr().unwrap(),
        "",
        Some(&OFFER.replace("sendrecv", "inactive")),
    ));
    let offered = s.event(|e| match e {
        SipEvent::Offered { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(offered, 200);
}

#[test]
fn a_fork_that_answers_without_sdp_means_that_of_its_reliable_183() {
    let mut s = stage(Extension::Supported);
    let (call, invite) = dial(&mut s, DialExtra::default());
    for (fork, port) in [("a", 41000), ("b", 42000)] {
        let reliable = "Require: 100rel\r\nRSeq: 1\r\n";
        reply(&s, &invite, "183 Session Progress", fork, reliable, Some(&at_port(port)));
        let prack = s.receive_line("PRACK");
        reply(&s, &prack, "200 OK", fork, "", None);
        assert_eq!(media_port(&mut s), port);
    }
    reply(&s, &invite, "200 OK", "a", "", None);
    let ack = s.receive_line("ACK");
    assert_eq!(tag(&ack, "To"), "a");
    assert_eq!(media_port(&mut s), 41000);
    assert_eq!(s.confirmed(), call);
    // And the session can be changed afterwards.
    s.ep.offer(call, &LOCAL.replace("sendrecv", "sendonly")).unwrap();
    let hold = s.receive_line("INVITE");
    let local = s.peer.local_addr().unwrap();
    let held = at_port(41000).replace("sendrecv", "recvonly");
    s.send(response(&hold, "200 OK", local, "", Some(&held)));
    assert_eq!(media_port(&mut s), 41000);
    s.send(response(&hold, "200 OK", local, "", Some(&held)));
    s.settle(Duration::from_millis(20));
}
