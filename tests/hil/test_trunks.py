# SPDX-License-Identifier: GPL-3.0-or-later
"""Trunks as a user sees them: settings, `voice-edge check`, log, over real sockets."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.drivers.agent import LocalAgent, installed
from hil.drivers.local import python_environment
from hil.peers.datagrams import Datagrams
from hil.peers.models import Models
from hil.peers.pki import Authority
from hil.peers.process import eventually
from hil.peers.registrar import Registrar, header


@pytest.fixture
def tls_registrar(tmp_path: Path) -> Iterator[tuple[Registrar, Authority]]:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("registrar", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    with Registrar("sesame", transport="tls", context=context) as registrar:
        yield registrar, authority


def account(registrar: Registrar, folder: Path) -> str:
    (folder / "pw").write_text("sesame\n", encoding="utf-8")
    return f"""
[[sip.trunk]]
name = "provider"
registrar = "{registrar.uri}"
aor = "sip:+491701234567@example.org"
username = "bot"
password_file = "{folder / "pw"}"
options_s = 1
"""


def test_the_agent_registers_over_tls_and_says_so(
    tmp_path: Path, tls_registrar: tuple[Registrar, Authority]
) -> None:
    registrar, authority = tls_registrar
    more = f'[sip.tls]\nca_file = "{authority.cert}"\n' + account(registrar, tmp_path)
    with Models() as models:
        agent = LocalAgent(tmp_path / "agent", models.url, more=more)
        try:
            sip = agent.wait_ready()
            eventually("the trunk to be up", lambda: "trunk provider: up" in agent.log(), 10)
            registered = f"trunk provider: registered at 127.0.0.1:{registrar.port}"
            eventually("the registration", lambda: registered in agent.log(), 10)
            assert any(seen.status == 200 for seen in registrar.of("REGISTER"))
            with Datagrams(sip) as peer:
                assert peer.alive() == 200
        finally:
            agent.process.stop(5)
    # Taken back at the end.
    assert header(registrar.of("REGISTER")[-1].text, "Expires") == "0"
    assert "registrations=1 registrations_up=1 trunks=1 trunks_up=1" in agent.log()
    for private in ("+49170", "sesame"):
        assert private not in agent.log()


def test_check_names_the_reason_why_a_trunk_is_down(
    tmp_path: Path, tls_registrar: tuple[Registrar, Authority]
) -> None:
    """A certificate of an authority that nobody named; beside it a trunk that is there."""
    registrar, authority = tls_registrar
    with Models() as models, Registrar("sesame") as there:
        pbx = f'[[sip.trunk]]\nname = "pbx"\nserver = "{there.uri}"\n'
        agent = LocalAgent(
            tmp_path / "agent", models.url, more=account(registrar, tmp_path) + pbx, start=False
        )

        def check() -> str:
            done = subprocess.run(
                installed(["check", "--config", str(agent.config)]),
                env=python_environment(),
                capture_output=True,
                text=True,
                timeout=60,
            )
            return done.stdout + done.stderr

        said = check()
        assert f"ok    trunk pbx       answers OPTIONS at 127.0.0.1:{there.port}" in said, said
        assert "warn  trunk provider" in said, said
        assert "the certificate is refused: it is not signed by an authority in ca_file" in said
        assert there.of("REGISTER") == []
        text = agent.config.read_text(encoding="utf-8")
        agent.config.write_text(
            text.replace("[recording]", f'[sip.tls]\nca_file = "{authority.cert}"\n[recording]'),
            encoding="utf-8",
        )
        said = check()
        assert f"answers OPTIONS at 127.0.0.1:{registrar.port}" in said, said
