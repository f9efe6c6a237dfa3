# SPDX-License-Identifier: GPL-3.0-or-later
"""B17 and B19: where requests go, and over what."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hil.drivers.local import LocalCore
from hil.peers.datagrams import field
from hil.peers.phone import Phone
from hil.peers.process import eventually
from hil.peers.rtp import RtpEnd
from hil.peers.sipp import Sipp

# Makes Request-URI and To long enough for an INVITE beyond 1300 bytes (RFC 3261 section 18.1.1).
LONG_USER = "x" * 450


@pytest.mark.parametrize("strict", [False, True])
def test_b17_record_routes_of_two_proxies(
    core: LocalCore, rtp: RtpEnd, tmp_path: Path, strict: bool
) -> None:
    sipp = Sipp(
        "uas_record_routes",
        tmp_path,
        keys={"media": rtp.port},
        expand={"lr": "" if strict else ";lr"},
    )
    eventually("SIPp to listen", (tmp_path / "uas_record_routes.csv").exists, 5)
    core.dial(f"sip:+33612345678@127.0.0.1:{sipp.port}", "wait500.hangup")
    sipp.finish()
    near = f"sip:near@127.0.0.1:{sipp.port}"
    callee = "sip:callee@10.1.2.3:5099"
    far = "<sip:192.0.2.20;lr;far=yes>"
    for method in ("ACK ", "BYE "):
        request = sipp.received(method)[-1]
        routes = re.findall(r"^Route:\s*(.*)$", request.text, re.MULTILINE)
        listed = [route.strip() for line in routes for route in line.split(",")]
        uri = request.text.split(" ", 2)[1]
        if strict:
            assert (uri, listed) == (near, [far, f"<{callee}>"]), request.text
        else:
            assert (uri, listed) == (callee, [f"<{near};lr>", far]), request.text


def test_b17_our_answers_carry_the_callers_record_routes(core: LocalCore) -> None:
    with Phone(core.sip) as phone:
        call = phone.new("ring.wait200.answer")
        near = f"<sip:127.0.0.1:{phone.address[1]};lr;near=yes>"
        answer = call.call(f"Record-Route: {near}\r\nRecord-Route: <sip:192.0.2.20;lr>")
        ringing = next(m for m in call.seen if m.startswith(b"SIP/2.0 180"))
        for response in (ringing, answer):
            found = re.findall(rb"^Record-Route:\s*(.*?)\r$", response, re.MULTILINE)
            assert b", ".join(found).decode() == f"{near}, <sip:192.0.2.20;lr>", response
        core.do("hangup", core.call(call.call_id))
        bye = call.wait_request("BYE")
        assert field(bye, "Route") == near, bye
        assert bye.startswith(f"BYE sip:phone@127.0.0.1:{phone.address[1]} ".encode())


def test_b19_a_large_invite_goes_over_tcp_and_its_via_says_so(
    start_core: Callable[..., LocalCore],
) -> None:
    core = start_core(settings={"large_requests": "tcp"})
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        core.dial(f"sip:{LONG_USER}@127.0.0.1:{port}")
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            invite = b""
            while b"a=sendrecv" not in invite:
                part = connection.recv(65536)
                assert part, invite
                invite += part
            assert invite.startswith(b"INVITE ")
            assert len(invite) > 1300
            assert (field(invite, "Via") or "").startswith("SIP/2.0/TCP 127.0.0.1:")
            assert ";transport=tcp" in (field(invite, "Contact") or "")
            lines = ["SIP/2.0 486 Busy Here"]
            lines += [
                f"{name}: {field(invite, name)}" for name in ("Via", "From", "Call-ID", "CSeq")
            ]
            lines += [f"To: {field(invite, 'To')};tag=busy", "Content-Length: 0", "", ""]
            connection.sendall("\r\n".join(lines).encode())
            eventually("the refusal", lambda: core.events("dial_failed"), 5)
            assert core.events("dial_failed")[-1]["status"] == 486


@pytest.mark.parametrize("large", ["tcp", "udp"])
def test_b19_where_there_is_no_tcp_it_goes_over_udp_and_the_log_says_so(
    start_core: Callable[..., LocalCore], large: str
) -> None:
    core = start_core(settings={"large_requests": large})
    with Phone(core.sip) as phone:
        core.dial(phone.uri(LONG_USER), "wait200.hangup")
        call = phone.wait_incoming()
        assert len(call.invite) > 1300
        assert (field(call.invite, "Via") or "").startswith("SIP/2.0/UDP")
        assert call.ended.wait(5)
    assert "over UDP and may be fragmented" in core.log()
    assert LONG_USER not in core.log()


def test_b19_an_ordinary_invite_fits_a_datagram_with_credentials(core: LocalCore) -> None:
    with Phone(core.sip) as phone:
        core.dial(phone.uri(), "wait100.hangup")
        call = phone.wait_incoming()
        assert len(call.invite) < 1000, f"{len(call.invite)} bytes"
        assert call.ended.wait(5)
