# SPDX-License-Identifier: GPL-3.0-or-later
"""Model servers that answer at once with fixed things: for tests of the agent around them.

The voice is a steady tone, long enough to be interrupted; the recogniser always hears the same words.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import audio

RATE = 24000
WORDS = "please go on"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self.path.endswith("/chat/completions"):
                self._chat()
            elif self.path.endswith("/audio/speech"):
                self._speech()
            elif self.path.endswith("/audio/transcriptions"):
                at = body.index(b"fmt ")
                self.server.rates.append(int.from_bytes(body[at + 12 : at + 16], "little"))
                self._whole(json.dumps({"text": WORDS}).encode(), "application/json")
            else:
                self.send_error(404)

    def do_GET(self) -> None:
        self._whole(b'{"object": "list", "data": []}', "application/json")

    def _whole(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunks(self, kind: str, chunks: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _chat(self) -> None:
        def events() -> Iterator[bytes]:
            for piece in ("This is a reply ", "that goes on and on."):
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                yield f"data: {json.dumps({'choices': [choice]})}\n\n".encode()
            yield b"data: [DONE]\n\n"

        self._chunks("text/event-stream", events())

    def _speech(self) -> None:
        voice = self.server.voice
        step = RATE // 5 * 2  # 200 ms of 16 bit
        self._chunks("audio/pcm", (voice[at : at + step] for at in range(0, len(voice), step)))

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    voice: bytes = b""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rates: list[int] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what barge-in does."""


class Models:
    """All three on one port; `url` is what the agent's settings name."""

    def __init__(self, *, spoken_s: float = 20.0, note: float = 500.0) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self.rates = self._server.rates  # of what was to be transcribed
        self._server.voice = audio.tone(note, spoken_s, rate=RATE).tobytes()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2)
