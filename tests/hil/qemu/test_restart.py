# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart with things gone wrong: damaged boot counters, and an answer file with a mistake."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from hil.qemu import answers
from hil.qemu.guest import Guest

if TYPE_CHECKING:
    from hil.qemu.strategy import ApplianceStrategy

ESP = "/boot/efi"
IN_FORCE = "/data/config/answers.toml"
MADE = "/run/voice-edge /run/systemd/network /data/ssh"
"""What provisioning writes."""


@dataclass(frozen=True)
class Before:
    """The box before it was restarted."""

    machine_id: str
    host_key: str
    answers: str
    made: str


@pytest.fixture(scope="module")
def restarted(appliance: ApplianceStrategy, answer_file: str) -> Iterator[Before]:
    """Restarted with random bytes for counters and a mistaken file on the ESP."""
    appliance.transition("answering")
    guest = appliance.guest
    before = Before(
        machine_id=guest.run("cat /etc/machine-id"),
        host_key=guest.run("cat /data/ssh/host_ed25519_key.pub"),
        answers=guest.run(f"sha256sum {IN_FORCE}"),
        made=made(guest),
    )
    packed = base64.b64encode(answers.mistaken(answer_file).encode()).decode()
    guest.run(f"cp {ESP}/voice-edge-answers.toml /run/was.toml || true")
    guest.run(f"echo {packed} | base64 -d > {ESP}/voice-edge-answers.toml")
    guest.run(f"head -c 1024 /dev/urandom > {ESP}/grub/grubenv")
    guest.run("sync")
    appliance.restart()
    yield before
    if appliance.broken is None:
        appliance.guest.say(f"rm -f {ESP}/voice-edge-answers.toml")


def made(guest: Guest) -> str:
    """Sums of the files that provisioning makes, without those that tell of the mistake."""
    found = f"find {MADE} -type f -not -path '*/notices/*' -not -name '*.lock'"
    return guest.run(f"{found} | sort | xargs sha256sum")


def test_boots_without_counters_and_mends_them(
    restarted: Before, appliance: ApplianceStrategy, guest: Guest
) -> None:
    assert appliance.on_console("no readable boot counters, starting slot A")
    assert appliance.on_console("boot counters: were made anew")
    counters = guest.boot_counters()
    assert (counters["A_OK"], counters["A_TRY"]) == ("1", "0"), counters
    assert counters["ORDER"].split()[0] == "A"
    assert guest.run(f"stat --format=%s {ESP}/grub/grubenv") == "1024"


def test_mistake_is_on_the_console(
    restarted: Before, appliance: ApplianceStrategy, guest: Guest
) -> None:
    name = answers.MISTAKEN_KEY
    assert appliance.on_console(rf"voice-edge provision: .*voice-edge-answers\.toml.*{name}")
    status = guest.json("voice-edge status --json", 60)
    assert any(name in notice for notice in status["notices"]), status["notices"]


def test_mistake_changes_nothing(restarted: Before, guest: Guest) -> None:
    assert guest.run(f"sha256sum {IN_FORCE}") == restarted.answers
    assert made(guest) == restarted.made
    assert guest.run("hostname") == answers.HOSTNAME
    assert guest.run("systemctl is-active voice-edge.service") == "active"


def test_identity_stays(restarted: Before, guest: Guest) -> None:
    assert guest.run("cat /etc/machine-id") == restarted.machine_id
    assert guest.run("cat /data/ssh/host_ed25519_key.pub") == restarted.host_key


def test_earlier_boots_are_in_the_journal(restarted: Before, guest: Guest) -> None:
    boots = guest.run("journalctl --list-boots --no-pager --quiet", 60).splitlines()
    assert len(boots) >= 2, boots
