// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes personal data out of text that may reach a log.

/// Longest log text passed on, in bytes. PJSIP quotes whole messages in places.
const MAX_TEXT: usize = 240;

/// The URI without its user part: `sip:…@host:port`. Parameters and headers go too: they can hold numbers.
pub fn redact_uri(uri: &str) -> String {
    let (scheme, rest) = match uri.split_once(':') {
        Some((scheme, rest))
            if scheme.len() <= 5 && scheme.chars().all(|c| c.is_ascii_alphabetic()) =>
        {
            (scheme, rest)
        }
        _ => return "…".to_owned(),
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => {
            let end = host.find([';', '?', '>', ' ']).unwrap_or(host.len());
            format!("{scheme}:…@{}", &host[..end])
        }
        // Without a user part a SIP URI is a host; every other scheme (tel:) is all number.
        None if scheme.eq_ignore_ascii_case("sip") || scheme.eq_ignore_ascii_case("sips") => {
            let end = rest.find([';', '?', '>', ' ']).unwrap_or(rest.len());
            format!("{scheme}:{}", &rest[..end])
        }
        None => format!("{scheme}:…"),
    }
}

/// Log text from PJSIP without user parts, digits, quoted strings and control characters, cut to a
/// bounded length.
pub fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_TEXT) + 4);
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once(' ')) {
        if c.is_whitespace() || c.is_control() {
            if !word.is_empty() {
                if out.len() + word.len() > MAX_TEXT {
                    out.push('…');
                    break;
                }
                if !out.is_empty() {
                    out.push(' ');
                }
                push_word(&mut out, &word);
                word.clear();
            }
        } else if word.len() < MAX_TEXT {
            word.push(c);
        }
    }
    out
}

fn push_word(out: &mut String, word: &str) {
    // Anything before an @ may be a user, whatever the scheme.
    let shown = match word.rsplit_once('@') {
        Some((_, host)) => {
            out.push_str("…@");
            host
        }
        None => word,
    };
    let mut in_digits = false;
    for c in shown.chars() {
        if c.is_numeric() {
            if !in_digits {
                out.push('#');
            }
            in_digits = true;
        } else {
            in_digits = false;
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_lose_their_user_part() {
        assert_eq!(
            redact_uri("sip:+4930123456@example.org:5060;user=phone"),
            "sip:…@example.org:5060"
        );
        assert_eq!(redact_uri("sips:a@b@example.org"), "sips:…@example.org");
        assert_eq!(redact_uri("tel:+4930123456"), "tel:…");
        assert_eq!(redact_uri("sip:example.org"), "sip:example.org");
        assert_eq!(redact_uri("4930123456"), "…");
        assert_eq!(redact_uri(""), "…");
    }

    #[test]
    fn text_loses_digits_users_and_line_ends() {
        let out = redact_text("Error parsing <sip:alice.smith@192.0.2.1>\r\nTo: +49 30 123456");
        assert_eq!(out, "Error parsing …@#.#.#.#> To: +# # #");
        assert!(!out.contains("alice"));
    }

    #[test]
    fn text_is_bounded() {
        assert!(redact_text(&"abc ".repeat(10_000)).len() <= MAX_TEXT + 8);
        assert!(redact_text(&"x".repeat(10_000)).len() <= MAX_TEXT + 8);
    }
}
