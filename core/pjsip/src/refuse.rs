// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers to requests that do not parse, from what can be read of them (RFC 3261 section 8.2.6.2, RFC 4475 section 3.1.2).
//!
//! The stack drops them, so that a peer with a fault repeats its request for half a minute. Whoever is not to be answered,
//! the gate decides.

use std::ffi::c_void;
use std::net::SocketAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::convert::{addr_from_c, addr_to_c};
use crate::ffi;
use crate::gate::{hash, Hash};

/// Longest header fields copied, all together: an answer is never much longer than its request.
const COPIED_MAX: usize = 3000;

/// An answer and where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub text: Vec<u8>,
    pub to: SocketAddr,
}

struct Field<'a> {
    name: &'static str,
    value: &'a [u8],
}

/// The fields that a response repeats, with their compact forms.
const REPEATED: [(&str, &str); 5] =
    [("Via", "v"), ("From", "f"), ("To", "t"), ("Call-ID", "i"), ("CSeq", "")];

fn fields(head: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < head.len() {
        // A field goes on in lines that begin with a space.
        let mut end = at;
        loop {
            end += head
                .get(end..)?
                .iter()
                .position(|b| *b == b'\n')
                .map_or(head.len() - end, |n| n + 1);
            if !matches!(head.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let line = head.get(at..end)?;
        at = end;
        if line.trim_ascii().is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let name = name.trim_ascii();
        let known = REPEATED.iter().find(|(long, short)| {
            name.eq_ignore_ascii_case(long.as_bytes())
                || name.eq_ignore_ascii_case(short.as_bytes())
        });
        let Some((name, _)) = known else { continue };
        let value = value.get(1..)?.trim_ascii();
        // What no header may hold is not repeated to anybody.
        if value.iter().any(|b| b.is_ascii_control() && !matches!(b, b'\r' | b'\n' | b'\t')) {
            return None;
        }
        out.push(Field { name, value });
    }
    Some(out)
}

/// 505 for another version, 416 for a scheme that nobody knows, 400 for all else.
fn status_of(line: &[u8]) -> Option<(u16, &'static str)> {
    let text = std::str::from_utf8(line).ok()?.trim_end_matches(['\r', '\n', ' ']);
    let (method, rest) = text.split_once(' ')?;
    let (uri, version) = rest.rsplit_once(' ')?;
    if method.is_empty() || method == "ACK" || !version.to_ascii_uppercase().starts_with("SIP/") {
        return None;
    }
    if !version.eq_ignore_ascii_case("SIP/2.0") {
        return Some((505, "Version Not Supported"));
    }
    let scheme = uri.trim().split_once(':').map_or("", |(scheme, _)| scheme);
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if named && !["sip", "sips", "tel"].iter().any(|s| scheme.eq_ignore_ascii_case(s)) {
        return Some((416, "Unsupported URI Scheme"));
    }
    Some((400, "Bad Request"))
}

/// Port that the top Via asks to be answered at (RFC 3261 section 18.2.2, RFC 3581 section 4).
fn reply_port(via: &[u8], source: SocketAddr) -> u16 {
    let Ok(text) = std::str::from_utf8(via) else { return source.port() };
    let first = text.split(',').next().unwrap_or(text);
    let mut parts = first.split(';').map(str::trim);
    let sent_by = parts.next().and_then(|p| p.split_whitespace().last()).unwrap_or("");
    if parts.any(|p| p.split('=').next().is_some_and(|n| n.trim().eq_ignore_ascii_case("rport"))) {
        return source.port();
    }
    let port = match sent_by.rsplit_once(']') {
        Some((_, after)) => after.strip_prefix(':'),
        None => sent_by.rsplit_once(':').map(|(_, port)| port),
    };
    port.and_then(|p| p.parse().ok()).filter(|p| *p != 0).unwrap_or(5060)
}

/// Answers what did not parse, or `None` when it is no request, or not one that can be answered.
pub(crate) fn answer(data: &[u8], source: SocketAddr, stream: bool) -> Option<Answer> {
    let start = data.iter().position(|b| !matches!(b, b'\r' | b'\n'))?;
    let data = data.get(start..)?;
    let first = data.iter().position(|b| *b == b'\n')?;
    let (line, head) = data.split_at(first + 1);
    let (status, reason) = status_of(line)?;
    let fields = fields(head)?;
    let copied: usize = fields.iter().map(|f| f.name.len() + f.value.len() + 4).sum();
    let via = fields.iter().find(|f| f.name == "Via")?.value;
    if copied > COPIED_MAX || !fields.iter().any(|f| f.name == "CSeq") {
        return None;
    }
    let mut text = format!("SIP/2.0 {status} {reason}\r\n").into_bytes();
    for (name, _) in REPEATED {
        let many = name == "Via";
        for field in
            fields.iter().filter(|f| f.name == name).take(if many { usize::MAX } else { 1 })
        {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(field.value);
            let tagged = field.value.windows(3).any(|w| w.eq_ignore_ascii_case(b"tag"));
            if name == "To" && !tagged {
                // The same for each repetition of the request (section 8.2.6.2).
                let tag = hash(Hash::Sha256, head);
                text.extend_from_slice(b";tag=");
                text.extend(tag.iter().take(8).flat_map(|b| format!("{b:02x}").into_bytes()));
            }
            text.extend_from_slice(b"\r\n");
        }
    }
    text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    let port = if stream { source.port() } else { reply_port(via, source) };
    Some(Answer { status, text, to: SocketAddr::new(source.ip(), port) })
}

/// The function pointer that the shim gets: writes the answer into `out` and its address into `to`; 0 when there is none.
pub(crate) unsafe extern "C" fn on_refusal(
    _user: *mut c_void,
    request: ffi::Str,
    source: *const ffi::Addr,
    stream: u32,
    out: *mut u8,
    size: usize,
    to: *mut ffi::Addr,
) -> usize {
    // SAFETY: the shim's buffers and addresses live for this call, and out has size bytes (vc.h).
    let (source, to, out) =
        unsafe { (&*source, &mut *to, std::slice::from_raw_parts_mut(out, size)) };
    let made = catch_unwind(AssertUnwindSafe(|| {
        answer(crate::sink::bytes(&request), addr_from_c(source)?, stream != 0)
    }));
    let Some(made) = made.ok().flatten() else { return 0 };
    let Some(place) = out.get_mut(..made.text.len()) else { return 0 };
    place.copy_from_slice(&made.text);
    *to = addr_to_c(made.to);
    made.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9)), 7777);

    fn of(request: &str) -> Option<(u16, String, u16)> {
        let made = answer(request.as_bytes(), SOURCE, false)?;
        Some((made.status, String::from_utf8(made.text).unwrap(), made.to.port()))
    }

    #[test]
    fn the_answer_repeats_what_it_must() {
        let (status, text, port) = of("\r\nINVITE <sip:a@b> SIP/2.0\r\nv: SIP/2.0/UDP 192.0.2.1;branch=1\r\n\
            Via: SIP/2.0/UDP h;branch=2\r\nTo : <sip:a@b>\r\n  ;x=1\r\nf: <sip:c@d>;tag=9\r\ni: 7\r\nCSeq: 8 INVITE\r\n\
            Subject: no\r\n\r\nVia: body")
        .unwrap();
        assert_eq!((status, port), (400, 5060));
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], "SIP/2.0 400 Bad Request");
        assert_eq!(
            lines[1..3],
            ["Via: SIP/2.0/UDP 192.0.2.1;branch=1", "Via: SIP/2.0/UDP h;branch=2"]
        );
        assert_eq!(lines[3], "From: <sip:c@d>;tag=9");
        assert_eq!(lines[4], "To: <sip:a@b>");
        assert!(lines[5].starts_with("  ;x=1;tag="), "{text}");
        assert_eq!(lines[6..8], ["Call-ID: 7", "CSeq: 8 INVITE"]);
        assert!(text.ends_with("Content-Length: 0\r\n\r\n") && !text.contains("body"));
    }

    #[test]
    fn versions_schemes_and_ports() {
        let request =
            |line: &str, via: &str| format!("{line}\r\nVia: {via}\r\nCSeq: 1 OPTIONS\r\n\r\n");
        let via = "SIP/2.0/UDP [2001:db8::1]:5099;branch=1";
        for (line, via, status, port) in [
            ("OPTIONS sip:a SIP/7.0", via, 505, 5099),
            ("OPTIONS soap.beep://192.0.2.103:3002 SIP/2.0", "SIP/2.0/UDP h:5098 ;x", 416, 5098),
            ("OPTIONS sip:a b SIP/2.0", "SIP/2.0/UDP h ; rport ;x", 400, 7777),
            ("OPTIONS <sip:a> sip/2.0", "SIP/2.0/UDP [::1]", 400, 5060),
        ] {
            let (got, _, to) = of(&request(line, via)).unwrap();
            assert_eq!((got, to), (status, port), "{line} {via}");
        }
    }

    #[test]
    fn what_is_no_request_gets_nothing() {
        for text in [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.0\r\nVia: x\r\nCSeq: 1 X\r\n\r\n",
            "SIP/2.0 200 OK\r\nVia: x\r\nCSeq: 1 X\r\n\r\n",
            "ACK <sip:a> SIP/2.0\r\nVia: x\r\nCSeq: 1 ACK\r\n\r\n",
            "OPTIONS <sip:a> SIP/2.0\r\nCSeq: 1 OPTIONS\r\n\r\n",
            "OPTIONS <sip:a> SIP/2.0\r\nVia: x\r\n\r\n",
            "OPTIONS <sip:a> SIP/2.0\r\nVia: x\0y\r\nCSeq: 1 OPTIONS\r\n\r\n",
            "OPTIONS <sip:a> SIP/2.0",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
        let long =
            format!("OPTIONS <sip:a> SIP/2.0\r\nVia: {}\r\nCSeq: 1 X\r\n\r\n", "x".repeat(9000));
        assert_eq!(of(&long), None);
    }
    #[test]
    fn rubbish_is_read_without_harm_and_answered_at_no_greater_length() {
        let good = b"INVITE <sip:a@b> SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=1\r\nTo: <sip:a@b>\r\n\
            From: <sip:c@d>;tag=9\r\nCall-ID: 7\r\nCSeq: 8 INVITE\r\n\r\n";
        // A small generator, seeded: xorshift.
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        let mut answered = 0;
        for _ in 0..20_000 {
            let mut data = good.to_vec();
            for _ in 0..=next(4) {
                let at = next(data.len());
                match next(3) {
                    0 => data[at] = next(256) as u8,
                    1 => drop(data.remove(at)),
                    _ => data.insert(at, b"\r\n \t:;[]@\0,<>\"/="[next(16)]),
                }
            }
            if let Some(made) = answer(&data, SOURCE, next(2) == 0) {
                answered += 1;
                assert!(made.text.len() <= data.len() + 80, "{:?}", String::from_utf8_lossy(&data));
                assert!(made.text.starts_with(b"SIP/2.0 ") && !made.text.contains(&0));
            }
        }
        assert!(answered > 5_000, "{answered}");
    }
}
