# SPDX-License-Identifier: GPL-3.0-or-later
"""From answers to the files that the system's own services read. Pure: text in, text out."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable
from typing import Any

from .. import toml_out
from .answers import Answers, ModelServer
from .realtime import Plan

RECORDINGS = "/data/recordings"
LOOPBACK = "127.0.0.1/32"
DEFAULT_TIME = ("pool 2.debian.pool.ntp.org iburst maxsources 4",)
SECRETS = ("trunk.password", "llm.key", "tts.key", "stt.key")
"""Each is always there, if need be empty: LoadCredential= of voice-edge.service names them all."""


def networkd(answers: Answers | None) -> dict[str, str]:
    """Files of /run/systemd/network; none means that the image's DHCP default holds."""
    if answers is None or answers.network == type(answers.network)():
        return {}
    net = answers.network
    match = f"Name={net.interface}" if net.interface else "Type=ether\nKind=!*"
    lines = ["[Match]", match, "", "[Network]", "MulticastDNS=yes", "LLMNR=no"]
    if net.address is None:
        lines.append("DHCP=yes")
    else:
        # A fixed address is meant to be the only one of its family.
        version = ipaddress.ip_interface(net.address).version
        lines += [
            "DHCP=no",
            f"Address={net.address}",
            f"IPv6AcceptRA={'no' if version == 6 else 'yes'}",
        ]
        if net.gateway is not None:
            lines.append(f"Gateway={net.gateway}")
    lines += [f"DNS={address}" for address in net.dns]
    if net.domain is not None:
        lines.append(f"Domains={net.domain}")
    return {"50-voice-edge.network": "\n".join(lines) + "\n"}


def firewall(answers: Answers | None) -> str:
    """Elements of the sets that the base rules (etc/voice-edge/firewall.nft) are written over."""
    sets: dict[str, tuple[str, ...]] = {"trunk": (), "media": (), "admin": ()}
    if answers is not None:
        sets = {
            "trunk": answers.callers,
            "media": answers.media,
            "admin": answers.admin.networks if answers.admin.ssh_keys else (),
        }
    lines = ["# Made by voice-edge provision from the answers; changes here are lost."]
    for name, networks in sets.items():
        for version in (4, 6):
            place = f"inet voice_edge {name}{version}"
            lines.append(f"flush set {place}")
            elements = _collapsed(networks, version)
            if elements:
                lines.append(f"add element {place} {{ {', '.join(elements)} }}")
    return "\n".join(lines) + "\n"


def _collapsed(networks: Iterable[str], version: int) -> list[str]:
    """Without overlaps, which a set of intervals refuses."""
    parsed = [ipaddress.ip_network(n) for n in networks]
    if version == 4:
        return [str(n) for n in ipaddress.collapse_addresses(n for n in parsed if n.version == 4)]
    return [str(n) for n in ipaddress.collapse_addresses(n for n in parsed if n.version == 6)]


def chrony(answers: Answers | None) -> str:
    """A ``.sources`` file (chrony.conf(5), sourcedir)."""
    servers = answers.time.servers if answers is not None else ()
    lines = [f"server {server} iburst" for server in servers] or list(DEFAULT_TIME)
    return "\n".join(lines) + "\n"


def authorized_keys(answers: Answers | None) -> str:
    """Empty without a key: SSH stays off then."""
    return "".join(f"{key}\n" for key in (answers.admin.ssh_keys if answers is not None else ()))


def hostname(answers: Answers | None) -> str:
    return (answers.system.hostname if answers is not None else "voice-edge") + "\n"


def agent(answers: Answers, plan: Plan) -> dict[str, str]:
    """voice-edge.toml and the files of its secrets, side by side."""
    trunk = answers.trunk
    secrets = dict.fromkeys(SECRETS, "")
    sip: dict[str, Any] = _set(dataclasses.asdict(answers.sip))
    if trunk.registrar is not None and trunk.username and trunk.password is not None:
        host = trunk.registrar.partition(":")[2].rpartition("@")[2]
        sip["trunk"] = [
            {
                "name": "trunk",
                "registrar": trunk.registrar,
                "aor": trunk.aor or f"sip:{trunk.username}@{host}",
                "username": trunk.username,
                "password_file": "trunk.password",
                "realm": trunk.realm,
                "expires_s": trunk.expires_s,
            }
        ]
        secrets["trunk.password"] = trunk.password.reveal() + "\n"
    if answers.callers:
        # The agent lets in whom the firewall does, and not fewer; and the box itself, since releases prove themselves
        # by a call (update/loop_call.py).
        sip["guard"] = {"acl": [*answers.callers, LOOPBACK]}
    tree: dict[str, Any] = {"sip": sip}
    if answers.recording.enabled:
        tree["recording"] = {"dir": RECORDINGS}
    if plan.media:
        tree["media"] = {"cores": sorted(plan.media), "priority": answers.realtime.priority}
    else:
        tree["media"] = {"priority": answers.realtime.priority}
    if answers.update.drain_s is not None:
        tree["service"] = {"drain_s": answers.update.drain_s}
    tree["agent"] = _set(dataclasses.asdict(answers.agent))
    servers: dict[str, ModelServer] = {"llm": answers.llm, "tts": answers.tts, "stt": answers.stt}
    for name, server in servers.items():
        values = {f.name: getattr(server, f.name) for f in dataclasses.fields(server)}
        if server.api_key is not None:
            secrets[f"{name}.key"] = server.api_key.reveal() + "\n"
            values["api_key_file"] = f"{name}.key"
        del values["api_key"]
        tree[name] = _set(values)
    tree["log"] = {"level": answers.log.level}
    head = "# Made by voice-edge provision from the answers; changes here are lost.\n"
    return {"voice-edge.toml": head + toml_out.dumps(tree), **secrets}


def _set(values: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out, so that the agent's own default holds."""
    kept = {k: _set(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}
