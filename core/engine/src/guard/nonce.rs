// SPDX-License-Identifier: GPL-3.0-or-later
//! Nonces that prove by themselves that they are ours and when they were made; only those that were used are remembered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pjsip_sys::{hash, Hash};

/// Used nonces remembered. When there are more, all that are as old as the oldest are stale.
const USED_MAX: usize = 4096;
const BLOCK: usize = 64;
const PAYLOAD: usize = 12;
const MAC: usize = 12;

/// Time of issue (ms since the start) and a number, so that two of one millisecond differ.
type Id = (u64, u32);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ours and not too old.
    Good(Id),
    /// Ours, and too old or forgotten.
    Stale,
    /// Not ours.
    Forged,
}

pub(super) struct Nonces {
    secret: [u8; 32],
    start: Instant,
    life: Duration,
    number: u32,
    /// Highest count (nc) seen of each.
    used: BTreeMap<Id, u32>,
    /// What was issued up to this is stale, since its count may be forgotten.
    floor: Option<Id>,
}

/// HMAC (RFC 2104) with SHA-256, cut to the bytes that a nonce carries.
fn mac(secret: &[u8; 32], payload: &[u8]) -> Vec<u8> {
    let pad = |with: u8| {
        let mut key = [with; BLOCK];
        for (k, s) in key.iter_mut().zip(secret) {
            *k ^= s;
        }
        key.to_vec()
    };
    let mut inner = pad(0x36);
    inner.extend_from_slice(payload);
    let mut outer = pad(0x5c);
    outer.extend(hash(Hash::Sha256, &inner));
    let mut out = hash(Hash::Sha256, &outer);
    out.truncate(MAC);
    out
}

/// Whether they are equal, in a time that does not tell where they differ.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    (0..text.len())
        .step_by(2)
        .map(|i| text.get(i..i + 2).and_then(|b| u8::from_str_radix(b, 16).ok()))
        .collect()
}

impl Nonces {
    pub(super) fn new(secret: [u8; 32], life: Duration, start: Instant) -> Nonces {
        Nonces { secret, start, life, number: 0, used: BTreeMap::new(), floor: None }
    }

    pub(super) fn issue(&mut self, now: Instant) -> String {
        let ms = u64::try_from(now.saturating_duration_since(self.start).as_millis());
        self.number = self.number.wrapping_add(1);
        let mut bytes = Vec::with_capacity(PAYLOAD + MAC);
        bytes.extend(ms.unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(mac(&self.secret, &bytes));
        to_hex(&bytes)
    }

    pub(super) fn standing(&self, nonce: &[u8], now: Instant) -> Standing {
        let Some(bytes) = from_hex(nonce).filter(|b| b.len() == PAYLOAD + MAC) else {
            return Standing::Forged;
        };
        let (payload, given) = bytes.split_at(PAYLOAD);
        if !same(&mac(&self.secret, payload), given) {
            return Standing::Forged;
        }
        let (ms, number) = payload.split_at(8);
        let fold = |bytes: &[u8]| bytes.iter().fold(0u64, |all, b| all << 8 | u64::from(*b));
        let id = (fold(ms), u32::try_from(fold(number)).unwrap_or(u32::MAX));
        let age = now.saturating_duration_since(self.start + Duration::from_millis(id.0));
        if age > self.life || self.floor.is_some_and(|floor| id <= floor) {
            return Standing::Stale;
        }
        Standing::Good(id)
    }

    /// Takes note of a count whose digest was right. False when it was used before (RFC 7616 section 3.4: replay).
    pub(super) fn spend(&mut self, id: Id, count: u32, now: Instant) -> bool {
        if let Some(highest) = self.used.get_mut(&id) {
            let fresh = count > *highest;
            *highest = count.max(*highest);
            return fresh;
        }
        if self.used.len() >= USED_MAX {
            let age = now.saturating_duration_since(self.start).saturating_sub(self.life);
            let oldest = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            self.used = self.used.split_off(&(oldest, 0));
        }
        if self.used.len() >= USED_MAX {
            if let Some((id, _)) = self.used.pop_first() {
                self.floor = self.floor.max(Some(id));
            }
        }
        self.used.insert(id, count);
        count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonces(start: Instant) -> Nonces {
        Nonces::new([7; 32], Duration::from_secs(60), start)
    }

    #[test]
    fn ours_until_they_are_too_old() {
        let start = Instant::now();
        let mut ours = nonces(start);
        let nonce = ours.issue(start + Duration::from_secs(5));
        assert_ne!(nonce, ours.issue(start + Duration::from_secs(5)));
        let at = |s| ours.standing(nonce.as_bytes(), start + Duration::from_secs(s));
        assert!(matches!(at(65), Standing::Good(_)));
        assert_eq!(at(66), Standing::Stale);
        let mut changed = nonce.clone().into_bytes();
        changed[3] ^= 1;
        for forged in [&changed[..], b"", b"zz", &nonce.as_bytes()[..46], &[0xff; 48]] {
            assert_eq!(ours.standing(forged, start), Standing::Forged);
        }
        let theirs = Nonces::new([8; 32], Duration::from_secs(60), start);
        assert_eq!(theirs.standing(nonce.as_bytes(), start), Standing::Forged);
    }

    #[test]
    fn a_count_is_good_once_and_in_order() {
        let start = Instant::now();
        let mut ours = nonces(start);
        let nonce = ours.issue(start);
        let Standing::Good(id) = ours.standing(nonce.as_bytes(), start) else { panic!() };
        assert!(ours.spend(id, 1, start));
        assert!(!ours.spend(id, 1, start));
        assert!(ours.spend(id, 3, start));
        assert!(!ours.spend(id, 2, start));
    }

    #[test]
    fn what_is_forgotten_is_stale_and_never_good_again() {
        let start = Instant::now();
        let mut ours = nonces(start);
        let first = ours.issue(start);
        let Standing::Good(id) = ours.standing(first.as_bytes(), start) else { panic!() };
        assert!(ours.spend(id, 1, start));
        for _ in 0..USED_MAX {
            let nonce = ours.issue(start + Duration::from_secs(1));
            let Standing::Good(id) = ours.standing(nonce.as_bytes(), start) else { panic!() };
            assert!(ours.spend(id, 1, start));
        }
        assert!(ours.used.len() <= USED_MAX);
        assert_eq!(ours.standing(first.as_bytes(), start), Standing::Stale);
    }

    #[test]
    fn hmac_of_the_standard() {
        // RFC 4231 section 4.3, test case 2: the key is shorter than ours and padded with zeros all the same.
        let mut key = [0u8; 32];
        key[..4].copy_from_slice(b"Jefe");
        let out = to_hex(&mac(&key, b"what do ya want for nothing?"));
        assert_eq!(out, "5bdcc146bf60754e6a042426");
    }
}
