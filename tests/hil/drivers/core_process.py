# SPDX-License-Identifier: GPL-3.0-or-later
"""The core alone in a process of its own, doing what the dialled user part says.

Started by the `local` driver. The user part is words joined by dots, taken in order:
`ring`, `answer`, `wait<ms>`, `hangup`, `reject<status>`, `silent` (play nothing). Without `reject` or
`hangup` a call lasts until the caller leaves. An answered call hears the melody of `--notes`, endlessly;
after `early` it does so before the answer. A dialled call with the word `place` is played to from its early
media on.

Standard input takes one JSON object a line: {"op": "stats"}, {"op": "dial", "uri": …, "user": …},
{"op": "drain", "retry_after_s": …}, {"op": "undrain"}, {"op": "stop"}, {"op": "trunk", "name": …, "server": …},
{"op": "password", "name": …, "password": …}.
Standard output gives one JSON object a line; standard error is the log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import re
import signal
import sys
import wave
from typing import Any

import voicecore
from hil.peers import audio

_CHUNK_S = 1.0
_AHEAD = 3  # chunks kept queued


def say(event: str, **fields: Any) -> None:
    """One event to the driver."""
    print(json.dumps({"event": event, **fields}), flush=True)


def plain(value: Any) -> Any:
    """Public fields of a native or frozen object as JSON values."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    fields = {}
    for name in dir(value):
        if not name.startswith("_"):
            content = getattr(value, name)
            if content is None or isinstance(content, (bool, int, float, str)):
                fields[name] = content
    return fields


class Appliance:
    """All calls of one engine."""

    def __init__(self, engine: voicecore.Engine, options: argparse.Namespace) -> None:
        self._engine = engine
        self._notes = [float(note) for note in options.notes.split(",")]
        self._voice: str | None = options.voice
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[int, voicecore.Call] = {}

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            say("error", kind=type(error).__name__, text=str(error))

    async def incoming(self) -> None:
        async for call in self._engine.incoming():
            self.spawn(self._serve(call, call.dialled.user or ""))

    async def dial(self, uri: str, words: str, timeout_s: float, **more: Any) -> None:
        try:
            if "place" in words.split("."):
                call = await self._engine.place(uri, **more)
                self._begin(call)
                await call.answered()
            else:
                call = await self._engine.dial(uri, timeout_s=timeout_s, **more)
        except voicecore.VoicecoreError as error:
            say(
                "dial_failed",
                kind=type(error).__name__,
                code=error.code,
                status=getattr(error, "status", None),
            )
            return
        await self._serve(call, words)

    async def _serve(self, call: voicecore.Call, words: str) -> None:
        placed = call.id in self._calls
        if not placed:
            self._begin(call)
        silent = "silent" in words.split(".") or placed
        if call.direction == "out":
            say("answered", id=call.id, recording=call.recording, rate=call.rate)
            if not silent:
                self.spawn(self._play(call))
        if call.direction == "in" and not re.search(r"ring|early|answer|reject|hangup", words):
            call.reject(404)  # the peer mutates requests: a call nobody serves must not stay
            return
        for word in words.split("."):
            step = re.fullmatch(r"([a-z]+)(\d*)", word)
            if step is None:
                continue
            verb, number = step.group(1), int(step.group(2) or 0)
            try:
                if verb == "ring":
                    call.ring()
                elif verb == "wait":
                    await asyncio.sleep(number / 1000)
                elif verb == "early":
                    await call.early_media()
                    say("early", id=call.id)
                    if not silent:
                        self.spawn(self._play(call))
                    silent = True
                elif verb == "answer":
                    await call.answer()
                    say("answered", id=call.id, recording=call.recording, rate=call.rate)
                    if not silent:
                        self.spawn(self._play(call))
                elif verb == "answering":  # do not wait for the ACK
                    self.spawn(self._answer(call))
                elif verb == "reject":
                    call.reject(number, retry_after=7 if number == 503 else None)
                elif verb == "hangup":
                    call.hangup()
                    say("hung_up", id=call.id)
            except voicecore.VoicecoreError as error:
                say("refused", id=call.id, verb=verb, kind=type(error).__name__, code=error.code)
                return

    def _begin(self, call: voicecore.Call) -> None:
        self._calls[call.id] = call
        say(
            "call",
            id=call.id,
            sip_call_id=call.sip_call_id,
            direction=call.direction,
            account=call.account,
        )
        self.spawn(self._report(call))

    async def do(self, verb: str, call_id: int, **more: Any) -> None:
        """One operation inside of a call; tells `did`, or `refused` with the error."""
        call = self._calls[call_id]
        try:
            result: Any = None
            if verb == "hold":
                await call.hold(**more)
            elif verb == "resume":
                await call.resume()
            elif verb == "renegotiate":
                await call.renegotiate(**more)
            elif verb == "transfer":
                result = await call.transfer(**more)
            elif verb == "transfer_to":
                result = await call.transfer_to(self._calls[more.pop("other")], **more)
            elif verb == "follow":
                new = await self._engine.follow_transfer(call)
                result = new.id
                self.spawn(self._serve(new, ""))
            elif verb == "refuse":
                call.refuse_transfer(**more)
            elif verb == "hangup":
                call.hangup()
            else:
                raise AssertionError(f"no verb {verb}")
        except voicecore.VoicecoreError as error:
            say(
                "refused",
                id=call_id,
                verb=verb,
                kind=type(error).__name__,
                code=error.code,
                status=getattr(error, "status", None),
            )
        else:
            say("did", id=call_id, verb=verb, result=result)

    async def _answer(self, call: voicecore.Call) -> None:
        try:
            await call.answer()
        except voicecore.VoicecoreError as error:
            say("refused", id=call.id, verb="answer", kind=type(error).__name__, code=error.code)

    async def dtmf(self, number: int, digits: str, times: dict[str, int]) -> None:
        try:
            await self._calls[number].send_dtmf(digits, **times)
            say("dtmf_sent", id=number)
        except voicecore.VoicecoreError as error:
            status = getattr(error, "status", None)
            say("dtmf_failed", id=number, code=error.code, status=status)

    async def _play(self, call: voicecore.Call) -> None:
        """Keep a few seconds of melody queued until the call is gone."""
        each = 0.5
        chunk = audio.melody(self._notes, each).tobytes()
        length = each * len(self._notes)
        ahead = 0.0
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contextlib.suppress(voicecore.CallGone):
            if self._voice is not None:
                with wave.open(self._voice) as voice:
                    pcm, rate = voice.readframes(voice.getnframes()), voice.getframerate()
                call.play(pcm, rate, 1)
                call.finish(1)
                return
            while True:
                while ahead < loop.time() - began + _AHEAD * _CHUNK_S:
                    call.play(chunk, 8000, 1)
                    ahead += length
                await asyncio.sleep(_CHUNK_S)

    async def _report(self, call: voicecore.Call) -> None:
        samples = 0
        async for event in call.events():
            name = type(event).__name__
            if isinstance(event, voicecore.Audio):
                samples += len(event.pcm) // 2
                continue
            fields = plain(event)
            if name == "SpeechEnded":
                fields["samples"], samples = samples, 0
            if hasattr(event, "stats"):
                fields["stats"] = plain(event.stats)
            if name == "EarlyMedia" and call.direction == "out":
                self.spawn(self._play(call))
            if isinstance(event, voicecore.TransferRequested):
                fields["target_host"] = event.target.host
            say(name, id=call.id, **{key: value for key, value in fields.items() if key != "id"})


async def commands(appliance: Appliance, engine: voicecore.Engine, stop: asyncio.Event) -> None:
    """What the driver asks for, one line each; the end of the stream stops the engine."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = json.loads(line)
        if order["op"] == "stats":
            say("stats", **plain(engine.stats()))
        elif order["op"] == "dial":
            order.pop("op")
            appliance.spawn(appliance.dial(**{"words": "", "timeout_s": 60.0, **order}))
        elif order["op"] == "do":
            order.pop("op")
            verb, call_id = order.pop("verb"), order.pop("id")
            appliance.spawn(appliance.do(verb, call_id, **order))
        elif order["op"] == "drain":
            engine.drain(retry_after_s=order["retry_after_s"])
            say("draining", on=engine.draining)
        elif order["op"] == "undrain":
            engine.undrain()
            say("draining", on=engine.draining)
        elif order["op"] == "trunk":
            order.pop("op")
            trunk = engine.add_trunk(**order)
            trunk.on_change(lambda t: say("trunk", name=t.name, state=t.state))
        elif order["op"] == "password":
            for trunk in engine.trunks:
                if trunk.name == order["name"]:
                    trunk.update_password(order["password"])
        elif order["op"] == "dtmf":
            appliance.spawn(appliance.dtmf(order["id"], order["digits"], order["times"]))
        elif order["op"] == "stop":
            break
    stop.set()


async def main(options: argparse.Namespace) -> None:
    low, _, high = options.rtp_ports.partition("-")
    config = voicecore.EngineConfig(
        bind=options.bind,
        sip_port=options.sip_port,
        rtp_ports=(int(low), int(high)),
        codecs=tuple(options.codecs.split(",")),
        max_calls=options.max_calls,
        recording_dir=options.record,
        media_timeout_s=options.media_timeout,
        media_priority=options.media_priority,
        **json.loads(options.set),
        guard=voicecore.GuardConfig(**json.loads(options.guard)),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with voicecore.Engine(config) as engine:
        appliance = Appliance(engine, options)
        appliance.spawn(appliance.incoming())
        if options.control:
            appliance.spawn(commands(appliance, engine, stop))
        say("ready", host=engine.sip_address[0], port=engine.sip_address[1])
        await stop.wait()
        say("final", **plain(engine.stats()))
    say("stopped")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--sip-port", type=int, default=0)
    parser.add_argument("--rtp-ports", default="16384-32767", metavar="LOW-HIGH")
    parser.add_argument("--codecs", default="PCMA,PCMU")
    parser.add_argument("--max-calls", type=int, default=200)
    parser.add_argument("--record", metavar="DIR")
    parser.add_argument("--media-timeout", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--media-priority", type=int, metavar="1-99", help="SCHED_FIFO")
    parser.add_argument("--notes", default="500,700,1200", metavar="HERTZ,…")
    parser.add_argument("--voice", metavar="WAV", help="played once instead of the notes")
    parser.add_argument("--guard", default="{}", metavar="JSON", help="for voicecore.GuardConfig")
    parser.add_argument("--set", default="{}", metavar="JSON", help="more of EngineConfig")
    parser.add_argument("--control", action="store_true", help="take orders on standard input")
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(main(parser.parse_args()))
