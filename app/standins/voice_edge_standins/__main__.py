# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: ``python -m voice_edge_standins --port-file F``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from .lifeline import die_with_parent
from .script import ScriptError, load


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m voice_edge_standins",
        description="Stand-in model servers on 127.0.0.1: speech recognition, speech synthesis "
        "and a scripted language model, by the OpenAI HTTP protocols.",
    )
    parser.add_argument("--bind", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="TCP port (0: any free one)")
    parser.add_argument("--port-file", type=Path, help="written with the port once all is ready")
    parser.add_argument("--script", type=Path, help="script of the language model (TOML)")
    parser.add_argument("--stt-model", type=Path, help="folder of another faster-whisper model")
    parser.add_argument("--tts-voice", type=Path, help="another Piper voice (.onnx)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of each model")
    parser.add_argument("--nice", type=int, default=0, help="added to the niceness")
    parser.add_argument(
        "--outlive-parent", action="store_true", help="do not end with the process that started it"
    )
    return parser


def main() -> int:
    options = _parser().parse_args()
    if not options.outlive_parent:
        die_with_parent()
    if options.nice:
        os.nice(options.nice)
    # OpenMP's idle threads spin by default, which costs a whole core beside a media clock.
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        script = load(options.script)
    except ScriptError as error:
        print(f"stand-ins: {error}", file=sys.stderr)
        return 2
    try:
        started = time.monotonic()
        from .server import Models, serve
        from .stt import WhisperRecogniser
        from .tts import PiperSynthesiser

        recogniser = WhisperRecogniser(options.stt_model, options.threads)
        synthesiser = PiperSynthesiser(options.tts_voice, options.threads)
        recogniser.warm_up()
        synthesiser.warm_up()
        print(f"models ready after {time.monotonic() - started:.1f} s", flush=True)
        models = Models(recogniser, synthesiser, script)
        asyncio.run(serve(models, options.port, options.port_file, options.bind))
    except ImportError as error:
        print(
            f"stand-ins: {error}; install the packages of requirements/standins.txt",
            file=sys.stderr,
        )
        return 2
    except OSError as error:
        print(f"stand-ins: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
