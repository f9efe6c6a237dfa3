# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the caller's voice: recordings installed with Debian's asterisk-core-sounds-en-wav."""

from __future__ import annotations

import os
import subprocess
import sys
import wave
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..loopcall import wav
from ..loopcall.g711 import Pcm
from .problems import DemoError

PACKAGE = "asterisk-core-sounds-en-wav"
_INSTALLED = Path("/usr/share/asterisk/sounds/en_US_f_Allison")
_REMEDY = (
    f"install Debian's package {PACKAGE} (as root: apt-get install {PACKAGE}),"
    " or name a folder that holds its WAV files in VOICE_EDGE_SPEECH"
)


def folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where to look: what VOICE_EDGE_SPEECH names, and nothing else if it is set."""
    named = environment.get("VOICE_EDGE_SPEECH")
    return [Path(named)] if named else [_INSTALLED]


def load(sounds: Iterable[str], places: list[Path] | None = None) -> dict[str, Pcm]:
    """The recordings as 8 kHz PCM, by name. Raises DemoError with the remedy."""
    wanted = list(sounds)
    if places is None:
        places = folders()
        if not any(place.is_dir() for place in places):
            places += _fetched()
    found: dict[str, Path] = {}
    for place in places:
        if place.is_dir():
            for path in sorted(place.rglob("*.wav")):
                found.setdefault(path.stem, path)
    missing = [sound for sound in wanted if sound not in found]
    if missing:
        looked = ", ".join(map(str, places))
        raise DemoError(f"no recording {missing[0]}.wav under {looked}; {_REMEDY}")
    try:
        return {sound: wav.read(found[sound])[0] for sound in wanted}
    except (OSError, EOFError, wave.Error, ValueError) as error:
        raise DemoError(f"a recording cannot be read: {error}; {_REMEDY}") from error


def _fetched() -> list[Path]:
    """In a checkout: the pinned package, unpacked into the user's cache."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "tools" / "fetch.py").is_file():
        return []
    print(f"fetching {PACKAGE} (18 MB, once) …", flush=True)
    command = [sys.executable, "-m", "tools.fetch", PACKAGE]
    run = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    lines = run.stdout.split("\n")
    return [Path(line) for line in lines if line] if run.returncode == 0 else []
