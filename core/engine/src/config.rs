// SPDX-License-Identifier: GPL-3.0-or-later
//! What an engine is told at start, checked before a socket is opened.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use pjsip_sys::{Codec, Policy, TlsConfig};

use crate::dtmf::DtmfMode;
use crate::error::ConfigError;
use crate::guard::GuardConfig;
use crate::media::{Background, Delivery, GainConfig, MixerConfig};
use crate::signalling::SrtpMode;

/// Settings of one [`crate::Engine`]. Build with `EngineConfig::default()` and struct update.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Address SIP and RTP sockets bind to: an address of this machine, `0.0.0.0` for all of IPv4, `::` for IPv4 and IPv6.
    pub bind: IpAddr,
    /// SIP port for UDP and TCP; 0 takes any port that is free for both.
    pub sip_port: u16,
    /// Listen on TCP beside UDP (RFC 3261 section 18 asks for both).
    pub tcp: bool,
    /// Certificates and keys. With a certificate of ours TLS is listened for; outgoing connections need none.
    pub tls: TlsConfig,
    /// Port for TLS; 0 takes any free one.
    pub tls_port: u16,
    /// DNS servers. Empty: those of the system. The first engine of a process decides.
    pub nameservers: Vec<SocketAddr>,
    /// Address told to peers in Contact and SDP, when the machine is behind a one-to-one NAT.
    pub public_address: Option<IpAddr>,
    /// First and last UDP port for RTP and RTCP, both included.
    pub rtp_ports: (u16, u16),
    /// Codecs offered, best first.
    pub codecs: Vec<Codec>,
    /// Whether media is encrypted with keys from the SDP (RFC 4568). A call may differ ([`crate::DialParams`]).
    pub srtp: SrtpMode,
    /// Offer comfort noise (RFC 3389), so that peers may send less while their user is silent. It is
    /// always accepted when a peer offers it, and never sent.
    pub comfort_noise: bool,
    /// Calls at once; the next one is answered 503.
    pub max_calls: usize,
    /// Text of the User-Agent header.
    pub user_agent: String,
    /// What is agreed to inside of calls: 100rel, session timers, transfer, redirection.
    pub dialogs: Policy,
    /// Folder for stereo WAV files; `None` records nothing.
    pub recording_dir: Option<PathBuf>,
    /// Listen for speech; without it neither speech nor the caller's audio is told.
    pub vad: bool,
    /// Audio handed over from before the first speech frame, ms.
    pub preroll_ms: u32,
    /// Speech probability at which speech begins, 0 to 1.
    pub vad_threshold: f32,
    /// Speech probability below which a pause begins; at most `vad_threshold`.
    pub vad_release: f32,
    /// Speech needed before it counts as speech, ms.
    pub speech_start_ms: u32,
    /// Pause that ends a stretch of speech, ms.
    pub speech_end_ms: u32,
    /// A libonnxruntime that runs the stock model in place of the kernel; `None`: the kernel.
    pub vad_onnxruntime: Option<PathBuf>,
    /// Gain control of callers.
    pub gain: GainConfig,
    /// How callers' audio is handed over; a call may differ ([`crate::Engine::listen`]).
    pub delivery: Delivery,
    /// Whether the agent's voice that comes back over the line counts as silence; a call may differ.
    pub echo_guard: bool,
    /// Whether steady noise is taken out ahead of voice activity and hand-over; a call may differ.
    pub noise_suppression: bool,
    /// Levels of the agent's voice and of what is behind it.
    pub mixer: MixerConfig,
    /// What every call begins with behind the agent.
    pub background: Option<Background>,
    /// Least jitter buffer delay, ms.
    pub jitter_min_ms: u32,
    /// Greatest jitter buffer delay, ms.
    pub jitter_max_ms: u32,
    /// Silence on RTP after which a media timeout is told, s.
    pub media_timeout_s: f64,
    /// The same after the peer announced silence by comfort noise, s; at least `media_timeout_s`.
    pub media_timeout_dtx_s: f64,
    /// How keys go out and which are taken.
    pub dtmf: DtmfMode,
    /// Audio that may wait in a call's play-out queue, s.
    pub playout_max_s: f64,
    /// CPUs for media, one media thread pinned to each. None given: the cores that the kernel has
    /// isolated, and where there are none, one media thread that is not pinned.
    pub media_cores: Vec<usize>,
    /// SCHED_FIFO priority of the media threads, 1 to 99; `None` is normal scheduling.
    pub media_priority: Option<u8>,
    /// Who may call, and how much.
    pub guard: GuardConfig,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            bind: IpAddr::from([0, 0, 0, 0]),
            sip_port: 5060,
            tcp: true,
            tls: TlsConfig::default(),
            tls_port: 5061,
            nameservers: Vec::new(),
            public_address: None,
            rtp_ports: (16384, 32767),
            codecs: vec![Codec::Pcma, Codec::Pcmu, Codec::G722],
            srtp: SrtpMode::Off,
            comfort_noise: false,
            max_calls: 200,
            user_agent: "voice-edge".to_owned(),
            dialogs: Policy::default(),
            recording_dir: None,
            vad: true,
            preroll_ms: 300,
            vad_threshold: 0.5,
            vad_release: 0.35,
            speech_start_ms: 64,
            speech_end_ms: 600,
            vad_onnxruntime: None,
            gain: GainConfig::default(),
            delivery: Delivery::default(),
            echo_guard: false,
            noise_suppression: false,
            mixer: MixerConfig::default(),
            background: None,
            jitter_min_ms: 20,
            jitter_max_ms: 200,
            media_timeout_s: 30.0,
            media_timeout_dtx_s: 120.0,
            dtmf: DtmfMode::Auto,
            playout_max_s: 120.0,
            media_cores: Vec::new(),
            media_priority: None,
            guard: GuardConfig::default(),
        }
    }
}

impl EngineConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first field that cannot work, why, and what to write instead.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_network()?;
        crate::config_network::validate(self)?;
        crate::config_dialogs::validate(&self.dialogs)?;
        self.validate_speech()?;
        crate::config_signal::validate(self)?;
        self.validate_media()?;
        self.guard.validate()
    }

    fn validate_network(&self) -> Result<(), ConfigError> {
        let bad = ConfigError::new;
        if let Some(public) = self.public_address {
            if public.is_unspecified() || public.is_multicast() {
                return Err(bad(
                    "public_address",
                    format!("{public} is not an address a peer can reach"),
                    "give the address peers send to, or leave it out",
                ));
            }
            let both = self.bind.is_ipv6() && self.bind.is_unspecified();
            if public.is_ipv4() != self.bind.is_ipv4() && !both {
                return Err(bad(
                    "public_address",
                    format!("{public} and bind {} are of different families", self.bind),
                    "use IPv4 for both or IPv6 for both, or bind :: for both versions",
                ));
            }
        }
        let (first, last) = self.rtp_ports;
        if first < 1024 {
            return Err(bad(
                "rtp_ports",
                format!("first port {first} is below 1024"),
                "use ports from 1024 up, such as (16384, 32767)",
            ));
        }
        if last <= first {
            return Err(bad(
                "rtp_ports",
                format!("({first}, {last}) is empty"),
                "the second port must be greater than the first",
            ));
        }
        if self.max_calls == 0 || self.max_calls > 4000 {
            return Err(bad(
                "max_calls",
                format!("{} is out of range", self.max_calls),
                "use 1 to 4000",
            ));
        }
        // A call needs an even port for RTP and the odd one above it for RTCP (RFC 3550 section 11).
        let pairs = usize::from(last).div_ceil(2) - usize::from(first).div_ceil(2);
        if pairs < self.max_calls {
            return Err(bad(
                "rtp_ports",
                format!(
                    "({first}, {last}) holds {pairs} port pairs for max_calls {}",
                    self.max_calls
                ),
                "widen rtp_ports to two ports a call, or lower max_calls",
            ));
        }
        if self.sip_port != 0 && (first..=last).contains(&self.sip_port) {
            return Err(bad(
                "rtp_ports",
                format!("({first}, {last}) contains sip_port {}", self.sip_port),
                "keep the SIP port outside the RTP ports",
            ));
        }
        if self.codecs.is_empty() {
            return Err(bad(
                "codecs",
                "no codec given".to_owned(),
                "give one or more of PCMA, PCMU, G722",
            ));
        }
        for (i, codec) in self.codecs.iter().enumerate() {
            if self.codecs.iter().take(i).any(|c| c == codec) {
                return Err(bad(
                    "codecs",
                    format!("{codec:?} is given twice"),
                    "give each codec once",
                ));
            }
        }
        if self.user_agent.len() > 128
            || self.user_agent.chars().any(|c| !(' '..='~').contains(&c) || matches!(c, '"' | '\\'))
        {
            return Err(bad(
                "user_agent",
                "not printable ASCII of at most 128 characters without quotes and backslashes"
                    .to_owned(),
                "use letters, digits, spaces and / . - _",
            ));
        }
        Ok(())
    }

    fn validate_speech(&self) -> Result<(), ConfigError> {
        let bad = ConfigError::new;
        let probability = |v: f32| v > 0.0 && v < 1.0;
        if !probability(self.vad_threshold) {
            return Err(bad(
                "vad_threshold",
                format!("{} is not between 0 and 1", self.vad_threshold),
                "use about 0.5",
            ));
        }
        if !probability(self.vad_release) || self.vad_release > self.vad_threshold {
            return Err(bad(
                "vad_release",
                format!(
                    "{} is not between 0 and vad_threshold {}",
                    self.vad_release, self.vad_threshold
                ),
                "use about 0.15 less than vad_threshold",
            ));
        }
        within("preroll_ms", self.preroll_ms, 0, 2_000)?;
        within("speech_start_ms", self.speech_start_ms, 0, 2_000)?;
        within("speech_end_ms", self.speech_end_ms, 32, 10_000)
    }

    fn validate_media(&self) -> Result<(), ConfigError> {
        let bad = ConfigError::new;
        within("jitter_min_ms", self.jitter_min_ms, 0, 1_000)?;
        within("jitter_max_ms", self.jitter_max_ms, 20, 1_000)?;
        if self.jitter_max_ms < self.jitter_min_ms {
            return Err(bad(
                "jitter_max_ms",
                format!("{} is less than jitter_min_ms {}", self.jitter_max_ms, self.jitter_min_ms),
                "give a greater value, such as 200",
            ));
        }
        if !(self.media_timeout_s >= 1.0 && self.media_timeout_s <= 86_400.0) {
            return Err(bad(
                "media_timeout_s",
                format!("{} is out of range", self.media_timeout_s),
                "use 1 to 86400 seconds",
            ));
        }
        // Not a number fails both.
        if !(self.media_timeout_dtx_s >= self.media_timeout_s
            && self.media_timeout_dtx_s <= 86_400.0)
        {
            return Err(bad(
                "media_timeout_dtx_s",
                format!(
                    "{} is not between media_timeout_s {} and 86400",
                    self.media_timeout_dtx_s, self.media_timeout_s
                ),
                "give at least media_timeout_s, such as four times it",
            ));
        }
        if !(self.playout_max_s >= 1.0 && self.playout_max_s <= 3_600.0) {
            return Err(bad(
                "playout_max_s",
                format!("{} is out of range", self.playout_max_s),
                "use 1 to 3600 seconds",
            ));
        }
        if let Some(priority) = self.media_priority {
            if !(1..=99).contains(&priority) {
                return Err(bad(
                    "media_priority",
                    format!("{priority} is out of range"),
                    "use 1 to 99, or leave it out",
                ));
            }
        }
        for (i, core) in self.media_cores.iter().enumerate() {
            if *core >= 1024 {
                return Err(bad(
                    "media_cores",
                    format!("{core} is out of range"),
                    "use numbers of CPUs of this machine",
                ));
            }
            if self.media_cores.iter().take(i).any(|c| c == core) {
                return Err(bad(
                    "media_cores",
                    format!("{core} is given twice"),
                    "give each core once: it gets a media thread of its own",
                ));
            }
        }
        if let Some(dir) = &self.recording_dir {
            if !dir.is_dir() {
                return Err(bad(
                    "recording_dir",
                    format!("{} is not a folder", dir.display()),
                    "create it, writable for this user",
                ));
            }
        }
        Ok(())
    }
}

fn within(field: &'static str, value: u32, least: u32, most: u32) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(
        field,
        format!("{value} is out of range"),
        format!("use {least} to {most}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(config: EngineConfig) -> &'static str {
        config.validate().map_or_else(|e| e.field, |()| "")
    }

    #[test]
    fn default_is_valid() {
        assert_eq!(EngineConfig::default().validate(), Ok(()));
    }

    #[test]
    fn each_bad_value_names_its_field() {
        let d = EngineConfig::default;
        let cases = [
            (
                "public_address",
                EngineConfig { public_address: Some(IpAddr::from([0, 0, 0, 0])), ..d() },
            ),
            (
                "public_address",
                EngineConfig { public_address: Some(IpAddr::from([0u16; 8])), ..d() },
            ),
            ("rtp_ports", EngineConfig { rtp_ports: (500, 20000), ..d() }),
            ("rtp_ports", EngineConfig { rtp_ports: (20000, 20000), ..d() }),
            ("rtp_ports", EngineConfig { rtp_ports: (20000, 20010), ..d() }),
            ("rtp_ports", EngineConfig { rtp_ports: (5000, 15000), ..d() }),
            ("max_calls", EngineConfig { max_calls: 0, ..d() }),
            ("codecs", EngineConfig { codecs: vec![], ..d() }),
            ("codecs", EngineConfig { codecs: vec![Codec::Pcma, Codec::Pcma], ..d() }),
            ("user_agent", EngineConfig { user_agent: "a\r\nVia: x".into(), ..d() }),
            ("user_agent", EngineConfig { user_agent: "a \"quoted\" agent".into(), ..d() }),
            ("vad_threshold", EngineConfig { vad_threshold: f32::NAN, ..d() }),
            ("vad_release", EngineConfig { vad_release: 0.9, ..d() }),
            ("preroll_ms", EngineConfig { preroll_ms: 2001, ..d() }),
            ("speech_end_ms", EngineConfig { speech_end_ms: 0, ..d() }),
            ("jitter_max_ms", EngineConfig { jitter_min_ms: 300, ..d() }),
            ("media_timeout_s", EngineConfig { media_timeout_s: f64::NAN, ..d() }),
            ("media_timeout_dtx_s", EngineConfig { media_timeout_dtx_s: 20.0, ..d() }),
            ("playout_max_s", EngineConfig { playout_max_s: 0.0, ..d() }),
            ("media_priority", EngineConfig { media_priority: Some(100), ..d() }),
            ("media_cores", EngineConfig { media_cores: vec![5000], ..d() }),
            ("media_cores", EngineConfig { media_cores: vec![1, 2, 1], ..d() }),
            (
                "recording_dir",
                EngineConfig { recording_dir: Some("/nowhere/at/all".into()), ..d() },
            ),
        ];
        for (field, config) in cases {
            assert_eq!(field_of(config.clone()), field, "{config:?}");
        }
    }

    #[test]
    fn port_pairs_are_counted_from_the_even_port() {
        let ports = |first, last| EngineConfig {
            rtp_ports: (first, last),
            max_calls: 2,
            ..EngineConfig::default()
        };
        assert_eq!(field_of(ports(20000, 20003)), "");
        assert_eq!(field_of(ports(20001, 20004)), "rtp_ports");
        assert_eq!(field_of(ports(20001, 20005)), "");
    }
}
