# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys for tests, made anew by each: an authority and signers under it. Never used for a release."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from ota.build import Signer

_EXTENSIONS = """\
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[signer]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
FOREVER = "99991231235959Z"
"""What X.509 writes for "no end" (RFC 5280, section 4.1.2.5)."""


@dataclass(frozen=True)
class Authority:
    """``cert`` is what a box's keyring holds."""

    folder: Path
    name: str

    @property
    def cert(self) -> Path:
        return self.folder / f"{self.name}.cert.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key.pem"

    def signer(self, name: str, *, begins: str | None = None, ends: str = FOREVER) -> Signer:
        """A signer of releases; times as ASN.1 writes them (``20200101000000Z``), ``begins`` now when not given."""
        key, request = self.folder / f"{name}.key.pem", self.folder / f"{name}.csr.pem"
        cert = self.folder / f"{name}.cert.pem"
        _new_key(key)
        subject = f"/O=Voicecore Edge tests/CN={name}"
        _openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        _sign(self, request, cert, "signer", begins or "20200101000000Z", ends)
        return Signer(str(cert), str(key))


def authority(folder: Path, name: str = "test-authority") -> Authority:
    """A new authority in ``folder``, which must exist."""
    made = Authority(folder, name)
    (folder / "extensions.cnf").write_text(_EXTENSIONS)
    _new_key(made.key)
    request = folder / f"{name}.csr.pem"
    _openssl(
        "req", "-new", "-key", made.key, "-subj", f"/O=Voicecore Edge tests/CN={name}",
        "-out", request,
    )  # fmt: skip
    _sign(made, request, made.cert, "authority", "20200101000000Z", FOREVER, own=True)
    return made


def _sign(
    by: Authority,
    request: Path,
    cert: Path,
    kind: str,
    begins: str,
    ends: str,
    *,
    own: bool = False,
) -> None:
    folder = by.folder
    (folder / "index.txt").write_text("")
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca = a\n[a]\n"
        f"database = {folder}/index.txt\nnew_certs_dir = {folder}\nrand_serial = yes\n"
        "default_md = sha256\npolicy = p\nunique_subject = no\n"
        "[p]\norganizationName = optional\ncommonName = supplied\n" + _EXTENSIONS
    )
    who = ["-selfsign"] if own else ["-cert", by.cert]
    _openssl(
        "ca", "-batch", "-notext", "-config", folder / "ca.cnf", "-extensions", kind, *who,
        "-keyfile", by.key, "-in", request, "-out", cert, "-startdate", begins, "-enddate", ends,
    )  # fmt: skip


def _new_key(path: Path) -> None:
    curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    _openssl("genpkey", *curve, "-out", path)
    path.chmod(0o600)


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.strip()}")
