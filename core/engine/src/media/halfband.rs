// SPDX-License-Identifier: GPL-3.0-or-later
//! Between 8 and 16 kHz within the tick, for a call whose codec has not the rate of its line: a
//! half-band filter (Kaiser window, 47 taps, flat to 3.4 kHz, 60 dB down from 4.6 kHz on).

use super::FRAME;

/// Taps at odd distances from the middle, nearest first, of 32768; the middle one is half of that.
const TAPS: [f32; PAIRS] =
    [20_779., -6683., 3731., -2388., 1598., -1077., 715., -460., 281., -159., 80., -33.];
const PAIRS: usize = 12;
/// Samples looked back, at the lower and at the higher rate.
const PAST_LOW: usize = 2 * PAIRS - 1;
const PAST_HIGH: usize = 4 * PAIRS - 2;

/// Doubles the rate.
#[derive(Clone, Debug)]
pub(crate) struct Doubler {
    past: [f32; PAST_LOW],
}

impl Default for Doubler {
    fn default() -> Self {
        Doubler { past: [0.0; PAST_LOW] }
    }
}

impl Doubler {
    /// Makes two samples of each, as many as both slices hold; later by 12 of the input.
    pub(crate) fn run(&mut self, input: &[i16], out: &mut [i16]) {
        for (input, out) in input.chunks(FRAME).zip(out.chunks_mut(2 * FRAME)) {
            let mut window = [0f32; PAST_LOW + FRAME];
            let end = PAST_LOW + input.len();
            window[..PAST_LOW].copy_from_slice(&self.past);
            for (w, s) in window[PAST_LOW..].iter_mut().zip(input) {
                *w = f32::from(*s);
            }
            for (pair, w) in out.chunks_exact_mut(2).zip(window.windows(2 * PAIRS)) {
                let (before, after) = w.split_at(PAIRS);
                pair[0] = before[PAIRS - 1] as i16;
                pair[1] = (odd(before.iter().rev(), after) / 32_768.0).round() as i16;
            }
            self.past.copy_from_slice(&window[end - PAST_LOW..end]);
        }
    }
}

/// Halves the rate.
#[derive(Clone, Debug)]
pub(crate) struct Halver {
    past: [f32; PAST_HIGH],
}

impl Default for Halver {
    fn default() -> Self {
        Halver { past: [0.0; PAST_HIGH] }
    }
}

impl Halver {
    /// Makes one sample of each two, as many as both slices hold; later by 23 of the input.
    pub(crate) fn run(&mut self, input: &[i16], out: &mut [i16]) {
        for (input, out) in input.chunks(2 * FRAME).zip(out.chunks_mut(FRAME)) {
            let mut window = [0f32; PAST_HIGH + 2 * FRAME];
            let end = PAST_HIGH + input.len();
            window[..PAST_HIGH].copy_from_slice(&self.past);
            for (w, s) in window[PAST_HIGH..].iter_mut().zip(input) {
                *w = f32::from(*s);
            }
            for (out, w) in out.iter_mut().zip(window.windows(PAST_HIGH + 1).step_by(2)) {
                let (before, rest) = w.split_at(2 * PAIRS - 1);
                let around = odd(before.iter().rev().step_by(2), rest.iter().skip(1).step_by(2));
                *out = ((around / 32_768.0 + rest[0]) / 2.0).round() as i16;
            }
            self.past.copy_from_slice(&window[end - PAST_HIGH..end]);
        }
    }
}

/// Sum over the taps at odd distances; neighbours nearest first.
fn odd<'a>(
    before: impl IntoIterator<Item = &'a f32>,
    after: impl IntoIterator<Item = &'a f32>,
) -> f32 {
    TAPS.iter().zip(before.into_iter().zip(after)).map(|(t, (a, b))| t * (a + b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: f64, hz: f64, n: usize) -> Vec<i16> {
        let step = hz * std::f64::consts::TAU / rate;
        (0..n).map(|i| ((i as f64 * step).sin() * 10_000.0) as i16).collect()
    }

    fn rms(v: impl Iterator<Item = i32>) -> f64 {
        let (n, sum) = v.fold((0, 0.0), |(n, s), x| (n + 1, s + f64::from(x).powi(2)));
        (sum / f64::from(n)).sqrt()
    }

    fn error(got: &[i16], want: &[i16]) -> f64 {
        rms(got.iter().zip(want).map(|(a, b)| i32::from(*a) - i32::from(*b))) / 7071.0
    }

    fn doubled(input: &[i16], piece: usize) -> Vec<i16> {
        let mut out = vec![0; input.len() * 2];
        let mut d = Doubler::default();
        input.chunks(piece).zip(out.chunks_mut(2 * piece)).for_each(|(i, o)| d.run(i, o));
        out
    }

    fn halved(input: &[i16], piece: usize) -> Vec<i16> {
        let mut out = vec![0; input.len() / 2];
        let mut h = Halver::default();
        input.chunks(2 * piece).zip(out.chunks_mut(piece)).for_each(|(i, o)| h.run(i, o));
        out
    }

    #[test]
    fn the_telephone_band_passes_both_ways() {
        for hz in [100.0, 1000.0, 3000.0, 3300.0] {
            let (low, high) = (tone(8000.0, hz, 4000), tone(16_000.0, hz, 8000));
            let up = doubled(&low, 160);
            assert!(error(&up[24 + 100..], &high[100..7900]) < 0.01, "{hz} Hz up");
            let down = halved(&high, 160);
            // 23 samples of the higher rate are 11.5 of the lower.
            let late = tone(16_000.0, hz, 8000);
            let want: Vec<i16> = (0..3900).map(|i| late[(2 * i + 200) - 23]).collect();
            assert!(error(&down[100..], &want) < 0.01, "{hz} Hz down");
        }
    }

    #[test]
    fn no_image_and_no_alias_is_left() {
        // The image of 3000 Hz would lie at 5000: without it, what is doubled is that tone alone.
        let up = doubled(&tone(8000.0, 3000.0, 4000), 160);
        assert!(error(&up[24 + 100..], &tone(16_000.0, 3000.0, 8000)[100..7900]) < 0.002);
        for hz in [4700.0, 5500.0, 7500.0] {
            let left = halved(&tone(16_000.0, hz, 8000), 160);
            assert!(rms(left[100..].iter().map(|s| i32::from(*s))) < 15.0, "{hz} Hz");
        }
    }

    #[test]
    fn pieces_of_any_length_give_the_same() {
        let input = tone(16_000.0, 1234.0, 3840);
        for piece in [1, 7, 80, 160, 480] {
            assert_eq!(doubled(&input, piece), doubled(&input, 160));
            assert_eq!(halved(&input, piece), halved(&input, 160));
        }
    }

    #[test]
    fn full_scale_is_clipped_and_does_not_wrap() {
        let square: Vec<i16> =
            (0..1600).map(|i| if i / 20 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        for out in [doubled(&square, 160), halved(&square, 160)] {
            let turns = out[100..].windows(2).filter(|w| (w[0] < 0) != (w[1] < 0)).count();
            assert!(turns <= 80, "{turns}");
        }
    }
}
