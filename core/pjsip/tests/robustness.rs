// SPDX-License-Identifier: GPL-3.0-or-later
//! What strangers send: nothing of it may end the process or stop it from answering.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{header, status, Stage, Uac, OFFER};
use pjsip_sys::SipEvent;

/// OPTIONS is answered with 200: the endpoint lives.
fn assert_alive(s: &mut Stage) {
    let mut uac = Uac::new(s);
    let options = uac.request("OPTIONS", None);
    s.send(&options);
    loop {
        let answer = s.receive();
        if header(&answer, "Call-ID") == uac.call_id {
            assert_eq!(status(&answer), 200);
            return;
        }
    }
}

fn assert_status(s: &mut Stage, message: &str, expected: u16) -> String {
    s.send(message);
    let answer = s.receive();
    assert_eq!(status(&answer), expected, "to:\n{message}\nanswer:\n{answer}");
    answer
}

#[test]
fn options_says_what_we_can() {
    let mut s = Stage::new();
    let options = Uac::new(&s).request("OPTIONS", None);
    let answer = assert_status(&mut s, &options, 200);
    let allow = header(&answer, "Allow");
    for method in ["INVITE", "ACK", "BYE", "CANCEL", "OPTIONS", "UPDATE", "PRACK", "REFER"] {
        assert!(allow.contains(method), "{allow}");
    }
    assert!(!allow.contains("SUBSCRIBE"), "{allow}");
    assert!(header(&answer, "Accept").contains("application/sdp"), "{answer}");
    assert!(header(&answer, "Supported").contains("timer"), "{answer}");
}

#[test]
fn methods_without_service_are_refused() {
    let mut s = Stage::new();
    for (method, expected) in [
        ("MESSAGE", 405),
        ("REFER", 405),
        ("SUBSCRIBE", 405),
        ("NOTIFY", 405),
        ("PUBLISH", 405),
        ("REGISTER", 405),
        ("FROBNICATE", 501),
        ("BYE", 481),
        ("INFO", 481),
        ("UPDATE", 481),
        ("CANCEL", 481),
    ] {
        let request = Uac::new(&s).request(method, None);
        let answer = assert_status(&mut s, &request, expected);
        if expected == 405 {
            assert!(header(&answer, "Allow").contains("INVITE"), "{answer}");
        }
    }
}

#[test]
fn requests_inside_a_dialog_are_answered() {
    let mut s = Stage::new();
    let (mut uac, _) = s.answered(Some(OFFER));
    s.confirmed();
    for (method, expected) in [
        ("OPTIONS", 200),
        ("REFER", 603),
        ("MESSAGE", 405),
        ("INFO", 200),
        ("NOTIFY", 481),
        ("FROBNICATE", 501),
    ] {
        let request = uac.request(method, None);
        assert_status(&mut s, &request, expected);
    }
    // The call is none the worse for it.
    let bye = uac.request("BYE", None);
    assert_status(&mut s, &bye, 200);
}

#[test]
fn bye_of_a_foreign_dialog_gets_481() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    uac.to_tag = "never-given".to_owned();
    let bye = uac.request("BYE", None);
    assert_status(&mut s, &bye, 481);
}

#[test]
fn unknown_extension_gets_420() {
    let mut s = Stage::new();
    for method in ["INVITE", "OPTIONS"] {
        let mut uac = Uac::new(&s);
        uac.extra = "Require: teleport\r\n".to_owned();
        let request = uac.request(method, None);
        let answer = assert_status(&mut s, &request, 420);
        assert_eq!(header(&answer, "Unsupported"), "teleport");
    }
}

#[test]
fn schemes_we_cannot_serve() {
    let mut s = Stage::new();
    for target in ["tel:+4930123456", "sips:bot@host"] {
        let mut uac = Uac::new(&s);
        let request = uac.invite(Some(OFFER));
        let (_, rest) = request.split_once(" SIP/2.0").unwrap();
        assert_status(&mut s, &format!("INVITE {target} SIP/2.0{rest}"), 416);
    }
    // A scheme that PJSIP's parser does not know is no message to it: counted, told, and answered all the same.
    let strange = Uac::new(&s).invite(Some(OFFER)).replacen("INVITE sip:", "INVITE unknown:", 1);
    assert_status(&mut s, &strange, 416);
    s.event(|e| matches!(e, SipEvent::Malformed { .. }).then_some(()));
    let mut uac = Uac::new(&s);
    let odd = uac.invite(Some(OFFER)).replace("<sip:4930123456@test>", "<fax:4930123456>");
    assert_status(&mut s, &odd, 400);
    // A number as a tel: URI is a caller like any other.
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)).replace("<sip:4930123456@test>", "<tel:+4930123456>"));
    s.incoming();
}

#[test]
fn bodies_that_break_parsers() {
    let mut s = Stage::new();
    for (body, expected) in [
        (OFFER.replace("8 0 101", "4294967296"), &[400_u16, 488][..]),
        (OFFER.replace("8 0 101", "-1"), &[400, 488]),
        (OFFER.replace("m=audio 40000", "m=audio 99999999999"), &[400, 488]),
        (OFFER.replace("v=0", "v=x"), &[400, 488]),
        ("garbage".to_owned(), &[400, 488]),
        (OFFER.replace("a=fmtp:101 0-15", "a=fmtp:101 0\0-15"), &[100, 400, 488]),
        (OFFER.trim_end().to_owned(), &[100]),
        (OFFER.replace("\r\n", "\n"), &[100]),
    ] {
        let request = Uac::new(&s).invite(Some(&body));
        s.send(request);
        let answer = s.receive();
        assert!(expected.contains(&status(&answer)), "{body:?}:\n{answer}");
    }
    let mut uac = Uac::new(&s);
    let other = uac.invite(Some(OFFER)).replace("application/sdp", "text/plain");
    assert_status(&mut s, &other, 415);
    assert_alive(&mut s);
}

#[test]
fn invite_without_usable_contact_gets_400() {
    let mut s = Stage::new();
    for contact in ["", "Contact: *\r\n", "Contact: <tel:+49>\r\n"] {
        let request = Uac::new(&s).invite(Some(OFFER));
        let local = s.peer.local_addr().unwrap();
        let changed = request.replace(&format!("Contact: <sip:peer@{local}>\r\n"), contact);
        assert_ne!(request, changed);
        assert_status(&mut s, &changed, 400);
    }
}

#[test]
fn bracketed_hosts_parse() {
    let mut s = Stage::new();
    let mut uac = Uac::new(&s);
    let local = uac.local;
    let options =
        uac.request("OPTIONS", None).replace(&format!("UDP {local}"), "UDP [2001:db8::9:1]:5060");
    assert_status(&mut s, &options, 200);
}

#[test]
fn what_is_no_sip_is_counted_and_told_with_its_source() {
    let mut s = Stage::new();
    let source = s.peer.local_addr().unwrap();
    // Up to 32 bytes are keep-alives to PJSIP and pass in silence.
    s.send("hello there, this is a line of text and not SIP");
    let (from, why) = s.event(|e| match e {
        SipEvent::Malformed { source, why } => Some((*source, why.clone())),
        _ => None,
    });
    assert_eq!(from, Some(source));
    assert!(!why.is_empty());
    let headless = Uac::new(&s).request("OPTIONS", None).replace("Call-ID:", "X-Nothing:");
    s.send(headless);
    s.event(|e| matches!(e, SipEvent::Malformed { .. }).then_some(()));
    s.send("\r\n\r\n"); // keep-alive: not malformed
    s.send([0_u8; 64]);
    s.send([0x80_u8; 172]); // RTP-like
    s.settle(Duration::from_millis(50));
    assert_eq!(s.ep.stats().malformed, 4);
    assert_alive(&mut s);
}

#[test]
fn no_log_or_event_about_refused_things_holds_a_number() {
    let mut s = Stage::new();
    for message in [
        "INVITE sip:4930123456@x SIP/2.0\r\nFrom: 4930123456\r\nTo: ;;;4930123456\r\n\r\n"
            .to_owned(),
        Uac::new(&s).invite(Some(OFFER)).replace("\"Caller\"", "\"4930123456"),
        Uac::new(&s).invite(Some(OFFER)).replace("CSeq: 1", "CSeq: 4930123456x"),
        Uac::new(&s).invite(Some("v=4930123456")),
    ] {
        s.send(message);
    }
    let events = s.settle(Duration::from_millis(100));
    assert!(!events.is_empty());
    for event in events {
        assert!(!format!("{event:?}").contains("4930123456"), "{event:?}");
        if let SipEvent::Log { message, .. } = event {
            assert!(!message.contains("4930"), "{message}");
        }
    }
}

/// xorshift64*: the same mutations on every run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

#[test]
fn a_thousand_mutated_invites_leave_it_answering() {
    let mut s = Stage::new();
    let mut random = Seeded(20_261_130);
    for round in 0..1000 {
        let mut bytes = Uac::new(&s).invite(Some(OFFER)).into_bytes();
        for _ in 0..=random.below(8) {
            if bytes.len() < 2 {
                break;
            }
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes
                    .insert(at, [0, b'\r', b'\n', b';', b'<', 0xff, b':', b'%'][random.below(8)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        s.send(&bytes);
        s.settle(Duration::from_micros(200));
        // Whatever became a call is refused, so that the limit is not what saves us.
        if round % 50 == 49 {
            for event in s.settle(Duration::from_millis(5)) {
                if let SipEvent::Incoming { call, .. } = event {
                    let _ = s.ep.hangup(call);
                }
            }
            while s.receive_within(Duration::ZERO).is_some() {}
            assert_alive(&mut s);
        }
    }
    assert_alive(&mut s);
    assert!(s.ep.stats().malformed > 0);
}
