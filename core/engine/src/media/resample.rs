// SPDX-License-Identifier: GPL-3.0-or-later
//! Streaming resampler from any rate of 8000 to 48000 Hz to the line: polyphase windowed sinc
//! (Kaiser window; for a line of 8 kHz the stop band is about 80 dB down from 4 kHz on, flat to
//! about 3.4 kHz, and twice that for 16 kHz). Runs in the thread that calls `play`, never in the
//! media thread.

use std::collections::HashMap;
use std::f64::consts::PI;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Rate;

/// Rates taken.
pub const RATES: std::ops::RangeInclusive<u32> = 8000..=48_000;
/// Half the filter's length, in periods of the lower of both rates.
const HALF: u32 = 32;
/// Middle of the transition band, of the lower of both rates.
const CUTOFF: f64 = 3690.0 / 8000.0;
const KAISER_BETA: f64 = 8.0;
/// More phases than this are interpolated: odd rates would need thousands.
const MAX_PHASES: u64 = 512;
/// Tables kept. An application uses a handful of rates.
const MAX_TABLES: usize = 16;

#[derive(Debug)]
struct Table {
    up: u64,
    down: u64,
    taps: usize,
    phases: u64,
    /// `phases + 1` rows of `taps`; the last row is the first one, a sample later.
    rows: Vec<f32>,
}

/// By the rates from and to.
type Tables = HashMap<(u32, Rate), Arc<Table>>;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Modified Bessel function of order 0, by its series.
fn bessel_i0(x: f64) -> f64 {
    let mut sum = 1.0;
    let mut term = 1.0;
    for k in 1..40 {
        let half = x / 2.0 / f64::from(k);
        term *= half * half;
        sum += term;
    }
    sum
}

impl Table {
    fn new(rate: u32, to: Rate) -> Table {
        let lower = rate.min(to.hz());
        let (rate64, line) = (u64::from(rate), u64::from(to.hz()));
        let g = gcd(rate64, line);
        let (up, down) = (line / g, rate64 / g);
        let half = (HALF * rate).div_ceil(lower) as usize;
        let taps = half * 2;
        let phases = up.min(MAX_PHASES);
        let cutoff = CUTOFF * f64::from(lower) / f64::from(rate);
        let mut rows = Vec::with_capacity((phases as usize + 1) * taps);
        for p in 0..=phases {
            let shift = p as f64 / phases as f64;
            let row: Vec<f64> = (0..taps)
                .map(|k| {
                    let d = k as f64 - (half as f64 - 1.0) - shift;
                    let x = 2.0 * cutoff * d;
                    let sinc = if x.abs() < 1e-9 { 1.0 } else { (PI * x).sin() / (PI * x) };
                    let r = (d / half as f64).clamp(-1.0, 1.0);
                    sinc * bessel_i0(KAISER_BETA * (1.0 - r * r).sqrt())
                })
                .collect();
            // Each phase passes a constant unchanged.
            let sum: f64 = row.iter().sum();
            rows.extend(row.iter().map(|v| (v / sum) as f32));
        }
        Table { up, down, taps, phases, rows }
    }

    fn of(rate: u32, to: Rate) -> Arc<Table> {
        static TABLES: OnceLock<Mutex<Tables>> = OnceLock::new();
        let tables = TABLES.get_or_init(Mutex::default);
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(t) = tables.get(&(rate, to)) {
            return Arc::clone(t);
        }
        let table = Arc::new(Table::new(rate, to));
        if tables.len() < MAX_TABLES {
            tables.insert((rate, to), Arc::clone(&table));
        }
        table
    }

    fn row(&self, phase: u64) -> &[f32] {
        let start = phase as usize * self.taps;
        self.rows.get(start..start + self.taps).unwrap_or(&[])
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums side by side, so that the compiler may use vectors.
    let mut sums = [0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a8.zip(b8) {
        for ((s, x), y) in sums.iter_mut().zip(x).zip(y) {
            *s += x * y;
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// State of one turn.
#[derive(Debug)]
pub struct Resampler {
    /// `None` when the rate is the line's.
    table: Option<Arc<Table>>,
    buffer: Vec<f32>,
    /// Input samples that have left the front of the buffer.
    gone: u64,
    taken: u64,
    made: u64,
    overs: u64,
}

impl Resampler {
    /// A resampler from `rate` to a line's, or `None` when the rate is not in [`RATES`].
    pub fn new(rate: u32, line: Rate) -> Option<Resampler> {
        if !RATES.contains(&rate) {
            return None;
        }
        let table = (rate != line.hz()).then(|| Table::of(rate, line));
        // Zeros ahead of the first sample centre the filter on it.
        let lead = table.as_ref().map_or(0, |t| t.taps / 2 - 1);
        Some(Resampler { table, buffer: vec![0.0; lead], gone: 0, taken: 0, made: 0, overs: 0 })
    }

    /// The most line samples that `samples` more input samples can give, with the filter's rest.
    pub fn most(&self, samples: usize) -> u64 {
        match &self.table {
            None => samples as u64,
            Some(t) => {
                let all = (self.taken + samples as u64) * t.up;
                all.div_ceil(t.down).saturating_sub(self.made)
            }
        }
    }

    /// Samples that had to be clamped since this was last asked.
    pub fn take_overs(&mut self) -> u64 {
        std::mem::take(&mut self.overs)
    }

    /// Takes input, appends line samples to `out`.
    pub fn push(&mut self, input: impl Iterator<Item = i16>, out: &mut Vec<i16>) {
        let Some(table) = self.table.clone() else {
            out.extend(input);
            return;
        };
        let before = self.buffer.len();
        self.buffer.extend(input.map(f32::from));
        self.taken += (self.buffer.len() - before) as u64;
        self.produce(&table, u64::MAX, out);
    }

    /// No more input: appends what the filter still holds.
    pub fn flush(&mut self, out: &mut Vec<i16>) {
        let Some(table) = self.table.clone() else { return };
        let end = (self.taken * table.up).div_ceil(table.down);
        self.buffer.extend(std::iter::repeat_n(0.0, table.taps));
        self.produce(&table, end, out);
        self.buffer.clear();
    }

    fn produce(&mut self, table: &Table, end: u64, out: &mut Vec<i16>) {
        while self.made < end {
            let at = self.made * table.down;
            let first = (at / table.up - self.gone) as usize;
            let Some(window) = self.buffer.get(first..first + table.taps) else { break };
            let place = (at % table.up) * table.phases;
            let (phase, part) = (place / table.up, place % table.up);
            let mut v = dot(window, table.row(phase));
            if part != 0 {
                let w = part as f32 / table.up as f32;
                v += (dot(window, table.row(phase + 1)) - v) * w;
            }
            let whole = v.round();
            let clamped = whole.clamp(f32::from(i16::MIN), f32::from(i16::MAX));
            self.overs += u64::from(clamped != whole);
            out.push(clamped as i16);
            self.made += 1;
        }
        let done = (self.made * table.down / table.up - self.gone) as usize;
        let done = done.min(self.buffer.len());
        self.buffer.drain(..done);
        self.gone += done as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(rate: u32, input: &[i16], chunk: usize) -> Vec<i16> {
        convert_to(Rate::R8k, rate, input, chunk)
    }

    fn convert_to(line: Rate, rate: u32, input: &[i16], chunk: usize) -> Vec<i16> {
        let mut out = Vec::new();
        let mut r = Resampler::new(rate, line);
        if let Some(r) = &mut r {
            for c in input.chunks(chunk) {
                let most = r.most(c.len());
                let before = out.len() as u64;
                r.push(c.iter().copied(), &mut out);
                assert!(out.len() as u64 - before <= most);
            }
            r.flush(&mut out);
        }
        out
    }

    fn tone(rate: u32, hz: f64, n: usize) -> Vec<i16> {
        let step = hz * 2.0 * PI / f64::from(rate);
        (0..n).map(|i| ((i as f64 * step).sin() * 10_000.0) as i16).collect()
    }

    fn rms(v: &[i16]) -> f64 {
        (v.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / v.len().max(1) as f64).sqrt()
    }

    #[test]
    fn speech_band_passes_in_place_and_what_is_above_is_gone() {
        for rate in [11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 23_987] {
            let n = rate as usize;
            for hz in [100.0, 1000.0, 3000.0, 3300.0] {
                let out = convert(rate, &tone(rate, hz, n), 4096);
                assert_eq!(out.len(), 8000, "{rate}");
                let want = tone(8000, hz, 8000);
                let diff: Vec<i16> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
                let err = rms(&diff[200..7800]) / rms(&want[200..7800]);
                assert!(err < 0.01, "{rate} Hz, tone {hz}: error {err}");
            }
            for hz in [4100.0, 5000.0, f64::from(rate) / 2.0 - 200.0] {
                let out = convert(rate, &tone(rate, hz, n), 4096);
                let left = rms(&out[200..7800]) / 7071.0;
                assert!(left < 0.001, "{rate} Hz, tone {hz}: {left} left");
            }
        }
    }

    #[test]
    fn a_line_of_16_khz_keeps_what_there_is_below_8_and_gets_no_images() {
        for rate in [8000, 11_025, 22_050, 24_000, 44_100, 48_000] {
            let top = f64::from(rate.min(16_000));
            for hz in [100.0, 3000.0, top * 0.41] {
                let out = convert_to(Rate::R16k, rate, &tone(rate, hz, rate as usize), 4096);
                assert_eq!(out.len(), 16_000, "{rate}");
                let want = tone(16_000, hz, 16_000);
                let diff: Vec<i16> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
                let err = rms(&diff[400..15_600]) / rms(&want[400..15_600]);
                assert!(err < 0.01, "{rate} Hz, tone {hz}: error {err}");
            }
        }
        for hz in [8200.0, 11_000.0] {
            let out = convert_to(Rate::R16k, 24_000, &tone(24_000, hz, 24_000), 4096);
            assert!(rms(&out[400..15_600]) / 7071.0 < 0.001, "tone {hz} is left");
        }
    }

    /// Level of a tone in what became of it, dB.
    fn response(line: Rate, rate: u32, hz: f64) -> f64 {
        let out = convert_to(line, rate, &tone(rate, hz, rate as usize), 4096);
        let edge = line.hz() as usize / 20;
        20.0 * (rms(&out[edge..out.len() - edge]).max(1e-3) / (10_000.0 / 2f64.sqrt())).log10()
    }

    #[test]
    fn ripple_and_rejection_are_measured() {
        for line in [Rate::R8k, Rate::R16k] {
            for rate in [8000, 16_000, 22_050, 24_000, 44_100, 48_000] {
                if rate == line.hz() {
                    continue;
                }
                let lower = f64::from(rate.min(line.hz()));
                let pass: Vec<f64> = (1..=40)
                    .map(|i| response(line, rate, lower * 0.425 * f64::from(i) / 40.0))
                    .collect();
                let ripple = pass.iter().fold(0f64, |most, db| most.max(db.abs()));
                assert!(ripple < 0.1, "{rate} Hz to {line:?}: {ripple} dB");
                if rate > line.hz() {
                    let half = f64::from(rate) / 2.0;
                    let alias = (0..30)
                        .map(|i| lower * 0.5 + (half - lower * 0.5) * f64::from(i) / 30.0)
                        .map(|hz| response(line, rate, hz + 5.0))
                        .fold(f64::MIN, f64::max);
                    assert!(alias < -70.0, "{rate} Hz to {line:?}: {alias} dB left");
                    println!("{rate} Hz to {line:?}: ripple {ripple:.3} dB, aliases {alias:.1} dB");
                }
            }
        }
    }

    #[test]
    fn what_is_clamped_is_counted() {
        let input: Vec<i16> =
            (0..4800).map(|i| if i / 60 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        let mut out = Vec::new();
        let mut overs = Vec::new();
        for sound in [&input[..], &tone(48_000, 1000.0, 4800)] {
            let Some(mut r) = Resampler::new(48_000, Rate::R8k) else { unreachable!() };
            r.push(sound.iter().copied(), &mut out);
            r.flush(&mut out);
            overs.push((r.take_overs(), r.take_overs()));
        }
        assert!(matches!(overs[..], [(1.., 0), (0, 0)]), "{overs:?}");
    }

    #[test]
    fn chunk_sizes_do_not_matter() {
        let input = tone(24_000, 700.0, 10_000);
        let whole = convert(24_000, &input, 10_000);
        for chunk in [1, 3, 479, 1697, 4063] {
            assert_eq!(convert(24_000, &input, chunk), whole, "{chunk}");
        }
    }

    #[test]
    fn line_rate_is_passed_through_unchanged() {
        let input = tone(8000, 440.0, 999);
        assert_eq!(convert(8000, &input, 100), input);
    }

    #[test]
    fn full_scale_does_not_wrap() {
        let input: Vec<i16> =
            (0..48_000).map(|i| if i / 60 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        let out = convert(48_000, &input, 960);
        // A square wave overshoots and is clipped; wrapped around it would change sign more often
        // than twice in a period of 20 samples.
        let part = &out[1000..3000];
        let changes = part.windows(2).filter(|w| (w[0] < 0) != (w[1] < 0)).count();
        assert!((198..=202).contains(&changes), "{changes}");
        assert!(part.contains(&i16::MAX));
    }

    #[test]
    fn other_rates_are_refused() {
        for rate in [0, 1, 7999, 48_001, u32::MAX] {
            assert!(Resampler::new(rate, Rate::R8k).is_none());
        }
    }
}
