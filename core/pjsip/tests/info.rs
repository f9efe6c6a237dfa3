// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys by INFO: bodies as they are met, answers of all kinds to ours, and RTCP on RTP's port.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, header, response, Stage, LOCAL, OFFER};
use pjsip_sys::{CallId, Credentials, DialRequest, RtcpWay, SipEvent};

/// A call of ours that is up, with the INVITE it began with.
fn dialled(s: &mut Stage, credentials: Option<Credentials>) -> (CallId, String) {
    let request = DialRequest {
        uri: format!("sip:100@{}", s.peer.local_addr().unwrap()),
        sdp: LOCAL.to_owned(),
        credentials,
        ..DialRequest::default()
    };
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    reply(s, &invite, "200 OK", "", Some(OFFER));
    s.receive_line("ACK");
    s.confirmed();
    (call, invite)
}

fn reply(s: &Stage, to: &str, status: &str, extra: &str, body: Option<&str>) {
    s.send(response(to, status, s.peer.local_addr().unwrap(), extra, body));
}

fn done(s: &mut Stage) -> (u64, u16) {
    s.event(|e| match e {
        SipEvent::InfoDone { token, status, .. } => Some((*token, *status)),
        _ => None,
    })
}

const CHALLENGE: &str =
    "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=MD5, qop=\"auth\"\r\n";

#[test]
fn a_key_goes_out_and_its_answer_is_told() {
    let mut s = Stage::new();
    let (call, _) = dialled(&mut s, None);
    for (token, event, status) in [(7u64, 11u8, "200 OK"), (u64::MAX - 1, 0, "415 No")] {
        s.ep.info_dtmf(call, event, 120, token).unwrap();
        let info = s.receive_line("INFO");
        assert_eq!(header(&info, "Content-Type"), "application/dtmf-relay");
        let key = if event == 11 { '#' } else { '0' };
        assert_eq!(body(&info), format!("Signal={key}\r\nDuration=120\r\n"));
        // One at a time.
        assert!(s.ep.info_dtmf(call, 1, 100, 9).is_err());
        reply(&s, &info, status, "", None);
        assert_eq!(done(&mut s), (token, status[..3].parse().unwrap()));
    }
}

#[test]
fn a_challenge_is_answered_when_we_can_and_told_when_not() {
    let mut s = Stage::new();
    let (call, _) = dialled(&mut s, None);
    s.ep.info_dtmf(call, 5, 100, 1).unwrap();
    let info = s.receive_line("INFO");
    reply(&s, &info, "401 Unauthorized", CHALLENGE, None);
    assert_eq!(done(&mut s), (1, 401));
    s.ep.hangup(call).unwrap();

    let credentials = Credentials {
        realm: "*".to_owned(),
        username: "bot".to_owned(),
        password: "secret".to_owned(),
    };
    let (call, _) = dialled(&mut s, Some(credentials));
    s.ep.info_dtmf(call, 5, 100, 2).unwrap();
    let info = s.receive_line("INFO");
    reply(&s, &info, "401 Unauthorized", CHALLENGE, None);
    let again = s.receive_line("INFO");
    assert!(header(&again, "Authorization").contains("username=\"bot\""), "{again}");
    assert_eq!(body(&again), body(&info));
    reply(&s, &again, "200 OK", "", None);
    assert_eq!(done(&mut s), (2, 200));
    // The challenged transaction ends some seconds later and says nothing more.
    let later = s.settle(Duration::from_millis(6000));
    assert!(!later.iter().any(|e| matches!(e, SipEvent::InfoDone { .. })));
}

#[test]
fn bodies_of_all_kinds_are_read_or_refused_and_no_text_shows_the_key() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    let relay = "application/dtmf-relay";
    for (kind, text, status, key) in [
        (relay, "Signal=5\r\nDuration=160\r\n", 200, Some((5, 160))),
        (relay, "Signal= *\nDuration= 300", 200, Some((10, 300))),
        (relay, "duration=40\r\nSIGNAL = d\r\n", 200, Some((15, 40))),
        (relay, "Signal=11\r\n", 200, Some((11, 160))),
        (relay, "Signal=!\r\nDuration=oops\r\n", 200, Some((16, 0))),
        ("application/dtmf", "7", 200, Some((7, 160))),
        ("Application/DTMF", " # \r\n", 200, Some((11, 160))),
        (relay, "Signal=\r\n", 400, None),
        (relay, "Signal=12345\r\n", 400, None),
        (relay, "=\r\n=\r\n", 400, None),
        (relay, "\n\n\n", 400, None),
        ("text/plain", "7", 415, None),
    ] {
        let request = uac.request("INFO", Some(text)).replacen("application/sdp", kind, 1);
        s.send(&request);
        let answer = s.receive_line("SIP/2.0");
        assert!(answer.starts_with(&format!("SIP/2.0 {status}")), "{text:?}: {answer}");
        let events = s.settle(Duration::from_millis(30));
        let told = events.iter().find_map(|e| match e {
            SipEvent::Dtmf { event, duration_ms, .. } => Some((*event, *duration_ms)),
            _ => None,
        });
        assert_eq!(told, key, "{text:?}");
        for event in &events {
            assert!(!format!("{event:?}").contains("event:"), "{event:?}");
        }
    }
}

#[test]
fn rtcp_shares_rtps_port_when_the_offer_says_so() {
    for (more, way) in [("a=rtcp-mux\r\n", RtcpWay::Mux), ("", RtcpWay::Beside)] {
        let mut s = Stage::new();
        let offer = format!("{OFFER}{more}");
        s.answered(Some(&offer));
        assert_eq!(s.media().rtcp, way);
    }
    let mut s = Stage::new();
    let offer = OFFER.replace("a=rtpmap:8", "b=RS:0\r\nb=RR:0\r\na=rtpmap:8");
    s.answered(Some(&offer));
    assert_eq!(s.media().rtcp, RtcpWay::Off);
}
