// SPDX-License-Identifier: GPL-3.0-or-later
//! Endpoints come and go; wakers wake; TCP; two of our own talk to each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{body, dialling, header, turn, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::{Codec, Direction, Endpoint, EndpointConfig, SipError, SipEvent};

const ANY: &str = "127.0.0.1:0";

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn ten_lives_leave_no_descriptor_behind() {
    let _turn = turn();
    let mut before = 0;
    for life in 0..10 {
        let (mut ep, waker) = Endpoint::new(&EndpointConfig::default()).unwrap();
        let udp = ep.add_udp(ANY.parse().unwrap(), None).unwrap();
        let tcp = ep.add_tcp(ANY.parse().unwrap(), None).unwrap();
        assert!(udp.port() != 0 && tcp.port() != 0);
        let uri = format!("sip:x@{udp}");
        ep.dial(&dialling(uri)).unwrap();
        let stream = TcpStream::connect(tcp).unwrap();
        let mut events = Vec::new();
        for _ in 0..5 {
            ep.poll(Duration::from_millis(10), &mut events).unwrap();
        }
        assert!(events.iter().any(|e| matches!(e, SipEvent::Incoming { .. })), "{events:?}");
        drop(stream);
        // Every other one goes without a good-bye.
        if life % 2 == 0 {
            ep.shutdown();
        } else {
            drop(ep);
        }
        waker.wake();
        drop(waker);
        // The first life may open what the process keeps.
        if life == 0 {
            before = descriptors();
        }
    }
    assert_eq!(descriptors(), before);
}

#[test]
fn a_second_endpoint_is_refused_while_one_lives() {
    let mut s = Stage::new();
    assert_eq!(Endpoint::new(&EndpointConfig::default()).err(), Some(SipError::EndpointExists));
    s.send(Uac::new(&s).invite(Some(OFFER)));
    s.incoming();
}

#[test]
fn bad_configurations_are_errors() {
    let _turn = turn();
    let none = EndpointConfig { codecs: Vec::new(), ..EndpointConfig::default() };
    assert_eq!(Endpoint::new(&none).err(), Some(SipError::BadArgument("codecs")));
    let split = EndpointConfig { user_agent: "a\r\nb".to_owned(), ..EndpointConfig::default() };
    assert_eq!(Endpoint::new(&split).err(), Some(SipError::BadArgument("user_agent")));
    let (mut ep, _) = Endpoint::new(&EndpointConfig::default()).unwrap();
    let taken = std::net::UdpSocket::bind(ANY).unwrap().local_addr();
    let holder = std::net::UdpSocket::bind(taken.unwrap()).unwrap();
    let error = ep.add_udp(holder.local_addr().unwrap(), None).unwrap_err();
    assert_eq!(error.code(), "sip.bind");
    assert!(error.to_string().contains(&holder.local_addr().unwrap().to_string()), "{error}");
}

#[test]
fn waker_ends_a_poll_from_another_thread() {
    let mut s = Stage::new();
    let waker = s.waker.clone();
    let start = Instant::now();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        waker.wake();
        waker.wake();
    });
    s.ep.poll(Duration::from_secs(20), &mut s.events).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    thread.join().unwrap();
    // One wake before a poll ends the next, and only that one.
    s.settle(Duration::from_millis(20));
    s.waker.wake();
    let start = Instant::now();
    s.ep.poll(Duration::from_secs(20), &mut s.events).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    let start = Instant::now();
    s.ep.poll(Duration::from_millis(30), &mut s.events).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn shutdown_says_bye() {
    let mut s = Stage::new();
    s.answered(Some(OFFER));
    s.confirmed();
    let Stage { ep, peer, _turn, .. } = s;
    ep.shutdown();
    let mut buf = [0_u8; 4096];
    let mut last = String::new();
    while let Ok((len, _)) = peer.recv_from(&mut buf) {
        last = String::from_utf8_lossy(&buf[..len]).into_owned();
    }
    assert!(last.starts_with("BYE "), "{last}");
}

#[test]
fn public_address_is_what_peers_are_told() {
    let mut s = Stage::new();
    let sip = s.ep.add_udp(ANY.parse().unwrap(), Some("192.0.2.9".parse().unwrap())).unwrap();
    s.sip = sip;
    let mut uac = Uac::new(&s);
    s.send(uac.invite(Some(OFFER)));
    let call = s.incoming();
    s.ep.ring(call).unwrap();
    let ringing = s.receive_line("180");
    assert!(header(&ringing, "Contact").contains("192.0.2.9:"), "{ringing}");
}

#[test]
fn calls_come_over_tcp() {
    let mut s = Stage::new();
    let tcp = s.ep.add_tcp(ANY.parse().unwrap(), None).unwrap();
    let mut stream = TcpStream::connect(tcp).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut uac = Uac::new(&s);
    let invite = uac.invite(Some(OFFER)).replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    // In two pieces: the stream has no message boundaries.
    let (head, tail) = invite.split_at(200);
    stream.write_all(head.as_bytes()).unwrap();
    s.settle(Duration::from_millis(20));
    stream.write_all(tail.as_bytes()).unwrap();
    let call = s.incoming();
    s.ep.set_local_sdp(call, LOCAL).unwrap();
    s.ep.answer(call).unwrap();
    s.settle(Duration::from_millis(50));
    let mut text = String::new();
    let mut buf = [0_u8; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        text += &String::from_utf8_lossy(&buf[..len]);
    }
    let ok = &text[text.find("SIP/2.0 200").unwrap()..];
    assert!(header(ok, "Contact").contains(&format!("{tcp};transport=tcp")), "{ok}");
    assert!(body(ok).contains("m=audio 30000"), "{ok}");
}

/// What the other process does: answers one call, hangs up when told to by its second argument.
#[test]
#[ignore = "the second process of two_endpoints_call_each_other"]
fn answering_process() {
    let Ok(hangs_up) = std::env::var("VC_TEST_HANGS_UP") else { return };
    let (mut ep, _waker) = Endpoint::new(&EndpointConfig::default()).unwrap();
    let sip = ep.add_udp(ANY.parse().unwrap(), None).unwrap();
    println!("listening {sip}");
    let mut events = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut media, mut by_remote) = (0, None);
    while by_remote.is_none() && Instant::now() < deadline {
        ep.poll(Duration::from_millis(100), &mut events).unwrap();
        for event in events.drain(..) {
            match event {
                SipEvent::Incoming { call, .. } => {
                    ep.ring(call).unwrap();
                    ep.set_local_sdp(call, LOCAL).unwrap();
                    ep.answer(call).unwrap();
                }
                SipEvent::Media { .. } => media += 1,
                SipEvent::Confirmed { call } if hangs_up == "yes" => ep.hangup(call).unwrap(),
                SipEvent::Ended { by_remote: remote, .. } => by_remote = Some(remote),
                _ => {}
            }
        }
    }
    // Let the answer to the BYE out.
    ep.poll(Duration::from_millis(100), &mut events).unwrap();
    ep.shutdown();
    println!("media {media} by_remote {by_remote:?}");
}

#[test]
fn two_endpoints_call_each_other() {
    let _turn = turn();
    for callee_hangs_up in [false, true] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "answering_process", "--ignored", "--nocapture", "--test-threads=1"])
            .env("VC_TEST_HANGS_UP", if callee_hangs_up { "yes" } else { "no" })
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut text = String::new();
        let mut buf = [0_u8; 256];
        while !text.contains("listening ") || !text.ends_with('\n') {
            let len = out.read(&mut buf).unwrap();
            assert!(len > 0, "{text}");
            text += &String::from_utf8_lossy(&buf[..len]);
        }
        let callee: SocketAddr =
            text.split("listening ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        caller(callee, callee_hangs_up);
        out.read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
        assert!(text.contains(&format!("media 1 by_remote Some({})", !callee_hangs_up)), "{text}");
    }
}

fn caller(callee: SocketAddr, callee_hangs_up: bool) {
    let (mut ep, _waker) = Endpoint::new(&EndpointConfig::default()).unwrap();
    ep.add_udp(ANY.parse().unwrap(), None).unwrap();
    let uri = format!("sip:100@{callee}");
    let request = dialling(uri);
    let call = ep.dial(&request).unwrap();
    let mut events = Vec::new();
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !seen.iter().any(|e| matches!(e, SipEvent::Ended { .. })) && Instant::now() < deadline {
        ep.poll(Duration::from_millis(100), &mut events).unwrap();
        for event in events.drain(..) {
            if matches!(event, SipEvent::Confirmed { .. }) && !callee_hangs_up {
                ep.hangup(call).unwrap();
            }
            seen.push(event);
        }
    }
    assert!(seen.iter().any(|e| matches!(e, SipEvent::Progress { status: 180, .. })), "{seen:?}");
    let media = seen.iter().find_map(|e| match e {
        SipEvent::Media { media, .. } => Some(*media),
        _ => None,
    });
    let media = media.unwrap();
    assert_eq!((media.codec, media.direction), (Codec::Pcma, Direction::SendRecv));
    let Some(SipEvent::Ended { status: 200, by_remote, .. }) = seen.last() else {
        panic!("{seen:?}")
    };
    assert_eq!(*by_remote, callee_hangs_up);
    ep.shutdown();
}
