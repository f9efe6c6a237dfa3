// SPDX-License-Identifier: GPL-3.0-or-later
//! The payload of telephone-event packets (RFC 4733 section 2.3), and the keys it stands for.
//!
//! What a caller types may be a PIN or a card number: [`Key`] prints without the key.

use std::fmt;

/// Bytes of the payload. What follows them in a packet is another event, which is not read.
pub const PAYLOAD: usize = 4;
/// Greatest duration one packet can tell, in timestamp units. A longer event has several segments.
pub const MAX_DURATION: u16 = 0xFFFF;
/// Level we send: -10 dBm0, what DTMF generators use.
const VOLUME: u8 = 10;

/// A key of a telephone: `0`-`9`, `*`, `#`, `A`-`D`, or `!` for the hook flash (events 0 to 16 of
/// RFC 4733 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(u8);

const NAMES: &[u8; 17] = b"0123456789*#ABCD!";

impl Key {
    /// The key of an event code; `None` for codes that are no key.
    pub fn from_event(code: u8) -> Option<Key> {
        (usize::from(code) < NAMES.len()).then_some(Key(code))
    }

    /// The key written as a letter; small letters too.
    pub fn from_char(c: char) -> Option<Key> {
        let c = u8::try_from(c).ok()?.to_ascii_uppercase();
        NAMES.iter().position(|n| *n == c).map(|code| Key(code as u8))
    }

    /// Event code.
    pub fn event(self) -> u8 {
        self.0
    }

    /// The key as a letter.
    pub fn as_char(self) -> char {
        NAMES.get(usize::from(self.0)).map_or('?', |c| char::from(*c))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// One event as a packet tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Event code; 0 to 16 are keys.
    pub code: u8,
    /// The event has ended.
    pub end: bool,
    /// Duration of this segment so far, in timestamp units.
    pub duration: u16,
}

impl Payload {
    /// Reads the first event of a payload, `None` when there is not even one.
    pub fn parse(data: &[u8]) -> Option<Payload> {
        let ([code, flags, high, low], _) = data.split_first_chunk::<PAYLOAD>()?;
        let duration = u16::from_be_bytes([*high, *low]);
        Some(Payload { code: *code, end: flags & 0x80 != 0, duration })
    }

    /// The payload's bytes.
    pub fn to_bytes(self) -> [u8; PAYLOAD] {
        let [high, low] = self.duration.to_be_bytes();
        [self.code, u8::from(self.end) << 7 | VOLUME, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_letters_are_one_to_one_and_print_nothing() {
        for code in 0..=255u8 {
            let key = Key::from_event(code);
            assert_eq!(key.is_some(), code <= 16);
            if let Some(key) = key {
                assert_eq!(Key::from_char(key.as_char()), Some(key));
                assert_eq!(format!("{key:?}"), "Key(…)");
            }
        }
        assert_eq!(Key::from_char('a'), Key::from_event(12));
        assert_eq!((Key::from_char('E'), Key::from_char('é')), (None, None));
    }

    #[test]
    fn what_is_written_is_read() {
        let p = Payload { code: 11, end: true, duration: 1600 };
        assert_eq!(p.to_bytes(), [11, 0x8A, 0x06, 0x40]);
        assert_eq!(Payload::parse(&p.to_bytes()), Some(p));
        assert_eq!(Payload::parse(&[1, 2, 3]), None);
    }
}
