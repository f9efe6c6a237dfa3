// SPDX-License-Identifier: GPL-3.0-or-later
//! What the media thread is told, what it counts, and how it fails.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::g711::Law;
use super::line::Rate;

pub use crate::signal::background::Background;
pub use crate::signal::delivery::{Change as ListenChange, Delivery, What as Delivered};
pub use crate::signal::gain::GainConfig;
pub use crate::signal::mixer::MixerConfig;
pub use pjsip_sys::sdes::Suite;
pub use pjsip_sys::{Codec, Direction, RtcpWay};

/// Length of a tick.
pub const TICK_NS: u64 = 20_000_000;

/// Settings of the media threads, fixed at start. Checked by `EngineConfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaConfig {
    /// Least jitter buffer delay, ms.
    pub jitter_min_ms: u32,
    /// Greatest jitter buffer delay, ms.
    pub jitter_max_ms: u32,
    /// Audio handed over from before the first speech sample, ms.
    pub preroll_ms: u32,
    /// Audio that may wait in a call's play-out queue, s.
    pub playout_max_s: f64,
    /// Silence on RTP after which [`crate::events::MediaEvent::MediaTimeout`] is told, s.
    pub media_timeout_s: f64,
    /// The same after the peer announced silence by comfort noise, s.
    pub media_timeout_dtx_s: f64,
    /// Start the recorder thread. Without it, `add_call` ignores `recording`.
    pub recording: bool,
    /// CPUs to use, one media thread pinned to each; none: one thread that is not pinned.
    pub cores: Vec<usize>,
    /// SCHED_FIFO priority of the media threads, 1 to 99; `None` is normal scheduling.
    pub priority: Option<u8>,
    /// Voice activity decisions.
    pub vad: VadConfig,
    /// A libonnxruntime that runs the stock model in place of the kernel.
    pub vad_onnxruntime: Option<PathBuf>,
    /// Gain control of callers.
    pub gain: GainConfig,
    /// How callers' audio is handed over, until a call is told otherwise.
    pub delivery: Delivery,
    /// Whether echoes of the agent count as silence, until a call is told otherwise.
    pub echo_guard: bool,
    /// Whether steady noise is taken out of callers' audio, until a call is told otherwise.
    pub noise_suppression: bool,
    /// Levels of what is sent.
    pub mixer: MixerConfig,
    /// What every call begins with behind the agent.
    pub background: Option<Background>,
    /// Calls at once.
    pub max_calls: usize,
    /// Calls at 16 kHz may come (a codec of that rate is configured): room is made for them.
    pub wideband: bool,
}

/// How speech probabilities become the start and the end of speech.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VadConfig {
    /// Whether to listen for speech at all: without it, neither speech nor the caller's audio is told.
    pub enabled: bool,
    /// Probability at which speech begins.
    pub threshold: f32,
    /// Probability below which a pause begins.
    pub release: f32,
    /// Speech needed before it counts, ms.
    pub speech_start_ms: u32,
    /// Pause that ends a stretch of speech, ms.
    pub speech_end_ms: u32,
}

impl Default for VadConfig {
    fn default() -> Self {
        VadConfig {
            enabled: true,
            threshold: 0.5,
            release: 0.35,
            speech_start_ms: 64,
            speech_end_ms: 600,
        }
    }
}

impl Default for MediaConfig {
    fn default() -> Self {
        MediaConfig {
            jitter_min_ms: 20,
            jitter_max_ms: 200,
            preroll_ms: 300,
            playout_max_s: 120.0,
            media_timeout_s: 30.0,
            media_timeout_dtx_s: 120.0,
            recording: false,
            cores: Vec::new(),
            priority: None,
            vad: VadConfig::default(),
            vad_onnxruntime: None,
            gain: GainConfig::default(),
            delivery: Delivery::default(),
            echo_guard: false,
            noise_suppression: false,
            mixer: MixerConfig::default(),
            background: None,
            max_calls: 200,
            wideband: true,
        }
    }
}

/// What the media path asks of a codec.
pub trait Coding {
    /// The law of G.711 that it is, if one.
    fn law(self) -> Option<Law>;

    /// Rate of its audio.
    fn rate(self) -> Rate;
}

impl Coding for Codec {
    fn law(self) -> Option<Law> {
        match self {
            Codec::Pcma => Some(Law::A),
            Codec::Pcmu => Some(Law::Mu),
            Codec::G722 => None,
        }
    }

    fn rate(self) -> Rate {
        match self {
            Codec::Pcma | Codec::Pcmu => Rate::R8k,
            Codec::G722 => Rate::R16k,
        }
    }
}

/// Outcome of an offer/answer exchange, for the media thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaParams {
    /// Where the peer's SDP says RTP goes.
    pub remote_rtp: SocketAddr,
    /// Where its signalling comes from, if known: a peer behind a NAT sends its media from there, too.
    pub signalling: Option<IpAddr>,
    /// Where its SDP says RTCP goes; `None` is the port above RTP's.
    pub remote_rtcp: Option<SocketAddr>,
    /// Codec to send.
    pub codec: Codec,
    /// RTP payload type to send the codec with: the peer's number for it.
    pub payload_type: u8,
    /// RTP payload type the peer sends the codec with: our number for it.
    pub rx_payload_type: u8,
    /// RTP payload type to send telephone-event with, if negotiated: the peer's number for it.
    pub telephone_event: Option<u8>,
    /// RTP payload type the peer sends telephone-event with, if negotiated: our number for it.
    pub rx_telephone_event: Option<u8>,
    /// Where RTCP goes and comes from.
    pub rtcp: RtcpWay,
    /// RTP payload type of comfort noise (RFC 3389), if negotiated; the static one, 13, is always
    /// understood.
    pub comfort_noise: Option<u8>,
    /// Packet length the peer asks for, ms. Sent is the nearest whole 10 ms from 10 to 60.
    pub ptime_ms: u8,
    /// Direction as seen from us.
    pub direction: Direction,
}

impl MediaParams {
    /// A codec under one payload type both ways, in packets of 20 ms, and nothing beside it.
    pub fn plain(codec: Codec, payload_type: u8, remote_rtp: SocketAddr) -> MediaParams {
        MediaParams {
            remote_rtp,
            signalling: None,
            remote_rtcp: None,
            codec,
            payload_type,
            rx_payload_type: payload_type,
            telephone_event: None,
            rx_telephone_event: None,
            rtcp: RtcpWay::Beside,
            comfort_noise: None,
            ptime_ms: 20,
            direction: Direction::SendRecv,
        }
    }
}

/// Counters of one call. Kept readable until [`crate::events::MediaEvent::Closed`] was drained.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallStats {
    /// RTP packets taken.
    pub rx_packets: u64,
    /// Payload bytes taken.
    pub rx_bytes: u64,
    /// Packets missing by sequence number (RFC 3550 A.3), never below 0.
    pub rx_lost: u64,
    /// Packets that came after their turn to be played.
    pub rx_late: u64,
    /// Packets that came twice.
    pub rx_duplicate: u64,
    /// Datagrams that were neither RTP nor RTCP, or broke its rules.
    pub rx_malformed: u64,
    /// RTP packets from an address that is not the peer's: not played.
    pub rx_foreign: u64,
    /// RTP packets of a payload type that was not agreed on: not played.
    pub rx_wrong_type: u64,
    /// Changes of the peer's SSRC.
    pub ssrc_changes: u64,
    /// Interarrival jitter (RFC 3550 A.8), ms.
    pub jitter_ms: f64,
    /// Jitter buffer delay at the moment, ms.
    pub jitter_delay_ms: f64,
    /// RTP packets sent.
    pub tx_packets: u64,
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Packets the system refused to send.
    pub tx_errors: u64,
    /// 20 ms frames in which missing audio was concealed.
    pub concealed_frames: u64,
    /// Round-trip time from RTCP (RFC 3550 6.4.1), ms.
    pub rtt_ms: Option<f64>,
    /// Loss the peer reports of our packets (RTCP) since its report before, in 1/256.
    pub remote_fraction_lost: Option<u8>,
    /// Packets of ours that the peer misses by its last report, in all.
    pub remote_lost: Option<u64>,
    /// Interarrival jitter of our packets by the peer's last report, ms.
    pub remote_jitter_ms: Option<f64>,
    /// Mean opinion score of what we hear, 1 to 4.5 (E-model, ITU-T G.107), over the whole call.
    pub mos_rx: Option<f64>,
    /// The same of what the peer hears, by its reports.
    pub mos_tx: Option<f64>,
    /// Times the play-out queue ran dry inside a turn.
    pub playout_underruns: u64,
    /// Samples of what is sent that were clamped: the agent's voice, or what it was mixed with, is
    /// too loud.
    pub tx_overs: u64,
    /// Gain applied to the caller's audio at the moment, dB.
    pub gain_db: f64,
    /// Level of the caller's speech as it comes in, dBov, once there was any.
    pub speech_level_dbov: Option<f64>,
    /// Level of the noise beneath it, dBov, once anything was heard.
    pub noise_level_dbov: Option<f64>,
    /// Samples a channel of the recording replaced by silence.
    pub recording_gap_samples: u64,
    /// Codec in use, once known.
    pub codec: Option<Codec>,
    /// Rate of the call's audio, Hz; 0 until the first SDP decides it.
    pub rate: u32,
    /// Crypto suite of SRTP; `None` is plain RTP.
    pub srtp: Option<Suite>,
    /// Datagrams that did not authenticate under SRTP: not played, not answered, not latched onto.
    pub srtp_auth_errors: u64,
    /// SRTP packets that came twice or were too old to tell.
    pub srtp_replays: u64,
}

/// Counters of the media threads, over all calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaStats {
    /// Ticks run, the sum over media threads.
    pub ticks: u64,
    /// Parts of ticks that began more than 5 ms late.
    pub late_ticks: u64,
    /// Ticks given up because a thread was not run for too long.
    pub skipped_ticks: u64,
    /// Greatest lateness of a part of a tick, µs.
    pub max_lateness_us: u64,
    /// Half of all parts of ticks began no later than this, µs.
    pub lateness_p50_us: u64,
    /// 99 of 100 began no later than this, µs.
    pub lateness_p99_us: u64,
    /// Calls at the moment.
    pub calls_active: u64,
    /// Calls so far.
    pub calls_total: u64,
    /// RTP packets taken.
    pub rx_packets: u64,
    /// RTP packets missing by sequence number, of finished and running calls.
    pub rx_lost: u64,
    /// RTP packets that came after their turn to be played.
    pub rx_late: u64,
    /// RTP packets that came twice.
    pub rx_duplicate: u64,
    /// Datagrams that were neither RTP nor RTCP, or broke its rules.
    pub rx_malformed: u64,
    /// RTP packets from an address that is not the peer's.
    pub rx_foreign: u64,
    /// RTP packets of a payload type that was not agreed on.
    pub rx_wrong_type: u64,
    /// RTP packets sent.
    pub tx_packets: u64,
    /// Packets the system refused to send.
    pub tx_errors: u64,
    /// Datagrams that did not authenticate under SRTP.
    pub srtp_auth_errors: u64,
    /// SRTP packets that came twice or were too old to tell.
    pub srtp_replays: u64,
    /// 20 ms frames in which missing audio was concealed.
    pub concealed_frames: u64,
    /// Times a play-out queue ran dry inside a turn.
    pub playout_underruns: u64,
    /// Samples of what is sent that were clamped.
    pub tx_overs: u64,
    /// Events or audio dropped because the consumer was too slow.
    pub events_dropped: u64,
    /// Recordings given up for a disk error.
    pub recording_errors: u64,
}

/// Errors of the media layer.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// A thread, descriptor or clock could not be had at start.
    #[error("media: cannot start {what}: {source}")]
    Start {
        /// What could not be had.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// More calls than `max_calls`.
    #[error("media: {max} calls are running; raise max_calls or add a machine")]
    TooManyCalls {
        /// The configured limit.
        max: usize,
    },
    /// The call is already known.
    #[error("media: call {0} was added twice")]
    CallExists(u64),
    /// No such call, or it has ended.
    #[error("media: call {0} has ended")]
    NoSuchCall(u64),
    /// The chunk does not fit into the play-out queue. Nothing of it was taken.
    #[error("media: play-out queue of call {call} is full ({queued_ms} ms wait); send slower or raise playout_max_s")]
    PlayoutFull {
        /// Call it is about.
        call: u64,
        /// Audio that waits, ms.
        queued_ms: u64,
    },
    /// A sampling rate outside 8000 to 48000 Hz, or another rate than the turn began with.
    #[error("media: {rate} Hz cannot be played; give 8000 to 48000 Hz and one rate in a turn")]
    BadRate {
        /// The rate given.
        rate: u32,
    },
    /// No keys, too many of them, or a character that is none.
    #[error("media: only 1 to 64 of the keys 0-9 * # A-D can be sent")]
    BadKeys,
    /// The media thread does not take commands.
    #[error(
        "media: command queue full, the media thread is not being run; give it a core of its own"
    )]
    Busy,
}

impl MediaError {
    /// Stable code for applications.
    pub fn code(&self) -> &'static str {
        match self {
            MediaError::Start { .. } | MediaError::Busy | MediaError::CallExists(_) => {
                "media.failed"
            }
            MediaError::TooManyCalls { .. } => "media.too_many_calls",
            MediaError::NoSuchCall(_) => "call.gone",
            MediaError::PlayoutFull { .. } => "media.playout_full",
            MediaError::BadRate { .. } => "media.bad_rate",
            MediaError::BadKeys => "media.bad_keys",
        }
    }
}
