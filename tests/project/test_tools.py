# SPDX-License-Identifier: GPL-3.0-or-later
"""The build's own tools: what they find missing, what they say, what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import hygiene, setup, step, system
from tools.paths import ROOT, version

LICENCE = f"# {hygiene.LICENCE}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rustc 1.96.0 (abc 2026-01-01) (built from a source tarball)", (1, 96)),
        ("1.63.0+dfsg1-2", (1, 63)),
        ("no number", (0, 0)),
    ],
)
def test_versions_compare_by_number(text: str, expected: tuple[int, ...]) -> None:
    assert version(text) == expected


def test_a_user_without_root_is_told_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    need = system.Need("makes tea", ("exe:no-such-teapot",), (("teapot", "teapot-data"),))
    monkeypatch.setattr(system, "NEEDS", {"tea": need})
    monkeypatch.setattr(system, "RECIPES", {"brew": ("tea",)})
    monkeypatch.setattr("tools.system.os.geteuid", lambda: 1000)
    monkeypatch.setattr(
        "tools.system.shutil.which", lambda name: f"/bin/{name}" if name == "apt-get" else None
    )
    with pytest.raises(step.Failed) as failure:
        system.ensure(["brew"])
    said = str(failure.value)
    assert "makes tea" in said
    assert "apt-get install -y --no-install-recommends teapot teapot-data" in said


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        system, "NEEDS", {"shell": system.Need("", ("exe:sh",), (("no-such-package",),))}
    )
    monkeypatch.setattr(system, "RECIPES", {"any": ("shell",)})
    monkeypatch.setattr(system, "_install", lambda _names: pytest.fail("apt-get would have run"))
    system.ensure(["any"])


@pytest.mark.parametrize(
    ("plain_serves", "offered", "chosen"),
    [
        (False, {"rustc-web": (1, 96), "rustc": (1, 63)}, "rustc-web"),  # Debian 12
        (
            True,
            {"rustc-web": (1, 96), "rustc": (1, 90)},
            "rustc",
        ),  # its conflicting kin must not come
        (False, {"rustc": (1, 95)}, "rustc"),  # a release without the second Rust
        (False, {}, "rustc-web"),  # apt knows nothing yet
    ],
)
def test_which_rust_is_installed(
    monkeypatch: pytest.MonkeyPatch,
    plain_serves: bool,
    offered: dict[str, tuple[int, ...]],
    chosen: str,
) -> None:
    monkeypatch.setattr(system, "_family_is_web", lambda: not plain_serves)
    monkeypatch.setattr(system, "_candidate", lambda package: offered.get(package, (0, 0)))
    assert system.choose(system.NEEDS["rust"])[0] == chosen


def test_every_recipe_needs_only_what_the_table_has() -> None:
    assert {name for names in system.RECIPES.values() for name in names} <= system.NEEDS.keys()
    assert setup.SETS.keys() <= system.RECIPES.keys()


def test_a_failing_step_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(step, "ROOT", tmp_path)
    monkeypatch.setattr(step, "OUT", tmp_path / "out")
    monkeypatch.setattr(step, "LOGS", tmp_path / "out/log")
    command = [
        sys.executable,
        "-c",
        "import sys; print('why it broke', file=sys.stderr); sys.exit(3)",
    ]
    with pytest.raises(step.Failed, match=r"why it broke[\s\S]*status 3[\s\S]*out/log/tea\.log"):
        with step.step("Making tea", log="tea"):
            step.run(command, cwd=tmp_path)
    assert "✗ Making tea" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.py", "x = 1\n", "licence"),
        ("a.md", "see https://" + "py" + "pi.org/project/x\n", "registry"),
        ("a.md", "in /" + "home/somebody/src\n", "path of one machine"),
    ],
)
def test_house_rules_find(name: str, text: str, fault: str) -> None:
    (found,) = hygiene.faults(ROOT / name, text)
    assert fault in found


@pytest.mark.parametrize(
    "text", [LICENCE, f"#!/bin/sh\n{LICENCE}", LICENCE + "x = '/tmp/work/x'\n"]
)
def test_house_rules_let_pass(text: str) -> None:
    assert hygiene.faults(ROOT / "a.py", text) == []
