// SPDX-License-Identifier: GPL-3.0-or-later
//! What goes into the endpoint and what comes out of it.
//!
//! URIs hold people's numbers: every type with one in it prints redacted (`sip:…@host`) under `{:?}`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::redact::redact_uri;
use crate::sdes::SrtpKeys;

/// A codec of the static RTP/AVP profile (RFC 3551 §6) that this crate can negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 A-law, 8 kHz, static payload type 8.
    Pcma,
    /// G.711 µ-law, 8 kHz, static payload type 0.
    Pcmu,
    /// G.722 at 64 kbit/s: audio of 16 kHz, static payload type 9, and an RTP clock of 8000 Hz all
    /// the same (RFC 3551 §4.5.2).
    G722,
}

impl Codec {
    /// Encoding name as in `a=rtpmap` (RFC 3551 §6).
    pub fn name(self) -> &'static str {
        match self {
            Codec::Pcma => "PCMA",
            Codec::Pcmu => "PCMU",
            Codec::G722 => "G722",
        }
    }

    /// Static payload type of RFC 3551 §6.
    pub fn static_payload_type(self) -> u8 {
        match self {
            Codec::Pcma => 8,
            Codec::Pcmu => 0,
            Codec::G722 => 9,
        }
    }

    /// RTP clock rate in Hz.
    pub fn clock_rate(self) -> u32 {
        8000
    }
}

/// Direction of a media stream as seen from us (RFC 3264 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// We send and receive.
    SendRecv,
    /// We only send.
    SendOnly,
    /// We only receive: the peer holds us.
    RecvOnly,
    /// Neither.
    Inactive,
}

impl Direction {
    /// Whether we may send RTP.
    pub fn sends(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::SendOnly)
    }

    /// Whether RTP may arrive.
    pub fn receives(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::RecvOnly)
    }
}

/// One call of this process. Never reused while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One registration of this process. Never reused while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegId(pub u64);

impl fmt::Display for RegId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One probe of a trunk in this process. Never reused while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeId(pub u64);

impl fmt::Display for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a SIP message travels by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection in clear.
    Tcp,
    /// TLS 1.2 or 1.3; certificates are verified.
    Tls,
}

/// Files of TLS, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// Authorities that sign our peers' certificates. `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, its chain behind it. Shown to callers, and to servers that ask. `None`: nobody can connect to us.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`.
    pub key_file: Option<PathBuf>,
    /// Callers must show a certificate signed by `ca_file` (mutual TLS).
    pub verify_client: bool,
}

/// One socket to listen on. See [`Endpoint::listen`](crate::Endpoint::listen).
#[derive(Clone, Debug)]
pub struct Listen {
    /// What it speaks.
    pub transport: Transport,
    /// Address and port; port 0 takes any free one. An IPv6 socket takes IPv6 only.
    pub bind: SocketAddr,
    /// Address peers are told instead of `bind`.
    pub public: Option<IpAddr>,
    /// Sockets that belong together. Calls, registrations and probes of a group leave by its sockets. 0 is any.
    pub group: u32,
    /// Needed for [`Transport::Tls`].
    pub tls: Option<TlsConfig>,
}

/// Settings of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// `User-Agent` of requests and `Server` of responses. Empty: neither is sent.
    pub user_agent: String,
    /// PJSIP's own log: 0 = none, 1 = errors, 2 and above = warnings (nothing above is compiled in).
    pub log_level: u8,
    /// Codecs an offer is checked against. An INVITE with none of them gets 488.
    pub codecs: Vec<Codec>,
    /// Calls at the same time, both directions. An INVITE above gets 503 with `Retry-After`.
    pub max_calls: usize,
    /// Name servers. Empty: those of `/etc/resolv.conf`, and for what they do not know the system's own ways.
    pub nameservers: Vec<SocketAddr>,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            user_agent: "voice-edge".to_owned(),
            log_level: 2,
            codecs: vec![Codec::Pcma, Codec::Pcmu, Codec::G722],
            max_calls: 200,
            nameservers: Vec::new(),
        }
    }
}

/// How long a server may be silent before the next one of its name is asked.
pub const FAILOVER: Duration = Duration::from_secs(5);

/// Digest credentials (RFC 8760: MD5 and SHA-256). Prints without its contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Realm they are meant for, `*` for any.
    pub realm: String,
    /// User name.
    pub username: String,
    /// Password in clear.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("realm", &self.realm).finish_non_exhaustive()
    }
}

/// An outgoing call.
#[derive(Clone)]
pub struct DialRequest {
    /// Request-URI and `To`, such as `sip:100@192.0.2.1:5060;transport=tcp`.
    pub uri: String,
    /// Our address of record for `From`. `None`: `sip:anonymous@<our address>`.
    pub from: Option<String>,
    /// The offer (RFC 8866 text). In place of `0.0.0.0` or `::` in its `o=` and `c=` comes the address of ours that
    /// routes to the server.
    pub sdp: String,
    /// Used when the peer challenges with 401 or 407.
    pub credentials: Option<Credentials>,
    /// Outbound proxy as a SIP URI (put into `Route`, loose routing). `None`: straight to `uri`.
    pub route: Option<String>,
    /// What a call by a transfer or without an offer has beside.
    pub extra: DialExtra,
    /// Sockets to leave by, see [`Listen::group`].
    pub group: u32,
    /// How long a server may be silent before the next one of its name is asked.
    pub failover: Duration,
}

impl Default for DialRequest {
    fn default() -> Self {
        DialRequest {
            uri: String::new(),
            from: None,
            sdp: String::new(),
            credentials: None,
            route: None,
            group: 0,
            failover: FAILOVER,
            extra: DialExtra::default(),
        }
    }
}

impl fmt::Debug for DialRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialRequest")
            .field("uri", &redact_uri(&self.uri))
            .field("credentials", &self.credentials)
            .field("route", &self.route.as_deref().map(redact_uri))
            .finish_non_exhaustive()
    }
}

pub use crate::dialog::{DialExtra, Extension, Policy};

/// A binding to keep at a registrar (RFC 3261 §10).
#[derive(Clone)]
pub struct Registration {
    /// Address of record, such as `sip:100@example.org`.
    pub aor: String,
    /// Registrar as a SIP URI without user part, such as `sip:192.0.2.1:5060`.
    pub registrar: String,
    /// Digest credentials.
    pub credentials: Credentials,
    /// Lifetime asked for, in seconds. The registrar may shorten it (RFC 3261 §10.3).
    pub expires_s: u32,
    /// Outbound proxy as a SIP URI (put into `Route`, loose routing). `None`: straight to the registrar.
    pub proxy: Option<String>,
    /// Sockets to leave by, see [`Listen::group`].
    pub group: u32,
    /// How long a server may be silent before the next one of its name is asked.
    pub failover: Duration,
    /// Pause after the first failed round; it doubles each time, with jitter. Refused credentials wait twelve times as long.
    pub retry_first: Duration,
    /// The longest such pause.
    pub retry_max: Duration,
    /// Interval of CRLF to the registrar over UDP, which keeps the way through a NAT open; zero sends none.
    pub keepalive: Duration,
}

impl Default for Registration {
    fn default() -> Self {
        Registration {
            aor: String::new(),
            registrar: String::new(),
            credentials: Credentials {
                realm: "*".to_owned(),
                username: String::new(),
                password: String::new(),
            },
            expires_s: 300,
            proxy: None,
            group: 0,
            failover: FAILOVER,
            retry_first: Duration::from_secs(5),
            retry_max: Duration::from_secs(300),
            keepalive: Duration::from_secs(15),
        }
    }
}

/// OPTIONS at an interval: is the server there?
#[derive(Clone)]
pub struct Probe {
    /// Server, such as `sip:192.0.2.1:5060`.
    pub uri: String,
    /// `From`; `None`: our address.
    pub from: Option<String>,
    /// Outbound proxy as a SIP URI.
    pub proxy: Option<String>,
    /// Sockets to leave by, see [`Listen::group`].
    pub group: u32,
    /// From one round to the next.
    pub interval: Duration,
    /// How long a server may be silent before the next one of its name is asked.
    pub timeout: Duration,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("uri", &redact_uri(&self.uri)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("aor", &redact_uri(&self.aor))
            .field("registrar", &redact_uri(&self.registrar))
            .field("credentials", &self.credentials)
            .field("expires_s", &self.expires_s)
            .finish()
    }
}

/// The audio stream both sides agreed on (RFC 3264), as we need it to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaDescription {
    /// Where our RTP goes: the peer's `c=` and `m=`. The address is unspecified (`0.0.0.0`) when the peer
    /// holds the old way; then `direction` does not send.
    pub remote_rtp: SocketAddr,
    /// Where our RTCP goes: the peer's `a=rtcp` (RFC 3605), else RTP's port + 1. `None` when the stream has no port.
    pub remote_rtcp: Option<SocketAddr>,
    /// Negotiated codec, both ways.
    pub codec: Codec,
    /// Payload type to send: the peer's number for the codec (7 bits, RFC 3550 §5.1).
    pub payload_type: u8,
    /// Payload type the peer sends: our number for the codec.
    pub rx_payload_type: u8,
    /// Payload type to send `telephone-event` with (RFC 4733), when agreed.
    pub telephone_event: Option<u8>,
    /// Payload type the peer sends `telephone-event` with, when agreed.
    pub rx_telephone_event: Option<u8>,
    /// Payload type of comfort noise (RFC 3389), when agreed.
    pub comfort_noise: Option<u8>,
    /// Packet time the peer asks of us, in ms (RFC 8866 §6.4), at most its `maxptime`; 20 when it
    /// asks for none.
    pub ptime_ms: u8,
    /// As seen from us.
    pub direction: Direction,
    /// Where RTCP goes.
    pub rtcp: RtcpWay,
}

/// What was agreed on about RTCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RtcpWay {
    /// On a port of its own.
    #[default]
    Beside,
    /// On the port of RTP: the peer offered it (RFC 5761).
    Mux,
    /// Nowhere: the peer gives it no bandwidth (RFC 3556).
    Off,
}

/// What happened, in order. `call` and `reg` are the ids this crate gave out.
#[derive(Clone, PartialEq, Eq)]
pub enum SipEvent {
    /// A new INVITE that passed all checks. 100 was sent; the call waits for `ring`, `answer` or `reject`.
    Incoming {
        /// Id of the new call.
        call: CallId,
        /// SIP `Call-ID`.
        sip_call_id: String,
        /// URI of `From`, without display name.
        from: String,
        /// URI of `To`, without display name.
        to: String,
        /// Request-URI.
        request_uri: String,
        /// Where the INVITE came from.
        source: SocketAddr,
        /// Port of ours that it came in by.
        local_port: u16,
        /// False when the INVITE has no SDP: our 200 then carries the offer.
        has_offer: bool,
    },
    /// A provisional response to our INVITE.
    Progress {
        /// Our outgoing call.
        call: CallId,
        /// 101..=199.
        status: u16,
    },
    /// An offer and its answer are complete, the first or a later time.
    Media {
        /// The call.
        call: CallId,
        /// What was agreed.
        media: MediaDescription,
        /// Keys of SRTP; `None` is plain RTP.
        srtp: Option<Box<SrtpKeys>>,
        /// The SDP came and went over TLS, where nobody on the way reads the keys.
        confidential: bool,
    },
    /// ACK seen (incoming) or sent (outgoing).
    Confirmed {
        /// The call.
        call: CallId,
    },
    /// The call is over; its id is not known any more. Follows `hangup` and `reject` at once.
    Ended {
        /// The call.
        call: CallId,
        /// SIP status that says why: 200 for a BYE, else the final status of the INVITE.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Whether the peer ended it.
        by_remote: bool,
    },
    /// A key came by INFO. `Debug` does not show which.
    Dtmf {
        /// The call.
        call: CallId,
        /// Event code of RFC 4733 section 3.2, 0 to 16.
        event: u8,
        /// How long it was down, as the peer says, in ms.
        duration_ms: u32,
    },
    /// An INFO of ours was answered, or not.
    InfoDone {
        /// The call.
        call: CallId,
        /// Token as given.
        token: u64,
        /// Final status; 408 when none came.
        status: u16,
    },
    /// State of a registration changed or was refreshed.
    Registration {
        /// The registration.
        reg: RegId,
        /// Status of the last response; 408 or 503 also when none came. 200 with `expires_s` 0: unregistered.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Lifetime granted, in seconds; 0 when not registered.
        expires_s: u32,
        /// The server that answered or did not.
        server: Option<SocketAddr>,
        /// After a failure: when it is tried again.
        retry: Option<Duration>,
    },
    /// A round of a [`Probe`] is over.
    Probe {
        /// The probe.
        probe: ProbeId,
        /// Whether a server answered.
        alive: bool,
        /// Status of the last response; 408, 502 or 503 also when none came.
        status: u16,
        /// Reason phrase, or what is in the way.
        reason: String,
        /// From request to answer.
        rtt: Option<Duration>,
        /// The server that answered or did not.
        server: Option<SocketAddr>,
    },
    /// A request refused here, that never became a call.
    Rejected {
        /// Who sent it.
        source: SocketAddr,
        /// Status sent.
        status: u16,
        /// Why, in our words.
        why: &'static str,
    },
    /// Media may run before the answer: the callee sent SDP in a 18x, or the caller has ours in a 183 (its PRACK
    /// came, or it needs none). Comes after `Media`, each time for a callee.
    EarlyMedia {
        /// The call.
        call: CallId,
    },
    /// Outcome of [`Endpoint::offer`](crate::Endpoint::offer).
    Offered {
        /// The call.
        call: CallId,
        /// 200, or why the session stays as it was; 481 and 408 also end the call.
        status: u16,
    },
    /// How far the transfer that we asked for has come.
    Referred {
        /// The call whose peer is to go elsewhere. It may have ended by now.
        call: CallId,
        /// Status of the peer's new call; 202 as the last one: accepted, and nothing heard since.
        status: u16,
        /// Nothing follows.
        last: bool,
    },
    /// The peer asks us to call somebody else (RFC 3515). 202 and a first NOTIFY went out;
    /// [`Endpoint::refer_status`](crate::Endpoint::refer_status) tells it the rest.
    Refer {
        /// The call.
        call: CallId,
        /// Whom to call: URI of `Refer-To` without headers.
        target: String,
        /// The `Replaces` that came with it, for the INVITE.
        replaces: Option<String>,
    },
    /// An INVITE that is to take over `replaced` (RFC 3891). As [`SipEvent::Incoming`] otherwise.
    Takeover {
        /// Id of the new call.
        call: CallId,
        /// The call it is to take over. It lasts until somebody hangs it up.
        replaced: CallId,
        /// SIP `Call-ID`.
        sip_call_id: String,
        /// URI of `From`, without display name.
        from: String,
        /// Where the INVITE came from.
        source: SocketAddr,
    },
    /// Something arrived that is no SIP message.
    Malformed {
        /// Who sent it, when the transport told.
        source: Option<SocketAddr>,
        /// Why it was dropped, redacted.
        why: String,
    },
    /// A line for the log, redacted: no user parts, no digits of theirs.
    Log {
        /// 1 = error, 2 = warning, 3 = information.
        level: u8,
        /// Text.
        message: String,
    },
}

impl fmt::Debug for SipEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SipEvent::Incoming { call, from, to, request_uri, source, has_offer, .. } => f
                .debug_struct("Incoming")
                .field("call", call)
                .field("from", &redact_uri(from))
                .field("to", &redact_uri(to))
                .field("request_uri", &redact_uri(request_uri))
                .field("source", source)
                .field("has_offer", has_offer)
                .finish_non_exhaustive(),
            SipEvent::Progress { call, status } => {
                f.debug_struct("Progress").field("call", call).field("status", status).finish()
            }
            SipEvent::Media { call, media, srtp, confidential } => f
                .debug_struct("Media")
                .field("call", call)
                .field("media", media)
                .field("srtp", srtp)
                .field("confidential", confidential)
                .finish(),
            SipEvent::Confirmed { call } => {
                f.debug_struct("Confirmed").field("call", call).finish()
            }
            SipEvent::Ended { call, status, reason, by_remote } => f
                .debug_struct("Ended")
                .field("call", call)
                .field("status", status)
                .field("reason", reason)
                .field("by_remote", by_remote)
                .finish(),
            SipEvent::Dtmf { call, .. } => {
                f.debug_struct("Dtmf").field("call", call).finish_non_exhaustive()
            }
            SipEvent::InfoDone { call, status, .. } => {
                f.debug_struct("InfoDone").field("call", call).field("status", status).finish()
            }
            SipEvent::Registration { reg, status, reason, expires_s, server, retry } => f
                .debug_struct("Registration")
                .field("reg", reg)
                .field("status", status)
                .field("reason", reason)
                .field("expires_s", expires_s)
                .field("server", server)
                .field("retry", retry)
                .finish(),
            SipEvent::Probe { probe, alive, status, reason, rtt, server } => f
                .debug_struct("Probe")
                .field("probe", probe)
                .field("alive", alive)
                .field("status", status)
                .field("reason", reason)
                .field("rtt", rtt)
                .field("server", server)
                .finish(),
            SipEvent::Rejected { source, status, why } => f
                .debug_struct("Rejected")
                .field("source", source)
                .field("status", status)
                .field("why", why)
                .finish(),
            SipEvent::EarlyMedia { call } => {
                f.debug_struct("EarlyMedia").field("call", call).finish()
            }
            SipEvent::Offered { call, status } => {
                f.debug_struct("Offered").field("call", call).field("status", status).finish()
            }
            SipEvent::Referred { call, status, last } => f
                .debug_struct("Referred")
                .field("call", call)
                .field("status", status)
                .field("last", last)
                .finish(),
            SipEvent::Refer { call, target, .. } => f
                .debug_struct("Refer")
                .field("call", call)
                .field("target", &redact_uri(target))
                .finish_non_exhaustive(),
            SipEvent::Takeover { call, replaced, source, .. } => f
                .debug_struct("Takeover")
                .field("call", call)
                .field("replaced", replaced)
                .field("source", source)
                .finish_non_exhaustive(),
            SipEvent::Malformed { source, why } => {
                f.debug_struct("Malformed").field("source", source).field("why", why).finish()
            }
            SipEvent::Log { level, message } => {
                f.debug_struct("Log").field("level", level).field("message", message).finish()
            }
        }
    }
}

/// Counters since the endpoint was created. Exact, unlike the events, whose rate is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Datagrams and stream data dropped because they were no SIP message.
    pub malformed: u64,
    /// Requests refused by this crate itself (see [`SipEvent::Rejected`]).
    pub rejected: u64,
    /// Log lines and Malformed/Rejected events held back by the rate bound.
    pub events_suppressed: u64,
    /// Calls that exist now.
    pub calls: usize,
    /// Transactions the stack holds now; an answered INVITE's stays for 32 s (RFC 6026).
    pub transactions: u64,
    /// Dialogs the stack holds now.
    pub dialogs: u64,
}
