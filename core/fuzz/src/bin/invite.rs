// SPDX-License-Identifier: GPL-3.0-or-later
//! `just fuzz invite SECONDS`.
#![no_main]

voicecore_fuzz::target!(voicecore_fuzz::invite::run);
