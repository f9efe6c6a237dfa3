# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB for EFI: one self-contained program, its script, and the environment block that holds the boot counters."""

from __future__ import annotations

from pathlib import Path

from image.arch import Arch
from image.toolroot import ToolRoot

SCRIPT = Path(__file__).resolve().parent / "grub.cfg"
MODULES = (
    "part_gpt", "fat", "squash4", "gzio", "linux", "normal", "configfile", "loadenv", "test", "echo", "regexp", "sleep",
    "reboot", "halt", "minicmd", "serial", "terminal", "true", "all_video", "probe", "ls", "cat",
)  # fmt: skip
EMBEDDED = """\
set esp=$root
export esp
set prefix=($esp)/grub
configfile ($esp)/grub/grub.cfg
echo "voice-edge: no boot script on the ESP; flash the image again"
sleep 30
reboot
"""
ENVIRONMENT_BYTES = 1024
FIRST_ENVIRONMENT = {
    "ORDER": "A B", "A_OK": "1", "A_TRY": "0", "B_OK": "0", "B_TRY": "0", "REFILLED": "0", "LAST_GOOD": "A",
}  # fmt: skip
"""As flashed: slot B is empty until the first update fills it."""


def make_program(arch: Arch, unpacked: Path, tools: ToolRoot) -> bytes:
    """Return the EFI program; ``unpacked`` is a tree with GRUB's modules for ``arch``."""
    source = unpacked / "usr/lib/grub" / arch.grub_format
    target = tools.work / "grub-modules"
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    (tools.work / "embedded.cfg").write_text(EMBEDDED)
    modules = [name for name in MODULES if (source / f"{name}.mod").exists()]
    tools.run(
        ["grub-mkimage", "--directory=grub-modules", f"--format={arch.grub_format}", "--prefix=/grub",
         "--config=embedded.cfg", "--output=grub.efi", *modules]
    )  # fmt: skip
    return (tools.work / "grub.efi").read_bytes()


def script(arch: Arch) -> bytes:
    """Return grub.cfg for ``arch``."""
    return SCRIPT.read_text().replace("@CONSOLE@", arch.console).encode()


def environment(values: dict[str, str]) -> bytes:
    """Return a GRUB environment block (GRUB manual, 16.4): 1024 bytes, NAME=value lines, filled with ``#``."""
    text = "# GRUB Environment Block\n" + "".join(
        f"{name}={value}\n" for name, value in values.items()
    )
    block = text.encode()
    if len(block) > ENVIRONMENT_BYTES:
        raise ValueError(f"an environment block holds {ENVIRONMENT_BYTES} bytes, not {len(block)}")
    return block.ljust(ENVIRONMENT_BYTES, b"#")
