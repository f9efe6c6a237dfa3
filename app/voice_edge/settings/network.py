# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of string that name things of a network: each is checked and brought into one form."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re

from .errors import BadValueError

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1123, section 2.1
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}")
_KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def special(value: str, kind: str) -> str:
    """Check ``value`` as ``kind``; kinds that are not of a network pass unchanged."""
    match kind:
        case "network":
            return _network(value)
        case "interface_address":
            return _interface_address(value)
        case "hostname":
            return _hostname(value)
        case "host":
            return _host(value)
        case "interface":
            return _interface(value)
        case "ssh_key":
            return _ssh_key(value)
    return value


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        pass
    try:
        meant = str(ipaddress.ip_network(value, strict=False))
    except ValueError:
        raise BadValueError(
            f"{value!r} is not an address or network",
            'Write "192.0.2.1" or "192.0.2.0/24"; names are not looked up',
        ) from None
    raise BadValueError(
        f"{value!r} has host bits set", f'Write "{meant}", if that network is meant'
    )


def _interface_address(value: str) -> str:
    try:
        if "/" not in value:
            raise ValueError
        return str(ipaddress.ip_interface(value))
    except ValueError:
        raise BadValueError(
            f"{value!r} is not an address with its prefix length", 'Write it as "192.0.2.20/24"'
        ) from None


def _hostname(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise BadValueError(
            f"{value!r} is not a host name",
            "Use up to 63 lower-case letters, digits and hyphens, without a domain",
        )
    return value


def _host(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        labels = value.lower().rstrip(".").split(".")
        if len(value) <= 253 and all(_LABEL.fullmatch(label) for label in labels):
            return value
        raise BadValueError(
            f"{value!r} is neither a host name nor an address",
            'Write "ntp.example.com" or "192.0.2.1"',
        ) from None


def _interface(value: str) -> str:
    if not _INTERFACE.fullmatch(value):
        raise BadValueError(
            f"{value!r} is not the name of a network interface", 'Write it as "eno1"'
        )
    return value


def _ssh_key(value: str) -> str:
    """A line of authorized_keys without options (sshd(8)): type, base64 that begins with the type, comment."""
    words = value.split(None, 2)
    remedy = "Paste the line of the .pub file, such as ~/.ssh/id_ed25519.pub"
    if not value.isprintable() or len(words) < 2 or words[0] not in _KEY_TYPES:
        raise BadValueError("is not a public SSH key", remedy)
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    name = words[0].encode()
    if blob[: 4 + len(name)] != len(name).to_bytes(4, "big") + name:
        raise BadValueError("is not a whole public SSH key", remedy)
    return " ".join(words)
