# SPDX-License-Identifier: GPL-3.0-or-later
"""Encrypted calls with a peer whose SRTP is Python's own: every suite, new keys in mid-call, strangers, refusals."""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hil.conftest import CALLER_NOTES, CORE_NOTES
from hil.drivers.local import LocalCore
from hil.peers import audio
from hil.peers.datagrams import Datagrams, status_of
from hil.peers.dialog import Dialog
from hil.peers.process import eventually
from hil.peers.script import Datagram, ScriptEnd, Talker
from hil.peers.sipp import Sipp
from hil.peers.srtp import SUITES, Forged, Half, crypto_lines, offer

CM = "AES_CM_128_HMAC_SHA1_80"
SPEECH = list(audio.melody(CALLER_NOTES, 0.5))
Start = Callable[..., LocalCore]
Timed = tuple[float, bytes]


@pytest.fixture(scope="module")
def optional(start_core: Start) -> Iterator[LocalCore]:
    core = start_core(name="optional", settings={"srtp": "optional"})
    yield core
    assert_no_keys(core.log())
    told = [line for line in core.log().splitlines() if "use TLS" in line]
    assert len(told) == 1, told


@pytest.fixture(scope="module")
def required(start_core: Start) -> Iterator[LocalCore]:
    core = start_core(name="required", settings={"srtp": "required"})
    yield core
    assert_no_keys(core.log())


def assert_no_keys(log: str) -> None:
    found = [line for line in log.splitlines() if re.search(r"inline|a=crypto", line)]
    assert not found, found


class Line:
    """An encrypted call to the core, from a peer that sends packet by packet."""

    def __init__(
        self,
        core: LocalCore,
        name: str,
        suite: str = CM,
        *,
        profile: str = "RTP/SAVP",
        more: str = "",
        mki: bytes = b"",
        ours: int = 3,
        host: str = "127.0.0.1",
    ) -> None:
        self.core = core
        self.profile = profile
        self.tx = Half.fresh(suite, mki=mki)
        self.sip = Datagrams(core.sip)
        self.rtp = ScriptEnd(host)
        try:
            body = offer(self.rtp.port, [self.tx.line(ours, more)], profile=profile)
            self.dialog = Dialog(self.sip, name, body=body)
            self.number = core.call(self.dialog.call_id)
            self.recording = Path(core.wait_event("answered", id=self.number)["recording"])
            self.rx = self._answered(self.dialog.answer, ours)
        except BaseException:
            self.close()
            raise

    def _answered(self, answer: bytes, tag: int) -> Half:
        (line,) = crypto_lines(answer)
        assert line.startswith(f"{tag} {self.tx.suite.name} inline:"), line
        assert f"{self.profile} 8 101".encode() in answer
        return Half.from_line(line)

    def reinvite(self, cseq: int, tx: Half) -> Half:
        """Offers another key, or the same again; gives the core's as it answers."""
        body = offer(self.rtp.port, [tx.line(7)], profile=self.profile)
        request = self.sip.request(
            "INVITE",
            user="answer",
            call_id=self.dialog.call_id,
            to_tag=self.dialog.to_tag,
            cseq=cseq,
            body=body,
        )
        answer = self.sip.answer_to(request)
        assert answer
        assert status_of(answer) == 200, answer
        self.sip.send(self.dialog.request("ACK", cseq=cseq))
        return self._answered(answer, 7)

    def send(self, packets: Iterable[Timed]) -> None:
        self.rtp.run(((at, self.tx.protect(p)) for at, p in packets), self.dialog.remote_rtp)

    def heard(self, received: list[Datagram] | None = None) -> list[bytes]:
        """RTP packets of the core, opened."""
        return [self.rx.open(d.data) for d in (self.rtp.rtp() if received is None else received)]

    def end(self) -> dict[str, Any]:
        """Hangs up when all that was sent has been read; the call's final counters."""
        self.rtp.listen(0.1)
        self.dialog.end()
        self.close()
        stats = self.core.wait_event("CallEnded", id=self.number)["stats"]
        assert isinstance(stats, dict)
        return stats

    def close(self) -> None:
        self.rtp.close()
        self.sip.close()


def samples(packets: list[bytes]) -> list[int]:
    """What G.711 packets hold, one after another."""
    return [s for p in packets if p[1] & 0x7F == 8 for s in audio.decode(p[12:], 8)]


def assert_tune(heard: object, notes: tuple[float, ...], who: str) -> None:
    run = audio.heard(heard, notes)  # type: ignore[arg-type]
    assert len(run) >= 3, f"{who} heard {run}"
    assert audio.in_order(run, notes), f"{who} heard {run}"


def sequences(packets: list[bytes]) -> list[int]:
    return [int(struct.unpack_from("!H", p, 2)[0]) for p in packets]


@pytest.mark.parametrize("suite", list(SUITES))
def test_every_suite_carries_audio_and_reports(optional: LocalCore, suite: str) -> None:
    line = Line(optional, f"suite-{suite}", suite)
    talker = Talker()
    line.send(talker.say(SPEECH * 2))
    until = time.monotonic() + 6
    while not (reports := [d for d in line.rtp.received if d.rtcp]) and time.monotonic() < until:
        talker.at = 0.0
        line.send(talker.say(SPEECH))
    # The core's report opens, and one of ours is understood: it tells the round trip.
    report = line.rx.open_rtcp(reports[0].data)
    assert report[1] == 200
    assert report[8:] not in reports[0].data
    last = struct.unpack_from("!I", report, 10)[0]
    ssrc = struct.unpack_from("!I", report, 4)[0]
    answer = struct.pack("!BBHIIIIIII", 0x81, 201, 7, talker.ssrc, ssrc, 0, 0, 0, last, 0)
    host, port = line.dialog.remote_rtp
    line.rtp.send(line.tx.protect_rtcp(answer), (host, port + 1), rtcp=True)
    line.rtp.listen(0.2)
    heard = line.heard()
    assert all(p[12:] != d.data[12:-10] for p, d in zip(heard, line.rtp.rtp(), strict=True))
    stats = line.end()
    assert_tune(samples(heard), CORE_NOTES, "the peer")
    assert_tune(audio.read_wav(line.recording)[1][0], CALLER_NOTES, "the core")
    assert stats["srtp"] == suite
    assert (stats["rx_lost"], stats["srtp_auth_errors"], stats["srtp_replays"]) == (0, 0, 0)
    assert stats["rtt_ms"] is not None


def test_keys_under_avp_and_a_key_identifier(optional: LocalCore) -> None:
    """RFC 8643, as Asterisk offers it; and `|2^31|1:1`, as Cisco and Microsoft write it."""
    line = Line(optional, "osrtp", profile="RTP/AVP", more="|2^31|1:1", mki=b"\1", ours=1)
    line.send(Talker().say(SPEECH))
    assert_tune(samples(line.heard()), CORE_NOTES, "the peer")
    stats = line.end()
    assert stats["srtp"] == CM
    assert (stats["rx_packets"], stats["srtp_auth_errors"]) == (len(SPEECH) // 160, 0)


def test_a_peer_without_srtp_is_talked_to_in_plain_rtp(optional: LocalCore) -> None:
    with Datagrams(optional.sip) as sip, Dialog(sip, "plain") as dialog:
        assert not crypto_lines(dialog.answer)
        number = optional.call(dialog.call_id)
    assert optional.wait_event("CallEnded", id=number)["stats"]["srtp"] is None


def test_new_keys_every_half_second_leave_no_gap(required: LocalCore) -> None:
    """The peer's key changes, then stays; what is on its way under the old one is heard too."""
    line = Line(required, "rekey", ours=1)
    talker = Talker(sequence=65_450)  # a roll-over in between
    local = line.rx
    keys = [line.tx] + [Half.fresh(CM) for _ in range(5)]
    keys.append(keys[-1])
    faults: list[BaseException] = []
    using = [keys[0]]

    def change() -> None:
        try:
            for cseq, key in enumerate(keys[1:], 2):
                time.sleep(0.5)
                assert line.reinvite(cseq, key).master == local.master, "our key changed"
                # As long as the answer may take to arrive, the peer still sends with its old key.
                time.sleep(0.06)
                if key is not using[0]:
                    # Its packet counter goes on (RFC 3711 section 3.3.1).
                    using[0] = replace(key, highest=dict(using[0].highest))
        except BaseException as fault:  # told where the test can fail
            faults.append(fault)

    changing = threading.Thread(target=change)
    changing.start()
    packets = talker.say(SPEECH * 3)
    line.rtp.run(((at, using[0].protect(p)) for at, p in packets), line.dialog.remote_rtp)
    changing.join(10)
    assert not faults, faults
    heard = line.heard()
    numbers = sequences(heard)
    assert numbers == [(numbers[0] + n) & 0xFFFF for n in range(len(numbers))], "a gap"
    stats = line.end()
    assert (stats["rx_packets"], stats["rx_lost"]) == (3 * len(SPEECH) // 160, 0), stats
    assert (stats["srtp_auth_errors"], stats["srtp_replays"], stats["ssrc_changes"]) == (0, 0, 0)


def test_b23_new_ssrc_with_a_lower_sequence_is_heard_at_once(required: LocalCore) -> None:
    line = Line(required, "b23")
    line.send(Talker(ssrc=1, sequence=40_000).say(SPEECH))
    line.send(Talker(ssrc=2, sequence=31_000).say(SPEECH))
    stats = line.end()
    assert stats["srtp_auth_errors"] == 0
    assert stats["ssrc_changes"] == 1
    assert stats["rx_packets"] >= 2 * len(SPEECH) // 160 - 2
    assert_tune(audio.read_wav(line.recording)[1][0], CALLER_NOTES, "the core")


def test_b33_strangers_are_neither_heard_nor_answered(required: LocalCore) -> None:
    """In clear, with garbage for a tag, with the peer's own packets once more; before it and after."""
    line = Line(required, "b33")
    remote = line.dialog.remote_rtp
    sealed = [(at, line.tx.protect(p)) for at, p in Talker().say(SPEECH)]
    clear = list(Talker(ssrc=0xBAD).say(SPEECH))
    with ScriptEnd("127.0.0.3") as stranger:
        for _, packet in clear[:10]:
            stranger.send(packet, remote)
            stranger.send(packet + bytes(10), remote)
        for place, (_, packet) in enumerate(sealed):
            line.rtp.run([(0.02, packet)], remote)
            stranger.send(packet, remote)
            stranger.send(clear[place][1] + bytes(10), remote)
        stranger.listen(0.1)
        assert not stranger.received, "the core sends to a stranger"
    assert len(line.heard()) >= len(sealed) - 5
    stats = line.end()
    assert stats["rx_packets"] == len(sealed)
    assert stats["srtp_replays"] == len(sealed)
    assert stats["srtp_auth_errors"] == len(sealed) + 20
    assert_tune(audio.read_wav(line.recording)[1][0], CALLER_NOTES, "the core")


def test_keys_pressed_in_an_encrypted_call(required: LocalCore) -> None:
    line = Line(required, "keys")
    talker = Talker()
    line.send(talker.say(SPEECH[:8000]))
    talker.at = 0.0
    line.send(packet for digit in "19#" for packet in talker.press(digit, 0.1))
    line.rtp.listen(0.3)
    told = [e["digit"] for e in required.events("Dtmf") if e["id"] == line.number]
    assert told == ["1", "9", "#"]
    line.end()


def test_a_wrong_key_hears_nothing(required: LocalCore) -> None:
    line = Line(required, "wrong")
    line.tx = Half.fresh(CM)
    line.send(Talker().say(SPEECH[:8000]))
    line.rx = Half.fresh(CM)
    with pytest.raises(Forged):
        line.heard()
    stats = line.end()
    assert (stats["rx_packets"], stats["srtp_auth_errors"]) == (0, 50)


GOOD = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz"
# A line that cannot be used, and a word of the log that says why.
BAD_LINES = (
    ("1 AES_CM_128_HMAC_SHA1_80 inline:not*base64", "base64"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD}AAAA", "length"),
    (f"1 AES_256_CM_HMAC_SHA1_80 inline:{GOOD}", "length"),
    (f"1 AES_CM_128_NULL_AUTH inline:{GOOD}", "suite"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD} UNENCRYPTED_SRTP", "parameters"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD} UNAUTHENTICATED_SRTP", "parameters"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD} KDR=1", "parameters"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD}|2^49", "lifetime"),
    (f"1 AES_CM_128_HMAC_SHA1_80 inline:{GOOD}|0", "lifetime"),
    (f"4294967296 AES_CM_128_HMAC_SHA1_80 inline:{GOOD}", "malformed"),
    (f"1 AES_CM_128_HMAC_SHA1_80 {GOOD}", "malformed"),
    ("1", "malformed"),
)


def test_lines_that_cannot_be_used_get_488_and_the_log_says_why(
    optional: LocalCore, tmp_path: Path
) -> None:
    """One call of SIPp's for each line."""
    lines = tmp_path / "lines.csv"
    lines.write_text(
        "SEQUENTIAL\n" + "".join(f"{line};\n" for line, _ in BAD_LINES), encoding="ascii"
    )
    before = len(optional.log())
    run = Sipp(
        "uac_crypto_refused",
        tmp_path,
        remote=optional.sip,
        calls=len(BAD_LINES),
        user="answer",
        keys={"media": 40_000},
        extra=["-inf", str(lines)],
    )
    counters = run.finish()
    assert (counters.successful, counters.failed) == (len(BAD_LINES), 0)
    log = optional.log()[before:]
    reasons = [line for line in log.splitlines() if "refused with 488" in line]
    assert len(reasons) == len(BAD_LINES), log
    for reason, (_, word) in zip(reasons, BAD_LINES, strict=True):
        assert word in reason, reasons


@pytest.mark.parametrize(
    ("mode", "body", "reason"),
    [
        ("required", None, '"required"'),
        ("off", offer(40_000, [f"1 {CM} inline:{GOOD}"]), '"off"'),
        ("optional", offer(40_000, [], more="a=fingerprint:sha-256 00:11"), "no usable audio"),
    ],
)
def test_what_does_not_suit_the_setting_gets_488(
    start_core: Start, mode: str, body: str | None, reason: str
) -> None:
    core = start_core(name=f"mode-{mode}", settings={"srtp": mode})
    with Datagrams(core.sip) as sip:
        answer = sip.answer_to(sip.invite(user="answer", body=body or ""))
        assert answer
        assert status_of(answer) == 488
        assert sip.alive() == 200
    # What the core says comes through Python's logging, after the answer.
    eventually("the reason in the log", lambda: reason in core.log(), 5)
    assert not core.events("call")
