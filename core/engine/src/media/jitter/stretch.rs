// SPDX-License-Identifier: GPL-3.0-or-later
//! Playing a frame a little faster or slower, where it is heard least.

use super::super::Rate;

/// Units of RTP time of the cross-fade.
const OVERLAP: usize = 80;
/// Longest and shortest piece left out.
pub(super) const MAX_CUT: usize = 120;
const MIN_CUT: usize = 40;

/// Makes a frame of more than a frame, [`MAX_CUT`] more, by leaving out a piece. Gives the piece's
/// length in RTP time.
pub(super) fn shorten(rate: Rate, long: &[i16], out: &mut [i16]) -> usize {
    let per = rate.per_unit();
    let (head, _) = long.split_at(OVERLAP * per);
    let cut = best_by(MIN_CUT..=MAX_CUT, |cut| {
        Some(similarity(head, long.get(cut * per..(cut + OVERLAP) * per)?))
    });
    for (i, o) in out.iter_mut().enumerate() {
        let late = long.get(i + cut * per).copied().unwrap_or(0);
        *o = match head.get(i) {
            Some(early) => fade(*early, late, i, head.len()),
            None => late,
        };
    }
    cut
}

/// Makes a frame that begins with a piece of the past again. Gives the piece's length in RTP time:
/// that much of the end of `next` was not played.
pub(super) fn lengthen(rate: Rate, past: &[i16], next: &[i16], out: &mut [i16]) -> usize {
    let per = rate.per_unit();
    let (head, _) = next.split_at(OVERLAP * per);
    let cut = best_by(OVERLAP..=MAX_CUT, |cut| {
        let from = past.len().checked_sub(cut * per)?;
        Some(similarity(head, past.get(from..from + head.len())?))
    });
    let from = past.len().checked_sub(cut * per);
    let again = from.and_then(|from| past.get(from..)).unwrap_or(&[]);
    for (i, o) in out.iter_mut().enumerate() {
        let natural = next.get(i).copied().unwrap_or(0);
        *o = match again.get(i) {
            Some(old) if i < head.len() => fade(natural, *old, i, head.len()),
            Some(old) => *old,
            None => next.get(i - again.len()).copied().unwrap_or(0),
        };
    }
    cut
}

/// From `a` to `b` over `n` samples.
fn fade(a: i16, b: i16, i: usize, n: usize) -> i16 {
    let (w, n) = (i as i32, n as i32);
    ((i32::from(a) * (n - w) + i32::from(b) * w) / n) as i16
}

/// The cut that is heard least: where the signal resembles itself most.
fn best_by(cuts: std::ops::RangeInclusive<usize>, score: impl Fn(usize) -> Option<f32>) -> usize {
    let mut best = (f32::MIN, MAX_CUT);
    for cut in cuts {
        match score(cut) {
            Some(s) if s > best.0 => best = (s, cut),
            _ => {}
        }
    }
    best.1
}

fn similarity(a: &[i16], b: &[i16]) -> f32 {
    let mut dot = 0f32;
    let mut norm = 1f32;
    for (a, b) in a.iter().zip(b) {
        dot += f32::from(*a) * f32::from(*b);
        norm += f32::from(*b) * f32::from(*b);
    }
    dot / norm.sqrt()
}
