# SPDX-License-Identifier: GPL-3.0-or-later
"""Provisioning: which file counts, what it becomes, and that a mistake changes nothing."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from voice_edge import cli
from voice_edge.appliance import notices, provision, render
from voice_edge.appliance.answers import parse
from voice_edge.appliance.places import Places
from voice_edge.settings import load

from .box import KEY, MINIMAL, box


def named(name: str) -> bytes:
    return f'[system]\nhostname = "{name}"\n{MINIMAL}'.encode()


def give(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def hostname(places: Places) -> str:
    return (places.run / "hostname").read_text().strip()


def test_a_box_without_answers_waits(tmp_path: Path) -> None:
    places = box(tmp_path)
    outcome = provision.run(places, None)
    assert not outcome.provisioned
    assert outcome.problems == (provision.NOT_YET,)
    assert hostname(places) == "voice-edge"
    assert list(places.agent.iterdir()) == []
    assert not places.authorized_keys.exists()
    assert "add element" not in (places.run / "nftables.d/sets.nft").read_text()
    assert list((tmp_path / "run/systemd/network").glob("*")) == []
    assert cli.main(["provision", "--root", str(tmp_path)]) == 0
    assert notices.all_of(places) == [f"provision: {provision.NOT_YET}"]


@pytest.mark.parametrize("source", ["stick", "credential", "esp"])
def test_every_source_is_found(source: str, tmp_path: Path) -> None:
    places = box(tmp_path)
    credentials = tmp_path / "credentials"
    give(provision.sources(places, credentials)[source], named("desk"))
    outcome = provision.run(places, credentials)
    assert outcome == provision.Outcome(True, True, (), source)
    assert hostname(places) == "desk"
    assert places.stored.stat().st_mode & 0o777 == 0o600


def test_the_stick_goes_before_the_credential_and_that_before_the_esp(tmp_path: Path) -> None:
    places = box(tmp_path)
    credentials = tmp_path / "credentials"
    for name, path in provision.sources(places, credentials).items():
        give(path, named(name))
    assert provision.run(places, credentials).source == "stick"
    assert hostname(places) == "stick"


def test_what_was_taken_in_once_does_not_come_back(tmp_path: Path) -> None:
    """The old file on the ESP must not undo what the stick brought."""
    places = box(tmp_path)
    give(places.esp, named("old"))
    provision.run(places, None)
    give(places.stick, named("new"))
    assert provision.run(places, None).source == "stick"
    places.stick.unlink()
    again = provision.run(places, None)
    assert (again.source, again.changed) == ("", False)
    assert hostname(places) == "new"
    give(places.esp, named("newest"))
    assert provision.run(places, None).source == "esp"


def test_a_mistake_changes_nothing_and_is_told_until_mended(tmp_path: Path) -> None:
    places = box(tmp_path)
    give(places.esp, named("good"))
    provision.run(places, None)
    before = tree(tmp_path)
    give(places.stick, named("bad") + b"[network]\ngateway = 7\n")
    for _ in range(2):
        outcome = provision.run(places, None)
        assert outcome.provisioned
        assert not outcome.changed
        assert [p for p in outcome.problems if "network.gateway" in p]
    places.stick.unlink()
    assert tree(tmp_path) == before
    give(places.stick, named("mended"))
    assert provision.run(places, None).problems == ()
    assert hostname(places) == "mended"


def test_mistakes_reach_the_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = box(tmp_path)
    give(places.esp, named("bad_name"))
    assert cli.main(["provision", "--root", str(tmp_path)]) == 1
    assert f"{places.esp}:2: system.hostname:" in capsys.readouterr().err
    assert "system.hostname" in notices.all_of(places)[0]
    give(places.esp, named("good"))
    assert cli.main(["provision", "--root", str(tmp_path)]) == 0
    assert notices.all_of(places) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe[\x00", "not UTF-8"),
        (b"[system\n", "is not TOML"),
        (b"#" * (provision.LARGEST + 1), "not an answer file"),
        (
            named("x").replace(b"[agent]", b"[agent]\nidle_s = 100.0\nmax_call_s = 50.0"),
            "agent.idle_s",
        ),
        (named("x") + b"[realtime]\nmedia_cores = 2\n", "choose at most 1"),
    ],
)
def test_what_cannot_work_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    places = box(tmp_path)
    give(places.esp, content)
    outcome = provision.run(places, None)
    assert says in "\n".join(outcome.problems)
    assert not places.stored.exists()


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    places = box(tmp_path)
    give(places.esp, b"\xef\xbb\xbf" + named("desk"))
    assert provision.run(places, None).problems == ()
    assert hostname(places) == "desk"


def test_unreadable_source_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    places = box(tmp_path)
    places.esp.mkdir(parents=True)  # a folder in its place
    give(places.stick, named("desk"))
    outcome = provision.run(places, None)
    assert outcome.source == "stick"
    assert "esp" in outcome.problems[0]


def test_a_disk_moved_to_a_smaller_machine_still_comes_up(tmp_path: Path) -> None:
    places = box(tmp_path, cores=8)
    give(places.esp, named("desk") + b"[realtime]\nmedia_cores = 4\n")
    assert provision.run(places, None).problems == ()
    box(tmp_path, cores=2)
    outcome = provision.run(places, None)
    assert outcome.provisioned
    assert "choose at most 1" in outcome.problems[0]
    assert load(places.agent / "voice-edge.toml").media.cores == (1,)


def test_answers_become_the_agents_settings(tmp_path: Path) -> None:
    places = box(tmp_path, cores=4)
    extra = "[sip]\nmax_calls = 12\n[recording]\nenabled = false\n[realtime]\npriority = 70\n"
    text = MINIMAL.replace(
        "[llm]",
        'registrar = "sip:198.51.100.7"\nusername = "49301"\npassword = "se\\"same"\n[llm]\napi_key = "key"',
    )
    give(places.esp, (text + extra).encode())
    assert provision.run(places, None).problems == ()
    settings = load(places.agent / "voice-edge.toml")
    assert settings.sip.max_calls == 12
    assert settings.sip.trunk[0].aor == "sip:49301@198.51.100.7"
    password = settings.sip.trunk[0].password_file
    assert password is not None
    assert password.reveal() == 'se"same'
    assert settings.llm.api_key_file is not None
    assert settings.llm.api_key_file.reveal() == "key"
    assert settings.stt.api_key_file is None
    assert settings.recording.dir is None
    assert (settings.media.cores, settings.media.priority) == ((3,), 70)
    toml = (places.agent / "voice-edge.toml").read_text()
    assert "same" not in toml
    assert tomllib.loads(toml)
    for path in places.agent.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert {p.name for p in places.agent.iterdir()} == {"voice-edge.toml", *render.SECRETS}


def test_ssh_key_and_its_firewall_come_and_go_together(tmp_path: Path) -> None:
    places = box(tmp_path)
    admin = f'[admin]\nssh_keys = ["{KEY}"]\nnetworks = ["192.0.2.0/24", "2001:db8::/64"]\n'
    give(places.esp, MINIMAL.encode() + admin.encode())
    provision.run(places, None)
    assert places.authorized_keys.read_text() == KEY + "\n"
    assert places.authorized_keys.stat().st_mode & 0o777 == 0o600
    sets = (places.run / "nftables.d/sets.nft").read_text()
    assert "add element inet voice_edge admin4 { 192.0.2.0/24 }" in sets
    assert "add element inet voice_edge admin6 { 2001:db8::/64 }" in sets
    give(places.esp, MINIMAL.encode())
    assert provision.run(places, None).changed
    assert not places.authorized_keys.exists()
    assert (
        "add element inet voice_edge admin" not in (places.run / "nftables.d/sets.nft").read_text()
    )


def test_the_agent_lets_in_whom_the_firewall_does(tmp_path: Path) -> None:
    """Also those beside the registrar, which alone would be its default."""
    places = box(tmp_path)
    give(places.esp, MINIMAL.encode())
    provision.run(places, None)
    settings = load(places.agent / "voice-edge.toml")
    assert settings.sip.guard.acl == ("198.51.100.0/24", "127.0.0.1/32")


def test_overlapping_networks_are_merged() -> None:
    answers = parse(
        MINIMAL.replace(
            '"198.51.100.0/24"', '"198.51.100.0/24", "198.51.100.7", "198.51.101.0/24"'
        ),
        file="a",
    )
    assert "trunk4 { 198.51.100.0/23 }" in render.firewall(answers)


def test_network_of_the_answers(tmp_path: Path) -> None:
    def rendered(lines: str) -> str:
        return "".join(render.networkd(parse(f"{MINIMAL}[network]\n{lines}", file="a")).values())

    assert rendered("") == ""
    assert "Name=eno1\n" in rendered('interface = "eno1"')
    assert "DHCP=yes" in rendered('interface = "eno1"')
    fixed = rendered(
        'address = "192.0.2.20/24"\ngateway = "192.0.2.1"\ndns = ["192.0.2.1", "192.0.2.2"]'
    )
    for line in (
        "DHCP=no",
        "Address=192.0.2.20/24",
        "Gateway=192.0.2.1",
        "DNS=192.0.2.2",
        "Type=ether",
    ):
        assert f"{line}\n" in fixed
    # A later answer file without a network brings the image's DHCP back.
    places = box(tmp_path)
    give(places.esp, f'{MINIMAL}[network]\naddress = "192.0.2.20/24"\n'.encode())
    provision.run(places, None)
    assert len(list((tmp_path / "run/systemd/network").iterdir())) == 1
    give(places.esp, MINIMAL.encode())
    provision.run(places, None)
    assert list((tmp_path / "run/systemd/network").iterdir()) == []


def test_time_servers() -> None:
    assert render.chrony(None).startswith("pool ")
    answers = parse(f'{MINIMAL}[time]\nservers = ["192.0.2.1", "ntp.example.com"]\n', file="a")
    assert render.chrony(answers) == "server 192.0.2.1 iburst\nserver ntp.example.com iburst\n"


def test_a_full_disk_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    box(tmp_path)

    def full(*_: object) -> provision.Outcome:
        raise OSError(28, "No space left on device", "/data/config/answers.toml")

    monkeypatch.setattr(provision, "run", full)
    assert cli.main(["provision", "--root", str(tmp_path)]) == 1
    assert "/data/config/answers.toml: No space left" in capsys.readouterr().err


def test_a_stick_plugged_in_later_takes_effect_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = box(tmp_path)
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    give(places.stick, named("desk"))
    assert cli.main(["provision", "--now", "--root", str(tmp_path)]) == 0
    restarted = {word for command in ran for word in command if word.endswith(".service")}
    assert {"voice-edge.service", "voice-edge-firewall.service", "ssh.service"} <= restarted
    assert all(command[:2] == ["systemctl", "--no-block"] for command in ran)
    # Plugged in again, or a mistake: no call is cut for nothing.
    ran.clear()
    assert cli.main(["provision", "--now", "--root", str(tmp_path)]) == 0
    give(places.stick, named("bad_name"))
    assert cli.main(["provision", "--now", "--root", str(tmp_path)]) == 1
    assert ran == []
