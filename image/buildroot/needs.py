# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads out of the overlay and the agent's sources which programs, units and directives they use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from image import system
from image.buildroot.board import OWN
from tools.cache import ROOT

APPLIANCE = ROOT / "app" / "voice_edge" / "appliance"
RUNNERS = {"run", "runner", "Popen", "check_call", "check_output", "call"}
_SHELL_OWN = frozenset(
    "case cd continue do done echo elif else esac eval exec exit export false fi for if in local printf "
    "read return set shift test then trap true umask unset until wait while".split()
)
_COMMAND = re.compile(
    r"(?:^|[|;&({]|\$\(|\b(?:then|do|else|if|while|exec)\b)\s*([a-z][a-z0-9_.-]*)(?![\w=)])"
)


def overlays() -> tuple[Path, ...]:
    """What is laid over Buildroot's root, in order."""
    return OWN, system.OVERLAY


def _files(pattern: str) -> Iterator[Path]:
    for overlay in overlays():
        yield from (path for path in sorted(overlay.glob(pattern)) if path.is_file())


def settings() -> Iterator[tuple[Path, str, str]]:
    """Directives of unit, network and manager files: file, name, value."""
    for path in _files("usr/lib/systemd/**/*"):
        if path.suffix in (
            ".service",
            ".conf",
            ".network",
            ".socket",
            ".mount",
            ".timer",
            ".target",
            ".path",
        ):
            for line in path.read_text().splitlines():
                name, equals, value = line.partition("=")
                if equals and name.isalnum():
                    yield path, name, value


def unit_programs() -> Iterator[tuple[Path, str]]:
    """Absolute paths that units start, with the unit."""
    for path, name, value in settings():
        if name.startswith("Exec"):
            yield path, value.lstrip("-@:+!").split()[0]


def script_programs() -> Iterator[tuple[Path, str]]:
    """Names of programs that shell scripts of the overlay call."""
    scripts = [*_files("usr/libexec/voice-edge/*"), *_files("usr/lib/systemd/system-generators/*")]
    for path in scripts:
        text = path.read_text()
        if not text.startswith("#!/bin/sh"):
            continue
        functions = set(re.findall(r"^(\w+)\(\)", text, re.MULTILINE))
        for line in text.splitlines():
            # What stands in quotes is no command, unless it is a command's output that is quoted.
            bare = re.sub(r"'[^']*'", "''", line.split("# ")[0])
            # Variables in arithmetic look like the first word of a command substitution.
            bare = re.sub(r"\$\(\(\s*[a-z]\w*", "$((0", bare)
            for name in _COMMAND.findall(bare.replace('"$(', "$(")):
                if name not in _SHELL_OWN and name not in functions:
                    yield path, name


def agent_programs() -> Iterator[tuple[Path, str]]:
    """Names of programs that the appliance's commands start: first words of lists given to a runner."""
    for path in sorted(APPLIANCE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            words: ast.expr | None = None
            if isinstance(node, ast.Call) and node.args:
                called = node.func
                name = (
                    called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                )
                words = node.args[0] if name in RUNNERS else None
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "command":
                words = node.value
            if isinstance(words, ast.List) and words.elts:
                first = words.elts[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield path, first.value


def foreign_units() -> Iterator[tuple[Path, str]]:
    """Units that the overlay enables or extends and does not bring itself."""
    own = {
        path.name
        for overlay in overlays()
        for path in overlay.glob("usr/lib/systemd/system/*.service")
        if path.is_file()
    }
    for overlay in overlays():
        for path in sorted((overlay / "usr/lib/systemd/system").rglob("*")):
            if path.parent.name.endswith((".wants", ".requires")):
                name = path.name
            elif path.is_symlink() and not path.name.endswith(".d"):
                name = path.readlink().name
            elif path.is_dir() and path.name.endswith(".d") and not path.is_symlink():
                name = path.name.removesuffix(".d")
            else:
                continue
            if name not in own and not name.startswith("voice-edge-."):
                yield path, name
