# SPDX-License-Identifier: GPL-3.0-or-later
"""What RAUC and the network say when an update is not installed, in words an operator can act on.

Codes are stable: they are in the journal, in ``voice-edge update status`` and in docs/updates.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a release was not installed; ``again`` says whether a later try can do better with the same file."""

    code: str
    what: str
    remedy: str
    again: bool = False

    def text(self) -> str:
        return f"{self.code}: {self.what}. {self.remedy}"


_FETCH = "Load the release again; if it stays so, tell who made it"
# The first one whose pattern is found wins: RAUC 1.13's words, and our own hook's.
_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (
        r"Signature size is 0|is not a valid bundle|[Uu]nsigned bundle",
        Refusal("ota.unsigned", "the release is not signed", "Use one from the release channel"),
    ),
    (
        r"Signature size \(\d+\) exceeds bundle size|[Ff]ile too small|size mismatch|is truncated",
        Refusal("ota.truncated", "the release's file is not whole", _FETCH),
    ),
    (
        r"certificate has expired",
        Refusal(
            "ota.expired",
            "the release was signed with a certificate that had expired by then",
            "Use a release that was signed with a valid one",
        ),
    ),
    (
        r"certificate is not yet valid",
        Refusal(
            "ota.not-yet-valid",
            "the release was signed before its certificate became valid",
            "Its maker's clock was wrong: use a release that was signed anew",
        ),
    ),
    (
        r"unable to get (local )?issuer certificate|self-signed certificate|unable to verify the first",
        Refusal(
            "ota.wrong-key",
            "the release is signed by nobody this box trusts",
            "Use one from your release channel; a development release needs a development image",
        ),
    ),
    (
        r"bundle payload is corrupted|CMS routines|Verification of data area failed|dm-verity|digest failure",
        Refusal("ota.corrupted", "the release's content is not what was signed", _FETCH),
    ),
    (
        r"[Ff]ailed to load (CA|keyring)|keyring.*(No such file|not found)|[Kk]eyring is not",
        Refusal(
            "ota.no-keyring",
            "this image was built without the certificate that releases are signed under",
            "Flash an image that was built with one (docs/updates.md, Keys)",
        ),
    ),
    (
        r"Version mismatch: Expected at least '(?P<least>[^']*)' but bundle manifest has '(?P<found>[^']*)'",
        Refusal(
            "ota.downgrade",
            "the release is {found}, older than the running {least}",
            "To go back on purpose: voice-edge update install --downgrade",
        ),
    ),
    (
        r"(?P<code>ota\.wrong-machine): (?P<what>[^'\n]*)",
        Refusal("", "{what}", "Take the release for this architecture and layout"),
    ),
    (
        r"(?P<code>ota\.step-needed): (?P<what>[^'\n]*)",
        Refusal("", "{what}", "Then this one"),
    ),
    (
        r"(?P<code>ota\.slot-not-good): (?P<what>[^'\n]*)",
        Refusal("", "{what}", "See voice-edge status for what it waits for", again=True),
    ),
    (
        r"Compatible mismatch|compatible.*does not match",
        Refusal(
            "ota.wrong-machine",
            "the release is for another architecture or layout",
            "Take the release for this one",
        ),
    ),
    (
        r"does not fit|larger than|too large for",
        Refusal("ota.too-large", "the release does not fit into a slot", "Tell who made it"),
    ),
    (
        r"No space left",
        Refusal("ota.no-space", "no space is left for the release", "Free some below /data", True),
    ),
    (
        r"Input/output error|Read-only file system|writing slot",
        Refusal(
            "ota.write-failed",
            "the other slot could not be written",
            "The disk may be failing: check it (journalctl -k), the running slot is untouched",
            again=True,
        ),
    ),
    (
        r"ServiceUnknown|org\.freedesktop\.DBus|rauc service",
        Refusal("ota.no-service", "RAUC does not run", "See journalctl -u rauc", again=True),
    ),
)
_UNKNOWN = Refusal("ota.failed", "RAUC did not install it", "See journalctl -u rauc", again=True)
_LAST_ERROR = re.compile(r"LastError: (?P<said>.*)")


def explain(said: str) -> Refusal:
    """Why RAUC refused, by what it printed."""
    last = _LAST_ERROR.findall(said)
    # RAUC names the cause in LastError; what comes before may be about something it got over.
    for text in [*last[-1:], said] if last else [said]:
        for pattern, refusal in _KNOWN:
            if found := re.search(pattern, text):
                parts = {key: value or "" for key, value in found.groupdict().items()}
                return Refusal(
                    parts.get("code") or refusal.code,
                    refusal.what.format(**parts),
                    refusal.remedy,
                    refusal.again,
                )
        if last:
            return Refusal(_UNKNOWN.code, f"RAUC says: {text.strip()}", _UNKNOWN.remedy, True)
    return _UNKNOWN
