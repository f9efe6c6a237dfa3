// SPDX-License-Identifier: GPL-3.0-or-later
//! Crypto suites and the master keys that go with them.

use std::fmt;

use base64ct::{Base64Unpadded, Encoding};
use zeroize::Zeroizing;

/// Longest master key with its salt: AES-256 and 112 bits.
const KEY_MAX: usize = 46;

/// A crypto suite of SRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-128 in counter mode, HMAC-SHA1 with a tag of 80 bits (RFC 4568 §6.2.1): the one that all have.
    AesCm128HmacSha1_80,
    /// The same with a tag of 32 bits on RTP (RFC 4568 §6.2.2).
    AesCm128HmacSha1_32,
    /// AES-256 in counter mode, HMAC-SHA1 with a tag of 80 bits (RFC 6188 §4).
    AesCm256HmacSha1_80,
    /// The same with a tag of 32 bits on RTP (RFC 6188 §4).
    AesCm256HmacSha1_32,
    /// AES-128 in Galois/counter mode (RFC 7714 §14.2).
    AeadAes128Gcm,
    /// AES-256 in Galois/counter mode (RFC 7714 §14.2).
    AeadAes256Gcm,
}

impl Suite {
    /// All suites, in the order we offer them: what every peer has comes first.
    pub const ALL: [Suite; 6] = [
        Suite::AesCm128HmacSha1_80,
        Suite::AeadAes256Gcm,
        Suite::AeadAes128Gcm,
        Suite::AesCm256HmacSha1_80,
        Suite::AesCm128HmacSha1_32,
        Suite::AesCm256HmacSha1_32,
    ];

    /// Name as in `a=crypto`.
    pub fn name(self) -> &'static str {
        match self {
            Suite::AesCm128HmacSha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Suite::AesCm128HmacSha1_32 => "AES_CM_128_HMAC_SHA1_32",
            Suite::AesCm256HmacSha1_80 => "AES_256_CM_HMAC_SHA1_80",
            Suite::AesCm256HmacSha1_32 => "AES_256_CM_HMAC_SHA1_32",
            Suite::AeadAes128Gcm => "AEAD_AES_128_GCM",
            Suite::AeadAes256Gcm => "AEAD_AES_256_GCM",
        }
    }

    /// The suite of a name in `a=crypto`. Names are taken in either case, as SDP from the field has both.
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|s| s.name().eq_ignore_ascii_case(name))
    }

    /// Octets of the master key.
    pub fn key_len(self) -> usize {
        match self {
            Suite::AesCm128HmacSha1_80 | Suite::AesCm128HmacSha1_32 | Suite::AeadAes128Gcm => 16,
            _ => 32,
        }
    }

    /// Octets of the master salt.
    pub fn salt_len(self) -> usize {
        match self {
            Suite::AeadAes128Gcm | Suite::AeadAes256Gcm => 12,
            _ => 14,
        }
    }
}

/// A master key and its salt. Wiped when dropped; prints without its contents.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    suite: Suite,
    octets: Zeroizing<[u8; KEY_MAX]>,
}

impl MasterKey {
    /// From random octets, of which the suite takes as many as it needs.
    pub fn from_random(suite: Suite, random: &[u8; KEY_MAX]) -> MasterKey {
        let mut octets = Zeroizing::new([0; KEY_MAX]);
        let len = suite.key_len() + suite.salt_len();
        for (octet, fresh) in octets.iter_mut().zip(random).take(len) {
            *octet = *fresh;
        }
        MasterKey { suite, octets }
    }

    /// From key and salt, one behind the other; `None` when there are not as many octets as the suite needs.
    pub fn from_octets(suite: Suite, key_and_salt: &[u8]) -> Option<MasterKey> {
        if key_and_salt.len() != suite.key_len() + suite.salt_len() {
            return None;
        }
        let mut octets = Zeroizing::new([0; KEY_MAX]);
        octets.get_mut(..key_and_salt.len())?.copy_from_slice(key_and_salt);
        Some(MasterKey { suite, octets })
    }

    /// From base64, with or without the `=` at its end, which peers leave out.
    pub(super) fn from_base64(suite: Suite, text: &str) -> Option<MasterKey> {
        let mut octets = Zeroizing::new([0; KEY_MAX]);
        let len = Base64Unpadded::decode(text.trim_end_matches('='), &mut octets[..]).ok()?.len();
        (len == suite.key_len() + suite.salt_len()).then_some(MasterKey { suite, octets })
    }

    /// Our line for SDP: the value of `a=crypto`, with default lifetime and without key identifier.
    pub fn line(&self, tag: u32) -> Zeroizing<String> {
        let mut buf = Zeroizing::new([0; 64]);
        let len = self.suite.key_len() + self.suite.salt_len();
        // It always fits: 46 octets are 62 characters.
        let text = Base64Unpadded::encode(self.octets.get(..len).unwrap_or(&[]), &mut buf[..]);
        let text = text.unwrap_or("");
        let padding = &"=="[..(3 - len % 3) % 3];
        let mut line = Zeroizing::new(String::with_capacity(112));
        for part in [tag.to_string().as_str(), " ", self.suite.name(), " inline:", text, padding] {
            line.push_str(part);
        }
        line
    }

    /// The suite it is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The master key.
    pub fn key(&self) -> &[u8] {
        self.octets.get(..self.suite.key_len()).unwrap_or(&[])
    }

    /// The master salt.
    pub fn salt(&self) -> &[u8] {
        let from = self.suite.key_len();
        self.octets.get(from..from + self.suite.salt_len()).unwrap_or(&[])
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ours_have_the_length_that_the_suite_asks_for() {
        for suite in Suite::ALL {
            let key = MasterKey::from_random(suite, &[0xA5; KEY_MAX]);
            assert_eq!((key.key().len(), key.salt().len()), (suite.key_len(), suite.salt_len()));
            let line = key.line(7);
            let text = line.rsplit(':').next().unwrap_or("");
            assert_eq!(text.len() % 4, 0, "{}", suite.name());
            assert_eq!(MasterKey::from_base64(suite, text), Some(key));
            assert_eq!(Suite::from_name(suite.name()), Some(suite));
        }
    }

    /// Where a number of octets other than the suite's is taken, a packet's key would be part zeros.
    #[test]
    fn other_lengths_and_other_characters_are_no_key() {
        let suite = Suite::AesCm128HmacSha1_80;
        let good = "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj";
        assert!(MasterKey::from_base64(suite, good).is_some());
        for bad in [
            "",
            "=",
            "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSo=",
            "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSojAA==",
            "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJS_-",
            "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSo ",
            "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJ=oj",
            "\u{e9}",
            &"A".repeat(62),
            &"A".repeat(4000),
        ] {
            assert_eq!(MasterKey::from_base64(suite, bad), None, "{bad:?}");
        }
        assert_eq!(MasterKey::from_octets(suite, &[1; 29]), None);
        assert!(MasterKey::from_octets(suite, &[1; 30]).is_some());
    }

    #[test]
    fn a_key_does_not_print_itself() {
        let text = format!("{:?}", MasterKey::from_random(Suite::AeadAes256Gcm, &[0xA5; KEY_MAX]));
        assert_eq!(text, "MasterKey { suite: AeadAes256Gcm, .. }");
    }
}
