# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine on asyncio: one descriptor in the loop, one drain for each wake-up."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType

from voicecore import _core
from voicecore._address import Address
from voicecore._blocking import run_to_end
from voicecore._call import Call
from voicecore._checks import DAY_S, label, patience, seconds, whole
from voicecore._core import Audio, EngineConfig, EngineStats, ThreadStalled
from voicecore._errors import ConfigError, SignallingError, VoicecoreError
from voicecore._registration import Registration
from voicecore._srtp import SrtpPeers, checked
from voicecore._stream import Stream
from voicecore._trunk import Trunk

_log = logging.getLogger("voicecore")


class Engine:
    """SIP and media for many calls. ``async with Engine(config) as engine: …``

    Use it from one event loop. Several engines may run in one process: they share one SIP stack, which
    takes its User-Agent from the first and keeps an engine's SIP port until the last one has stopped.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._native = _core.Engine(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = -1
        self._address: tuple[str, int] | None = None
        self._calls: dict[int, Call] = {}
        self._registrations: dict[int, Registration] = {}
        self._trunks: list[Trunk] = []
        self._srtp = SrtpPeers(self._native)
        self._incoming: Stream[Call] = Stream(config.max_calls)
        self._events_dropped = 0
        self._draining = False
        self._stall_callbacks: list[Callable[[ThreadStalled], object]] = []
        # An engine that is forgotten, or still runs when the interpreter ends, closes its
        # recordings and says BYE all the same.
        self._finalizer = weakref.finalize(self, _stop_quietly, self._native)

    async def __aenter__(self) -> Engine:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Binds the sockets and starts the threads.

        Raises:
            SignallingError: ``engine.port_in_use`` and the like, naming address, port and remedy.
            VoicecoreError: ``engine.already_running``, or the media thread could not start.
        """
        try:
            self._address = await run_to_end(self._native.start)
        except asyncio.CancelledError:
            await run_to_end(self._native.stop)
            raise
        self._loop = asyncio.get_running_loop()
        self._fd = self._native.event_fd()
        self._loop.add_reader(self._fd, self._drain)

    async def stop(self) -> None:
        """Ends all calls, unregisters, closes recordings, joins threads; within 3 s.

        `Call.events` of calls that were up end with `CallEnded`. May be called again.
        """
        self._incoming.close()
        self._srtp.stop()
        try:
            await run_to_end(self._native.stop)
        finally:
            if self._loop is not None:
                self._loop.remove_reader(self._fd)
                self._loop = None
                self._drain()
            self._finalizer.detach()

    @property
    def sip_address(self) -> tuple[str, int]:
        """Address and port SIP is bound to."""
        if self._address is None:
            raise VoicecoreError("the engine was not started", code="engine.not_running")
        return self._address

    def incoming(self) -> AsyncIterator[Call]:
        """Calls that come in, for one consumer; ends when the engine stops."""
        return self._incoming

    async def dial(
        self,
        uri: str,
        *,
        timeout_s: float = 60.0,
        username: str | None = None,
        password: str | None = None,
        late_offer: bool = False,
        srtp: str | None = None,
        trunk: Trunk | None = None,
    ) -> Call:
        """Calls ``uri`` and returns the call when it is answered and confirmed.

        A host name is looked up (SRV, then A and AAAA, RFC 3263), and when a server is silent, refuses the
        connection or answers 503, the next one is tried.

        Args:
            uri: whom to call; over a trunk a number or name will do.
            timeout_s: longest wait for the answer.
            username: for digest authentication.
            password: for digest authentication.
            late_offer: send an INVITE without SDP; the peer makes the offer in its answer.
            srtp: "off", "optional" or "required" for this call; the trunk's, else as in `EngineConfig` unless given.
            trunk: over which to call: its proxy, our name there, and its credentials unless given here.

        Raises:
            ConfigError: ``srtp`` is none of these, or ``timeout_s`` is negative or no number.
            SignallingError: with the peer's ``status``; ``sip.dial_timeout`` (status 408) when it
                was not answered within ``timeout_s``. Cancelling this coroutine cancels the call.
        """
        patience(timeout_s)
        call = await self.place(
            uri,
            username=username,
            password=password,
            late_offer=late_offer,
            srtp=srtp,
            trunk=trunk,
        )
        await self._until_answered(call, timeout_s)
        return call

    async def place(
        self,
        uri: str,
        *,
        username: str | None = None,
        password: str | None = None,
        late_offer: bool = False,
        srtp: str | None = None,
        trunk: Trunk | None = None,
    ) -> Call:
        """Calls ``uri`` and returns the call at once; `Call.answered` waits for the answer.

        Until then `Call.events` has `CallProgress` and, when the peer sends audio before it answers,
        `EarlyMedia`: from then on the call can be heard and played to.
        """
        aor = proxy = None
        if trunk is not None:
            uri, aor, proxy = trunk.uri(uri), trunk._aor, trunk._proxy
            if username is None:
                username, password = trunk._username, trunk._password
            srtp = srtp or trunk.srtp
        hint = None if proxy else _literal(uri)
        call_id = self._native.dial(uri, hint, username, password, late_offer, srtp, aor, proxy)
        return self._out(call_id, Address(uri))

    async def follow_transfer(
        self,
        call: Call,
        *,
        timeout_s: float = 60.0,
        username: str | None = None,
        password: str | None = None,
    ) -> Call:
        """Calls whom the far end of ``call`` asked for by `TransferRequested`; the far end is told how it
        goes and usually hangs up ``call`` itself. Returns and raises as `dial`.
        """
        target = call._transfer_target
        if target is None:
            raise SignallingError(
                f"call {call.id}: its far end has not asked for a transfer", code="sip.not_ready"
            )
        patience(timeout_s)
        call._transfer_target = None
        new = self._out(self._native.follow_transfer(call.id, username, password), target)
        await self._until_answered(new, timeout_s)
        return new

    def _out(self, call_id: int, dialled: Address) -> Call:
        caller = Address(f"sip:{self.sip_address[0]}")
        call = Call(self._native, call_id, direction="out", caller=caller, dialled=dialled)
        self._calls[call_id] = call
        return call

    async def _until_answered(self, call: Call, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await call._wait_answered()
        except TimeoutError:
            call.hangup()
            raise SignallingError(
                f"call {call.id} was not answered within {timeout_s:g} s and is cancelled",
                code="sip.dial_timeout",
                status=408,
            ) from None
        except asyncio.CancelledError:
            call.hangup()
            raise

    def register(
        self,
        *,
        aor: str,
        registrar: str,
        username: str,
        password: str,
        realm: str = "*",
        expires_s: int = 300,
        proxy: str | None = None,
        name: str = "registration",
        retry_first_s: float = 5.0,
        retry_max_s: float = 300.0,
    ) -> Registration:
        """Registers ``aor`` (sip:user@domain) with ``registrar`` (sip:host) and keeps it so.

        Digest with MD5, SHA-256 or SHA-512-256 (RFC 8760). When a server fails the next one of its name is
        tried at once; when all have, after a pause.

        Args:
            aor: what we are registered as.
            registrar: where; ``;transport=tcp`` or ``tls`` in it choose the transport.
            username: for digest authentication.
            password: for digest authentication.
            realm: that they are for; "*" is any.
            expires_s: lifetime asked for; it is renewed before it runs out.
            proxy: SIP URI that the REGISTER goes through.
            name: what log lines call it.
            retry_first_s: pause after a failure; it doubles, with jitter. Refused credentials wait 12 times as
                long; Retry-After of the registrar is kept to.
            retry_max_s: longest pause.

        Raises:
            ConfigError: a number is out of range, or ``name`` is no line of a log.
        """
        label(name)
        whole("expires_s", expires_s, 1, 604_800)
        seconds("retry_first_s", retry_first_s, 0.001)
        seconds("retry_max_s", retry_max_s, 0.001)
        registration_id = self._native.register(
            name,
            aor,
            registrar,
            proxy,
            username,
            password,
            realm,
            expires_s,
            retry_first_s,
            retry_max_s,
        )
        registration = Registration(self._native, registration_id, name)
        self._registrations[registration_id] = registration
        return registration

    def add_trunk(
        self,
        name: str,
        *,
        server: str,
        register: bool = False,
        aor: str | None = None,
        username: str | None = None,
        password: str | None = None,
        realm: str = "*",
        expires_s: int = 300,
        proxy: str | None = None,
        options_s: float = 0.0,
        options_timeout_s: float = 4.0,
        srtp: str | None = None,
    ) -> Trunk:
        """Makes a trunk known, for `dial`. Without ``register`` it knows us by our address.

        Args:
            name: what log lines call it.
            server: SIP URI of the registrar or of the provider's server, without a user part.
            register: register there and keep it so; needs ``aor``, ``username`` and ``password``.
            aor: our name there, sip:user@domain; From of our calls.
            username: for digest authentication.
            password: for digest authentication.
            realm: that they are for; "*" is any.
            expires_s: lifetime of the registration.
            proxy: outbound proxy, for registration and calls.
            options_s: interval of OPTIONS, by which `Trunk.state` is known; 0 sends none.
            options_timeout_s: how long each server may be silent.
            srtp: "off", "optional" or "required" for calls over this trunk, both ways; as in `EngineConfig` unless
                given. Calls that come in are the trunk's when they come from an address of ``server`` or ``proxy``.

        Raises:
            ConfigError: ``register`` without what it needs; ``srtp`` that is not known; what `check_trunk` refuses.
        """
        _core.check_trunk(
            server=server,
            proxy=proxy,
            aor=aor,
            username=username,
            password=password,
            realm=realm,
            expires_s=expires_s,
            name=name,
        )
        seconds("options_s", options_s)
        seconds("options_timeout_s", options_timeout_s, 0.001)
        srtp, registration = checked(srtp), None
        if register:
            if aor is None or username is None or password is None:
                raise ConfigError(
                    f"trunk {name}: register needs aor, username and password; give all three"
                )
            registration = self.register(
                aor=aor,
                registrar=server,
                username=username,
                password=password,
                realm=realm,
                expires_s=expires_s,
                proxy=proxy,
                name=name,
            )
        trunk = Trunk(
            self._native,
            name,
            server,
            proxy=proxy,
            aor=aor,
            username=username,
            password=password,
            registration=registration,
            srtp=srtp,
        )
        if options_s > 0:
            trunk._watch = self._native.watch(
                name, server, aor, proxy, options_s, options_timeout_s
            )
        trunk._forget = lambda: self._forget(trunk)
        self._trunks.append(trunk)
        if trunk.srtp is not None:
            self._srtp.add(trunk, trunk.srtp)
        return trunk

    def _forget(self, trunk: Trunk) -> None:
        if trunk in self._trunks:
            self._trunks.remove(trunk)
            self._srtp.remove(trunk)

    @property
    def trunks(self) -> tuple[Trunk, ...]:
        """All that were added and not removed."""
        return tuple(self._trunks)

    def drain(self, *, retry_after_s: int = 30) -> None:
        """From now on new calls, and OPTIONS outside of calls, get 503 with Retry-After.

        Dispatchers take this engine out; calls that are up go on, and `dial` still works. May be called again,
        with another time.

        Raises:
            VoicecoreError: ``engine.not_running``.
        """
        whole("retry_after_s", retry_after_s, 0, DAY_S)
        self._native.set_draining(retry_after_s)
        self._draining = True

    def undrain(self) -> None:
        """New calls are taken again."""
        self._native.set_draining(None)
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether new calls are refused because of `drain`."""
        return self._draining

    def set_acl(self, acl: Sequence[str] | None) -> None:
        """Replaces `GuardConfig.acl`, for requests that come from now on.

        Raises:
            ConfigError: an entry is no network.
            VoicecoreError: ``engine.not_running``.
        """
        self._native.set_acl(acl)

    def reload_tls(self) -> None:
        """Reads ``tls_ca_file``, ``tls_cert_file`` and ``tls_key_file`` again, for connections from now on.

        Connections and calls that are up go on. Files that cannot be used are refused, and the old ones stay in use
        for those who connect to us; our own connections read the files each time.

        Raises:
            ConfigError: with the file and the reason.
            VoicecoreError: ``engine.not_running``.
        """
        self._native.reload_tls()

    def on_stall(self, callback: Callable[[ThreadStalled], object]) -> None:
        """Calls ``callback(stall)`` in the event loop when a thread is stuck and when it runs again.

        It is logged as a warning in any case.
        """
        self._stall_callbacks.append(callback)

    def stats(self) -> EngineStats:
        """Counters since start."""
        return self._native.stats(self._events_dropped)

    # One wake-up of the loop.

    def _drain(self) -> None:
        try:
            calls, events = self._native.drain()
        except Exception:
            # A reader that raises is called again at once, for ever.
            _log.exception("drain failed; the events of this batch are lost")
            return
        for call_id, event in zip(calls, events, strict=True):
            try:
                # Nearly all are: they do not go through the list of all kinds.
                if isinstance(event, Audio):
                    call = self._calls.get(call_id)
                    if call is not None and not call._hear(event):
                        self._events_dropped += 1
                else:
                    self._dispatch(call_id, event)
            except Exception:
                _log.exception("call %d: handling %s failed", call_id, type(event).__name__)

    def _dispatch(self, call_id: int, event: _core._Event) -> None:
        call = self._calls.get(call_id)
        match event:
            case _core.IncomingCall():
                self._on_incoming(call_id, event)
            case _core.RegistrationChanged():
                self._on_registration(event)
            case _core.TrunkAnswered():
                for trunk in self._trunks:
                    if trunk._watch == event.watch:
                        trunk._on_event(event)
            case _core.ThreadStalled():
                self._on_stalled(event)
            case _core.LogMessage():
                _log.log(event.level, "%s", event.message)
            case _ if call is None:
                # Its Call has ended, or belongs to a dial() that was refused here.
                return
            case _core.CallProgress():
                call._on_progress(event)
            case _core.CallConfirmed():
                call._on_confirmed(event)
            case _core.CommandFailed():
                call._on_failed(event)
            case _core.EarlyMedia():
                call._on_early(event)
            case _core.OperationDone():
                call._on_done(event)
            case _core.TransferAsked():
                call._on_transfer_asked(Address(event.target))
            case _core.PeerReplaced():
                call._on_replaced(event)
            case _core.TransferProgress():
                call._on_transfer(event)
                call._put(event)
            case _core.DtmfSent() | _core.InfoDone():
                call._dtmf.on_event(event)
            case _core.CallEnded():
                del self._calls[call_id]
                call._on_ended(event)
            case _:
                call._put(event)

    def _on_stalled(self, event: ThreadStalled) -> None:
        _log.warning("%s", event.message)
        for callback in self._stall_callbacks:
            callback(event)

    def _on_incoming(self, call_id: int, event: _core.IncomingCall) -> None:
        call = Call(
            self._native,
            call_id,
            direction="in",
            caller=Address(event.caller),
            dialled=Address(event.dialled),
            sip_call_id=event.sip_call_id,
            source=event.source,
            account=event.account,
        )
        self._calls[call_id] = call
        if not self._incoming.put(call):
            call.reject(503, retry_after=5)

    def _on_registration(self, event: _core.RegistrationChanged) -> None:
        registration = self._registrations.get(event.registration)
        if registration is None:
            return
        registration._on_event(event)
        if registration.state == "unregistered":
            del self._registrations[event.registration]


def _literal(uri: str) -> str | None:
    """The host of a SIP URI when it is an address: from it the core tells our own towards it."""
    try:
        return str(ipaddress.ip_address(Address(uri).host))
    except ValueError:
        return None


def _stop_quietly(native: _core.Engine) -> None:
    try:
        native.stop()
    except VoicecoreError:
        _log.exception("stopping an engine that was left running failed")
