# SPDX-License-Identifier: GPL-3.0-or-later
# Recipes by group; `just --list` is the manual. Without `just` on the machine: ./justw RECIPE.

set positional-arguments := true
set unstable := false

python := ".venv/bin/python"

# the manual
[private]
default:
    @just --justfile {{ quote(justfile()) }} --list --unsorted

# Refresh the pins and hashes of Python packages after a change to requirements/*.in (--upgrade: newest of all)
[group('upkeep')]
lock *options: _venv
    @{{ python }} -m tools.lock "$@"

# Remove what was built here (the caches under ~/.cache stay)
[group('upkeep')]
clean:
    rm -rf out target .venv

_venv:
    @JUSTW_BOOTSTRAP_ONLY=1 ./justw
