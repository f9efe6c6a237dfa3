# SPDX-License-Identifier: GPL-3.0-or-later
"""A release from the channel to /data: goes on where it stopped, whole by its checksum or not there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp

from .index import LARGEST, Release
from .refusals import Refusal

CHUNK = 1 << 18
MARGIN = 64 << 20
"""Bytes that stay free on /data: a call's recording is not to fail because an update was loaded."""
CONNECT_S, SILENT_S, INDEX_S = 20.0, 60.0, 60.0
TRIES = 5
"""In one go; the next go is the timer's."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_SERVER = "Check the network, [update] url and the update server"


class FetchError(Exception):
    """Not loaded now. ``refusal.again`` says whether the same release may be tried again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text())
        self.refusal = refusal


class _Broken(Exception):
    """The connection; what was loaded stays."""


def _unreachable(why: str) -> FetchError:
    what = f"the update server cannot be used: {why}"
    return FetchError(Refusal("ota.unreachable", what, _SERVER, again=True))


async def index(url: str, *, tls: ssl.SSLContext | None = None) -> bytes:
    """The bytes of an index. Raises :class:`FetchError`."""
    if urlsplit(url).scheme == "file":
        try:
            return _path(url).read_bytes()[: LARGEST + 1]
        except OSError as error:
            raise _unreachable(f"{_path(url)}: {error.strerror}") from None
    try:
        async with asyncio.timeout(INDEX_S), _session(tls) as http:
            async with http.get(url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise _unreachable(f"{_shown(url)} answered {answer.status}")
                return await answer.content.read(LARGEST + 1) + await answer.content.read(1)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unreachable(_why(error)) from None


async def release(
    wanted: Release, folder: Path, *, tls: ssl.SSLContext | None = None, pause_s: float = 5.0
) -> Path:
    """``wanted`` as a file in ``folder``, its checksum right. Raises :class:`FetchError` or OSError.

    What was loaded before, in this run or in one that was cut off, is not loaded again.
    """
    whole, part = _make_room(wanted, folder)
    if part is None:
        return whole
    await _load(wanted, part, tls, pause_s)
    if _digest(part) != wanted.sha256:
        os.unlink(part)
        what = "what was loaded is not the release that the channel names"
        raise FetchError(Refusal("ota.corrupted", what, "It is loaded anew; see the server", True))
    os.replace(part, whole)
    return whole


def _make_room(wanted: Release, folder: Path) -> tuple[Path, Path | None]:
    """Where the whole file and its loaded part are to lie; no part when it is whole already."""
    folder.mkdir(parents=True, exist_ok=True)
    whole, part = (folder / f"{wanted.sha256}{suffix}" for suffix in (".raucb", ".part"))
    if _size(whole) == wanted.size:
        return whole, None
    for other in folder.iterdir():
        # Of a release that is not wanted any more.
        if other.suffix in (".part", ".raucb") and other != part:
            other.unlink()
    if shutil.disk_usage(folder).free < wanted.size - _size(part) + MARGIN:
        what = f"no space for the release: {wanted.size >> 20} MiB and {MARGIN >> 20} MiB to spare"
        raise FetchError(Refusal("ota.no-space", what, "Free some below /data/recordings", True))
    return whole, part


def _size(path: Path) -> int:
    """0 when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def _load(wanted: Release, part: Path, tls: ssl.SSLContext | None, pause_s: float) -> None:
    why = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(pause_s * 2 ** (attempt - 1))
        have = _size(part)
        if have > wanted.size:
            os.truncate(part, 0)
            have = 0
        if have == wanted.size:
            return
        try:
            await _more(wanted, part, have, tls)
        except (aiohttp.ClientError, TimeoutError, _Broken) as error:
            why = _why(error)
        else:
            return
    have = _size(part)
    raise _unreachable(f"{why}; {have >> 10} of {wanted.size >> 10} KiB are loaded, the rest later")


async def _more(wanted: Release, part: Path, have: int, tls: ssl.SSLContext | None) -> None:
    with part.open("ab") as file:
        try:
            async for start, chunk in _chunks(wanted, have, tls):
                if start == 0 and file.tell() > 0:
                    file.truncate(0)  # a server that cannot begin in the middle
                if file.tell() + len(chunk) > wanted.size:
                    raise _Broken("the server sends more than the release has")
                file.write(chunk)
        finally:
            file.flush()
            os.fsync(file.fileno())
        if file.tell() != wanted.size:
            raise _Broken("the connection ended too early")


async def _chunks(
    wanted: Release, have: int, tls: ssl.SSLContext | None
) -> AsyncIterator[tuple[int, bytes]]:
    """Chunks, each with 0 when it is the first of an answer from the beginning, else with 1 or more."""
    if urlsplit(wanted.url).scheme == "file":
        try:
            with _path(wanted.url).open("rb") as stick:
                stick.seek(have)
                while chunk := stick.read(CHUNK):
                    yield 1, chunk
        except OSError as error:
            raise _Broken(f"{_path(wanted.url)}: {error.strerror}") from None
        return
    headers = {"Range": f"bytes={have}-"} if have else {}
    # No limit over all: a slow line may take its time, as long as something comes.
    async with _session(tls) as http:
        async with http.get(wanted.url, headers=headers, allow_redirects=False) as answer:
            first = 0
            if answer.status == 206:
                said = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
                if said is None or (int(said[1]), int(said[2])) != (have, wanted.size):
                    raise _Broken("the server answers another range than was asked for")
                first = 1
            elif answer.status != 200:
                raise _Broken(f"{_shown(wanted.url)} answered {answer.status}")
            async for chunk in answer.content.iter_chunked(CHUNK):
                yield first, chunk
                first = 1


def _session(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else ssl.create_default_context())
    # Bytes as they are: a compressed answer has other offsets.
    headers = {"Accept-Encoding": "identity"}
    return aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def _shown(url: str) -> str:
    """Without what may be a secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted ({error.certificate_error})"
    return str(error) or type(error).__name__
