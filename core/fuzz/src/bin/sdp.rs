// SPDX-License-Identifier: GPL-3.0-or-later
//! `just fuzz sdp SECONDS`.
#![no_main]

voicecore_fuzz::target!(voicecore_fuzz::sdp::run);
