# SPDX-License-Identifier: GPL-3.0-or-later
"""The bill of materials of a bundle: CycloneDX 1.6, the same bytes for the same contents."""

from __future__ import annotations

import datetime
import json
import re
import uuid
from typing import Any

from bundle.contents import Component

FILE = "voice-edge.cdx.json"
OURS = "GPL-3.0-or-later"
_EXPRESSION = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*")


def document(components: list[Component], *, version: str, arch: str, epoch: int) -> str:
    """The bill as JSON text."""
    root = f"pkg:generic/voice-edge@{version}?arch={arch}"
    entries = [_entry(component) for component in components]
    body: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC)
            .isoformat()
            .replace("+00:00", "Z"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "voice-edge",
                "version": version,
                "licenses": [{"license": {"id": OURS}}],
                "purl": root,
            },
        },
        "components": entries,
        "dependencies": [{"ref": root, "dependsOn": [entry["bom-ref"] for entry in entries]}],
    }
    # A new number for new contents, so that two bills with one number are one bill.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    body["serialNumber"] = f"urn:uuid:{number}"
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def _entry(component: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": component.kind,
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        "licenses": [_licence(component.licence)],
    }
    if component.sha256:
        entry["hashes"] = [{"alg": "SHA-256", "content": component.sha256}]
    return entry


def _licence(text: str) -> dict[str, Any]:
    """An SPDX expression where the component states one, else its own words."""
    if _EXPRESSION.fullmatch(text) and (
        " " in text or "-" in text or text in ("MIT", "Zlib", "0BSD", "Unlicense")
    ):
        return {"expression": text}
    return {"license": {"name": text or "see the licence text"}}
