# SPDX-License-Identifier: GPL-3.0-or-later
"""How a real box is given its answers: the first time by hand, from then on over SSH."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import ClassVar

import attr
from labgrid.driver.common import Driver
from labgrid.driver.sshdriver import SSHDriver
from labgrid.factory import target_factory

from .machine import ANSWER_FILE, AnswersProtocol

_ESP = "/boot/efi"


@target_factory.reg_driver
@attr.s(eq=False)
class SshAnswers(Driver, AnswersProtocol):
    """Puts the answer file on the ESP of a box that already knows our key.

    A box that knows no key yet takes the file from a stick: `folder` is where it is left for that.
    """

    bindings: ClassVar[dict[str, type]] = {"ssh": SSHDriver}
    folder: str = attr.ib(default="", validator=attr.validators.instance_of(str))

    def prepare(self, text: str) -> None:
        """Leaves the answer file where whoever sets up a new box can copy it to a stick."""
        place = Path(self.target.env.config.resolve_path(self.folder)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        path = place / ANSWER_FILE
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        print(f"a new box? copy {path} to a stick labelled VOICE-EDGE and plug it in")

    def deliver(self, text: str) -> None:
        """Provisions the box anew; what was in force before is gone."""
        packed = base64.b64encode(text.encode()).decode()
        self.ssh.run_check(f"echo {packed} | base64 -d > {_ESP}/{ANSWER_FILE}")
        self.ssh.run_check("voice-edge provision --now", timeout=120)
