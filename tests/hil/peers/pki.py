# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and certificates for tests, made by openssl when they are needed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_CA = """
[ca]
default_ca = this
[this]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


def _openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {arguments}: {done.stderr}"


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cert, self._key = folder / "ca.pem", folder / "ca.key"
        (folder / "index").touch()
        (folder / "serial").write_text("1000\n")
        (folder / "ca.conf").write_text(_CA.format(folder=folder))
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl("req", "-x509", *key, "-keyout", self._key, "-out", self.cert, "-days", "30",
                 "-subj", f"/CN={name}")  # fmt: skip

    def issue(self, name: str, *alternatives: str, expired: bool = False) -> Identity:
        """For `alternatives` such as "DNS:localhost" and "IP:127.0.0.1"."""
        request = self._folder / f"{name}.csr"
        made = Identity(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        extension = ("-addext", f"subjectAltName={','.join(alternatives)}") if alternatives else ()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl("req", "-new", *key, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}",
                 *extension)  # fmt: skip
        dates = ("20200101000000Z", "20200201000000Z") if expired else ()
        when = ("-startdate", dates[0], "-enddate", dates[1]) if dates else ("-days", "30")
        _openssl("ca", "-batch", "-notext", "-config", self._folder / "ca.conf", *when, "-in",
                 request, "-out", made.cert)  # fmt: skip
        return made
