# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings themselves: one frozen dataclass a TOML table. Limits live beside the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as _field
from pathlib import Path
from typing import Any

from .secret import Secret

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """What the reader checks of one setting beyond its type."""

    low: float | None = None
    high: float | None = None
    choices: tuple[str | int, ...] = ()
    kind: str = ""  # "", "url", "host", "bind", "nameserver", "file", "dir", "secret_file", "sip_uri", "text", …


def setting(default: Any = REQUIRED, *, private: bool = False, **rule: Any) -> Any:
    """A dataclass field with its :class:`Rule`; ``private`` keeps it out of the repr."""
    metadata = {"rule": Rule(**rule)}
    if default is REQUIRED:
        return _field(metadata=metadata, repr=not private)
    if isinstance(default, dict):
        return _field(default_factory=dict, metadata=metadata, repr=not private)
    return _field(default=default, metadata=metadata, repr=not private)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunk:
    """One SIP provider or PBX: we register there, or it knows us by our address."""

    name: str = setting(kind="text")
    registrar: str | None = setting(None, kind="sip_uri")
    server: str | None = setting(None, kind="sip_uri")
    proxy: str | None = setting(None, kind="sip_uri")
    aor: str | None = setting(None, kind="sip_uri", private=True)
    username: str | None = setting(None, kind="text", private=True)
    password_file: Secret | None = setting(None, kind="secret_file")
    realm: str = setting("*", kind="text")
    expires_s: int = setting(300, low=30, high=86_400)
    options_s: float = setting(30.0, low=0, high=3_600)
    srtp: str | None = setting(None, choices=("off", "optional", "required"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS for SIP. Outgoing connections need none of it."""

    port: int = setting(5061, low=0, high=65_535)
    ca_file: Path | None = setting(None, kind="file")
    cert_file: Path | None = setting(None, kind="file")
    key_file: Path | None = setting(None, kind="file")
    verify_client: bool = setting(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SipTimers:
    """Session timers (RFC 4028)."""

    session: str = setting("supported", choices=("off", "supported", "required", "always"))
    session_expires_s: int = setting(1_800, low=90, high=86_400)
    min_session_expires_s: int = setting(90, low=90, high=86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardUser:
    """One who may call with a password."""

    name: str = setting(kind="text", private=True)
    password_file: Secret = setting(kind="secret_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Who may call, and how much."""

    acl: tuple[str, ...] | None = setting(None, kind="network")
    unlisted: str = setting("silent", choices=("silent", "refuse", "challenge"))
    scanners: tuple[str, ...] | None = setting(None, kind="text")
    realm: str = setting("voice-edge", kind="text")
    nonce_s: int = setting(60, low=5, high=3_600)
    invites_per_s: float = setting(10.0, low=0, high=10_000)
    invite_burst: int = setting(40, low=1, high=10_000)
    calls_per_source: int = setting(0, low=0, high=4_000)
    pending_per_source: int = setting(20, low=0, high=4_000)
    limit_listed: bool = setting(False)
    sources_max: int = setting(4_096, low=16, high=1_000_000)
    user: tuple[GuardUser, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sip:
    bind: str = setting("0.0.0.0", kind="bind")
    port: int = setting(5060, low=0, high=65_535)
    tcp: bool = setting(True)
    public_address: str | None = setting(None, kind="bind")
    rtp_ports: tuple[int, ...] = setting((16_384, 32_767), low=1_024, high=65_535)
    codecs: tuple[str, ...] = setting(("PCMA", "PCMU", "G722"), choices=("PCMA", "PCMU", "G722"))
    max_calls: int = setting(200, low=1, high=4_000)
    user_agent: str = setting("voice-edge", kind="text")
    nameservers: tuple[str, ...] = setting((), kind="nameserver")
    prack: str = setting("supported", choices=("off", "supported", "required"))
    replaces: str = setting("allow", choices=("allow", "refuse"))
    redirects: int = setting(3, low=0, high=20)
    large_requests: str = setting("udp", choices=("udp", "tcp"))
    timers: SipTimers = _field(default_factory=SipTimers)
    tls: Tls = _field(default_factory=Tls)
    guard: Guard
    trunk: tuple[Trunk, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    dir: Path | None = setting(None, kind="dir")
    quota_mb: int | None = setting(None, low=1, high=100_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vad:
    threshold: float = setting(0.5, low=0.05, high=0.95)
    release: float = setting(0.35, low=0.01, high=0.95)
    speech_start_ms: int = setting(64, low=32, high=1_000)
    speech_end_ms: int = setting(600, low=100, high=5_000)
    preroll_ms: int = setting(300, low=0, high=2_000)
    backend: str = setting("kernel", choices=("kernel", "onnxruntime"))
    onnxruntime: Path | None = setting(None, kind="file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What callers' speech is brought to before it is listened to."""

    enabled: bool = setting(False)
    target_dbov: float = setting(-26.0, low=-50, high=-10)
    max_db: float = setting(18.0, low=0, high=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What callers hear: the agent's voice, and what is behind it."""

    voice_db: float = setting(0.0, low=-40, high=20)
    background: str = setting("none", kind="background")
    background_db: float = setting(0.0, low=-40, high=20)
    duck_db: float = setting(-12.0, low=-40, high=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    path: str = setting("core", choices=("core", "python"))
    jitter_min_ms: int = setting(20, low=20, high=500)
    jitter_max_ms: int = setting(200, low=20, high=1_000)
    timeout_s: float = setting(30.0, low=1, high=3_600)
    timeout_dtx_s: float | None = setting(None, low=1, high=86_400)
    dtmf: str = setting("auto", choices=("auto", "rtp", "info"))
    comfort_noise: bool = setting(False)
    chunk_ms: int = setting(20, low=20, high=400)
    echo_guard: bool = setting(False)
    noise_suppression: bool = setting(False)
    playout_max_s: float = setting(120.0, low=5, high=600)
    cores: tuple[int, ...] = setting((), low=0, high=1_023)
    priority: int | None = setting(None, low=1, high=99)
    srtp: str = setting("off", choices=("off", "optional", "required"))
    gain: Gain = _field(default_factory=Gain)
    mix: Mix = _field(default_factory=Mix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What is left when nothing answers. The phrases must not need the servers: they are cached."""

    transfer: str | None = setting(None, kind="sip_uri", private=True)
    transfer_phrase: str = setting("I am putting you through to a colleague.", kind="text")
    menu: str = setting("")
    menu_s: float = setting(10.0, low=1, high=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTool:
    """Whom the model may put callers through to."""

    name: str = setting(kind="text")
    description: str = setting(kind="text")
    target: str = setting(kind="sip_uri", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the model may do beside talking."""

    hang_up: bool = setting(False)
    transfer: tuple[TransferTool, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    language: str = setting("en", kind="text")
    system_prompt: str = setting(kind="text")
    greeting: str = setting("Hello, how can I help you?")
    apology: str = setting(
        "Sorry, I could not answer that just now. Please say it again.", kind="text"
    )
    reprompt: str = setting("Are you still there?", kind="text")
    goodbye: str = setting("Goodbye.", kind="text")
    continue_prompt: str = setting("Please go on.", kind="text")
    barge_in: bool = setting(True)
    barge_in_min_ms: int = setting(0, low=0, high=2_000)
    noise_ms: int = setting(120, low=0, high=1_000)
    backchannels: tuple[str, ...] = setting(
        ("mm", "mhm", "mmhm", "mm-hm", "mm-hmm", "hm", "hmm", "uh-huh", "uh huh", "ah", "oh")
    )
    answer_deadline_s: float = setting(15.0, low=1, high=120)
    patience_s: float = setting(2.0, low=0.5, high=120)
    fillers: tuple[str, ...] = setting(("One moment, please.",), kind="text")
    idle_s: float = setting(10.0, low=1, high=600)
    idle_reprompts: int = setting(1, low=0, high=10)
    max_failures: int = setting(3, low=1, high=100)
    max_call_s: float = setting(1_800.0, low=10, high=86_400)
    history_turns: int = setting(40, low=2, high=1_000)
    fallback: Fallback = _field(default_factory=Fallback)
    tools: Tools = _field(default_factory=Tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What every model server has: where it is and how long each step may take."""

    url: str = setting(kind="url")
    model: str = setting(kind="text")
    api_key_file: Secret | None = setting(None, kind="secret_file")
    connect_s: float = setting(2.0, low=0.05, high=60)
    first_byte_s: float = setting(5.0, low=0.05, high=120)
    between_chunks_s: float = setting(3.0, low=0.05, high=120)
    total_s: float = setting(30.0, low=0.1, high=600)
    failover_s: float = setting(1.5, low=0.05, high=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A server that takes over; what it does not say is as of the server it stands in for."""

    url: str = setting(kind="url")
    model: str | None = setting(None, kind="text")
    api_key_file: Secret | None = setting(None, kind="secret_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceBackup(Backup):
    voice: str | None = setting(None, kind="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Llm(Server):
    temperature: float = setting(0.7, low=0, high=2)
    max_tokens: int = setting(300, low=1, high=32_768)
    extra: Mapping[str, Any] = setting({})
    backup: tuple[Backup, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tts(Server):
    voice: str = setting(kind="text")
    rate: int = setting(24_000, choices=(8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000))
    backup: tuple[VoiceBackup, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Stt(Server):
    rate: int | None = setting(None, choices=(8_000, 16_000))
    max_audio_s: float = setting(30.0, low=5, high=600)
    total_s: float = setting(10.0, low=0.1, high=600)
    backup: tuple[Backup, ...] = setting(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    drain_s: float = setting(30.0, low=0, high=7_200)
    admission: str = setting("refuse", choices=("refuse", "answer", "fallback"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsServer:
    """Where figures are served for Prometheus."""

    bind: str = setting("127.0.0.1", kind="bind")
    port: int | None = setting(None, low=0, high=65_535)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    level: str = setting("info", choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole file."""

    sip: Sip
    recording: Recording
    vad: Vad
    media: Media
    agent: Agent
    llm: Llm
    tts: Tts
    stt: Stt
    service: Service
    metrics: MetricsServer
    log: Log
