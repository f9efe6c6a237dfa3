// SPDX-License-Identifier: GPL-3.0-or-later
//! Offers of ours in a call that is up, glare, session timers (RFC 4028), BYE after the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::{Duration, Instant};

use common::{body, dialling, first_line, header, response, status, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, Direction, Extension, Policy, SipError, SipEvent};

fn answered(s: &mut Stage) -> (Uac, CallId) {
    let (uac, call) = s.answered(Some(OFFER));
    s.media();
    s.confirmed();
    (uac, call)
}

fn offered(s: &mut Stage) -> u16 {
    s.event(|e| match e {
        SipEvent::Offered { status, .. } => Some(*status),
        _ => None,
    })
}

fn reply(s: &Stage, to: &str, status: &str, extra: &str, body: Option<&str>) {
    let answer = response(to, status, s.peer.local_addr().unwrap(), extra, body);
    s.send(answer.replace(";tag=p1", ";tag=f1"));
}

fn directed(sdp: &str, direction: &str) -> String {
    sdp.replace("sendrecv", direction)
}

fn version(message: &str) -> u64 {
    let origin = body(message).lines().find(|line| line.starts_with("o=")).unwrap();
    origin.split(' ').nth(2).unwrap().parse().unwrap()
}

#[test]
fn hold_and_resume_are_reinvites_and_the_version_rises() {
    let mut s = Stage::new();
    let (_, call) = answered(&mut s);
    s.ep.offer(call, &directed(LOCAL, "sendonly")).unwrap();
    let hold = s.receive_line("INVITE");
    assert!(body(&hold).contains("a=sendonly"), "{hold}");
    reply(&s, &hold, "200 OK", "", Some(&directed(OFFER, "recvonly")));
    s.receive_line("ACK");
    assert_eq!(s.media().direction, Direction::SendOnly);
    assert_eq!(offered(&mut s), 200);
    s.ep.offer(call, LOCAL).unwrap();
    let resume = s.receive_line("INVITE");
    assert!(body(&resume).contains("a=sendrecv"), "{resume}");
    assert_eq!(version(&resume), version(&hold) + 1, "RFC 3264 section 8");
    reply(&s, &resume, "200 OK", "", Some(OFFER));
    s.receive_line("ACK");
    assert_eq!(s.media().direction, Direction::SendRecv);
    assert_eq!(offered(&mut s), 200);
}

#[test]
fn the_peers_offer_during_our_hold_is_answered_sendonly() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.offer(call, &directed(LOCAL, "sendonly")).unwrap();
    let hold = s.receive_line("INVITE");
    reply(&s, &hold, "200 OK", "", Some(&directed(OFFER, "recvonly")));
    s.receive_line("ACK");
    s.send(uac.invite(Some(OFFER)));
    let ok = s.receive_line("200");
    assert!(body(&ok).contains("a=sendonly"), "{ok}");
}

#[test]
fn refused_offer_leaves_the_session_as_it_was() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.offer(call, &LOCAL.replace("8 0 101", "0 101")).unwrap();
    assert!(matches!(s.ep.offer(call, LOCAL), Err(SipError::NotReady(_))), "one at a time");
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "488 Not Acceptable Here", "", None);
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 488);
    let after = s.settle(Duration::from_millis(50));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Media { .. })), "{after:?}");
    s.send(uac.request("OPTIONS", None));
    assert_eq!(status(&s.receive()), 200, "the call is up");
}

#[test]
fn glare_backs_off_for_the_time_of_the_rfc_and_tries_again() {
    let mut s = Stage::new();
    let (_, call) = answered(&mut s);
    s.ep.offer(call, &directed(LOCAL, "inactive")).unwrap();
    let first = s.receive_line("INVITE");
    reply(&s, &first, "491 Request Pending", "", None);
    s.receive_line("ACK");
    let at = Instant::now();
    let again = s.receive_line("INVITE");
    // The peer made the Call-ID: 0 to 2 s (RFC 3261 14.1); some time for a busy machine on top.
    assert!(at.elapsed() < Duration::from_millis(3000), "{:?}", at.elapsed());
    assert_ne!(header(&first, "CSeq"), header(&again, "CSeq"));
    assert!(body(&again).contains("a=inactive"), "{again}");
    reply(&s, &again, "200 OK", "", Some(&directed(OFFER, "inactive")));
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 200);
}

#[test]
fn the_side_that_made_the_call_id_backs_off_longer() {
    let mut s = Stage::new();
    let request = dialling(format!("sip:100@{}", s.peer.local_addr().unwrap()));
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    let local = s.peer.local_addr().unwrap();
    s.send(response(&invite, "200 OK", local, "", Some(OFFER)));
    s.receive_line("ACK");
    s.confirmed();
    s.ep.offer(call, LOCAL).unwrap();
    let first = s.receive_line("INVITE");
    s.send(response(&first, "491 Request Pending", local, "", None));
    s.receive_line("ACK");
    let at = Instant::now();
    s.receive_line("INVITE");
    assert!(at.elapsed() >= Duration::from_millis(2090), "{:?}", at.elapsed());
    assert!(at.elapsed() < Duration::from_millis(5000), "{:?}", at.elapsed());
}

#[test]
fn reinvite_of_the_peer_while_ours_is_out_gets_491() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.offer(call, LOCAL).unwrap();
    let ours = s.receive_line("INVITE");
    s.send(uac.invite(Some(OFFER)));
    let refusal = s.receive();
    assert_eq!(status(&refusal), 491, "{refusal}");
    s.send(uac.message("ACK", None));
    s.send(uac.request("UPDATE", Some(OFFER)));
    assert_eq!(status(&s.receive()), 491);
    reply(&s, &ours, "200 OK", "", Some(OFFER));
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 200);
}

#[test]
fn an_offer_waits_for_the_end_of_the_peers_exchange() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.send(uac.invite(Some(OFFER)));
    s.receive_line("200");
    s.ep.offer(call, &directed(LOCAL, "sendonly")).unwrap();
    assert_eq!(s.receive_within(Duration::from_millis(150)), None, "before the ACK");
    s.send(uac.ack(None));
    let ours = s.receive_line("INVITE");
    assert!(body(&ours).contains("a=sendonly"), "{ours}");
}

#[test]
fn session_interval_too_small_is_refused_with_ours() {
    let mut s = Stage::new();
    s.ep.set_policy(0, &Policy { min_se_s: 300, ..Policy::default() }).unwrap();
    let mut uac = Uac::new(&s);
    uac.extra = "Supported: timer\r\nSession-Expires: 120\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let refusal = s.receive();
    assert_eq!((status(&refusal), header(&refusal, "Min-SE")), (422, "300".to_owned()));
    s.send(uac.message("ACK", None));
    uac.extra = "Supported: timer\r\nSession-Expires: 300\r\nMin-SE: 300\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert_eq!(header(&ok, "Session-Expires"), "300;refresher=uac");
    assert!(header(&ok, "Require").contains("timer"), "{ok}");
}

#[test]
fn session_timers_off_required_and_always() {
    let mut s = Stage::new();
    let policy = |timer| Policy { timer, session_expires_s: 600, ..Policy::default() };
    let dial = |s: &mut Stage| {
        let request = dialling(format!("sip:100@{}", s.peer.local_addr().unwrap()));
        s.ep.dial(&request).unwrap();
        s.receive_line("INVITE")
    };
    s.ep.set_policy(0, &policy(Extension::Off)).unwrap();
    assert_eq!(header(&dial(&mut s), "Session-Expires"), "");
    s.ep.set_policy(0, &policy(Extension::Required)).unwrap();
    let invite = dial(&mut s);
    assert!(header(&invite, "Session-Expires").starts_with("600"), "{invite}");
    assert!(header(&invite, "Require").contains("timer"), "{invite}");
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    assert_eq!(status(&s.receive_line("421")), 421);
    s.send(uac.message("ACK", None));
    s.ep.set_policy(0, &policy(Extension::Always)).unwrap();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    assert_eq!(header(&ok, "Session-Expires"), "600;refresher=uas", "a peer that knows none");
}

#[test]
fn b15_interval_refused_with_422_is_adopted() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let request = dialling(format!("sip:100@{local}"));
    s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    assert!(header(&invite, "Session-Expires").starts_with("1800"), "{invite}");
    s.send(response(&invite, "422 Session Interval Too Small", local, "Min-SE: 3600\r\n", None));
    s.receive_line("ACK");
    let again = s.receive_line("INVITE");
    assert!(header(&again, "Session-Expires").starts_with("3600"), "{again}");
    assert_eq!(header(&again, "Min-SE"), "3600");
    assert_eq!(header(&again, "Call-ID"), header(&invite, "Call-ID"));
    assert!(body(&again).contains("m=audio 30000"), "{again}");
    // No end of it: refused again, the call ends with that.
    s.send(response(&again, "422 Session Interval Too Small", local, "Min-SE: 7200\r\n", None));
    assert_eq!(s.ended(), (422, true));
}

#[test]
fn b13_bye_with_a_new_number_after_the_end_gets_481() {
    let mut s = Stage::new();
    let (mut uac, _) = answered(&mut s);
    let bye = uac.request("BYE", None);
    s.send(&bye);
    assert_eq!(status(&s.receive()), 200);
    s.send(&bye);
    assert_eq!(status(&s.receive()), 200, "a repeated BYE is the same BYE");
    s.send(uac.request("BYE", None));
    assert_eq!(status(&s.receive()), 481);
    assert!(first_line(&bye).starts_with("BYE"));
}

#[test]
fn the_version_of_our_answer_rises_with_a_change_only() {
    let mut s = Stage::new();
    let (mut uac, _) = answered(&mut s);
    let mut versions = Vec::new();
    for offer in [OFFER, OFFER, &directed(OFFER, "sendonly"), &directed(OFFER, "sendonly"), OFFER] {
        s.send(uac.invite(Some(offer)));
        let ok = s.receive_line("200");
        s.send(uac.ack(None));
        versions.push(version(&ok));
    }
    let steps: Vec<u64> = versions.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [0, 1, 0, 1], "RFC 3264 section 8: {versions:?}");
}
