// SPDX-License-Identifier: GPL-3.0-or-later
//! What the media thread tells, and the batch in which it is fetched.
//!
//! All times are CLOCK_MONOTONIC nanoseconds. Audio is 16-bit little-endian mono PCM at the
//! call's rate, 8000 or 16000 Hz.

use std::fmt;

use crate::media::CallStats;
pub use crate::transport::rtp::event::Key;

/// One event of one call, or of the media thread itself.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaEvent {
    /// The caller began to speak.
    SpeechStarted {
        /// Call it is about.
        call: u64,
        /// Arrival of the first speech sample.
        at_ns: u64,
        /// Tick at which voice activity decided it.
        decided_ns: u64,
    },
    /// Audio of the caller while speaking; the first one of a stretch has the pre-roll.
    Audio {
        /// Call it is about.
        call: u64,
        /// Arrival of the first sample.
        at_ns: u64,
        /// First byte within [`Batch::audio`].
        offset: usize,
        /// Bytes (two a sample).
        len: usize,
    },
    /// The caller fell silent for the configured time.
    SpeechEnded {
        /// Call it is about.
        call: u64,
        /// Arrival of the end of the last speech sample.
        at_ns: u64,
        /// Tick at which voice activity decided it.
        decided_ns: u64,
    },
    /// The first sample of a turn was sent on RTP.
    PlayoutStarted {
        /// Call it is about.
        call: u64,
        /// Turn as given to `play`.
        turn: u64,
        /// Tick at which the packet with the sample was sent.
        at_ns: u64,
    },
    /// A turn has left the play-out queue: all of it was sent, or it was cut.
    PlayoutFinished {
        /// Call it is about.
        call: u64,
        /// Turn as given to `play`.
        turn: u64,
        /// Line-rate samples of the turn that were really sent.
        samples: u64,
        /// Time at which the last of them ends.
        at_ns: u64,
        /// True when cut by `clear` or by the end of the call.
        interrupted: bool,
    },
    /// Nothing decodable came from the peer for the configured time, though it should send.
    /// Told once for each silence.
    MediaTimeout {
        /// Call it is about.
        call: u64,
        /// Length of the silence so far.
        silent_ns: u64,
    },
    /// The caller pressed a key, told by telephone-event. `Debug` does not show which.
    Dtmf {
        /// Call it is about.
        call: u64,
        /// Which.
        key: Key,
        /// How long it was down, ms.
        duration_ms: u32,
        /// When it went down.
        at_ns: u64,
    },
    /// Keys that were to be sent as telephone-events have been, or cannot be.
    DtmfSent {
        /// Call it is about.
        call: u64,
        /// Request as given to `send_keys`.
        request: u64,
        /// False when the call ended, went on hold or has no telephone-event (any more).
        sent: bool,
    },
    /// The call has left the media thread: no event of it follows, its recording is complete (or
    /// given up) and its sockets are closed.
    Closed {
        /// Call it is about.
        call: u64,
        /// Its final counters.
        stats: Box<CallStats>,
    },
    /// Something an operator should know.
    Notice {
        /// Call it is about, or `None` for the media thread.
        call: Option<u64>,
        /// What happened.
        notice: Notice,
    },
}

/// What an operator should know. `Display` gives the log line: place, what happened, remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// SCHED_FIFO was asked for and refused; a media thread runs at normal priority.
    PriorityRefused {
        /// The priority asked for.
        priority: u8,
    },
    /// A media thread could not be pinned to the core asked for.
    CoreRefused {
        /// The core asked for.
        core: usize,
        /// System error number.
        errno: i32,
    },
    /// The consumer was too slow: events or audio were dropped.
    EventsDropped {
        /// Dropped since the last such notice.
        count: u64,
    },
    /// The recording could not be written. The call goes on.
    RecordingFailed {
        /// System error number, 0 if there was none.
        errno: i32,
    },
    /// A recording that could not be written is written again; what is missing is silence in it.
    RecordingResumed,
    /// Storage blocks the recorder: the call's end is told before its recording is complete.
    RecorderBlocked,
    /// The recorder was too slow: this many samples a channel were replaced by silence.
    RecordingGap {
        /// Samples a channel.
        samples: u64,
    },
    /// Ticks were lost: the machine did not run a media thread in time.
    TicksSkipped {
        /// Number of the media thread, as in its name: `vc-media-0`.
        shard: usize,
        /// Number of 20 ms ticks given up.
        count: u64,
    },
}

impl Notice {
    /// True for what makes calls worse (warning), false for what is only told (info).
    pub fn is_warning(&self) -> bool {
        !matches!(self, Notice::RecordingResumed)
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::PriorityRefused { priority } => write!(
                f,
                "media thread: SCHED_FIFO priority {priority} refused, running at normal priority; \
                 grant CAP_SYS_NICE or an rtprio limit (systemd: LimitRTPRIO={priority})"
            ),
            Notice::CoreRefused { core, errno } => write!(
                f,
                "media thread: could not be pinned to core {core} (error {errno}), running \
                 unpinned; set media_cores to cores this process may use"
            ),
            Notice::EventsDropped { count } => write!(
                f,
                "events: {count} dropped because the application did not fetch them in time; \
                 look for what blocks its event loop"
            ),
            Notice::RecordingFailed { errno } => write!(
                f,
                "recording: cannot be written (error {errno}), the call goes on unrecorded; check \
                 free space and rights of the recording folder"
            ),
            Notice::RecordingResumed => {
                f.write_str("recording: is written again, with silence for what was lost")
            }
            Notice::RecorderBlocked => f.write_str(
                "recording: storage blocks and the recording is not complete at the call's end; \
                 look for a frozen, failing or vanished disk under the recording folder",
            ),
            Notice::RecordingGap { samples } => write!(
                f,
                "recording: disk too slow, {samples} samples replaced by silence; use a faster \
                 disk or fewer recorded calls"
            ),
            Notice::TicksSkipped { shard, count } => write!(
                f,
                "media thread {shard}: {count} ticks of 20 ms lost because it was not run in time; \
                 give it a core of its own (media_cores) and a priority (media_priority)"
            ),
        }
    }
}

/// Events in order, with their audio. Give the same batch to every `drain`: its buffers are
/// cleared and used again.
#[derive(Debug, Default)]
pub struct Batch {
    /// Events since the last drain, in the order they happened.
    pub events: Vec<MediaEvent>,
    /// Audio of the [`MediaEvent::Audio`] events, one behind the other.
    pub audio: Vec<u8>,
}

impl Batch {
    /// Empties the batch and keeps its buffers.
    pub fn clear(&mut self) {
        self.events.clear();
        self.audio.clear();
    }

    /// Audio of one event; empty for a range that is not in this batch.
    pub fn pcm(&self, offset: usize, len: usize) -> &[u8] {
        offset.checked_add(len).and_then(|end| self.audio.get(offset..end)).unwrap_or(&[])
    }
}
