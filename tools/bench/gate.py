# SPDX-License-Identifier: GPL-3.0-or-later
"""`just bench gate`: is the media path of this tree slower than that of its merge base?

The same benchmark (core/engine/benches/gate.rs) is built in both trees and run in turns. It fails when the lower bound
of the slowdown's 95 % confidence interval is above 10 % in one of its figures, and again when that is measured anew. A
commit with the trailer `Slower-on-purpose: WHY` makes it tell instead of fail. `--prove` shows what it finds of a
deliberate slowdown and of none.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.bench import programs, report
from tools.bench.history import ACCEPTED, Base, Repository
from tools.bench.report import Row
from tools.bench.slowdown import LIMIT, Slowdown, slowdown
from tools.paths import OUT, ROOT
from tools.step import Failed

PAIRS = 10
DELIBERATE = 25
"""Per cent of the work that --prove does twice."""

Times = Mapping[str, float]
Measure = Callable[[], Times]
Verdict = dict[str, Slowdown]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="just bench gate", description=__doc__)
    parser.add_argument("--base", metavar="REVISION", help="compare with this one")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs of each side")
    parser.add_argument("--prove", action="store_true", help="compare this tree with itself")
    options = parser.parse_args(arguments)
    if options.prove:
        return _prove(options.pairs)
    repository = Repository(ROOT)
    base = repository.base(options.base)
    if base is None:
        return _skip("there is no merge base here: a first commit, or a clone without history")
    told = f"{base.commit[:12]}, {base.why}"
    touched = repository.touched(base)
    if not touched:
        return _skip(f"no Rust of the media path changed since {told}")
    change = programs.cargo_bench("gate")
    other = _base_program(repository, base)
    if other is None:
        return _skip(f"the benchmark does not build in the tree of {told}")
    print(f"speed gate: {len(touched)} files of the media path differ from {told}", flush=True)
    found, slow = judge(_program(other), _program(change), options.pairs)
    status = report.finish("gate", _rows(found, slow))
    reasons = repository.accepted(base)
    if status and reasons:
        print(f"speed gate: slower on purpose: {'; '.join(reasons)}")
        return 0
    if status:
        print(f"speed gate: mend it, or say why it is wanted in the trailer `{ACCEPTED}: WHY`")
    return status


def judge(base: Measure, change: Measure, pairs: int) -> tuple[Verdict, Verdict]:
    """All figures, and those that were too slow twice."""
    found = _compare(base, change, pairs)
    suspects = [name for name, one in found.items() if one.too_slow]
    if not suspects:
        return found, {}
    print(f"speed gate: measured anew: {', '.join(suspects)}", flush=True)
    again = _compare(base, change, pairs)
    return found | {name: again[name] for name in suspects}, {
        name: again[name] for name in suspects if again[name].too_slow
    }


def _compare(base: Measure, change: Measure, pairs: int) -> Verdict:
    times: dict[str, list[tuple[float, float]]] = {}
    for pair in range(pairs):
        # A B, B A, A B: neither side is always the first.
        if pair % 2 == 0:
            before, after = base(), change()
        else:
            after, before = change(), base()
        for name in before.keys() & after.keys():
            times.setdefault(name, []).append((before[name], after[name]))
    if not times:
        raise Failed("the two benchmarks have no figure in common")
    return {name: slowdown(found) for name, found in sorted(times.items())}


def _program(path: Path, *options: str) -> Measure:
    def run() -> Times:
        done = subprocess.run([path, *options], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{path.name} ended with {done.returncode}; see above")
        times: Times = json.loads(done.stdout)
        return times

    return run


def _base_program(repository: Repository, base: Base) -> Path | None:
    """The change's benchmark, or else its own, built in the base's tree; None when neither builds."""
    folder = OUT / "gate"
    shutil.rmtree(folder, ignore_errors=True)
    tree = folder / base.commit[:12]
    repository.unpack(base, tree)
    source = "core/engine/benches/gate.rs"
    own = (tree / source).read_bytes() if (tree / source).exists() else None
    shutil.copyfile(ROOT / source, tree / source)
    if own is None:
        with (tree / "core/engine/Cargo.toml").open("a", encoding="utf-8") as manifest:
            manifest.write('\n[[bench]]\nname = "gate"\nharness = false\n')
    try:
        for text in (None, own):
            if text is not None:
                (tree / source).write_bytes(text)
            try:
                built = programs.cargo_bench("gate", tree)
            except Failed as failure:
                print(f"speed gate: in the base's tree: {failure}", flush=True)
                if own is None:
                    return None
                continue
            kept = folder / "base"
            shutil.copy2(built, kept)
            return kept
        return None
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _rows(found: Verdict, slow: Verdict) -> list[Row]:
    """The lower bound is the figure; the limit its aim."""
    rows = []
    for name, one in found.items():
        print(f"  {name:30} {one}")
        rows.append(
            Row(
                f"{name}: time by the base's, lower bound",
                "",
                round(one.lower, 3),
                None,
                round(one.ratio, 3),
                LIMIT,
                name not in slow,
            )
        )
    return rows


def _prove(pairs: int) -> int:
    program = programs.cargo_bench("gate")
    same, none = judge(_program(program), _program(program), pairs)
    slower = _program(program, "--slow", str(DELIBERATE))
    found, slow = judge(_program(program), slower, pairs)
    for title, verdict in (("none", same), (f"{DELIBERATE} % of the work twice", found)):
        print(f"deliberate slowdown: {title}")
        for name, one in verdict.items():
            print(f"  {name:30} {one}{'  TOO SLOW' if one.too_slow else ''}")
    rows = [
        report.row("figures found too slow, without a slowdown", "", len(none), at_most=0),
        report.row(
            f"figures found too slow, {DELIBERATE} % of the work twice",
            "",
            len(slow),
            at_least=len(found),
        ),
    ]
    return report.finish("gate-prove", rows)


def _skip(why: str) -> int:
    print(f"speed gate: skipped: {why}")
    return 0
