// SPDX-License-Identifier: GPL-3.0-or-later
//! The media thread: every 20 ms, for each of its calls, receive, decode, voice activity, play-out
//! and send. This module is its interface; nothing else touches a call's media state.

pub mod g711;
pub mod jitter;
pub mod plc;
pub mod resample;
mod types;

pub use crate::transport::RtpSockets;
pub use types::{
    CallStats, Codec, Direction, MediaConfig, MediaError, MediaParams, MediaStats, VadConfig,
    FRAME, LINE_RATE, TICK_NS,
};

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{eventfd, EventfdFlags};

use crate::events::Batch;

/// The media thread, and the recorder thread if asked for. Shared by reference between threads.
#[derive(Debug)]
pub struct MediaEngine {
    event_fd: OwnedFd,
}

impl MediaEngine {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`MediaError::Start`] when the system refuses a thread or descriptor. A refused priority or
    /// core is no error: it arrives as a notice.
    pub fn start(cfg: MediaConfig) -> Result<MediaEngine, MediaError> {
        let _ = cfg;
        let event_fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| MediaError::Start { what: "event descriptor", source: e.into() })?;
        Ok(MediaEngine { event_fd })
    }

    /// Readable when events wait. Written at most once a tick.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.event_fd.as_fd()
    }

    /// Makes [`MediaEngine::event_fd`] readable, for events that come from elsewhere (signalling).
    pub fn wake(&self) {}

    /// Takes a call: its sockets are read from the next tick on, media flows after `set_media`.
    /// `recording` is the WAV's final path; while written it ends in `.part`.
    ///
    /// # Errors
    /// [`MediaError::TooManyCalls`], [`MediaError::CallExists`], [`MediaError::Busy`].
    pub fn add_call(
        &self,
        call: u64,
        sockets: RtpSockets,
        recording: Option<PathBuf>,
    ) -> Result<(), MediaError> {
        let _ = (call, sockets, recording);
        Ok(())
    }

    /// Outcome of an offer/answer exchange. The first one starts the flow and the recording.
    /// Unknown calls are ignored.
    pub fn set_media(&self, call: u64, media: MediaParams) {
        let _ = (call, media);
    }

    /// Ends a call: RTCP BYE, sockets closed, WAV finished; then
    /// [`crate::events::MediaEvent::Closed`]. Unknown calls are ignored.
    pub fn remove_call(&self, call: u64) {
        let _ = call;
    }

    /// Appends 16-bit little-endian mono PCM at `rate` Hz to `turn`. Resampled here, in the
    /// caller's thread; an odd byte is carried to the next chunk of the turn. A turn that was
    /// cleared or finished takes no more: such audio is dropped without error.
    ///
    /// # Errors
    /// [`MediaError::PlayoutFull`] (nothing of the chunk was taken), [`MediaError::BadRate`],
    /// [`MediaError::NoSuchCall`], [`MediaError::Busy`].
    pub fn play(&self, call: u64, pcm: &[u8], rate: u32, turn: u64) -> Result<(), MediaError> {
        let _ = (call, pcm, rate, turn);
        Ok(())
    }

    /// No more audio of `turn`: [`crate::events::MediaEvent::PlayoutFinished`] follows when all of
    /// it was sent.
    pub fn finish(&self, call: u64, turn: u64) {
        let _ = (call, turn);
    }

    /// Cuts `turn`, or all turns, within one tick.
    pub fn clear(&self, call: u64, turn: Option<u64>) {
        let _ = (call, turn);
    }

    /// Fetches what happened since the last drain into `batch`, which is cleared first. Also makes
    /// [`MediaEngine::event_fd`] unreadable.
    pub fn drain(&self, batch: &mut Batch) {
        batch.clear();
    }

    /// Counters over all calls. Reads atomics; never waits for the media thread.
    pub fn engine_stats(&self) -> MediaStats {
        MediaStats::default()
    }

    /// Counters of one call, `None` once its `Closed` event was drained.
    pub fn call_stats(&self, call: u64) -> Option<CallStats> {
        let _ = call;
        None
    }

    /// Ends all calls, closes all recordings and joins the threads.
    pub fn stop(self) {}
}
