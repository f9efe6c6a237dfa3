// SPDX-License-Identifier: GPL-3.0-or-later
//! What text must be before PJSIP sees it: nothing that could break out of a header.

use crate::error::SipError;

const URI_MAX: usize = 512;
const SDP_MAX: usize = 8192;

/// A `sip:` URI in one piece.
pub(crate) fn uri(text: &str, which: &'static str) -> Result<(), SipError> {
    let scheme = text.get(..4).is_some_and(|s| s.eq_ignore_ascii_case("sip:"));
    let clean =
        text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'"' | b','));
    if scheme && clean && text.len() > 4 && text.len() <= URI_MAX {
        Ok(())
    } else {
        Err(SipError::BadUri(which))
    }
}

/// Text that goes into a header or a quoted string of one.
pub(crate) fn header_text(text: &str, which: &'static str) -> Result<(), SipError> {
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
        assert!(uri("sip:100@127.0.0.1:5060;transport=tcp", "x").is_ok());
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
