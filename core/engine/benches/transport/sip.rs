// SPDX-License-Identifier: GPL-3.0-or-later
//! As much of a user agent client (RFC 3261) as placing calls over UDP on loopback needs.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::Outcome;

/// Timer A's first value (RFC 3261 section 17.1.1.2).
const T1: Duration = Duration::from_millis(500);

/// Key and salt that calls with SRTP offer, and the same in base64 (RFC 4568 section 6.1).
pub const KEY: &[u8; 30] = b"0123456789abcdef0123456789abcd";
const KEY_TEXT: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNk";

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not yet called.
    Idle,
    /// INVITE sent.
    Calling,
    /// Answered and acknowledged.
    Up,
    /// BYE sent.
    Leaving,
    /// Over.
    Over,
    /// Refused, or ended by the other side.
    Failed,
}

/// A call.
pub struct Leg {
    /// State.
    pub state: State,
    /// Where the answer says RTP goes.
    pub rtp: Option<SocketAddr>,
    /// To header of the answer, with its tag.
    to: String,
    /// Contact of the answer.
    contact: String,
    again: Instant,
    wait: Duration,
}

/// The user agent.
pub struct Uac {
    socket: UdpSocket,
    local: SocketAddr,
    target: SocketAddr,
    /// By number.
    pub legs: Vec<Leg>,
    buffer: Vec<u8>,
    /// Messages sent again.
    pub repeated: u64,
    /// Offer SRTP with [`KEY`].
    pub srtp: bool,
}

/// What became of a message.
pub enum Heard {
    /// This call is up.
    Up(usize),
    /// This call is over.
    Over(usize),
    /// Nothing of note.
    Other,
}

impl Uac {
    /// An agent for `calls` to `target`.
    pub fn new(target: SocketAddr, calls: usize) -> Outcome<Uac> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        let now = Instant::now();
        let leg = |_| Leg {
            state: State::Idle,
            rtp: None,
            to: String::new(),
            contact: String::new(),
            again: now,
            wait: T1,
        };
        Ok(Uac {
            local: socket.local_addr()?,
            socket,
            target,
            legs: (0..calls).map(leg).collect(),
            buffer: vec![0; 65536],
            repeated: 0,
            srtp: false,
        })
    }

    /// Its socket, to be waited on.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Calls in a state.
    pub fn count(&self, state: State) -> usize {
        self.legs.iter().filter(|l| l.state == state).count()
    }

    /// Places call `n`, whose RTP comes from and goes to our `port`.
    pub fn invite(&mut self, n: usize, port: u16) -> Outcome<()> {
        let (profile, crypto) = match self.srtp {
            true => ("SAVP", format!("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{KEY_TEXT}\r\n")),
            false => ("AVP", String::new()),
        };
        let body = format!(
            "v=0\r\no=- {n} 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=audio {port} RTP/{profile} 8\r\na=rtpmap:8 PCMA/8000\r\n{crypto}a=ptime:20\r\n\
             a=sendrecv\r\n"
        );
        let target = format!("sip:bench@{}", self.target);
        let to = format!("<{target}>");
        let head = self.head("INVITE", &target, n, &to, 1, "invite");
        self.send(&format!(
            "{head}Contact: <sip:load@{}>\r\nContent-Type: application/sdp\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.local,
            body.len()
        ))?;
        self.state(n, State::Calling);
        Ok(())
    }

    /// Ends call `n`.
    pub fn bye(&mut self, n: usize) -> Outcome<()> {
        let (contact, to) = (self.legs[n].contact.clone(), self.legs[n].to.clone());
        let head = self.head("BYE", &contact, n, &to, 2, "bye");
        self.send(&format!("{head}Content-Length: 0\r\n\r\n"))?;
        self.state(n, State::Leaving);
        Ok(())
    }

    fn state(&mut self, n: usize, state: State) {
        let leg = &mut self.legs[n];
        if leg.state != state {
            (leg.state, leg.wait) = (state, T1);
        }
        leg.again = Instant::now() + leg.wait;
        leg.wait *= 2;
    }

    /// Sends again what was not answered in time.
    pub fn repeat(&mut self, port: impl Fn(usize) -> u16) -> Outcome<()> {
        let now = Instant::now();
        for n in 0..self.legs.len() {
            let due = self.legs[n].again <= now;
            match self.legs[n].state {
                State::Calling if due => self.invite(n, port(n))?,
                State::Leaving if due => self.bye(n)?,
                _ => continue,
            }
            self.repeated += 1;
        }
        Ok(())
    }

    fn head(&self, method: &str, uri: &str, n: usize, to: &str, seq: u32, branch: &str) -> String {
        let local = self.local;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{branch}{n}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:load@{local}>;tag=f{n}\r\nTo: {to}\r\n\
             Call-ID: {n}@{local}\r\nCSeq: {seq} {method}\r\n"
        )
    }

    fn send(&self, message: &str) -> Outcome<()> {
        self.socket.send_to(message.as_bytes(), self.target)?;
        Ok(())
    }

    /// Takes one message; `None` when there is none.
    pub fn hear(&mut self) -> Outcome<Option<Heard>> {
        let n = match self.socket.recv(&mut self.buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let message = String::from_utf8_lossy(&self.buffer[..n]).into_owned();
        Ok(Some(self.on_message(&message)?))
    }

    fn on_message(&mut self, message: &str) -> Outcome<Heard> {
        let number = field(message, "Call-ID").and_then(|id| id.split('@').next()?.parse().ok());
        let Some(n) = number.filter(|n: &usize| *n < self.legs.len()) else {
            return Ok(Heard::Other);
        };
        let Some(rest) = message.strip_prefix("SIP/2.0 ") else {
            return self.on_request(n, message);
        };
        let status: u16 = rest.split(' ').next().unwrap_or("0").parse()?;
        let invite = field(message, "CSeq").is_some_and(|c| c.ends_with("INVITE"));
        let state = self.legs[n].state;
        match (status, invite) {
            (100..=199, _) => {
                self.legs[n].again = Instant::now() + Duration::from_secs(60);
                Ok(Heard::Other)
            }
            (200, true) => {
                self.on_answer(n, message)?;
                Ok(if state == State::Calling { Heard::Up(n) } else { Heard::Other })
            }
            (_, false) if state == State::Leaving => {
                self.legs[n].state = State::Over;
                Ok(Heard::Over(n))
            }
            (300.., true) => {
                eprintln!("call {n} refused: {}", message.lines().next().unwrap_or(""));
                self.legs[n].state = State::Failed;
                Ok(Heard::Over(n))
            }
            _ => Ok(Heard::Other),
        }
    }

    fn on_answer(&mut self, n: usize, message: &str) -> Outcome<()> {
        let to = field(message, "To").ok_or("an answer without To")?.to_owned();
        let contact = field(message, "Contact").ok_or("an answer without Contact")?;
        let contact = contact.split(['<', '>']).nth(1).unwrap_or(contact).to_owned();
        let media = field(message, "m=audio").ok_or("an answer without audio")?;
        let port = media.split(' ').next().unwrap_or("").parse()?;
        let ack = self.head("ACK", &contact, n, &to, 1, "ack");
        self.send(&format!("{ack}Content-Length: 0\r\n\r\n"))?;
        let leg = &mut self.legs[n];
        (leg.to, leg.contact) = (to, contact);
        leg.rtp = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        if leg.state == State::Calling {
            leg.state = State::Up;
        }
        Ok(())
    }

    fn on_request(&mut self, n: usize, message: &str) -> Outcome<Heard> {
        let method = message.split(' ').next().unwrap_or("");
        let mut answer = String::from("SIP/2.0 200 OK\r\n");
        for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
            for line in message.lines().filter(|l| l.starts_with(name)) {
                answer += &format!("{line}\r\n");
            }
        }
        self.send(&(answer + "Content-Length: 0\r\n\r\n"))?;
        if method != "BYE" || self.legs[n].state == State::Over {
            return Ok(Heard::Other);
        }
        eprintln!("call {n} was ended by the other side");
        self.legs[n].state = State::Failed;
        Ok(Heard::Over(n))
    }
}

/// The rest of the first line that begins with `name`.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let line = message.lines().find(|l| l.starts_with(name))?;
    Some(line[name.len()..].trim_start_matches([':', ' ']).trim())
}
