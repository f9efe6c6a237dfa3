// SPDX-License-Identifier: GPL-3.0-or-later
//! Payload bytes by position in the stream, with a bit for each that is there and one that tells
//! G.722 from G.711. Both laws of G.711 are turned into one.

use super::super::g711::{self, Law};
use super::super::{Codec, Coding, UNIT_NS};
use crate::signal::prefetch::prefetch;

/// A ring of a power of two, at least 64 bytes. Positions may be any number; those a ring's length
/// apart share a place.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    present: Box<[u64]>,
    /// G.722 where set.
    wide: Box<[u64]>,
    /// The law of the other bytes.
    law: Law,
    /// Arrival of the first sample of every 64.
    stamps: Box<[u64]>,
}

impl Ring {
    pub(super) fn new(least: usize, law: Law) -> Ring {
        let size = least.next_power_of_two().max(64);
        Ring {
            bytes: vec![0; size].into_boxed_slice(),
            present: vec![0; size / 64].into_boxed_slice(),
            wide: vec![0; size / 64].into_boxed_slice(),
            law,
            stamps: vec![0; size / 64].into_boxed_slice(),
        }
    }

    pub(super) fn len(&self) -> i64 {
        self.bytes.len() as i64
    }

    /// Asks for what lies from `at` on: `n` positions within the ring.
    pub(super) fn prefetch(&self, at: i64, n: usize) {
        let (a, _) = self.places(at, n);
        let words = a.start / 64..a.end.div_ceil(64);
        prefetch(self.bytes.get(a).unwrap_or(&[]));
        prefetch(self.present.get(words.clone()).unwrap_or(&[]));
        prefetch(self.wide.get(words.clone()).unwrap_or(&[]));
        prefetch(self.stamps.get(words).unwrap_or(&[]));
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

    /// Writes payload of `codec`.
    pub(super) fn write(&mut self, at: i64, payload: &[u8], codec: Codec) {
        let law = self.law;
        let (a, b) = self.places(at, payload.len());
        let (first, second) = payload.split_at(a.len());
        for (range, part) in [(a, first), (b, second)] {
            if let Some(room) = self.bytes.get_mut(range) {
                room.copy_from_slice(part.get(..room.len()).unwrap_or(part));
                if let Some(from) = codec.law().filter(|from| *from != law) {
                    room.iter_mut().for_each(|b| *b = turned(*b, from, law));
                }
            }
        }
        self.set_bits(at, payload.len(), |ring| &mut ring.wide, codec.law().is_none());
        self.mark(at, payload.len(), true);
    }

    /// The law of G.711 to expect: what is there is turned into it.
    pub(super) fn set_law(&mut self, law: Law) {
        if law == self.law {
            return;
        }
        for (bytes, wide) in self.bytes.chunks_mut(64).zip(&self.wide) {
            for (_, b) in bytes.iter_mut().enumerate().filter(|(i, _)| wide >> i & 1 == 0) {
                *b = turned(*b, self.law, law);
            }
        }
        self.law = law;
    }

    /// Bytes of `n` positions from `at`, whether they are there or not: one or two pieces.
    pub(super) fn pieces(&self, at: i64, n: usize) -> [&[u8]; 2] {
        let (a, b) = self.places(at, n);
        [a, b].map(|range| self.bytes.get(range).unwrap_or(&[]))
    }

    /// Codec of the byte at a position that is there.
    pub(super) fn codec(&self, at: i64) -> Codec {
        let i = self.index(at);
        let wide = self.wide.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1);
        match (wide, self.law) {
            (true, _) => Codec::G722,
            (false, Law::A) => Codec::Pcma,
            (false, Law::Mu) => Codec::Pcmu,
        }
    }

    /// Marks `n` positions as there or not.
    pub(super) fn mark(&mut self, at: i64, n: usize, there: bool) {
        self.set_bits(at, n, |ring| &mut ring.present, there);
    }

    fn set_bits(
        &mut self,
        at: i64,
        n: usize,
        of: impl Fn(&mut Ring) -> &mut Box<[u64]>,
        set: bool,
    ) {
        let (mut at, end) = (at, at + n.min(self.bytes.len()) as i64);
        while at < end {
            let bit = self.index(at) % 64;
            let count = (64 - bit).min((end - at) as usize);
            let mask = (u64::MAX >> (64 - count)) << bit;
            let word = self.index(at) / 64;
            if let Some(w) = of(self).get_mut(word) {
                *w = if set { *w | mask } else { *w & !mask };
            }
            at += count as i64;
        }
    }

    /// Whether the position `at` is there, and for how many positions, at most `most`, that holds;
    /// of one codec, when they are there.
    pub(super) fn run(&self, at: i64, most: usize) -> (bool, usize) {
        let there = bit(&self.present, self.index(at));
        let n = self.alike(&self.present, at, most);
        (there, if there { self.alike(&self.wide, at, n) } else { n })
    }

    /// For how many positions, at most `most`, the bit stays as it is at `at`.
    fn alike(&self, bits: &[u64], at: i64, most: usize) -> usize {
        let set = bit(bits, self.index(at));
        let mut n = 0;
        while n < most {
            let i = self.index(at + n as i64);
            let word = bits.get(i / 64).copied().unwrap_or(0) >> (i % 64);
            let left = 64 - i % 64;
            let same = if set { word.trailing_ones() } else { word.trailing_zeros() } as usize;
            n += same.min(left);
            if same < left {
                break;
            }
        }
        n.min(most)
    }

    /// Whether all of `n` positions are there.
    pub(super) fn all(&self, at: i64, n: usize) -> bool {
        bit(&self.present, self.index(at)) && self.alike(&self.present, at, n) == n
    }

    /// Notes that the audio of `from..to` arrived at `at_ns`.
    pub(super) fn stamp(&mut self, from: i64, to: i64, at_ns: u64) {
        let mut word = from.div_euclid(64) * 64;
        while word < to {
            let behind = (to - word).unsigned_abs() * UNIT_NS;
            let index = self.index(word) / 64;
            if let Some(s) = self.stamps.get_mut(index) {
                *s = at_ns.saturating_sub(behind);
            }
            word += 64;
        }
    }

    /// Arrival of a sample that is or was there.
    pub(super) fn stamp_of(&self, at: i64) -> u64 {
        let i = self.index(at);
        self.stamps.get(i / 64).map_or(0, |s| s + (i % 64) as u64 * UNIT_NS)
    }
}

fn bit(bits: &[u64], index: usize) -> bool {
    bits.get(index / 64).is_some_and(|w| w >> (index % 64) & 1 == 1)
}

fn turned(byte: u8, from: Law, to: Law) -> u8 {
    g711::encode_one(to, g711::decode_one(from, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words_and_the_end_of_the_ring() {
        let mut ring = Ring::new(256, Law::A);
        for at in [-3i64, 0, 1, 60, 64, 250, 255, 1000] {
            for n in [1usize, 2, 63, 64, 65, 130, 200] {
                ring.write(at, &vec![7; n], Codec::Pcma);
                assert_eq!(ring.run(at, 250), (true, n), "{at} {n}");
                assert_eq!(ring.run(at + n as i64, 20), (false, 20));
                assert!(ring.all(at, n) && !ring.all(at, n + 1) && !ring.all(at - 1, n));
                ring.mark(at, n, false);
                assert_eq!(ring.run(at, 250), (false, 250));
            }
        }
    }

    #[test]
    fn what_is_written_lies_at_its_place() {
        let mut ring = Ring::new(128, Law::Mu);
        let payload: Vec<u8> = (0..100).collect();
        for at in [-77i64, 0, 90, 127] {
            ring.write(at, &payload, Codec::Pcmu);
            assert_eq!(ring.pieces(at, 100).concat(), payload);
        }
    }

    #[test]
    fn codecs_lie_side_by_side_and_the_laws_become_one() {
        let mut ring = Ring::new(256, Law::A);
        ring.write(200, &[1; 50], Codec::Pcma);
        ring.write(250, &[2; 30], Codec::G722);
        ring.write(280, &[3; 20], Codec::Pcmu);
        assert!(ring.all(200, 100));
        assert_eq!((ring.run(200, 100), ring.codec(200)), ((true, 50), Codec::Pcma));
        assert_eq!((ring.run(250, 100), ring.codec(250)), ((true, 30), Codec::G722));
        assert_eq!((ring.run(280, 100), ring.codec(280)), ((true, 20), Codec::Pcma));
        let turned_3 = turned(3, Law::Mu, Law::A);
        assert_eq!(ring.pieces(280, 20).concat(), [turned_3; 20]);
        ring.set_law(Law::Mu);
        let turned_1 = turned(1, Law::A, Law::Mu);
        assert_eq!(ring.pieces(200, 50).concat(), [turned_1; 50]);
        assert_eq!(ring.pieces(250, 30).concat(), [2; 30]);
        assert_eq!(ring.codec(280), Codec::Pcmu);
    }

    #[test]
    fn a_stamp_is_the_arrival_less_what_is_behind_the_sample() {
        let mut ring = Ring::new(1024, Law::A);
        ring.write(100, &[0; 160], Codec::Pcma);
        ring.stamp(100, 260, 1_000_000_000);
        assert_eq!(ring.stamp_of(100), 1_000_000_000 - 160 * UNIT_NS);
        assert_eq!(ring.stamp_of(259), 1_000_000_000 - UNIT_NS);
    }
}
