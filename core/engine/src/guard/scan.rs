// SPDX-License-Identifier: GPL-3.0-or-later
//! The little that must be known of a message before it is parsed.

/// Seen in what arrived, without trust in its form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Begins like a response: it is matched to a request of ours, or thrown away by the stack.
    pub response: bool,
    /// To has a tag, so that it may belong to a dialog.
    pub to_tag: bool,
    /// ACK: never answered.
    pub ack: bool,
    /// Value of User-Agent.
    pub user_agent: &'a [u8],
    /// The empty line that ends the header was there.
    pub complete: bool,
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

fn is_name(name: &[u8], long: &str, short: &str) -> bool {
    let name = trimmed(name);
    name.eq_ignore_ascii_case(long.as_bytes())
        || !short.is_empty() && name.eq_ignore_ascii_case(short.as_bytes())
}

fn has_tag(value: &[u8]) -> bool {
    value.windows(3).any(|w| w.eq_ignore_ascii_case(b"tag"))
}

/// Reads the header of a message line by line. Folded lines (RFC 3261 section 7.3.1) belong to the one before.
pub(super) fn head(data: &[u8]) -> Head<'_> {
    let mut out = Head::default();
    let start = data.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(data.len());
    let data = data.get(start..).unwrap_or_default();
    out.response = data.get(..4).is_some_and(|b| b.eq_ignore_ascii_case(b"SIP/"));
    out.ack = data.starts_with(b"ACK ") || data.starts_with(b"ACK\t");
    let mut in_to = false;
    for (number, whole) in data.split_inclusive(|b| *b == b'\n').enumerate() {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() && whole.ends_with(b"\n") {
            out.complete = true;
            break;
        }
        if number > 0 && matches!(line.first(), Some(b' ' | b'\t')) {
            out.to_tag |= in_to && has_tag(line);
            continue;
        }
        in_to = false;
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let (name, value) = line.split_at(colon);
        if number == 0 {
            continue;
        }
        if is_name(name, "to", "t") {
            in_to = true;
            out.to_tag |= has_tag(value);
        } else if is_name(name, "user-agent", "") && out.user_agent.is_empty() {
            out.user_agent = trimmed(value.get(1..).unwrap_or_default());
        }
    }
    out
}

/// Whether `text` holds `needle` (lower case), whatever its case.
pub(super) fn holds(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && text.windows(needle.len()).any(|w| w.eq_ignore_ascii_case(needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_of_a_request() {
        let text = b"\r\nOPTIONS sip:100@192.0.2.1 SIP/2.0\r\nVia: x\r\nTO :\r\n <sip:100@192.0.2.1>\r\n ; tAg = 7\r\n\
            user-agent:  friendly-scanner \r\nUser-Agent: second\r\n\r\nTo: body";
        let seen = head(text);
        assert!(!seen.response && seen.to_tag && seen.complete && !seen.ack);
        assert_eq!(seen.user_agent, b"friendly-scanner");
    }

    #[test]
    fn a_tag_elsewhere_is_none_of_to() {
        let seen =
            head(b"ACK sip:tag@x SIP/2.0\nFrom: <sip:a>;tag=1\n ;tag=2\nt: <sip:b>\nX: tag\n");
        assert!(!seen.to_tag && seen.ack && !seen.complete);
        assert!(head(b"SIP/2.0 200 OK\r\n").response);
        assert_eq!(head(b""), Head::default());
        assert_eq!(head(b"\n\n\n"), Head::default());
    }

    #[test]
    fn scanners_by_part_of_their_name() {
        assert!(holds(b"Friendly-Scanner/1.2", b"friendly-scanner"));
        assert!(!holds(b"friendly", b"friendly-scanner"));
        assert!(!holds(b"anything", b""));
    }
}
