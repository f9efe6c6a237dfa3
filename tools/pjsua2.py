# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds PJSIP's Python module `pjsua2` (SWIG) from the pinned PJSIP into the user-level cache and prints its folder.

    python3 -m tools.pjsua2

It is what the benchmarks' reference path answers calls with; nothing that ships contains it. The folder holds
``pjsua2.py`` and ``_pjsua2.so`` for the Python that runs this. Built once, then found.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from tools import pjsip
from tools.cache import cache_dir, locked
from tools.fetch import fetch
from tools.paths import venv_program
from tools.step import Failed, entry, run, step

# Raise it when this file changes what it builds.
RECIPE = "1"
VARIANT = "pjsua"
# SWIG's file is 3 MB of glue, which gains nothing from optimising; pjsua2 itself is compiled as pjsua-lib is.
GLUE_FLAGS = ("-O1", "-g0", "-w")


def build() -> Path:
    """The folder to put on PYTHONPATH.

    Raises:
        Failed: SWIG or Python's headers are not there, or a step did not succeed.
    """
    if shutil.which("swig") is None:
        raise Failed("pjsua2 needs SWIG: apt-get install swig")
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        raise Failed(f"pjsua2 needs {headers}/Python.h: apt-get install python3-dev")
    prefix = pjsip.build(variant=VARIANT)
    version = sysconfig.get_config_var("EXT_SUFFIX")
    swig = subprocess.run(["swig", "-version"], capture_output=True, text=True, check=False).stdout
    key = hashlib.sha256("\0".join((RECIPE, prefix.name, version, swig)).encode()).hexdigest()
    folder = cache_dir() / "pjsua2" / key[:20]
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not (folder / "_pjsua2.so").exists():
        with locked(folder.with_suffix(".lock"), "pjsua2"):
            if not (folder / "_pjsua2.so").exists():
                _build_into(folder, prefix, headers)
    return folder


def _build_into(folder: Path, prefix: Path, headers: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="build-") as scratch:
        work = Path(scratch)
        tree = pjsip.unpack(fetch("pjproject"), work / "pjproject")
        stage = work / "stage"
        stage.mkdir()
        includes = [f"-I{prefix / 'include'}"]
        with step("Building pjsua2", log="pjsua2", expect="about 3 min, once per user"):
            glue = work / "pjsua2_wrap.cpp"
            interface = tree / "pjsip-apps/src/swig/pjsua2.i"
            # PJ_AUTOCONF: as PJSIP was configured. Threads: callbacks come from PJSIP's own ones.
            words = ["-python", "-c++", "-threads", "-w312", "-DPJ_AUTOCONF=1", *includes]
            run(["swig", *words, "-outdir", str(stage), "-o", str(glue), str(interface)])
            common = ["c++", "-c", "-fPIC", "-DNDEBUG", "-DPJ_AUTOCONF=1", *includes]
            common += pjsip.VARIANTS[VARIANT].cflags.split()
            objects = []
            sources = sorted((tree / "pjsip/src/pjsua2").glob("*.cpp"))
            for source in (*sources, glue):
                objects.append(str(work / f"{source.stem}.o"))
                extra = [*GLUE_FLAGS, f"-I{headers}"] if source == glue else []
                run([*common, *extra, str(source), "-o", objects[-1]])
            flags = (prefix / "lib/link.txt").read_text(encoding="ascii").split()
            library = [f"-L{prefix / 'lib'}", "-Wl,--start-group", *flags, "-Wl,--end-group"]
            run(["c++", "-shared", "-s", *objects, *library, "-o", str(stage / "_pjsua2.so")])
            run(
                [venv_program("python"), "-c", "import pjsua2"],
                env={**os.environ, "PYTHONPATH": str(stage)},
            )
        shutil.rmtree(folder, ignore_errors=True)
        stage.rename(folder)


def main(arguments: list[str]) -> None:
    if arguments:
        raise Failed("tools.pjsua2 takes no arguments")
    print(build())


if __name__ == "__main__":
    entry(main)
