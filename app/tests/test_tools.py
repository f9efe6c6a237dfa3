# SPDX-License-Identifier: GPL-3.0-or-later
"""Tool calls: how they are declared to the model, and read from its stream however it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from voice_edge.adapters import LlmClient
from voice_edge.machine.events import ToolCall
from voice_edge.machine.tools import Destination, described
from voice_edge.servers import pools
from voice_edge.settings import SettingsError

from .asking import ASK, everything
from .servers import Received, Server, Wire, delta
from .test_service import settings_for
from .virtual import run

MORE = """
    [agent.tools]
    hang_up = true
    [[agent.tools.transfer]]
    name = "sales"
    description = "Orders."
    target = "sip:s@192.0.2.9"
"""
TOOLS = described(True, [Destination("sales", "Orders.", "sip:s@192.0.2.9")])


def chunk(calls: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def part(arguments: str = "", name: str | None = None, index: int = 0) -> dict[str, Any]:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"index": index, "type": "function", "function": function}


def ask(*chunks: bytes, tools: Any = TOOLS) -> tuple[list[Any], Any]:
    """(what the client yields, the request's body)."""
    out: list[Any] = []

    async def answer(request: Received, wire: Wire) -> None:
        await wire.head("text/event-stream")
        for one in chunks:
            await wire.chunk(one)
        await wire.end()

    async def scenario() -> Any:
        async with Server(answer).running() as server:
            async with LlmClient(server.llm(), tools) as client:
                out.extend(await everything(client.reply(ASK)))
            return server.requests[0].json

    return out, run(scenario())


def test_tools_are_declared_without_addresses() -> None:
    _, body = ask(delta("Yes.", finish_reason="stop"))
    assert [t["function"]["name"] for t in body["tools"]] == ["hang_up", "transfer_call"]
    schema = body["tools"][1]["function"]["parameters"]
    assert schema["properties"]["destination"]["enum"] == ["sales"]
    assert schema["required"] == ["destination"]
    assert "192.0.2.9" not in json.dumps(body)


def test_without_tools_none_are_declared_and_none_are_taken() -> None:
    got, body = ask(delta("Yes."), chunk([part("{}", "hang_up")], "tool_calls"), tools=())
    assert "tools" not in body
    assert got == ["Yes."]


@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b""])
def test_a_call_that_comes_in_pieces(end: bytes) -> None:
    got, _ = ask(
        delta("Sure."),
        chunk([part("", "transfer_call")]),
        chunk([part('{"destin')]),
        chunk([part('ation": "sales"}')], "tool_calls"),
        *([end] if end else []),
    )
    assert got == ["Sure.", ToolCall("transfer_call", {"destination": "sales"})]


def test_two_calls_at_once() -> None:
    calls = [part("{}", "a"), part("", "b", index=1)]
    got, _ = ask(chunk(calls, "tool_calls"))
    assert got == [ToolCall("a", {}), ToolCall("b", {})]


@pytest.mark.parametrize(
    "calls",
    [
        [part("{", "a")],
        [part("[]", "a")],
        [part("{}", "")],
        [{"function": "a"}],
        ["a"],
        "a",
        {"a": 1},
        [part('"' + "x" * 70_000, "a")],
        [{**part("{}", "a"), "index": "first"}],
    ],
)
def test_what_is_no_call_is_passed_over(calls: Any) -> None:
    got, _ = ask(delta("Well."), chunk(calls, "tool_calls"))
    assert [p for p in got if p != ToolCall("a", {})] == ["Well."]


def test_settings_reach_the_model_and_its_backup() -> None:
    more = f'{MORE}\n[[llm.backup]]\nurl = "http://127.0.0.1:2"'
    llms, _, _ = pools(settings_for("http://127.0.0.1:1", more))
    assert [m.client._tools for m in llms.members] == [TOOLS, TOOLS]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(SettingsError, match=r"agent\.tools\.transfer\[1\]\.name: 'sales' is taken"):
        settings_for("http://127.0.0.1:1", MORE + MORE.partition("hang_up = true")[2])


def test_a_target_is_an_address() -> None:
    wrong = MORE.replace("sip:s@192.0.2.9", "0049 30 123")
    with pytest.raises(SettingsError, match=r"agent\.tools\.transfer\[0\]\.target: ") as caught:
        settings_for("http://127.0.0.1:1", wrong)
    assert "0049" not in str(caught.value)
