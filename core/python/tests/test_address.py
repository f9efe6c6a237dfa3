# SPDX-License-Identifier: GPL-3.0-or-later
"""A number must not print itself."""

from __future__ import annotations

import pickle

import pytest

from voicecore import Address

NUMBER = "+4930123456"


@pytest.mark.parametrize(
    ("text", "user", "host", "uri"),
    [
        (f"sip:{NUMBER}@example.org", NUMBER, "example.org", f"sip:{NUMBER}@example.org"),
        (f'"Eve" <sip:{NUMBER}@EX.org:5070;user=phone>;tag=1', NUMBER, "ex.org", None),
        (f"sip:{NUMBER}@[2001:db8::1]:5060", NUMBER, "2001:db8::1", None),
        ("sip:example.org", "", "example.org", "sip:example.org"),
        ("sip:a;b=c@example.org;transport=tcp", "a;b=c", "example.org", None),
        ("sip:alice:secret@example.org", "alice", "example.org", None),
        (f"tel:{NUMBER};phone-context=x", NUMBER, "", None),
        ("", "", "", ""),
        ("nonsense", "", "", ""),
        ("<<<>>>@@@", "", "", ""),
    ],
)
def test_parts(text: str, user: str, host: str, uri: str | None) -> None:
    address = Address(text)
    assert (address.user, address.host) == (user, host)
    if uri is not None:
        assert address.uri == uri
    if user:
        assert user in address.uri


@pytest.mark.parametrize(
    "text", [f"sip:{NUMBER}@example.org", f"<tel:{NUMBER}>", f"sips:{NUMBER}@h"]
)
def test_no_way_of_printing_shows_the_user(text: str) -> None:
    address = Address(text)
    printed = f"{address} {address!r} {address!s} {[address]}" + "".join(map(str, (address,)))
    assert NUMBER not in printed
    assert "…" in printed


def test_it_is_not_pickled_and_has_no_dict() -> None:
    address = Address(f"sip:{NUMBER}@example.org")
    with pytest.raises(TypeError):
        pickle.dumps(address)
    assert not hasattr(address, "__dict__")


def test_equality_is_by_uri() -> None:
    assert Address("sip:a@b") == Address("<sip:a@b>")
    assert Address("sip:a@b") != Address("sip:c@b")
    assert len({Address("sip:a@b"), Address("sip:a@b")}) == 1
