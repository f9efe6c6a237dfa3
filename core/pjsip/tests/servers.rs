// SPDX-License-Identifier: GPL-3.0-or-later
//! Names lead to servers, and where one fails the next one is tried (RFC 3263), over real sockets and a name server of ours.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/dns.rs"]
mod dns;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{first_line, header, peer, response, Stage, Uac, LOCAL, OFFER};
use dns::{Data, Dns};
use pjsip_sys::{CallId, Credentials, DialRequest, EndpointConfig, Probe, Registration, SipEvent};

fn stage(dns: &Dns) -> Stage {
    Stage::with(EndpointConfig { nameservers: vec![dns.address], ..EndpointConfig::default() })
}

fn ip(text: &str) -> Data {
    Data::Address(text.parse::<IpAddr>().unwrap())
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

/// `sip.test` is `first`, and where that fails `second`.
fn two(first: &UdpSocket, second: &UdpSocket) -> Dns {
    Dns::start(vec![
        ("_sip._udp.sip.test", Data::Server(20, 0, port(second), "b.test")),
        ("_sip._udp.sip.test", Data::Server(10, 0, port(first), "a.test")),
        ("a.test", ip("127.0.0.1")),
        ("b.test", Data::Alias("c.test")),
        ("c.test", ip("127.0.0.1")),
    ])
}

fn request(failover_ms: u64) -> DialRequest {
    DialRequest {
        uri: "sip:100@sip.test".to_owned(),
        sdp: LOCAL.to_owned(),
        failover: Duration::from_millis(failover_ms),
        ..DialRequest::default()
    }
}

/// The next message at this peer whose first line has `part` in it, while the endpoint runs.
fn at(s: &mut Stage, peer: &UdpSocket, part: &str) -> String {
    let deadline = Instant::now() + common::PATIENCE;
    let mut buf = [0; 65_536];
    while Instant::now() < deadline {
        while let Ok((len, _)) = peer.recv_from(&mut buf) {
            let message = String::from_utf8_lossy(&buf[..len]).into_owned();
            if first_line(&message).contains(part) {
                return message;
            }
        }
        s.ep.poll(Duration::from_millis(2), &mut s.events).unwrap();
    }
    panic!("no {part} at {}", port(peer));
}

fn reply(s: &Stage, from: &UdpSocket, to: &str, status: &str, extra: &str, body: Option<&str>) {
    let message = response(to, status, from.local_addr().unwrap(), extra, body);
    from.send_to(message.as_bytes(), s.sip).unwrap();
}

/// The call is answered by this peer, ends, and nothing but that was told of it.
fn answered_by(s: &mut Stage, peer: &UdpSocket, call: CallId, invite: &str) {
    reply(s, peer, invite, "200 OK", "", Some(OFFER));
    assert_eq!(s.confirmed(), call);
    at(s, peer, "ACK");
    s.ep.hangup(call).unwrap();
    let bye = at(s, peer, "BYE");
    reply(s, peer, &bye, "200 OK", "", None);
    assert_eq!(s.ended(), (200, false));
    let more = s.settle(Duration::from_millis(50));
    assert!(!more.iter().any(|e| matches!(e, SipEvent::Ended { .. })), "{more:?}");
    assert_eq!(s.ep.stats().calls, 0);
}

#[test]
fn a_server_that_is_silent_is_given_up_for_the_next() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    let call = s.ep.dial(&request(200)).unwrap();
    let lost = at(&mut s, &first, "INVITE sip:100@sip.test");
    let invite = at(&mut s, &second, "INVITE sip:100@sip.test");
    assert_ne!(header(&lost, "Call-ID"), header(&invite, "Call-ID"));
    // The first one wakes up late: its call is cancelled, not answered by us twice.
    reply(&s, &first, &lost, "180 Ringing", "", None);
    let cancel = at(&mut s, &first, "CANCEL");
    reply(&s, &first, &cancel, "200 OK", "", None);
    reply(&s, &first, &lost, "487 Request Terminated", "", None);
    at(&mut s, &first, "ACK");
    answered_by(&mut s, &second, call, &invite);
}

#[test]
fn late_answer_of_a_server_given_up_gets_ack_and_bye() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    let call = s.ep.dial(&request(200)).unwrap();
    let lost = at(&mut s, &first, "INVITE");
    let invite = at(&mut s, &second, "INVITE");
    reply(&s, &first, &lost, "200 OK", "", Some(OFFER));
    at(&mut s, &first, "ACK");
    let bye = at(&mut s, &first, "BYE");
    reply(&s, &first, &bye, "200 OK", "", None);
    answered_by(&mut s, &second, call, &invite);
}

#[test]
fn a_server_that_answers_503_is_passed_over_as_long_as_it_says() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    let call = s.ep.dial(&request(60_000)).unwrap();
    let lost = at(&mut s, &first, "INVITE");
    reply(&s, &first, &lost, "503 Service Unavailable", "Retry-After: 60\r\n", None);
    at(&mut s, &first, "ACK");
    let invite = at(&mut s, &second, "INVITE");
    answered_by(&mut s, &second, call, &invite);
    // The next call does not try it first.
    let call = s.ep.dial(&request(60_000)).unwrap();
    let invite = at(&mut s, &second, "INVITE");
    answered_by(&mut s, &second, call, &invite);
    assert!(first.recv(&mut [0; 10]).is_err(), "the first server was asked again");
}

#[test]
fn when_all_servers_fail_the_call_fails_once() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    let call = s.ep.dial(&request(60_000)).unwrap();
    for server in [&first, &second] {
        let invite = at(&mut s, server, "INVITE");
        reply(&s, server, &invite, "503 Service Unavailable", "", None);
    }
    assert_eq!(s.ended(), (503, true));
    assert!(s.ep.hangup(call).is_err());
    assert_eq!(s.ep.stats().calls, 0);
}

#[test]
fn a_refusal_is_an_answer_and_no_reason_to_go_on() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    s.ep.dial(&request(60_000)).unwrap();
    let invite = at(&mut s, &first, "INVITE");
    reply(&s, &first, &invite, "486 Busy Here", "", None);
    assert_eq!(s.ended(), (486, true));
    s.settle(Duration::from_millis(50));
    assert!(second.recv(&mut [0; 10]).is_err(), "the second server was asked");
}

#[test]
fn a_closed_tcp_port_is_passed_over() {
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    open.set_nonblocking(true).unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dns = Dns::start(vec![
        ("_sip._tcp.sip.test", Data::Server(1, 0, closed.port(), "a.test")),
        ("_sip._tcp.sip.test", Data::Server(2, 0, open.local_addr().unwrap().port(), "a.test")),
        ("a.test", ip("127.0.0.1")),
    ]);
    let mut s = stage(&dns);
    s.ep.add_tcp("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let uri = "sip:100@sip.test;transport=tcp".to_owned();
    s.ep.dial(&DialRequest { uri, ..request(60_000) }).unwrap();
    let deadline = Instant::now() + common::PATIENCE;
    while open.accept().is_err() {
        assert!(Instant::now() < deadline, "no connection to the second server");
        s.ep.poll(Duration::from_millis(5), &mut s.events).unwrap();
    }
    assert!(!s.events.iter().any(|e| matches!(e, SipEvent::Ended { .. })), "{:?}", s.events);
}

#[test]
fn no_name_server_keeps_the_sip_thread_waiting() {
    let dns = Dns::mute();
    let mut s = stage(&dns);
    let began = Instant::now();
    let call = s.ep.dial(&request(1000)).unwrap();
    for number in 0..20 {
        s.ep.dial(&DialRequest { uri: format!("sip:1@host{number}.test"), ..request(1000) })
            .unwrap();
    }
    let options = Uac::new(&s).request("OPTIONS", None);
    s.send(options);
    assert!(s.receive().contains("200 OK"));
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(dns.asked.load(Ordering::Relaxed) > 0);
    // A call whose name is being looked up can be given up.
    s.ep.hangup(call).unwrap();
    assert_eq!(s.ended(), (487, false));
    assert_eq!(s.ep.stats().calls, 20);
}

#[test]
fn a_name_without_an_address_ends_the_call_with_the_reason() {
    let dns = Dns::start(vec![("other.test", ip("127.0.0.1"))]);
    let mut s = stage(&dns);
    let call = s.ep.dial(&request(1000)).unwrap();
    let why = s.event(|e| match e {
        SipEvent::Ended { call: c, status: 502, reason, .. } if *c == call => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(why, "the host name has no address");
    assert_eq!(s.ep.stats().calls, 0);
}

#[test]
fn answers_of_name_servers_are_kept() {
    let first = peer();
    let dns = two(&first, &peer());
    let mut s = stage(&dns);
    for _ in 0..3 {
        let call = s.ep.dial(&request(60_000)).unwrap();
        let invite = at(&mut s, &first, "INVITE");
        answered_by(&mut s, &first, call, &invite);
    }
    // SRV, and A and AAAA of two targets.
    assert_eq!(dns.asked.load(Ordering::Relaxed), 5);
}

/// Two servers with the same port on different addresses.
fn twins() -> (UdpSocket, UdpSocket, u16) {
    loop {
        let one = UdpSocket::bind("127.0.0.2:0").unwrap();
        let port = port(&one);
        if let Ok(other) = UdpSocket::bind(("127.0.0.3", port)) {
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            return (one, other, port);
        }
    }
}

fn registration(registrar: String) -> Registration {
    Registration {
        aor: "sip:bot@sip.test".to_owned(),
        registrar,
        credentials: Credentials {
            realm: "*".to_owned(),
            username: "bot".to_owned(),
            password: "secret".to_owned(),
        },
        failover: Duration::from_millis(200),
        retry_first: Duration::from_millis(100),
        retry_max: Duration::from_millis(400),
        ..Registration::default()
    }
}

#[test]
fn a_registrar_that_is_silent_is_given_up_and_comes_last_from_then_on() {
    let (one, other, port) = twins();
    let dns = Dns::start(vec![("reg.test", ip("127.0.0.2")), ("reg.test", ip("127.0.0.3"))]);
    let mut s = stage(&dns);
    s.ep.register(&registration(format!("sip:reg.test:{port}"))).unwrap();
    at(&mut s, &one, "REGISTER");
    for _ in 0..2 {
        let register = at(&mut s, &other, "REGISTER");
        let contact = header(&register, "Contact");
        let ok = response(&register, "200 OK", s.sip, "", None)
            .replace(&format!("<sip:peer@{}>", s.sip), &format!("{contact};expires=2"));
        other.send_to(ok.as_bytes(), s.sip).unwrap();
        let (status, server) = s.event(|e| match e {
            SipEvent::Registration { status, server, .. } => Some((*status, *server)),
            _ => None,
        });
        assert_eq!((status, server), (200, Some(other.local_addr().unwrap())));
    }
}

#[test]
fn a_round_without_success_is_followed_by_longer_and_longer_pauses() {
    let (one, other, port) = twins();
    let dns = Dns::start(vec![("reg.test", ip("127.0.0.2")), ("reg.test", ip("127.0.0.3"))]);
    let mut s = stage(&dns);
    s.ep.register(&registration(format!("sip:reg.test:{port}"))).unwrap();
    let mut pauses = Vec::new();
    for round in 0..4 {
        // Which of the two comes first is the order of their blame.
        for _ in 0..2 {
            let deadline = Instant::now() + common::PATIENCE;
            let mut buf = [0; 4096];
            loop {
                let got = [&one, &other]
                    .into_iter()
                    .find_map(|peer| peer.recv(&mut buf).ok().map(|len| (peer, len)));
                if let Some((peer, len)) = got {
                    let register = String::from_utf8_lossy(&buf[..len]).into_owned();
                    reply(&s, peer, &register, "503 No", "", None);
                    break;
                }
                assert!(Instant::now() < deadline, "round {round}");
                s.ep.poll(Duration::from_millis(2), &mut s.events).unwrap();
            }
        }
        pauses.push(s.event(|e| match e {
            SipEvent::Registration { status: 503, retry, .. } => *retry,
            _ => None,
        }));
    }
    for (pause, least) in pauses.iter().zip([50, 100, 200, 200]) {
        let ms = pause.as_millis();
        assert!(ms >= least && ms <= 2 * least, "{pauses:?}");
    }
}

#[test]
fn options_tell_whether_a_trunk_is_there() {
    let (first, second) = (peer(), peer());
    let dns = two(&first, &second);
    let mut s = stage(&dns);
    let probe = Probe {
        uri: "sip:sip.test".to_owned(),
        from: None,
        proxy: None,
        group: 0,
        interval: Duration::from_millis(200),
        timeout: Duration::from_millis(100),
    };
    let id = s.ep.probe(&probe).unwrap();
    let outcome = |s: &mut Stage| {
        s.event(|e| match e {
            SipEvent::Probe { probe, alive, status, server, rtt, .. } if *probe == id => {
                Some((*alive, *status, *server, rtt.is_some()))
            }
            _ => None,
        })
    };
    let address = |socket: &UdpSocket| socket.local_addr().ok();
    let options = at(&mut s, &first, "OPTIONS sip:sip.test");
    assert!(header(&options, "Contact").contains(&s.sip.to_string()), "{options}");
    // Whatever it says, it is there.
    reply(&s, &first, &options, "403 Forbidden", "", None);
    assert_eq!(outcome(&mut s), (true, 403, address(&first), true));
    // Both are silent.
    at(&mut s, &first, "OPTIONS");
    at(&mut s, &second, "OPTIONS");
    assert_eq!(outcome(&mut s), (false, 408, address(&second), false));
    // The second one is asked after the first and answers.
    let deadline = Instant::now() + common::PATIENCE;
    loop {
        let options = at(&mut s, &second, "OPTIONS");
        reply(&s, &second, &options, "200 OK", "", None);
        if outcome(&mut s) == (true, 200, address(&second), true) {
            break;
        }
        assert!(Instant::now() < deadline);
    }
    s.ep.stop_probe(id).unwrap();
    assert!(s.ep.stop_probe(id).is_err());
    // Repetitions of earlier requests may still come, outcomes may not.
    let after = s.settle(Duration::from_millis(400));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Probe { .. })), "{after:?}");
}

#[test]
fn localhost_needs_no_name_server() {
    let dns = Dns::mute();
    let mut s = stage(&dns);
    let uri = format!("sip:100@localhost:{}", s.peer.local_addr().unwrap().port());
    s.ep.dial(&DialRequest { uri, ..request(60_000) }).unwrap();
    s.receive_line("INVITE");
    assert_eq!(dns.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn an_unfinished_offer_gets_the_address_that_leads_to_the_server() {
    let first = peer();
    let dns = two(&first, &peer());
    let mut s = stage(&dns);
    let sdp = LOCAL.replace("127.0.0.1", "0.0.0.0");
    s.ep.dial(&DialRequest { sdp, ..request(60_000) }).unwrap();
    let invite = at(&mut s, &first, "INVITE");
    assert!(invite.contains("c=IN IP4 127.0.0.1\r\n"), "{invite}");
    assert!(invite.contains(" IN IP4 127.0.0.1\r\ns="), "{invite}");
}

#[test]
fn a_proxy_takes_all_that_goes_out() {
    let mut s = Stage::new();
    let proxy: SocketAddr = s.peer.local_addr().unwrap();
    let route = Some(format!("sip:{proxy}"));
    s.ep.dial(&DialRequest { route: route.clone(), ..request(60_000) }).unwrap();
    let invite = s.receive_line("INVITE sip:100@sip.test");
    assert_eq!(header(&invite, "Route"), format!("<sip:{proxy};lr>"));
    let register = Registration { proxy: route, ..registration("sip:reg.test".to_owned()) };
    s.ep.register(&register).unwrap();
    let register = s.receive_line("REGISTER sip:reg.test");
    assert_eq!(header(&register, "Route"), format!("<sip:{proxy};lr>"));
}
