// SPDX-License-Identifier: GPL-3.0-or-later
//! Activation functions of one lane.
//!
//! Plain f32 arithmetic, inlined into the kernels, where the compiler lays it over the lanes of
//! the instruction set that the kernel is compiled for. Every operation rounds as IEEE 754 says
//! and multiply-add is fused, so all widths give the same bits.

/// e to the power x: relative error about 1e-7; x is clamped to [-87, 88], and NaN counts as -87.
///
/// 2^n times a polynomial of the rest, coefficients of the Cephes library's expf (S. Moshier).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the significand.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let rest = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = rest.mul_add(p, coefficient);
    }
    let p = p.mul_add(rest * rest, rest + 1.0);
    f32::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 23))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let s = sigmoid(x + x);
    s + s - 1.0
}

/// x where positive, else 0; NaN becomes 0.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x > 0.0 {
        x
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_are_close_to_the_exact_functions() {
        for i in -20_000..=20_000 {
            let x = i as f32 * 0.004;
            let exact = f64::from(x);
            assert!((f64::from(exp(x)) / exact.exp() - 1.0).abs() < 2e-7, "exp({x})");
            assert!((f64::from(sigmoid(x)) - 1.0 / (1.0 + (-exact).exp())).abs() < 1e-7);
            assert!((f64::from(tanh(x)) - exact.tanh()).abs() < 2.5e-7, "tanh({x})");
        }
    }

    #[test]
    fn extreme_inputs_stay_finite() {
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 89.0, -104.0] {
            assert!(exp(x).is_finite() && sigmoid(x).is_finite() && tanh(x).is_finite(), "{x}");
            assert!(!relu(x).is_nan());
        }
    }
}
