# SPDX-License-Identifier: GPL-3.0-or-later
"""One error for all model servers; transient or permanent is decided where it is made."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Where a request failed; also the error's stable code, as ``llm.first_byte``."""

    CONNECT = "connect"
    FIRST_BYTE = "first_byte"
    BETWEEN_CHUNKS = "between_chunks"
    TOTAL = "total"
    CLOSED = "closed"  # the connection ended before the answer did
    STATUS = "status"  # an HTTP status other than 200
    SERVER = "server"  # an error reported inside the answer
    PROTOCOL = "protocol"  # not what the protocol says


_REMEDIES = {
    Stage.CONNECT: "is it running, and is {server}.url right?",
    Stage.FIRST_BYTE: "it is overloaded or hangs; raise {server}.first_byte_s if it is only slow",
    Stage.BETWEEN_CHUNKS: "it stalled; raise {server}.between_chunks_s if it is only slow",
    Stage.TOTAL: "it is too slow; raise {server}.total_s if that is acceptable",
    Stage.CLOSED: "look at the server's log",
    Stage.STATUS: "look at the server's log; check {server}.model and {server}.api_key_file",
    Stage.SERVER: "look at the server's log",
    Stage.PROTOCOL: "is {server}.url the right kind of server?",
}


class ServerError(Exception):
    """A model server did not answer as it should.

    ``detail`` is written by us and never quotes the server, whose words may repeat the caller's.
    """

    def __init__(
        self, server: str, stage: Stage, detail: str, *, transient: bool, status: int | None = None
    ) -> None:
        self.server = server
        self.stage = stage
        self.transient = transient
        self.status = status
        self.code = f"{server}.{stage}"
        self.remedy = _REMEDIES[stage].format(server=server)
        super().__init__(f"{server} server: {detail}; {self.remedy}")


def status_error(server: str, status: int) -> ServerError:
    """408, 425, 429 and 5xx may pass (RFC 9110 §15); the rest will fail again."""
    transient = status in (408, 425, 429) or status >= 500
    return ServerError(
        server, Stage.STATUS, f"HTTP status {status}", transient=transient, status=status
    )
