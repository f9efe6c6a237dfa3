# SPDX-License-Identifier: GPL-3.0-or-later
"""A channel's index: one JSON file that says which releases there are. Not trusted: what it names is signed.

What an index could do at worst is keep a box from an update, or offer another release of ours; so an index that is
older than one seen before is refused, and a release is taken only upwards.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from .versions import key

FORMAT = 1
LARGEST = 256 * 1024
"""Bytes of an index."""
LARGEST_RELEASE = 4 << 30
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BadIndexError(Exception):
    """An index that cannot be used; the text says where."""


@dataclass(frozen=True, slots=True)
class Release:
    """``share`` is how much of the fleet may take it, in percent; ``url`` as a reader of the index resolves it."""

    version: str
    compatible: str
    url: str
    size: int
    sha256: str
    share: int = 100
    update_from: str = "0.0.0"
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Index:
    """``serial`` rises with every change of the channel's index."""

    channel: str
    serial: int
    releases: tuple[Release, ...]


def parse(content: bytes, base: str) -> Index:
    """``base`` is the index's own address. Raises :class:`BadIndexError`."""
    if len(content) > LARGEST:
        raise BadIndexError(f"the index has more than {LARGEST} bytes")
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        raise BadIndexError("the index is not JSON") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise BadIndexError(f"the index is not of format {FORMAT}, which this release reads")
    listed = tree.get("releases")
    if not isinstance(listed, list):
        raise BadIndexError("releases is not a list")
    releases = tuple(_release(item, f"releases[{n}]", base) for n, item in enumerate(listed))
    serial = _number(tree, "serial", "", low=0, high=1 << 53)
    return Index(_text(tree, "channel", ""), serial, releases)


def _release(item: Any, place: str, base: str) -> Release:
    if not isinstance(item, dict):
        raise BadIndexError(f"{place} is not an object")
    place += "."
    version = _version(item, "version", place)
    sha256 = _text(item, "sha256", place)
    if not _SHA256.fullmatch(sha256):
        raise BadIndexError(f"{place}sha256 is not 64 hexadecimal digits")
    return Release(
        version=version,
        compatible=_text(item, "compatible", place),
        url=_address(_text(item, "url", place), place, base),
        size=_number(item, "size", place, low=1, high=LARGEST_RELEASE),
        sha256=sha256,
        share=_number({"share": 100, **item}, "share", place, low=0, high=100),
        update_from=_version({"update_from": "0.0.0", **item}, "update_from", place),
        notes=_text({"notes": "", **item}, "notes", place),
    )


def _address(url: str, place: str, base: str) -> str:
    """Relative to the index; never to a weaker way than the index itself came by."""
    try:
        whole = urljoin(base, url)
        scheme = urlsplit(whole).scheme
    except ValueError:
        raise BadIndexError(f"{place}url is not an address") from None
    if scheme != urlsplit(base).scheme:
        raise BadIndexError(f"{place}url leaves {urlsplit(base).scheme}:")
    if scheme == "file" and ".." in url.split("/"):
        raise BadIndexError(f"{place}url leaves the stick")
    return whole


def _text(tree: dict[str, Any], name: str, place: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str) or len(value) > 1_000 or not value.isprintable():
        raise BadIndexError(f"{place}{name} is not a short text of one line")
    return value


def _number(tree: dict[str, Any], name: str, place: str, *, low: int, high: int) -> int:
    value = tree.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadIndexError(f"{place}{name} is not a whole number from {low} to {high}")
    return value


def _version(tree: dict[str, Any], name: str, place: str) -> str:
    text = _text(tree, name, place)
    try:
        key(text)
    except ValueError as error:
        raise BadIndexError(f"{place}{name}: {error}") from None
    return text
