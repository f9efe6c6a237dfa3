// SPDX-License-Identifier: GPL-3.0-or-later
//! Recording on a thread of its own. The media thread writes each call's audio into a ring; a slow
//! or full disk is this thread's trouble only.

mod tap;
#[cfg(test)]
mod tests;
mod thread;
pub mod wav;

pub(crate) use tap::{tap, End, Tap};
pub(crate) use thread::{Recorder, RecorderQueues};
