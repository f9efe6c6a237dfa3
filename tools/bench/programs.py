# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds and runs the programs that benchmarks consist of."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Sequence
from pathlib import Path

from tools import fetch, pjsip
from tools.bench.report import Row, row
from tools.cache import cache_dir
from tools.paths import OUT, ROOT
from tools.setup import cargo_environment
from tools.step import Failed, step

BENCHES = ROOT / "core/engine/benches"


def names() -> list[str]:
    """Benchmarks that are one program."""
    return sorted(path.stem for path in BENCHES.glob("*.rs") if path.stem != "rows")


def cargo_bench(name: str, tree: Path = ROOT) -> Path:
    """Compile one of core/engine/benches with all optimisation; its path. In another tree with that tree's PJSIP."""
    environment = cargo_environment()
    if tree != ROOT:
        # Cargo tells packages apart by their place in the workspace, not by where that is: with one folder for both
        # trees either would be taken for the other.
        own = Path(environment.get("CARGO_TARGET_DIR") or ROOT / "target")
        environment["CARGO_TARGET_DIR"] = str(own / "other-tree")
        environment.pop("VC_PJSIP_PREFIX", None)
    cargo = shutil.which("cargo", path=environment["PATH"])
    if cargo is None:
        raise Failed("no cargo on the PATH: `./justw test` installs one")
    command = [cargo, "bench", "--quiet", "--locked", "-p", "voicecore-engine", "--bench", name]
    with step(f"Building the benchmark {name}", log="bench", expect="about 1 min", silent_s=3):
        done = subprocess.run(
            [*command, "--no-run", "--message-format=json"],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise Failed(f"the benchmark {name} does not compile; see above")
    built = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for one in reversed(built):
        if one.get("executable") and one["target"]["name"] == name:
            return Path(one["executable"])
    raise Failed(f"cargo does not say where it put the benchmark {name}")


def run_bench(name: str, options: Sequence[str]) -> list[Row]:
    """Run a benchmark that writes its figures, a JSON object a line, to the file BENCH_ROWS names."""
    program = cargo_bench(name)
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as rows:
        environment = {**os.environ, "BENCH_ROWS": rows.name}
        done = subprocess.run([program, *options], cwd=ROOT, env=environment, check=False)
        if done.returncode != 0:
            raise Failed(f"the benchmark {name} ended with {done.returncode}")
        return [row(**json.loads(line)) for line in rows]


@functools.cache
def baseline() -> Path:
    """The conference bridge program, linked with pjsua-lib of the same sources and settings."""
    with step("Building pjsua-lib for the baseline", log="pjsua", expect="1 min", silent_s=1):
        prefix = pjsip.build(variant="pjsua")
    source = BENCHES / "baseline/bridge.c"
    program = OUT / "bench/bridge"
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = (prefix / "lib/link.txt").read_text(encoding="ascii").split()
    command = [
        *("cc", "-O2", "-Wall", "-DNDEBUG", "-DPJ_AUTOCONF=1"),
        *(*pjsip.VARIANTS["pjsua"].cflags.split(), f"-I{prefix / 'include'}", str(source)),
        *("-o", str(program), f"-L{prefix / 'lib'}"),
        *("-Wl,--start-group", *flags, "-Wl,--end-group"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{source} does not compile:\n{done.stderr[-2000:]}")
    return program


def speech() -> Path:
    """Ten minutes of recorded speech, 8 kHz 16-bit little-endian samples without a header."""
    path = cache_dir() / "bench" / "speech.s16"
    if path.exists():
        return path
    tree = fetch.fetch("asterisk-core-sounds-en-wav")
    wanted = 10 * 60 * 8000 * 2
    samples = bytearray()
    for file in sorted(tree.rglob("*.wav")):
        with wave.open(str(file)) as sound:
            if (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) == (8000, 2, 1):
                samples += sound.readframes(sound.getnframes())
        if len(samples) >= wanted:
            break
    if len(samples) < wanted:
        raise Failed(f"{tree} holds less than ten minutes of speech at 8 kHz")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(samples[:wanted])
    return path
