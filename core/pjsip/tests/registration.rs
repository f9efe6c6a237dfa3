// SPDX-License-Identifier: GPL-3.0-or-later
//! Registration (RFC 3261 section 10) against a registrar written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{first_line, header, response, Stage};
use pjsip_sys::{Credentials, RegId, Registration, SipError, SipEvent};

fn request(s: &Stage, expires_s: u32) -> Registration {
    Registration {
        aor: "sip:bot@example.org".to_owned(),
        registrar: format!("sip:{}", s.peer.local_addr().unwrap()),
        credentials: Credentials {
            realm: "*".to_owned(),
            username: "bot".to_owned(),
            password: "secret".to_owned(),
        },
        expires_s,
        ..Registration::default()
    }
}

fn reply(s: &Stage, to: &str, status: &str, extra: &str) {
    s.send(response(to, status, s.peer.local_addr().unwrap(), extra, None));
}

/// 200 that grants what Contact and `expires` say.
fn grant(s: &Stage, register: &str, expires: u32) {
    let contact = header(register, "Contact");
    let ok = response(register, "200 OK", s.peer.local_addr().unwrap(), "", None);
    let own = format!("Contact: <sip:peer@{}>\r\n", s.peer.local_addr().unwrap());
    let bound = contact.split(";expires").next().unwrap();
    s.send(ok.replace(&own, &format!("Contact: {bound};expires={expires}\r\n")));
}

fn outcome(s: &mut Stage) -> (RegId, u16, u32) {
    s.event(|e| match e {
        SipEvent::Registration { reg, status, expires_s, .. } => Some((*reg, *status, *expires_s)),
        _ => None,
    })
}

#[test]
fn digest_binding_refresh_and_removal() {
    let mut s = Stage::new();
    let registration = request(&s, 300);
    let reg = s.ep.register(&registration).unwrap();
    let first = s.receive_line("REGISTER");
    assert!(first_line(&first).starts_with("REGISTER sip:127.0.0.1:"), "{first}");
    assert!(header(&first, "To").contains("<sip:bot@example.org>"), "{first}");
    assert!(header(&first, "Contact").contains(&format!("<sip:bot@{}>", s.sip)), "{first}");
    assert_eq!(header(&first, "Expires"), "300");
    reply(
        &s,
        &first,
        "401 Unauthorized",
        "WWW-Authenticate: Digest realm=\"r\",nonce=\"n\",algorithm=MD5,qop=\"auth\"\r\n",
    );
    let second = s.receive_line("REGISTER");
    assert!(header(&second, "Authorization").contains("username=\"bot\""), "{second}");
    grant(&s, &second, 6);
    assert_eq!(outcome(&mut s), (reg, 200, 6));
    // Refreshed 5 s before it runs out, that is in about 1 s.
    let third = s.receive_line("REGISTER");
    grant(&s, &third, 300);
    assert_eq!(outcome(&mut s), (reg, 200, 300));
    s.ep.unregister(reg).unwrap();
    let last = s.receive_line("REGISTER");
    assert_eq!(header(&last, "Expires"), "0");
    reply(&s, &last, "200 OK", "");
    assert_eq!(outcome(&mut s), (reg, 200, 0));
    s.settle(Duration::from_millis(20));
    assert_eq!(s.ep.unregister(reg), Err(SipError::NoSuchRegistration(reg)));
}

#[test]
fn refusal_is_told_and_tried_again() {
    let mut s = Stage::new();
    let registration = Registration { retry_first: Duration::from_millis(50), ..request(&s, 300) };
    let reg = s.ep.register(&registration).unwrap();
    let first = s.receive_line("REGISTER");
    reply(&s, &first, "403 Forbidden", "");
    assert_eq!(outcome(&mut s), (reg, 403, 0));
    // Refused credentials wait twelve times as long as other failures.
    let again = s.receive();
    assert!(first_line(&again).starts_with("REGISTER"), "{again}");
    grant(&s, &again, 300);
    assert_eq!(outcome(&mut s), (reg, 200, 300));
}

#[test]
fn interval_too_brief_is_adopted() {
    let mut s = Stage::new();
    let registration = request(&s, 60);
    s.ep.register(&registration).unwrap();
    let first = s.receive_line("REGISTER");
    reply(&s, &first, "423 Interval Too Brief", "Min-Expires: 600\r\n");
    let second = s.receive_line("REGISTER");
    assert_eq!(header(&second, "Expires"), "600");
}

#[test]
fn unregister_while_registering_still_leaves() {
    let mut s = Stage::new();
    let registration = request(&s, 300);
    let reg = s.ep.register(&registration).unwrap();
    let first = s.receive_line("REGISTER");
    s.ep.unregister(reg).unwrap();
    grant(&s, &first, 300);
    let last = s.receive_line("REGISTER");
    assert_eq!(header(&last, "Expires"), "0");
    reply(&s, &last, "200 OK", "");
    assert_eq!(outcome(&mut s), (reg, 200, 0));
}

#[test]
fn shutdown_removes_the_binding() {
    let s = Stage::new();
    let registration = request(&s, 300);
    let Stage { mut ep, peer, mut events, _turn, .. } = s;
    ep.register(&registration).unwrap();
    let local = peer.local_addr().unwrap();
    // The registrar answers from a thread: shutdown() runs the endpoint by itself.
    let registrar = std::thread::spawn(move || {
        peer.set_nonblocking(false).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut seen = Vec::new();
        let mut buf = [0_u8; 4096];
        while seen.len() < 2 {
            let (len, from) = peer.recv_from(&mut buf).unwrap();
            let register = String::from_utf8_lossy(&buf[..len]).into_owned();
            let contact = header(&register, "Contact");
            let ok = response(&register, "200 OK", local, "", None)
                .replace(&format!("<sip:peer@{local}>"), &format!("{contact};expires=300"));
            peer.send_to(ok.as_bytes(), from).unwrap();
            seen.push(header(&register, "Expires"));
        }
        seen
    });
    while events.is_empty() {
        ep.poll(Duration::from_millis(50), &mut events).unwrap();
    }
    ep.shutdown();
    assert_eq!(registrar.join().unwrap(), ["300", "0"]);
}

#[test]
fn bad_requests_are_errors() {
    let mut s = Stage::new();
    let good = request(&s, 300);
    let bad = Registration { aor: "bot".to_owned(), ..good.clone() };
    assert_eq!(s.ep.register(&bad).unwrap_err().code(), "sip.bad_uri");
    let bad = Registration { expires_s: 0, ..good.clone() };
    assert_eq!(s.ep.register(&bad).unwrap_err(), SipError::BadArgument("expires_s"));
    let mut bad = good.clone();
    bad.credentials.username = "a\"b".to_owned();
    assert_eq!(s.ep.register(&bad).unwrap_err(), SipError::BadArgument("username"));
    assert!(!format!("{good:?}").contains("secret") && !format!("{good:?}").contains("bot"));
}

#[test]
fn a_registrar_that_asks_for_years_is_not_followed() {
    let mut s = Stage::new();
    for years in ["2000000000", "4294967386", "18446744073709551706"] {
        let registration = request(&s, 300);
        let reg = s.ep.register(&registration).unwrap();
        let extra = format!("Min-Expires: {years}\r\n");
        let first = s.receive_line("REGISTER");
        reply(&s, &first, "423 Interval Too Brief", &extra);
        // PJSIP tries an hour once.
        let second = s.receive_line("REGISTER");
        assert_eq!(header(&second, "Expires"), "3601");
        reply(&s, &second, "423 Interval Too Brief", &extra);
        assert_eq!(outcome(&mut s), (reg, 423, 0));
        s.ep.unregister(reg).unwrap();
        s.settle(Duration::from_millis(20));
    }
    let registration = request(&s, 300);
    s.ep.register(&registration).unwrap();
    let first = s.receive_line("REGISTER");
    reply(&s, &first, "423 Interval Too Brief", "Min-Expires: 7200\r\n");
    assert_eq!(header(&s.receive_line("REGISTER"), "Expires"), "7200", "two hours are followed");
}
