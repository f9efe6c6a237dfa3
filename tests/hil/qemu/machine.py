# SPDX-License-Identifier: GPL-3.0-or-later
"""How a virtual box is run: labgrid's QEMU driver with the shipped disk, UEFI and a stick."""

from __future__ import annotations

import abc
import base64
import contextlib
import os
import select
import shlex
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import ClassVar

import attr
from labgrid.driver.exception import ExecutionError
from labgrid.driver.qemudriver import QEMUDriver
from labgrid.factory import target_factory
from pexpect import TIMEOUT

import voice_edge.demo

from . import disk, tools
from .box import TelephoneBox

ANSWER_FILE = "voice-edge-answers.toml"
CREDENTIAL = "voice-edge.answers"
RTP_PORTS = range(16384, 16384 + 32)
"""Of the agent's range the ones that this few calls come to use; it takes them in order."""
GUEST = "10.0.2.15"
PROBED_PORT = 8099
"""Reaches the box, but nothing there may be reached by it."""
_STARTED_S = 30.0
_TIED = Path(voice_edge.demo.__file__).with_name("tied.py")


class AnswersProtocol(abc.ABC):
    """How a box is given its answer file."""

    @abc.abstractmethod
    def prepare(self, text: str) -> None:
        """Called while the box is off."""

    @abc.abstractmethod
    def deliver(self, text: str) -> None:
        """Called once the box answers to SSH."""


FIRMWARE = {
    "x86_64": ("usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd"),
    "aarch64": ("usr/share/AAVMF/AAVMF_CODE.no-secboot.fd", "usr/share/AAVMF/AAVMF_VARS.fd"),
}
"""UEFI of the tool tree: its code, and the variables that a box begins with."""


@target_factory.reg_driver
@attr.s(eq=False)
class ApplianceQemu(QEMUDriver, AnswersProtocol):
    """A box under QEMU.

    Of labgrid's driver it keeps power, console and monitor, and the settings `machine`, `cpu`,
    `memory`, `disk` (key of an image) and `extra_args`. `arch` chooses emulator and firmware,
    `disk_mib` is how large a disk the image is flashed on, `answers_by` is `stick` or `credential`,
    `folder` is where disk, firmware variables and `console.log` of this run lie.

    User networking: the box is 10.0.2.15 behind a router that carries the ports in use to
    TelephoneBox's `address`, one of this machine's loopback addresses, so that ports need no change.
    """

    bindings: ClassVar[dict[str, type]] = {"box": TelephoneBox}
    qemu_bin: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    machine: str = attr.ib(default="q35", validator=attr.validators.instance_of(str))
    cpu: str = attr.ib(default="max", validator=attr.validators.instance_of(str))
    memory: str = attr.ib(default="1536M", validator=attr.validators.instance_of(str))
    arch: str = attr.ib(default="x86_64", validator=attr.validators.in_(sorted(FIRMWARE)))
    disk_mib: int = attr.ib(default=4096, validator=attr.validators.instance_of(int))
    answers_by: str = attr.ib(
        default="stick", validator=attr.validators.in_(["stick", "credential"])
    )
    folder: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    ssh_port: int = attr.ib(default=2222, validator=attr.validators.instance_of(int))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._news = threading.Condition()
        self._arrived = bytearray()
        self._ended = False

    @property
    def place(self) -> Path:
        """The folder of this run."""
        return Path(self.target.env.config.resolve_path(self.folder)).resolve()

    @property
    def image(self) -> Path:
        """The shipped image."""
        return Path(self.target.env.config.get_image_path(self.disk)).resolve()

    @property
    def _credential(self) -> Path:
        return self.place / "credential.txt"

    @property
    def console_log(self) -> Path:
        """All that came over the serial console."""
        return self.place / "console.log"

    def prepare(self, text: str) -> None:
        """Makes a new box: disk as flashed, firmware as from the factory, answers on a stick."""
        assert self.image.is_file(), (
            f"{self.image} is missing; make it with `just image debian {self.arch}`"
        )
        self.place.mkdir(parents=True, exist_ok=True)
        disk.flash(self.image, self.place / "disk.raw", self.disk_mib)
        shutil.copyfile(tools.tree() / FIRMWARE[self.arch][1], self.place / "firmware.vars")
        self.console_log.unlink(missing_ok=True)
        if self.answers_by == "stick":
            disk.stick(self.place / "stick.img", ANSWER_FILE, text)
            return
        packed = base64.b64encode(text.encode()).decode()
        # As a file: the text may be longer than a word of the command line may be.
        self._credential.write_text(f"io.systemd.credential.binary:{CREDENTIAL}={packed}")

    def deliver(self, text: str) -> None:
        """Nothing: the box has found them by itself."""

    def get_qemu_base_args(self) -> list[str]:
        """The command line, without what labgrid adds for monitor and console."""
        code = tools.tree() / FIRMWARE[self.arch][0]
        emulator = tools.command(
            f"usr/bin/qemu-system-{self.arch}", "-L", str(tools.tree() / "usr/share/qemu")
        )
        # QEMU ends with this process, however that ends.
        tied = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid())]
        env = [f"{name}={tools.environment()[name]}" for name in ("QEMU_MODULE_DIR",)]
        return [
            *tied,
            *("/usr/bin/env", *env),
            *emulator,
            *("-machine", self.machine, "-cpu", self.cpu, "-m", self.memory),
            *("-display", "none", "-vga", "none", "-monitor", "none"),
            "-no-user-config",
            *_drive(f"if=pflash,unit=0,readonly=on,file={code}"),
            *_drive(f"if=pflash,unit=1,file={self.place / 'firmware.vars'}"),
            *_drive(f"if=virtio,cache=unsafe,file={self.place / 'disk.raw'}"),
            *("-netdev", ",".join(["user,id=net", *self._forwards()])),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *self._answers(),
            *shlex.split(self.extra_args),
        ]

    def on_activate(self) -> None:
        """Prepares the command; a QEMU that does not start is told instead of waited for."""
        super().on_activate()
        self._socket.settimeout(_STARTED_S)
        at = self._cmd.index("-chardev") + 1
        self._cmd[at] += f",logfile={self.console_log},logappend=on"

    def on(self) -> None:
        """Start QEMU. Raises ExecutionError when it does not come up."""
        if self.status:
            return
        try:
            super().on()
        except TimeoutError:
            raise ExecutionError(
                f"QEMU did not start: {shlex.join(self._cmd)}; what it said stands above"
            ) from None
        self._arrived, self._ended = bytearray(), False
        threading.Thread(target=self._take_in, args=(self._clientsocket,), daemon=True).start()

    def _take_in(self, console: socket.socket) -> None:
        # All the time, not when a test happens to look: QEMU sends bytes one by one, some 280 of
        # them fill the socket, and then all of the box stands that writes to its console.
        with contextlib.suppress(OSError, ValueError):
            while select.select([console], [], []) and (part := console.recv(4096)):
                with self._news:
                    self._arrived += part
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _read(self, size: int = 1, timeout: float = 10, max_size: int | None = None) -> bytes:
        """What has come over the console; nothing once it is gone. Raises pexpect's TIMEOUT."""
        with self._news:
            if not self._news.wait_for(lambda: self._arrived or self._ended, timeout):
                raise TIMEOUT(f"nothing on the console for {timeout:.0f} s")
            part = bytes(self._arrived[: max_size or None])
            del self._arrived[: len(part)]
            return part

    def _forwards(self) -> list[str]:
        address, sip = self.box.address, self.box.sip_port
        ports = [("tcp", self.ssh_port, 22), ("tcp", PROBED_PORT, PROBED_PORT)]
        ports += [(kind, sip, 5060) for kind in ("udp", "tcp")]
        ports += [("udp", port, port) for port in RTP_PORTS]
        return [f"hostfwd={kind}:{address}:{ours}-{GUEST}:{theirs}" for kind, ours, theirs in ports]

    def _answers(self) -> list[str]:
        if self.answers_by == "credential":
            return ["-smbios", f"type=11,path={self._credential}"]
        return [
            *("-device", "qemu-xhci"),
            *_drive(f"if=none,id=stick,readonly=on,file={self.place / 'stick.img'}"),
            *("-device", "usb-storage,drive=stick"),
        ]


def _drive(options: str) -> list[str]:
    return ["-drive", f"format=raw,{options}"]
