// SPDX-License-Identifier: GPL-3.0-or-later
//! Payload bytes by position in the stream, with a bit for each that is there.

use super::super::{g711, Codec};
use super::SAMPLE_NS;

/// A ring of a power of two, at least 64 bytes. Positions may be any number; those a ring's length
/// apart share a place.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    present: Box<[u64]>,
    /// Arrival of the first sample of every 64.
    stamps: Box<[u64]>,
}

impl Ring {
    pub(super) fn new(least: usize) -> Ring {
        let size = least.next_power_of_two().max(64);
        Ring {
            bytes: vec![0; size].into_boxed_slice(),
            present: vec![0; size / 64].into_boxed_slice(),
            stamps: vec![0; size / 64].into_boxed_slice(),
        }
    }

    pub(super) fn len(&self) -> i64 {
        self.bytes.len() as i64
    }

    fn index(&self, at: i64) -> usize {
        // The length is a power of two, so this is the remainder for negative positions too.
        at as usize & (self.bytes.len() - 1)
    }

    /// The places of `n` positions from `at`: up to the ring's end, and from its beginning.
    fn places(&self, at: i64, n: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let start = self.index(at);
        let n = n.min(self.bytes.len());
        let first = n.min(self.bytes.len() - start);
        (start..start + first, 0..n - first)
    }

    /// Writes payload of `codec` into a ring of `own`.
    pub(super) fn write(&mut self, at: i64, payload: &[u8], codec: Codec, own: Codec) {
        let (a, b) = self.places(at, payload.len());
        let (first, second) = payload.split_at(a.len());
        for (range, part) in [(a, first), (b, second)] {
            if let Some(room) = self.bytes.get_mut(range) {
                room.copy_from_slice(part.get(..room.len()).unwrap_or(part));
                if codec != own {
                    turn(room, codec, own);
                }
            }
        }
        self.mark(at, payload.len(), true);
    }

    /// Turns all of the ring into another codec.
    pub(super) fn recode(&mut self, from: Codec, to: Codec) {
        turn(&mut self.bytes, from, to);
    }

    /// Decodes `out.len()` positions from `at`, whether they are there or not.
    pub(super) fn decode(&self, at: i64, codec: Codec, out: &mut [i16]) {
        let (a, b) = self.places(at, out.len());
        let (first, second) = out.split_at_mut(a.len());
        g711::decode(codec, self.bytes.get(a).unwrap_or(&[]), first);
        g711::decode(codec, self.bytes.get(b).unwrap_or(&[]), second);
    }

    /// Marks `n` positions as there or not.
    pub(super) fn mark(&mut self, at: i64, n: usize, there: bool) {
        let (mut at, end) = (at, at + n.min(self.bytes.len()) as i64);
        while at < end {
            let bit = self.index(at) % 64;
            let count = (64 - bit).min((end - at) as usize);
            let mask = (u64::MAX >> (64 - count)) << bit;
            let word = self.index(at) / 64;
            if let Some(w) = self.present.get_mut(word) {
                *w = if there { *w | mask } else { *w & !mask };
            }
            at += count as i64;
        }
    }

    /// Whether the position `at` is there, and for how many positions, at most `most`, that holds.
    pub(super) fn run(&self, at: i64, most: usize) -> (bool, usize) {
        let bit_at = |at: i64| {
            let i = self.index(at);
            (self.present.get(i / 64).copied().unwrap_or(0) >> (i % 64), 64 - i % 64)
        };
        let here = bit_at(at).0 & 1 == 1;
        let mut n = 0;
        while n < most {
            let (bits, left) = bit_at(at + n as i64);
            let same = if here { bits.trailing_ones() } else { bits.trailing_zeros() } as usize;
            n += same.min(left);
            if same < left {
                break;
            }
        }
        (here, n.min(most))
    }

    /// Whether all of `n` positions are there.
    pub(super) fn all(&self, at: i64, n: usize) -> bool {
        self.run(at, n) == (true, n)
    }

    /// Notes that the audio of `from..to` arrived at `at_ns`.
    pub(super) fn stamp(&mut self, from: i64, to: i64, at_ns: u64) {
        let mut word = from.div_euclid(64) * 64;
        while word < to {
            let behind = (to - word).unsigned_abs() * SAMPLE_NS;
            let index = self.index(word) / 64;
            if let Some(s) = self.stamps.get_mut(index) {
                *s = at_ns.saturating_sub(behind);
            }
            word += 64;
        }
    }

    /// Arrival of a sample that is there.
    pub(super) fn stamp_of(&self, at: i64) -> Option<u64> {
        if !self.all(at, 1) {
            return None;
        }
        let i = self.index(at);
        self.stamps.get(i / 64).map(|s| s + (i % 64) as u64 * SAMPLE_NS)
    }
}

fn turn(bytes: &mut [u8], from: Codec, to: Codec) {
    for b in bytes {
        *b = g711::encode_one(to, g711::decode_one(from, *b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words_and_the_end_of_the_ring() {
        let mut ring = Ring::new(256);
        for at in [-3i64, 0, 1, 60, 64, 250, 255, 1000] {
            for n in [1usize, 2, 63, 64, 65, 130, 200] {
                ring.write(at, &vec![7; n], Codec::Pcma, Codec::Pcma);
                assert_eq!(ring.run(at, 250), (true, n), "{at} {n}");
                assert_eq!(ring.run(at + n as i64, 20), (false, 20));
                assert!(ring.all(at, n) && !ring.all(at, n + 1) && !ring.all(at - 1, n));
                ring.mark(at, n, false);
                assert_eq!(ring.run(at, 250), (false, 250));
            }
        }
    }

    #[test]
    fn what_is_written_is_decoded_at_its_place() {
        let mut ring = Ring::new(128);
        let payload: Vec<u8> = (0..100).collect();
        for at in [-77i64, 0, 90, 127] {
            ring.write(at, &payload, Codec::Pcmu, Codec::Pcmu);
            let mut out = [0i16; 100];
            ring.decode(at, Codec::Pcmu, &mut out);
            let want: Vec<i16> =
                payload.iter().map(|b| g711::decode_one(Codec::Pcmu, *b)).collect();
            assert_eq!(out[..], want);
        }
    }

    #[test]
    fn a_stamp_is_the_arrival_less_what_is_behind_the_sample() {
        let mut ring = Ring::new(1024);
        ring.write(100, &[0; 160], Codec::Pcma, Codec::Pcma);
        ring.stamp(100, 260, 1_000_000_000);
        assert_eq!(ring.stamp_of(100), Some(1_000_000_000 - 160 * SAMPLE_NS));
        assert_eq!(ring.stamp_of(259), Some(1_000_000_000 - SAMPLE_NS));
        assert_eq!(ring.stamp_of(260), None);
    }
}
