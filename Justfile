# SPDX-License-Identifier: GPL-3.0-or-later
# Recipes by group, one line each: `just --list` is the manual. Without `just` here: ./justw RECIPE.

set positional-arguments

python := ".venv/bin/python"

[private]
default:
    @just --justfile {{ quote(justfile()) }} --list --unsorted

# Hold a conversation on this machine: build, start the agent and its model servers, place a SIP call
[group('use')]
demo *options: (_ready "demo")
    @.venv/bin/voice-edge demo "$@"

# Answer calls with the settings in CONFIG, a TOML file (example: config/voice-edge.example.toml)
[group('use')]
run config: (_ready "demo")
    @.venv/bin/voice-edge run --config "$1"

# Run all tests; with pytest's options, only the Python ones (./justw test -k barge_in)
[group('develop')]
test *options: (_ready "test")
    @[ $# -gt 0 ] || {{ python }} -m tools.cargo test --workspace --locked --no-fail-fast || failed=1; \
        {{ python }} -m pytest "$@" || failed=1; exit ${failed:-0}

# Test the whole appliance under DRIVER: local (a process), qemu, qemu-aarch64 (the image), or your box's labgrid file
[group('develop')]
hil driver *options: (_ready "hil")
    @PYTHONPATH=tests:. {{ python }} -m hil "$@"

# Check formatting, lints, types, stubs and house rules
[group('develop')]
check: (_ready "check")
    @{{ python }} -m tools.check

# Measure the core: NAME is transport (beside pjsua-lib), frame (beside the plain Python path), signal, gate (beside the merge base), media or vad; figures go to out/bench/NAME.json
[group('develop')]
bench name *options: (_ready "bench")
    @{{ python }} -m tools.bench "$@"

# Carry recorded calls through the plain Python path and through the core: is all the same? (--minutes 20: a slice of it)
[group('develop')]
parity *options: (_ready "parity")
    @{{ python }} -m core.reference.parity "$@"

# Fuzz TARGET (demux, sdp, invite) for SECONDS under sanitizers; an input instead of seconds runs that alone
[group('develop')]
fuzz target *what: _venv
    @{{ python }} -m tools.system fuzz && {{ python }} -m tools.fuzz "$@"

# Place 10,000 short calls, then 100 at once for --minutes 120, in one process: is all given back? Figures: out/bench/soak.json
[group('develop')]
soak *options: (_ready "hil")
    @PYTHONPATH=tests:. {{ python }} -m hil.soak "$@"

# Format, and mend what the linters can mend themselves
[group('develop')]
fix: (_ready "fix")
    {{ python }} -m tools.cargo fmt --all
    {{ python }} -m ruff check --quiet --fix . ; {{ python }} -m ruff format --quiet .

# Freeze the agent for ARCH, x86_64 or aarch64, into out/bundle/ARCH/voice-edge; as root
[group('image')]
bundle arch: _venv
    @{{ python }} -m tools.system bundle && {{ python }} -m bundle build "$1"

# Prove that two builds of ARCH's bundle, each from nothing, are the same bit by bit; as root
[group('image')]
bundle-repro arch: _venv
    @{{ python }} -m tools.system bundle && {{ python }} -m bundle repro "$1"

# Build the disk for ARCH with PROVIDER, debian or buildroot, into out/image/; as root. The bundle comes first
[group('image')]
image provider arch: _venv
    @{{ python }} -m tools.system {{ if provider == "buildroot" { "image-buildroot" } else { "image" } }} && {{ python }} -m image build "$1" "$2"

# Sign VERSION of ARCH's image as an update into out/ota/; key by --cert and --key, files or PKCS#11 (docs/updates.md); as root
[group('image')]
ota-bundle arch version *options: _venv
    @{{ python }} -m tools.system image && {{ python }} -m ota "$@"

# Prove that two builds of ARCH's disk, in two folders at two times, are the same bit by bit; as root
[group('image')]
image-repro arch: _venv
    @{{ python }} -m tools.system image && {{ python }} -m image repro "$1"

# Lock the newest Debian packages of the image (or of TARGETS, tables of image/debian/packages.toml) and print what changed
[group('image')]
image-lock *targets: _venv
    @{{ python }} -m image lock "$@"

# Show, without building, that PROVIDER (buildroot) would make the same image; BUILDROOT_DIR names its checkout
[group('image')]
image-verify provider: (_ready "image-verify")
    @{{ python }} -m image verify "$1"

# Refresh the pins and hashes of Python packages from requirements/*.in (--upgrade: newest of all)
[group('upkeep')]
lock *options: _venv
    @{{ python }} -m tools.lock "$@"

# Run RECIPES on a newly made MACHINE, debian12 or debian13; as root (--user: as one without root)
[group('upkeep')]
fresh machine *recipes: _venv
    @{{ python }} -m tools.fresh "$@"

# Remove what was built in this checkout (the caches under ~/.cache stay)
[group('upkeep')]
clean:
    rm -rf out target .venv

_ready recipe: _venv
    @{{ python }} -m tools.setup "{{ recipe }}"

_venv:
    @JUSTW_BOOTSTRAP_ONLY=1 ./justw
