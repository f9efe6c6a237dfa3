# SPDX-License-Identifier: GPL-3.0-or-later
"""The states a box is brought to, and what leads from one to the next."""

from __future__ import annotations

import enum
import re
import socket
import time
from typing import ClassVar

import attr
from labgrid.driver.exception import ExecutionError
from labgrid.driver.sshdriver import SSHDriver
from labgrid.factory import target_factory
from labgrid.protocol import ConsoleProtocol, PowerProtocol
from labgrid.resource.networkservice import NetworkService
from labgrid.strategy.common import Strategy, StrategyError, never_retry
from pexpect import TIMEOUT

from .box import TelephoneBox
from .guest import Guest
from .machine import AnswersProtocol

VERIFIED = r"slot [ab], root verified by dm-verity"
"""What the initrd says last."""
LOST = re.compile(rb"Kernel panic|voice-edge rescue:|flash the image again")
_BANNER_S = 5.0


class Status(enum.Enum):
    """States in the order they are passed."""

    unknown = 0
    off = 1
    booting = 2
    """Firmware, boot loader and initrd are done: the root is verified and mounted."""
    provisioned = 3
    """The answers are in force: SSH, off without a key, takes ours."""
    answering = 4
    """The agent runs, and the slot is marked good."""


@target_factory.reg_driver
@attr.s(eq=False)
class ApplianceStrategy(Strategy):
    """`answers` has to be set before the box leaves `off`. Times are in seconds at patience 1."""

    bindings: ClassVar[dict[str, type]] = {
        "power": PowerProtocol,
        "console": ConsoleProtocol,
        "source": AnswersProtocol,
        "ssh": SSHDriver,
        "network": NetworkService,
        "box": TelephoneBox,
    }
    initrd_s: float = attr.ib(default=60.0, converter=float)
    provisioned_s: float = attr.ib(default=60.0, converter=float)
    answering_s: float = attr.ib(default=60.0, converter=float)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.status = Status.unknown
        self.answers = ""
        self.history: list[dict[str, float]] = []
        """For each boot the seconds from power on, or the order to restart, to each state."""
        self.seen = b""
        """What came over the console since then."""
        self._since = 0.0

    @property
    def guest(self) -> Guest:
        """Commands on the box. Raises StrategyError before it is provisioned."""
        if not self.provisioned:
            raise StrategyError(f"the box is {self.status.name}: no commands yet")
        return Guest(self, self.box.patience)

    def run(self, command: str, *, timeout: float) -> tuple[list[str], list[str], int]:
        """Output, error output and exit status of a command on the box."""
        try:
            return self._answer(command, timeout)
        except ExecutionError as error:
            # Raised before anything was sent: a box whose cores are starved may lose a connection.
            if "Keepalive" not in str(error.msg):
                raise
        self.target.deactivate(self.ssh)
        self._connect(time.monotonic() + self.provisioned_s * self.box.patience)
        return self._answer(command, timeout)

    def _answer(self, command: str, timeout: float) -> tuple[list[str], list[str], int]:
        out, err, status = self.ssh.run(command, timeout=timeout)
        return out, err, status

    @property
    def provisioned(self) -> bool:
        """Whether it takes commands now."""
        return self.status.value >= Status.provisioned.value

    @never_retry
    def transition(self, status: Status | str) -> None:
        """Bring the box to `status`, by way of all that lies between."""
        wanted = status if isinstance(status, Status) else Status[status]
        if wanted in (Status.unknown, Status.off):
            self._turn_off()
            return
        if self.status == Status.unknown:
            self._turn_off()
        while self.status.value < wanted.value:
            {
                Status.off: self._turn_on,
                Status.booting: self._await_provisioned,
                Status.provisioned: self._await_answering,
            }[self.status]()

    @never_retry
    def restart(self) -> None:
        """From `provisioned` or `answering` by an orderly restart to `answering`."""
        guest = self.guest
        self._drain(0)
        self._begin()
        guest.say("systemctl --no-block reboot")
        self.target.deactivate(self.ssh)
        self._await_initrd()
        self.transition(Status.answering)

    def on_console(self, pattern: str) -> bool:
        """Whether the console has shown `pattern` (a regular expression) since the last start."""
        self._drain(0)
        text = self.seen.replace(b"\r", b"").decode(errors="replace")
        return re.search(pattern, text) is not None

    def _turn_off(self) -> None:
        self.target.deactivate(self.ssh)
        self.target.activate(self.power)
        self.power.off()
        self.target.deactivate(self.console)
        self.status = Status.off

    def _turn_on(self) -> None:
        self.source.prepare(self.answers)
        self.target.activate(self.console)
        self.target.activate(self.power)
        self._begin()
        self.power.on()
        self._await_initrd()

    def _await_initrd(self) -> None:
        deadline = time.monotonic() + self.initrd_s * self.box.patience
        while not self.on_console(VERIFIED):
            self._require(deadline, "the initrd to verify and mount the root")
            self._drain(0.5)
        self._reached(Status.booting)

    def _await_provisioned(self) -> None:
        self._connect(time.monotonic() + self.provisioned_s * self.box.patience)
        self.source.deliver(self.answers)
        self._reached(Status.provisioned)

    def _connect(self, deadline: float) -> None:
        while not self._ssh_listens():
            self._require(deadline, "SSH, which is on once the answers are in force")
            self._drain(1.0)
        self.target.activate(self.ssh)

    def _await_answering(self) -> None:
        deadline = time.monotonic() + self.answering_s * self.box.patience
        guest = self.guest
        units = "voice-edge.service voice-edge-good.service"
        while guest.say(f"systemctl is-active {units}").split() != ["active", "active"]:
            if time.monotonic() > deadline:
                raise StrategyError(f"no agent that answers: {guest.say('voice-edge status')}")
            self._drain(2.0)
        self._reached(Status.answering)

    def _begin(self) -> None:
        self.seen, self._since = b"", time.monotonic()
        self.history.append({})
        self.status = Status.off

    def _reached(self, status: Status) -> None:
        self.status = status
        self.history[-1][status.name] = round(time.monotonic() - self._since, 1)

    def _ssh_listens(self) -> bool:
        try:
            address = (self.network.address, self.network.port)
            with socket.create_connection(address, _BANNER_S) as probe:
                return probe.recv(4) == b"SSH-"
        except OSError:
            return False

    def _drain(self, wait_s: float) -> None:
        """Takes in what the console has shown, at least for `wait_s`."""
        end = time.monotonic() + wait_s
        while True:
            try:
                part = self.console.read(timeout=max(0.0, end - time.monotonic()))
            except TIMEOUT:
                return
            if not part:
                raise StrategyError(f"the console is gone: the box's power? {self._last_seen()}")
            self.seen += part

    def _require(self, deadline: float, what: str) -> None:
        lost = LOST.search(self.seen)
        if lost is not None or time.monotonic() > deadline:
            raise StrategyError(f"waited in vain for {what}; {self._last_seen()}")

    def _last_seen(self) -> str:
        last = self.seen.replace(b"\r", b"").decode(errors="replace")[-2000:]
        return f"the console ends with\n{last}"
