# SPDX-License-Identifier: GPL-3.0-or-later
"""PyInstaller's onedir bundle of the agent, made in the target's own Debian tree."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from bundle import python, trees
from bundle.core import Core
from image import emulation
from image.arch import Arch
from image.debian import lock
from image.toolroot import EPOCH, ToolRoot
from tools.cache import ROOT, say

LEFT_OUT = (
    "demo",
    *(f"loopcall/{name}.py" for name in ("caller", "g711", "measure", "rtp_peer", "wav")),
)
"""Parts of voice_edge that call the agent instead of being it; the test caller's audio brings numpy, 60 MB.

Its signalling stays: a release's first start is proved by a call (voice_edge/update/loop_call.py).
"""
NOT_PACKAGES = ("numpy",)
RECIPE = ("agent.spec", "entry.py")


def freeze(arch: Arch, core: Core, work: Path) -> tuple[Path, ToolRoot]:
    """Freeze for ``arch`` below ``work``, unless what lies there was made from the same content.

    Returns the folder that PyInstaller made and the tree it was made in.
    """
    tools = trees.freezing(arch, work)
    frozen, mark, wanted = work / "dist" / "voice-edge", work / "frozen", _key(arch, core)
    if mark.exists() and mark.read_text() == wanted:
        return frozen, tools
    mark.unlink(missing_ok=True)
    python.install("app", arch, work / "site-app", leave_out=NOT_PACKAGES)
    python.install("bundle", arch, work / "pyinstaller")
    for name in ("app", "site", "dist", "build", "config"):
        shutil.rmtree(work / name, ignore_errors=True)
    shutil.copytree(
        work / "site-app", work / "site", ignore=shutil.ignore_patterns("bin", ".requirements")
    )
    shutil.copytree(core.site, work / "site", dirs_exist_ok=True)
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "app" / "voice_edge", work / "app" / "voice_edge", ignore=ignore)
    for name in LEFT_OUT:
        place = work / "app" / "voice_edge" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    for name in RECIPE:
        shutil.copyfile(Path(__file__).with_name(name), work / name)
    # Some wheels carry more debug information than code.
    strip = "find site -name '*.so' -exec strip --strip-debug {} +"
    tools.run(["sh", "-c", strip], env=emulation.environment(arch))
    _age(work)
    environment = {
        "PYTHONPATH": "/work/pyinstaller:/work/site:/work/app",
        # Sets are stored in compiled code in the order of their hashes.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "PYINSTALLER_CONFIG_DIR": "/work/config",
        **emulation.environment(arch),
    }
    say(f"{arch.name}: freezing")
    command = ["python3", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    command += ["--distpath", "/work/dist", "--workpath", "/work/build", "agent.spec"]
    tools.run(command, env=environment)
    mark.write_text(wanted)
    return frozen, tools


def _key(arch: Arch, core: Core) -> str:
    """Digest of all that a frozen folder is made from."""
    ours = Path(__file__).resolve().parent
    files = [ROOT / "requirements" / f"{name}.txt" for name in ("app", "bundle")]
    files += [lock.lock_file("freeze", arch), *(ours / name for name in ("freeze.py", *RECIPE))]
    files += (ROOT / "app" / "voice_edge").rglob("*")
    digest = hashlib.sha256(core.folder.name.encode())
    for path in sorted(files):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _age(work: Path) -> None:
    """One time for all sources, in case that PyInstaller puts it into what it compiles."""
    for name in ("app", "site", "pyinstaller"):
        for path in (work / name).rglob("*"):
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
