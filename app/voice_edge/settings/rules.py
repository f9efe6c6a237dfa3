# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that look at more than one setting."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Settings
from .reference import missing_reference
from .stock import stock_library


def cross_checks(s: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield (key, what, remedy) for settings that contradict each other."""
    yield from _ports(s)
    yield from _guard(s)
    yield from _trunks(s)
    yield from _tls(s)
    if not s.sip.codecs:
        yield "sip.codecs", "is empty", 'Name at least one codec, such as ["PCMA", "PCMU"]'
    if len(set(s.sip.codecs)) != len(s.sip.codecs):
        yield "sip.codecs", "names a codec twice", "Name each once, the preferred one first"
    timers = s.sip.timers
    if timers.session_expires_s < timers.min_session_expires_s:
        yield (
            "sip.timers.session_expires_s",
            f"{timers.session_expires_s} lies below min_session_expires_s"
            f" ({timers.min_session_expires_s})",
            "Ask for no less than what is taken from others, such as 1800",
        )
    if s.vad.release > s.vad.threshold:
        yield (
            "vad.release",
            f"{s.vad.release} lies above vad.threshold ({s.vad.threshold})",
            "Speech must end at a lower probability than it starts at: choose a lower value",
        )
    if s.vad.backend == "onnxruntime" and stock_library(s.vad) is None:
        yield (
            "vad.backend",
            "the Python package onnxruntime is not installed",
            'Install it, name a libonnxruntime.so as vad.onnxruntime, or write "kernel"',
        )
    if s.media.path == "python" and (package := missing_reference()):
        yield (
            "media.path",
            f"the Python package {package} is not found",
            'Run from a checkout with PYTHONPATH=. and its .venv, or write "core"',
        )
    if s.media.jitter_min_ms > s.media.jitter_max_ms:
        yield (
            "media.jitter_min_ms",
            f"{s.media.jitter_min_ms} lies above media.jitter_max_ms ({s.media.jitter_max_ms})",
            "Swap them or raise the maximum",
        )
    if s.media.timeout_dtx_s is not None and s.media.timeout_dtx_s < s.media.timeout_s:
        yield (
            "media.timeout_dtx_s",
            f"{s.media.timeout_dtx_s:g} lies below media.timeout_s ({s.media.timeout_s:g})",
            "A side that announced its silence gets at least as long: raise it or leave it out",
        )
    if len(set(s.media.cores)) != len(s.media.cores):
        yield (
            "media.cores",
            "names a core twice",
            "Name each once: it gets a media thread of its own",
        )
    if s.agent.idle_s >= s.agent.max_call_s:
        yield (
            "agent.idle_s",
            "is not shorter than agent.max_call_s",
            "Choose a shorter idle time, or the caller is never asked",
        )
    if s.recording.quota_mb is not None and s.recording.dir is None:
        yield (
            "recording.quota_mb",
            "is set without recording.dir",
            "Name the folder of the recordings, or leave the quota out",
        )
    if s.metrics.port and s.metrics.port in (s.sip.port, s.sip.tls.port):
        yield "metrics.port", f"{s.metrics.port} is a port of SIP as well", "Use 9464, or another"
    fallback = s.agent.fallback
    if fallback.menu.strip() and fallback.transfer is None:
        yield (
            "agent.fallback.menu",
            "leads nowhere without agent.fallback.transfer",
            "Name whom key 1 leads to, or leave the menu out",
        )
    names = [t.name for t in s.agent.tools.transfer]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield (
                f"agent.tools.transfer[{index}].name",
                f"{name!r} is taken",
                "Name each differently: the model chooses by it",
            )
    if s.service.admission == "fallback" and fallback.transfer is None:
        yield (
            "service.admission",
            '"fallback" needs agent.fallback.transfer',
            'Name a human there, or write "refuse"',
        )
    for name in ("llm", "tts", "stt"):
        server = getattr(s, name)
        if server.first_byte_s > server.total_s:
            yield (
                f"{name}.first_byte_s",
                f"{server.first_byte_s:g} lies above {name}.total_s ({server.total_s:g})",
                "The whole request must be allowed at least as long as its first byte",
            )


def _trunks(s: Settings) -> Iterator[tuple[str, str, str]]:
    for index, trunk in enumerate(s.sip.trunk):
        key = f"sip.trunk[{index}]"
        if trunk.registrar is None and trunk.server is None:
            yield (
                key,
                "has neither registrar nor server",
                "Name the registrar to register at, or the server of a provider that knows us by our address",
            )
        if trunk.registrar is not None and trunk.server is not None:
            yield (
                f"{key}.server",
                "stands beside registrar",
                "With a registrar calls go there; name another machine on the way as proxy",
            )
        if trunk.registrar is not None:
            for name in ("aor", "username", "password_file"):
                if getattr(trunk, name) is None:
                    yield (
                        f"{key}.{name}",
                        "is missing",
                        "A trunk with a registrar needs it; without registration name its server instead",
                    )
        elif (trunk.username is None) != (trunk.password_file is None):
            missing = "username" if trunk.username is None else "password_file"
            yield f"{key}.{missing}", "is missing", "Give user name and password, or neither"
    names = [trunk.name for trunk in s.sip.trunk]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield f"sip.trunk[{index}].name", f"{name!r} is taken", "Name each trunk differently"


def _tls(s: Settings) -> Iterator[tuple[str, str, str]]:
    tls = s.sip.tls
    if (tls.cert_file is None) != (tls.key_file is None):
        missing = "cert_file" if tls.cert_file is None else "key_file"
        yield f"sip.tls.{missing}", "is missing", "Certificate and key belong together: give both"
    if tls.verify_client and tls.cert_file is None:
        yield (
            "sip.tls.verify_client",
            "is set without cert_file",
            "Give cert_file and key_file: without them nobody connects to us",
        )
    if tls.cert_file is not None and tls.port == s.sip.port and tls.port != 0:
        yield "sip.tls.port", f"{tls.port} is sip.port as well", "Use 5061, or one of its own"
    if s.sip.rtp_ports[0] <= tls.port <= s.sip.rtp_ports[-1]:
        yield (
            "sip.tls.port",
            f"{tls.port} lies inside sip.rtp_ports",
            "Move one of them so that they do not overlap",
        )


def _guard(s: Settings) -> Iterator[tuple[str, str, str]]:
    guard = s.sip.guard
    listed = guard.acl is not None or bool(s.sip.trunk)
    if guard.unlisted == "challenge" and not (listed and guard.user):
        yield (
            "sip.guard.unlisted",
            '"challenge" needs both sip.guard.acl or trunks (who need no password) and'
            " [[sip.guard.user]] (who have one)",
            "Name both; users without an acl are challenged all the same",
        )
    names = [user.name for user in guard.user]
    if len(set(names)) != len(names):
        yield "sip.guard.user", "has a name twice", "Name each user once"


def _ports(s: Settings) -> Iterator[tuple[str, str, str]]:
    if len(s.sip.rtp_ports) != 2 or s.sip.rtp_ports[0] > s.sip.rtp_ports[1]:
        yield "sip.rtp_ports", "is not a range", "Write [lowest, highest], such as [16384, 32767]"
        return
    low, high = s.sip.rtp_ports
    pairs = (high + 1 - (low + low % 2)) // 2  # RTP on even ports, RTCP on the next (RFC 3550 §11)
    if pairs < s.sip.max_calls:
        yield (
            "sip.rtp_ports",
            f"has room for {max(pairs, 0)} calls, sip.max_calls is {s.sip.max_calls}",
            "Widen the range (two ports a call) or lower sip.max_calls",
        )
    if low <= s.sip.port <= high:
        yield (
            "sip.port",
            f"{s.sip.port} lies inside sip.rtp_ports",
            "Move one of them so that they do not overlap",
        )
