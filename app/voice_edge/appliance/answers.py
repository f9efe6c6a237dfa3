# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer file: all that a box must be told, in one TOML file (config/answers.example.toml)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..settings.model import Agent, Log, setting
from ..settings.reader import read
from ..settings.secret import Secret
from ..update import policy, versions

FILE = "voice-edge-answers.toml"
EXAMPLE = "config/answers.example.toml"
RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    hostname: str = setting("voice-edge", kind="hostname")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAnswers:
    """Without ``address`` the box asks DHCP, on every wired interface or the one named."""

    interface: str | None = setting(None, kind="interface")
    address: str | None = setting(None, kind="interface_address")
    gateway: str | None = setting(None, kind="bind")
    dns: tuple[str, ...] = setting((), kind="bind")
    domain: str | None = setting(None, kind="host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    servers: tuple[str, ...] = setting((), kind="host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    ssh_keys: tuple[str, ...] = setting((), kind="ssh_key", private=True)
    networks: tuple[str, ...] = setting((), kind="network")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrunkAnswers:
    """Who may call, and where to register if the provider wants that."""

    addresses: tuple[str, ...] = setting((), kind="network")
    media_networks: tuple[str, ...] = setting((), kind="network")
    registrar: str | None = setting(None, kind="sip_uri")
    aor: str | None = setting(None, kind="sip_uri", private=True)
    username: str | None = setting(None, kind="text", private=True)
    password: Secret | None = setting(None, kind="secret", private=True)
    realm: str = setting("*", kind="text")
    expires_s: int = setting(300, low=30, high=86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class SipAnswers:
    public_address: str | None = setting(None, kind="bind")
    codecs: tuple[str, ...] = setting(("PCMA", "PCMU", "G722"), choices=("PCMA", "PCMU", "G722"))
    max_calls: int = setting(200, low=1, high=4_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """A deadline left out is the agent's own."""

    url: str = setting(kind="url")
    model: str = setting(kind="text")
    api_key: Secret | None = setting(None, kind="secret", private=True)
    connect_s: float | None = setting(None, low=0.05, high=60)
    first_byte_s: float | None = setting(None, low=0.05, high=120)
    between_chunks_s: float | None = setting(None, low=0.05, high=120)
    total_s: float | None = setting(None, low=0.1, high=600)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmServer(ModelServer):
    temperature: float | None = setting(None, low=0, high=2)
    max_tokens: int | None = setting(None, low=1, high=32_768)
    extra: Mapping[str, Any] = setting({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsServer(ModelServer):
    voice: str = setting(kind="text")
    rate: int | None = setting(None, choices=RATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SttServer(ModelServer):
    rate: int | None = setting(None, choices=(8_000, 16_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingAnswers:
    enabled: bool = setting(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Realtime:
    media_cores: int | None = setting(None, low=0, high=256)
    priority: int = setting(60, low=1, high=95)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAnswers:
    """Where releases come from and when the box may restart; ``url`` is the folder of the channels' indexes."""

    url: str | None = setting(None, kind="url")
    channel: str = setting("stable", choices=("stable", "beta"))
    automatic: bool = setting(True)
    window: str = setting("02:00-04:00", kind="text")
    poll_hours: float = setting(6.0, low=0.25, high=168)
    pin: str | None = setting(None, kind="text")
    drain_s: float | None = setting(None, low=0, high=7_200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The whole file."""

    system: System
    network: NetworkAnswers
    time: Time
    admin: Admin
    sip: SipAnswers
    trunk: TrunkAnswers
    llm: LlmServer
    tts: TtsServer
    stt: SttServer
    agent: Agent
    recording: RecordingAnswers
    realtime: Realtime
    update: UpdateAnswers
    log: Log

    @property
    def callers(self) -> tuple[str, ...]:
        """Networks that SIP is accepted from."""
        trunk = self.trunk
        if trunk.addresses or trunk.registrar is None:
            return trunk.addresses
        return (str(ipaddress.ip_network(_host(trunk.registrar))),)

    @property
    def media(self) -> tuple[str, ...]:
        """Networks that RTP is accepted from; providers often send it from other hosts than SIP."""
        return tuple(dict.fromkeys((*self.callers, *self.trunk.media_networks)))


def parse(text: str, *, file: str) -> Answers:
    """Raises :class:`~voice_edge.settings.SettingsError` with every mistake at once."""
    return read(Answers, text, _checks, file=file, example=EXAMPLE)


def _checks(a: Answers) -> Iterator[tuple[str, str, str]]:
    yield from _network_checks(a.network)
    yield from _update_checks(a.update)
    trunk = a.trunk
    if trunk.registrar is None:
        if trunk.username or trunk.password or trunk.aor:
            yield (
                "trunk.registrar",
                "is missing, but there is a user to register",
                'Add it, such as registrar = "sip:sip.example.com", or remove the user',
            )
        if not trunk.addresses:
            yield (
                "trunk.addresses",
                "is missing: nobody could call",
                "Name the addresses of your provider or telephone system, or a registrar",
            )
    else:
        yield from _registration_checks(trunk)
    if a.admin.ssh_keys and not a.admin.networks:
        yield (
            "admin.networks",
            "is missing: the firewall would let nobody use the key",
            'Name the networks you administer from, such as ["192.0.2.0/24"]',
        )
    for key in ("trunk.addresses", "admin.networks"):  # media may come from anywhere, by need
        table, _, name = key.partition(".")
        if any(ipaddress.ip_network(n).prefixlen == 0 for n in getattr(getattr(a, table), name)):
            yield key, "opens the box to the whole internet", "Name the networks really used"


def _update_checks(update: UpdateAnswers) -> Iterator[tuple[str, str, str]]:
    if update.url is not None and not update.url.startswith("https://"):
        yield "update.url", "is not an https address", 'Write "https://updates.example.com/voice"'
    try:
        policy.window(update.window)
    except ValueError as error:
        yield "update.window", str(error), 'Write "02:00-04:00"; "00:00-00:00" is always'
    try:
        versions.key(update.pin or "0.0.0")
    except ValueError as error:
        yield "update.pin", str(error), 'Write "1.4.0"'


def _network_checks(n: NetworkAnswers) -> Iterator[tuple[str, str, str]]:
    if n.address is None:
        if n.gateway is not None:
            yield (
                "network.gateway",
                "is set without network.address",
                "Add the address or remove it",
            )
        return
    own = ipaddress.ip_interface(n.address)
    if own.ip in (own.network.network_address, own.network.broadcast_address) and (
        own.version == 4 and own.network.prefixlen < 31
    ):
        yield (
            "network.address",
            f"{n.address} is not a host's address",
            "Choose one inside the network",
        )
    if n.gateway is None:
        return
    gateway = ipaddress.ip_address(n.gateway)
    link_local = gateway.version == 6 and gateway.is_link_local
    if gateway not in own.network and not link_local:
        yield (
            "network.gateway",
            f"{gateway} lies outside {own.network}",
            "Correct the gateway, or the prefix length of network.address",
        )
    elif gateway == own.ip:
        yield "network.gateway", "is the box's own address", "Give the router's address"


def _registration_checks(trunk: TrunkAnswers) -> Iterator[tuple[str, str, str]]:
    for name, value in (("username", trunk.username), ("password", trunk.password)):
        if value is None:
            yield f"trunk.{name}", "is missing", "Add it: registration at trunk.registrar needs it"
    if not trunk.addresses:
        try:
            ipaddress.ip_address(_host(trunk.registrar or ""))
        except ValueError:
            yield (
                "trunk.addresses",
                "is missing, and trunk.registrar is a name",
                "Name the addresses or networks your provider calls from: the firewall needs them",
            )


def _host(uri: str) -> str:
    """The host of a SIP URI (RFC 3261, section 19.1.1)."""
    rest = uri.partition(":")[2].partition(";")[0].partition("?")[0].rpartition("@")[2]
    return urlsplit(f"//{rest}").hostname or ""
