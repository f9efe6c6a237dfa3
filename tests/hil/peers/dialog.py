# SPDX-License-Identifier: GPL-3.0-or-later
"""One established call over plain datagrams, for tests that disturb it."""

from __future__ import annotations

import os
import re
from types import TracebackType

from .datagrams import Address, Datagrams, field, status_of


def tag(message: bytes, header: str) -> str:
    """The tag of From or To."""
    found = re.search(r"tag=([^;>\s]+)", field(message, header) or "")
    assert found, f"no tag in {header}"
    return found.group(1)


class Dialog:
    """Answered and acknowledged when made; ended by BYE on leaving."""

    def __init__(
        self,
        caller: Datagrams,
        name: str,
        *,
        words: str = "answer",
        rtp_port: int = 40000,
        **offer: str,
    ) -> None:
        """`offer` goes to `Datagrams.invite`, such as another `body`."""
        self._caller = caller
        self._words = words
        # A port may come again within a file of tests, a Call-ID must not.
        self.call_id = f"{name}-{os.urandom(4).hex()}@127.0.0.1"
        invite = caller.invite(user=words, call_id=self.call_id, rtp_port=rtp_port, **offer)
        answer = caller.answer_to(invite)
        assert answer, "the call was not answered"
        assert status_of(answer) == 200, answer
        self.answer = answer
        self.to_tag = tag(answer, "To")
        port = re.search(rb"^m=audio (\d+)", answer, re.MULTILINE)
        host = re.search(rb"^c=IN IP4 (\S+?)\r", answer, re.MULTILINE)
        assert port, answer
        assert host, answer
        self.remote_rtp: Address = (host.group(1).decode(), int(port.group(1)))
        caller.send(self.request("ACK"))

    def request(
        self, method: str, *, cseq: int = 1, from_tag: str = "a1", to_tag: str | None = None
    ) -> bytes:
        """A request inside this dialog, or with other tags beside it."""
        return self._caller.request(
            method,
            user=self._words,
            call_id=self.call_id,
            from_tag=from_tag,
            to_tag=to_tag or self.to_tag,
            cseq=cseq,
        )

    def end(self) -> None:
        # above any CSeq that a mutated request may have shown
        answer = self._caller.answer_to(self.request("BYE", cseq=2_000_000_000))
        assert answer, "no answer to BYE"
        assert status_of(answer) == 200, answer

    def __enter__(self) -> Dialog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.end()
