// SPDX-License-Identifier: GPL-3.0-or-later
//! Which lines of two descriptions become the keys of a call (RFC 4568 §7.1): the shim asks in the middle of negotiation.

use std::ffi::c_int;
use std::panic::catch_unwind;

use super::line::{Crypto, LineError};
use super::SrtpKeys;
use crate::ffi;

/// Lines of one description that are looked at; more is no honest peer's.
const LINES_MAX: usize = 32;

/// Ours, and the index of each in its list.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    theirs: usize,
    ours: usize,
}

/// To answer an offer: its first line (they come in the peer's order of preference) that can be used and for whose suite we
/// have a key.
fn to_answer(theirs: &[&str], ours: &[&str]) -> Result<Pair, &'static str> {
    let mut why = "no crypto line in the offer";
    for (at, line) in theirs.iter().enumerate() {
        match Crypto::parse(line) {
            Ok(crypto) => {
                let suite = crypto.key.suite();
                let has = |l: &&str| Crypto::parse(l).is_ok_and(|c| c.key.suite() == suite);
                if let Some(ours) = ours.iter().position(has) {
                    return Ok(Pair { theirs: at, ours });
                }
                why = "no crypto suite in common";
            }
            Err(error) => why = error.why(),
        }
    }
    Err(why)
}

/// From an offer and its answer, of which one is ours: the answer has one line, with tag and suite of one of the offer's.
fn agreed(theirs: &[&str], ours: &[&str]) -> Result<Pair, &'static str> {
    if theirs.is_empty() {
        return Err("no crypto line in the answer");
    }
    if theirs.len() > 1 && ours.len() > 1 {
        return Err("several crypto lines in the answer");
    }
    let mut why = "the answer's crypto line has the tag of none that was offered";
    for (at, line) in theirs.iter().enumerate() {
        match Crypto::parse(line) {
            Ok(their) => {
                let same = |l: &&str| Crypto::parse(l).is_ok_and(|our| our.tag == their.tag);
                let Some(our) = ours.iter().position(same) else { continue };
                let suite =
                    ours.get(our).and_then(|l| Crypto::parse(l).ok()).map(|c| c.key.suite());
                if suite == Some(their.key.suite()) {
                    return Ok(Pair { theirs: at, ours: our });
                }
                why = "the answer's crypto line has another suite than the offer's of its tag";
            }
            Err(error) => why = error.why(),
        }
    }
    Err(why)
}

impl SrtpKeys {
    /// From the two lines that [`agreed`] found.
    pub(crate) fn from_lines(ours: &str, theirs: &str) -> Result<SrtpKeys, LineError> {
        let (ours, theirs) = (Crypto::parse(ours)?, Crypto::parse(theirs)?);
        Ok(SrtpKeys { local: ours.key, remote: theirs.key, remote_mki: theirs.mki })
    }
}

/// The function pointer that the shim gets. 0 and the indices, or 1 and why not (a literal).
///
/// # Safety
/// `theirs` and `ours` have as many texts as counted, alive for the call; the out parameters can be written.
pub(crate) unsafe extern "C" fn sdes(
    answering: c_int,
    theirs: *const ffi::Str,
    their_count: u32,
    ours: *const ffi::Str,
    our_count: u32,
    picked: *mut ffi::Picked,
) -> c_int {
    // SAFETY: as this function demands of its caller; the shim's only call is in srtp.c and hands over arrays of its stack.
    let (theirs, ours, picked) =
        unsafe { (lines(theirs, their_count), lines(ours, our_count), &mut *picked) };
    let pair = catch_unwind(|| {
        if answering == 0 {
            agreed(&theirs, &ours)
        } else {
            to_answer(&theirs, &ours)
        }
    });
    match pair.unwrap_or(Err("a defect of ours")) {
        Ok(pair) => {
            picked.theirs = u32::try_from(pair.theirs).unwrap_or(0);
            picked.ours = u32::try_from(pair.ours).unwrap_or(0);
            0
        }
        Err(why) => {
            picked.why = ffi::Str::new(why);
            1
        }
    }
}

/// # Safety
/// `at` points to `count` texts that live as long as the result.
unsafe fn lines<'a>(at: *const ffi::Str, count: u32) -> Vec<&'a str> {
    let count = (count as usize).min(LINES_MAX);
    if at.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: as this function demands.
    let texts = unsafe { std::slice::from_raw_parts(at, count) };
    let bytes = texts.iter().map(|text| {
        if text.ptr.is_null() || text.len == 0 {
            return &[][..];
        }
        // SAFETY: as this function demands.
        unsafe { std::slice::from_raw_parts(text.ptr, text.len) }
    });
    // What is not UTF-8 is no crypto line: it stays in the list, since places count.
    bytes.map(|b| std::str::from_utf8(b).unwrap_or("")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::key::{MasterKey, Suite};
    use super::*;

    fn line(tag: u32, suite: Suite) -> String {
        MasterKey::from_random(suite, &[tag as u8; 46]).line(tag).to_string()
    }

    const CM: Suite = Suite::AesCm128HmacSha1_80;
    const GCM: Suite = Suite::AeadAes256Gcm;

    #[test]
    fn the_offers_first_usable_line_wins() {
        let (cm, gcm) = (line(1, CM), line(2, GCM));
        let (our_gcm, our_cm) = (line(1, GCM), line(2, CM));
        let ours = [our_gcm.as_str(), our_cm.as_str()];
        let got = |theirs: &[&str]| to_answer(theirs, &ours).map(|p| (p.theirs, p.ours));
        assert_eq!(got(&[&cm, &gcm]), Ok((0, 1)));
        assert_eq!(got(&[&gcm, &cm]), Ok((0, 0)));
        assert_eq!(got(&["1 F8_128_HMAC_SHA1_80 inline:x", "junk", &cm]), Ok((2, 1)));
        assert_eq!(got(&[]), Err("no crypto line in the offer"));
        assert_eq!(got(&[&line(1, Suite::AesCm128HmacSha1_32)]), Err("no crypto suite in common"));
        assert_eq!(got(&["1 AES_CM_128_HMAC_SHA1_80 inline:x"]), Err(LineError::Key.why()));
    }

    #[test]
    fn an_answer_takes_one_line_of_the_offer() {
        let (cm, gcm) = (line(1, CM), line(2, GCM));
        let offer = [cm.as_str(), gcm.as_str()];
        let got = |theirs: &[&str]| agreed(theirs, &offer).map(|p| (p.theirs, p.ours));
        assert_eq!(got(&[&line(2, GCM)]), Ok((0, 1)));
        assert_eq!(got(&[&line(1, CM)]), Ok((0, 0)));
        assert!(got(&[&line(1, GCM)]).is_err(), "another suite under the tag");
        assert!(got(&[&line(3, CM)]).is_err(), "a tag nobody offered");
        assert!(got(&[&cm, &gcm]).is_err(), "two lines in the answer");
        assert_eq!(got(&[]), Err("no crypto line in the answer"));
        // The other way round, where the answer is ours.
        let theirs = agreed(&offer, &[&line(2, GCM)]).map(|p| (p.theirs, p.ours));
        assert_eq!(theirs, Ok((1, 0)));
    }

    #[test]
    fn keys_are_read_from_the_right_sides() {
        let keys = SrtpKeys::from_lines(&line(1, CM), &line(9, CM));
        let Ok(keys) = keys else { unreachable!("{keys:?}") };
        assert_eq!((keys.local.key()[0], keys.remote.key()[0]), (1, 9));
    }
}
