// SPDX-License-Identifier: GPL-3.0-or-later
//! One question to the name servers, waiting for the answer. Runs beside the SIP thread only.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::wire::{self, Answer};

/// For one server in the first turn; the second one waits longer.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
const TCP_WAIT: Duration = Duration::from_secs(3);

const FORMAT_ERROR: u8 = 1;
const NO_SUCH_NAME: u8 = 3;

/// An answer that settles the question: records, or that there are none.
pub(super) fn ask(servers: &[SocketAddr], name: &str, kind: u16) -> io::Result<Answer> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for wait in WAITS {
        for server in servers {
            match ask_one(*server, name, kind, wait) {
                Ok(answer) if answer.code == 0 || answer.code == NO_SUCH_NAME => return Ok(answer),
                Ok(answer) => last = io::Error::other(format!("name server error {}", answer.code)),
                Err(e) => last = e,
            }
        }
    }
    Err(last)
}

fn ask_one(server: SocketAddr, name: &str, kind: u16, wait: Duration) -> io::Result<Answer> {
    let answer = ask_udp(server, name, kind, wait, true)?;
    let answer = if answer.code == FORMAT_ERROR {
        ask_udp(server, name, kind, wait, false)?
    } else {
        answer
    };
    if !answer.truncated {
        return Ok(answer);
    }
    // What came is better than nothing (RFC 2181 9 says not to use it, but a call is waiting).
    ask_tcp(server, name, kind).or(Ok(answer))
}

/// Not to be guessed from outside (RFC 5452 4.3); the kernel chooses the port.
fn random_id() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}

fn question(id: u16, name: &str, kind: u16, edns: bool) -> io::Result<Vec<u8>> {
    wire::question(id, name, kind, edns)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a host name"))
}

fn ask_udp(
    server: SocketAddr,
    name: &str,
    kind: u16,
    wait: Duration,
    edns: bool,
) -> io::Result<Answer> {
    let id = random_id();
    let socket = match server {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    // Connected: datagrams of others do not reach us, and a closed port is an error at once.
    socket.connect(server)?;
    socket.send(&question(id, name, kind, edns)?)?;
    let deadline = Instant::now() + wait;
    let mut buf = [0; wire::UDP_SIZE as usize];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let len = socket.recv(&mut buf)?;
        if let Some(answer) = buf.get(..len).and_then(|m| wire::answer(m, id, name, kind)) {
            return Ok(answer);
        }
    }
}

fn ask_tcp(server: SocketAddr, name: &str, kind: u16) -> io::Result<Answer> {
    let id = random_id();
    let message = question(id, name, kind, false)?;
    let mut stream = TcpStream::connect_timeout(&server, TCP_WAIT)?;
    stream.set_read_timeout(Some(TCP_WAIT))?;
    stream.set_write_timeout(Some(TCP_WAIT))?;
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[len.to_be_bytes().as_slice(), &message].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    wire::answer(&message, id, name, kind)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an answer"))
}
