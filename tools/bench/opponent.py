# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent on pjsua2 without models: what tools/bench/listener.py is on voicecore, built the usual way.

    python -m tools.bench.opponent --calls N --pcm FILE

PJSIP's conference bridge clocks a Python callback a call and frame each way; core/reference hears in it, its pool runs
the network, and the main thread takes what is heard every 20 ms. Needs `python3 -m tools.pjsua2` on PYTHONPATH. Prints
`ready PORT`; on stdin `stats` prints its counters; the end of stdin ends it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pjsua2

from core.reference.pool import Pool, State
from core.reference.speech import WINDOW, Caller

RATE, FRAME, TICK_S = 8000, 160, 0.02
OCTETS = FRAME * 2
PORTS = 16384
TICK_US = 20_000


class Counters:
    """What happened, and the interpreter's part of it in the bridge's thread, ns."""

    def __init__(self) -> None:
        self.frames = self.audio = self.starts = self.callback_ns = 0


class Port(pjsua2.AudioMediaPort):  # type: ignore[misc]
    """One call's place in the bridge."""

    def __init__(self, agent: Agent, number: int) -> None:
        super().__init__()
        self._agent, self._number = agent, number
        self._caller, self._state = Caller(RATE), State(RATE)
        self._scratch = bytearray(OCTETS)
        self._asked: Future[np.float32] | None = None
        self._at = number * 31 * 50 * OCTETS
        form = pjsua2.MediaFormatAudio()
        form.init(pjsua2.PJMEDIA_FORMAT_PCM, RATE, 1, TICK_US, 16)
        self.createPort(f"agent {number}", form)

    def onFrameReceived(self, frame: Any) -> None:
        begin = time.thread_time_ns()
        counters = self._agent.counters
        counters.frames += 1
        if frame.type == pjsua2.PJMEDIA_FRAME_TYPE_AUDIO:
            frame.buf.copy_to_bytearray(self._scratch)
        event = None
        if self._asked is not None and self._asked.done():
            event = self._judge()
        window = self._caller.hear(np.frombuffer(self._scratch, "<i2"))
        if window is not None:
            if self._asked is not None:
                # The network lags: its answers come in order.
                event = self._judge() or event
            self._asked = self._agent.pool.submit(self._state, window)
        if event is not None and event.started:
            counters.starts += 1
        if self._caller.deliver(event) is not None:
            self._agent.heard.append((self._number, bytes(self._scratch)))
        counters.callback_ns += time.thread_time_ns() - begin

    def _judge(self) -> Any:
        asked, self._asked = self._asked, None
        return self._caller.judge(asked.result()) if asked is not None else None

    def onFrameRequested(self, frame: Any) -> None:
        begin = time.thread_time_ns()
        voice = self._agent.voice
        at = self._at % (len(voice) - OCTETS)
        self._at = at + OCTETS
        frame.type = pjsua2.PJMEDIA_FRAME_TYPE_AUDIO
        frame.buf.assign_from_bytes(voice[at : at + OCTETS])
        self._agent.counters.callback_ns += time.thread_time_ns() - begin


class Call(pjsua2.Call):  # type: ignore[misc]
    def __init__(self, account: pjsua2.Account, agent: Agent, number: int) -> None:
        super().__init__(account, number)
        self._agent = agent
        self._port: Port | None = None

    def onCallMediaState(self, _: Any) -> None:
        if self._port is None:
            media = self.getAudioMedia(-1)
            self._port = Port(self._agent, self.getId())
            media.startTransmit(self._port)
            self._port.startTransmit(media)


class Account(pjsua2.Account):  # type: ignore[misc]
    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent
        self._calls: list[Call] = []

    def onIncomingCall(self, incoming: Any) -> None:
        call = Call(self, self._agent, incoming.callId)
        # Python's half has to outlive this callback.
        self._calls.append(call)
        answer = pjsua2.CallOpParam()
        answer.statusCode = 200
        call.answer(answer)


class Agent:
    """The endpoint, its pool, and what its callers said."""

    def __init__(self, calls: int, voice: bytes) -> None:
        self.voice, self.counters = memoryview(voice), Counters()
        self.heard: deque[tuple[int, bytes]] = deque()
        self.pool = Pool(threads=len(os.sched_getaffinity(0)))
        self.pool.submit(State(RATE), np.zeros(WINDOW[RATE], np.float32)).result()
        self._endpoint = pjsua2.Endpoint()
        self._endpoint.libCreate()
        config = pjsua2.EpConfig()
        config.uaConfig.maxCalls = calls
        config.logConfig.level = config.logConfig.consoleLevel = 1
        media = config.medConfig
        media.clockRate = media.sndClockRate = RATE
        media.channelCount, media.audioFramePtime = 1, 20
        media.maxMediaPorts = calls * 2 + 8
        media.ecTailLen, media.noVad = 0, True
        self._endpoint.libInit(config)
        self._endpoint.audDevManager().setNullDev()
        transport = pjsua2.TransportConfig()
        transport.boundAddress = "127.0.0.1"
        used = self._endpoint.transportCreate(pjsua2.PJSIP_TRANSPORT_UDP, transport)
        self._endpoint.libStart()
        account = pjsua2.AccountConfig()
        account.idUri = "sip:agent@127.0.0.1"
        account.mediaConfig.transportConfig.boundAddress = "127.0.0.1"
        account.mediaConfig.transportConfig.port = PORTS
        self._account = Account(self)
        self._account.create(account, True)
        address = self._endpoint.transportGetInfo(used).localName
        self.port = int(address.rpartition(":")[2])

    def take(self) -> None:
        """What the application does with the speech: it is counted."""
        while self.heard:
            self.heard.popleft()
            self.counters.audio += 1

    def stats(self) -> dict[str, int]:
        vad = [one.native_id for one in threading.enumerate() if one.name[:3] == "vad"]
        texts = (Path(f"/proc/self/task/{task}/schedstat").read_text() for task in vad)
        return {
            **vars(self.counters),
            "main_ns": time.thread_time_ns(),
            "vad_ns": sum(int(text.split()[0]) for text in texts),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--pcm", type=Path, required=True)
    options = parser.parse_args()
    agent = Agent(options.calls, options.pcm.read_bytes())
    gc.collect()
    gc.freeze()
    print(f"ready {agent.port}", flush=True)
    # Unbuffered, or a line would wait behind the select.
    stdin = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    while True:
        readable, _, _ = select.select([stdin], [], [], TICK_S)
        agent.take()
        if readable:
            if not stdin.read(4096):
                break
            print(json.dumps(agent.stats()), flush=True)
    # PJSIP's threads are still in Python's callbacks: nothing is torn down in order here.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
