# SPDX-License-Identifier: GPL-3.0-or-later
"""``srtp`` in the settings: what is wrong is named, what reaches the engine, and what ``check`` says of TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_edge.check import _srtp
from voice_edge.service import engine_options
from voice_edge.settings import loads
from voice_edge.trunks import trunk_options

from .test_settings import MINIMAL, problems, with_key

TRUNK = '[[sip.trunk]]\nname = "pbx"\nserver = "{server}"\n'
TLS = '[sip.tls]\ncert_file = "pem"\nkey_file = "pem"\n'


@pytest.mark.parametrize(
    ("section", "line", "key"),
    [
        ("media", 'srtp = "on"', "media.srtp"),
        ("media", "srtp = true", "media.srtp"),
        (
            "sip.trunk",
            'name = "a"\nserver = "sip:h"\nsrtp = "mandatory"',
            "sip.trunk[0].srtp",
        ),
    ],
)
def test_a_mode_that_is_none_is_named(section: str, line: str, key: str) -> None:
    found = problems(with_key(section, line))
    assert list(found) == [key]
    assert "true or false" not in found[key]
    if "true" not in line:
        assert "'off', 'optional'" in found[key]


def test_the_settings_reach_the_engine() -> None:
    assert engine_options(loads(MINIMAL))["srtp"] == "off"
    text = (
        TRUNK.format(server="sip:h") + 'srtp = "required"\n[media]\nsrtp = "optional"\n' + MINIMAL
    )
    settings = loads(text)
    assert engine_options(settings)["srtp"] == "optional"
    assert trunk_options(settings.sip.trunk[0])["srtp"] == "required"


@pytest.mark.parametrize(
    ("text", "state", "says"),
    [
        ("", "ok", "off"),
        ('[media]\nsrtp = "optional"\n', "warn", "sip.tls.cert_file"),
        ('[media]\nsrtp = "optional"\n' + TLS, "ok", "optional"),
        ('[media]\nsrtp = "required"\n' + TRUNK.format(server="sip:h"), "warn", "over pbx"),
        (TRUNK.format(server="sip:h") + 'srtp = "required"\n', "warn", "over pbx"),
        (TRUNK.format(server="sip:h") + 'srtp = "off"\n', "ok", "off"),
        (TRUNK.format(server="sip:h;transport=tls") + 'srtp = "required"\n', "ok", "off"),
        (
            TRUNK.format(server="sip:h") + 'proxy = "sip:p;transport=TLS"\nsrtp = "optional"\n',
            "ok",
            "off",
        ),
    ],
)
def test_check_warns_of_keys_that_travel_in_clear(
    tmp_path: Path, text: str, state: str, says: str
) -> None:
    (tmp_path / "pem").write_text("x")
    (finding,) = _srtp(loads(text + MINIMAL, base=tmp_path))
    assert (finding.state, finding.name) == (state, "media.srtp")
    assert says in finding.detail
