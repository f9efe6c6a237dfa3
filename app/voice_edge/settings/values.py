# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of single values: each returns the typed value or raises :class:`BadValueError`."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import network
from .errors import BadValueError
from .model import Rule
from .paths import path_of
from .secret import Secret

_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    dict: "a table",
    list: "an array",
}


def show(value: Any) -> str:
    """A value as an error shows it: TOML-like, short."""
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    except RecursionError:
        return "a value nested too deep"
    return text if len(text) <= 60 else text[:57] + "…"


def typed(value: Any, wanted: type) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and "\0" in value:
        raise BadValueError("has a NUL character in it", "Write it without")
    if isinstance(value, wanted) and not (wanted in (int, float) and isinstance(value, bool)):
        return value
    raise BadValueError(
        f"{show(value)} is not {_TYPE_NAMES.get(wanted, wanted.__name__)}",
        f"Write {_TYPE_NAMES.get(wanted, wanted.__name__)}",
        quotes=True,
    )


def within(value: Any, rule: Rule) -> Any:
    if rule.choices and value not in rule.choices:
        names = ", ".join(show(c) for c in rule.choices)
        raise BadValueError(f"{show(value)} is not supported", f"Choose from {names}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = rule.low, rule.high
        # Written so that NaN, which TOML has, fails as well.
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            raise BadValueError(f"{value} is out of range", f"Choose {_span(low, high)}")
    return value


def _span(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at least {low:g}" if low is not None else f"at most {high:g}"
    return f"from {low:g} to {high:g}"


def special(value: Any, kind: str, base: Path) -> Any:
    """The kinds of string: ``base`` is the folder that relative paths start from."""
    match kind:
        case "text":
            if not value.strip():
                raise BadValueError("is empty", "Give it a value")
            return value
        case "url":
            return _url(value)
        case "bind":
            return _address(value)
        case "sip_uri":
            return _sip_uri(value)
        case "dir":
            return path_of(value, base)
        case "file":
            return _file(path_of(value, base))
        case "background":
            return value if value in ("none", "noise") else str(_file(path_of(value, base)))
        case "nameserver":
            return _nameserver(value)
        case "secret_file":
            return _secret(path_of(value, base))
        case "secret":
            return _inline_secret(value)
    return network.special(value, kind)


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_ok = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise BadValueError(
            f"{show(value)} is not an http address", 'Write it as "http://192.0.2.10:8000"'
        )
    if parts.username or parts.password:
        raise BadValueError(
            "carries a password in the address", "Put the key into api_key_file instead"
        )
    if parts.query or parts.fragment:
        raise BadValueError("carries a query", "Give only scheme, host, port and path")
    # Both forms are in use; requests go to {url}/v1/….
    return value.rstrip("/").removesuffix("/v1").rstrip("/")


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise BadValueError(
            f"{show(value)} is not an IP address",
            'Write it as "192.0.2.1"; names are not looked up',
        ) from None


def _sip_uri(value: str) -> str:
    scheme, _, rest = value.partition(":")
    if scheme.lower() == "sips":
        raise BadValueError("begins with sips:", 'Write it as "sip:host;transport=tls"')
    if scheme.lower() != "sip" or not rest or any(c.isspace() for c in value):
        # The value is not shown: the user part may be a telephone number.
        raise BadValueError("is not a SIP URI", 'Write it as "sip:user@host"')
    return value


def _file(path: Path) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise BadValueError(
            f"{path}: {error.strerror}", "Give a file that the service can read"
        ) from None


def _nameserver(value: str) -> str:
    """An address, or address:port with IPv6 in brackets."""
    host, _, port = value.rpartition(":")
    if host and port.isdigit() and int(port) < 65_536 and (":" not in host or host[0] == "["):
        address = host.strip("[]")
    else:
        address = value
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise BadValueError(
            f"{show(value)} is not the address of a name server",
            'Write it as "192.0.2.53" or "[2001:db8::53]:53"',
        ) from None
    return value


def _inline_secret(value: str) -> Secret:
    if not value or not value.isprintable():
        raise BadValueError("is empty or has unprintable characters", "Write it as one line")
    return Secret(value)


def _secret(path: Path) -> Secret:
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise BadValueError(
            f"{path}: {reason}", "Put the secret alone into that file, readable by the service only"
        ) from None
    if not text or "\n" in text:
        raise BadValueError(
            f"{path} does not hold exactly one line", "Put the secret alone into that file"
        )
    return Secret(text, path, _secret)
