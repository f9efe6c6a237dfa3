// SPDX-License-Identifier: GPL-3.0-or-later
//! Descriptions that are longer than PJSIP has room for (`PJMEDIA_MAX_SDP_FMT`, `PJMEDIA_MAX_SDP_ATTR` in `config_site.h`): it
//! would take the first formats and attributes and drop the rest in silence. Of an audio stream that is too long only what we
//! could use is kept, before PJSIP reads it, so that a codec in place 40 is found.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// Formats of one `m=` line that PJSIP keeps.
const FORMATS: usize = 12;
/// `a=` lines of one stream, or of the session, that PJSIP keeps.
const ATTRIBUTES: usize = 28;
/// `a=crypto` lines kept of a stream that is too long.
const CRYPTO: usize = 10;
/// Attributes of audio that mean something to us, beside those of formats.
const KNOWN: [&str; 9] = [
    "ptime", "maxptime", "sendrecv", "sendonly", "recvonly", "inactive", "rtcp", "rtcp-mux",
    "crypto",
];
const ENCODINGS: [&str; 5] = ["PCMA", "PCMU", "G722", "telephone-event", "CN"];
/// Payload types that need no `a=rtpmap` (RFC 3551): PCMU, PCMA, G722, CN.
const STATIC: [&str; 4] = ["0", "8", "9", "13"];

/// Name and value of an `a=` line.
fn attribute(line: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("a=")?.trim_end();
    Some(text.split_once(':').unwrap_or((text, "")))
}

/// Of `a=rtpmap` and `a=fmtp`: the format, and what is said of it.
fn of_format(value: &str) -> (&str, &str) {
    value.trim_start().split_once([' ', '\t']).unwrap_or((value, ""))
}

fn is_audio(line: &[u8]) -> bool {
    line.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"m=audio "))
}

/// The formats that we could use, in the stream's order; the first one when there is none, for an `m=` line needs one.
fn usable<'a>(formats: &[&'a str], attributes: &[&[u8]]) -> Vec<&'a str> {
    let encoding = |format: &str| {
        attributes.iter().filter_map(|line| attribute(line)).find_map(|(name, value)| {
            let (of, map) = of_format(value);
            (name == "rtpmap" && of == format)
                .then(|| map.trim_start().split('/').next().unwrap_or(""))
        })
    };
    let mut kept: Vec<&str> = Vec::new();
    for format in formats {
        let good = encoding(format).map_or(STATIC.contains(format), |name| {
            ENCODINGS.iter().any(|known| known.eq_ignore_ascii_case(name))
        });
        if good && kept.len() < FORMATS && !kept.contains(format) {
            kept.push(format);
        }
    }
    if kept.is_empty() {
        kept.extend(formats.first());
    }
    kept
}

/// Whether an `a=` line stays in a stream of these formats. Counts keys.
fn stays(line: &[u8], formats: &[&str], crypto: &mut usize) -> bool {
    let Some((name, value)) = attribute(line) else { return false };
    match name {
        "rtpmap" | "fmtp" => formats.contains(&of_format(value).0),
        "crypto" => {
            *crypto += 1;
            *crypto <= CRYPTO
        }
        _ => KNOWN.contains(&name),
    }
}

fn slim_audio(lines: &[&[u8]], out: &mut Vec<u8>) {
    let Some((head, rest)) = lines.split_first() else { return };
    let text = std::str::from_utf8(head).unwrap_or("");
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let attributes: Vec<&[u8]> =
        rest.iter().filter(|line| line.starts_with(b"a=")).copied().collect();
    let formats = words.get(3..).unwrap_or(&[]);
    if formats.len() <= FORMATS && attributes.len() <= ATTRIBUTES {
        lines.iter().for_each(|line| out.extend_from_slice(line));
        return;
    }
    let kept = usable(formats, &attributes);
    let end = head.get(head.trim_ascii_end().len()..).unwrap_or(b"\r\n");
    out.extend_from_slice(words.get(..3).unwrap_or(&[]).join(" ").as_bytes());
    for format in &kept {
        out.push(b' ');
        out.extend_from_slice(format.as_bytes());
    }
    out.extend_from_slice(end);
    let (mut crypto, mut count) = (0, 0);
    for line in rest {
        if line.starts_with(b"a=") {
            if count == ATTRIBUTES || !stays(line, &kept, &mut crypto) {
                continue;
            }
            count += 1;
        }
        out.extend_from_slice(line);
    }
}

/// The same description with its long audio streams cut; `None` when nothing is too long.
fn slimmed(sdp: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = sdp.split_inclusive(|byte| *byte == b'\n').collect();
    let is_media = |line: &&[u8]| line.starts_with(b"m=");
    let first = lines.iter().position(is_media).unwrap_or(lines.len());
    let (session, mut media) = lines.split_at(first);
    let mut out = Vec::with_capacity(sdp.len());
    let many = session.iter().filter(|line| line.starts_with(b"a=")).count() > ATTRIBUTES;
    for line in session {
        let keeps = |line: &[u8]| attribute(line).is_some_and(|(name, _)| KNOWN.contains(&name));
        if !many || !line.starts_with(b"a=") || keeps(line) {
            out.extend_from_slice(line);
        }
    }
    while let Some((head, rest)) = media.split_first() {
        let end = rest.iter().position(is_media).map_or(media.len(), |at| at + 1);
        let (stream, after) = media.split_at(end);
        if is_audio(head) {
            slim_audio(stream, &mut out);
        } else {
            stream.iter().for_each(|line| out.extend_from_slice(line));
        }
        media = after;
    }
    (out.len() < sdp.len()).then_some(out)
}

/// The function pointer that the shim gets: cuts a description in its place and gives the new length.
///
/// # Safety
/// `text` is `len` bytes that nobody else uses during the call.
pub(crate) unsafe extern "C" fn slim(text: *mut u8, len: usize) -> usize {
    if text.is_null() || len == 0 {
        return len;
    }
    // SAFETY: as this function demands of its caller; the shim's only call is in guard.c and hands over a message's body.
    let bytes = unsafe { std::slice::from_raw_parts_mut(text, len) };
    let shorter = catch_unwind(AssertUnwindSafe(|| slimmed(bytes))).unwrap_or(None);
    match shorter {
        Some(shorter) if shorter.len() <= len => {
            if let Some(place) = bytes.get_mut(..shorter.len()) {
                place.copy_from_slice(&shorter);
            }
            shorter.len()
        }
        _ => len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n";

    fn long(formats: &str, attributes: &str) -> String {
        format!("{HEAD}m=audio 4000 RTP/AVP {formats}\r\n{attributes}m=video 0 RTP/AVP 31\r\n")
    }

    fn cut(sdp: &str) -> String {
        String::from_utf8(slimmed(sdp.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        for sdp in ["", "\n", "m=", "m=audio ", "a=x\r\n", HEAD, &long("0 8 101", "a=ptime:20\r\n")]
        {
            assert_eq!(slimmed(sdp.as_bytes()), None, "{sdp:?}");
        }
        assert_eq!(slimmed(&[0xff, b'\n', b'm', b'=', 0xff]), None);
    }

    #[test]
    fn a_codec_in_place_40_is_kept_with_its_attributes() {
        let unknown: Vec<String> = (20..59).map(|pt| pt.to_string()).collect();
        let formats = format!("{} 110 8 111", unknown.join(" "));
        let mut attributes = String::from("c=IN IP4 192.0.2.2\r\n");
        for pt in &unknown {
            attributes += &format!("a=rtpmap:{pt} odd/8000\r\na=fmtp:{pt} x=y\r\n");
        }
        attributes += "a=rtpmap:110 pcma/8000\r\na=rtpmap:8 PCMA/8000\r\n\
            a=rtpmap:111 telephone-event/8000\r\na=fmtp:111 0-15\r\na=ptime:30\r\na=candidate:1\r\n\
            a=sendonly\r\n";
        assert_eq!(
            cut(&long(&formats, &attributes)),
            long(
                "110 8 111",
                "c=IN IP4 192.0.2.2\r\na=rtpmap:110 pcma/8000\r\na=rtpmap:8 PCMA/8000\r\n\
                 a=rtpmap:111 telephone-event/8000\r\na=fmtp:111 0-15\r\na=ptime:30\r\na=sendonly\r\n"
            )
        );
    }

    #[test]
    fn many_attributes_lose_those_that_mean_nothing_to_us() {
        let candidates = "a=candidate:1 1 UDP 1 192.0.2.1 4000 typ host\r\n".repeat(45);
        let sdp = long("0", &format!("{candidates}a=sendonly\r\n"));
        assert_eq!(cut(&sdp), long("0", "a=sendonly\r\n"));
        let keys = "a=crypto:1 x inline:y\r\n";
        assert_eq!(cut(&long("0", &keys.repeat(50))), long("0", &keys.repeat(CRYPTO)));
        let session =
            format!("{HEAD}{}a=inactive\r\nm=audio 4000 RTP/AVP 0\r\n", "a=x:1\r\n".repeat(41));
        assert_eq!(cut(&session), format!("{HEAD}a=inactive\r\nm=audio 4000 RTP/AVP 0\r\n"));
    }

    #[test]
    fn formats_without_any_of_ours_keep_one_and_repetitions_go() {
        let odd = (20..60).map(|pt| pt.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(cut(&long(&odd, "")), long("20", ""));
        assert_eq!(cut(&long("8 ".repeat(40).trim_end(), "")), long("8", ""));
    }

    #[test]
    fn in_place_the_rest_of_the_buffer_is_left() {
        let sdp = long("8 ".repeat(40).trim_end(), "");
        let mut buffer = sdp.clone().into_bytes();
        // SAFETY: the buffer is ours and as long as said.
        let len = unsafe { slim(buffer.as_mut_ptr(), buffer.len()) };
        assert_eq!(&buffer[..len], long("8", "").as_bytes());
        assert_eq!(&buffer[len..], &sdp.as_bytes()[len..]);
    }
}
