// SPDX-License-Identifier: GPL-3.0-or-later
//! B17: where requests of a dialog go (RFC 3261 12.1, 12.2.1.1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use common::{dialling, first_line, header, response, tag, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, DialRequest, Policy, SipEvent};

/// All values of a header, one a line or several in one.
fn all(message: &str, name: &str) -> Vec<String> {
    let head = message.split("\r\n\r\n").next().unwrap();
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .flat_map(|(_, value)| value.split(',').map(|v| v.trim().to_owned()).collect::<Vec<_>>())
        .collect()
}

/// Dials, and the peer answers with these Record-Routes and this Contact; gives the ACK.
fn dialled(s: &mut Stage, routes: &str, contact: &str) -> (CallId, String) {
    let local = s.peer.local_addr().unwrap();
    let request = dialling(format!("sip:100@{local}"));
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    let ok = response(&invite, "200 OK", local, routes, Some(OFFER))
        .replace(&format!("Contact: <sip:peer@{local}>"), &format!("Contact: <{contact}>"));
    s.send(ok);
    let ack = s.receive_line("ACK");
    s.confirmed();
    (call, ack)
}

#[test]
fn b17_loose_routes_go_back_in_reverse_with_the_contact_as_request_uri() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let routes =
        format!("Record-Route: <sip:192.0.2.20;lr>\r\nRecord-Route: <sip:{local};lr;here=yes>\r\n");
    let (call, ack) = dialled(&mut s, &routes, "sip:callee@10.1.2.3:5099");
    s.ep.hangup(call).unwrap();
    for request in [ack, s.receive_line("BYE")] {
        assert!(first_line(&request).contains(" sip:callee@10.1.2.3:5099 "), "{request}");
        assert_eq!(
            all(&request, "Route"),
            [format!("<sip:{local};lr;here=yes>"), "<sip:192.0.2.20;lr>".to_owned()]
        );
    }
}

#[test]
fn b17_a_strict_router_finds_itself_in_the_request_uri() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let routes =
        format!("Record-Route: <sip:192.0.2.20;lr>\r\nRecord-Route: <sip:strict@{local}>\r\n");
    let (call, ack) = dialled(&mut s, &routes, "sip:callee@10.1.2.3:5099");
    s.ep.hangup(call).unwrap();
    for request in [ack, s.receive_line("BYE")] {
        assert!(first_line(&request).contains(&format!(" sip:strict@{local} ")), "{request}");
        assert_eq!(
            all(&request, "Route"),
            ["<sip:192.0.2.20;lr>", "<sip:callee@10.1.2.3:5099>"],
            "RFC 3261 12.2.1.1: the remote target comes last"
        );
    }
}

#[test]
fn b17_record_routes_are_copied_into_18x_and_200_and_followed() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let mut uac = Uac::new(&s);
    uac.extra =
        format!("Record-Route: <sip:{local};lr;top=yes>\r\nRecord-Route: <sip:192.0.2.20;lr>\r\n");
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.ring(call).unwrap();
    let ringing = s.receive_line("180");
    s.ep.answer(call).unwrap();
    let ok = s.receive_line("200");
    let routes = [format!("<sip:{local};lr;top=yes>"), "<sip:192.0.2.20;lr>".to_owned()];
    assert_eq!(all(&ringing, "Record-Route"), routes);
    assert_eq!(all(&ok, "Record-Route"), routes);
    assert_eq!(tag(&ringing, "To"), tag(&ok, "To"));
    uac.learn(&ok);
    uac.extra.clear();
    s.send(uac.ack(None));
    s.confirmed();
    s.ep.hangup(call).unwrap();
    let bye = s.receive_line("BYE");
    assert_eq!(all(&bye, "Route"), routes, "a callee keeps their order (RFC 3261 12.1.1)");
    assert!(first_line(&bye).starts_with(&format!("BYE sip:peer@{local} ")), "{bye}");
    assert_eq!(header(&bye, "CSeq").split(' ').nth(1), Some("BYE"));
    s.settle(Duration::from_millis(10));
}

/// A call whose INVITE is too large for a datagram, from an endpoint with TCP.
fn large(s: &mut Stage, uri: String) {
    let any = "127.0.0.1:0".parse().unwrap();
    s.ep.add_tcp(any, None).unwrap();
    s.ep.set_policy(0, &Policy { large_over_tcp: true, ..Policy::default() }).unwrap();
    let sdp = format!("{LOCAL}{}", "a=x-padding:0123456789012345678901234567890\r\n".repeat(25));
    s.ep.dial(&DialRequest { uri, sdp, ..DialRequest::default() }).unwrap();
}

#[test]
fn b19_a_large_invite_goes_over_tcp_with_a_via_that_says_so() {
    let mut s = Stage::new();
    let server = TcpListener::bind(s.peer.local_addr().unwrap()).unwrap();
    server.set_nonblocking(true).unwrap();
    large(&mut s, format!("sip:100@{}", server.local_addr().unwrap()));
    let (mut invite, mut connection) = (String::new(), None);
    for _ in 0..500 {
        s.settle(Duration::from_millis(5));
        if connection.is_none() {
            connection = server.accept().ok().map(|(stream, _)| stream);
        } else if let Some(stream) = &mut connection {
            stream.set_nonblocking(true).unwrap();
            let mut buf = [0; 8192];
            let len = stream.read(&mut buf).unwrap_or(0);
            invite += std::str::from_utf8(&buf[..len]).unwrap();
            if invite.contains("\r\n\r\n") {
                break;
            }
        }
    }
    assert!(invite.starts_with("INVITE "), "{invite}");
    assert!(header(&invite, "Via").starts_with("SIP/2.0/TCP 127.0.0.1:"), "{invite}");
    assert!(header(&invite, "Contact").contains(";transport=tcp"), "{invite}");
    assert_eq!(s.receive_within(Duration::from_millis(50)), None, "nothing over UDP");
}

#[test]
fn b19_where_tcp_is_refused_it_goes_over_udp_and_the_log_says_so() {
    let mut s = Stage::new();
    let to = s.peer.local_addr().unwrap();
    large(&mut s, format!("sip:100@{to}"));
    let invite = s.receive_line("INVITE");
    assert!(invite.len() > 1300);
    assert!(header(&invite, "Via").starts_with("SIP/2.0/UDP"), "{invite}");
    s.event(|e| match e {
        SipEvent::Log { message, .. } if message.contains("over UDP") => Some(()),
        _ => None,
    });
}

#[test]
fn b19_an_ordinary_invite_is_small_and_stays_on_udp() {
    let mut s = Stage::new();
    let any = "127.0.0.1:0".parse().unwrap();
    s.ep.add_tcp(any, None).unwrap();
    s.ep.set_policy(0, &Policy { large_over_tcp: true, ..Policy::default() }).unwrap();
    let uri = format!("sip:100@{}", s.peer.local_addr().unwrap());
    s.ep.dial(&dialling(uri)).unwrap();
    let invite = s.receive_line("INVITE");
    assert!(invite.len() < 1100, "{} bytes", invite.len());
    assert!(header(&invite, "Via").starts_with("SIP/2.0/UDP"), "{invite}");
}
