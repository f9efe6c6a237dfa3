# SPDX-License-Identifier: GPL-3.0-or-later
"""The bill of materials of a Buildroot configuration: Buildroot's own converter, checked against CycloneDX's schema."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path

from image.buildroot import checkout
from image.run import BuildError, run

SPDX = "cyclonedx/spdx-1.6.schema.json"
"""Where the converter looks for the list of licence names, below Buildroot's downloads; it would fetch it otherwise."""


def write(info: str, path: Path, tree: Path, downloads: Path) -> int:
    """Convert ``info``, the output of `make show-info`, into ``path``; returns the number of components."""
    _licence_names(downloads / SPDX)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = downloads / "show-info.json"
    source.write_text(info)
    command: list[str | Path] = ["/usr/bin/python3", tree / "utils/generate-cyclonedx"]
    run([*command, "-i", source, "-o", path], env=checkout.environment(downloads))
    text = path.read_text()
    fault = invalid(text)
    if fault is not None:
        raise BuildError(f"{path.name} is no CycloneDX 1.6: {fault}")
    names = {component["name"] for component in json.loads(text)["components"]}
    if missing := {"voice-edge", "linux", "systemd", "rauc", "glibc"} - names:
        raise BuildError(f"{path.name} does not list {', '.join(sorted(missing))}")
    return len(names)


def invalid(text: str) -> str | None:
    """What is wrong with a CycloneDX document, by its schema."""
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError as error:
        raise BuildError(
            f"the checkout's Python lacks {error.name}: run this by `./justw image-verify buildroot`"
        ) from error
    said = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if said is None else str(said)[:300]


def _licence_names(target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        named = resources.files("cyclonedx.schema._res") / "spdx.SNAPSHOT.schema.json"
        with resources.as_file(named) as path:
            shutil.copyfile(path, target)
