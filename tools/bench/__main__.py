# SPDX-License-Identifier: GPL-3.0-or-later
"""`python3 -m tools.bench NAME [OPTIONS]`.

`transport` has a program of its own; every other NAME is one of core/engine/benches, whose options are its own.
"""

from __future__ import annotations

import sys

from tools.bench import frame, gate, programs, report, signal_work, srtp, transport
from tools.step import Failed, entry


def main(arguments: list[str]) -> int:
    if not arguments:
        raise Failed("which? `just bench NAME` with transport, " + ", ".join(programs.names()))
    name, *options = arguments
    if name == "transport":
        return transport.main(options)
    if name == "srtp":
        return srtp.main(options)
    if name == "frame":
        return frame.main(options)
    if name == "signal":
        return signal_work.main(options)
    if name == "gate":
        return gate.main(options)
    if name not in programs.names():
        raise Failed(
            f"there is no benchmark {name}; there are transport, {', '.join(programs.names())}"
        )
    rows = programs.run_bench(name, options)
    return report.finish(name, rows)


if __name__ == "__main__":
    sys.exit(entry(main))
