# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer file: the example is complete, mistakes come all at once with their remedy, secrets stay unseen."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from voice_edge.appliance.answers import Answers, parse
from voice_edge.settings import Secret, SettingsError
from voice_edge.settings.model import Agent

from .box import KEY, MINIMAL
from .test_settings import every_key, keys_of, uncommented

EXAMPLE = Path(__file__).parents[2] / "config/answers.example.toml"


def problems(text: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        parse(text, file="a.toml")
    return {p.key: f"{p.what}. {p.remedy}" for p in caught.value.problems}


def with_lines(section: str, *lines: str) -> str:
    added = "\n".join(lines)
    if f"[{section}]" in MINIMAL:
        return MINIMAL.replace(f"[{section}]", f"[{section}]\n{added}")
    return f"{MINIMAL}[{section}]\n{added}\n"


def test_example_loads_as_it_stands() -> None:
    answers = parse(EXAMPLE.read_text(encoding="utf-8"), file=str(EXAMPLE))
    assert answers.callers == ("198.51.100.0/24",)


def test_example_has_every_answer() -> None:
    text = uncommented(EXAMPLE.read_text(encoding="utf-8"))
    text = text.replace("ssh-ed25519 AAAA… you@example.com", KEY)
    of_agent = {f"agent.{key}" for key in every_key(Agent)}
    assert keys_of(tomllib.loads(text)) - of_agent == every_key(Answers) - of_agent
    answers = parse(text, file="a.toml")
    assert answers.trunk.password == Secret("secret")
    assert answers.media == ("198.51.100.0/24", "198.51.100.0/22")


def test_an_empty_file_names_all_that_is_missing() -> None:
    found = problems("")
    assert set(found) == {
        "llm.url", "llm.model", "tts.url", "tts.model", "tts.voice", "stt.url", "stt.model", "agent.system_prompt",
    }  # fmt: skip
    assert "config/answers.example.toml" in found["llm.url"]


@pytest.mark.parametrize(
    ("section", "lines", "key", "says"),
    [
        ("system", ['hostname = "Front Desk"'], "system.hostname", "letters, digits and hyphens"),
        ("system", ['hostnam = "x"'], "system.hostnam", 'Did you mean "hostname"'),
        ("network", ['address = "192.0.2.20"'], "network.address", "prefix length"),
        ("network", ['address = "192.0.2.0/24"'], "network.address", "not a host's address"),
        ("network", ['gateway = "192.0.2.1"'], "network.gateway", "without network.address"),
        (
            "network",
            ['address = "192.0.2.20/28"', 'gateway = "192.0.2.1"'],
            "network.gateway",
            "lies outside 192.0.2.16/28",
        ),
        (
            "network",
            ['address = "192.0.2.20/24"', 'gateway = "192.0.2.20"'],
            "network.gateway",
            "own address",
        ),
        ("network", ['interface = "eno1; rm"'], "network.interface", "network interface"),
        ("time", ['servers = ["ntp example"]'], "time.servers", "neither a host name"),
        ("admin", ['ssh_keys = ["ssh-ed25519 AAAA"]'], "admin.ssh_keys", "not a whole public SSH"),
        ("admin", [f'ssh_keys = ["{KEY}"]'], "admin.networks", "let nobody use the key"),
        ("admin", [f"ssh_keys = ['command=\"sh\" {KEY}']"], "admin.ssh_keys", "not a public SSH"),
        ("admin", ['networks = ["0.0.0.0/0"]'], "admin.networks", "whole internet"),
        ("admin", ['networks = ["192.0.2.7/24"]'], "admin.networks", 'Write "192.0.2.0/24"'),
        ("trunk", ['username = "u"'], "trunk.registrar", "there is a user"),
        ("trunk", ['registrar = "sip.example.com"'], "trunk.registrar", "not a SIP URI"),
        ("trunk", ['registrar = "sip:sip.example.com"'], "trunk.password", "needs it"),
        ("realtime", ["priority = 99"], "realtime.priority", "from 1 to 95"),
        ("agent", ["barge_in_min = 1"], "agent.barge_in_min", "barge_in_min_ms"),
    ],
)
def test_mistakes(section: str, lines: list[str], key: str, says: str) -> None:
    found = problems(with_lines(section, *lines))
    assert says in found[key]


def test_nobody_to_call_is_a_mistake() -> None:
    text = MINIMAL.replace('addresses = ["198.51.100.0/24"]', "")
    assert "nobody could call" in problems(text)["trunk.addresses"]


def test_addresses_are_those_of_a_registrar_given_by_address() -> None:
    text = MINIMAL.replace(
        'addresses = ["198.51.100.0/24"]',
        'registrar = "sip:198.51.100.7:5070;transport=tcp"\nusername = "u"\npassword = "p"',
    )
    assert parse(text, file="a").callers == ("198.51.100.7/32",)
    text = text.replace("198.51.100.7:5070", "sip.example.com")
    assert "is a name" in problems(text)["trunk.addresses"]


@pytest.mark.parametrize(
    "line",
    [
        "password = 49301234",
        'password = "two\\nlines-49301234"',
        "username = 49301234",
        "aor = 49301234",
    ],
)
def test_private_values_are_not_quoted(line: str) -> None:
    found = problems(with_lines("trunk", line, 'registrar = "sip:198.51.100.7"'))
    assert found
    assert "49301234" not in str(found)


def test_answers_do_not_print_secrets() -> None:
    text = with_lines(
        "trunk", 'registrar = "sip:198.51.100.7"', 'username = "49301234"', 'password = "sesame"'
    )
    assert "sesame" not in repr(parse(text, file="a"))
    assert "49301234" not in repr(parse(text, file="a"))
