# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the native module. `python -m mypy.stubtest voicecore` checks them against it."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, final

__all__ = [
    "Audio",
    "Background",
    "CallConfirmed",
    "CallEnded",
    "CallHeld",
    "CallProgress",
    "CallResumed",
    "CallStats",
    "CommandFailed",
    "Dtmf",
    "DtmfSent",
    "EarlyMedia",
    "Engine",
    "EngineConfig",
    "EngineStats",
    "GuardConfig",
    "IncomingCall",
    "InfoDone",
    "LogMessage",
    "MediaTimeout",
    "OperationDone",
    "PeerReplaced",
    "PlayoutFinished",
    "PlayoutStarted",
    "Recorded",
    "RegistrationChanged",
    "SpeechEnded",
    "SpeechStarted",
    "ThreadStalled",
    "TransferAsked",
    "TransferProgress",
    "TrunkAnswered",
    "check_trunk",
    "error_codes",
    "speech_probabilities",
    "version",
]

def version() -> str:
    """The release of the core."""

def speech_probabilities(pcm: bytes, rate: int, calls: int) -> list[tuple[str, list[int]]]:
    """What each instruction set of this processor makes of the same sound, for tests: its name, and the bits of the
    probabilities of all calls, window by window. Each call hears ``pcm`` (int16) 331 samples further on."""

def error_codes() -> dict[str, str]:
    """Every code of `VoicecoreError.code` with its meaning."""

def check_trunk(
    *,
    server: str,
    proxy: str | None = None,
    aor: str | None = None,
    username: str | None = None,
    password: str | None = None,
    realm: str = "*",
    expires_s: int = 300,
    name: str = "trunk",
) -> None:
    """Whether `Engine.add_trunk` takes such a trunk.

    Raises:
        ConfigError: naming the field as ``trunk.…``, without what is private.
    """

@final
class EngineConfig:
    """Settings of an engine, checked at construction. Raises ConfigError naming the field."""

    def __new__(
        cls,
        *,
        bind: str = "0.0.0.0",
        sip_port: int = 5060,
        tcp: bool = True,
        public_address: str | None = None,
        rtp_ports: tuple[int, int] = ...,
        codecs: Sequence[str] = ...,
        comfort_noise: bool = False,
        max_calls: int = 200,
        user_agent: str = "voice-edge",
        tls_port: int = 5061,
        tls_ca_file: str | PathLike[str] | None = None,
        tls_cert_file: str | PathLike[str] | None = None,
        tls_key_file: str | PathLike[str] | None = None,
        tls_verify_client: bool = False,
        nameservers: Sequence[str] = ...,
        prack: str = "supported",
        session_timer: str = "supported",
        session_expires_s: int = 1800,
        min_session_expires_s: int = 90,
        transfer_requests: str = "refuse",
        replaces: str = "allow",
        redirects: int = 3,
        large_requests: str = "udp",
        recording_dir: str | PathLike[str] | None = None,
        vad: bool = True,
        preroll_ms: int = 300,
        vad_threshold: float = 0.5,
        vad_release: float = 0.35,
        speech_start_ms: int = 64,
        speech_end_ms: int = 600,
        jitter_min_ms: int = 20,
        jitter_max_ms: int = 200,
        media_timeout_s: float = 30.0,
        media_timeout_dtx_s: float | None = None,
        dtmf: str = "auto",
        playout_max_s: float = 120.0,
        media_cores: Sequence[int] = ...,
        media_priority: int | None = None,
        guard: GuardConfig | None = None,
        srtp: str = "off",
        gain: bool = False,
        gain_target_dbov: float = ...,
        gain_max_db: float = 18.0,
        voice_level_db: float = 0.0,
        background: str = "none",
        background_level_db: float = 0.0,
        duck_db: float = ...,
        vad_onnxruntime: str | PathLike[str] | None = None,
        delivery: str = "speech",
        chunk_ms: int = 20,
        echo_guard: bool = False,
        noise_suppression: bool = False,
    ) -> EngineConfig:
        """
        Args:
            bind: address SIP and RTP bind to: one of this machine, "0.0.0.0" for all of IPv4, "::" for IPv4 and
                IPv6.
            sip_port: for UDP and TCP; 0 takes one that is free for both.
            tcp: listen on TCP beside UDP.
            public_address: told to peers in Contact and SDP, behind a one-to-one NAT.
            rtp_ports: first and last UDP port for RTP and RTCP, two ports a call;
                (16384, 32767) unless given.
            codecs: "PCMA", "PCMU", "G722", in the order they are offered; all in this order unless
                given. Of a peer's offer its first choice among them is taken. A call on G722 has
                16 kHz inside; see `Call.rate`.
            comfort_noise: offer it (RFC 3389), so that peers may send less while their user is
                silent. It is accepted whenever a peer offers it, and never sent.
            max_calls: the next call is answered 503.
            user_agent: of the first engine in the process.
            tls_port: where TLS is listened for, when there is a certificate; 0 takes any free port.
            tls_ca_file: PEM file of the authorities that sign our peers' certificates; None takes those of the
                system. Certificates are always verified, the host name in them too; TLS 1.2 is the least.
            tls_cert_file: PEM file of our certificate, its chain behind it; None: nobody connects to us by TLS,
                outgoing connections work all the same.
            tls_key_file: its private key.
            tls_verify_client: callers must show a certificate of ``tls_ca_file`` (mutual TLS).
            nameservers: DNS servers, address or address:port, of the first engine in the process; none given:
                those of the system, and its other ways for names that they do not know.
            prack: reliable provisional answers (100rel, RFC 3262), both roles: "off" (peers that require
                them are refused with 420), "supported", "required" (peers that cannot are refused with 421).
            session_timer: session timers (RFC 4028), both roles: "off", "supported", "required" or "always"
                (also with peers that know none: we refresh, so that a peer that is gone is found out).
            session_expires_s: session interval asked for, 90 to 86400.
            min_session_expires_s: least interval taken; smaller ones are refused with 422. At least 90.
            transfer_requests: "allow" tells REFER of the far end as TransferRequested; "refuse" answers 603.
            replaces: "allow" lets an INVITE with Replaces (attended transfer, RFC 3891) take over the call it
                names; "refuse" answers 403.
            redirects: 3xx answers that one dialled call follows at most, 0 to 20; no target is tried twice.
            large_requests: an INVITE above 1300 bytes (or near it, when a challenge may come) for a peer on UDP:
                "udp" sends it so and logs a warning; "tcp" tries TCP first, as RFC 3261 18.1.1 asks, and
                falls back to UDP. Needs ``tcp``.
            recording_dir: folder for stereo WAV files; None records nothing.
            vad: Listen for speech. False: neither speech nor the caller's audio is told.
            preroll_ms: audio handed over from before the first speech.
            vad_threshold: speech probability at which speech begins.
            vad_release: speech probability below which a pause begins.
            speech_start_ms: speech needed before it counts; up to 64, one window (32 ms) that is sure is enough.
            speech_end_ms: pause that ends a stretch of speech.
            jitter_min_ms: least jitter buffer delay.
            jitter_max_ms: greatest jitter buffer delay.
            media_timeout_s: silence on RTP after which MediaTimeout is told. It counts from the
                answer on, and only while the peer is to send; RTCP of a peer that was heard ends it.
            media_timeout_dtx_s: the same after the peer announced silence by comfort noise
                (RFC 3389); None is four times ``media_timeout_s``.
            dtmf: how keys go out: "rtp" is telephone-event only, "info" SIP INFO only, "auto"
                telephone-event where the peer takes it and else INFO. "rtp" and "info" take keys
                that way only, too.
            playout_max_s: audio that may wait in a call's play-out queue.
            media_cores: CPUs for media, one media thread pinned to each, calls spread evenly. None given: the
                cores that the kernel has isolated (``isolcpus=``), and where there are none, one media thread
                that is not pinned. A core that is refused is logged as a warning; its thread runs unpinned.
            media_priority: SCHED_FIFO priority 1 to 99 of the media threads; None is normal scheduling. Where
                the system refuses it, a warning is logged and they run with normal priority.
            guard: who may call, and how much; the defaults of `GuardConfig` unless given.
            srtp: "off", "optional" or "required": whether media is encrypted with keys from the SDP (RFC 4568).
                "optional" answers what is offered and offers keys under RTP/AVP (RFC 8643); "required" refuses
                calls without. A call that has SRTP keeps it: a new offer without keys is refused with 488, an answer
                without them ends the call. Keys travel in SIP: use TLS.
            gain: bring callers' speech to one level before voice activity and hand-over (recordings keep the line's).
            gain_target_dbov: that level, -50 to -10, -26 unless given; 0 dBov is a full-scale square wave.
            gain_max_db: greatest gain, 0 to 30. The least is -12 dB; noise is not raised above -50 dBov.
            voice_level_db: level of what is played, -40 to 20. What has to be clamped is counted
                (`CallStats.tx_overs`).
            background: what calls begin with behind the agent: "none", "noise" (comfort noise of -50 dBov) or the
                path of a WAV file (16-bit PCM, 8 to 48 kHz, up to 300 s), which is read here; see `Call.background`.
            background_level_db: its level, -40 to 20.
            duck_db: what the background is lowered by while the agent talks, -40 to 0; -12 unless given.
            vad_onnxruntime: path of a libonnxruntime (1.24 or later) that runs the stock model in place of the core's
                kernel, with the same events at about ten times the cost; the media threads then allocate memory
                in every tick. None: the kernel. Refused by builds without it.
            delivery: what of the caller's audio is told as Audio: "speech" (while the caller speaks, from
                ``preroll_ms`` before) or "frames" (every frame from the first SDP on, with or without ``vad``). A call
                may differ: `Call.listen`.
            chunk_ms: an Audio comes as soon as this much waits, and has all that waits: of speech the first one has
                the pre-roll and the last one may be shorter. A multiple of 20, up to 400.
            echo_guard: what is heard counts as silence while it is the agent's own voice, come back over the line up
                to 640 ms later and not louder than it was sent; a voice beside it counts. The audio stays as it is.
            noise_suppression: steady noise is taken out, by up to 15 dB, ahead of voice activity and hand-over
                (recordings keep it); what is told comes 12 ms later, with its times as they were.
        """
    @property
    def bind(self) -> str: ...
    @property
    def sip_port(self) -> int: ...
    @property
    def tcp(self) -> bool: ...
    @property
    def public_address(self) -> str | None: ...
    @property
    def rtp_ports(self) -> tuple[int, int]: ...
    @property
    def codecs(self) -> list[str]: ...
    @property
    def comfort_noise(self) -> bool: ...
    @property
    def max_calls(self) -> int: ...
    @property
    def user_agent(self) -> str: ...
    @property
    def tls_port(self) -> int: ...
    @property
    def tls_ca_file(self) -> str | None: ...
    @property
    def tls_cert_file(self) -> str | None: ...
    @property
    def tls_key_file(self) -> str | None: ...
    @property
    def tls_verify_client(self) -> bool: ...
    @property
    def nameservers(self) -> list[str]: ...
    @property
    def prack(self) -> str: ...
    @property
    def session_timer(self) -> str: ...
    @property
    def session_expires_s(self) -> int: ...
    @property
    def min_session_expires_s(self) -> int: ...
    @property
    def transfer_requests(self) -> str: ...
    @property
    def replaces(self) -> str: ...
    @property
    def redirects(self) -> int: ...
    @property
    def large_requests(self) -> str: ...
    @property
    def recording_dir(self) -> str | None: ...
    @property
    def vad(self) -> bool: ...
    @property
    def preroll_ms(self) -> int: ...
    @property
    def vad_threshold(self) -> float: ...
    @property
    def vad_release(self) -> float: ...
    @property
    def speech_start_ms(self) -> int: ...
    @property
    def speech_end_ms(self) -> int: ...
    @property
    def jitter_min_ms(self) -> int: ...
    @property
    def jitter_max_ms(self) -> int: ...
    @property
    def media_timeout_s(self) -> float: ...
    @property
    def media_timeout_dtx_s(self) -> float: ...
    @property
    def dtmf(self) -> str: ...
    @property
    def playout_max_s(self) -> float: ...
    @property
    def media_cores(self) -> list[int]: ...
    @property
    def media_priority(self) -> int | None: ...
    @property
    def srtp(self) -> str: ...
    @property
    def vad_onnxruntime(self) -> str | None: ...
    @property
    def delivery(self) -> str: ...
    @property
    def chunk_ms(self) -> int: ...
    @property
    def echo_guard(self) -> bool: ...
    @property
    def noise_suppression(self) -> bool: ...
    @property
    def gain(self) -> bool: ...
    @property
    def gain_target_dbov(self) -> float: ...
    @property
    def gain_max_db(self) -> float: ...
    @property
    def voice_level_db(self) -> float: ...
    @property
    def background(self) -> str: ...
    @property
    def background_level_db(self) -> float: ...
    @property
    def duck_db(self) -> float: ...

@final
class Background:
    """What is heard behind the agent, for calls of any rate; make it once and share it between calls.

    Args:
        name: "noise" for comfort noise of -50 dBov, "none" for silence, or the path of a WAV file: 16-bit PCM of
            one or two channels, 8 to 48 kHz, up to 300 s. It is read and resampled here, which takes up to some
            seconds for a long one (the interpreter lock is released); played, it goes round without a seam.

    Raises:
        ConfigError: field ``background``; the file cannot be read or is of another kind.
    """

    def __new__(cls, name: str) -> Background: ...
    @property
    def name(self) -> str: ...

@final
class GuardConfig:
    """Who may call, and how much. Raises ConfigError naming the field as ``guard.…``."""

    def __new__(
        cls,
        *,
        acl: Sequence[str] | None = None,
        unlisted: str = "silent",
        scanners: Sequence[str] = ...,
        realm: str = "voice-edge",
        users: Mapping[str, str] = ...,
        nonce_s: int = 60,
        invites_per_s: float = 10.0,
        invite_burst: int = 40,
        calls_per_source: int = 0,
        pending_per_source: int = 20,
        limit_listed: bool = False,
        sources_max: int = 4096,
    ) -> GuardConfig:
        """
        Args:
            acl: networks ("192.0.2.0/24", "2001:db8::/32") that may call; None: all. This machine (127.0.0.1, ::1 and
                the address bound to) and servers that this engine sends REGISTER or OPTIONS to always may.
            unlisted: what others get: "silent" (nothing), "refuse" (403) or "challenge" (an INVITE must
                authenticate, while those in `acl` need no password).
            scanners: parts of User-Agent, in any case, that get no answer.
            realm: of the challenges.
            users: passwords by name; with any, INVITEs are challenged (digest, SHA-256 and MD5).
            nonce_s: how long a nonce is good.
            invites_per_s: new INVITEs a second from one source; 0: no limit. This and the limits below hold for
                sources that `acl` does not name, never for this machine. An IPv6 source is its /64.
            invite_burst: INVITEs that may come at once.
            calls_per_source: calls of one source at a time; 0: no limit.
            pending_per_source: of these, unanswered or without ACK; 0: no limit.
            limit_listed: the limits hold for sources in `acl` as well.
            sources_max: sources remembered one by one; more of them share one set of limits.
        """
    @property
    def acl(self) -> list[str] | None: ...
    @property
    def unlisted(self) -> str: ...
    @property
    def scanners(self) -> list[str]: ...
    @property
    def realm(self) -> str: ...

@final
class CallStats:
    """Counters of one call's media."""

    def __new__(
        cls,
        *,
        rx_packets: int = ...,
        rx_bytes: int = ...,
        rx_lost: int = ...,
        rx_late: int = ...,
        rx_duplicate: int = ...,
        rx_malformed: int = ...,
        rx_foreign: int = ...,
        rx_wrong_type: int = ...,
        ssrc_changes: int = ...,
        jitter_ms: float = ...,
        jitter_delay_ms: float = ...,
        tx_packets: int = ...,
        tx_bytes: int = ...,
        tx_errors: int = ...,
        concealed_frames: int = ...,
        rtt_ms: float | None = ...,
        remote_fraction_lost: float | None = ...,
        remote_lost: int | None = ...,
        remote_jitter_ms: float | None = ...,
        mos_rx: float | None = ...,
        mos_tx: float | None = ...,
        playout_underruns: int = ...,
        tx_overs: int = ...,
        gain_db: float = ...,
        speech_level_dbov: float | None = ...,
        noise_level_dbov: float | None = ...,
        recording_gap_samples: int = ...,
        codec: str | None = ...,
        rate: int = ...,
        srtp: str | None = ...,
        srtp_auth_errors: int = ...,
        srtp_replays: int = ...,
    ) -> CallStats: ...
    @property
    def rx_packets(self) -> int:
        """RTP packets taken."""

    @property
    def rx_bytes(self) -> int:
        """Payload bytes taken."""

    @property
    def rx_lost(self) -> int:
        """Packets missing by sequence number (RFC 3550 A.3)."""

    @property
    def rx_late(self) -> int:
        """Packets that came after their turn to be played."""

    @property
    def rx_duplicate(self) -> int:
        """Packets that came twice."""

    @property
    def rx_malformed(self) -> int:
        """Datagrams that were neither RTP nor RTCP, or broke its rules."""

    @property
    def rx_foreign(self) -> int:
        """RTP packets from an address that is not the peer's: not played."""

    @property
    def rx_wrong_type(self) -> int:
        """RTP packets of a payload type that was not agreed on: not played."""

    @property
    def ssrc_changes(self) -> int:
        """Changes of the peer's SSRC."""

    @property
    def jitter_ms(self) -> float:
        """Interarrival jitter (RFC 3550 A.8), ms."""

    @property
    def jitter_delay_ms(self) -> float:
        """Jitter buffer delay now, ms."""

    @property
    def tx_packets(self) -> int:
        """RTP packets sent."""

    @property
    def tx_bytes(self) -> int:
        """Payload bytes sent."""

    @property
    def tx_errors(self) -> int:
        """Packets the system refused to send."""

    @property
    def concealed_frames(self) -> int:
        """20 ms frames in which missing audio was concealed."""

    @property
    def rtt_ms(self) -> float | None:
        """Round-trip time from RTCP (RFC 3550 6.4.1), ms."""

    @property
    def remote_fraction_lost(self) -> float | None:
        """Fraction of our packets the peer reports lost since its report before, 0 to 1."""

    @property
    def remote_lost(self) -> int | None:
        """Our packets the peer misses by its last RTCP report, in all."""

    @property
    def remote_jitter_ms(self) -> float | None:
        """Interarrival jitter of our packets by the peer's last report."""

    @property
    def mos_rx(self) -> float | None:
        """Mean opinion score of what we hear, 1 to 4.5, over the whole call.

        E-model (ITU-T G.107): loss as concealed, bursts, jitter buffer delay, half the round trip.
        """

    @property
    def mos_tx(self) -> float | None:
        """The same of what the peer hears, when its RTCP reports tell."""

    @property
    def playout_underruns(self) -> int:
        """Times the play-out queue ran dry inside a turn."""

    @property
    def tx_overs(self) -> int:
        """Samples of what is sent that were clamped: the agent's voice, or what it is mixed with, is too loud."""

    @property
    def gain_db(self) -> float:
        """Gain applied to the caller's audio now; 0 with gain control off."""

    @property
    def speech_level_dbov(self) -> float | None:
        """Level of the caller's speech as it comes in, dBov; None until there was any."""

    @property
    def noise_level_dbov(self) -> float | None:
        """Level of the noise beneath it, dBov; None until anything was heard."""

    @property
    def recording_gap_samples(self) -> int:
        """Samples a channel of the recording replaced by silence."""

    @property
    def codec(self) -> str | None:
        """Codec in use, such as "PCMA"."""

    @property
    def rate(self) -> int:
        """Rate of the call's audio in Hz, 8000 or 16000; 0 until the first codec is agreed on."""

    @property
    def srtp(self) -> str | None:
        """Crypto suite of SRTP, such as "AES_CM_128_HMAC_SHA1_80"; None is plain RTP."""

    @property
    def srtp_auth_errors(self) -> int:
        """Datagrams that did not authenticate under SRTP: not played, not answered, not latched onto."""

    @property
    def srtp_replays(self) -> int:
        """SRTP packets that came twice or were too old to tell."""

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class EngineStats:
    """Counters of an engine since its start."""

    def __new__(
        cls,
        *,
        ticks: int = ...,
        late_ticks: int = ...,
        skipped_ticks: int = ...,
        max_lateness_us: int = ...,
        lateness_p50_us: int = ...,
        lateness_p99_us: int = ...,
        calls_active: int = ...,
        calls_total: int = ...,
        rx_packets: int = ...,
        rx_lost: int = ...,
        rx_late: int = ...,
        rx_duplicate: int = ...,
        rx_malformed: int = ...,
        rx_foreign: int = ...,
        rx_wrong_type: int = ...,
        tx_packets: int = ...,
        tx_errors: int = ...,
        concealed_frames: int = ...,
        playout_underruns: int = ...,
        tx_overs: int = ...,
        events_dropped: int = ...,
        recording_errors: int = ...,
        srtp_auth_errors: int = ...,
        srtp_replays: int = ...,
        sip_transactions: int = ...,
        sip_dialogs: int = ...,
        sip_malformed: int = ...,
        sip_rejected: int = ...,
        sip_unlisted: int = ...,
        sip_scanners: int = ...,
        sip_muted: int = ...,
        sip_limited: int = ...,
        sip_challenged: int = ...,
        sip_auth_failed: int = ...,
        registrations: int = ...,
        registrations_up: int = ...,
        trunks: int = ...,
        trunks_up: int = ...,
    ) -> EngineStats: ...
    @property
    def ticks(self) -> int:
        """20 ms ticks run, the sum over media threads."""

    @property
    def late_ticks(self) -> int:
        """Parts of ticks (a quarter of the calls each) that began more than 5 ms late."""

    @property
    def skipped_ticks(self) -> int:
        """Ticks given up because a media thread was not run for too long."""

    @property
    def max_lateness_us(self) -> int:
        """Greatest lateness of a part of a tick, µs."""

    @property
    def lateness_p50_us(self) -> int:
        """Half of all parts of ticks began no later than this, µs."""

    @property
    def lateness_p99_us(self) -> int:
        """99 of 100 parts of ticks began no later than this, µs."""

    @property
    def calls_active(self) -> int:
        """Calls now, answered or not."""

    @property
    def calls_total(self) -> int:
        """Calls so far, in and out."""

    @property
    def rx_packets(self) -> int:
        """RTP packets taken."""

    @property
    def rx_lost(self) -> int:
        """RTP packets missing by sequence number."""

    @property
    def rx_late(self) -> int:
        """RTP packets that came after their turn to be played."""

    @property
    def rx_duplicate(self) -> int:
        """RTP packets that came twice."""

    @property
    def rx_malformed(self) -> int:
        """Datagrams that were neither RTP nor RTCP, or broke its rules."""

    @property
    def rx_foreign(self) -> int:
        """RTP packets from an address that is not the peer's."""

    @property
    def rx_wrong_type(self) -> int:
        """RTP packets of a payload type that was not agreed on."""

    @property
    def tx_packets(self) -> int:
        """RTP packets sent."""

    @property
    def tx_errors(self) -> int:
        """Packets the system refused to send."""

    @property
    def concealed_frames(self) -> int:
        """20 ms frames in which missing audio was concealed."""

    @property
    def playout_underruns(self) -> int:
        """Times a play-out queue ran dry inside a turn."""

    @property
    def tx_overs(self) -> int:
        """Samples of what is sent that were clamped."""

    @property
    def events_dropped(self) -> int:
        """Events or audio dropped because the application was too slow."""

    @property
    def recording_errors(self) -> int:
        """Recordings given up for a disk error."""

    @property
    def sip_transactions(self) -> int:
        """Transactions the stack holds now; an answered INVITE's stays for 32 s (all engines of the process)."""

    @property
    def sip_dialogs(self) -> int:
        """Dialogs the stack holds now (all engines of the process)."""

    @property
    def sip_malformed(self) -> int:
        """What arrived and was no SIP message (all engines of the process)."""

    @property
    def sip_rejected(self) -> int:
        """Requests refused before they became calls."""

    @property
    def sip_unlisted(self) -> int:
        """Requests dropped or refused: from outside the ACL."""

    @property
    def sip_scanners(self) -> int:
        """Requests dropped in silence: of scanners."""

    @property
    def sip_muted(self) -> int:
        """Requests dropped in silence: of sources that sent too much that was malformed or refused."""

    @property
    def sip_limited(self) -> int:
        """INVITEs and connections over a limit of their source."""

    @property
    def sip_challenged(self) -> int:
        """INVITEs challenged for credentials."""

    @property
    def sip_auth_failed(self) -> int:
        """INVITEs with wrong credentials."""

    @property
    def srtp_auth_errors(self) -> int:
        """Datagrams that did not authenticate under SRTP."""

    @property
    def srtp_replays(self) -> int:
        """SRTP packets that came twice or were too old to tell."""

    @property
    def registrations(self) -> int:
        """Registrations kept."""

    @property
    def registrations_up(self) -> int:
        """Of these, those that stand."""

    @property
    def trunks(self) -> int:
        """Trunks watched by OPTIONS."""

    @property
    def trunks_up(self) -> int:
        """Of these, those that answered last time."""

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class SpeechStarted:
    """The caller began to speak."""

    def __new__(
        cls,
        *,
        at_ns: int,
        decided_ns: int,
    ) -> SpeechStarted: ...
    @property
    def at_ns(self) -> int:
        """Arrival of the first speech sample."""

    @property
    def decided_ns(self) -> int:
        """When voice activity decided it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class SpeechEnded:
    """The caller fell silent for ``speech_end_ms``."""

    def __new__(
        cls,
        *,
        at_ns: int,
        decided_ns: int,
    ) -> SpeechEnded: ...
    @property
    def at_ns(self) -> int:
        """End of the last speech sample."""

    @property
    def decided_ns(self) -> int:
        """When voice activity decided it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Audio:
    """Audio of the caller while speaking; the first one has the pre-roll."""

    def __new__(
        cls,
        *,
        at_ns: int,
        pcm: bytes | bytearray | memoryview,
    ) -> Audio: ...
    @property
    def at_ns(self) -> int:
        """Arrival of the first sample."""

    @property
    def pcm(self) -> memoryview:
        """int16 little-endian mono at the call's rate (`Call.rate`)."""

@final
class PlayoutStarted:
    """The first sample of a turn was sent on RTP."""

    def __new__(
        cls,
        *,
        turn_id: int,
        at_ns: int,
    ) -> PlayoutStarted: ...
    @property
    def turn_id(self) -> int:
        """As given to play()."""

    @property
    def at_ns(self) -> int:
        """When it was sent."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class PlayoutFinished:
    """A turn has left the play-out queue."""

    def __new__(
        cls,
        *,
        turn_id: int,
        samples: int,
        at_ns: int,
        interrupted: bool,
    ) -> PlayoutFinished: ...
    @property
    def turn_id(self) -> int:
        """As given to play()."""

    @property
    def samples(self) -> int:
        """Line-rate samples of the turn that were really sent."""

    @property
    def at_ns(self) -> int:
        """When the last of them ends."""

    @property
    def interrupted(self) -> bool:
        """Cut by clear() or by the end of the call."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Dtmf:
    """The caller pressed a key. What is typed may be a PIN: the repr does not show it."""

    def __new__(
        cls,
        *,
        digit: str,
        duration_ms: int,
        at_ns: int,
        source: str,
    ) -> Dtmf: ...
    @property
    def digit(self) -> str:
        """``0`` to ``9``, ``*``, ``#``, ``A`` to ``D``, or ``!`` for the hook flash."""

    @property
    def duration_ms(self) -> int:
        """How long it was down."""

    @property
    def at_ns(self) -> int:
        """When it went down; by INFO, when that arrived."""

    @property
    def source(self) -> str:
        """``"rtp"`` (telephone-event, RFC 4733) or ``"info"`` (SIP INFO)."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class DtmfSent:
    """Keys of `Engine.send_dtmf` were sent, or cannot be."""

    def __new__(cls, *, request: int, sent: bool) -> DtmfSent: ...
    @property
    def request(self) -> int: ...
    @property
    def sent(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class InfoDone:
    """An INFO of `Engine.send_info` was answered, or not (status 408)."""

    def __new__(cls, *, request: int, status: int) -> InfoDone: ...
    @property
    def request(self) -> int: ...
    @property
    def status(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class MediaTimeout:
    """Nothing came from the peer on RTP, though it should send."""

    def __new__(
        cls,
        *,
        silent_s: float,
    ) -> MediaTimeout: ...
    @property
    def silent_s(self) -> float:
        """Length of the silence so far, s."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class CallEnded:
    """The call is over; the last event of a call."""

    def __new__(
        cls,
        *,
        status: int,
        reason: str,
        by_remote: bool,
        stats: CallStats,
    ) -> CallEnded: ...
    @property
    def status(self) -> int:
        """200 for a BYE, else the final status of the INVITE."""

    @property
    def reason(self) -> str:
        """Reason phrase."""

    @property
    def by_remote(self) -> bool:
        """Whether the far end ended it."""

    @property
    def stats(self) -> CallStats:
        """Final counters."""

@final
class IncomingCall:
    """A call came in. Its repr has no personal data."""

    def __new__(
        cls,
        *,
        caller: str,
        dialled: str,
        sip_call_id: str,
        source: str,
        account: str | None = None,
    ) -> IncomingCall: ...
    @property
    def caller(self) -> str:
        """URI of From. Personal data."""

    @property
    def dialled(self) -> str:
        """URI of To. Personal data."""

    @property
    def sip_call_id(self) -> str:
        """The Call-ID header."""

    @property
    def source(self) -> str:
        """address:port of the sender."""

    @property
    def account(self) -> str | None:
        """User name of `GuardConfig.users` that the caller authenticated with. Personal data."""

@final
class CallProgress:
    """A provisional response to a dialled call."""

    def __new__(
        cls,
        *,
        status: int,
        sip_call_id: str,
    ) -> CallProgress: ...
    @property
    def status(self) -> int:
        """101 to 199."""

    @property
    def sip_call_id(self) -> str:
        """The Call-ID header, or empty."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class CallConfirmed:
    """Answered and acknowledged; audio runs."""

    def __new__(
        cls,
        *,
        recording: str | None,
    ) -> CallConfirmed: ...
    @property
    def recording(self) -> str | None:
        """Path of the WAV."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class EarlyMedia:
    """Audio runs before the answer."""

    def __new__(
        cls,
        *,
        recording: str | None,
    ) -> EarlyMedia: ...
    @property
    def recording(self) -> str | None:
        """Path of the WAV."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class CallHeld:
    """The far end has put us on hold: it does not hear us."""

    def __new__(
        cls,
        *,
        at_ns: int,
    ) -> CallHeld: ...
    @property
    def at_ns(self) -> int:
        """When its offer was answered."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class CallResumed:
    """The far end hears us again."""

    def __new__(
        cls,
        *,
        at_ns: int,
    ) -> CallResumed: ...
    @property
    def at_ns(self) -> int:
        """When its offer was answered."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class TransferProgress:
    """How far a transfer that we asked for has come."""

    def __new__(
        cls,
        *,
        status: int,
        last: bool,
    ) -> TransferProgress: ...
    @property
    def status(self) -> int:
        """Status of the far end's new call, or of its answer to REFER."""

    @property
    def last(self) -> bool:
        """Nothing follows."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class OperationDone:
    """Outcome of an operation inside of a call."""

    def __new__(
        cls,
        *,
        operation: str,
        status: int,
        code: str | None,
        message: str | None,
    ) -> OperationDone: ...
    @property
    def operation(self) -> str:
        """ "offer", "transfer" or "early_media"."""

    @property
    def status(self) -> int:
        """SIP status."""

    @property
    def code(self) -> str | None:
        """Stable code, when it never left this machine."""

    @property
    def message(self) -> str | None:
        """Place and remedy, with `code`."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class TransferAsked:
    """The far end asks us to call somebody else. Its repr has no personal data."""

    def __new__(
        cls,
        *,
        target: str,
    ) -> TransferAsked: ...
    @property
    def target(self) -> str:
        """A SIP URI. Personal data."""

@final
class PeerReplaced:
    """The call has another far end now. Its repr has no personal data."""

    def __new__(
        cls,
        *,
        caller: str,
        sip_call_id: str,
        source: str,
    ) -> PeerReplaced: ...
    @property
    def caller(self) -> str:
        """URI of From. Personal data."""

    @property
    def sip_call_id(self) -> str:
        """The Call-ID header of the new dialog."""

    @property
    def source(self) -> str:
        """address:port of the sender."""

@final
class CommandFailed:
    """A command about a call could not be carried out."""

    def __new__(
        cls,
        *,
        code: str,
        message: str,
        status: int,
    ) -> CommandFailed: ...
    @property
    def code(self) -> str:
        """Stable code."""

    @property
    def message(self) -> str:
        """Place and remedy."""

    @property
    def status(self) -> int:
        """SIP status that fits it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class RegistrationChanged:
    """A registration changed or was refreshed."""

    def __new__(
        cls,
        *,
        registration: int,
        status: int,
        reason: str,
        expires_s: int,
        server: str | None,
        retry_s: float | None,
    ) -> RegistrationChanged: ...
    @property
    def registration(self) -> int:
        """Id as given by Engine.register."""

    @property
    def status(self) -> int:
        """Status of the last response."""

    @property
    def reason(self) -> str:
        """Reason phrase."""

    @property
    def expires_s(self) -> int:
        """Lifetime granted, s."""

    @property
    def server(self) -> str | None:
        """address:port of the server that answered or did not."""

    @property
    def retry_s(self) -> float | None:
        """After a failure: s until the next try."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class TrunkAnswered:
    """A trunk answered OPTIONS, or did not."""

    def __new__(
        cls,
        *,
        watch: int,
        alive: bool,
        status: int,
        reason: str,
        rtt_ms: float | None,
        server: str | None,
    ) -> TrunkAnswered: ...
    @property
    def watch(self) -> int:
        """Id as given by Engine.watch."""

    @property
    def alive(self) -> bool:
        """Whether it answered."""

    @property
    def status(self) -> int:
        """Status of the answer; 408, 502 or 503 also when none came."""

    @property
    def reason(self) -> str:
        """Reason phrase, or what is in the way."""

    @property
    def rtt_ms(self) -> float | None:
        """From request to answer, ms."""

    @property
    def server(self) -> str | None:
        """address:port of the server that answered or did not."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class LogMessage:
    """A line for the log, without personal data."""

    def __new__(
        cls,
        *,
        level: int,
        message: str,
    ) -> LogMessage: ...
    @property
    def level(self) -> int:
        """As in Python's logging."""

    @property
    def message(self) -> str:
        """The line."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class ThreadStalled:
    """A thread of the core, or the application itself, does not come back in time, or has come back.

    Told when it is late by its limit (media threads 0.5 s, the recorder 1.5 s, the SIP thread and the application
    2 s), again each time that has doubled, and once when it runs again. Never for a process that was stopped as a
    whole, or for a machine that slept.
    """

    def __new__(
        cls,
        *,
        thread: str,
        stuck_s: float,
        over: bool,
        message: str,
    ) -> ThreadStalled: ...
    @property
    def thread(self) -> str:
        """As the system names it: ``vc-sip``, ``vc-media-0``, ``vc-record``; ``application`` is who fetches events."""

    @property
    def stuck_s(self) -> float:
        """For how long; at its end, how long it was in all."""

    @property
    def over(self) -> bool:
        """It runs again."""

    @property
    def message(self) -> str:
        """The line that is logged: place, what happened, remedy."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

_Event: TypeAlias = (
    SpeechStarted
    | SpeechEnded
    | Audio
    | PlayoutStarted
    | PlayoutFinished
    | MediaTimeout
    | Dtmf
    | DtmfSent
    | InfoDone
    | CallEnded
    | IncomingCall
    | CallProgress
    | CallConfirmed
    | CommandFailed
    | EarlyMedia
    | CallHeld
    | CallResumed
    | TransferProgress
    | OperationDone
    | TransferAsked
    | PeerReplaced
    | RegistrationChanged
    | TrunkAnswered
    | ThreadStalled
    | LogMessage
)

@final
@final
class Recorded:
    """Calls from a recording at their own pace, for the benchmarks: no sockets, and drained as an engine is."""

    def __new__(cls, calls: int, pcm: bytes, ticks: int, *, gain: bool = False) -> Recorded: ...
    def start(self) -> None: ...
    def event_fd(self) -> int: ...
    def running(self) -> bool: ...
    def spent(self) -> list[int]:
        """Thread time so far, ns: receiving, decoding and gain, voice activity, hand-over; fetching without a lock."""

    def drain(self) -> tuple[list[int], list[object]]: ...

@final
class Engine:
    """Native engine behind `voicecore.Engine`. Commands return at once; outcomes come by `drain`."""

    def __new__(cls, config: EngineConfig) -> Engine: ...
    def start(self) -> tuple[str, int]:
        """Binds sockets, starts threads; blocks for some milliseconds. Address and port of SIP."""

    def stop(self) -> None:
        """Ends all; blocks for up to 3 s. One more drain fetches what happened meanwhile."""

    def event_fd(self) -> int:
        """Descriptor that is readable when `drain` would give something."""

    def drain(self) -> tuple[list[int], list[_Event]]:
        """What happened since the last time: call ids (or 0) and events, two lists of the same length. Never waits."""

    def ring(self, call: int) -> None: ...
    def answer(self, call: int) -> None: ...
    def reject(self, call: int, status: int, retry_after: int | None) -> None: ...
    def hangup(self, call: int) -> None: ...
    def dtmf_way(self, call: int) -> str:
        """``"rtp"`` for `send_dtmf`, ``"info"`` for `send_info`. Raises SignallingError."""

    def send_dtmf(self, call: int, digits: str, duration_ms: int, gap_ms: int) -> int:
        """Sends keys as telephone-events; the number that DtmfSent will have."""

    def send_info(self, call: int, digit: str, duration_ms: int) -> int:
        """Sends one key by SIP INFO; the number that InfoDone will have."""

    def dial(
        self,
        uri: str,
        towards: str | None,
        username: str | None,
        password: str | None,
        late_offer: bool,
        srtp: str | None,
        aor: str | None,
        proxy: str | None,
    ) -> int:
        """Places a call and returns its id."""

    def early_media(self, call: int) -> None: ...
    def offer(self, call: int, direction: str | None, codecs: Sequence[str] | None) -> None:
        """Offers the session anew with this direction, or these codecs, or as it is."""

    def transfer(self, call: int, target: str) -> None:
        """Blind transfer."""

    def transfer_to(self, call: int, other: int) -> None:
        """Attended transfer."""

    def refuse_transfer(self, call: int, status: int) -> None: ...
    def follow_transfer(self, call: int, username: str | None, password: str | None) -> int:
        """Calls whom the peer of `call` asked for and returns the new call's id."""

    def register(
        self,
        name: str,
        aor: str,
        registrar: str,
        proxy: str | None,
        username: str,
        password: str,
        realm: str,
        expires_s: int,
        retry_first_s: float,
        retry_max_s: float,
    ) -> int:
        """Keeps a registration and returns its id."""

    def update_password(self, registration: int, password: str) -> None:
        """Registers again at once with another password."""

    def watch(
        self,
        name: str,
        uri: str,
        aor: str | None,
        proxy: str | None,
        interval_s: float,
        timeout_s: float,
    ) -> int:
        """Sends OPTIONS to a trunk at an interval and returns an id."""

    def unwatch(self, watch: int) -> None: ...
    def unregister(self, registration: int) -> None: ...
    def play(self, call: int, pcm: bytes | bytearray | memoryview, rate: int, turn_id: int) -> None:
        """Appends int16 little-endian mono PCM to a turn. Raises PlayoutFull, CallGone."""

    def set_background(self, call: int, background: Background | None) -> None: ...
    def listen(
        self,
        call: int,
        delivery: str | None,
        chunk_ms: int | None,
        echo_guard: bool | None,
        noise_suppression: bool | None,
    ) -> None:
        """Hears the caller in another way; None leaves it."""

    def finish(self, call: int, turn_id: int) -> None: ...
    def clear(self, call: int, turn_id: int | None) -> None: ...
    def call_stats(self, call: int) -> CallStats:
        """Counters of a call that has not ended. Raises CallGone."""

    def set_draining(self, retry_after_s: int | None) -> None:
        """New calls get 503 with this Retry-After; None ends that."""

    def set_srtp_of(self, peers: Sequence[tuple[str, str]]) -> None:
        """Addresses whose calls have another SRTP mode than the configured one."""

    def reload_tls(self) -> None:
        """Reads the files of TLS again."""

    def set_acl(self, acl: Sequence[str] | None) -> None:
        """Replaces the networks that may call; None: all."""

    def stats(self, consumer_dropped: int) -> EngineStats:
        """Counters of the engine; ``consumer_dropped`` is added to ``events_dropped``."""
