// SPDX-License-Identifier: GPL-3.0-or-later
//! DNS messages (RFC 1035 section 4, RFC 2782, RFC 3596, RFC 6891): one question out, what we need of the answer in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const A: u16 = 1;
pub(super) const CNAME: u16 = 5;
pub(super) const AAAA: u16 = 28;
pub(super) const SRV: u16 = 33;
const OPT: u16 = 41;
const IN: u16 = 1;

/// Answers up to this size come by UDP (the flag day value of 2020: no fragments).
pub(super) const UDP_SIZE: u16 = 1232;
const NAME_MAX: usize = 255;
const LABEL_MAX: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Address(IpAddr),
    Alias(String),
    Server { priority: u16, weight: u16, port: u16, target: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub name: String,
    pub ttl: u32,
    pub data: Data,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub truncated: bool,
    /// RFC 1035 4.1.1: 0 good, 1 format error, 2 server failure, 3 no such name.
    pub code: u8,
    /// Of the answer section, then of the additional one.
    pub records: Vec<Record>,
}

/// The question, with EDNS unless a server does not know it.
pub(super) fn question(id: u16, name: &str, kind: u16, edns: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.extend(id.to_be_bytes());
    out.extend(0x0100_u16.to_be_bytes()); // recursion desired
    out.extend(1_u16.to_be_bytes());
    out.extend([0; 4]);
    out.extend(u16::from(edns).to_be_bytes());
    let start = out.len();
    for label in name.trim_end_matches('.').split('.') {
        if label.is_empty() || label.len() > LABEL_MAX {
            return None;
        }
        out.push(u8::try_from(label.len()).ok()?);
        out.extend(label.bytes());
    }
    out.push(0);
    if out.len() - start > NAME_MAX {
        return None;
    }
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    if edns {
        out.push(0);
        out.extend(OPT.to_be_bytes());
        out.extend(UDP_SIZE.to_be_bytes());
        out.extend([0; 6]);
    }
    Some(out)
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u8(&mut self) -> Option<u8> {
        let byte = *self.message.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    /// A name in lower case, without the last dot. Pointers lead backwards only, so it ends.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut at = self.at;
        let mut end = None;
        let mut lowest = self.at;
        loop {
            let len = usize::from(*self.message.get(at)?);
            match len >> 6 {
                0 if len == 0 => {
                    self.at = end.unwrap_or(at + 1);
                    return Some(name);
                }
                0 => {
                    let label = self.message.get(at + 1..at + 1 + len)?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    // What is no host name is nothing we look for; it must not become one.
                    let good =
                        |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'*');
                    if !label.iter().all(good) || name.len() + len > NAME_MAX {
                        return None;
                    }
                    name.extend(label.iter().map(|b| char::from(b.to_ascii_lowercase())));
                    at += 1 + len;
                }
                3 => {
                    let low = usize::from(*self.message.get(at + 1)?);
                    end = end.or(Some(at + 2));
                    at = (len & 0x3f) << 8 | low;
                    if at >= lowest {
                        return None;
                    }
                    lowest = at;
                }
                _ => return None,
            }
        }
    }
}

/// The answer to that question; `None` for anything else.
pub(super) fn answer(message: &[u8], id: u16, name: &str, kind: u16) -> Option<Answer> {
    let mut r = Reader { message, at: 0 };
    let (got, flags) = (r.u16()?, r.u16()?);
    let counts = [r.u16()?, r.u16()?, r.u16()?, r.u16()?];
    let [questions, answers, authorities, additional] = counts;
    if got != id || flags & 0x8000 == 0 {
        return None;
    }
    let code = (flags & 0xf) as u8;
    // A server that does not understand a question may leave it out.
    if questions == 1 {
        if !r.name()?.eq_ignore_ascii_case(name.trim_end_matches('.')) || r.u16()? != kind {
            return None;
        }
        r.u16()?;
    } else if code == 0 || questions > 1 {
        return None;
    }
    let mut out = Answer { truncated: flags & 0x0200 != 0, code, records: Vec::new() };
    let total = u32::from(answers) + u32::from(authorities) + u32::from(additional);
    for i in 0..total {
        let is_authority =
            i >= u32::from(answers) && i < u32::from(answers) + u32::from(authorities);
        match record(&mut r) {
            Some(Some(record)) if !is_authority => out.records.push(record),
            Some(_) => {}
            // What was cut off at the end, or is none of ours, does not spoil what came before.
            None if out.truncated || i >= u32::from(answers) => break,
            None => return None,
        }
    }
    Some(out)
}

/// `Some(None)`: a kind that is of no use here.
fn record(r: &mut Reader<'_>) -> Option<Option<Record>> {
    let name = r.name()?;
    let (kind, class, ttl, len) = (r.u16()?, r.u16()?, r.u32()?, usize::from(r.u16()?));
    let end = r.at + len;
    let bytes = r.message.get(r.at..end)?;
    let data = match kind {
        A => <[u8; 4]>::try_from(bytes).ok().map(|b| Data::Address(Ipv4Addr::from(b).into())),
        AAAA => <[u8; 16]>::try_from(bytes).ok().map(|b| Data::Address(Ipv6Addr::from(b).into())),
        CNAME => r.name().map(Data::Alias),
        SRV => {
            let (priority, weight, port) = (r.u16()?, r.u16()?, r.u16()?);
            r.name().map(|target| Data::Server { priority, weight, port, target })
        }
        _ => None,
    };
    r.at = end;
    Some(data.filter(|_| class == IN).map(|data| Record { name, ttl, data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(records: &[&[u8]], flags: u16) -> Vec<u8> {
        let mut m = question(7, "Sip.example.ORG.", SRV, false).unwrap();
        m[2..4].copy_from_slice(&flags.to_be_bytes());
        m[7] = u8::try_from(records.len()).unwrap();
        for record in records {
            m.extend(*record);
        }
        m
    }

    // Name: pointer to the question's.
    const SERVER: &[u8] =
        b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x0c\0\x0a\0\x05\x13\xc4\x03pbx\xc0\x10";
    const ALIAS: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x10";
    const ADDRESS: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x07";

    #[test]
    fn records_are_read() {
        let m = message(&[SERVER, ALIAS, ADDRESS], 0x8180);
        let answer = answer(&m, 7, "sip.example.org", SRV).unwrap();
        assert_eq!((answer.code, answer.truncated), (0, false));
        let data: Vec<_> = answer.records.into_iter().map(|r| r.data).collect();
        let target = "pbx.example.org".to_owned();
        assert_eq!(
            data,
            [
                Data::Server { priority: 10, weight: 5, port: 5060, target },
                Data::Alias("a.example.org".to_owned()),
                Data::Address("192.0.2.7".parse().unwrap()),
            ]
        );
    }

    #[test]
    fn answers_to_other_questions_are_not_taken() {
        let m = message(&[ADDRESS], 0x8180);
        assert!(answer(&m, 8, "sip.example.org", SRV).is_none());
        assert!(answer(&m, 7, "sip.example.net", SRV).is_none());
        assert!(answer(&m, 7, "sip.example.org", A).is_none());
        assert!(answer(&message(&[ADDRESS], 0x0100), 7, "sip.example.org", SRV).is_none());
    }

    #[test]
    fn broken_messages_end_and_do_not_panic() {
        let whole = message(&[SERVER, ALIAS, ADDRESS], 0x8180);
        for len in 0..whole.len() {
            answer(&whole[..len], 7, "sip.example.org", SRV);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
                let mut m = whole.clone();
                m[at] = value;
                answer(&m, 7, "sip.example.org", SRV);
            }
        }
        // A pointer to itself.
        let own = [b"\xc0".as_slice(), &[whole.len() as u8 - 54], &[0; 10]].concat();
        assert!(answer(&message(&[&own], 0x8180), 7, "sip.example.org", SRV).is_none());
    }

    #[test]
    fn names_that_cannot_be_asked_for() {
        for name in ["", "a..b", &"x".repeat(64), &"abc.".repeat(70)] {
            assert!(question(1, name, A, true).is_none(), "{name}");
        }
    }
}
