// SPDX-License-Identifier: GPL-3.0-or-later
//! REFER both ways (RFC 3515), Replaces (RFC 3891), 3xx (RFC 3261 8.1.3.4).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{body, first_line, header, response, status, tag, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, DialExtra, DialRequest, EndpointConfig, Policy, SipError, SipEvent};

fn answered(s: &mut Stage) -> (Uac, CallId) {
    let (uac, call) = s.answered(Some(OFFER));
    s.media();
    s.confirmed();
    (uac, call)
}

fn dial(s: &mut Stage, uri: &str) -> (CallId, String) {
    let request = DialRequest {
        uri: uri.to_owned(),
        from: None,
        sdp: LOCAL.to_owned(),
        credentials: None,
        route: None,
        extra: DialExtra::default(),
        ..DialRequest::default()
    };
    let call = s.ep.dial(&request).unwrap();
    (call, s.receive_line("INVITE"))
}

fn reply(s: &Stage, to: &str, status: &str, extra: &str, body: Option<&str>) {
    let answer = response(to, status, s.peer.local_addr().unwrap(), extra, body);
    s.send(answer.replace(";tag=p1", ";tag=f1"));
}

fn notify(uac: &mut Uac, state: &str, fragment: &str) -> String {
    uac.extra = format!("Event: refer\r\nSubscription-State: {state}\r\n");
    let text = uac.request("NOTIFY", Some(fragment));
    uac.extra.clear();
    text.replace("application/sdp", "message/sipfrag;version=2.0")
}

fn referred(s: &mut Stage) -> (u16, bool) {
    s.event(|e| match e {
        SipEvent::Referred { status, last, .. } => Some((*status, *last)),
        _ => None,
    })
}

#[test]
fn blind_transfer_and_its_progress() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    assert_eq!(header(&refer, "Refer-To"), "<sip:200@192.0.2.9>");
    assert!(header(&refer, "Referred-By").starts_with("<sip:"), "{refer}");
    assert!(matches!(s.ep.refer(call, "sip:201@192.0.2.9"), Err(SipError::NotReady(_))));
    reply(&s, &refer, "202 Accepted", "", None);
    assert_eq!(referred(&mut s), (202, false));
    s.send(notify(&mut uac, "active;expires=60", "SIP/2.0 180 Ringing\r\n"));
    assert_eq!(status(&s.receive()), 200);
    assert_eq!(referred(&mut s), (180, false));
    s.send(notify(&mut uac, "terminated;reason=noresource", "SIP/2.0 200 OK\r\n"));
    assert_eq!(status(&s.receive()), 200);
    assert_eq!(referred(&mut s), (200, true));
    // The subscription is over; the call is not.
    s.send(notify(&mut uac, "active", "SIP/2.0 180 Ringing\r\n"));
    assert_eq!(status(&s.receive()), 481);
    s.ep.refer(call, "sip:201@192.0.2.9").unwrap();
    s.receive_line("REFER");
}

#[test]
fn refused_and_failed_transfers_are_told_with_their_status() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    reply(&s, &refer, "603 Decline", "", None);
    assert_eq!(referred(&mut s), (603, true));
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    reply(&s, &refer, "202 Accepted", "", None);
    s.send(notify(&mut uac, "terminated;reason=noresource", "SIP/2.0 486 Busy Here\r\n"));
    assert_eq!(referred(&mut s), (202, false));
    assert_eq!(referred(&mut s), (486, true));
    assert!(matches!(s.ep.refer(call, "tel:+49"), Err(SipError::BadUri(_))));
    assert!(matches!(s.ep.refer(CallId(0), "sip:1@h"), Err(SipError::NoSuchCall(_))));
}

#[test]
fn attended_transfer_names_the_other_dialog() {
    let mut s = Stage::new();
    let (_, call) = answered(&mut s);
    let (target, other) = answered(&mut s);
    s.ep.refer_to(call, other).unwrap();
    let refer = s.receive_line("REFER");
    let to = header(&refer, "Refer-To");
    let expected = format!(
        "?Replaces={}%3Bto-tag%3Df1%3Bfrom-tag%3D{}>",
        target.call_id.replace('@', "%40"),
        target.to_tag.replace('@', "%40"),
    );
    assert!(to.starts_with("<sip:peer@127.0.0.1:") && to.ends_with(&expected), "{to}\n{expected}");
}

#[test]
fn refer_of_the_peer_is_refused_unless_allowed() {
    let mut s = Stage::new();
    let (mut uac, _) = answered(&mut s);
    uac.extra = "Refer-To: <sip:300@192.0.2.5>\r\n".to_owned();
    s.send(uac.request("REFER", None));
    assert_eq!(status(&s.receive()), 603);
}

#[test]
fn refer_of_the_peer_is_told_and_its_progress_notified() {
    let mut s = Stage::new();
    s.ep.set_policy(0, &Policy { refer: true, ..Policy::default() }).unwrap();
    let (mut uac, call) = answered(&mut s);
    for bad in [
        "",
        "Refer-To: <tel:+4930123456>\r\n",
        "Refer-To: <<<\r\n",
        "Refer-To: <sip:a@b;method=BYE>\r\n",
        "Refer-To: <sip:a@b>\r\nRefer-To: <sip:c@d>\r\n",
    ] {
        uac.extra = bad.to_owned();
        s.send(uac.request("REFER", None));
        let refusal = s.receive();
        assert!(status(&refusal) >= 400, "{bad}{refusal}");
    }
    uac.extra = "Refer-To: <sip:300@192.0.2.5;user=phone?Replaces=abc%40h%3Bto-tag%3D1%3Bfrom-tag%3D2&X-Evil=1>\r\n"
        .to_owned();
    s.send(uac.request("REFER", None));
    uac.extra.clear();
    assert_eq!(status(&s.receive()), 202);
    let first = s.receive_line("NOTIFY");
    assert!(body(&first).starts_with("SIP/2.0 100"), "{first}");
    assert!(header(&first, "Subscription-State").starts_with("active"), "{first}");
    reply(&s, &first, "200 OK", "", None);
    let (id, target, replaces) = s.event(|e| match e {
        SipEvent::Refer { call, target, replaces } => {
            Some((*call, target.clone(), replaces.clone()))
        }
        _ => None,
    });
    assert_eq!(id, call);
    assert!(target.starts_with("sip:300@192.0.2.5") && !target.contains('?'), "{target}");
    assert_eq!(replaces.as_deref(), Some("abc@h;to-tag=1;from-tag=2"));
    s.ep.refer_status(call, 180).unwrap();
    let ringing = s.receive_line("NOTIFY");
    assert!(body(&ringing).starts_with("SIP/2.0 180"), "{ringing}");
    reply(&s, &ringing, "200 OK", "", None);
    // The transferor leaves, and still hears how it ended.
    s.send(uac.request("BYE", None));
    s.receive_line("200");
    assert_eq!(s.ended(), (200, true));
    s.ep.refer_status(call, 200).unwrap();
    let last = s.receive_line("NOTIFY");
    assert!(body(&last).starts_with("SIP/2.0 200"), "{last}");
    assert!(header(&last, "Subscription-State").starts_with("terminated"), "{last}");
    reply(&s, &last, "200 OK", "", None);
    s.settle(Duration::from_millis(20));
    assert!(matches!(s.ep.refer_status(call, 200), Err(SipError::NoSuchCall(_))));
}

#[test]
fn a_notify_that_is_provisionally_answered_has_not_failed() {
    let mut s = Stage::new();
    s.ep.set_policy(0, &Policy { refer: true, ..Policy::default() }).unwrap();
    let (mut uac, call) = answered(&mut s);
    uac.extra = "Refer-To: <sip:300@192.0.2.5>\r\n".to_owned();
    s.send(uac.request("REFER", None));
    assert_eq!(status(&s.receive()), 202);
    let first = s.receive_line("NOTIFY");
    reply(&s, &first, "100 Trying", "", None);
    s.settle(Duration::from_millis(20));
    reply(&s, &first, "200 OK", "", None);
    s.settle(Duration::from_millis(20));
    s.ep.refer_status(call, 200).unwrap();
    assert!(body(&s.receive_line("NOTIFY")).starts_with("SIP/2.0 200"));
}

#[test]
fn a_transfer_whose_peer_cannot_be_told_is_told_here_and_forgotten() {
    let mut s = Stage::new();
    s.ep.set_policy(0, &Policy { refer: true, ..Policy::default() }).unwrap();
    let (mut uac, call) = answered(&mut s);
    uac.extra = "Refer-To: <sip:300@192.0.2.5>\r\n".to_owned();
    let refer = uac.request("REFER", None);
    let own = format!("Contact: {}", header(&refer, "Contact"));
    s.send(refer.replace(&own, "Contact: <tsip:nobody@192.0.2.9>"));
    assert_eq!(status(&s.receive()), 202);
    s.event(|e| matches!(e, SipEvent::Refer { .. }).then_some(()));
    assert!(matches!(s.ep.refer_status(call, 200), Err(SipError::NoSuchCall(_))));
}

#[test]
fn invite_with_replaces_names_the_call_it_takes_over() {
    let mut s = Stage::new();
    let (old, call) = answered(&mut s);
    let mut new = Uac::new(&s);
    let replaces = |id: &str, to: &str, from: &str| {
        format!("Require: replaces\r\nReplaces: {id};to-tag={to};from-tag={from}\r\n")
    };
    new.extra = replaces(&old.call_id, "wrong", "f1");
    s.send(new.invite(Some(OFFER)));
    assert_eq!(status(&s.receive()), 481);
    s.send(new.message("ACK", None));
    let mut new = Uac::new(&s);
    new.extra =
        format!("Replaces: {};to-tag={};from-tag=f1;early-only\r\n", old.call_id, old.to_tag);
    s.send(new.invite(Some(OFFER)));
    assert_eq!(status(&s.receive()), 486);
    s.send(new.message("ACK", None));
    let mut new = Uac::new(&s);
    new.extra = replaces(&old.call_id, &old.to_tag, "f1");
    s.send(new.invite(Some(OFFER)));
    let (taker, replaced) = s.event(|e| match e {
        SipEvent::Takeover { call, replaced, .. } => Some((*call, *replaced)),
        _ => None,
    });
    assert_eq!(replaced, call);
    s.ep.set_local_sdp(taker, LOCAL).unwrap();
    s.ep.answer(taker).unwrap();
    let ok = s.receive_line("200");
    new.learn(&ok);
    new.extra.clear();
    s.send(new.ack(None));
    assert_eq!(s.confirmed(), taker);
    s.ep.hangup(call).unwrap();
    let bye = s.receive_line("BYE");
    assert_eq!(header(&bye, "Call-ID"), old.call_id);

    s.ep.set_policy(0, &Policy { replaces: false, ..Policy::default() }).unwrap();
    let mut other = Uac::new(&s);
    other.extra = replaces(&new.call_id, &new.to_tag, "f1");
    reply(&s, &bye, "200 OK", "", None);
    s.send(other.invite(Some(OFFER)));
    assert_eq!(status(&s.receive_line("403")), 403);
}

#[test]
fn redirection_is_followed_once_for_each_target_and_not_for_ever() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    s.ep.set_policy(0, &Policy { redirects: 2, ..Policy::default() }).unwrap();
    let to = |n: u32| format!("sip:{n}@{local}");
    let (call, invite) = dial(&mut s, &to(100));
    // Back to itself is a loop, a scheme we cannot call is passed over.
    let contacts =
        format!("Contact: <{}>\r\nContact: <tel:+49>\r\nContact: <{}>\r\n", to(100), to(101));
    let moved = |m: &str, contacts: &str| {
        response(m, "302 Moved Temporarily", local, "", None)
            .replace(&format!("Contact: <sip:peer@{local}>\r\n"), contacts)
    };
    s.send(moved(&invite, &contacts));
    s.receive_line("ACK");
    let second = s.receive_line("INVITE");
    assert!(first_line(&second).starts_with(&format!("INVITE {} ", to(101))), "{second}");
    assert_eq!(header(&second, "Call-ID"), header(&invite, "Call-ID"));
    assert_eq!(tag(&second, "To"), "");
    assert!(body(&second).contains("m=audio 30000"), "{second}");
    s.send(moved(&second, &format!("Contact: <{}>\r\n", to(102))));
    let third = s.receive_line("INVITE");
    assert!(first_line(&third).starts_with(&format!("INVITE {} ", to(102))), "{third}");
    reply(&s, &third, "302 Moved Temporarily", &format!("Contact: <{}>\r\n", to(103)), None);
    assert_eq!(s.ended(), (302, true), "the last answer ends it");
    let _ = call;
}

#[test]
fn redirected_call_is_answered_by_the_new_target() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let (call, invite) = dial(&mut s, &format!("sip:100@{local}"));
    let moved = response(&invite, "302 Moved Temporarily", local, "", None)
        .replace("sip:peer@", "sip:101@");
    s.send(moved);
    let second = s.receive_line("INVITE");
    s.send(response(&second, "200 OK", local, "", Some(OFFER)));
    s.receive_line("ACK");
    assert_eq!(s.confirmed(), call);

    s.ep.set_policy(0, &Policy { redirects: 0, ..Policy::default() }).unwrap();
    let (_, invite) = dial(&mut s, &format!("sip:100@{local}"));
    s.send(response(&invite, "302 Moved Temporarily", local, "", None));
    s.receive_line("ACK");
    assert_eq!(s.ended(), (302, true));
}

#[test]
fn refer_is_sent_again_with_credentials_when_challenged() {
    let mut s = Stage::new();
    let local = s.peer.local_addr().unwrap();
    let request = DialRequest {
        uri: format!("sip:100@{local}"),
        sdp: LOCAL.to_owned(),
        credentials: Some(pjsip_sys::Credentials {
            realm: "*".to_owned(),
            username: "bot".to_owned(),
            password: "secret".to_owned(),
        }),
        ..DialRequest::default()
    };
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    s.send(response(&invite, "200 OK", local, "", Some(OFFER)));
    s.receive_line("ACK");
    s.confirmed();
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let first = s.receive_line("REFER");
    let challenge = "Proxy-Authenticate: Digest realm=\"r\",nonce=\"n1\",algorithm=MD5\r\n";
    s.send(response(&first, "407 Proxy Authentication Required", local, challenge, None));
    let second = s.receive_line("REFER");
    assert!(header(&second, "Proxy-Authorization").contains("username=\"bot\""), "{second}");
    assert_eq!(header(&second, "Refer-To"), "<sip:200@192.0.2.9>");
    s.send(response(&second, "202 Accepted", local, "", None));
    assert_eq!(referred(&mut s), (202, false));
    let rest = s.settle(Duration::from_millis(50));
    assert!(!rest.iter().any(|e| matches!(e, SipEvent::Referred { .. })), "{rest:?}");
}

#[test]
fn a_take_over_needs_no_free_place() {
    let mut s = Stage::with(EndpointConfig { max_calls: 1, ..EndpointConfig::default() });
    let (old, call) = answered(&mut s);
    let mut second = Uac::new(&s);
    s.send(second.invite(Some(OFFER)));
    assert_eq!(status(&s.receive()), 503);
    s.send(second.message("ACK", None));
    let mut new = Uac::new(&s);
    new.extra = format!("Replaces: {};to-tag={};from-tag=f1\r\n", old.call_id, old.to_tag);
    s.send(new.invite(Some(OFFER)));
    let replaced = s.event(|e| match e {
        SipEvent::Takeover { replaced, .. } => Some(*replaced),
        _ => None,
    });
    assert_eq!(replaced, call);
}

#[test]
fn a_peer_that_will_tell_nothing_has_taken_the_transfer() {
    let mut s = Stage::new();
    let (_, call) = answered(&mut s);
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    reply(&s, &refer, "202 Accepted", "Refer-Sub: false\r\n", None);
    assert_eq!(referred(&mut s), (202, false));
    assert_eq!(referred(&mut s), (202, true));
}

#[test]
fn a_transfer_that_never_ends_makes_way_for_the_next_one() {
    let mut s = Stage::new();
    let (mut uac, call) = answered(&mut s);
    s.ep.refer(call, "sip:200@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    reply(&s, &refer, "202 Accepted", "", None);
    assert_eq!(referred(&mut s), (202, false));
    s.ep.refer(call, "sip:201@192.0.2.9").unwrap();
    let refer = s.receive_line("REFER");
    reply(&s, &refer, "202 Accepted", "", None);
    assert_eq!(referred(&mut s), (202, false), "of the second one");
    s.send(notify(&mut uac, "terminated;reason=noresource", "SIP/2.0 200 OK\r\n"));
    assert_eq!(referred(&mut s), (200, true));
}
