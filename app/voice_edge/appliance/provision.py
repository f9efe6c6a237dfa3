# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers into force: found, checked whole, stored, and turned into what the system reads.

A source (stick, credential, ESP) counts when its content is another than when it was last looked at; so an old
file on the ESP does not undo what a stick brought later. A file with a mistake is told and changes nothing.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..settings import SettingsError
from ..settings import load as load_settings
from . import files, render
from .answers import FILE, Answers, parse
from .places import Places
from .realtime import Plan, PolicyError, plan_for

CREDENTIAL = "voice-edge.answers"
LARGEST = 256 * 1024
NOT_YET = (
    "not provisioned: no answer file was found. Put "
    + FILE
    + " on the ESP or on a stick labelled VOICE-EDGE "
    "and restart, or plug the stick in now"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``problems`` are mistakes for the operator; ``changed`` says that services read something new."""

    provisioned: bool
    changed: bool
    problems: tuple[str, ...] = ()
    source: str = ""


def sources(places: Places, credentials: Path | None) -> dict[str, Path]:
    """Name and path of every place an answer file may be in, the strongest first."""
    found = {"stick": places.stick}
    if credentials is not None:
        found["credential"] = credentials / CREDENTIAL
    return {**found, "esp": places.esp}


def run(places: Places, credentials: Path | None) -> Outcome:
    """Take in new answers and write everything that is derived from those in force. Raises OSError."""
    problems: list[str] = []
    source = ""
    seen = _seen(places)
    now = dict(seen)
    for name, path in sources(places, credentials).items():
        try:
            content = _read(path)
        except OSError as error:
            problems.append(f"{name}: {path}: {error.strerror}")
            continue
        if content is None:
            continue
        digest = hashlib.sha256(content).hexdigest()
        if seen.get(name) == digest:
            continue
        mistakes = _mistakes(places, content, path)
        if mistakes:
            problems += mistakes
            continue
        now[name] = digest
        if not source:
            source = name
            files.write(places.stored, content.removeprefix(codecs.BOM_UTF8), mode=0o600)
    if now != seen:
        files.write(places.seen, json.dumps(now) + "\n", mode=0o600)
    return _derive(places, source, problems)


def stored(places: Places) -> Answers | None:
    """The answers in force. Raises SettingsError when a newer release no longer takes them, or OSError."""
    try:
        text = places.stored.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return parse(text, file=str(places.stored))


def _derive(places: Places, source: str, problems: list[str]) -> Outcome:
    answers: Answers | None = None
    try:
        answers = stored(places)
    except SettingsError as error:
        problems += [str(p) for p in error.problems]
        answers = _kept(places, problems)
    except UnicodeDecodeError:
        problems.append(f"{places.stored}: is not UTF-8 text; provision again")
    plan = Plan((), (), ())
    try:
        plan = plan_for(places.root, answers)
    except PolicyError as error:  # the disk moved to a smaller machine
        problems.append(f"{places.stored}: {error}")
        plan = plan_for(places.root, None)
    changed = _write(places, answers, plan)
    if answers is None and not problems:
        problems.append(NOT_YET)
    return Outcome(answers is not None, changed, tuple(problems), source)


def _kept(places: Places, problems: list[str]) -> Answers | None:
    """After a rollback: a newer release changed the answers into what this one does not know; it kept its own."""
    path = places.kept / f"{places.version()}.toml"
    try:
        answers = parse(path.read_text(encoding="utf-8"), file=str(path))
    except (OSError, SettingsError, UnicodeDecodeError):
        return None
    problems.append(
        f"{places.stored}: not understood by this release; those of {path} are in force"
    )
    return answers


def _write(places: Places, answers: Answers | None, plan: Plan) -> bool:
    changed = files.write(places.run / "hostname", render.hostname(answers))
    network = places.root / "run/systemd/network"
    wanted = render.networkd(answers)
    for old in network.glob("*-voice-edge.network"):
        if old.name not in wanted:
            changed |= files.remove(old)
    for name, text in wanted.items():
        changed |= files.write(network / name, text)
    if answers is not None and answers.update.url is not None:
        files.write(places.update_wanted, "")
    else:
        files.remove(places.update_wanted)
    changed |= files.write(places.run / "nftables.d/sets.nft", render.firewall(answers))
    changed |= files.write(places.run / "chrony.d/voice-edge.sources", render.chrony(answers))
    keys = render.authorized_keys(answers)
    if keys:
        changed |= files.write(places.authorized_keys, keys, mode=0o600)
    else:
        changed |= files.remove(places.authorized_keys)
    return changed | _write_agent(
        places, render.agent(answers, plan) if answers is not None else {}
    )


def _write_agent(places: Places, contents: Mapping[str, str]) -> bool:
    places.agent.mkdir(mode=0o700, parents=True, exist_ok=True)
    changed = False
    for old in places.agent.iterdir():
        if old.name not in contents:
            changed |= files.remove(old)
    # voice-edge.toml last: the agent's unit waits for it.
    for name in sorted(contents, key=lambda n: n.endswith(".toml")):
        changed |= files.write(places.agent / name, contents[name], mode=0o600)
    return changed


def _mistakes(places: Places, content: bytes, path: Path) -> list[str]:
    """Everything that would keep these answers from working, found before anything is changed."""
    try:
        text = content.decode("utf-8-sig")  # a byte order mark is what some editors leave
        answers = parse(text, file=str(path))
        plan = plan_for(places.root, answers)
    except UnicodeDecodeError:
        return [f"{path}: is not UTF-8 text. Save it as UTF-8"]
    except SettingsError as error:
        return [str(p) for p in error.problems]
    except PolicyError as error:
        return [f"{path}: {error}"]
    with tempfile.TemporaryDirectory(prefix="voice-edge-") as scratch:
        folder = Path(scratch)
        for name, secret in render.agent(answers, plan).items():
            files.write(folder / name, secret, mode=0o600)
        try:
            load_settings(folder / "voice-edge.toml")
        except SettingsError as error:
            return [f"{path}: {p.key}: {p.what}. {p.remedy}" for p in error.problems]
    return []


def _read(path: Path) -> bytes | None:
    """None where there is no such file; OSError where it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > LARGEST:
        raise OSError(27, f"larger than {LARGEST // 1024} KiB: not an answer file", str(path))
    return content


def _seen(places: Places) -> dict[str, str]:
    try:
        found = json.loads(places.seen.read_text())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
