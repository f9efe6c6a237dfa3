# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations as data: one YAML document each, played on virtual time with fake servers.

::

    name: what it shows
    each: {delay: [0.1, 1.0]}      # optional: once for every combination; "$delay" stands for the value
    agent: {barge_in: false}       # optional: fields of Policy; durations as *_s
    servers:
      llm: ["It is noon.", {say: "It is", first_s: 0.4, pause_s: 0.1, fails: true, hangs: true}]
      stt: {delay_s: 0.3, fails: true}
      tts: {first_s: 0.1, fails: true}
    caller:                        # in order; without "leaves" the caller leaves at the end
      - hears: end                 # of the next thing the agent says; "something": its beginning
      - says: "What time is it?"   # for_s: 1.0
      - noise_s: 0.1               # a sound without words
      - silence_s: 2.0
      - servers: {stt: {fails: false}}
      - presses: "1"
      - transfer: fails
      - leaves: true
    must:                          # what holds in the end; each is optional
      kinds: [greeting, reply]     # of what was heard of the agent
      said: [{agent: "Hello there."}, {user: "What time is it?"}]  # the memory, as heard
      asked: 1                     # requests to the model
      last_question: "What time is it?"
      silence_s: 3.0               # longest wait after the caller's words
      sound_after_words_s: 0.3     # longest the agent talks on into the caller's words
      hung_up: true                # by the agent
      transfers: ["sip:a@192.0.2.9"]
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from voice_edge.machine import Policy
from voice_edge.machine.events import ToolCall
from voice_edge.machine.tools import Destination

from .bench import POLICY
from .fakes import FakeCall, Script, down
from .stage import Stage

FOLDER = Path(__file__).parent / "conversations"
_KEYS = {"name", "each", "agent", "servers", "caller", "must"}


def load() -> list[tuple[str, dict[str, Any]]]:
    """(name, document) of every conversation of every file."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
            unknown = document.keys() - _KEYS
            assert not unknown, f"{path.name}, document {number + 1}: unknown {unknown}"
            found += _expanded(f"{path.stem}: {document['name']}", document)
    return found


def _expanded(name: str, document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    each = document.pop("each", {})
    out = []
    for combination in itertools.product(*each.values()):
        values = dict(zip(each, combination, strict=True))
        label = ", ".join(f"{k} {v}" for k, v in values.items())
        out.append((f"{name} [{label}]" if label else name, _filled(document, values)))
    return out


def _filled(node: Any, values: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        return {k: _filled(v, values) for k, v in node.items()}
    if isinstance(node, list):
        return [_filled(v, values) for v in node]
    if isinstance(node, str) and node.startswith("$"):
        return values[node[1:]]
    return node


def play(document: dict[str, Any]) -> None:
    """Hold the conversation and assert what must hold."""
    stage = Stage(policy=_policy(document.get("agent", {})))
    _serve(stage, {"llm": ["It is noon."], **document.get("servers", {})})

    async def caller(call: FakeCall) -> None:
        for step in document["caller"]:
            if call.gone:
                return
            await _step(stage, call, dict(step))

    stage.play(caller)
    must = dict(document["must"])
    for key, wanted in must.items():
        got, holds = _outcome(stage, key, wanted)
        assert holds, f"{key}: wanted {wanted}, got {got}; heard {_heard(stage)}"


def _policy(agent: dict[str, Any]) -> Policy:
    known = {f.name for f in fields(Policy)}
    changes: dict[str, Any] = {}
    for key, value in agent.items():
        name = key[:-2] + "_ns" if key.endswith("_s") else key
        assert name in known, f"agent.{key} is no field of Policy"
        if key == "destinations":
            changes[name] = tuple(Destination(n, n, target) for n, target in value.items())
        elif key.endswith("_s"):
            changes[name] = round(float(value) * 1e9)
        else:
            changes[name] = tuple(value) if isinstance(value, list) else value
    return replace(POLICY, **changes)


def _serve(stage: Stage, servers: dict[str, Any]) -> None:
    for name, how in servers.items():
        match name:
            case "llm":
                stage.llm.scripts = [_script(s) for s in how]
            case "stt":
                stage.stt.delay_s = how.get("delay_s", stage.stt.delay_s)
                stage.stt.fails = down("stt") if how.get("fails") else None
            case "tts":
                stage.tts.first_s = how.get("first_s", stage.tts.first_s)
                fails = bool(how.get("fails"))
                stage.tts.fails = lambda _, f=fails: down("tts") if f else None  # type: ignore[misc]
            case _:
                raise AssertionError(f"servers.{name} is unknown")


def _script(of: Any) -> Script:
    if isinstance(of, str):
        return Script(of.split(" "))
    of = dict(of)
    script = Script(
        of.pop("say", "").split(" ") if of.get("say") else (),
        fails=down("llm") if of.pop("fails", False) else None,
        hangs=of.pop("hangs", False),
        first_s=of.pop("first_s", 0.2),
        pause_s=of.pop("pause_s", 0.05),
    )
    of.pop("say", None)
    for name, arguments in of.pop("tools", {}).items():
        script.tools = (*script.tools, ToolCall(name, arguments))
    assert not of, f"unknown in a script of the model: {of}"
    return script


async def _step(stage: Stage, call: FakeCall, step: dict[str, Any]) -> None:
    match step:
        case {"hears": "end"}:
            await call.hears_end()
        case {"hears": "something"}:
            await call.hears_something()
        case {"says": text, **more}:
            await call.says(text, more.get("for_s", 1.0))
        case {"noise_s": seconds}:
            await call.says("", seconds)
        case {"silence_s": seconds}:
            await call.silence(seconds)
        case {"servers": servers}:
            _serve(stage, servers)
        case {"presses": digit}:
            call.presses(digit)
        case {"transfer": "fails"}:
            call.transfer_fails = True
        case {"leaves": True}:
            call.leaves()
            await asyncio.sleep(0)
        case _:
            raise AssertionError(f"unknown step {step}")


def _heard(stage: Stage) -> list[str]:
    return [str(t.kind) for t in stage.agent if t.samples]


def _outcome(stage: Stage, key: str, wanted: Any) -> tuple[Any, bool]:
    got: Any
    match key:
        case "kinds":
            got = _heard(stage)
        case "said":
            got = [{"agent" if r == "assistant" else r: t} for r, t in stage.said]
        case "asked":
            got = len(stage.llm.asked)
        case "last_question":
            got = stage.llm.asked[-1][-1].content
        case "hung_up":
            got = stage.call.hung_up
        case "transfers":
            got = stage.call.transfers
        case "silence_s":
            got = longest_silence_s(stage.call)
            return got, got <= wanted
        case "sound_after_words_s":
            got = longest_overlap_s(stage.call)
            return got, got <= wanted
        case _:
            raise AssertionError(f"must.{key} is unknown")
    return got, got == wanted


def longest_silence_s(call: FakeCall) -> float:
    """From the end of the caller's words to the agent's next sound, unless the caller goes on."""
    longest = 0
    for index, (_, end) in enumerate(call.spoken_ns):
        later = [begin for begin, _ in call.spoken_ns[index + 1 :]]
        sound = next((at for at in call.sound_ns if at > end), None)
        if later and (sound is None or later[0] < sound):
            continue
        assert sound is not None, "the agent said nothing more"
        longest = max(longest, sound - end)
    return longest / 1e9


def longest_overlap_s(call: FakeCall) -> float:
    """How long the agent was heard on after the caller began to say words."""
    longest = 0
    for begin, end in call.spoken_ns:
        last = max((at for at in call.sound_ns if begin <= at < end), default=begin)
        longest = max(longest, last - begin)
    return longest / 1e9
