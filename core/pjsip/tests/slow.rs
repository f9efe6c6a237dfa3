// SPDX-License-Identifier: GPL-3.0-or-later
//! What 64*T1 of silence leads to: 32 s of wall clock each. Run with `cargo test -p pjsip-sys --test slow -- --ignored`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::{Duration, Instant};

use common::{first_line, response, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{CallId, DialRequest, EndpointConfig, SipEvent};

const SILENCE: Duration = Duration::from_secs(32);

fn answered_without_ack(s: &mut Stage) -> CallId {
    let mut uac = Uac::new(s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    call
}

/// Runs until the peer gets a BYE, and returns after how long.
fn until_bye(s: &mut Stage) -> Duration {
    let start = Instant::now();
    while let Some(message) = s.receive_within(SILENCE + Duration::from_secs(5)) {
        if first_line(&message).starts_with("BYE") {
            s.send(response(&message, "200 OK", s.peer.local_addr().unwrap(), "", None));
            return start.elapsed();
        }
    }
    panic!("no BYE");
}

#[test]
#[ignore = "32 s of wall clock"]
fn no_ack_ends_in_bye() {
    let mut s = Stage::new();
    answered_without_ack(&mut s);
    assert!(until_bye(&mut s) > SILENCE - Duration::from_secs(2));
    assert_eq!(s.ended(), (408, false));
    assert_eq!(s.ep.stats().calls, 0);
}

#[test]
#[ignore = "32 s of wall clock"]
fn no_ack_after_our_hangup_still_ends_in_bye() {
    let mut s = Stage::new();
    let call = answered_without_ack(&mut s);
    s.settle(Duration::from_secs(1));
    s.ep.hangup(call).unwrap();
    assert!(until_bye(&mut s) > SILENCE - Duration::from_secs(4));
}

#[test]
#[ignore = "32 s of wall clock"]
fn cancel_without_final_answer_gives_up() {
    let mut s = Stage::new();
    let uri = format!("sip:100@{}", s.peer.local_addr().unwrap());
    let request = DialRequest {
        uri,
        from: None,
        sdp: LOCAL.to_owned(),
        credentials: None,
        ..DialRequest::default()
    };
    let call = s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    let local = s.peer.local_addr().unwrap();
    s.send(response(&invite, "180 Ringing", local, "", None));
    s.event(|e| matches!(e, SipEvent::Progress { .. }).then_some(()));
    s.ep.hangup(call).unwrap();
    let cancel = s.receive_line("CANCEL");
    s.send(response(&cancel, "200 OK", local, "", None));
    assert_eq!(s.ended(), (487, false));
    s.settle(SILENCE + Duration::from_secs(2));
    // The session is gone: nothing is left that a shutdown would have to wait for.
    let Stage { ep, _turn, .. } = s;
    let start = Instant::now();
    ep.shutdown();
    assert!(start.elapsed() < Duration::from_millis(500));
}

#[test]
#[ignore = "32 s of wall clock"]
fn unanswered_invite_ends_in_408() {
    let mut s = Stage::new();
    let uri = format!("sip:100@{}", s.peer.local_addr().unwrap());
    s.ep.dial(&DialRequest {
        uri,
        from: None,
        sdp: LOCAL.to_owned(),
        credentials: None,
        ..DialRequest::default()
    })
    .unwrap();
    s.settle(SILENCE - Duration::from_secs(1));
    assert_eq!(s.ended(), (408, false));
}

fn private_kib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Private_Dirty")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What the stack holds of a call that is up: docs/measurements.md has the figure.
#[test]
#[ignore = "70 s of wall clock"]
fn memory_of_a_call() {
    const CALLS: u32 = 300;
    let mut s = Stage::with(EndpointConfig { max_calls: 1000, ..EndpointConfig::default() });
    let mut begin = |calls: u32| {
        for _ in 0..calls {
            s.answered(Some(OFFER));
            s.media();
            s.confirmed();
        }
        // The transactions of the answers stay for 32 s (RFC 6026).
        s.settle(Duration::from_secs(34));
        s.ep.trim();
        private_kib()
    };
    let few = begin(20);
    let each = (begin(CALLS) - few) / f64::from(CALLS);
    assert!(each < 45.0, "{each:.1} KiB a call");
}
