// SPDX-License-Identifier: GPL-3.0-or-later
//! Signal work on the callers' audio.

pub mod speech;
pub mod vad;
