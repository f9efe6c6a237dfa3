// SPDX-License-Identifier: GPL-3.0-or-later
//! `just fuzz demux SECONDS`.
#![no_main]

voicecore_fuzz::target!(voicecore_fuzz::demux::run);
