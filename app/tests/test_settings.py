# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings: the example is complete, and mistakes are named with place and remedy, all at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

from voice_edge.machine import Policy
from voice_edge.settings import Secret, Settings, SettingsError, load, loads
from voice_edge.settings.problems import key_lines

CONFIG = Path(__file__).parents[2] / "config"
EXAMPLE = CONFIG / "voice-edge.example.toml"

MINIMAL = """\
[agent]
system_prompt = "Help."
[llm]
url = "http://127.0.0.1:8000"
model = "m"
[tts]
url = "http://127.0.0.1:8001"
model = "m"
voice = "v"
[stt]
url = "http://127.0.0.1:8002"
model = "m"
"""


def problems(text: str, base: Path | None = None) -> dict[str, str]:
    """key -> what and remedy"""
    with pytest.raises(SettingsError) as caught:
        loads(text, file="f.toml", base=base)
    return {p.key: f"{p.what}. {p.remedy}" for p in caught.value.problems}


def with_key(section: str, line: str) -> str:
    """MINIMAL with one more line in a section (which it replaces there, if it has it)."""
    key = line.partition("=")[0].strip()
    out, inside, done = [], False, False
    for old in MINIMAL.splitlines():
        if old.startswith("["):
            inside = old == f"[{section}]"
            out.append(old)
            if inside:
                out.append(line)
                done = True
        elif not (inside and old.startswith(f"{key} ")):
            out.append(old)
    if not done:
        out += [f"[[{section}]]" if section == "sip.trunk" else f"[{section}]", line]
    return "\n".join(out)


# --- the example ---


def uncommented(text: str) -> str:
    """The example with its optional settings on."""
    return re.sub(r"(?m)^#(?=\[|[a-z_]+ = )", "", text)


def every_key(cls: type[Any], prefix: str = "") -> set[str]:
    keys = set()
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        inner = typing.get_args(hint)[:1]
        if dataclasses.is_dataclass(hint):
            keys |= every_key(typing.cast(type[Any], hint), f"{prefix}{field.name}.")
        elif inner and dataclasses.is_dataclass(inner[0]):
            keys |= every_key(typing.cast(type[Any], inner[0]), f"{prefix}{field.name}.")
        else:
            keys.add(prefix + field.name)
    return keys


def keys_of(tree: dict[str, Any], prefix: str = "") -> set[str]:
    keys = set()
    for name, value in tree.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                keys |= keys_of(entry, f"{prefix}{name}.")
        elif isinstance(value, dict) and value:
            keys |= keys_of(value, f"{prefix}{name}.")
        else:
            keys.add(prefix + name)
    return keys


def test_example_loads_and_its_values_are_the_defaults() -> None:
    example = load(EXAMPLE)
    minimal = loads(MINIMAL)
    for part in ("sip", "recording", "vad", "media", "log"):
        assert getattr(example, part) == getattr(minimal, part)
    for part, given in (
        ("agent", {"system_prompt"}),
        ("llm", {"url", "model"}),
        ("tts", {"url", "model", "voice"}),
        ("stt", {"url", "model"}),
    ):
        one, two = getattr(example, part), getattr(minimal, part)
        for field in dataclasses.fields(one):
            if field.name not in given:
                assert getattr(one, field.name) == getattr(two, field.name), field.name


def test_example_has_every_setting(tmp_path: Path) -> None:
    text = uncommented(EXAMPLE.read_text(encoding="utf-8"))
    assert keys_of(tomllib.loads(text)) == every_key(Settings)
    for name in ("ca.pem", "sip.pem", "sip.key", "libonnxruntime.so"):
        (tmp_path / name).write_text("of the core's tests\n")
    for name in ("trunk.password", "alice.password", "llm.key", "tts.key", "stt.key"):
        (tmp_path / name).write_text("sesame\n")
    settings = loads(text, base=tmp_path)
    password = settings.sip.trunk[0].password_file
    assert password is not None
    assert password.reveal() == "sesame"
    assert settings.recording.dir == tmp_path / "recordings"


def test_demo_settings_load() -> None:
    assert load(CONFIG / "demo.toml").sip.bind == "127.0.0.1"


def test_policy_takes_the_settings() -> None:
    policy = Policy.of(load(EXAMPLE))
    assert policy.noise_ns == 120_000_000
    assert policy.transcript_ns == 11_000_000_000
    assert "uh-huh" in policy.backchannels


# --- mistakes ---


def test_all_mistakes_at_once_with_line_key_and_remedy() -> None:
    text = '[sip]\nprot = 5060\nport = "x"\n[agent]\nsystem_prompt = "a"\n[llm]\nurl = "ftp://x"\n'
    with pytest.raises(SettingsError) as caught:
        loads(text, file="f.toml")
    lines = str(caught.value).splitlines()
    assert 'f.toml:2: sip.prot: unknown setting. Did you mean "port"?' in lines
    assert "f.toml:3: sip.port: 'x' is not a whole number. Write a whole number" in lines
    assert any(line.startswith("f.toml:6: llm.model: is missing. Add it") for line in lines)
    assert any(line.startswith("f.toml:7: llm.url: 'ftp://x' is not an http") for line in lines)
    assert any("tts.voice: is missing" in line for line in lines)
    assert any("stt.url: is missing" in line for line in lines)


@pytest.mark.parametrize(
    ("section", "line", "key", "says"),
    [
        ("sip", "port = 70000", "sip.port", "from 0 to 65535"),
        ("sip", "port = true", "sip.port", "whole number"),
        ("sip", "port = 5060.0", "sip.port", "whole number"),
        ("sip", "tcp = 1", "sip.tcp", "true or false"),
        ("sip", 'bind = "localhost"', "sip.bind", "IP address"),
        ("sip", 'public_address = "1.2.3"', "sip.public_address", "IP address"),
        ("sip", "rtp_ports = [2000]", "sip.rtp_ports", "[16384, 32767]"),
        ("sip", "rtp_ports = [3000, 2000]", "sip.rtp_ports", "[16384, 32767]"),
        ("sip", "rtp_ports = [20000, 20099]", "sip.rtp_ports", "room for 50 calls"),
        ("sip", "rtp_ports = 3", "sip.rtp_ports", "array"),
        ("sip", "port = 20000", "sip.port", "inside sip.rtp_ports"),
        ("sip", 'codecs = ["PCMA", "opus"]', "sip.codecs", "'PCMA', 'PCMU'"),
        ("sip", "codecs = []", "sip.codecs", "at least one"),
        ("sip", 'codecs = ["PCMA", "PCMA"]', "sip.codecs", "once"),
        ("sip", "max_calls = 0", "sip.max_calls", "from 1 to"),
        ("sip", 'prack = "always"', "sip.prack", "'required'"),
        ("sip", 'replaces = "yes"', "sip.replaces", "'refuse'"),
        ("sip", "redirects = 21", "sip.redirects", "from 0 to 20"),
        ("sip", 'large_requests = "sctp"', "sip.large_requests", "'tcp'"),
        ("sip.timers", 'session = "on"', "sip.timers.session", "'always'"),
        ("sip.timers", "min_session_expires_s = 60", "sip.timers.min_session_expires_s", "from 90"),
        (
            "sip.timers",
            "session_expires_s = 100\nmin_session_expires_s = 200",
            "sip.timers.session_expires_s",
            "no less than what is taken",
        ),
        ("sip", "trunk = 7", "sip.trunk", "array"),
        ("sip", 'nameservers = ["dns.example.com"]', "sip.nameservers", "[2001:db8::53]:53"),
        ("sip.tls", 'ca_file = "nowhere.pem"', "sip.tls.ca_file", "No such file"),
        ("sip.tls", "port = 5060\ncert_file = 'pw'\nkey_file = 'pw'", "sip.tls.port", "sip.port"),
        ("sip.tls", "port = 20000", "sip.tls.port", "rtp_ports"),
        ("sip.tls", "cert_file = 'pw'", "sip.tls.key_file", "together"),
        ("sip.tls", "key_file = 'pw'", "sip.tls.cert_file", "together"),
        ("sip.tls", "verify_client = true", "sip.tls.verify_client", "cert_file"),
        ("sip.trunk", 'name = "a"', "sip.trunk[0]", "neither registrar nor server"),
        ("sip.trunk", 'name = "a"\nserver = "sips:h"', "sip.trunk[0].server", "transport=tls"),
        (
            "sip.trunk",
            'name = "a"\nregistrar = "sip:h"\naor = "sip:a@h"\nusername = "a"',
            "sip.trunk[0].password_file",
            "needs it",
        ),
        (
            "sip.trunk",
            'name = "a"\nserver = "sip:h"\nusername = "a"',
            "sip.trunk[0].password_file",
            "neither",
        ),
        (
            "sip.trunk",
            'name = "a"\nserver = "sip:h"\n[[sip.trunk]]\nname = "a"\nserver = "sip:i"',
            "sip.trunk[1].name",
            "differently",
        ),
        (
            "sip.trunk",
            'name = "a"\nserver = "sip:h"\nregistrar = "sip:i"\naor = "sip:a@h"\nusername = "a"\n'
            'password_file = "pw"',
            "sip.trunk[0].server",
            "proxy",
        ),
        ("sip", "trunk = [7]", "sip.trunk", "[[sip.trunk]]"),
        ("sip", 'user_agent = " "', "sip.user_agent", "empty"),
        ("vad", "threshold = 2.0", "vad.threshold", "0.05 to 0.95"),
        ("vad", "threshold = nan", "vad.threshold", "0.05 to 0.95"),
        ("vad", "release = 0.6", "vad.release", "lower"),
        ("media", "jitter_min_ms = 300", "media.jitter_min_ms", "jitter_max_ms"),
        ("media", "timeout_dtx_s = 5.0", "media.timeout_dtx_s", "media.timeout_s"),
        ("agent", 'system_prompt = ""', "agent.system_prompt", "empty"),
        ("agent", "idle_s = 600\nmax_call_s = 60", "agent.idle_s", "shorter"),
        ("agent", 'backchannels = ["a", 1]', "agent.backchannels", "string"),
        ("llm", 'url = "http://u:p@h"', "llm.url", "api_key_file"),
        ("llm", 'url = "http://h?x=1"', "llm.url", "query"),
        ("llm", 'url = "http://h:99999"', "llm.url", "http address"),
        ("llm", 'url = "127.0.0.1:8000"', "llm.url", "http address"),
        ("llm", "extra = 7", "llm.extra", "table"),
        ("llm", 'api_key_file = "nowhere.key"', "llm.api_key_file", "No such file"),
        ("tts", "rate = 12345", "tts.rate", "24000"),
        ("stt", "rate = 44100", "stt.rate", "8000"),
        ("stt", "first_byte_s = 30", "stt.first_byte_s", "stt.total_s"),
        ("log", 'level = "loud"', "log.level", "'info'"),
        ("logs", 'level = "info"', "logs", '"log"'),
    ],
)
def test_a_wrong_value_is_named(
    tmp_path: Path, section: str, line: str, key: str, says: str
) -> None:
    (tmp_path / "pw").write_text("sesame\n")
    found = problems(with_key(section, line), tmp_path)
    assert list(found) == [key]
    assert says in found[key]


def test_section_that_is_no_table() -> None:
    assert "[sip]" in problems("sip = 7\n" + MINIMAL)["sip"]


def test_text_that_is_not_toml_names_the_line() -> None:
    with pytest.raises(SettingsError, match=r"f\.toml: is not TOML.*line 2"):
        loads('[sip]\nport = "\n', file="f.toml")


def test_file_that_is_missing_or_binary(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load(tmp_path / "b.toml")


def test_trunk_mistakes_name_the_block_and_keep_numbers_private(tmp_path: Path) -> None:
    text = MINIMAL + (
        '[[sip.trunk]]\nname = "a"\nregistrar = "sip:h"\naor = "sip:1@h"\nusername = "u"\n'
        'password_file = "pw"\n[[sip.trunk]]\nname = "b"\nregistrar = "h"\n'
        'aor = "+4930123456"\nusername = "u"\npassword_file = "pw"\nrealms = "x"\n'
    )
    (tmp_path / "pw").write_text("sesame\n")
    with pytest.raises(SettingsError) as caught:
        loads(text, file="f.toml", base=tmp_path)
    assert "4930123456" not in str(caught.value)
    assert [(p.key, p.line) for p in caught.value.problems] == [
        ("sip.trunk[1].registrar", 21),
        ("sip.trunk[1].aor", 22),
        ("sip.trunk[1].realms", 25),
    ]


@pytest.mark.parametrize("content", ["", "\n", "two\nlines\n"])
def test_secret_file_holds_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    found = problems(with_key("llm", 'api_key_file = "key"'), tmp_path)
    assert "one line" in found["llm.api_key_file"]


# --- values ---


def test_url_takes_both_forms() -> None:
    for form in ("http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"):
        assert loads(with_key("llm", f'url = "{form}"')).llm.url == "http://h:1"
    assert loads(with_key("llm", 'url = "https://h/api/v1"')).llm.url == "https://h/api"


def test_whole_number_where_a_number_is_wanted() -> None:
    settings = loads(with_key("agent", "idle_s = 7"))
    assert settings.agent.idle_s == 7.0
    assert isinstance(settings.agent.idle_s, float)


def test_settings_are_frozen() -> None:
    settings = loads(MINIMAL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.sip.port = 1  # type: ignore[misc]


def test_secrets_and_numbers_do_not_print(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("sesame\n")
    text = with_key("llm", 'api_key_file = "pw"') + (
        '\n[[sip.trunk]]\nname = "a"\nregistrar = "sip:h"\naor = "sip:4930123456@h"\n'
        'username = "4930123456"\npassword_file = "pw"\n'
    )
    settings = loads(text, base=tmp_path)
    assert settings.llm.api_key_file is not None
    assert settings.llm.api_key_file.reveal() == "sesame"
    shown = f"{settings} {settings!r} {settings.llm.api_key_file:>20} %s" % settings.sip.trunk[0]
    assert "sesame" not in shown
    assert "4930123456" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(settings.llm.api_key_file)
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1
    assert "sesame" not in repr(copy.copy([Secret("sesame")]))


def test_key_lines_of_nested_tables() -> None:
    lines = key_lines('a = 1\n[t]\nb = 2\n[[t.u]]\nc = 3\n[[t.u]]\n  c = 4\n"odd" = 5\n')
    assert lines == {
        "a": 1,
        "t": 2,
        "t.b": 3,
        "t.u[0]": 4,
        "t.u[0].c": 5,
        "t.u[1]": 6,
        "t.u[1].c": 7,
    }
