# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks: `python3 -m tools.bench NAME [OPTIONS]` prints a table and writes out/bench/NAME.json."""
