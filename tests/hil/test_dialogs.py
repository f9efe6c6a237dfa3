# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that belong to no dialog, or to another one than they say (B13), and repeated INVITEs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hil.drivers.local import LocalCore
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import Dialog, tag
from hil.peers.process import eventually
from hil.test_calls_in import assert_media_ports_freed


@pytest.fixture
def caller(core: LocalCore) -> Iterator[Datagrams]:
    with Datagrams(core.sip) as datagrams:
        yield datagrams


def test_b13_bye_of_a_dialog_nobody_knows(core: LocalCore, caller: Datagrams) -> None:
    answer = caller.answer_to(caller.request("BYE", call_id="gone@127.0.0.1", to_tag="gone"))
    assert answer
    assert status_of(answer) == 481


@pytest.mark.parametrize(("from_tag", "to_tag"), [("a1", "foreign"), ("foreign", None)])
def test_b13_bye_with_a_foreign_tag_leaves_the_call_up(
    core: LocalCore, caller: Datagrams, from_tag: str, to_tag: str | None
) -> None:
    dialog = Dialog(caller, f"foreign{from_tag}")
    answer = caller.answer_to(dialog.request("BYE", cseq=2, from_tag=from_tag, to_tag=to_tag))
    assert answer
    assert status_of(answer) == 481
    dialog.end()


def test_b13_bye_again_after_the_end(core: LocalCore, caller: Datagrams) -> None:
    dialog = Dialog(caller, "again")
    dialog.end()
    answer = caller.answer_to(dialog.request("BYE", cseq=2_000_000_001))
    assert answer
    assert status_of(answer) == 481


def test_b13_known_call_id_without_to_tag_opens_no_second_call_in_the_dialog(
    core: LocalCore, caller: Datagrams
) -> None:
    """Same Call-ID, From tag and CSeq on another branch is a merged request: 482 (RFC 3261 section 8.2.2.2)."""
    dialog = Dialog(caller, "merged")
    caller.drain()
    answer = caller.answer_to(
        caller.invite(user="answer", call_id=dialog.call_id, branch="z9hG4bKmerged2")
    )
    assert answer
    assert status_of(answer) in (481, 482), answer
    dialog.end()


def test_a_repeated_invite_is_one_call(core: LocalCore, caller: Datagrams) -> None:
    calls = len(core.events("call"))
    call_id = f"repeated-{caller.address[1]}@127.0.0.1"
    invite = caller.invite(user="wait300.answer", call_id=call_id, branch="z9hG4bKrepeated")
    for _ in range(5):
        caller.send(invite)
    seen: list[bytes] = []
    while not any(status_of(answer) == 200 for answer in seen):
        answer = caller.receive(3)
        assert answer, "no 200"
        seen.append(answer)
    caller.send(invite)  # after the 200: to be answered with the same 200
    again = caller.receive(3)
    assert again
    assert status_of(again) == 200
    answers = [answer for answer in [*seen, again] if status_of(answer) == 200]
    assert len({tag(answer, "To") for answer in answers}) == 1
    ports = {(re.search(rb"m=audio (\d+)", answer) or [b"", b""])[1] for answer in answers}
    assert len(ports) == 1
    to_tag = tag(answers[0], "To")
    caller.send(caller.request("ACK", user="answer", call_id=call_id, to_tag=to_tag))
    caller.drain()
    assert len(core.events("call")) == calls + 1
    bye = caller.request("BYE", user="answer", call_id=call_id, to_tag=to_tag, cseq=2)
    ended = caller.answer_to(bye)
    assert ended
    assert status_of(ended) == 200
    eventually("the call to end", lambda: core.stats()["calls_active"] == 0, 2)
    assert_media_ports_freed(core)


def test_options_is_answered_with_200(core: LocalCore, caller: Datagrams) -> None:
    """Trunks ask so whether we are there."""
    assert caller.alive() == 200
