// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys pressed and keys sent: telephone-event (RFC 4733) within the call's RTP stream. Sans-I/O;
//! neither side allocates. Nothing in here prints which key it was.

mod line;
mod receive;
mod send;
#[cfg(test)]
mod tests;

pub(crate) use line::Dtmf;
pub(crate) use receive::{EventReceiver, Pressed};
pub(crate) use send::{EventSender, Keys, Step};

/// RTP clock of telephone-event: that of the codec it goes with (RFC 4733 section 2.1), which is
/// 8000 Hz for all of ours. G.722 samples at twice that (RFC 3551 section 4.5.2); its events do not.
pub const EVENT_CLOCK_HZ: u32 = 8000;
