// SPDX-License-Identifier: GPL-3.0-or-later
//! From a product in float32 to a sample.

/// Added and taken away it leaves no fraction: rounds half to even, for magnitudes below 2^22, in
/// two additions that every processor has as vectors.
const WHOLE: f32 = 12_582_912.0;

/// A sample, and whether it had to be clamped.
#[inline]
pub(super) fn sample(value: f32) -> (i16, bool) {
    // Beyond twice the range there is only one answer, and no need for more bits.
    let value = value.clamp(-65_536.0, 65_536.0);
    // The fraction bits of the sum count from WHOLE in ones.
    let whole = (value + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i32;
    let clamped = whole.clamp(i32::from(i16::MIN), i32::from(i16::MAX));
    (clamped as i16, clamped != whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rounds_half_to_even_and_clamps() {
        for i in -140_000..140_000 {
            for value in [i as f32 / 4.0, i as f32 / 4.0 + 0.123] {
                let want = value.round_ties_even();
                let clamped = want.clamp(-32_768.0, 32_767.0);
                assert_eq!(sample(value), (clamped as i16, clamped != want), "{value}");
            }
        }
        assert_eq!(sample(1e9), (i16::MAX, true));
        assert_eq!(sample(-1e9), (i16::MIN, true));
    }
}
