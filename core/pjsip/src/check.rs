// SPDX-License-Identifier: GPL-3.0-or-later
//! What text must be before PJSIP sees it: nothing that could break out of a header.

use std::net::Ipv6Addr;

use crate::error::SipError;

const URI_MAX: usize = 512;
const SDP_MAX: usize = 8192;

/// A `sip:` URI in one piece.
///
/// # Errors
/// [`SipError::BadUri`] with `which`.
pub fn uri(text: &str, which: &'static str) -> Result<(), SipError> {
    let scheme = text.get(..4).is_some_and(|s| s.eq_ignore_ascii_case("sip:"));
    let clean =
        text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b','));
    let place = text.get(4..).is_some_and(is_place);
    if scheme && clean && place && text.len() <= URI_MAX {
        Ok(())
    } else {
        Err(SipError::BadUri(which))
    }
}

/// `[user@]host[:port][;parameters][?headers]`: a host that can be one and a port from 1 to 65535.
fn is_place(text: &str) -> bool {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let host = host.split([';', '?']).next().unwrap_or(host);
    let (host, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, after))) => (
            address.parse::<Ipv6Addr>().is_ok(),
            after.strip_prefix(':').or(if after.is_empty() { None } else { Some("") }),
        ),
        Some(None) => (false, None),
        None => {
            let (name, port) = host.split_once(':').map_or((host, None), |(n, p)| (n, Some(p)));
            let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
            (!name.is_empty() && name.bytes().all(known), port)
        }
    };
    host && port.is_none_or(|port| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0)
    })
}

/// Text that goes into a header or a quoted string of one.
///
/// # Errors
/// [`SipError::BadArgument`] with `which`.
pub fn header_text(text: &str, which: &'static str) -> Result<(), SipError> {
    if text.len() <= 256 && !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        Ok(())
    } else {
        Err(SipError::BadArgument(which))
    }
}

/// SDP of a size that fits a datagram.
pub(crate) fn sdp(text: &str) -> Result<(), SipError> {
    if text.is_empty() || text.len() > SDP_MAX || text.contains('\0') {
        return Err(SipError::BadSdp(format!(
            "1 to {SDP_MAX} bytes without NUL expected, {} given",
            text.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_header() {
        for good in [
            "sip:100@127.0.0.1:5060;transport=tcp",
            "SIP:sip.example.com",
            "sip:+49;phone-context=x@[2001:db8::1]:5061;lr",
            "sip:[::1]",
        ] {
            assert!(uri(good, "x").is_ok(), "{good}");
        }
        for bad in [
            "",
            "sip:",
            "tel:+49",
            "sip:a@b\r\nX: y",
            "sip:a b@c",
            "sip:a@b>",
            "100@host",
            "sips:a@b",
            "é",
            "sip:a@",
            "sip:a@b:0",
            "sip:a@b:99999",
            "sip:b:5060x",
            "sip:b:",
            "sip:[::1",
            "sip:[::1]x",
            "sip:[1.2.3]",
            "sip:a@b:50:60",
        ] {
            assert_eq!(uri(bad, "x"), Err(SipError::BadUri("x")), "{bad:?}");
        }
        assert!(header_text("voice-edge", "x").is_ok());
        for bad in ["a\r\nb", "a\"b", "a\\b", "\u{7f}"] {
            assert_eq!(header_text(bad, "x"), Err(SipError::BadArgument("x")), "{bad:?}");
        }
        assert!(sdp("v=0\0").is_err());
        assert!(sdp("").is_err());
    }
}
