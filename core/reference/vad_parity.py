# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the engine's voice-activity kernel with the stock model over recorded speech.

    cargo build --release -p voicecore-engine --example vad_file
    python -m core.reference.vad_parity target/release/examples/vad_file BACKEND FOLDER...

Every 8 kHz mono 16-bit WAV file under the folders (such as Debian's asterisk-core-sounds-en-wav)
is heard from fresh state, at 8 kHz and, interpolated, at 16 kHz. Prints the largest difference of
a probability and whether the speech events are the same; exit status 1 when a difference is over
1e-4 or an event differs.
"""

from __future__ import annotations

import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

from core.reference.silero import WINDOW, Samples, Stock

START, END = 0.5, 0.35  # thresholds of the speech events, as in the engine's defaults
LIMIT = 1e-4


def read(path: Path) -> Samples | None:
    """Samples in [-1, 1), or None where the file is no 8 kHz mono 16-bit WAV."""
    try:
        with wave.open(str(path)) as sound:
            if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (8000, 1, 2):
                return None
            samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    except (wave.Error, EOFError):
        return None
    return (samples / 32768).astype(np.float32)


def at_rate(samples: Samples, rate: int) -> Samples:
    """8 kHz samples at `rate`, by linear interpolation."""
    if rate == 8000:
        return samples
    times = np.arange(len(samples) * rate // 8000) * 8000 / rate
    return np.interp(times, np.arange(len(samples)), samples).astype(np.float32)


def events(probabilities: Samples) -> list[tuple[int, bool]]:
    """Window and direction of each change between silence and speech."""
    speech, found = False, []
    for k, p in enumerate(probabilities):
        if (p < END) if speech else (p >= START):
            speech = not speech
            found.append((k, speech))
    return found


def kernel(program: str, backend: str, samples: Samples, rate: int) -> Samples:
    """The kernel's probability of each whole window."""
    run = subprocess.run(
        [program, str(rate), backend], input=samples.tobytes(), capture_output=True, check=True
    )
    return np.frombuffer(run.stdout, "<f4")


def main(program: str, backend: str, folders: list[str]) -> int:
    stock = Stock()
    sounds = [read(path) for folder in folders for path in sorted(Path(folder).rglob("*.wav"))]
    failed = False
    for rate, window in WINDOW.items():
        files = windows = happened = 0
        differences, unequal = [0.0], 0
        for sound in sounds:
            if sound is None or len(sound) < 256:
                continue
            samples = at_rate(sound, rate)
            expected = stock.probabilities(samples, rate)
            found = kernel(program, backend, samples, rate)
            differences.append(float(np.abs(found - expected).max()))
            files, windows = files + 1, windows + len(expected)
            happened += len(events(expected))
            unequal += events(found) != events(expected)
        print(
            f"{backend}, {rate} Hz: {files} files, {windows * window / rate / 60:.1f} min, "
            f"{windows} windows, max |Δp| {max(differences):.2e}, {happened} speech events, "
            f"{'all the same' if unequal == 0 else f'different in {unequal} files'}"
        )
        failed |= files == 0 or max(differences) > LIMIT or unequal > 0
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: vad_parity VAD_FILE BACKEND FOLDER...")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
