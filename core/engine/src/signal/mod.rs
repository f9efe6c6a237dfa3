// SPDX-License-Identifier: GPL-3.0-or-later
//! Signal work on the callers' audio.

pub(crate) mod prefetch;
pub mod speech;
pub mod vad;
