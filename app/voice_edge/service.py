# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as a service: engine, model servers, one session a call, a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from . import hearing
from .adapters import LlmPool, SttPool, TtsPool
from .call import CallSession, Servers
from .callers import first_acl, keep_acl
from .logs import describe
from .machine import Policy
from .metrics import CallMetrics, exposition, serving
from .phrases import PhraseCache
from .ports import EngineLike
from .process import freeze_heap, notify
from .quota import prune
from .servers import pools
from .settings import Settings
from .settings.stock import stock_library
from .tls_files import TlsFiles
from .trunks import Trunks

_log = logging.getLogger(__name__)

# The core says BYE and closes recordings within 3 s; then the sessions have this long to finish.
_SESSIONS_WAIT_S = 2.0
# How long the goodbye may take that calls hear which have not ended in time.
_GOODBYE_S = 8.0
# Told to those who call while we wait for the last calls to end: by then another run may be up.
_RETRY_AFTER_S = 30
# And to those who call while a model server does not answer: it is looked at again by then.
_RETRY_SERVERS_S = 5
# Calls are not kept waiting longer than this for the phrases; what is missing follows later.
_WARM_UP_S = 10.0


def engine_options(settings: Settings) -> dict[str, Any]:
    """The keyword arguments of ``voicecore.EngineConfig``."""
    sip, vad, media = settings.sip, settings.vad, settings.media
    return {
        "bind": sip.bind,
        "sip_port": sip.port,
        "tcp": sip.tcp,
        "public_address": sip.public_address,
        "rtp_ports": (sip.rtp_ports[0], sip.rtp_ports[1]),
        "codecs": sip.codecs,
        "max_calls": sip.max_calls,
        "user_agent": sip.user_agent,
        "nameservers": sip.nameservers,
        "tls_port": sip.tls.port,
        "tls_ca_file": sip.tls.ca_file,
        "tls_cert_file": sip.tls.cert_file,
        "tls_key_file": sip.tls.key_file,
        "tls_verify_client": sip.tls.verify_client,
        "prack": sip.prack,
        "session_timer": sip.timers.session,
        "session_expires_s": sip.timers.session_expires_s,
        "min_session_expires_s": sip.timers.min_session_expires_s,
        "replaces": sip.replaces,
        "redirects": sip.redirects,
        "large_requests": sip.large_requests,
        "recording_dir": None if settings.recording.dir is None else str(settings.recording.dir),
        "preroll_ms": vad.preroll_ms,
        "vad_threshold": vad.threshold,
        "vad_release": vad.release,
        "speech_start_ms": vad.speech_start_ms,
        "speech_end_ms": vad.speech_end_ms,
        "vad_onnxruntime": stock_library(vad),
        "jitter_min_ms": media.jitter_min_ms,
        "jitter_max_ms": media.jitter_max_ms,
        "media_timeout_s": media.timeout_s,
        "media_timeout_dtx_s": media.timeout_dtx_s,
        "comfort_noise": media.comfort_noise,
        "dtmf": media.dtmf,
        "playout_max_s": media.playout_max_s,
        "media_cores": media.cores,
        "media_priority": media.priority,
        "srtp": media.srtp,
        "chunk_ms": media.chunk_ms,
        "echo_guard": media.echo_guard,
        "noise_suppression": media.noise_suppression,
        "gain": media.gain.enabled,
        "gain_target_dbov": media.gain.target_dbov,
        "gain_max_db": media.gain.max_db,
        "voice_level_db": media.mix.voice_db,
        "background": media.mix.background,
        "background_level_db": media.mix.background_db,
        "duck_db": media.mix.duck_db,
        **hearing.engine_options(settings),
    }


def guard_options(settings: Settings) -> dict[str, Any]:
    """The keyword arguments of ``voicecore.GuardConfig``."""
    guard = settings.sip.guard
    options: dict[str, Any] = {
        "acl": first_acl(settings),
        "unlisted": guard.unlisted,
        "realm": guard.realm,
        "users": {user.name: user.password_file.reveal() for user in guard.user},
        "nonce_s": guard.nonce_s,
        "invites_per_s": guard.invites_per_s,
        "invite_burst": guard.invite_burst,
        "calls_per_source": guard.calls_per_source,
        "pending_per_source": guard.pending_per_source,
        "limit_listed": guard.limit_listed,
        "sources_max": guard.sources_max,
    }
    return options if guard.scanners is None else options | {"scanners": guard.scanners}


def core_engine(settings: Settings) -> EngineLike:
    """The real engine. Imported here, so that everything else works without the native module."""
    import voicecore

    guard = voicecore.GuardConfig(**guard_options(settings))
    config = voicecore.EngineConfig(**engine_options(settings), guard=guard)
    engine: EngineLike = voicecore.Engine(config)
    return engine


class Service:
    """``run()`` serves calls until ``stop()`` was called."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Callable[[Settings], EngineLike] = core_engine,
        ready: Callable[[tuple[str, int]], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._make_engine = engine
        self._ready = ready
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self._draining = False
        self._calls: dict[asyncio.Task[None], CallSession] = {}
        self._hearing = hearing.Hearing(settings)
        self._trunks = Trunks(settings)
        self._tls = TlsFiles(settings)
        self._engine: EngineLike | None = None
        self._metrics = CallMetrics()
        self._pools: tuple[LlmPool, TtsPool, SttPool] | tuple[()] = ()

    def stop(self) -> None:
        """Ask for a clean stop: no further calls, time for those that are up, then BYE, files closed."""
        self._stopping.set()

    def end_drain(self) -> bool:
        """Give the calls that are up no more time. False when nobody waits for calls."""
        self._at_once.set()
        return self._draining

    def reread(self) -> None:
        """Take in password files of trunks and files of TLS that have changed. Calls go on."""
        changed = self._trunks.reread()
        _log.info("passwords read again, %d changed", changed)
        if self._engine is not None:
            self._tls.reread(self._engine)

    async def run(self) -> None:
        settings = self._settings
        if settings.recording.dir is not None:
            settings.recording.dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._keep_quota()
        async with contextlib.AsyncExitStack() as stack:
            llm, tts, stt = self._pools = pools(settings)
            for pool in self._pools:
                await stack.enter_async_context(pool)
            await self._serve_metrics(stack)
            phrases = PhraseCache(tts, Policy.of(settings).phrases)
            await self._serve(Servers(llm, tts, stt, phrases))
        for pool in self._pools:
            for member in pool.members:
                _log.info("%s %s", member.label, member.client.metrics.summary())

    async def _serve_metrics(self, stack: contextlib.AsyncExitStack) -> None:
        """Calls matter more: without the port the agent runs all the same."""
        where = self._settings.metrics

        def render() -> str:
            engine = None if self._engine is None else self._engine.stats()
            return exposition(self._metrics, len(self._calls), self._pools, engine)

        try:
            at = await stack.enter_async_context(serving(where.bind, where.port, render))
        except OSError as error:
            _log.error(
                "no metrics on %s port %s: %s; change metrics.port",
                where.bind,
                where.port,
                error.strerror,
            )
            return
        if at is not None:
            _log.info("metrics on %s port %d", at[0], at[1])

    async def _serve(self, servers: Servers) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WARM_UP_S):
                await self._until_stop(servers.phrases.fill())
        freeze_heap()
        if self._stopping.is_set():
            return
        engine = self._make_engine(self._settings)
        await engine.start()
        filler = asyncio.create_task(servers.phrases.keep_filling())
        probes = [asyncio.create_task(pool.keep_probing()) for pool in self._pools]
        acl = asyncio.create_task(keep_acl(self._settings, engine))
        acceptor = asyncio.create_task(self._accept(engine, servers))
        self._trunks.add_to(engine)
        passwords = asyncio.create_task(self._trunks.keep_reading())
        telling = asyncio.create_task(self._trunks.keep_telling(engine))
        self._engine = engine
        certificates = asyncio.create_task(self._tls.keep_reading(engine))
        try:
            host, port = engine.sip_address
            _log.info("ready: SIP on %s port %d", host, port)
            self._ready((host, port))
            await self._until_stop(asyncio.shield(acceptor))
            await self._drain(engine)
        finally:
            _log.info("stopping, %d calls up", len(self._calls))
            filler.cancel()
            for probe in probes:
                probe.cancel()
            acl.cancel()
            passwords.cancel()
            telling.cancel()
            certificates.cancel()
            self._engine = None
            figures = _summary(engine.stats())  # a stopped engine has none
            await engine.stop()
            await self._finish_calls()
            acceptor.cancel()
            await asyncio.gather(
                filler, *probes, acl, passwords, telling, acceptor, return_exceptions=True
            )
            self._hearing.close()
            _log.info("stopped: %s", figures)

    async def _drain(self, engine: EngineLike) -> None:
        """New calls are refused while those that are up may end by themselves."""
        limit = self._settings.service.drain_s
        if limit <= 0 or not self._calls:
            return
        engine.drain(retry_after_s=_RETRY_AFTER_S)
        _log.info("draining: %d calls up, for %g s at most", len(self._calls), limit)
        # systemd kills what takes longer than TimeoutStopSec unless told so (sd_notify(3)).
        notify(f"EXTEND_TIMEOUT_USEC={int((limit + _GOODBYE_S + 10) * 1e6)}")
        self._draining = True
        try:
            if await self._ended_within(limit):
                return
            _log.warning("%d calls did not end in time: they are told goodbye", len(self._calls))
            for session in list(self._calls.values()):
                session.farewell()
            await self._ended_within(_GOODBYE_S)
        finally:
            self._draining = False

    async def _ended_within(self, seconds: float) -> bool:
        """Whether no call is up any more, or none is to be waited for; False when some are up after that time."""
        try:
            async with asyncio.timeout(seconds):
                await self._until(self._at_once, self._all_ended())
        except TimeoutError:
            return False
        return True

    async def _all_ended(self) -> None:
        while self._calls:
            await asyncio.wait(self._calls)

    async def _until_stop(self, work: Any) -> None:
        """Await ``work`` or the stop, whichever comes first."""
        await self._until(self._stopping, work)

    async def _until(self, event: asyncio.Event, work: Any) -> None:
        job = asyncio.ensure_future(work)
        stop = asyncio.create_task(event.wait())
        try:
            await asyncio.wait((job, stop), return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                job.result()
        finally:
            for task in (job, stop):
                task.cancel()
            await asyncio.gather(job, stop, return_exceptions=True)

    async def _accept(self, engine: EngineLike, servers: Servers) -> None:
        policy = Policy.of(self._settings)
        async for call in engine.incoming():
            if self._stopping.is_set():
                call.reject(503, retry_after=10)
                continue
            down = self._down()
            if down and self._settings.service.admission == "refuse":
                _log.warning("call=%d refused: no %s server answers", call.id, down)
                call.reject(503, retry_after=_RETRY_SERVERS_S)
                self._metrics.refused[down] += 1
                continue
            fallen = bool(down) and self._settings.service.admission == "fallback"
            session = CallSession(self._hearing.hear(call), servers, policy, fallen=fallen)
            task = asyncio.create_task(self._session(session, call))
            self._calls[task] = session
            task.add_done_callback(lambda done: self._calls.pop(done, None))

    def _down(self) -> str:
        """The first kind of server that cannot carry a call now; empty when all can."""
        return next((pool.name for pool in self._pools if not pool.up), "")

    async def _session(self, session: CallSession, call: Any) -> None:
        """One call's fault must not reach another's."""
        try:
            await session.run()
        except Exception as error:
            _log.error("call=%d failed: %s", call.id, describe(error), exc_info=error)
            with contextlib.suppress(Exception):
                call.hangup()
        finally:
            underruns = session.figures.get("playout_underruns", 0)
            self._metrics.observe(session.machine.history, underruns)
            await self._keep_quota()

    async def _keep_quota(self) -> None:
        where = self._settings.recording
        if where.dir is not None and where.quota_mb is not None:
            await asyncio.to_thread(prune, where.dir, where.quota_mb * 1_000_000)

    async def _finish_calls(self) -> None:
        if not self._calls:
            return
        _, late = await asyncio.wait(self._calls, timeout=_SESSIONS_WAIT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def _summary(stats: Any) -> str:
    names: tuple[str, ...] = (
        "calls_total",
        "ticks",
        "late_ticks",
        "max_lateness_us",
        "lateness_p99_us",
        "rx_packets",
        "rx_lost",
    )
    names += ("tx_packets", "tx_errors", "events_dropped", "sip_malformed", "sip_rejected")
    names += ("sip_unlisted", "sip_scanners", "sip_muted", "sip_limited", "sip_auth_failed")
    names += ("registrations", "registrations_up", "trunks", "trunks_up")
    return " ".join(f"{n}={getattr(stats, n)}" for n in names if hasattr(stats, n))
