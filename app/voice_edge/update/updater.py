# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of an update at a time; every step may be cut off by the mains and is then done again.

idle → (check, load) → fetched → (RAUC writes the other slot) → written → (in the window: other slot next, restart)
→ switched → (marked good) → idle. A box that comes back in the old slot finds ``switched`` and knows what happened.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from ..appliance.answers import UpdateAnswers
from . import fetch, policy, state
from .box import Box, UpdateError, day, other
from .fetch import FetchError
from .gate import keep_settings
from .index import BadIndexError, Release, parse
from .refusals import Refusal
from .state import FETCHED, IDLE, SWITCHED, WRITTEN, State

HOUR_S = 3_600
STICK = "run/stick/voice-edge-updates"


class Updater:
    """``now`` is Unix time and may be a test's; ``log`` gets a line an operator reads in the journal."""

    def __init__(
        self,
        box: Box,
        wanted: UpdateAnswers,
        *,
        now: Callable[[], float],
        log: Callable[[str], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._box = box
        self._wanted = wanted
        self._now = now
        self._log = log
        self._tls = tls
        self.state = state.load(box.state)

    def _keep(self, **changes: object) -> None:
        self.state = dataclasses.replace(self.state, **changes)  # type: ignore[arg-type]
        state.save(self._box.state, self.state)

    def _fail(self, version: str, reason: str) -> None:
        self._log(reason)
        self.state = self.state.failed(version, self._now(), reason)
        state.save(self._box.state, self.state)

    # What happened while nobody looked.

    def reconcile(self) -> None:
        """After a boot: did the box come up in the slot it was sent to, and is that marked good?"""
        kept = self.state
        running = self._box.slot()
        if kept.phase == SWITCHED and running == kept.from_slot:
            self._came_back(kept)
        elif kept.phase == SWITCHED and self._box.slot_good():
            self._log(f"ota.done: {kept.version} runs in slot {running} and is marked good")
            self._drop_files()
            self._keep(phase=IDLE, version="", file="", downgrade=False)
        if self._box.slot_good():
            version = self._box.release().get("VERSION", "")
            if version and version != self.state.last_good:
                self._keep(last_good=version)

    def _came_back(self, kept: State) -> None:
        """The old slot runs: not restarted yet, never sent, or sent and come back."""
        counters = self._box.counters()
        gate = self._box.folder / f"gate-{kept.version}.txt"
        try:
            said = gate.read_text().strip()
            gate.unlink()
        except OSError:
            said = ""
        # RAUC leaves a slot it wrote as not to be started; so one that is was sent to.
        sent = counters.get(f"{other(kept.from_slot)}_OK") == "1"
        if not said and not sent:
            self._log(f"ota.again: the restart into {kept.version} was cut off before it began")
            self._keep(phase=WRITTEN)
        elif said or kept.boot != self._box.boot_id():
            said = said or f"{kept.version} did not start, or was cut off three times"
            running = f"{kept.from_version} runs again"
            self._fail(kept.version, f"ota.rolled-back: {said}. {running}")

    # Steps.

    async def step(self) -> None:
        """What is due now. Errors are told and kept; the next run goes on from there."""
        self.reconcile()
        try:
            if self.state.phase == IDLE:
                await self._idle()
            if self.state.phase == FETCHED:
                self.write()
            if self.state.phase == WRITTEN and self._may_switch():
                self.switch()
        except UpdateError as error:
            self._put_off(error.refusal)
        except FetchError as error:
            self._put_off(error.refusal)
        except OSError as error:
            what = f"{error.filename}: {error.strerror}"
            self._put_off(Refusal("ota.disk", what, "See journalctl -k", again=True))

    def _put_off(self, refusal: Refusal) -> None:
        if not refusal.again and self.state.version:
            self._drop_files()
            self._fail(self.state.version, refusal.text())
            return
        tries = self.state.tries + 1
        wait = policy.wait_s(tries, self._wanted.poll_hours * HOUR_S)
        wait += policy.spread(self._box.machine_id(), wait / 4)
        self._log(f"{refusal.text()} (again in {wait / 60:.0f} minutes)")
        self._keep(tries=tries, next_try=int(self._now() + wait), said=refusal.text())

    async def _idle(self) -> None:
        now = self._now()
        stick = self._box.places.root / STICK / f"{self._wanted.channel}.json"
        on_stick = stick.is_file()
        if not on_stick and (self._wanted.url is None or now < self.state.next_try):
            return
        chosen = await self.check(stick if on_stick else None)
        if chosen.release is not None and (self._wanted.automatic or on_stick):
            await self.load(chosen.release)

    async def check(self, stick: Path | None = None) -> policy.Choice:
        """Ask the channel. Raises :class:`FetchError`."""
        now = self._now()
        release = self._box.release()
        if fault := policy.clock_fault(now, float(release.get("BUILD_TIME") or 0)):
            code, _, what = fault.partition(": ")
            raise FetchError(Refusal(code, what, "It is tried again", again=True))
        if stick is not None:
            url = f"file://{quote(str(stick))}"
        else:
            url = f"{(self._wanted.url or '').rstrip('/')}/{self._wanted.channel}.json"
        try:
            index = parse(await fetch.index(url, tls=self._tls), url)
        except BadIndexError as error:
            refusal = Refusal("ota.bad-index", str(error), "Tell who runs the channel", again=True)
            raise FetchError(refusal) from None
        if stick is None and index.serial < self.state.serial:
            what = f"the index has serial {index.serial}, {self.state.serial} was seen before"
            raise FetchError(Refusal("ota.old-index", what, "Tell who runs the channel", True))
        chosen = policy.choose(
            index,
            compatible=self._box.compatible(),
            running=release.get("VERSION", "0.0.0"),
            machine_id=self._box.machine_id(),
            pin=self._wanted.pin,
            failed=[f.version for f in self.state.failures],
        )
        period = self._wanted.poll_hours * HOUR_S
        later = now + period + policy.spread(self._box.machine_id(), period / 4)
        serial = self.state.serial if stick is not None else index.serial
        self._keep(checked=int(now), said=chosen.why, tries=0, next_try=int(later), serial=serial)
        return chosen

    async def load(self, release: Release) -> None:
        """Fetch it to /data. Raises :class:`FetchError`."""
        self._keep(version=release.version)
        path = await fetch.release(release, self._box.folder, tls=self._tls)
        self._log(f"ota.loaded: {release.version}")
        self._keep(phase=FETCHED, file=str(path), tries=0)

    def write(self) -> None:
        """RAUC writes the other slot; the running one serves calls. Raises :class:`UpdateError`."""
        kept = self.state
        if kept.tries and self._now() < kept.next_try:
            return
        self._box.install(Path(kept.file), downgrade=kept.downgrade)
        self._log(f"ota.written: {kept.version} is in slot {other(self._box.slot())}")
        self._keep(phase=WRITTEN, tries=0)

    def _may_switch(self) -> bool:
        now = self._now()
        if self.state.now:
            return True
        if not self._wanted.automatic or now < self.state.postponed:
            return False
        return policy.window(self._wanted.window).open_at(now)

    def switch(self) -> None:
        """The other slot next, and a restart that waits for calls. Raises :class:`UpdateError`."""
        slot = self._box.slot()
        release = self._box.release()
        # Kept before the counters change: a box cut off in between finds that it was never sent, and tries again.
        keep_settings(self._box)
        call, trunks = self._box.loop_call(), self._box.trunks_up()
        self._keep(
            phase=SWITCHED,
            from_slot=slot,
            from_version=release.get("VERSION", ""),
            boot=self._box.boot_id(),
            call_before=call,
            trunks_before=trunks,
            at=int(self._now()),
            now=False,
        )
        try:
            self._box.start_next(other(slot))
        except UpdateError:
            self._keep(phase=WRITTEN)
            raise
        self._log(f"ota.switching: restarting into slot {other(slot)} with {self.state.version}")
        self._box.reboot()

    def _drop_files(self) -> None:
        for path in self._box.folder.glob("*.raucb"):
            path.unlink()

    # What an operator asks for.

    def take(self, path: Path, version: str, *, downgrade: bool) -> None:
        """A file given by hand: written now. Raises :class:`UpdateError`."""
        self._keep(phase=FETCHED, version=version, file=str(path), downgrade=downgrade, tries=0)
        try:
            self.write()
        except UpdateError as error:
            self._fail(version, error.refusal.text())
            raise

    def postpone(self, hours: float) -> None:
        self._keep(postponed=int(self._now() + hours * HOUR_S), now=False)

    def switch_now(self) -> bool:
        """Outside of the window too. False when nothing is written."""
        if self.state.phase != WRITTEN:
            return False
        self._keep(now=True)
        self.switch()
        return True

    def rollback(self) -> None:
        """Back to the other slot. Raises :class:`UpdateError`."""
        slot = self._box.slot()
        if self.state.phase == WRITTEN:
            self._fail(self.state.version, "ota.withdrawn: taken back before it was switched to")
            return
        version = self._box.release().get("VERSION", "")
        self._box.start_next(other(slot))
        self._fail(version, f"ota.rolled-back: {version} was left by hand")
        self._log(f"ota.rolling-back: restarting into slot {other(slot)}")
        self._box.reboot()

    def page(self) -> list[str]:
        """What an operator reads."""
        kept = self.state
        phases = {
            IDLE: "nothing is under way",
            FETCHED: f"{kept.version} is loaded and is being written",
            WRITTEN: f"{kept.version} is written; restart {self._when()}",
            SWITCHED: f"{kept.version} was started and must prove itself",
        }
        lines = [phases[kept.phase]]
        if self._wanted.url is None:
            lines.append("no channel is set: updates come by stick or by hand")
        else:
            lines.append(
                f"channel {self._wanted.channel}, asked {day(kept.checked)}: {kept.said or 'nothing yet'}"
            )
        if self._wanted.pin is not None:
            lines.append(f"pinned to {self._wanted.pin}")
        lines += [f"failed {day(f.at)}: {f.version}: {f.reason}" for f in kept.failures]
        return lines

    def _when(self) -> str:
        if self.state.postponed > self._now():
            return f"postponed until {day(self.state.postponed)}"
        if not self._wanted.automatic:
            return "when asked for: voice-edge update install --now"
        return f"between {self._wanted.window.replace('-', ' and ')}"
