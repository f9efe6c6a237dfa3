# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the bundle's build that need no Debian tree: bill of materials, licences, requirements, folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from bundle import contents, crates, entry, python, sbom
from bundle.contents import Component
from bundle.files import mirror, settle
from image.run import BuildError
from tools.paths import OUT

EPOCH = 1_700_000_000


def component(
    name: str = "thing", licence: str = "MIT", texts: tuple[Path, ...] = (), **rest: str
) -> Component:
    return Component(name, "1.2", "library", licence, f"pkg:generic/{name}@1.2", texts, **rest)


def bill(*components: Component) -> dict[str, Any]:
    text = sbom.document(list(components), version="0.1.0", arch="x86_64", epoch=EPOCH)
    assert not JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_a_bill_follows_the_schema() -> None:
    made = bill(component(sha256="0" * 64), component("model", "BSD-3-Clause OR GPL-2.0-only"))
    assert [entry["name"] for entry in made["components"]] == ["thing", "model"]
    assert made["components"][0]["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]
    assert made["components"][1]["licenses"] == [{"expression": "BSD-3-Clause OR GPL-2.0-only"}]
    assert made["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_the_validator_would_object() -> None:
    text = json.dumps(bill(component()) | {"components": [{"name": "no type"}]})
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


def test_the_same_contents_make_the_same_bill_and_others_another_number() -> None:
    assert bill(component()) == bill(component())
    assert bill(component())["serialNumber"] != bill(component("other"))["serialNumber"]


@pytest.mark.parametrize("stated", ["Some words of their own", "see LICENSE (two parts)", ""])
def test_words_that_are_no_expression_stay_words(stated: str) -> None:
    (licence,) = bill(component(licence=stated))["components"][0]["licenses"]
    assert licence == {"license": {"name": stated or "see the licence text"}}


MADE = sorted((OUT / "bundle").glob(f"*/voice-edge/{sbom.FILE}"))


@pytest.mark.skipif(not MADE, reason="no bundle was made: `./justw bundle x86_64`")
def test_bills_of_the_bundles_made_here() -> None:
    for path in MADE:
        text = path.read_text()
        assert not JsonStrictValidator(SchemaVersion.V1_6).validate_str(text), path
        entries = {entry["name"]: entry for entry in json.loads(text)["components"]}
        wanted = {
            "aiohttp",
            "uvloop",
            "libuv",
            "pyo3",
            "pjproject",
            "libsrtp2",
            "libssl3t64",
            "libpython3.13",
        }
        assert wanted <= entries.keys()
        assert "numpy" not in entries
        assert entries["silero_vad"]["licenses"] == [{"expression": "MIT"}]
        folders = {folder.name.rsplit("-", 1)[0] for folder in (path.parent / "licenses").iterdir()}
        assert {"aiohttp", "pjproject", "silero_vad"} <= folders
        assert "Apache License" in (path.parent / "licenses/common-licenses/Apache-2.0").read_text()


def test_a_component_without_licence_text_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"thing 1\.2 has no licence text"):
        contents.lay_licences([component()], tmp_path / "licenses", tmp_path)


def test_debian_texts_bring_the_common_licences_that_they_name(tmp_path: Path) -> None:
    common = tmp_path / "root" / contents.COMMON
    common.mkdir(parents=True)
    (common / "GPL-3").write_text("all of it")
    (common / "GPL").symlink_to("GPL-3")
    text = tmp_path / "copyright"
    text.write_text("in /usr/share/common-licenses/GPL.\nand `/usr/share/common-licenses/GPL-3'")
    contents.lay_licences([component(texts=(text,))], tmp_path / "out", tmp_path / "root")
    assert (tmp_path / "out/common-licenses/GPL").read_text() == "all of it"
    assert (tmp_path / "out/thing-1.2/copyright").exists()
    assert {path.name for path in (tmp_path / "out/common-licenses").iterdir()} == {"GPL", "GPL-3"}


def test_crates_that_are_linked_in_are_told_from_our_own() -> None:
    printed = (
        "voicecore-python v0.1.0 (/work/src/core/python)\tGPL-3.0-or-later\n"
        "pyo3 v0.30.1\tMIT OR Apache-2.0\n\n"
        "libc v0.2.191\tMIT OR Apache-2.0\n"
        "libc v0.2.191\tMIT OR Apache-2.0\n"
    )
    asked: list[list[str]] = []

    def cargo(words: list[str]) -> str:
        asked.append(words)
        return printed

    checksums = {("pyo3", "0.30.1"): "a" * 64, ("libc", "0.2.191"): "b" * 64}
    found = crates.linked(cargo, "aarch64-unknown-linux-gnu", checksums)
    assert [(crate.name, crate.sha256) for crate in found] == [
        ("libc", "b" * 64),
        ("pyo3", "a" * 64),
    ]
    assert "aarch64-unknown-linux-gnu" in asked[0]


def test_a_package_is_left_out_with_its_hashes_and_no_other() -> None:
    text = "# c\nmultidict==7.2.1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    numpy = "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:3\n"
    assert python.without(text + numpy + "yarl==1.25.1 \\\n    --hash=sha256:4\n", ("numpy",)) == (
        text + "yarl==1.25.1 \\\n    --hash=sha256:4\n"
    )


@pytest.mark.parametrize("before", [{}, {"LD_LIBRARY_PATH": "/opt/lib"}])
def test_programs_that_the_agent_starts_find_their_own_libraries(before: dict[str, str]) -> None:
    loaded = {"LD_LIBRARY_PATH": "/usr/lib/voice-edge/_internal", "HOME": "/data"}
    loaded |= {f"{name}_ORIG": value for name, value in before.items()}
    entry.restore(loaded)
    assert loaded == {"HOME": "/data"} | before


def test_mirror_touches_only_what_differs(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        (folder / "sub").mkdir(parents=True)
        (folder / "same").write_text("same")
    (source / "sub/changed").write_text("new")
    (target / "sub/changed").write_text("old")
    (target / "sub/gone").write_text("gone")
    os.utime(source / "sub/changed", (EPOCH, EPOCH))
    for path in (target / "same", target / "sub/changed"):
        os.utime(path, (EPOCH + 1, EPOCH + 1))
    mirror({Path(name): source / name for name in ("same", "sub/changed")}, target)
    assert {path.name for path in target.rglob("*") if path.is_file()} == {"same", "changed"}
    assert (target / "sub/changed").read_text() == "new"
    assert (target / "same").stat().st_mtime == EPOCH + 1
    # Newer than what was built from the old content, though its source is older.
    assert (target / "sub/changed").stat().st_mtime > EPOCH + 1


def test_modes_and_times_do_not_depend_on_who_built(tmp_path: Path) -> None:
    program, text = tmp_path / "folder/program", tmp_path / "folder/text"
    program.parent.mkdir(mode=0o700)
    for path, mode in ((program, 0o711), (text, 0o600)):
        path.write_text("")
        path.chmod(mode)
    settle(tmp_path / "folder", EPOCH)
    assert [path.stat().st_mode & 0o777 for path in (program.parent, program, text)] == [
        0o755,
        0o755,
        0o644,
    ]
    assert {path.stat().st_mtime for path in (program.parent, program, text)} == {EPOCH}
