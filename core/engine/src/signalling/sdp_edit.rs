// SPDX-License-Identifier: GPL-3.0-or-later
//! Changes to our own session description: for hold, for fewer codecs, for another address of ours. The
//! SIP stack raises the version in `o=` by itself (RFC 3264 section 8).

use std::borrow::Cow;
use std::net::IpAddr;

use pjsip_sys::Codec;
use zeroize::Zeroizing;

use crate::media::Direction;

/// Keys may be in it, so no copies are left behind: room for all from the start, and lines that stay are not copied.
fn rebuilt<'a>(
    sdp: &'a str,
    mut edit: impl FnMut(&'a str) -> Option<Cow<'a, str>>,
) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(sdp.len() * 2 + 256));
    for line in sdp.lines() {
        if let Some(line) = edit(line) {
            out.push_str(&line);
            out.push_str("\r\n");
        }
    }
    out
}

/// With this direction instead of `a=sendrecv`.
pub(super) fn with_direction(sdp: &str, direction: Direction) -> Zeroizing<String> {
    let attribute = match direction {
        Direction::SendRecv => "a=sendrecv",
        Direction::SendOnly => "a=sendonly",
        Direction::RecvOnly => "a=recvonly",
        Direction::Inactive => "a=inactive",
    };
    rebuilt(sdp, |line| Some(if line == "a=sendrecv" { attribute } else { line }.into()))
}

/// Without the codecs that are not in `keep`; formats that are no codec of ours stay.
pub(super) fn with_codecs(sdp: &str, all: &[Codec], keep: &[Codec]) -> Zeroizing<String> {
    let dropped: Vec<String> = all
        .iter()
        .filter(|codec| !keep.contains(codec))
        .map(|codec| codec.static_payload_type().to_string())
        .collect();
    let is_dropped = |format: &str| dropped.iter().any(|d| d == format);
    rebuilt(sdp, |line| {
        if line.starts_with("m=audio ") {
            let fields: Vec<&str> = line.split(' ').collect();
            let (head, formats) = fields.split_at(fields.len().min(3));
            let mut kept: Vec<&str> = head.to_vec();
            kept.extend(formats.iter().filter(|format| !is_dropped(format)));
            return Some(kept.join(" ").into());
        }
        let about = line.strip_prefix("a=rtpmap:").or_else(|| line.strip_prefix("a=fmtp:"));
        let format = about.and_then(|rest| rest.split(' ').next());
        (!format.is_some_and(is_dropped)).then_some(line.into())
    })
}

/// With another address of ours in `o=`, `c=` and `a=rtcp`.
pub(super) fn with_address(sdp: &str, address: IpAddr) -> Zeroizing<String> {
    let family = if address.is_ipv4() { "IP4" } else { "IP6" };
    rebuilt(sdp, |line| {
        let named = line.starts_with("o=") || line.starts_with("c=") || line.starts_with("a=rtcp:");
        let at = line.find(" IN IP").filter(|_| named).or_else(|| {
            // c= has nothing before the network type.
            line.starts_with("c=IN IP").then_some(1)
        });
        Some(match at {
            Some(1) => format!("c=IN {family} {address}").into(),
            Some(at) => {
                format!("{} IN {family} {address}", line.get(..at).unwrap_or_default()).into()
            }
            None => line.into(),
        })
    })
}

/// With these `a=crypto` lines instead of those it has: another peer must not be told the keys that the last one knows.
pub(super) fn with_keys(sdp: &str, crypto: &str) -> Zeroizing<String> {
    let mut fresh = Some(crypto.trim_end()).filter(|c| !c.is_empty());
    rebuilt(sdp, |line| {
        if line.starts_with("a=crypto:") {
            return fresh.take().map(Cow::from);
        }
        Some(line.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
        m=audio 4000 RTP/AVP 8 0 101\r\na=rtcp:5001 IN IP4 192.0.2.1\r\na=rtpmap:8 PCMA/8000\r\n\
        a=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-16\r\na=sendrecv\r\n";

    #[test]
    fn direction_is_replaced_and_nothing_else() {
        let held = with_direction(SDP, Direction::Inactive);
        assert_eq!(held.as_str(), SDP.replace("sendrecv", "inactive"));
        assert_eq!(with_direction(SDP, Direction::SendRecv).as_str(), SDP);
    }

    #[test]
    fn a_codec_goes_with_all_its_lines() {
        let all = [Codec::Pcma, Codec::Pcmu];
        let sdp = with_codecs(SDP, &all, &[Codec::Pcmu]);
        assert!(sdp.contains("m=audio 4000 RTP/AVP 0 101\r\n"), "{sdp:?}");
        assert!(!sdp.contains("PCMA") && sdp.contains("PCMU") && sdp.contains("a=fmtp:101 0-16"));
        assert_eq!(with_codecs(SDP, &all, &all).as_str(), SDP);
    }

    #[test]
    fn keys_are_replaced_all_of_them() {
        let old = SDP
            .replace("a=sendrecv", "a=crypto:1 A inline:x\r\na=crypto:2 B inline:y\r\na=sendrecv");
        let new = with_keys(&old, "a=crypto:1 A inline:z\r\na=crypto:2 B inline:w\r\n");
        assert_eq!(new.as_str(), old.replace(":x", ":z").replace(":y", ":w"));
        assert_eq!(with_keys(&old, "").as_str(), SDP);
    }

    #[test]
    fn address_is_replaced_everywhere() {
        let Ok(address) = "2001:db8::7".parse() else { panic!("address") };
        let sdp = with_address(SDP, address);
        assert_eq!(sdp.as_str(), SDP.replace("IP4 192.0.2.1", "IP6 2001:db8::7"));
    }
}
