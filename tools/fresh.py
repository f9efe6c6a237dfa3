# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a recipe as on a newly installed Debian: `tools.fresh debian12|debian13 [--user] [RECIPE…]`.

A minimal root tree by mmdebstrap, a fresh clone of what is committed, then `./justw RECIPE` inside, in a
mount and process namespace of its own: nothing stays mounted or running afterwards, and the tree goes.
Only the way to the network is the machine's: resolver, certificates, proxies, apt's mirror. `--user` runs
as a user without root, who is only told what is missing. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tools import system
from tools.paths import ROOT, cache_home
from tools.step import Failed, elapsed, entry, run, step

SUITES = {"debian12": "bookworm", "debian13": "trixie"}
BASE_PACKAGES = "ca-certificates"
USER = "1000"

# What a machine behind a proxy or an inspecting firewall needs; nothing about tools or caches.
PASSED_ON = (
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("PIP_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "VOICE_EDGE_SOURCES"),
)
APT_PASSED_ON = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")

INSIDE = """
set -eu
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
shift
exec "$@"
"""


def sources(suite: str) -> list[str]:
    """Lines of sources.list for `suite`, from the archives that this machine's apt uses for its own."""
    wanted = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN) $(CREATED_BY)"
    listed = run(["apt-get", "indextargets", "--format", wanted])
    host = run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"]).strip()
    lines: dict[str, None] = {}
    for line in listed.splitlines():
        match line.split():
            case [uri, release, "main", "Debian", "Packages"] if release.startswith(host):
                lines[f"deb {uri} {release.replace(host, suite, 1)} main"] = None
    if not lines:
        raise Failed("apt knows no Debian archive here; run apt-get update first")
    return list(lines)


def make_base(suite: str) -> Path:
    """The minimal root tree as an archive, made once a user; apt inside fetches what is new."""
    archive = cache_home() / "voice-edge" / "fresh" / f"{suite}.tar"
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part.tar")
    with step(f"Making a minimal {suite}", log=f"fresh-{suite}", expect="about 1 min"):
        command = ["mmdebstrap", "--variant=minbase", f"--include={BASE_PACKAGES}"]
        command += [f"--aptopt={option}" for option in apt_options()]
        run([*command, suite, str(part), *sources(suite)])
    part.rename(archive)
    return archive


def apt_options() -> list[str]:
    """This machine's ways of getting packages, as lines of apt.conf."""
    dumped = run(["apt-config", "dump"]).splitlines()
    return [line for line in dumped if line.startswith(APT_PASSED_ON) and not line.endswith('"";')]


def furnish(tree: Path) -> None:
    """Gives the tree the machine's way to the network, and the clone at /src."""
    shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
    certificates = Path("/usr/local/share/ca-certificates")
    if certificates.is_dir():
        target = tree / str(certificates)[1:]
        shutil.copytree(certificates, target, dirs_exist_ok=True)
        run(["chroot", str(tree), "update-ca-certificates"])
    (tree / "etc/apt/apt.conf.d/90machine").write_text("\n".join([*apt_options(), ""]))
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree / "src")])


def inside(tree: Path, command: list[str], *, user: bool) -> int:
    """Runs `command` in the tree and returns its status."""
    home = "/home/user" if user else "/root"
    (tree / home[1:]).mkdir(exist_ok=True)
    kept = [f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ]
    environment = ["env", "-i", f"HOME={home}", "LANG=C.UTF-8", "TERM=dumb", *kept]
    environment.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    chroot = ["chroot", *([f"--userspec={USER}:{USER}"] if user else []), str(tree), *environment]
    shell = [*chroot, "sh", "-c", 'cd /src && exec "$@"', "sh", *command]
    if user:
        run(["chown", "-R", f"{USER}:{USER}", str(tree / "src"), str(tree / home[1:])])
    namespace = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE]
    return subprocess.run([*namespace, "sh", str(tree), *shell], check=False).returncode


def main(arguments: list[str]) -> int:
    user = "--user" in arguments
    words = [argument for argument in arguments if argument != "--user"]
    if not words or words[0] not in SUITES:
        raise Failed(f"say which: {' or '.join(SUITES)}")
    if os.geteuid() != 0:
        raise Failed("needs root: it makes a root tree and enters it")
    system.ensure(["fresh"])
    archive = make_base(SUITES[words[0]])
    tree = Path(tempfile.mkdtemp(prefix="voice-edge-fresh-"))
    try:
        tree.chmod(0o755)
        run(["tar", "-xf", str(archive), "-C", str(tree), "--exclude=./dev/*"])
        furnish(tree)
        for recipe in words[1:] or ["demo"]:
            begun = time.monotonic()
            status = inside(tree, ["./justw", *recipe.split()], user=user)
            what = f"./justw {recipe} on a fresh {words[0]}"
            print(f"=== {what}: status {status}, {elapsed(time.monotonic() - begun)}", flush=True)
            if status != 0:
                return 1
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return 0


if __name__ == "__main__":
    entry(main)
