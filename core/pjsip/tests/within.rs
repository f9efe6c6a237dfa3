// SPDX-License-Identifier: GPL-3.0-or-later
//! What is refused inside of a dialog: PRACK for nothing, bodies that cannot be read, numbers out of range, answers to what
//! was not offered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, dialling, header, response, status, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, Codec, SipEvent};

fn answered(s: &mut Stage) -> (Uac, CallId) {
    let (uac, call) = s.answered(Some(OFFER));
    s.media();
    s.confirmed();
    (uac, call)
}

/// A call that waits with a reliable 183, and that.
fn early(s: &mut Stage) -> (Uac, CallId, String) {
    let mut uac = Uac::new(s);
    uac.extra = "Supported: 100rel\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.early_media(call).unwrap();
    let progress = s.receive_line("183");
    uac.learn(&progress);
    (uac, call, progress)
}

/// The answer to a request with this number; repeated 183s are passed over.
fn answer_to(s: &mut Stage, request: &str) -> String {
    s.send(request);
    loop {
        let answer = s.receive();
        if header(&answer, "CSeq") == header(request, "CSeq") {
            return answer;
        }
    }
}

fn offered(s: &mut Stage) -> u16 {
    s.event(|e| match e {
        SipEvent::Offered { status, .. } => Some(*status),
        _ => None,
    })
}

fn reply(s: &Stage, to: &str, status: &str, body: Option<&str>) {
    let answer = response(to, status, s.peer.local_addr().unwrap(), "", body);
    s.send(answer.replace(";tag=p1", ";tag=f1"));
}

#[test]
fn prack_that_matches_nothing_gets_481_and_a_bad_one_400() {
    let mut s = Stage::new();
    let (mut uac, _, progress) = early(&mut s);
    let rseq: u32 = header(&progress, "RSeq").parse().unwrap();
    let cases = [
        (format!("RAck: {} 1 INVITE\r\n", rseq + 1), 481),
        (format!("RAck: {rseq} 2 INVITE\r\n"), 481),
        (format!("RAck: {rseq} 1 UPDATE\r\n"), 481),
        (String::new(), 400),
        (format!("RAck: {rseq} INVITE\r\n"), 400),
        (format!("RAck: {rseq} 1\r\n"), 400),
        ("RAck: 99999999999999999999 1 INVITE\r\n".to_owned(), 400),
        (format!("RAck: {rseq}x 1 INVITE\r\n"), 400),
    ];
    for (extra, expected) in cases {
        uac.extra.clone_from(&extra);
        let prack = uac.request("PRACK", None);
        assert_eq!(status(&answer_to(&mut s, &prack)), expected, "{extra}");
    }
    let events = s.settle(Duration::from_millis(20));
    let started = |e: &SipEvent| matches!(e, SipEvent::EarlyMedia { .. });
    assert!(!events.iter().any(started), "none of these starts media: {events:?}");
    uac.extra = format!("RAck: {rseq} 1 INVITE\r\n");
    let prack = uac.request("PRACK", None);
    assert_eq!(status(&answer_to(&mut s, &prack)), 200);
    assert!(s.settle(Duration::from_millis(20)).iter().any(started));
    assert_eq!(status(&answer_to(&mut s, &prack)), 200, "the same PRACK again");
    let prack = uac.request("PRACK", None);
    assert_eq!(status(&answer_to(&mut s, &prack)), 481, "it is acknowledged already");
}

#[test]
fn prack_without_any_reliable_answer_gets_481() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.early_media(call).unwrap();
    uac.learn(&s.receive_line("183"));
    uac.extra = "RAck: 1 1 INVITE\r\n".to_owned();
    let prack = uac.request("PRACK", None);
    assert_eq!(status(&answer_to(&mut s, &prack)), 481);
    let (mut uac, _) = answered(&mut s);
    uac.extra = "RAck: 1 1 INVITE\r\n".to_owned();
    let prack = uac.request("PRACK", None);
    assert_eq!(status(&answer_to(&mut s, &prack)), 481, "in a call that is up");
}

#[test]
fn prack_of_a_180_is_not_one_of_the_183() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    uac.extra = "Require: 100rel\r\n".to_owned();
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.ring(call).unwrap();
    let ringing = s.receive_line("180");
    s.ep.early_media(call).unwrap();
    uac.learn(&ringing);
    uac.extra = format!("RAck: {} 1 INVITE\r\n", header(&ringing, "RSeq"));
    let prack = uac.request("PRACK", None);
    s.send(&prack);
    let progress = s.receive_line("183");
    let events = s.settle(Duration::from_millis(20));
    assert!(!events.iter().any(|e| matches!(e, SipEvent::EarlyMedia { .. })), "{events:?}");
    uac.extra = format!("RAck: {} 1 INVITE\r\n", header(&progress, "RSeq"));
    let prack = uac.request("PRACK", None);
    assert_eq!(status(&answer_to(&mut s, &prack)), 200);
    s.event(|e| matches!(e, SipEvent::EarlyMedia { .. }).then_some(()));
}

#[test]
fn bodies_that_cannot_be_read_get_415_and_leave_the_call() {
    let mut s = Stage::new();
    let (mut uac, _) = answered(&mut s);
    for method in ["INVITE", "UPDATE"] {
        uac.extra = "Content-Encoding: gzip\r\n".to_owned();
        let request = uac.request(method, Some(OFFER));
        let refusal = answer_to(&mut s, &request);
        assert_eq!(status(&refusal), 415, "{refusal}");
        assert_eq!(header(&refusal, "Accept-Encoding"), "identity");
        assert!(header(&refusal, "Accept").contains("application/sdp"), "{refusal}");
        if method == "INVITE" {
            s.send(uac.message("ACK", None));
        }
        uac.extra = "e: gzip\r\n".to_owned();
        let request = uac.request(method, Some(OFFER));
        assert_eq!(status(&answer_to(&mut s, &request)), 415, "compact form");
        uac.extra.clear();
        let request =
            uac.request(method, Some(OFFER)).replace("application/sdp", "application/isup");
        let refusal = answer_to(&mut s, &request);
        assert_eq!(status(&refusal), 415, "{refusal}");
        assert!(header(&refusal, "Accept").contains("application/sdp"), "{refusal}");
        if method == "INVITE" {
            s.send(uac.message("ACK", None));
        }
        uac.extra = "Content-Disposition: signal;handling=optional\r\n".to_owned();
        let request = uac.request(method, Some("x")).replace("application/sdp", "application/isup");
        assert_eq!(status(&answer_to(&mut s, &request)), 200, "what is optional is passed over");
        uac.extra.clear();
        if method == "INVITE" {
            s.send(uac.ack(Some(OFFER)));
        }
        uac.extra = "Content-Encoding: identity\r\n".to_owned();
        let request = uac.request(method, Some(OFFER));
        assert_eq!(status(&answer_to(&mut s, &request)), 200);
        uac.extra.clear();
        s.send(uac.ack(None));
    }
    let mut uac = Uac::new(&s);
    uac.extra = "Content-Encoding: gzip\r\n".to_owned();
    let request = uac.invite(Some(OFFER));
    let refusal = answer_to(&mut s, &request);
    assert_eq!((status(&refusal), header(&refusal, "Accept-Encoding")), (415, "identity".into()));
}

#[test]
fn session_timers_out_of_range_are_refused_and_long_ones_lowered() {
    let mut s = Stage::new();
    for bad in [
        "Session-Expires: 4294967386\r\n",
        "x: 4294967386\r\n",
        "Session-Expires: 18446744073709551706\r\n",
        "Session-Expires: 1800\r\nMin-SE: 4294967386\r\n",
    ] {
        let mut uac = Uac::new(&s);
        uac.extra = format!("Supported: timer\r\n{bad}");
        let invite = uac.invite(Some(OFFER));
        assert_eq!(status(&answer_to(&mut s, &invite)), 400, "{bad}");
    }
    let (mut uac, _) = answered(&mut s);
    uac.extra = "Supported: timer\r\nSession-Expires: 4294967386\r\n".to_owned();
    let update = uac.request("UPDATE", None);
    assert_eq!(status(&answer_to(&mut s, &update)), 400);
    let agreed = |s: &mut Stage, extra: &str| {
        let mut uac = Uac::new(s);
        uac.extra = format!("Supported: timer\r\n{extra}");
        s.send(uac.invite(Some(OFFER)));
        let call = s.incoming();
        s.ep.set_local_sdp(call, LOCAL).unwrap();
        s.ep.answer(call).unwrap();
        header(&s.receive_line("200"), "Session-Expires")
    };
    // Who is called may lower it, not below Min-SE (RFC 4028 section 9).
    assert_eq!(agreed(&mut s, "Session-Expires: 2000000000\r\n"), "86400;refresher=uac");
    assert_eq!(
        agreed(&mut s, "Session-Expires: 2000000\r\nMin-SE: 100000\r\n"),
        "100000;refresher=uac"
    );
    // A demand of years in a 422 is not followed.
    let local = s.peer.local_addr().unwrap();
    s.ep.dial(&dialling(format!("sip:100@{local}"))).unwrap();
    let invite = s.receive_line("INVITE");
    s.send(response(
        &invite,
        "422 Session Interval Too Small",
        local,
        "Min-SE: 2000000000\r\n",
        None,
    ));
    assert_eq!(s.ended(), (422, true));
}

#[test]
fn an_answer_with_a_codec_that_was_not_offered_is_no_success() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    let only = |pts: &str| OFFER.replace("8 0 101", pts);
    // What ran before (PCMA), which the peer lists: the call goes on with it.
    s.ep.offer(call, &LOCAL.replace("8 0 101", "0 101")).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "200 OK", Some(&only("8 101")));
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 488);
    s.send(uac.request("OPTIONS", None));
    assert_eq!(status(&s.receive()), 200, "the call is up");
    // And without an answer at all.
    s.ep.offer(call, LOCAL).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "200 OK", None);
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 488);
    s.ep.offer(call, &LOCAL.replace("8 0 101", "0 101")).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "200 OK", Some(&only("0 101")));
    s.receive_line("ACK");
    let codec = s.media().codec;
    assert_eq!(codec, Codec::Pcmu, "a good one is taken after that");
    assert_eq!(offered(&mut s), 200);
    // Another codec than the one that runs, and not offered either: nobody would hear anything, so it ends.
    s.ep.offer(call, &LOCAL.replace("8 0 101", "0 101")).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "200 OK", Some(&only("8 101")));
    s.receive_line("ACK");
    assert_eq!(offered(&mut s), 488);
    s.receive_line("BYE");
    assert_eq!(s.ended(), (488, false));
}

#[test]
fn bye_of_an_early_dialog_is_told_as_487() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    s.ep.dial(&dialling(format!("sip:100@{local}"))).unwrap();
    let invite = s.receive_line("INVITE");
    s.send(response(&invite, "180 Ringing", local, "", None));
    s.settle(Duration::from_millis(20));
    let mut uac = Uac::new(&s);
    uac.call_id = header(&invite, "Call-ID");
    let bye = uac.request("BYE", None);
    let bye = bye
        .lines()
        .map(|line| match line.split_once(':').map_or("", |(name, _)| name) {
            "From" => format!("From: {};tag=p1\r\n", header(&invite, "To")),
            "To" => format!("To: {}\r\n", header(&invite, "From")),
            _ => format!("{line}\r\n"),
        })
        .collect::<String>();
    s.send(bye);
    let (status, reason, by_remote) = s.event(|e| match e {
        SipEvent::Ended { status, reason, by_remote, .. } => {
            Some((*status, reason.clone(), *by_remote))
        }
        _ => None,
    });
    assert_eq!((status, by_remote), (487, true));
    assert_eq!(reason, "BYE before the call was answered");
}

#[test]
fn bye_after_our_own_gets_481() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.hangup(call).unwrap();
    let ours = s.receive_line("BYE");
    let crossing = uac.request("BYE", None);
    assert_eq!(status(&answer_to(&mut s, &crossing)), 200, "they crossed");
    reply(&s, &ours, "200 OK", None);
    s.settle(Duration::from_millis(20));
    let late = uac.request("BYE", None);
    assert_eq!(status(&answer_to(&mut s, &late)), 481);
}

#[test]
fn an_offer_to_a_host_name_gets_488() {
    let mut s = Stage::new();
    let named = OFFER.replace("c=IN IP4 127.0.0.1", "c=IN IP4 media.example.com");
    let mut uac = Uac::new(&s);
    let invite = uac.invite(Some(&named));
    assert_eq!(status(&answer_to(&mut s, &invite)), 488);
    let (mut uac, _) = answered(&mut s);
    let invite = uac.invite(Some(&named));
    assert_eq!(status(&answer_to(&mut s, &invite)), 488, "in a call that is up");
    s.send(uac.message("ACK", None));
    s.send(uac.request("OPTIONS", None));
    let answer = s.receive();
    assert_eq!(status(&answer), 200, "which goes on: {}", body(&answer));
}

#[test]
fn a_codec_in_place_40_of_an_offer_is_found() {
    let mut s = Stage::new();
    let odd: Vec<String> = (20..59).map(|pt| pt.to_string()).collect();
    let maps: String =
        odd.iter().map(|pt| format!("a=rtpmap:{pt} odd/8000\r\na=fmtp:{pt} mode=1\r\n")).collect();
    let many = |last: &str| {
        let formats = format!("{} {last}", odd.join(" "));
        OFFER.replace("8 0 101", &formats).replace("a=rtpmap:8 ", &format!("{maps}a=rtpmap:8 "))
    };
    let (mut uac, call) = s.answered(Some(&many("0 101")));
    let media = s.media();
    assert_eq!((media.codec, media.telephone_event), (Codec::Pcmu, Some(101)));
    s.confirmed();
    s.send(uac.invite(Some(&many("8"))));
    s.receive_line("200");
    s.send(uac.ack(None));
    assert_eq!(s.media().codec, Codec::Pcma);
    // And of an answer.
    s.ep.offer(call, LOCAL).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, "200 OK", Some(&many("0 101")));
    s.receive_line("ACK");
    assert_eq!(s.media().codec, Codec::Pcmu);
    assert_eq!(offered(&mut s), 200);
}
