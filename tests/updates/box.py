# SPDX-License-Identifier: GPL-3.0-or-later
"""A box without a boot: real RAUC and grub-editenv of the image's tool tree, slots and grubenv as files.

The kernel of a building machine may have no device mapper, which a verity bundle is opened with. Installs are therefore
of plain bundles here, with the same manifest, hook and keys; verity bundles are read, verified and unpacked, and
installed on the booted disk (tests/hil/qemu).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from image.arch import ARCHES
from image.disk import grub
from image.toolroot import ToolRoot
from ota import build, render
from ota.pki import Authority
from voice_edge.appliance import grubenv

ARCH = ARCHES["x86_64"]
MIB = 1 << 20
BLOCK = 4096
_SESSION = """
rauc --conf={box}/system.conf --mount={box}/mnt service --override-boot-slot={slot} >{box}/service.log 2>&1 &
service=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rauc --conf={box}/system.conf status >/dev/null 2>&1 && break
    sleep 0.2
done
{command}
code=$?
kill $service
wait $service
exit $code
"""


@dataclass
class Said:
    """How a program ended and what it printed."""

    code: int
    text: str


def images(folder: Path, seed: int) -> Path:
    """Two small slot images in ``folder``; ``seed`` changes a few blocks, as a release does."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, blocks in (("root.img", 256), ("boot.img", 16)):
        content = bytearray()
        for number in range(blocks):
            changed = seed if number % 16 == 5 else 0
            content += f"{name} {number} {changed} ".encode().ljust(BLOCK, b".")
        (folder / name).write_bytes(content)
    return folder


@dataclass
class Box:
    """Slot A runs, B is empty; all below one folder of the tool tree's work folder."""

    tools: ToolRoot
    name: str
    version: str = "1.0.0"
    slot: str = "A"
    env: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.tools.work / self.name

    @property
    def grubenv(self) -> Path:
        return self.folder / "grubenv"

    def make(self, keyring: Path) -> Box:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("devices", "data", "mnt", "out"):
            (self.folder / name).mkdir(parents=True)
        shutil.copyfile(keyring, self.folder / "keyring.pem")
        for slot in "ab":
            (self.folder / f"devices/root-{slot}").write_bytes(bytes(2 * MIB))
            (self.folder / f"devices/boot-{slot}").write_bytes(bytes(MIB))
        self.grubenv.write_bytes(grub.environment(grub.FIRST_ENVIRONMENT))
        (self.folder / "slot-good").write_text("")
        self.runs(self.version)
        return self

    def runs(self, version: str) -> None:
        """What the running slot holds of settings."""
        self.version = version
        inside = f"/work/{self.name}"
        conf = render.system_conf(
            ARCH,
            version,
            render.Box(
                grubenv=f"{inside}/grubenv",
                data=f"{inside}/data",
                keyring=f"{inside}/keyring.pem",
                devices=f"{inside}/devices",
                formats="plain verity",
            ),
        )
        (self.folder / "system.conf").write_text(conf)
        (self.folder / "release").write_text(f'VERSION="{version}"\n')

    def run(self, command: str) -> Said:
        """``command`` of a shell in the tool tree, in /work."""
        env = {"VOICE_EDGE_RELEASE": f"/work/{self.name}/release"}
        env["VOICE_EDGE_SLOT_GOOD"] = f"/work/{self.name}/slot-good"
        words = [
            "sh",
            "-c",
            f"( {command} ) >/work/{self.name}/said 2>&1; echo $? >/work/{self.name}/code",
        ]
        self.tools.run(words, env={**env, **self.env})
        code = int((self.folder / "code").read_text())
        return Said(code, (self.folder / "said").read_text(errors="replace"))

    def rauc(self, arguments: str) -> Said:
        """RAUC alone, without its service: info, extract."""
        return self.run(f"rauc --conf={self.name}/system.conf {arguments}")

    def with_service(self, arguments: str) -> Said:
        """RAUC's client beside its service, on a bus of their own: install, status."""
        script = _SESSION.format(
            box=f"/work/{self.name}",
            slot=self.slot,
            command=f"rauc --conf=/work/{self.name}/system.conf {arguments}",
        )
        (self.folder / "session.sh").write_text(script)
        env = "DBUS_STARTER_BUS_TYPE=session"
        return self.run(f"dbus-run-session -- env {env} sh {self.name}/session.sh")

    def install(self, bundle: Path, options: str = "") -> Said:
        return self.with_service(f"install {options} {self.inside(bundle)}")

    def activate(self) -> Said:
        return self.with_service("status mark-active other")

    def status(self) -> dict[str, object]:
        said = self.with_service("status --output-format=json")
        tree = json.loads(said.text[said.text.index("{") :])
        assert isinstance(tree, dict)
        return tree

    def counters(self) -> dict[str, str]:
        return grubenv.read(self.grubenv)

    def content(self, slot: str) -> tuple[bytes, bytes]:
        """The first bytes of root and boot, as much as the test's images have."""
        root = (self.folder / f"devices/root-{slot}").read_bytes()[: 256 * BLOCK]
        return root, (self.folder / f"devices/boot-{slot}").read_bytes()[: 16 * BLOCK]

    def inside(self, path: Path) -> str:
        """``path`` as programs in the tool tree see it."""
        return str(Path("/work") / path.relative_to(self.tools.work))


@dataclass
class Factory:
    """Makes bundles in the tool tree's work folder."""

    tools: ToolRoot
    folder: Path

    def bundle(
        self, name: str, signer: build.Signer, *, version: str = "1.1.0", seed: int = 1,
        form: str = "plain", arch: str = "x86_64", update_from: str = "0.0.0",
    ) -> Path:  # fmt: skip
        return build.pack(
            images(self.folder / f"images-{seed}", seed), ARCHES[arch], version, signer,
            self.folder / f"{name}.raucb", self.tools, build=1_767_225_600, form=form,
            update_from=update_from,
        )  # fmt: skip

    def cut(self, bundle: Path, share: float) -> Path:
        """The first part of ``bundle``."""
        target = bundle.with_name(f"cut-{bundle.name}")
        data = bundle.read_bytes()
        target.write_bytes(data[: int(len(data) * share)])
        return target

    def flipped(self, bundle: Path, needle: bytes) -> Path:
        """One bit of the first place where ``needle`` stands."""
        target = bundle.with_name(f"flipped-{bundle.name}")
        data = bytearray(bundle.read_bytes())
        data[data.index(needle)] ^= 1
        target.write_bytes(data)
        return target

    def without_signature(self, bundle: Path) -> Path:
        """As mksquashfs leaves it: RAUC's signature and its length are behind the squashfs."""
        target = bundle.with_name(f"unsigned-{bundle.name}")
        data = bundle.read_bytes()
        length = int.from_bytes(data[-8:], "big")
        target.write_bytes(data[: len(data) - 8 - length])
        return target


def loops_work() -> bool:
    """Whether a loop device can be had, which RAUC mounts a bundle by."""
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        return False
    found = subprocess.run(["losetup", "--find"], capture_output=True, check=False)
    return found.returncode == 0


__all__ = ["Authority", "Box", "Factory", "Said", "images", "loops_work"]
