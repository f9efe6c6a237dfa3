# SPDX-License-Identifier: GPL-3.0-or-later
"""``voice-edge check`` and ``run`` as commands: what is wrong is told with file, key and remedy, by no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from voice_edge.core_rules import in_our_words, key_of
from voice_edge.service import engine_options
from voice_edge.settings import Settings, loads

from .test_settings import MINIMAL, every_key, with_key

# A port nobody listens on: servers that are not there are told of at once.
NOWHERE = "http://127.0.0.1:9"
TRUNK = """
[[sip.trunk]]
name = "provider"
registrar = "{registrar}"
aor = "sip:100@example.net"
username = '{username}'
password_file = "pw"
"""


def write(folder: Path, text: str) -> Path:
    for port in (8000, 8001, 8002):
        text = text.replace(f"http://127.0.0.1:{port}", NOWHERE)
    (folder / "pw").write_text("sesame\n")
    path = folder / "agent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def command(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "voice_edge", *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        # Unbuffered, argparse swallows the error by itself.
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )


def refused(folder: Path, text: str) -> str:
    """What check and run say, which is the same: exit code 2 and a line with file and key."""
    path = write(folder, text)
    said = []
    for name in ("check", "run"):
        done = command(name, "--config", path)
        assert done.returncode == 2, (name, done)
        assert "Traceback" not in done.stderr
        said.append(done.stderr.strip())
    assert said[0] == said[1]
    assert said[0].startswith(f"{path}:"), said[0]
    return said[0].removeprefix(str(path))


PORTS = '[sip]\nbind = "127.0.0.1"\nport = 0\nrtp_ports = [28100, 28119]\nmax_calls = 10\n'


@pytest.mark.parametrize(
    ("section", "line", "key", "told"),
    [
        ("recording", 'dir = "a\\u0000b"', "recording.dir", "NUL"),
        ("recording", 'dir = ""', "recording.dir", "is empty"),
        ("recording", 'dir = "~nobody-of-that-name/x"', "recording.dir", "home"),
        ("llm", 'api_key_file = "a\\u0000b"', "llm.api_key_file", "NUL"),
        ("llm", "extra = {since = 2026-01-01}", "llm.extra", "date at since"),
        ("llm", "extra = {a = [{b = 12:00:00}]}", "llm.extra", "time at a[0].b"),
        ("llm", "extra = {a = inf}", "llm.extra", "inf at a"),
        ("llm", f"extra = {{a = {'[' * 40}{']' * 40}}}", "llm.extra", "deep"),
        ("agent", 'greeting = "a\\u0000b"', "agent.greeting", "NUL"),
        ("sip", "user_agent = 'an \"agent\"'", "sip.user_agent", "quotes"),
        ("sip", 'user_agent = "agént"', "sip.user_agent", "ASCII"),
        ("sip", 'large_requests = "tcp"\ntcp = false', "sip.large_requests", "tcp"),
        ("sip", 'nameservers = ["192.0.2.53:0"]', "sip.nameservers", "no address of a server"),
        ("sip.guard", 'realm = "a\\\\b"', "sip.guard.realm", "backslashes"),
        ("sip.guard", 'scanners = ["x"]', "sip.guard.scanners", "3 to 64"),
        ("sip.guard", 'acl = ["192.0.2.1/24"]', "sip.guard.acl", "host bits"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_file_and_line(
    tmp_path: Path, section: str, line: str, key: str, told: str
) -> None:
    said = refused(tmp_path, with_key(section, line))
    assert f" {key}: " in said
    assert told in said
    assert said[1].isdigit(), f"no line number: {said}"


@pytest.mark.parametrize(
    ("registrar", "username", "key"),
    [
        ("sip:example.net:99999", "100", "sip.trunk[0].registrar"),
        ("sip:exa,mple.net", "100", "sip.trunk[0].registrar"),
        ("sip:example.net", 'my "name"', "sip.trunk[0].username"),
    ],
)
def test_a_trunk_that_the_core_would_refuse_is_refused_by_check(
    tmp_path: Path, registrar: str, username: str, key: str
) -> None:
    said = refused(tmp_path, MINIMAL + TRUNK.format(registrar=registrar, username=username))
    assert f" {key}: " in said
    assert "name" not in said.partition(": ")[2].replace("username", ""), "it is private"


def test_the_name_of_a_trunk_is_a_line_of_a_log(tmp_path: Path) -> None:
    trunk = '[[sip.trunk]]\nname = "a\\nERROR b"\nserver = "sip:192.0.2.1"\n'
    said = refused(tmp_path, MINIMAL + trunk)
    assert " sip.trunk[0].name: " in said
    assert "control character" in said


def test_arrays_without_end(tmp_path: Path) -> None:
    assert "deep" in refused(tmp_path, MINIMAL + "[x]\na = " + "[" * 5000 + "]" * 5000)


def test_the_mark_of_utf_8_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff" + PORTS + MINIMAL)
    done = command("check", "--config", path)
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert "fail  llm" in done.stdout


def test_output_that_nobody_reads(tmp_path: Path) -> None:
    path = write(tmp_path, PORTS + MINIMAL)
    read, end = os.pipe()
    os.close(read)
    try:
        done = command("check", "--config", path, stdout=end)
    finally:
        os.close(end)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("arguments", [("check",), ("--help",), ("status",)])
def test_output_to_a_full_disk(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = write(tmp_path, PORTS + MINIMAL)
    more = ("--config", path) if arguments == ("check",) else ()
    with open("/dev/full", "w", encoding="ascii") as full:
        done = command(*arguments, *more, stdout=full.fileno())
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "No space left on device" in done.stderr


def test_a_port_in_use_is_told_in_the_words_of_the_file(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        path = write(tmp_path, PORTS.replace("port = 0", f"port = {port}") + MINIMAL)
        done = command("run", "--config", path)
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if "cannot start" in line)
    assert str(path) in line
    assert f"127.0.0.1:{port}" in line
    assert "sip.port" in line
    assert "sip_port" not in line


@pytest.mark.parametrize("place", ["missing/ready.json", "."])
def test_a_ready_file_that_cannot_be_is_told_at_once(tmp_path: Path, place: str) -> None:
    path = write(tmp_path, PORTS + MINIMAL)
    done = command("run", "--config", path, "--ready-file", tmp_path / place)
    assert done.returncode == 2
    assert "--ready-file" in done.stderr
    assert str(tmp_path) in done.stderr
    assert "ready: SIP" not in done.stderr, "it failed only after it was ready"


def test_every_option_of_the_core_has_its_key() -> None:
    keys = every_key(Settings)
    for name in engine_options(loads(MINIMAL)):
        assert key_of(name) in keys, name
    assert in_our_words("(500, 600) holds 50 port pairs; widen rtp_ports, or lower max_calls") == (
        "(500, 600) holds 50 port pairs; widen sip.rtp_ports, or lower sip.max_calls"
    )
    assert in_our_words("set guard.users and vad_threshold") == (
        "set sip.guard.user and vad.threshold"
    )
    assert in_our_words("sip.port stays") == "sip.port stays"
