// SPDX-License-Identifier: GPL-3.0-or-later
//! Packet index and replay window of one source (RFC 3711 §3.3.1, §3.3.2).

/// Packets behind the newest that are told apart: RFC 3711 asks for 64 at least.
const WINDOW: u64 = 128;

/// Which indices were here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    newest: Option<u64>,
    /// Bit n: the packet n before the newest was here.
    seen: u128,
}

impl Window {
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Whether a packet may be new.
    pub(super) fn admits(&self, index: u64) -> bool {
        match self.newest {
            Some(newest) if index <= newest => {
                let back = newest - index;
                back < WINDOW && self.seen >> back & 1 == 0
            }
            _ => true,
        }
    }

    /// Takes note of a packet that is authentic.
    pub(super) fn note(&mut self, index: u64) {
        match self.newest {
            Some(newest) if index <= newest => {
                let back = newest - index;
                if back < WINDOW {
                    self.seen |= 1 << back;
                }
            }
            newest => {
                let ahead = newest.map_or(WINDOW, |n| index - n);
                self.seen = if ahead < WINDOW { self.seen << ahead | 1 } else { 1 };
                self.newest = Some(index);
            }
        }
    }
}

/// The index that a sequence number most probably means, given the newest index (RFC 3711 appendix A). `None` when that
/// would be before the first packet of all.
pub(super) fn estimate(newest: u64, sequence: u16) -> Option<u64> {
    let (roc, last) = (newest >> 16, newest as u16);
    let roc = if last < 0x8000 {
        if i32::from(sequence) - i32::from(last) > 0x8000 {
            roc.checked_sub(1)?
        } else {
            roc
        }
    } else if i32::from(last) - 0x8000 > i32::from(sequence) {
        roc + 1
    } else {
        roc
    };
    Some(roc << 16 | u64::from(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roll_over_counter_follows_the_sequence_number_both_ways() {
        for (newest, sequence, index) in [
            (0x0_0005, 6, Some(0x0_0006)),
            (0x0_0005, 0xFFFF, None),
            (0x1_0005, 0xFFFF, Some(0x0_FFFF)),
            (0x0_FFFF, 0, Some(0x1_0000)),
            (0x0_FFFF, 0x7FFE, Some(0x1_7FFE)),
            (0x0_FFFF, 0x8000, Some(0x0_8000)),
            (0x3_8000, 0, Some(0x3_0000)),
            (0x3_7FFF, 0xFFFF, Some(0x3_FFFF)),
        ] {
            assert_eq!(estimate(newest, sequence), index, "{newest:x} {sequence:x}");
        }
    }

    #[test]
    fn the_window_takes_each_packet_once_and_none_that_is_too_old() {
        let mut w = Window::default();
        for index in [1000u64, 1002, 1001, 1200, 1073] {
            assert!(w.admits(index), "{index}");
            w.note(index);
            assert!(!w.admits(index), "{index}");
        }
        assert!(w.admits(1074) && !w.admits(1072) && !w.admits(0));
        assert!(w.admits(1201) && w.admits(1 << 47));
        w.note(u64::MAX >> 16);
        assert!(!w.admits(1200));
    }
}
