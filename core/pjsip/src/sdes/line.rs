// SPDX-License-Identifier: GPL-3.0-or-later
//! The value of an `a=crypto` line (RFC 4568 §9.1): `tag suite key-parameters [session-parameters]`.

use super::key::{MasterKey, Suite};

/// Longest line worth reading: two keys with all their parameters are less.
const LINE_MAX: usize = 512;
/// Master key identifiers are numbers; longer fields than 128 octets do not exist (RFC 4568 §6.1).
const MKI_MAX: u32 = 128;

/// Why a line cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// Not of the form RFC 4568 gives.
    Malformed,
    /// A suite we do not have.
    Suite,
    /// Base64 that is none, or decodes to another length than the suite's.
    Key,
    /// A lifetime of zero, or beyond 2^48 packets.
    Lifetime,
    /// Session parameters that take protection away, or that we do not do (RFC 4568 §6.3).
    Parameters,
    /// More than one key in a line.
    Keys,
}

impl LineError {
    /// What is wrong, for a log. Holds nothing of the line.
    pub fn why(self) -> &'static str {
        match self {
            LineError::Malformed => "a crypto line is malformed (RFC 4568)",
            LineError::Suite => "no crypto suite in common",
            LineError::Key => "a key in a crypto line has the wrong length or is no base64",
            LineError::Lifetime => "the lifetime of a key is out of range",
            LineError::Parameters => "the session parameters of a crypto line are refused",
            LineError::Keys => "several keys in one crypto line are not supported",
        }
    }
}

/// A master key identifier: a number in a field of fixed length at the end of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mki {
    /// Its value.
    pub value: u64,
    /// Octets of the field, 1 to 128.
    pub octets: u8,
}

/// A line that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crypto {
    /// Tells the lines of a description apart, and which one an answer takes.
    pub tag: u32,
    /// The key, and with it the suite.
    pub key: MasterKey,
    /// Key identifier.
    pub mki: Option<Mki>,
}

impl Crypto {
    /// Reads the value of an `a=crypto` attribute.
    ///
    /// # Errors
    /// [`LineError`]: RFC 4568 §7.1.2 has such lines passed over.
    pub fn parse(value: &str) -> Result<Crypto, LineError> {
        if value.len() > LINE_MAX || !value.is_ascii() {
            return Err(LineError::Malformed);
        }
        let mut words = value.split_ascii_whitespace();
        let tag =
            number(words.next().ok_or(LineError::Malformed)?, 9).ok_or(LineError::Malformed)?;
        let tag = u32::try_from(tag).map_err(|_| LineError::Malformed)?;
        let suite = words.next().ok_or(LineError::Malformed)?;
        let keys = words.next().ok_or(LineError::Malformed)?;
        let suite = Suite::from_name(suite).ok_or(LineError::Suite)?;
        let (key, mki) = key_parameters(suite, keys)?;
        words.try_for_each(session_parameter)?;
        Ok(Crypto { tag, key, mki })
    }
}

/// `inline:<key||salt>["|" lifetime]["|" MKI ":" length]`.
fn key_parameters(suite: Suite, text: &str) -> Result<(MasterKey, Option<Mki>), LineError> {
    if text.contains(';') {
        return Err(LineError::Keys);
    }
    let (method, info) = text.split_once(':').ok_or(LineError::Malformed)?;
    if !method.eq_ignore_ascii_case("inline") {
        return Err(LineError::Malformed);
    }
    let mut fields = info.split('|');
    let key = MasterKey::from_base64(suite, fields.next().unwrap_or("")).ok_or(LineError::Key)?;
    let (mut lifetime, mut mki) = (None, None);
    for field in fields {
        match field.split_once(':') {
            Some((value, octets)) if mki.is_none() => {
                mki = Some(key_identifier(value, octets).ok_or(LineError::Malformed)?);
            }
            None if lifetime.is_none() && mki.is_none() => lifetime = Some(packets(field)?),
            _ => return Err(LineError::Malformed),
        }
    }
    Ok((key, mki))
}

fn key_identifier(value: &str, octets: &str) -> Option<Mki> {
    let value = number(value, 19)?;
    let octets = u32::try_from(number(octets, 3)?).ok().filter(|n| (1..=MKI_MAX).contains(n))?;
    let fits = octets >= 8 || value >> (octets * 8) == 0;
    fits.then_some(Mki { value, octets: u8::try_from(octets).ok()? })
}

/// Packets that the key may protect: a number or a power of two. What it is does not matter to a receiver, whose peer counts.
fn packets(text: &str) -> Result<u64, LineError> {
    let count = match text.split_once('^') {
        Some((two, exponent)) if two.trim() == "2" => {
            let exponent = number(exponent, 2).ok_or(LineError::Malformed)?;
            1u64.checked_shl(u32::try_from(exponent).unwrap_or(u32::MAX))
        }
        Some(_) => return Err(LineError::Malformed),
        None => Some(number(text, 19).ok_or(LineError::Malformed)?),
    };
    count.filter(|n| (1..=1 << 48).contains(n)).ok_or(LineError::Lifetime)
}

/// RFC 4568 §6.3: parameters that are not known make the line unusable unless they begin with `-`.
fn session_parameter(text: &str) -> Result<(), LineError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let harmless = match name {
        _ if name.starts_with('-') => true,
        // The window is ours to choose; it is a hint.
        "WSH" => number(value, 5).is_some_and(|n| n >= 64),
        "KDR" => value == "0",
        _ => false,
    };
    harmless.then_some(()).ok_or(LineError::Parameters)
}

/// A decimal number of 1 to `digits` digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let fine = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fine.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

    fn parse(text: &str) -> Result<Crypto, LineError> {
        Crypto::parse(&text.replace("KEY", KEY))
    }

    /// Lines of RFC 4568 (§4.1, §6.1, §7), and of peers in the field.
    #[test]
    fn lines_of_the_rfc_and_of_the_field() {
        let mki = |value, octets| Some(Mki { value, octets });
        for (text, tag, found) in [
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^20|1:4", 1, mki(1, 4)),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1066:4", 1, mki(1066, 4)),
            ("1 AES_CM_128_HMAC_SHA1_32 inline:KEY|2^20", 1, None),
            ("2 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^31|1:1", 2, mki(1, 1)),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1048576", 1, None),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^48 WSH=128", 1, None),
            ("999999999 AES_CM_128_HMAC_SHA1_80 inline:KEY KDR=0 -X=1", 999_999_999, None),
            ("0 aes_cm_128_hmac_sha1_80  INLINE:KEY ", 0, None),
            (
                "1 AES_CM_128_HMAC_SHA1_80 inline:KEY|18446744073709551:128",
                1,
                mki(18_446_744_073_709_551, 128),
            ),
        ] {
            let line = parse(text).map(|c| (c.tag, c.mki));
            assert_eq!(line, Ok((tag, found)), "{text}");
        }
        let gcm = "3 AEAD_AES_128_GCM inline:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nw";
        for text in [gcm.to_owned(), format!("{gcm}=="), format!("{gcm}==|2^48|1:1")] {
            assert_eq!(
                Crypto::parse(&text).map(|c| c.key.suite()),
                Ok(Suite::AeadAes128Gcm),
                "{text}"
            );
        }
    }

    #[test]
    fn lines_that_cannot_be_used_say_why() {
        use LineError::{Key, Keys, Lifetime, Malformed, Parameters, Suite};
        let long = format!("1 AES_CM_128_HMAC_SHA1_80 inline:KEY {}", "-X ".repeat(200));
        for (text, why) in [
            ("", Malformed),
            ("1", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80", Malformed),
            ("x AES_CM_128_HMAC_SHA1_80 inline:KEY", Malformed),
            ("-1 AES_CM_128_HMAC_SHA1_80 inline:KEY", Malformed),
            ("4294967296 AES_CM_128_HMAC_SHA1_80 inline:KEY", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 KEY", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 uri:KEY", Malformed),
            ("1 F8_128_HMAC_SHA1_80 inline:KEY", Suite),
            ("1 NULL_HMAC_SHA1_80 inline:KEY", Suite),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:", Key),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEYA", Key),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|", Malformed),
            ("1 AEAD_AES_128_GCM inline:KEY", Key),
            ("1 AES_256_CM_HMAC_SHA1_80 inline:KEY", Key),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:!!!!", Key),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|0", Lifetime),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^49", Lifetime),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^99", Lifetime),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|3^20", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1:4|2^20", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1:4|1:4", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1:0", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|1:129", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|256:1", Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^20;inline:KEY|2^20", Keys),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY UNENCRYPTED_SRTP", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY UNENCRYPTED_SRTCP", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY UNAUTHENTICATED_SRTP", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY FEC_ORDER=FEC_SRTP", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY KDR=1", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY WSH=63", Parameters),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:KEY SOMETHING", Parameters),
            (&long, Malformed),
            ("1 AES_CM_128_HMAC_SHA1_80 inline:\u{e9}", Malformed),
        ] {
            assert_eq!(parse(text), Err(why), "{text}");
        }
    }

    /// Every line of a description that anybody may send: bytes changed, cut off, put in.
    #[test]
    fn mutations_never_panic() {
        let seed = format!("1 AES_CM_128_HMAC_SHA1_80 inline:{KEY}|2^20|1:4 KDR=0 WSH=64 -A=b");
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        let mut read = 0;
        for _ in 0..50_000 {
            let mut bytes = seed.clone().into_bytes();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = b"\0 |:;=^29A\x7f\xff"[next(12)],
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, b" |:;=^0"[next(7)]),
                }
            }
            read += usize::from(Crypto::parse(&String::from_utf8_lossy(&bytes)).is_ok());
        }
        assert!((100..49_000).contains(&read), "{read}");
    }
}
