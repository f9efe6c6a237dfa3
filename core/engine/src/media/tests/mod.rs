// SPDX-License-Identifier: GPL-3.0-or-later
//! Scenarios of the media thread, named by what happens.

mod blocked;
mod deliver;
mod dtmf;
mod loopback;
mod networks;
mod no_alloc;
mod quiet;
mod receive;
mod rig;
mod send;
mod shards;
mod srtp;
mod waking;
mod wide;
