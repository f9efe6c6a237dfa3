// SPDX-License-Identifier: GPL-3.0-or-later
//! Work on the samples of a call, made in the tick.

pub mod background;
pub mod delivery;
pub mod denoise;
pub mod echo_guard;
pub mod gain;
pub mod level;
pub mod listener;
pub mod mixer;
pub(crate) mod prefetch;
mod round;
pub mod speech;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod vad;
mod wav;
