# SPDX-License-Identifier: GPL-3.0-or-later
"""Coverage-guided fuzzing under sanitizers: `tools.fuzz TARGET SECONDS|merge|FILE…`.

    tools.fuzz invite 60         fuzz for 60 s; inputs of the tree come first
    tools.fuzz invite 60 --seed 7        with other chance than that of seed 1 (FUZZ_SEED does the same)
    tools.fuzz invite 60 --runs 100000   so many inputs at most, from those of the tree alone, as in CI
    tools.fuzz invite FILE…      run these inputs only: how a find is looked at
    tools.fuzz invite merge      take what was found so far into the tree, as few inputs as have the same coverage

PJSIP, the shim and our Rust are compiled by clang and rustc with the same instrumentation and linked with clang's
libFuzzer and sanitizer runtime (docs/fuzzing.md). What a run finds lies in out/fuzz/TARGET: inputs that reached new
code in corpus/, inputs at which it died beside it. Status 1 says that there was one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.paths import OUT, ROOT
from tools.pjsip import SANITIZERS
from tools.setup import cargo_environment, tool
from tools.step import Failed, entry, run, step

HERE = ROOT / "core" / "fuzz"
TARGETS = ("demux", "sdp", "invite")
PROFILE = "fuzz"
C_FLAGS = f"-gline-tables-only {SANITIZERS} -DPJ_POOL_DEBUG=1"
LINK = "-fsanitize=address,bounds,fuzzer"

# One input may take this long, on a slow machine too, and the whole run this much memory.
INPUT_TIMEOUT_S = 20
MEMORY_MB = 2048
LONGEST = {"demux": 4096, "sdp": 8192, "invite": 16384}

# libFuzzer tells of each; a count every so often is enough.
PROGRESS = re.compile(r"#\d+\s+(?:NEW|REDUCE|RELOAD)\b")

SANITIZER_OPTIONS = {
    # Short stacks and a small quarantine: with one allocation for each piece of a pool these cost most of the time.
    "ASAN_OPTIONS": "malloc_context_size=12:quarantine_size_mb=32:max_malloc_fill_size=64",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def rust_flags() -> Iterator[str]:
    """libFuzzer's coverage (what `-fsanitize=fuzzer-no-link` is to clang), address sanitizer, clang as the linker."""
    yield from ("-Cpasses=sancov-module",)
    for option in (
        "sanitizer-coverage-level=4",
        "sanitizer-coverage-inline-8bit-counters",
        "sanitizer-coverage-pc-table",
        "sanitizer-coverage-trace-compares",
        "sanitizer-coverage-stack-depth",
    ):
        yield f"-Cllvm-args=-{option}"
    # The runtime comes with the C parts; rustc's own would be a second one, and Debian's rustc has none.
    yield from ("-Zsanitizer=address", "-Zexternal-clangrt")
    yield from ("-Clinker=clang", f"-Clink-arg={LINK}", "-Cforce-frame-pointers=yes")
    yield "--cfg=fuzzing"


def environment() -> dict[str, str]:
    """For cargo: everything compiled for the targets, and only that, is instrumented."""
    if "VC_PJSIP_PREFIX" not in os.environ:
        os.environ["VC_PJSIP_PREFIX"] = tool(
            "pjsip",
            "Building PJSIP under sanitizers",
            "about 1 min, once per user",
            "--variant",
            "fuzz",
        )
    values = cargo_environment()
    values |= {
        "RUSTC_BOOTSTRAP": "1",  # -Zsanitizer with the toolchain that builds everything else
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(rust_flags()),
        "CC": "clang",
        "CFLAGS": C_FLAGS,
    }
    return values


def build(target: str) -> Path:
    """Builds a target and returns its program."""
    with step("Building the fuzz target", log="fuzz-build", expect="about 2 min the first time"):
        values = environment()
        told = run(["rustc", "-vV"], env=values)
        host = next(line.split()[1] for line in told.splitlines() if line.startswith("host:"))
        folder = Path(values.get("CARGO_TARGET_DIR") or ROOT / "target")
        # --target makes RUSTFLAGS not count for build scripts.
        command = ["cargo", "build", "--quiet", "--locked", "--target", host, "--profile", PROFILE]
        command += ["-p", "voicecore-fuzz", "--features", "libfuzzer", "--bin", target]
        command += ["--target-dir", str(folder)]
        run(command, env=values)
    return folder / host / PROFILE / target


def steady() -> list[str]:
    """Old sanitizer runtimes fail at random where the kernel scatters addresses widely: then not at all."""
    command = ["setarch", "-R"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except OSError:
        return []
    return command if done.returncode == 0 else []


def execute(program: Path, arguments: list[str]) -> int:
    """Runs a target; of what it says, all but a line for each input that reached something new."""
    values = {**os.environ}
    for name, value in SANITIZER_OPTIONS.items():
        values[name] = f"{value}:{values[name]}" if values.get(name) else value
    symbolizer = shutil.which("llvm-symbolizer")
    if symbolizer:
        values.setdefault("ASAN_SYMBOLIZER_PATH", symbolizer)
    command = [*steady(), str(program), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=values, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as running:
        for line in running.stderr or ():
            if not PROGRESS.match(line):
                sys.stderr.write(line)
                sys.stderr.flush()
    return running.returncode


def finds(folder: Path) -> set[Path]:
    return {path for path in folder.iterdir() if path.is_file()}


def seeds(target: str) -> list[Path]:
    """The tree's inputs, in one order on every machine."""
    folders = [HERE / "finds" / target, HERE / "corpus" / target]
    return [path for folder in folders for path in sorted(folder.iterdir())]


def fuzz(program: Path, target: str, seconds: int, seed: int, runs: int | None) -> int:
    out = OUT / "fuzz" / target
    grown = out / ("corpus" if runs is None else "fresh")
    if runs is not None:
        # What earlier runs found would change what is made of it.
        shutil.rmtree(grown, ignore_errors=True)
    grown.mkdir(parents=True, exist_ok=True)
    before = finds(out)
    listed = out.parent / f"{target}.seeds"
    listed.write_text(",".join(str(path) for path in seeds(target)))
    arguments = [
        f"-max_total_time={seconds}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-max_len={LONGEST[target]}",
        f"-artifact_prefix={out}/",
        "-print_final_stats=1",
        "-reload=0",
        # A change is judged by what it changes, not by luck.
        f"-seed={seed}",
        f"-seed_inputs=@{listed}",
    ]
    if runs is not None:
        arguments.append(f"-runs={runs}")
    dictionary = HERE / f"{target}.dict"
    if dictionary.exists():
        arguments.append(f"-dict={dictionary}")
    print(f"fuzz: {target}, seed {seed}", file=sys.stderr)
    status = execute(program, [*arguments, str(grown)])
    new = sorted(finds(out) - before)
    if status == 0 and not new:
        return 0
    for path in new:
        shown = path.relative_to(ROOT)
        print(f"\nfound: {shown}\nlook at it again: ./justw fuzz {target} {shown}", file=sys.stderr)
    if not new:
        print(
            f"\n{target} ended with status {status}; the last lines above say why", file=sys.stderr
        )
    return 1


def replay(program: Path, files: list[str]) -> int:
    for file in files:
        if not Path(file).exists():
            raise Failed(f"no such input: {file} (say a number of seconds, `merge`, or inputs)")
    return 1 if execute(program, [f"-timeout={INPUT_TIMEOUT_S}", *files]) else 0


def merge(program: Path, target: str) -> int:
    """The tree's corpus anew, out of itself and what was found here."""
    kept = HERE / "corpus" / target
    fresh = OUT / "fuzz" / target / "merged"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    grown = OUT / "fuzz" / target / "corpus"
    sources = [str(folder) for folder in (kept, grown) if folder.exists()]
    # By edges, not by how often each is taken: far smaller, and as good a start.
    arguments = ["-merge=1", "-use_counters=0", f"-max_len={LONGEST[target]}"]
    arguments.append(f"-timeout={INPUT_TIMEOUT_S}")
    if execute(program, [*arguments, str(fresh), *sources]) != 0:
        raise Failed("merging failed; the last lines above say why")
    # Inputs with a name were written by hand and are documentation: they stay.
    named = {path for path in kept.iterdir() if len(path.name) != 40}
    contents = {path.read_bytes() for path in named}
    for path in set(kept.iterdir()) - named:
        path.unlink()
    for path in fresh.iterdir():
        if path.read_bytes() not in contents:
            shutil.copyfile(path, kept / path.name)
    every = list(kept.iterdir())
    print(
        f"{kept.relative_to(ROOT)}: {len(every)} inputs, {sum(p.stat().st_size for p in every)} bytes"
    )
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", allow_abbrev=False)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("what", nargs="+", help="SECONDS, `merge`, or inputs")
    given = os.environ.get("FUZZ_SEED") or "1"
    if not given.isdigit():
        raise Failed(f"FUZZ_SEED is {given!r}: a number is wanted")
    parser.add_argument("--seed", type=int, default=int(given), help="of chance; 1 (or FUZZ_SEED)")
    parser.add_argument("--runs", type=int, help="inputs at most, from those of the tree alone")
    options = parser.parse_args(arguments)
    target, (what, *more) = options.target, options.what
    program = build(target)
    if what == "merge":
        return merge(program, target)
    if what.isdigit() and not Path(what).exists():
        return fuzz(program, target, int(what), options.seed, options.runs)
    return replay(program, [what, *more])


if __name__ == "__main__":
    entry(main)
