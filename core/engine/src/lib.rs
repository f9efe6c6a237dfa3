// SPDX-License-Identifier: GPL-3.0-or-later
//! SIP and media engine of voicecore.

pub mod events;
pub mod media;
pub mod record;
pub mod signal;
pub mod transport;
