// SPDX-License-Identifier: GPL-3.0-or-later
//! How media reaches the machine: RTP over UDP (WebSocket media streams join later).

pub mod rtp;
pub(crate) mod sockets;
pub mod srtp;

pub use sockets::RtpSockets;
