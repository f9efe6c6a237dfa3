// SPDX-License-Identifier: GPL-3.0-or-later
//! A guard on virtual time.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjsip_sys::{CallId, Gate, Origin, Request, Verdict};

use super::decide::{Guard, GuardSetup, Standing};
use super::{Draining, GuardConfig, GuardCounters, Guards, Unlisted, User};

const INVITE: &[u8] =
    b"INVITE sip:1@192.0.2.1 SIP/2.0\r\nTo: <sip:1@x>\r\nUser-Agent: phone\r\n\r\n";
const BYE: &[u8] = b"BYE sip:1@192.0.2.1 SIP/2.0\r\nTo: <sip:1@x>;tag=2\r\n\r\n";

fn from(text: &str) -> Origin {
    let ip: IpAddr = text.parse().unwrap();
    Origin { source: SocketAddr::new(ip, 5060), local_port: 5060, stream: false }
}

fn setup(config: GuardConfig) -> GuardSetup {
    GuardSetup {
        id: 1,
        config,
        bind: "192.0.2.1".parse().unwrap(),
        max_calls: 10,
        counters: Arc::new(GuardCounters::default()),
        draining: Arc::new(Draining::default()),
        secret: [3; 32],
    }
}

fn guard(config: GuardConfig, now: Instant) -> (Guard, Arc<GuardCounters>) {
    let setup = setup(config);
    let counters = Arc::clone(&setup.counters);
    (Guard::new(setup, vec![5060], now), counters)
}

fn listed(unlisted: Unlisted) -> GuardConfig {
    GuardConfig {
        acl: Some(vec!["198.51.100.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()]),
        unlisted,
        ..GuardConfig::default()
    }
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn status(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Pass => 100,
        Verdict::Drop => 0,
        Verdict::Refuse(refusal) => refusal.status,
    }
}

fn request<'a>(method: &'a str, to_tag: bool, in_dialog: bool) -> Request<'a> {
    Request { method: method.as_bytes(), to_tag, in_dialog }
}

#[test]
fn who_is_who() {
    let now = Instant::now();
    let (closed, _) = guard(listed(Unlisted::Silent), now);
    let (open, _) = guard(GuardConfig::default(), now);
    for (address, with_acl, without) in [
        ("127.0.0.1", Standing::Here, Standing::Here),
        ("::ffff:127.0.0.1", Standing::Here, Standing::Here),
        ("::1", Standing::Here, Standing::Here),
        ("192.0.2.1", Standing::Here, Standing::Here),
        ("127.0.0.2", Standing::Unlisted, Standing::Open),
        ("198.51.100.9", Standing::Listed, Standing::Open),
        ("::ffff:198.51.100.9", Standing::Listed, Standing::Open),
        ("2001:db8:1::9", Standing::Listed, Standing::Open),
        ("203.0.113.9", Standing::Unlisted, Standing::Open),
        ("2001:db9::9", Standing::Unlisted, Standing::Open),
    ] {
        assert_eq!(closed.standing(address.parse().unwrap(), now), with_acl, "{address}");
        assert_eq!(open.standing(address.parse().unwrap(), now), without, "{address}");
    }
}

#[test]
fn outside_the_acl_nothing_is_parsed_but_what_may_be_of_a_dialog() {
    let now = Instant::now();
    let (mut guard, counters) = guard(listed(Unlisted::Silent), now);
    let stranger = from("203.0.113.9");
    assert!(!guard.packet(&stranger, INVITE, now));
    assert_eq!(value(&counters.unlisted), 1);
    assert!(guard.packet(&from("198.51.100.9"), INVITE, now));
    assert!(guard.packet(&stranger, BYE, now));
    assert!(guard.packet(&stranger, b"SIP/2.0 200 OK\r\n\r\n", now));
    assert_eq!(guard.request(&stranger, &request("BYE", true, false), now), Verdict::Drop);
    assert_eq!(guard.request(&stranger, &request("BYE", true, true), now), Verdict::Pass);
    assert_eq!(guard.request(&stranger, &request("ACK", true, false), now), Verdict::Pass);
    assert_eq!(value(&counters.unlisted), 2);
    let stream = Origin { stream: true, ..stranger };
    assert!(guard.packet(&stream, &INVITE[..40], now), "a part is not judged");
    assert!(!guard.packet(&stream, INVITE, now));
    assert!(!guard.packet(&stream, &[b'x'; 9000], now));
}

#[test]
fn outside_the_acl_a_refusal_or_a_challenge_if_so_wished() {
    let now = Instant::now();
    let stranger = from("203.0.113.9");
    let (mut refusing, _) = guard(listed(Unlisted::Refuse), now);
    assert!(refusing.packet(&stranger, INVITE, now));
    let verdicts: Vec<u16> = (0..30)
        .map(|_| status(&refusing.request(&stranger, &request("INVITE", false, false), now)))
        .collect();
    assert_eq!(verdicts.iter().filter(|s| **s == 403).count(), 20, "{verdicts:?}");
    assert!(verdicts.ends_with(&[0]), "a flood is answered for ever");
    let users = vec![User { name: "alice".into(), password: "secret".into() }];
    let (mut asking, counters) = guard(GuardConfig { users, ..listed(Unlisted::Challenge) }, now);
    assert!(asking.packet(&stranger, INVITE, now));
    assert_eq!(asking.request(&stranger, &request("INVITE", false, false), now), Verdict::Pass);
    assert_eq!(asking.request(&stranger, &request("OPTIONS", false, false), now), Verdict::Drop);
    let Verdict::Refuse(refusal) = asking.invite(&stranger, &[], now) else { panic!() };
    assert_eq!(refusal.status, 401);
    let [sha, md5] = &refusal.challenges[..] else { panic!("{refusal:?}") };
    assert!(sha.starts_with("Digest realm=\"voice-edge\", nonce=\"") && sha.contains("SHA-256"));
    assert!(md5.contains("algorithm=MD5, qop=\"auth\"") && !md5.contains("stale"));
    assert_eq!(asking.invite(&from("198.51.100.9"), &[], now), Verdict::Pass);
    assert_eq!(value(&counters.challenged), 1);
}

#[test]
fn scanners_get_nothing_wherever_they_are() {
    let now = Instant::now();
    let (mut guard, counters) = guard(GuardConfig::default(), now);
    let options =
        b"OPTIONS sip:100@1.1.1.1 SIP/2.0\r\nTo: x;tag=1\r\nuser-agent: Friendly-Scanner\r\n\r\n";
    assert!(!guard.packet(&from("127.0.0.1"), options, now));
    assert!(!guard.packet(&from("203.0.113.9"), options, now));
    assert_eq!(value(&counters.scanners), 2);
}

#[test]
fn a_source_that_sends_rubbish_is_muted_for_a_while() {
    let now = Instant::now();
    let (mut guard, counters) = guard(GuardConfig::default(), now);
    let stranger = from("203.0.113.9");
    let answered = (0..100).filter(|_| guard.misbehaved(stranger.source.ip(), now)).count();
    assert_eq!(answered, 20);
    assert!(!guard.packet(&stranger, INVITE, now));
    assert!(guard.packet(&stranger, BYE, now), "its calls can still be ended");
    assert!(guard.packet(&from("203.0.113.8"), INVITE, now), "its neighbour is not");
    assert_eq!(value(&counters.muted), 81);
    assert!(guard.packet(&stranger, INVITE, now + Duration::from_secs(5)));
    assert!((0..100).all(|_| guard.misbehaved("127.0.0.1".parse().unwrap(), now)));
}

#[test]
fn invites_by_the_second_and_by_the_source() {
    let now = Instant::now();
    let config = GuardConfig { invites_per_s: 5.0, invite_burst: 5, ..GuardConfig::default() };
    let (mut guard, counters) = guard(config, now);
    let ok = |guard: &mut Guard, address, at: Duration| {
        guard.invite(&from(address), &[], now + at) == Verdict::Pass
    };
    let zero = Duration::ZERO;
    assert_eq!((0..50).filter(|_| ok(&mut guard, "203.0.113.9", zero)).count(), 5);
    assert!(ok(&mut guard, "203.0.113.8", zero));
    assert_eq!(
        (0..50).filter(|_| ok(&mut guard, "203.0.113.9", Duration::from_secs(1))).count(),
        5
    );
    assert_eq!((0..50).filter(|_| ok(&mut guard, "127.0.0.1", zero)).count(), 50);
    assert_eq!((0..50).filter(|_| ok(&mut guard, "2001:db8::1", zero)).count(), 5);
    assert!(!ok(&mut guard, "2001:db8::ffff", zero), "the same /64");
    assert!(ok(&mut guard, "2001:db8:0:1::1", zero));
    assert_eq!(value(&counters.limited), 45 + 45 + 45 + 1);
}

/// The guard behind its gate, with calls.
struct Calls {
    gate: Guards,
    last: u64,
}

impl Calls {
    fn new(config: GuardConfig) -> (Calls, Arc<Draining>) {
        let setup = setup(GuardConfig { invite_burst: 1000, ..config });
        let draining = Arc::clone(&setup.draining);
        let gate = Guards::default();
        gate.attach(setup, vec![5060]);
        (Calls { gate, last: 0 }, draining)
    }

    fn invite(&mut self, address: &str) -> Option<CallId> {
        let origin = from(address);
        if self.gate.invite(&origin, &[]) != Verdict::Pass {
            return None;
        }
        self.last += 1;
        self.gate.opened(&origin, CallId(self.last));
        Some(CallId(self.last))
    }
}

#[test]
fn calls_of_one_source_pending_and_all() {
    let config =
        GuardConfig { pending_per_source: 2, calls_per_source: 3, ..GuardConfig::default() };
    let (mut calls, _) = Calls::new(config);
    let first = calls.invite("203.0.113.9").unwrap();
    let second = calls.invite("203.0.113.9").unwrap();
    assert_eq!(calls.invite("203.0.113.9"), None, "two are pending");
    calls.gate.confirmed(first);
    calls.gate.confirmed(first);
    let third = calls.invite("203.0.113.9").unwrap();
    calls.gate.confirmed(second);
    assert_eq!(calls.invite("203.0.113.9"), None, "three are up");
    calls.gate.ended(third);
    calls.gate.ended(third);
    assert!(calls.invite("203.0.113.9").is_some());
    for _ in 0..50 {
        assert!(calls.invite("127.0.0.1").is_some());
    }
}

#[test]
fn forged_sources_together_hold_at_most_half_of_the_box() {
    let (mut calls, _) = Calls::new(GuardConfig::default());
    let known = calls.invite("203.0.113.200").unwrap();
    calls.gate.confirmed(known);
    let held = (0..100).filter(|n| calls.invite(&format!("203.0.113.{n}")).is_some()).count();
    assert_eq!(held, 5, "of max_calls 10");
    assert!(calls.invite("203.0.113.200").is_some(), "who acknowledged a call is known");
    assert!(calls.invite("127.0.0.1").is_some());
}

#[test]
fn memory_stays_bounded_whatever_addresses_are_made_up() {
    let now = Instant::now();
    let (mut guard, counters) = guard(
        GuardConfig {
            sources_max: 100,
            invites_per_s: 1.0,
            invite_burst: 2,
            ..GuardConfig::default()
        },
        now,
    );
    let mut passed = 0;
    for n in 0..10_000u32 {
        let origin = from(&IpAddr::from((0xcb00_0000 + n).to_be_bytes()).to_string());
        passed += u32::from(guard.invite(&origin, &[], now) == Verdict::Pass);
        assert!(guard.sources.len() <= 100);
    }
    assert_eq!(passed, 100 + 2, "all others share one allowance");
    assert_eq!(value(&counters.limited), 10_000 - 102);
    let later = now + Duration::from_secs(61);
    assert_eq!(guard.invite(&from("198.51.100.1"), &[], later), Verdict::Pass);
    assert_eq!(guard.sources.len(), 1, "the silent ones are forgotten");
}

#[test]
fn registrars_are_listed() {
    let (mut calls, _) = Calls::new(GuardConfig { acl: Some(vec![]), ..GuardConfig::default() });
    assert!(!calls.gate.packet(&from("203.0.113.9"), INVITE));
    calls.gate.registering(&from("203.0.113.9"));
    assert!(calls.gate.packet(&from("203.0.113.9"), INVITE));
    assert!(!calls.gate.packet(&from("203.0.113.8"), INVITE));
    calls.gate.set_acl(1, Some(vec!["203.0.113.8".parse().unwrap()]));
    assert!(calls.gate.packet(&from("203.0.113.8"), INVITE));
    calls.gate.set_acl(1, None);
    assert!(calls.gate.packet(&from("203.0.113.7"), INVITE));
    let lines = calls.gate.summaries();
    assert_eq!(lines, [(1, "requests kept out: 2 from outside the ACL".to_owned())]);
    assert_eq!(calls.gate.summaries(), []);
}

#[test]
fn draining_refuses_what_is_new_and_nothing_else() {
    let (mut calls, draining) = Calls::new(GuardConfig::default());
    let caller = from("203.0.113.9");
    draining.retry_after.store(17, Ordering::Relaxed);
    draining.on.store(true, Ordering::Relaxed);
    for verdict in [
        calls.gate.invite(&caller, &[]),
        calls.gate.request(&caller, &request("OPTIONS", false, false)),
    ] {
        let Verdict::Refuse(refusal) = verdict else { panic!("{verdict:?}") };
        assert_eq!((refusal.status, refusal.retry_after), (503, Some(17)));
    }
    for (method, in_dialog) in [("OPTIONS", true), ("BYE", true), ("REGISTER", false)] {
        let verdict = calls.gate.request(&caller, &request(method, in_dialog, in_dialog));
        assert_eq!(verdict, Verdict::Pass, "{method}");
    }
    draining.on.store(false, Ordering::Relaxed);
    assert!(calls.invite("203.0.113.9").is_some());
}

#[test]
fn connections_of_one_source() {
    let (mut calls, _) = Calls::new(GuardConfig::default());
    let stranger = Origin { stream: true, ..from("203.0.113.9") };
    let kept: Vec<bool> = (0..20).map(|id| calls.gate.connected(&stranger, id)).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 16);
    (0..20).for_each(|id| calls.gate.disconnected(id));
    assert!(calls.gate.connected(&stranger, 99));
    let here = Origin { stream: true, ..from("127.0.0.1") };
    assert!((100..200).all(|id| calls.gate.connected(&here, id)));
}
