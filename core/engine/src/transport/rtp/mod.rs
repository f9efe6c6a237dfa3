// SPDX-License-Identifier: GPL-3.0-or-later
//! RTP and RTCP (RFC 3550), without I/O: packets and `now` come in as arguments.

pub mod event;
pub mod latch;
pub mod packet;
pub mod receiver;
pub mod rtcp;
pub mod sender;
pub mod session;
