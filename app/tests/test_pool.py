# SPDX-License-Identifier: GPL-3.0-or-later
"""Several servers of one kind: who is asked, who takes over, who is left alone and for how long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, cast

import pytest

from voice_edge.adapters import LlmPool, ServerError, SttPool, TtsPool
from voice_edge.adapters.errors import status_error
from voice_edge.machine.events import Message
from voice_edge.servers import pools
from voice_edge.settings import loads

from .asking import everything
from .fakes import Script, down
from .test_service import settings_for
from .virtual import run

ASK = (Message("user", "What time is it?"),)


class FakeClient:
    """A server of any kind, that yields its script's pieces."""

    name = "llm"
    rate = 24_000

    def __init__(self, *scripts: Any) -> None:
        self.scripts: tuple[Script, ...] = scripts
        self.asked: list[Any] = []
        self.probes = 0
        self.alive = True

    async def __aenter__(self) -> FakeClient:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    async def probe(self) -> bool:
        self.probes += 1
        return self.alive

    async def reply(self, asked: Any) -> AsyncGenerator[Any, None]:
        self.asked.append(asked)
        script = self.scripts[min(len(self.asked), len(self.scripts)) - 1]
        await asyncio.sleep(script.first_s)
        for piece in script.pieces:
            yield piece
            await asyncio.sleep(script.pause_s)
        if script.hangs:
            await asyncio.sleep(3_600)
        if script.fails is not None:
            raise script.fails

    speak = reply

    async def transcribe(self, pcm: bytes, rate: int) -> str:
        async for piece in self.reply((pcm, rate)):
            return str(piece)
        raise AssertionError


DOWN = Script(fails=down("llm"))
HANGS = Script(hangs=True)
GOOD = Script(["It is", " noon."])


def llm(*clients: FakeClient) -> LlmPool:
    return LlmPool(clients, 1.5, "Please go on.")  # type: ignore[arg-type]


def play(work: Coroutine[Any, Any, None]) -> None:
    run(work, sockets=False)


async def said(pool: LlmPool, asked: Sequence[Message] = ASK) -> str:
    return "".join(await everything(pool.reply(asked)))


@pytest.mark.parametrize("bad", [DOWN, HANGS], ids=["down", "hangs"])
def test_the_next_server_answers_when_the_first_does_not(bad: Script) -> None:
    async def scenario() -> None:
        first, second = FakeClient(bad), FakeClient(GOOD)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await said(llm(first, second)) == "It is noon."
        assert loop.time() - began < 2.0
        assert first.asked == second.asked == [[*ASK]]

    play(scenario())


@pytest.mark.parametrize("how", [{"fails": down("llm")}, {"hangs": True}], ids=["fails", "hangs"])
def test_the_next_model_goes_on_from_what_was_said(how: dict[str, Any]) -> None:
    async def scenario() -> None:
        first = FakeClient(Script(["It is noon.", " And it"], **how))
        second = FakeClient(Script(["will", " rain."]))
        assert await said(llm(first, second)) == "It is noon. And it will rain."
        assert second.asked == [
            [*ASK, Message("assistant", "It is noon. And it"), Message("user", "Please go on.")]
        ]

    play(scenario())


def test_the_next_voice_says_the_sentence_again() -> None:
    async def scenario() -> None:
        first = FakeClient(Script(cast(Any, [b"ab"]), fails=down("tts")))
        second = FakeClient(Script(cast(Any, [b"abcd", b"ef"])))
        pool = TtsPool([first, second], 1.5)  # type: ignore[list-item]
        assert await everything(pool.speak("Hello.")) == [b"ab", b"abcd", b"ef"]
        assert first.asked == second.asked == ["Hello."]

    play(scenario())


def test_the_next_recogniser_gets_the_same_audio() -> None:
    async def scenario() -> None:
        first, second = FakeClient(HANGS), FakeClient(Script(["noon"]))
        pool = SttPool([first, second], 1.5)  # type: ignore[list-item]
        assert await pool.transcribe(b"pcm", 16_000) == "noon"
        assert first.asked == second.asked == [(b"pcm", 16_000)]

    play(scenario())


def test_the_last_servers_error_is_told() -> None:
    async def scenario() -> None:
        pool = llm(FakeClient(HANGS), FakeClient(DOWN))
        with pytest.raises(ServerError) as caught:
            await said(pool)
        assert caught.value.code == "llm.connect"

    play(scenario())


def test_a_server_that_failed_is_asked_last_until_it_answers_again() -> None:
    async def scenario() -> None:
        first, second = FakeClient(DOWN, GOOD), FakeClient(GOOD)
        pool = llm(first, second)
        await said(pool)
        await said(pool)
        assert (len(first.asked), len(second.asked)) == (1, 2)
        assert pool.health() == [("llm", False), ("llm backup 1", True)]
        prober = asyncio.create_task(pool.keep_probing())
        await asyncio.sleep(2.0)
        assert pool.health() == [("llm", True), ("llm backup 1", True)]
        assert first.probes == 1
        await said(pool)
        assert (len(first.asked), len(second.asked)) == (2, 2)
        prober.cancel()

    play(scenario())


def test_a_server_that_stays_away_is_looked_for_ever_less_often() -> None:
    async def scenario() -> None:
        first = FakeClient(DOWN)
        first.alive = False
        pool = llm(first)
        with pytest.raises(ServerError):
            await said(pool)
        prober = asyncio.create_task(pool.keep_probing())
        await asyncio.sleep(35.0)
        assert first.probes == 5  # after 1, 2, 4, 8 and 16 s
        await asyncio.sleep(300.0)
        assert 8 <= first.probes - 5 <= 10  # then once in 30 s
        prober.cancel()

    play(scenario())


def test_one_that_only_lives_goes_on_where_its_back_off_was() -> None:
    async def scenario() -> None:
        first = FakeClient(DOWN)
        pool = llm(first)
        prober = asyncio.create_task(pool.keep_probing())
        for _ in range(4):
            with pytest.raises(ServerError):
                await said(pool)
            await asyncio.sleep(16.0)
        assert first.probes == 4
        assert pool.members[0].failures == 4
        prober.cancel()

    play(scenario())


def test_up_means_not_sure_to_fail() -> None:
    async def scenario() -> None:
        pool = llm(FakeClient(DOWN, DOWN, GOOD))
        for _ in range(2):
            assert not pool.members[0].down  # a single failure may be the request's
            with pytest.raises(ServerError):
                await said(pool)
        assert not pool.up
        await said(pool)
        assert [m.down for m in pool.members] == [False]

    play(scenario())


def test_a_request_nobody_takes_is_not_the_servers_fault() -> None:
    async def scenario() -> None:
        pool = llm(FakeClient(Script(fails=status_error("llm", 400))))
        for _ in range(3):
            with pytest.raises(ServerError):
                await said(pool)
        assert pool.up
        assert pool.health() == [("llm", True)]

    play(scenario())


def test_a_reply_that_is_cut_is_no_failure() -> None:
    async def scenario() -> None:
        first, second = FakeClient(Script(["It is"], hangs=True)), FakeClient(GOOD)
        pool = llm(first, second)
        async with contextlib.aclosing(pool.reply(ASK)) as pieces:
            assert await anext(pieces) == "It is"
        job = asyncio.create_task(said(pool))
        await asyncio.sleep(1.0)
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        assert pool.health() == [("llm", True), ("llm backup 1", True)]
        assert second.asked == []

    play(scenario())


def test_backups_are_as_the_server_they_stand_in_for_but_for_the_key() -> None:
    more = """
        [[llm.backup]]
        url = "http://127.0.0.1:2"
        model = "small"
        [[tts.backup]]
        url = "http://127.0.0.1:3"
        voice = "other"
        [[stt.backup]]
        url = "http://127.0.0.1:4"
        [[stt.backup]]
        url = "http://127.0.0.1:5"
    """
    llms, ttss, stts = pools(settings_for("http://127.0.0.1:1", more))
    assert [(m.label, m.client.settings.url, m.client.settings.model) for m in llms.members] == [
        ("llm", "http://127.0.0.1:1", "m"),
        ("llm backup 1", "http://127.0.0.1:2", "small"),
    ]
    assert [(m.client.settings.voice, m.client.settings.model) for m in ttss.members] == [
        ("v", "m"),
        ("other", "m"),
    ]
    assert [m.client.settings.url[-1] for m in stts.members] == ["1", "4", "5"]


def test_the_key_of_the_first_is_not_sent_to_the_second(tmp_path: Any) -> None:
    (tmp_path / "key").write_text("sesame\n")
    text = """
        [agent]
        system_prompt = "Help."
        [llm]
        url = "http://127.0.0.1:1"
        model = "m"
        api_key_file = "key"
        [[llm.backup]]
        url = "http://127.0.0.1:2"
        [tts]
        url = "http://127.0.0.1:1"
        model = "m"
        voice = "v"
        [stt]
        url = "http://127.0.0.1:1"
        model = "m"
    """
    first, second = pools(loads(text, base=tmp_path))[0].members
    assert first.client.settings.api_key_file is not None
    assert second.client.settings.api_key_file is None
