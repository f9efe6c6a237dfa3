// SPDX-License-Identifier: GPL-3.0-or-later
//! The media threads: every 20 ms, for each of its calls, receive, decode, voice activity, play-out
//! and send. [`MediaEngine`] is its interface; nothing else touches a call's media state.

mod alive;
mod ambience;
mod call;
pub(crate) mod clock;
mod coder;
pub(crate) mod cores;
mod counters;
#[doc(hidden)]
pub mod drive;
pub mod dtmf;
mod engine;
mod farewell;
mod flow;
pub mod g711;
pub mod g722;
mod halfband;
mod histogram;
pub mod jitter;
mod keys;
mod line;
mod listen;
mod listening;
pub mod noise;
pub(crate) mod outbox;
mod playout;
pub mod plc;
#[doc(hidden)]
pub mod probe;
mod purpose;
mod quality;
#[doc(hidden)]
pub mod recorded;
pub mod resample;
mod roster;
mod shard;
pub(crate) mod srtp;
#[cfg(test)]
mod tests;
mod types;
mod voice;
pub(crate) mod waker;

pub use crate::transport::RtpSockets;
pub(crate) use clock::now_ns;
pub use engine::MediaEngine;
pub use histogram::Distribution;
pub use line::{Rate, FRAME, MAX_FRAME, UNIT_NS};
pub use purpose::Purpose;
pub use types::{
    Background, CallStats, Codec, Coding, Delivered, Delivery, Direction, GainConfig, ListenChange,
    MediaConfig, MediaError, MediaParams, MediaStats, MixerConfig, RtcpWay, Suite, VadConfig,
    TICK_NS,
};
