# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: the box in a state, model servers here, the keys of this run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hil.drivers.local import python_environment
from hil.peers.process import Process, eventually
from hil.qemu import answers
from voice_edge import toml_out
from voice_edge.demo.dialogue import script

if TYPE_CHECKING:  # labgrid is there only where these tests run
    from hil.qemu.box import TelephoneBox
    from hil.qemu.guest import Guest
    from hil.qemu.strategy import ApplianceStrategy

_MODELS_READY_S = 120.0
ACCOUNT = (
    "voice-edge status",
    "systemd-analyze time",
    "systemd-analyze blame --no-pager",
    "systemd-analyze critical-chain --no-pager",
    "journalctl --no-pager --output=short-monotonic",
)
"""Asked of the box at the end, for whoever wants to know why."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a box there is nothing to test: `just hil` names one, `just test` does not."""
    return None if config.getoption("lg_env", None) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The restart, after which things are wrong by intent, comes last."""
    items.sort(key=lambda item: item.path.stem == "test_restart")


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """What these tests start here; the other suite's SIP peers are not among it."""
    missing = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    if missing:
        pytest.fail("not installed: as root, apt-get install -y openssh-client", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def image(strategy: ApplianceStrategy) -> None:
    """Told at once, not after the model servers were started for nothing."""
    shipped = getattr(strategy.source, "image", None)
    if shipped is not None and not shipped.is_file():
        arch = strategy.source.arch
        pytest.exit(f"{shipped} is missing; make it with `just image debian {arch}`", 1)


@pytest.fixture(scope="session")
def telephone(target: Any) -> TelephoneBox:
    """Where the box is reached, and where it reaches us."""
    from hil.qemu.box import TelephoneBox

    return target.get_resource(TelephoneBox)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def kept(target: Any) -> Path:
    """The folder of this box on this machine: its key, and what a run leaves to look at."""
    driver = target.get_driver("SSHDriver", activate=False)
    path = Path(target.env.config.resolve_path(driver.keyfile)).resolve().parent
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def ssh_key(target: Any, kept: Path) -> Path:
    """The private key of this place; made when there is none. `.pub` lies beside it."""
    driver = target.get_driver("SSHDriver", activate=False)
    path = kept / Path(driver.keyfile).name
    if not path.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "hil", "-f", str(path)]
        subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="session")
def models(
    telephone: TelephoneBox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The stand-in model servers on this machine: their URL as the box sees it, and as we do."""
    folder = tmp_path_factory.mktemp("models")
    script_file, port_file = folder / "script.toml", folder / "port"
    script_file.write_text(toml_out.dumps(script()), encoding="utf-8")
    words = [sys.executable, "-m", "voice_edge_standins", "--nice", "5"]
    words += ["--port", str(telephone.models_port), "--bind", telephone.models_bind]
    words += ["--port-file", str(port_file), "--script", str(script_file)]
    process = Process("models", words, folder, env=python_environment())

    def ready() -> bool:
        assert process.alive, f"the model servers ended\n{process.tail()}"
        return port_file.exists()

    try:
        eventually("the model servers to be ready", ready, _MODELS_READY_S)
        port = int(port_file.read_text())
        here = "127.0.0.1" if telephone.models_bind == "0.0.0.0" else telephone.models_bind
        yield f"http://{telephone.tester}:{port}", f"http://{here}:{port}"
    finally:
        process.stop()


@pytest.fixture(scope="session")
def answer_file(telephone: TelephoneBox, models: tuple[str, str], ssh_key: Path) -> str:
    """The answers that the box is given."""
    return answers.make(
        tester=telephone.tester,
        address=telephone.address,
        models=models[0],
        key=ssh_key.with_name(ssh_key.name + ".pub").read_text().strip(),
        patience=telephone.patience,
    )


@pytest.fixture(scope="session")
def appliance(
    strategy: ApplianceStrategy, answer_file: str, kept: Path
) -> Iterator[ApplianceStrategy]:
    """The box, in whatever state; off when all is done, its journal beside the key of this place."""
    strategy.answers = answer_file
    yield strategy
    if strategy.broken is None:
        if strategy.provisioned:
            account = [f"$ {what}\n{strategy.guest.say(what, 120)}\n" for what in ACCOUNT]
            (kept / "journal.log").write_text("\n".join(account), encoding="utf-8")
        strategy.transition("off")


@pytest.fixture
def guest(appliance: ApplianceStrategy) -> Guest:
    """The box, provisioned and answering calls, seen from inside."""
    appliance.transition("answering")
    return appliance.guest


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How long the box took, since a slow boot is a defect too."""
    try:
        from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY
    except ImportError:  # the other tests run without it
        return
    environment = config.stash.get(LABGRID_ENV_KEY, None)
    for target in environment.targets.values() if environment else ():
        history = getattr(target.get_driver("Strategy"), "history", [])
        for number, times in enumerate(history, 1):
            steps = ", ".join(f"{state} after {seconds:.0f} s" for state, seconds in times.items())
            terminalreporter.write_line(f"boot {number} of the box: {steps}")
