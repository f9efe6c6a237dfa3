# SPDX-License-Identifier: GPL-3.0-or-later
"""Long steps that show they are alive: name, what to expect, elapsed time; output goes to out/log/.

On a terminal the running time is redrawn each second; elsewhere a line is printed every half
minute, so that a log shows progress too. A failing command prints the end of its log and where the
rest lies.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tools.paths import LOGS, OUT, ROOT

HEARTBEAT_S = 30.0
TAIL_LINES = 60

_log: Path | None = None


class Failed(Exception):
    """A step that did not succeed; the message names the place and the remedy."""


@contextmanager
def step(name: str, *, log: str, expect: str = "", silent_s: float = 0.0) -> Iterator[None]:
    """Shows `name` while the block runs. `expect` says how long it takes ("about 90 s").

    With `silent_s` nothing is shown of a step that is over by then: one that mostly finds its work done.
    """
    global _log
    LOGS.mkdir(parents=True, exist_ok=True)
    outer, _log = _log, LOGS / f"{log}.log"
    _log.write_text("")
    _give_to_owner(OUT, LOGS, _log)
    begun = time.monotonic()
    done = threading.Event()
    text = f"{name} ({expect})" if expect else name
    ticker = threading.Thread(target=_tick, args=(text, begun, silent_s, done), daemon=True)
    ticker.start()
    mark = "✗"
    try:
        yield
        mark = "✓"
    finally:
        done.set()
        ticker.join()
        used = time.monotonic() - begun
        if mark == "✗" or used >= silent_s:
            _say(f"{_clear()}{mark} {name}  {elapsed(used)}")
        _log = outer


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Runs `command` and returns its stdout. Inside a `step` stderr goes to the step's log.

    Raises `Failed` with the end of the log when the command cannot start or does not exit with 0.
    """
    shown = " ".join(command)
    try:
        if _log is None:
            done = subprocess.run(
                command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=False
            )
        else:
            with _log.open("a") as log:
                log.write(f"$ {shown}\n")
                log.flush()
                done = subprocess.run(
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    check=False,
                )
                log.write(done.stdout)
    except OSError as error:
        raise Failed(f"could not start `{shown}`: {error}") from error
    if done.returncode != 0:
        raise Failed(_failure(shown, done.returncode))
    return done.stdout


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """One run at a time in this checkout: a second one waits, and says so."""
    OUT.mkdir(exist_ok=True)
    with (OUT / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("… waiting for another run in this checkout to finish its set-up")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entry(main: Callable[[list[str]], int | None]) -> NoReturn:
    """Runs a program of tools/ as the command line asks: failures in words, not as tracebacks."""
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as failure:
        sys.exit(f"\n{failure}")
    except KeyboardInterrupt:
        sys.exit(130)


def elapsed(seconds: float) -> str:
    """`0.4 s`, `12 s` or `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _give_to_owner(*paths: Path) -> None:
    """Logs of what root did in somebody's checkout must not be in their way afterwards."""
    if os.geteuid() == 0:
        owner = ROOT.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)


def _failure(shown: str, status: int) -> str:
    if _log is None:
        return f"`{shown}` ended with status {status}"
    tail = _log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    where = _log.relative_to(ROOT)
    return "\n".join([*tail, "", f"`{shown}` ended with status {status}; the whole log: {where}"])


def _tick(text: str, begun: float, silent_s: float, done: threading.Event) -> None:
    terminal = sys.stderr.isatty()
    if done.wait(silent_s):
        return
    if not terminal:
        _say(f"… {text}")
    while not done.wait(1.0 if terminal else HEARTBEAT_S):
        time_used = elapsed(time.monotonic() - begun)
        if terminal:
            sys.stderr.write(f"{_clear()}… {text}  {time_used}")
            sys.stderr.flush()
        else:
            _say(f"…   {time_used} so far")


def _clear() -> str:
    return "\r\x1b[K" if sys.stderr.isatty() else ""


def _say(text: str) -> None:
    # Through os.write, so that lines of this process and its children keep their order in a log.
    sys.stderr.flush()
    os.write(sys.stderr.fileno(), f"{text}\n".encode())
