// SPDX-License-Identifier: GPL-3.0-or-later
//! Decibels as whole numbers: steps of a quarter of a decibel, with tables for power and amplitude
//! that any program makes alike to the last bit (core/reference/README.md, "Tables").

/// Steps of one decibel.
pub const PER_DB: i32 = 4;
/// The level of a full-scale square wave, 0 dBov, in steps.
pub const FULL: i32 = 361;
/// Steps of the table of amplitudes, downwards and upwards: -20 to 30 dB.
const DOWN: usize = 80;
const UP: usize = 120;
const QUARTER_POWER: f64 = 1.059_253_725_177_288_9;
const QUARTER_AMPLITUDE: f64 = 1.029_200_527_194_428_2;

/// By step: the least mean square that has it.
static POWERS: [i64; FULL as usize + 1] = powers();
/// By step + `DOWN`.
static FACTORS: [f64; DOWN + UP + 1] = factors();

const fn powers() -> [i64; FULL as usize + 1] {
    // Rounds half to even: above 2^52 a float64 has no fraction.
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    let mut table = [1; FULL as usize + 1];
    let (mut k, mut power) = (0, 1.0);
    while k < table.len() {
        table[k] = (power + WHOLE - WHOLE) as i64;
        power *= QUARTER_POWER;
        k += 1;
    }
    table
}

const fn factors() -> [f64; DOWN + UP + 1] {
    let mut table = [1.0; DOWN + UP + 1];
    let (mut j, mut factor) = (0, 1.0);
    while j <= UP {
        table[DOWN + j] = factor;
        if j <= DOWN {
            table[DOWN - j] = 1.0 / factor;
        }
        factor *= QUARTER_AMPLITUDE;
        j += 1;
    }
    table
}

/// The level of a mean square, in steps; 0 also for silence.
pub fn level(mean_square: i64) -> i32 {
    POWERS.partition_point(|p| *p <= mean_square).saturating_sub(1) as i32
}

/// Steps of a level given in dBov.
pub fn of_dbov(dbov: f64) -> i32 {
    FULL + of_db(dbov)
}

/// dBov of a level in steps.
pub fn dbov(steps: i32) -> f64 {
    f64::from(steps - FULL) / f64::from(PER_DB)
}

/// Steps of a number of decibels, the nearest.
pub fn of_db(db: f64) -> i32 {
    (db * f64::from(PER_DB)).round_ties_even() as i32
}

fn exact(step: i32) -> f64 {
    let at = step.clamp(-(DOWN as i32), UP as i32) + DOWN as i32;
    FACTORS.get(at as usize).copied().unwrap_or(1.0)
}

/// The factor of an amplitude: from -60 to 30 dB, what lies beyond is taken for the edge.
pub fn factor(step: i32) -> f32 {
    let low = DOWN as i32;
    if step >= -low {
        return exact(step) as f32;
    }
    let mut rest = -low - step.max(-3 * low);
    let mut divisor = exact(low);
    // Two table steps reach down to -60 dB.
    while rest > 0 {
        let part = rest.min(low);
        divisor *= exact(part);
        rest -= part;
    }
    (1.0 / divisor) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_decibels() {
        for k in [0, 1, 40, 200, 361] {
            let want = 10f64.powf(f64::from(k) / 40.0);
            assert!((POWERS[k as usize] as f64 - want).abs() < 0.51 + want * 1e-12, "{k}");
        }
        for step in -240..=120 {
            let want = 10f64.powf(f64::from(step) / 80.0);
            assert!((f64::from(factor(step)) / want - 1.0).abs() < 1e-6, "{step}");
        }
        assert_eq!(factor(0), 1.0);
        assert_eq!(factor(-1000), factor(-240));
    }

    #[test]
    fn levels_are_whole_steps_of_full_scale() {
        assert_eq!((level(0), level(1 << 30), level(i64::MAX)), (0, FULL, FULL));
        // A sine of full scale lies 3.01 dB below.
        assert_eq!(level(1 << 29), FULL - 12);
        assert_eq!((of_dbov(-26.0), dbov(257)), (257, -26.0));
        for k in 60..=FULL {
            assert_eq!(level(POWERS[k as usize]), k);
            assert_eq!(level(POWERS[k as usize] - 1), k - 1);
        }
    }
}
