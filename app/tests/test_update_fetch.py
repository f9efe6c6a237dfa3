# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases over real HTTPS on loopback: cut, slow, gone, lying; each byte is loaded once."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from voice_edge.update import fetch
from voice_edge.update.fetch import FetchError
from voice_edge.update.index import Release, parse

from .update_server import CONTENT, Channel, certificate, entry, index, serving
from .virtual import run

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return certificate(tmp_path_factory.mktemp("tls"))


def with_channel(
    tls: Contexts, work: Callable[[Channel], Coroutine[Any, Any, Any]], **state: Any
) -> Channel:
    async def go() -> Channel:
        channel = Channel()
        for name, value in state.items():
            setattr(channel, name, value)
        async with serving(channel, tls[0]):
            await work(channel)
        return channel

    return run(go())


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


async def listed(channel: Channel, client: ssl.SSLContext) -> Release:
    url = f"{channel.url}/stable.json"
    return parse(await fetch.index(url, tls=client), url).releases[0]


def test_a_release_comes_whole(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        path = await fetch.release(await listed(channel, tls[1]), tmp_path, tls=tls[1])
        assert path.read_bytes() == CONTENT
        assert sizes(tmp_path) == {path.name: len(CONTENT)}

    with_channel(tls, go)


@pytest.mark.parametrize("share", [0.1, 0.6, 0.99])
def test_a_line_that_is_cut_goes_on_where_it_was(
    tls: Contexts, tmp_path: Path, share: float
) -> None:
    async def go(channel: Channel) -> None:
        path = await fetch.release(await listed(channel, tls[1]), tmp_path, tls=tls[1])
        assert path.read_bytes() == CONTENT

    channel = with_channel(tls, go, cuts=[int(len(CONTENT) * share)])
    again = [asked for asked in channel.asked if "bytes=" in asked]
    assert len(again) == 1
    assert int(again[0].partition("bytes=")[2][:-1]) > 0


def test_a_run_that_was_cut_off_is_gone_on_with_by_the_next(tls: Contexts, tmp_path: Path) -> None:
    piece = 100_000

    async def go(channel: Channel) -> None:
        wanted = await listed(channel, tls[1])
        with pytest.raises(FetchError, match=r"ota\.unreachable.*the rest later") as caught:
            await fetch.release(wanted, tmp_path, tls=tls[1])
        assert caught.value.refusal.again
        loaded = sum(sizes(tmp_path).values())
        assert 0 < loaded <= fetch.TRIES * piece
        before = channel.sent
        path = await fetch.release(wanted, tmp_path, tls=tls[1])
        assert path.read_bytes() == CONTENT
        assert channel.sent - before == len(CONTENT) - loaded

    with_channel(tls, go, cuts=[piece] * fetch.TRIES)


def test_a_slow_line_may_take_its_time(tls: Contexts, tmp_path: Path) -> None:
    """50 s between pieces: hours in all, and no piece comes too late."""

    async def go(channel: Channel) -> None:
        path = await fetch.release(await listed(channel, tls[1]), tmp_path, tls=tls[1])
        assert path.read_bytes() == CONTENT

    channel = with_channel(tls, go, slow_s=50.0)
    assert len(channel.asked) == 2


def test_a_silent_line_is_given_up(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        wanted = await listed(channel, tls[1])
        channel.slow_s = 3_600.0
        with pytest.raises(FetchError, match=r"ota\.unreachable"):
            await fetch.release(wanted, tmp_path, tls=tls[1])

    with_channel(tls, go)


def test_a_server_that_is_gone(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        wanted = await listed(channel, tls[1])
        dead = Release(
            wanted.version, wanted.compatible, "https://127.0.0.1:9/x", 10, wanted.sha256
        )
        with pytest.raises(FetchError, match=r"ota\.unreachable") as caught:
            await fetch.release(dead, tmp_path, tls=tls[1])
        assert caught.value.refusal.again
        with pytest.raises(FetchError, match=r"ota\.unreachable"):
            await fetch.index("https://127.0.0.1:9/stable.json", tls=tls[1])

    with_channel(tls, go)


@pytest.mark.parametrize("status", [301, 404, 500])
def test_answers_that_are_no_release(tls: Contexts, tmp_path: Path, status: int) -> None:
    async def go(channel: Channel) -> None:
        wanted = await listed(channel, tls[1])
        channel.status = status
        with pytest.raises(FetchError, match=f"answered {status}"):
            await fetch.release(wanted, tmp_path, tls=tls[1])
        with pytest.raises(FetchError, match=f"answered {status}"):
            await fetch.index(f"{channel.url}/stable.json", tls=tls[1])

    with_channel(tls, go)


def test_a_server_without_ranges_begins_again(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        path = await fetch.release(await listed(channel, tls[1]), tmp_path, tls=tls[1])
        assert path.read_bytes() == CONTENT

    with_channel(tls, go, ranges=False, cuts=[500_000])


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"more", CONTENT[:-5]])
def test_other_content_is_not_taken(tls: Contexts, tmp_path: Path, content: bytes) -> None:
    async def go(channel: Channel) -> None:
        wanted = await listed(channel, tls[1])
        with pytest.raises(FetchError, match=r"ota\.(corrupted|unreachable)"):
            await fetch.release(wanted, tmp_path, tls=tls[1])
        assert not [name for name in sizes(tmp_path) if name.endswith(".raucb")]
        # And the next try gets it, if the server mends itself.
        channel.content = CONTENT
        assert (await fetch.release(wanted, tmp_path, tls=tls[1])).read_bytes() == CONTENT

    with_channel(tls, go, content=content)


def test_a_certificate_of_somebody_else(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        with pytest.raises(FetchError, match="certificate is not accepted"):
            await fetch.index(f"{channel.url}/stable.json")

    with_channel(tls, go)


def test_a_disk_that_is_full(tls: Contexts, tmp_path: Path) -> None:
    async def go(channel: Channel) -> None:
        huge = Release("1.1.0", "c", f"{channel.url}/1.1.0.raucb", 1 << 60, "0" * 64)
        with pytest.raises(FetchError, match=r"ota\.no-space"):
            await fetch.release(huge, tmp_path, tls=tls[1])

    channel = with_channel(tls, go)
    assert channel.asked == []


def test_what_is_not_wanted_any_more_is_removed(tls: Contexts, tmp_path: Path) -> None:
    (tmp_path / f"{'1' * 64}.part").write_bytes(b"old")
    (tmp_path / f"{'2' * 64}.raucb").write_bytes(b"old")
    (tmp_path / "state.json").write_text("{}")

    async def go(channel: Channel) -> None:
        await fetch.release(await listed(channel, tls[1]), tmp_path, tls=tls[1])

    with_channel(tls, go)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {f"{hashlib.sha256(CONTENT).hexdigest()}.raucb", "state.json"}


def test_a_stick_is_a_channel_too(tmp_path: Path) -> None:
    stick, target = tmp_path / "my stick", tmp_path / "data"
    stick.mkdir()
    (stick / "1.1.0.raucb").write_bytes(CONTENT)
    (stick / "stable.json").write_bytes(index(entry()))
    url = f"file://{str(stick).replace(' ', '%20')}/stable.json"

    async def go() -> None:
        wanted = parse(await fetch.index(url), url).releases[0]
        assert (await fetch.release(wanted, target)).read_bytes() == CONTENT
        (stick / "1.1.0.raucb").unlink()
        (target / f"{wanted.sha256}.raucb").unlink()
        with pytest.raises(FetchError, match="No such file"):
            await fetch.release(wanted, target)

    run(go())
