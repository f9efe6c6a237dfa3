# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens inside of calls, between engines of one process: early media, hold, transfer, take-over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopback import Pair, StartEngine, next_of, sine, soon
from voicecore import (
    Audio,
    Call,
    CallEnded,
    CallGone,
    CallHeld,
    CallProgress,
    CallReplaced,
    CallResumed,
    EarlyMedia,
    Engine,
    SignallingError,
    TransferProgress,
    TransferRequested,
)

NUMBER = "4930123456"


def uri(engine: Engine, user: str = "200") -> str:
    host, port = engine.sip_address
    return f"sip:{user}@{host}:{port}"


async def incoming(engine: Engine) -> Call:
    return await soon(anext(aiter(engine.incoming())))


async def connect(caller: Engine, callee: Engine, **options: Any) -> tuple[Call, Call]:
    dialling = asyncio.create_task(caller.dial(uri(callee), **options))
    call = await incoming(callee)
    await soon(call.answer())
    return await soon(dialling), call


async def hears(listener: Call, speaker: Call, turn: int) -> None:
    """What one end says arrives at the other one; 1.5 s of a tone counts as speech for no detector."""
    before = listener.stats().rx_packets
    speaker.play(sine(440, 0.5), 8000, turn)
    for _ in range(200):
        if listener.stats().rx_packets > before + 10:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nothing arrives")


async def codec_of(call: Call, wanted: str) -> None:
    """The media thread takes a change over with its next tick."""
    for _ in range(200):
        if call.stats().codec == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{call.stats().codec} instead of {wanted}")


async def test_early_media_is_heard_before_the_answer(pair: Pair) -> None:
    out = await pair.caller.place(pair.uri())
    into = await pair.next_call()
    await soon(into.early_media())
    early = await soon(next_of(out, EarlyMedia))
    assert early.recording is not None
    assert out.recording == early.recording
    await hears(out, into, 1)
    await hears(into, out, 1)
    await into.early_media()  # again does nothing
    await soon(into.answer())
    await soon(out.answered())
    await hears(out, into, 2)
    with pytest.raises(SignallingError, match="state"):
        await soon(into.early_media())
    out.hangup()
    assert (await soon(next_of(into, CallEnded))).by_remote


async def test_a_call_without_early_media_tells_of_none(pair: Pair) -> None:
    out, into = await pair.connect()
    into.hangup()
    events = [event async for event in out.events()]
    assert not [event for event in events if isinstance(event, EarlyMedia | CallHeld)], events


@pytest.mark.parametrize("prack", ["off", "supported", "required"])
async def test_early_media_with_and_without_prack(start_engine: StartEngine, prack: str) -> None:
    caller, callee = await start_engine(prack=prack), await start_engine(prack=prack)
    out = await caller.place(uri(callee))
    into = await incoming(callee)
    into.ring()
    assert (await soon(next_of(out, CallProgress))).status == 180
    await soon(into.early_media())
    await soon(next_of(out, EarlyMedia))
    await soon(into.answer())
    await soon(out.answered())
    out.hangup()


async def test_peers_that_do_not_agree_on_prack(start_engine: StartEngine) -> None:
    without, requires = await start_engine(prack="off"), await start_engine(prack="required")
    for caller, callee, status in ((without, requires, 421), (requires, without, 420)):
        with pytest.raises(SignallingError) as refused:
            await soon(caller.dial(uri(callee)))
        assert refused.value.status == status


async def test_an_early_caller_that_leaves_is_gone(pair: Pair) -> None:
    out = await pair.caller.place(pair.uri())
    into = await pair.next_call()
    await soon(into.early_media())
    out.hangup()
    assert (await soon(next_of(into, CallEnded))).status == 487
    with pytest.raises(CallGone):
        await into.early_media()
    # Whether its own end has reached the caller by now is a race; both say that there will be no answer.
    with pytest.raises((CallGone, SignallingError)):
        await out.answered()


async def test_dialled_without_offer(pair: Pair) -> None:
    out, into = await connect(pair.caller, pair.callee, late_offer=True)
    await hears(out, into, 1)
    await hears(into, out, 1)
    out.hangup()


@pytest.mark.parametrize("srtp", ["off", "required"])
async def test_hold_and_resume_are_told_to_the_other_end(
    start_engine: StartEngine, srtp: str
) -> None:
    out, into = await connect(await start_engine(srtp=srtp), await start_engine(srtp=srtp))
    for call, peer in ((out, into), (into, out)):
        await soon(call.hold())
        held = await soon(next_of(peer, CallHeld))
        await hears(peer, call, 1)  # music on hold
        await soon(call.resume())
        resumed = await soon(next_of(peer, CallResumed))
        assert resumed.at_ns > held.at_ns
        await soon(call.hold(inactive=True))
        await soon(next_of(peer, CallHeld))
        await soon(call.resume())
        await soon(next_of(peer, CallResumed))
        await hears(peer, call, 2)
    out.hangup()


async def test_both_ends_hold_at_once(pair: Pair) -> None:
    """Glare (491) is sorted out by the stacks (RFC 3261 section 14.1)."""
    out, into = await pair.connect()
    await soon(asyncio.gather(out.hold(), into.hold()))
    await soon(asyncio.gather(out.resume(), into.resume()))
    await hears(out, into, 1)
    await hears(into, out, 1)
    out.hangup()


async def test_holds_and_resumes_queue_up(pair: Pair) -> None:
    out, into = await pair.connect()
    await soon(asyncio.gather(out.hold(), out.resume(), out.hold(), out.resume()))
    await hears(out, into, 1)
    out.hangup()


async def test_codec_is_changed_in_mid_call(pair: Pair) -> None:
    out, into = await pair.connect()
    await codec_of(out, "PCMA")
    await soon(out.renegotiate(codecs=["PCMU"]))
    await codec_of(out, "PCMU")
    await codec_of(into, "PCMU")
    await hears(into, out, 1)
    await hears(out, into, 1)
    await soon(into.renegotiate(codecs=["PCMA", "PCMU"]))
    out.hangup()


async def test_codec_the_other_end_has_not_is_refused_and_the_call_goes_on(
    start_engine: StartEngine,
) -> None:
    caller, callee = await start_engine(), await start_engine(codecs=["PCMA"])
    out, into = await connect(caller, callee)
    with pytest.raises(SignallingError) as refused:
        await soon(out.renegotiate(codecs=["PCMU"]))
    assert (refused.value.code, refused.value.status) == ("sip.offer_refused", 488)
    await codec_of(out, "PCMA")
    await hears(into, out, 1)
    await soon(out.hold())
    await soon(next_of(into, CallHeld))
    out.hangup()


async def test_operations_on_a_call_that_has_ended(pair: Pair) -> None:
    out, into = await pair.connect()
    into.hangup()
    await soon(next_of(out, CallEnded))
    for operation in (out.hold, out.resume, out.renegotiate):
        with pytest.raises(CallGone):
            await soon(operation())
    with pytest.raises(CallGone):
        await soon(out.transfer("sip:200@192.0.2.1"))


async def test_blind_transfer_that_the_far_end_follows(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    agent, target = await start_engine(), await start_engine()
    customer = await start_engine(transfer_requests="allow")
    call, far = await connect(agent, customer)
    transfer = asyncio.create_task(call.transfer(uri(target, NUMBER)))
    asked = await soon(next_of(far, TransferRequested))
    assert asked.target.user == NUMBER
    assert NUMBER not in repr(asked)
    following = asyncio.create_task(customer.follow_transfer(far))
    arrived = await incoming(target)
    assert arrived.dialled.user == NUMBER
    arrived.ring()
    await soon(arrived.answer())
    assert await soon(transfer) == 200
    new = await soon(following)
    await hears(new, arrived, 1)
    assert (await soon(next_of(far, CallEnded))).by_remote
    progress = [e async for e in call.events() if isinstance(e, TransferProgress)]
    statuses = [event.status for event in progress]
    assert statuses[-1] == 200
    assert progress[-1].last
    assert 180 in statuses
    assert NUMBER not in caplog.text
    new.hangup()


async def test_transfer_that_is_refused_by_policy_by_the_app_and_by_the_target(
    start_engine: StartEngine,
) -> None:
    agent, target = await start_engine(), await start_engine()
    deaf = await start_engine()
    call, far = await connect(agent, deaf)
    with pytest.raises(SignallingError) as refused:
        await soon(call.transfer(uri(target)))
    assert (refused.value.code, refused.value.status) == ("sip.transfer_failed", 603)
    assert call.ended is None
    far.hangup()

    open_one = await start_engine(transfer_requests="allow")
    call, far = await connect(agent, open_one)
    transfer = asyncio.create_task(call.transfer(uri(target)))
    await soon(next_of(far, TransferRequested))
    far.refuse_transfer(486)
    with pytest.raises(SignallingError) as refused:
        await soon(transfer)
    assert refused.value.status == 486

    transfer = asyncio.create_task(call.transfer(uri(target)))
    await soon(next_of(far, TransferRequested))
    following = asyncio.create_task(open_one.follow_transfer(far))
    (await incoming(target)).reject(480)
    for work in (transfer, following):
        with pytest.raises(SignallingError) as refused:
            await soon(work)
        assert refused.value.status == 480
    await hears(far, call, 1)
    with pytest.raises(SignallingError, match="not asked"):
        await soon(open_one.follow_transfer(far))
    for bad in ("tel:+4930", "sip:x y@h", "", "sip:a@b\r\nX: y"):
        with pytest.raises(SignallingError) as wrong:
            await soon(call.transfer(bad))
        assert wrong.value.code == "sip.bad_uri"
    call.hangup()


@pytest.mark.parametrize("srtp", ["off", "required"])
async def test_attended_transfer_connects_the_far_ends(
    start_engine: StartEngine, srtp: str
) -> None:
    agent, target = await start_engine(srtp=srtp), await start_engine(srtp=srtp)
    customer = await start_engine(transfer_requests="allow", srtp=srtp)
    call, far = await connect(agent, customer)
    consultation, at_target = await connect(agent, target)
    transfer = asyncio.create_task(call.transfer_to(consultation))
    await soon(next_of(far, TransferRequested))
    new = await soon(customer.follow_transfer(far))
    assert await soon(transfer) == 200
    # The target's call is the one it was: only its far end is another one.
    replaced = await soon(next_of(at_target, CallReplaced))
    assert replaced.source == at_target.source
    assert replaced.caller == at_target.caller
    assert (await soon(next_of(consultation, CallEnded))).status == 200
    assert (await soon(next_of(far, CallEnded))).by_remote
    assert at_target.ended is None
    await hears(new, at_target, 1)
    await hears(at_target, new, 1)
    new.hangup()
    assert (await soon(next_of(at_target, CallEnded))).by_remote


async def test_audio_of_a_turn_goes_on_at_the_new_far_end(start_engine: StartEngine) -> None:
    """What was queued for the old far end is heard by the new one: the call is the same call."""
    agent, target = await start_engine(), await start_engine()
    customer = await start_engine(transfer_requests="allow")
    call, far = await connect(agent, customer)
    consultation, at_target = await connect(agent, target)
    at_target.play(sine(440, 20), 8000, 1)
    transfer = asyncio.create_task(call.transfer_to(consultation))
    await soon(next_of(far, TransferRequested))
    new = await soon(customer.follow_transfer(far))
    await soon(transfer)
    before = new.stats().rx_packets
    await asyncio.sleep(0.5)
    assert new.stats().rx_packets - before > 10
    new.hangup()
    await soon(next_of(at_target, CallEnded))


async def test_replaces_switched_off(start_engine: StartEngine) -> None:
    agent, target = await start_engine(), await start_engine(replaces="refuse")
    customer = await start_engine(transfer_requests="allow")
    call, far = await connect(agent, customer)
    consultation, at_target = await connect(agent, target)
    transfer = asyncio.create_task(call.transfer_to(consultation))
    await soon(next_of(far, TransferRequested))
    with pytest.raises(SignallingError) as refused:
        await soon(customer.follow_transfer(far))
    assert refused.value.status == 403
    with pytest.raises(SignallingError):
        await soon(transfer)
    for here, there in ((call, far), (consultation, at_target)):
        await hears(there, here, 1)
        here.hangup()
        await soon(next_of(there, CallEnded))


async def test_nobody_follows_and_the_transferor_hears_of_it(start_engine: StartEngine) -> None:
    agent = await start_engine()
    customer = await start_engine(transfer_requests="allow")
    call, far = await connect(agent, customer)
    transfer = asyncio.create_task(call.transfer(uri(agent), timeout_s=0.5))
    await soon(next_of(far, TransferRequested))
    with pytest.raises(SignallingError) as late:
        await soon(transfer)
    assert late.value.code == "sip.transfer_timeout"
    far.hangup()
    await soon(next_of(call, CallEnded))


async def test_a_held_call_has_no_audio_events(pair: Pair) -> None:
    out, into = await pair.connect()
    await soon(out.hold(inactive=True))
    await soon(next_of(into, CallHeld))
    await asyncio.sleep(0.1)
    before = out.stats().rx_packets
    into.play(sine(440, 0.5), 8000, 1)
    await asyncio.sleep(0.3)
    assert out.stats().rx_packets == before
    out.hangup()
    rest = [event async for event in out.events() if isinstance(event, Audio)]
    assert rest == []
