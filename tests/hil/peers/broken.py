# SPDX-License-Identifier: GPL-3.0-or-later
"""Broken datagrams: SIP, RTP and RTCP that no stack should send, made from good ones by rule and by seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from .datagrams import SDP, Datagrams
from .rtp import header

Named = tuple[str, bytes]


def truncated(message: bytes) -> Iterator[bytes]:
    """The message cut after every byte, the shortest first, the whole one left out."""
    for length in range(len(message)):
        yield message[:length]


def mutated(message: bytes, seed: int, count: int) -> Iterator[bytes]:
    """`count` copies, each with one to four bytes changed, taken out, put in or doubled."""
    chance = random.Random(seed)
    for _ in range(count):
        copy = bytearray(message)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(copy))
            kind = chance.randrange(4)
            if kind == 0:
                copy[place] = chance.randrange(256)
            elif kind == 1:
                del copy[place]
            elif kind == 2:
                copy.insert(place, chance.choice(b'\0\r\n\t "<>;:=,@[]%\x80\xff'))
            else:
                end = min(len(copy), place + chance.randint(1, 60))
                copy[place:place] = copy[place:end]
        yield bytes(copy)


def garbage(seed: int, count: int) -> Iterator[bytes]:
    """Random datagrams from empty to a full Ethernet frame."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.randbytes(
            chance.choice((0, 1, 2, 3, 4, 11, 12, 40, 172, chance.randrange(1472)))
        )


def payload_types(source: Datagrams) -> Iterator[Named]:
    """INVITEs whose only format is no payload type (B03): each is to get 400 or 488."""
    for number in ("4294967296", "4294967304", "-1", "128", "99999999999999999999", "0x8"):
        yield f"format {number}", source.invite(formats=number)


def offers(source: Datagrams) -> Iterator[Named]:
    """INVITEs whose SDP is otherwise wrong."""
    good = SDP.format(port=40000, formats="8 101")
    for name, old, new in (
        ("NUL in fmtp", "0-16", "0-\x0016"),
        ("port 65536", "audio 40000", "audio 65536"),
        ("port of letters", "audio 40000", "audio x"),
        ("no media", "m=audio 40000 RTP/AVP 8 101\r\n", ""),
        ("address of letters", "c=IN IP4 127.0.0.1", "c=IN IP4 1.2.3"),
        ("address family 9", "c=IN IP4", "c=IN IP9"),
        ("rtpmap without a name", "101 telephone-event/8000", "101"),
        ("rtpmap clock 0", "telephone-event/8000", "telephone-event/0"),
        ("no version", "v=0\r\n", ""),
        ("line without =", "s=-", "s"),
    ):
        assert old in good
        yield name, source.invite(body=good.replace(old, new))
    yield "9,000 attributes", source.invite(body=good + "a=x\r\n" * 9000)
    yield "one long line", source.invite(body=good + "a=" + "x" * 50000 + "\r\n")
    yield "only NUL bytes", source.invite(body="\0" * 200)


def requests(source: Datagrams) -> Iterator[Named]:
    """Requests whose headers are wrong (B21, and the kinds RFC 4475 section 3.1.2 lists)."""
    good = source.invite(formats="101")
    host, port = source.address
    for name, old, new in (
        ("NUL in the request line", b"INVITE sip:agent", b"INVITE sip:a\0gent"),
        ("unknown scheme in From", b"From: <sip:", b"From: <nobodyKnowsThis:"),
        ("IPv6 in Via", f"UDP {host}:{port}".encode(), b"UDP [2001:db8::9:1]:5060"),
        ("broken IPv6 in Via", f"UDP {host}:{port}".encode(), b"UDP [2001:db8::9:1"),
        ("unterminated quote", b"From: <sip:", b'From: "Nobody <sip:'),
        ("no angle closed", b"From: <sip:", b"From: <sip:<<<"),
        ("Content-Length negative", b"Content-Length: ", b"Content-Length: -"),
        ("Content-Length too big", b"Content-Length: ", b"Content-Length: 9999"),
        (
            "Content-Length past 64 bit",
            b"Content-Length: ",
            b"Content-Length: 99999999999999999999",
        ),
        ("CSeq past 32 bit", b"CSeq: 1", b"CSeq: 36893488147419103232"),
        ("CSeq of another method", b"CSeq: 1 INVITE", b"CSeq: 1 BYE"),
        ("Max-Forwards 0", b"Max-Forwards: 70", b"Max-Forwards: 0"),
        ("Max-Forwards -1", b"Max-Forwards: 70", b"Max-Forwards: -1"),
        ("no Call-ID", b"Call-ID:", b"X-Call-ID:"),
        ("no From", b"From:", b"X-From:"),
        ("no Via", b"Via:", b"X-Via:"),
        ("SIP/7.0", b" SIP/2.0\r\n", b" SIP/7.0\r\n"),
        ("port 99999 in Via", f":{port};rport".encode(), b":99999;rport"),
        ("tag doubled", b";tag=a1", b";tag=a1;tag=a2"),
        ("huge header", b"Max-Forwards", b"Subject: " + b"x" * 7000 + b"\r\nMax-Forwards"),
        (
            "100 Via more",
            b"Via:",
            b"Via: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bKx\r\n" * 100 + b"Via:",
        ),
        ("only commas in Via", b"Via:", b"Via: ,,,,,,,,\r\nVia:"),
        ("unknown content type", b"application/sdp", b"application/x-nobody"),
        ("required extension", b"Max-Forwards", b"Require: nothingLikeThis\r\nMax-Forwards"),
        ("bytes above 127", b"Max-Forwards", b"Subject: \xff\xfe\x80\r\nMax-Forwards"),
        ("folded header", b"Max-Forwards: 70", b"Max-Forwards:\r\n 70"),
        ("line ends of LF", b"\r\n", b"\n"),
        ("line ends of CR", b"\r\n", b"\r"),
    ):
        assert old in good, name
        yield name, good.replace(old, new)
    yield "60,000 bytes", good + b"x" * 60000
    yield "response nobody waits for", b"SIP/2.0 200 OK\r\n" + good.partition(b"\r\n")[2]
    yield "status 1000", b"SIP/2.0 1000 No\r\n" + good.partition(b"\r\n")[2]
    yield "CRLF keep-alive", b"\r\n\r\n"
    yield "STUN", stun()
    yield "TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100


def stun() -> bytes:
    """A STUN binding request (RFC 8489 section 5)."""
    return struct.pack("!HHI", 1, 0, 0x2112A442) + b"transaction1"


def rtp_packets() -> Iterator[Named]:
    """RTP that must be dropped and counted: none of it is audio of the call."""
    tone = b"\xd5" * 160
    yield "version 0", header(8, 1, 160, 7, first_byte=0x00) + tone
    yield "version 1", header(8, 1, 160, 7, first_byte=0x40) + tone
    yield "version 3", header(8, 1, 160, 7, first_byte=0xC0) + tone
    yield "empty", b""
    for length in (1, 4, 11):
        yield f"{length} bytes", (header(8, 1, 160, 7) + tone)[:length]
    yield "padding of 0", header(8, 1, 160, 7, first_byte=0xA0) + tone[:-1] + b"\0"
    yield "padding past the packet", header(8, 1, 160, 7, first_byte=0xA0) + tone[:-1] + b"\xff"
    yield "padding without payload", header(8, 1, 160, 7, first_byte=0xA0)
    yield "15 CSRC, none there", header(8, 1, 160, 7, first_byte=0x8F)
    yield "15 CSRC, half there", header(8, 1, 160, 7, first_byte=0x8F) + b"\0" * 30
    yield "extension, none there", header(8, 1, 160, 7, first_byte=0x90)
    yield "extension past the end", header(8, 1, 160, 7, first_byte=0x90) + b"\0\0\xff\xff" + tone


def rtcp_packets() -> Iterator[Named]:
    """RTCP that breaks RFC 3550 section 6.4 or appendix A.2."""
    yield "empty", b""
    yield "3 bytes", b"\x80\xc8\x00"
    yield "version 0", b"\x00\xc8\x00\x06" + b"\0" * 24
    yield "length past the end", b"\x80\xc8\xff\xff" + b"\0" * 24
    yield "31 reports, none there", b"\x9f\xc9\x00\x01" + b"\0" * 4
    yield "SR cut", b"\x80\xc8\x00\x06" + b"\0" * 8
    yield "SDES without end", b"\x81\xca\x00\x02" + b"\0\0\0\1" + b"\x01\xff\x41\x41"
    yield "BYE with 31 sources", b"\x9f\xcb\x00\x01" + b"\0" * 4
    yield "BYE reason past the end", b"\x81\xcb\x00\x02" + b"\0\0\0\1" + b"\xffabc"
    yield "unknown type", b"\x80\xd5\x00\x01" + b"\0" * 4
    yield "padding in the first", b"\xa0\xc9\x00\x01" + b"\0\0\0\4"
    yield "STUN", stun()
