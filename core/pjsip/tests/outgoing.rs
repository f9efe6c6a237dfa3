// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that we place, against a peer written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, first_line, header, response, status, Stage, LOCAL, OFFER};
use pjsip_sys::{CallId, Codec, Credentials, DialRequest, EndpointConfig, SipError, SipEvent};

fn request(s: &Stage) -> DialRequest {
    DialRequest {
        uri: format!("sip:100@{}", s.peer.local_addr().unwrap()),
        from: Some("sip:bot@example.org".to_owned()),
        sdp: LOCAL.to_owned(),
        ..DialRequest::default()
    }
}

fn dial(s: &mut Stage) -> (CallId, String) {
    let request = request(s);
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    (call, invite)
}

fn reply(s: &Stage, to: &str, status: &str, body: Option<&str>) {
    s.send(response(to, status, s.peer.local_addr().unwrap(), "", body));
}

#[test]
fn call_is_answered_and_ended_by_the_peer() {
    let mut s = Stage::new();
    let (call, invite) = dial(&mut s);
    assert!(first_line(&invite).starts_with("INVITE sip:100@127.0.0.1:"), "{invite}");
    assert!(header(&invite, "From").starts_with("<sip:bot@example.org>;tag="), "{invite}");
    assert_eq!(header(&invite, "User-Agent"), "voice-edge");
    assert!(header(&invite, "Contact").contains(&s.sip.to_string()), "{invite}");
    assert!(body(&invite).contains("m=audio 30000 RTP/AVP 8 0 101"), "{invite}");
    reply(&s, &invite, "180 Ringing", None);
    let seen = s.event(|e| match e {
        SipEvent::Progress { call, status } => Some((*call, *status)),
        _ => None,
    });
    assert_eq!(seen, (call, 180));
    let answer =
        OFFER.replace("8 0 101", "0 96").replace(":101 ", ":96 ").replace("40000", "45000");
    reply(&s, &invite, "200 OK", Some(&answer));
    let ack = s.receive_line("ACK");
    assert!(first_line(&ack).starts_with("ACK sip:peer@"), "{ack}");
    let media = s.media();
    assert_eq!((media.codec, media.remote_rtp.port()), (Codec::Pcmu, 45000));
    // The peer answered with a number of its own: we send on its, and hear it on ours (RFC 3264 5.1).
    assert_eq!(media.telephone_event, Some(96));
    assert_eq!(s.confirmed(), call);
    let bye = format!(
        "BYE sip:bot@{} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKbye\r\nFrom: {};tag=p1\r\nTo: {}\r\n\
         Call-ID: {}\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n",
        s.sip,
        s.peer.local_addr().unwrap(),
        header(&invite, "To"),
        header(&invite, "From"),
        header(&invite, "Call-ID"),
    );
    s.send(bye);
    assert_eq!(status(&s.receive()), 200);
    assert_eq!(s.ended(), (200, true));
}

#[test]
fn busy_peer_ends_the_call() {
    let mut s = Stage::new();
    let (_, invite) = dial(&mut s);
    reply(&s, &invite, "486 Busy Here", None);
    s.receive_line("ACK");
    assert_eq!(s.ended(), (486, true));
}

#[test]
fn hangup_while_ringing_cancels() {
    let mut s = Stage::new();
    let (call, invite) = dial(&mut s);
    reply(&s, &invite, "180 Ringing", None);
    s.event(|e| matches!(e, SipEvent::Progress { .. }).then_some(()));
    s.ep.hangup(call).unwrap();
    assert_eq!(s.ended(), (487, false));
    let cancel = s.receive_line("CANCEL");
    reply(&s, &cancel, "200 OK", None);
    reply(&s, &invite, "487 Request Terminated", None);
    s.receive_line("ACK");
    assert_eq!(s.ep.hangup(call), Err(SipError::NoSuchCall(call)));
}

#[test]
fn hangup_before_any_answer_cancels_once_there_is_one() {
    let mut s = Stage::new();
    let (call, invite) = dial(&mut s);
    s.ep.hangup(call).unwrap();
    assert_eq!(s.ended(), (487, false));
    reply(&s, &invite, "100 Trying", None);
    s.receive_line("CANCEL");
}

#[test]
fn cancel_that_crosses_200_ends_in_ack_and_bye() {
    let mut s = Stage::new();
    let (call, invite) = dial(&mut s);
    reply(&s, &invite, "180 Ringing", None);
    s.event(|e| matches!(e, SipEvent::Progress { .. }).then_some(()));
    s.ep.hangup(call).unwrap();
    let cancel = s.receive_line("CANCEL");
    reply(&s, &invite, "200 OK", Some(OFFER));
    reply(&s, &cancel, "200 OK", None);
    s.receive_line("ACK");
    s.receive_line("BYE");
    let after = s.settle(Duration::from_millis(50));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Confirmed { .. })), "{after:?}");
}

#[test]
fn answer_that_does_not_fit_ends_in_bye() {
    let mut s = Stage::new();
    let (_, invite) = dial(&mut s);
    reply(&s, &invite, "200 OK", Some(&OFFER.replace("8 0 101", "18")));
    s.receive_line("ACK");
    s.receive_line("BYE");
    assert_eq!(s.ended(), (488, false));
}

#[test]
fn challenge_is_answered_with_digest() {
    let mut s = Stage::new();
    for (algorithm, code, asked, given) in [
        ("MD5", "401 Unauthorized", "WWW-Authenticate", "Authorization"),
        (
            "SHA-256",
            "407 Proxy Authentication Required",
            "Proxy-Authenticate",
            "Proxy-Authorization",
        ),
    ] {
        let mut request = request(&s);
        request.credentials = Some(Credentials {
            realm: "*".to_owned(),
            username: "bot".to_owned(),
            password: "secret".to_owned(),
        });
        let call = s.ep.dial(&request).unwrap();
        let invite = s.receive_line("INVITE");
        let challenge = format!(
            "{asked}: Digest realm=\"r\",nonce=\"n1\",algorithm={algorithm},qop=\"auth\"\r\n"
        );
        s.send(response(&invite, code, s.peer.local_addr().unwrap(), &challenge, None));
        s.receive_line("ACK");
        let again = s.receive_line("INVITE");
        let digest = header(&again, given);
        assert!(digest.contains("username=\"bot\"") && digest.contains("realm=\"r\""), "{again}");
        assert!(digest.contains(&format!("algorithm={algorithm}")), "{digest}");
        assert!(!again.contains("secret"));
        // A second refusal is final.
        s.send(response(&again, "403 Forbidden", s.peer.local_addr().unwrap(), "", None));
        s.receive_line("ACK");
        assert_eq!(s.ended(), (403, true));
        let _ = call;
    }
}

#[test]
fn challenge_without_credentials_ends_the_call() {
    let mut s = Stage::new();
    let (_, invite) = dial(&mut s);
    let challenge = "WWW-Authenticate: Digest realm=\"r\",nonce=\"n1\",algorithm=MD5\r\n";
    s.send(response(&invite, "401 Unauthorized", s.peer.local_addr().unwrap(), challenge, None));
    assert_eq!(s.ended(), (401, true));
}

#[test]
fn record_routes_are_followed_in_reverse() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let (call, invite) = dial(&mut s);
    let routes =
        format!("Record-Route: <sip:{local};lr;n=2>\r\nRecord-Route: <sip:127.0.0.1:9;lr;n=1>\r\n");
    let ok = response(&invite, "200 OK", local, &routes, Some(OFFER)).replacen(
        &format!("<sip:peer@{local}>"),
        "<sip:peer@192.0.2.77:5099>",
        1,
    );
    // Reversed, the first hop is the last Record-Route: swap so that it is us.
    let ok = ok.replace("127.0.0.1:9;lr;n=1", &format!("{local};lr;n=1"));
    s.send(ok);
    let ack = s.receive_line("ACK");
    assert!(first_line(&ack).starts_with("ACK sip:peer@192.0.2.77:5099 "), "{ack}");
    let route = header(&ack, "Route");
    assert!(route.contains("n=1"), "{ack}");
    s.confirmed();
    s.ep.hangup(call).unwrap();
    let bye = s.receive_line("BYE");
    assert!(first_line(&bye).starts_with("BYE sip:peer@192.0.2.77:5099 "), "{bye}");
}

#[test]
fn large_invite_stays_on_udp_and_is_logged() {
    let mut s = Stage::new();
    let mut request = request(&s);
    request.sdp += &"a=x-padding:0123456789012345678901234567890123456789\r\n".repeat(30);
    s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    assert!(invite.len() > 1300);
    assert!(header(&invite, "Via").starts_with("SIP/2.0/UDP"), "{invite}");
    s.event(|e| match e {
        SipEvent::Log { level: 2, message } if message.contains("over UDP") => Some(()),
        _ => None,
    });
}

#[test]
fn bad_requests_are_errors() {
    let mut s = Stage::with(EndpointConfig { max_calls: 1, ..EndpointConfig::default() });
    for uri in
        ["", "100", "tel:+49", "sip:", "sip:a@b\r\nX: y", "sip:@@@@", "sip:100@host:99999999"]
    {
        let bad = DialRequest { uri: uri.to_owned(), ..request(&s) };
        match s.ep.dial(&bad) {
            Err(SipError::BadUri(_) | SipError::Pj { .. }) => {}
            other => panic!("{uri:?}: {other:?}"),
        }
    }
    let bad = DialRequest { sdp: "v=0".to_owned(), ..request(&s) };
    assert_eq!(s.ep.dial(&bad).unwrap_err().code(), "sip.bad_sdp");
    assert_eq!(s.ep.stats().calls, 0);
    dial(&mut s);
    assert_eq!(s.ep.dial(&request(&s)), Err(SipError::TooManyCalls(1)));
}

#[test]
fn nobody_there_is_told() {
    let mut s = Stage::new();
    // A port that refuses: ICMP makes the send fail, or the transaction times out (not waited for).
    let gone = common::peer().local_addr().unwrap();
    let call = s.ep.dial(&DialRequest { uri: format!("sip:100@{gone}"), ..request(&s) }).unwrap();
    s.settle(Duration::from_millis(100));
    let _ = s.ep.hangup(call);
}
