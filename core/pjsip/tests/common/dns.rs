// SPDX-License-Identifier: GPL-3.0-or-later
//! A small name server on loopback.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub enum Data {
    Address(IpAddr),
    Alias(&'static str),
    /// Priority, weight, port, target.
    Server(u16, u16, u16, &'static str),
}

/// Answers from its records; for other names: there is none such.
pub struct Dns {
    pub address: SocketAddr,
    pub asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Dns {
    pub fn start(records: Vec<(&'static str, Data)>) -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let mut buf = [0; 1500];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buf) {
                    count.fetch_add(1, Ordering::Relaxed);
                    if let Some(answer) = answer(&buf[..len], &records) {
                        socket.send_to(&answer, from).unwrap();
                    }
                }
            }
        });
        Dns { address, asked, stop, thread: Some(thread) }
    }

    /// Takes questions and never answers.
    pub fn mute() -> Dns {
        Dns::start(vec![("", Data::Alias(""))])
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn encode(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|l| !l.is_empty()) {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend(label.bytes());
    }
    out.push(0);
    out
}

fn answer(question: &[u8], records: &[(&str, Data)]) -> Option<Vec<u8>> {
    let (mut at, mut name) = (12, String::new());
    while question[at] != 0 {
        let len = usize::from(question[at]);
        name += std::str::from_utf8(&question[at + 1..at + 1 + len]).unwrap();
        name.push('.');
        at += 1 + len;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let name = name.trim_end_matches('.');
    if records.iter().any(|(n, _)| n.is_empty()) {
        return None;
    }
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut wanted = name;
    for (owner, data) in records.iter().chain(records) {
        if *owner != wanted {
            continue;
        }
        let (code, rdata) = match data {
            Data::Address(IpAddr::V4(ip)) => (1, ip.octets().to_vec()),
            Data::Address(IpAddr::V6(ip)) => (28, ip.octets().to_vec()),
            Data::Alias(to) => (5, encode(to)),
            Data::Server(priority, weight, port, target) => {
                let fixed = [*priority, *weight, *port].map(u16::to_be_bytes).concat();
                (33, [fixed, encode(target)].concat())
            }
        };
        if code != kind && code != 5 {
            continue;
        }
        let mut record = encode(owner);
        record.extend(u16::to_be_bytes(code));
        record.extend([0, 1, 0, 0, 0, 60]);
        record.extend(u16::try_from(rdata.len()).unwrap().to_be_bytes());
        record.extend(rdata);
        if !found.contains(&record) {
            found.push(record);
        }
        if let Data::Alias(to) = data {
            wanted = to;
        }
    }
    let known = records.iter().any(|(n, _)| *n == name);
    let mut out = question[..2].to_vec();
    out.extend(if known { [0x81, 0x80] } else { [0x81, 0x83] });
    out.extend([0, 1]);
    out.extend(u16::try_from(found.len()).unwrap().to_be_bytes());
    out.extend([0; 4]);
    out.extend(&question[12..at + 5]);
    out.extend(found.concat());
    Some(out)
}
