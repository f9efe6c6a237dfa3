// SPDX-License-Identifier: GPL-3.0-or-later
//! A SIP peer written by hand, and a stage with one endpoint and that peer on one thread.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pjsip_sys::{CallId, DialRequest, Endpoint, EndpointConfig, MediaDescription, SipEvent, Waker};

/// PJSIP allows one endpoint a process; the tests of a file take turns.
static TURN: Mutex<()> = Mutex::new(());

pub const PATIENCE: Duration = Duration::from_secs(5);

pub const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 40000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";

pub const LOCAL: &str =
    "v=0\r\no=voice 7 7 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 30000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";

/// A call to `uri` with [`LOCAL`] as its offer.
pub fn dialling(uri: String) -> DialRequest {
    DialRequest { uri, sdp: LOCAL.to_owned(), ..DialRequest::default() }
}

pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One endpoint on UDP and one peer that talks to it.
pub struct Stage {
    pub ep: Endpoint,
    pub waker: Waker,
    pub sip: SocketAddr,
    pub peer: UdpSocket,
    pub events: Vec<SipEvent>,
    pub _turn: MutexGuard<'static, ()>,
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with(EndpointConfig::default())
    }

    pub fn with(config: EndpointConfig) -> Stage {
        let turn = turn();
        let (mut ep, waker) = Endpoint::new(&config).expect("endpoint");
        let sip = ep.add_udp("127.0.0.1:0".parse().unwrap(), None).expect("udp");
        let peer = peer();
        Stage { ep, waker, sip, peer, events: Vec::new(), _turn: turn }
    }

    pub fn send(&self, message: impl AsRef<[u8]>) {
        self.peer.send_to(message.as_ref(), self.sip).unwrap();
    }

    /// The next message at the peer, while the endpoint runs.
    pub fn receive(&mut self) -> String {
        self.receive_within(PATIENCE).expect("the endpoint sent nothing")
    }

    pub fn receive_within(&mut self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        let mut buf = [0_u8; 65_536];
        loop {
            if let Ok((len, _)) = self.peer.recv_from(&mut buf) {
                return Some(String::from_utf8_lossy(&buf[..len]).into_owned());
            }
            if Instant::now() >= deadline {
                return None;
            }
            self.ep.poll(Duration::from_millis(2), &mut self.events).unwrap();
        }
    }

    /// The next message whose first line has this in it; others are passed over.
    pub fn receive_line(&mut self, part: &str) -> String {
        for _ in 0..50 {
            let message = self.receive();
            if first_line(&message).contains(part) {
                return message;
            }
        }
        panic!("no message with {part:?}");
    }

    /// The next event that `pick` takes, while the endpoint runs; others before it are dropped.
    pub fn event<T>(&mut self, mut pick: impl FnMut(&SipEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while !self.events.is_empty() {
                let event = self.events.remove(0);
                if let Some(found) = pick(&event) {
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "no such event");
            self.ep.poll(Duration::from_millis(20), &mut self.events).unwrap();
        }
    }

    pub fn incoming(&mut self) -> CallId {
        self.event(|e| match e {
            SipEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        })
    }

    pub fn media(&mut self) -> MediaDescription {
        self.event(|e| match e {
            SipEvent::Media { media, .. } => Some(*media),
            _ => None,
        })
    }

    pub fn confirmed(&mut self) -> CallId {
        self.event(|e| match e {
            SipEvent::Confirmed { call } => Some(*call),
            _ => None,
        })
    }

    /// Status and whether the peer ended it.
    pub fn ended(&mut self) -> (u16, bool) {
        self.event(|e| match e {
            SipEvent::Ended { status, by_remote, .. } => Some((*status, *by_remote)),
            _ => None,
        })
    }

    pub fn rejected(&mut self) -> u16 {
        self.event(|e| match e {
            SipEvent::Rejected { status, .. } => Some(*status),
            _ => None,
        })
    }

    /// Runs the endpoint a little and returns everything that happened.
    pub fn settle(&mut self, time: Duration) -> Vec<SipEvent> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.ep.poll(Duration::from_millis(5), &mut self.events).unwrap();
        }
        std::mem::take(&mut self.events)
    }

    /// An incoming call with `offer`, answered and confirmed.
    pub fn answered(&mut self, offer: Option<&str>) -> (Uac, CallId) {
        let mut uac = Uac::new(self);
        self.send(uac.invite(offer));
        let call = self.incoming();
        self.ep.set_local_sdp(call, LOCAL).unwrap();
        self.ep.answer(call).unwrap();
        let ok = self.receive_line("200");
        uac.learn(&ok);
        self.send(uac.ack(if offer.is_none() { Some(OFFER) } else { None }));
        (uac, call)
    }
}

pub fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// The caller's side of one dialog.
pub struct Uac {
    pub local: SocketAddr,
    pub sip: SocketAddr,
    pub call_id: String,
    pub to_tag: String,
    pub cseq: u32,
    pub branch: u32,
    pub extra: String,
}

impl Uac {
    pub fn new(stage: &Stage) -> Uac {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Uac {
            local: stage.peer.local_addr().unwrap(),
            sip: stage.sip,
            call_id: format!("call{number}@test"),
            to_tag: String::new(),
            cseq: 0,
            branch: number * 1000,
            extra: String::new(),
        }
    }

    /// Any request; `cseq` and `branch` are used as they stand.
    pub fn message(&self, method: &str, body: Option<&str>) -> String {
        let to_tag =
            if self.to_tag.is_empty() { String::new() } else { format!(";tag={}", self.to_tag) };
        let kind = if body.is_some() { "Content-Type: application/sdp\r\n" } else { "" };
        let body = body.unwrap_or("");
        format!(
            "{method} sip:bot@{sip} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: \"Caller\" <sip:4930123456@test>;tag=f1\r\nTo: <sip:bot@{sip}>{to_tag}\r\n\
             Call-ID: {id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:peer@{local}>\r\n{extra}{kind}\
             Content-Length: {len}\r\n\r\n{body}",
            sip = self.sip,
            local = self.local,
            branch = self.branch,
            id = self.call_id,
            cseq = self.cseq,
            extra = self.extra,
            len = body.len(),
        )
    }

    /// A new request of this dialog.
    pub fn request(&mut self, method: &str, body: Option<&str>) -> String {
        self.cseq += 1;
        self.branch += 1;
        self.message(method, body)
    }

    pub fn invite(&mut self, body: Option<&str>) -> String {
        self.request("INVITE", body)
    }

    /// ACK of a 2xx: a transaction of its own (RFC 3261 13.2.2.4).
    pub fn ack(&mut self, body: Option<&str>) -> String {
        self.branch += 1;
        self.message("ACK", body)
    }

    /// CANCEL of the INVITE sent last: same branch and number (RFC 3261 9.1).
    pub fn cancel(&self) -> String {
        self.message("CANCEL", None)
    }

    pub fn learn(&mut self, response: &str) {
        self.to_tag = tag(response, "To");
    }
}

/// A response of the peer to a request of the endpoint.
pub fn response(
    request: &str,
    status: &str,
    local: SocketAddr,
    extra: &str,
    body: Option<&str>,
) -> String {
    let mut out = format!("SIP/2.0 {status}\r\n");
    for name in ["Via", "From", "Call-ID", "CSeq"] {
        out += &format!("{name}: {}\r\n", header(request, name));
    }
    let to = header(request, "To");
    let tagged =
        if to.contains(";tag=") || status.starts_with("100") { to } else { format!("{to};tag=p1") };
    out += &format!("To: {tagged}\r\nContact: <sip:peer@{local}>\r\n{extra}");
    if body.is_some() {
        out += "Content-Type: application/sdp\r\n";
    }
    let body = body.unwrap_or("");
    out + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

pub fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or("")
}

pub fn status(message: &str) -> u16 {
    first_line(message).split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
}

/// Value of the first header of this name; empty when there is none.
pub fn header(message: &str, name: &str) -> String {
    let head = message.split("\r\n\r\n").next().unwrap_or("");
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map_or(String::new(), |(_, value)| value.trim().to_owned())
}

pub fn tag(message: &str, name: &str) -> String {
    let value = header(message, name);
    value.split(";tag=").nth(1).unwrap_or("").split(';').next().unwrap_or("").to_owned()
}

pub fn body(message: &str) -> &str {
    message.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
