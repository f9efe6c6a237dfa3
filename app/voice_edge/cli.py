# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``voice-edge``."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__, logs, process
from .settings import Problem, Settings, SettingsError, load

_log = logging.getLogger(__name__)

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
APPLIANCE = {
    "provision": "appliance: take in the answer file",
    "realtime-apply": "appliance: set cores aside for media",
    "realtime-report": "appliance: what is in force of real time",
    "bootenv": "appliance: mend damaged boot counters",
    "mark-good": "appliance: the running slot works",
    "status": "appliance: slot, version, health",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 fine, 1 failed, 2 wrong settings or usage, 130 interrupted."""
    process.one_math_thread()
    arguments, rest = _parser().parse_known_args(argv)
    try:
        if arguments.command in APPLIANCE:
            # At boot, where each second counts: the agent's own imports come later, where they are used.
            from .appliance import commands

            return commands.main(arguments.command, rest)
        if arguments.command == "update":
            from .update import commands as update

            return update.main(rest)
        if arguments.command == "calls":
            from . import calls

            return calls.main(rest)
        if arguments.command == "demo":
            try:
                demo = importlib.import_module("voice_edge.demo")
            except ModuleNotFoundError as error:
                if error.name != "voice_edge.demo":
                    raise
                print(
                    "the demo is not part of this installation: run it from a checkout",
                    file=sys.stderr,
                )
                return USAGE
            # Its options are its own.
            return int(demo.main(rest))
        if rest:
            _parser().error(f"unrecognized arguments: {' '.join(rest)}")
        settings = load(arguments.config)
        if arguments.command == "run" and arguments.ready_file is not None:
            _check_ready_file(arguments.ready_file)
        from .core_rules import check_core

        check_core(settings, arguments.config)
        if arguments.command == "check":
            return _check(settings)
        return _run(settings, arguments)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="voice-edge", description="A voice agent that answers SIP calls."
    )
    parser.add_argument("--version", action="version", version=f"voice-edge {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="answer calls until SIGINT or SIGTERM")
    run.add_argument(
        "--ready-file",
        type=Path,
        help="write the SIP address and the process id there (JSON) once calls are answered",
    )
    checker = commands.add_parser("check", help="check settings, ports and model servers")
    for command in (run, checker):
        command.add_argument("--config", type=Path, required=True, help="settings (TOML)")
    commands.add_parser("demo", help="a call on this machine, from end to end", add_help=False)
    commands.add_parser("calls", help="calls that are over: list, show", add_help=False)
    what = "appliance: check, install, schedule, rollback, status"
    commands.add_parser("update", help=what, add_help=False)
    for name, what in APPLIANCE.items():
        commands.add_parser(name, help=what, add_help=False)
    return parser


def _check(settings: Settings) -> int:
    from .check import check, table

    findings = asyncio.run(check(settings))
    print(table(findings))
    return FAILED if any(f.state == "fail" for f in findings) else OK


def _run(settings: Settings, arguments: argparse.Namespace) -> int:
    import uvloop

    from .core_rules import in_our_words

    logs.setup(settings.log.level)
    process.raise_descriptor_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, arguments.ready_file))
    except ImportError as error:
        _log.error("%s; install the voicecore wheel", error)
        return FAILED
    except Exception as error:
        if isinstance(getattr(error, "code", None), str):
            # Of voicecore: its message names the place and the remedy, in its own words.
            _log.error("cannot start with %s: %s", arguments.config, in_our_words(str(error)))
        elif isinstance(error, OSError):
            _log.error("cannot start: %s: %s", error.filename, error.strerror)
        else:
            _log.critical("ended by a fault of ours", exc_info=error)
        return FAILED
    return OK


async def _serve(settings: Settings, ready_file: Path | None) -> None:
    from .service import Service

    def ready(address: tuple[str, int]) -> None:
        process.notify("READY=1")
        if ready_file is not None:
            _write_ready(ready_file, address)

    service = Service(settings, ready=ready)

    def again(received: signal.Signals) -> None:
        if not service.end_drain():
            _force(received)
            return
        _log.info("%s: ending the calls that are up; once more forces it", received.name)

    def stop(received: signal.Signals) -> None:
        loop.remove_signal_handler(received)
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, again, each)
        _log.info("%s: stopping; once more forces it", received.name)
        process.notify("STOPPING=1")
        service.stop()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop, each)
    loop.add_signal_handler(signal.SIGHUP, service.reread)
    heart = asyncio.create_task(process.heartbeat())
    try:
        await service.run()
    finally:
        heart.cancel()


def _force(received: signal.Signals) -> None:
    print(f"{received.name} again: ending at once", file=sys.stderr, flush=True)
    os._exit(128 + received)


def _check_ready_file(path: Path) -> None:
    """Now, and not when calls are answered already. Raises SettingsError."""
    folder = path.parent
    if path.is_dir():
        what, remedy = f"{path} is a folder", "Name a file in it"
    elif not folder.is_dir():
        what, remedy = f"there is no folder {folder}", "Make it, or name another"
    elif not os.access(folder, os.W_OK | os.X_OK):
        what, remedy = f"{folder} is not writable for us", "Change its owner, or name another"
    else:
        return
    raise SettingsError([Problem("--ready-file", "", what, remedy)])


def _write_ready(path: Path, address: tuple[str, int]) -> None:
    """By rename, so that who waits for the file never reads half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"sip": list(address), "pid": os.getpid()}) + "\n")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
