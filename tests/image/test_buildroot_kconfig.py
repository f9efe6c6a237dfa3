# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that Kconfig drops are named, with what became of them."""

from __future__ import annotations

import pytest

from image.arch import ARCHES
from image.buildroot import compose, kconfig, kernel
from image.disk import initrd

CONFIG = """\
# Automatically generated file; DO NOT EDIT.
CONFIG_PREEMPT_RT=y
CONFIG_IGB=y
# CONFIG_SOUND is not set
CONFIG_WLAN=y
CONFIG_CMDLINE="a=b"
"""


def lost(fragment: str) -> list[str]:
    return kconfig.lost(kconfig.wishes(fragment), CONFIG)


def test_lines_that_survive_are_not_named() -> None:
    assert lost('CONFIG_PREEMPT_RT=y\n# CONFIG_SOUND is not set\nCONFIG_CMDLINE="a=b"\n') == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("CONFIG_NO_SUCH=y", "CONFIG_NO_SUCH=y: gone"),
        ("CONFIG_IGB=m", "CONFIG_IGB=m: is y"),
        ("CONFIG_SOUND=y", "CONFIG_SOUND=y: gone"),
        ("# CONFIG_WLAN is not set", "# CONFIG_WLAN is not set: is y"),
    ],
)
def test_a_line_that_was_dropped_is_named(line: str, said: str) -> None:
    assert lost(line) == [said]


def test_a_symbol_set_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="line 3: CONFIG_A was set before"):
        kconfig.wishes("CONFIG_A=y\n# a comment\n# CONFIG_A is not set\n")


def test_a_line_that_is_none_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="line 2"):
        kconfig.wishes("CONFIG_A=y\nCONFIG_B is not set\n")


def test_defconfigs_are_what_the_fragments_say() -> None:
    assert compose.stale() == [], "run `python3 -m image.buildroot.compose`"


@pytest.mark.parametrize("arch", sorted(ARCHES))
def test_fragments_hold_no_line_twice(arch: str) -> None:
    kconfig.wishes(compose.composed(arch))
    names = {wish.name for wish in kernel.wanted(ARCHES[arch])}
    assert {
        "CONFIG_PREEMPT_RT",
        "CONFIG_NO_HZ_FULL",
        "CONFIG_RCU_NOCB_CPU",
        "CONFIG_DM_VERITY",
    } <= names


def test_a_driver_that_the_initrd_needs_and_the_kernel_lacks_is_named() -> None:
    makes = {name: {f"CONFIG_{name.upper()}"} for name in (*initrd.MODULES, *initrd.DISKS)}
    every = {symbol: "y" for symbols in makes.values() for symbol in symbols}
    assert list(kernel.missing_drivers(every, makes)) == []
    del every["CONFIG_DM_VERITY"], every["CONFIG_VMD"]
    assert list(kernel.missing_drivers(every, makes)) == ["dm_verity (CONFIG_DM_VERITY)"]
