// SPDX-License-Identifier: GPL-3.0-or-later
//! The native engine. Threads of Rust never take the interpreter lock: everything comes by `drain`.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySequence};
use voicecore_engine as core;
use voicecore_engine::events::MediaEvent;
use voicecore_engine::media::ListenChange;
use voicecore_engine::{EngineEvent, EventBatch, LogLevel, SignalEvent};

use crate::background::Background;
use crate::config::{address, codec, delivered, ranged, srtp_mode, EngineConfig};
use crate::dialog_events;
use crate::errors::{raise, raise_code};
use crate::events::{
    Audio, CallConfirmed, CallEnded, CallProgress, CommandFailed, Dtmf, DtmfSent, IncomingCall,
    InfoDone, LogMessage, MediaTimeout, Pcm, PlayoutFinished, PlayoutStarted, RegistrationChanged,
    SpeechEnded, SpeechStarted, ThreadStalled, TrunkAnswered,
};
use crate::number::maybe_whole;
use crate::stats::{CallStats, EngineStats};

/// Native engine behind `voicecore.Engine`.
#[pyclass(frozen, module = "voicecore._core")]
pub struct Engine {
    inner: core::Engine,
    batch: Mutex<EventBatch>,
}

/// A call's id, or 0, and what is told of it.
pub type Told<'py> = (u64, Bound<'py, PyAny>);

/// The calls' ids, or 0, and what is told of each: no tuple for each event, which the garbage collector would look at.
pub type Lists<'py> = (Bound<'py, PyList>, Bound<'py, PyList>);

pub fn event<T>(py: Python<'_>, call: u64, event: T) -> PyResult<Told<'_>>
where
    T: pyo3::PyClass + Into<PyClassInitializer<T>>,
{
    Ok((call, Bound::new(py, event)?.into_any()))
}

/// Takes the events out of the batch.
pub fn to_python<'py>(py: Python<'py>, batch: &mut EventBatch) -> PyResult<Lists<'py>> {
    let audio = PyMemoryView::from(PyBytes::new(py, &batch.audio).as_any())?;
    let audio = audio.into_any().cast_into::<PySequence>()?;
    let (mut calls, mut events) = (Vec::new(), Vec::new());
    calls.reserve(batch.events.len());
    events.reserve(batch.events.len());
    for one in batch.events.drain(..) {
        let (call, event) = convert(py, one, &audio)?;
        calls.push(call);
        events.push(event);
    }
    Ok((PyList::new(py, calls)?, PyList::new(py, events)?))
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, EngineConfig>) -> PyResult<Self> {
        let inner = core::Engine::new(config.get().inner.clone()).map_err(|e| raise(py, &e))?;
        Ok(Engine { inner, batch: Mutex::default() })
    }

    /// Binds sockets, starts threads; blocks for some milliseconds. Returns address and port of SIP.
    fn start(&self, py: Python<'_>) -> PyResult<(String, u16)> {
        let address = py.detach(|| self.inner.start()).map_err(|e| raise(py, &e))?;
        Ok((address.ip().to_string(), address.port()))
    }

    /// Ends all; blocks for up to 3 s. One more drain fetches what happened meanwhile.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner.stop());
    }

    /// Descriptor that is readable when drain() would give something.
    fn event_fd(&self, py: Python<'_>) -> PyResult<i32> {
        self.inner.event_fd().map_err(|e| raise(py, &e))
    }

    /// What happened since the last time: call ids (or 0) and events, two lists of the same length.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Lists<'py>> {
        // Detached while locks are taken: stop() may hold them in another thread.
        let mut batch = py.detach(|| {
            let mut batch =
                std::mem::take(&mut *self.batch.lock().unwrap_or_else(PoisonError::into_inner));
            self.inner.drain(&mut batch);
            batch
        });
        let lists = to_python(py, &mut batch)?;
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = batch;
        Ok(lists)
    }

    fn ring(&self, py: Python<'_>, call: u64) -> PyResult<()> {
        self.inner.ring(call).map_err(|e| raise(py, &e))
    }

    fn answer(&self, py: Python<'_>, call: u64) -> PyResult<()> {
        self.inner.answer(call).map_err(|e| raise(py, &e))
    }

    fn reject(
        &self,
        py: Python<'_>,
        call: u64,
        status: u16,
        retry_after: Option<u32>,
    ) -> PyResult<()> {
        self.inner.reject(call, status, retry_after).map_err(|e| raise(py, &e))
    }

    fn hangup(&self, py: Python<'_>, call: u64) -> PyResult<()> {
        self.inner.hangup(call).map_err(|e| raise(py, &e))
    }

    /// Places a call and returns its id; the outcome comes as events.
    // Eight values of one call.
    #[allow(clippy::too_many_arguments)]
    fn dial(
        &self,
        py: Python<'_>,
        uri: String,
        towards: Option<&str>,
        username: Option<String>,
        password: Option<String>,
        late_offer: bool,
        srtp: Option<&str>,
        aor: Option<String>,
        proxy: Option<String>,
    ) -> PyResult<u64> {
        let towards = towards.and_then(|a| a.parse::<IpAddr>().ok());
        let credentials = username.map(|u| (u, password.unwrap_or_default()));
        let srtp = srtp.map(|name| srtp_mode(py, name)).transpose()?;
        let params =
            core::DialParams { uri, towards, credentials, late_offer, srtp, from: aor, proxy };
        self.inner.dial(params).map_err(|e| raise(py, &e))
    }

    fn early_media(&self, py: Python<'_>, call: u64) -> PyResult<()> {
        self.inner.early_media(call).map_err(|e| raise(py, &e))
    }

    /// Offers the session anew with this direction, or these codecs, or as it is.
    fn offer(
        &self,
        py: Python<'_>,
        call: u64,
        direction: Option<&str>,
        codecs: Option<Vec<String>>,
    ) -> PyResult<()> {
        let codecs = codecs
            .map(|names| names.iter().map(|n| codec(py, n)).collect::<PyResult<Vec<_>>>())
            .transpose()?;
        let change = dialog_events::change(py, direction, codecs.as_deref())?;
        self.inner.offer(call, change).map_err(|e| raise(py, &e))
    }

    /// Blind transfer; the outcome comes as events.
    fn transfer(&self, py: Python<'_>, call: u64, target: String) -> PyResult<()> {
        self.inner.transfer(call, target).map_err(|e| raise(py, &e))
    }

    /// Attended transfer; the outcome comes as events.
    fn transfer_to(&self, py: Python<'_>, call: u64, other: u64) -> PyResult<()> {
        self.inner.transfer_to(call, other).map_err(|e| raise(py, &e))
    }

    fn refuse_transfer(&self, py: Python<'_>, call: u64, status: u16) -> PyResult<()> {
        self.inner.refuse_transfer(call, status).map_err(|e| raise(py, &e))
    }

    /// Calls whom the peer of `call` asked for and returns the new call's id.
    fn follow_transfer(
        &self,
        py: Python<'_>,
        call: u64,
        username: Option<String>,
        password: Option<String>,
    ) -> PyResult<u64> {
        let credentials = username.map(|u| (u, password.unwrap_or_default()));
        self.inner.follow_transfer(call, credentials).map_err(|e| raise(py, &e))
    }

    /// Keeps a registration and returns its id; outcomes come as events.
    // Ten values of one registration.
    #[allow(clippy::too_many_arguments)]
    fn register(
        &self,
        py: Python<'_>,
        name: String,
        aor: String,
        registrar: String,
        proxy: Option<String>,
        username: String,
        password: String,
        realm: String,
        expires_s: u32,
        retry_first_s: f64,
        retry_max_s: f64,
    ) -> PyResult<u64> {
        let params = core::RegisterParams {
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
        };
        self.inner.register(params).map_err(|e| raise(py, &e))
    }

    /// Registers again at once with another password.
    fn update_password(&self, py: Python<'_>, registration: u64, password: String) -> PyResult<()> {
        self.inner.update_password(registration, password).map_err(|e| raise(py, &e))
    }

    /// Sends OPTIONS to a trunk at an interval and returns an id; outcomes come as events.
    // Six values of one trunk.
    #[allow(clippy::too_many_arguments)]
    fn watch(
        &self,
        py: Python<'_>,
        name: String,
        uri: String,
        aor: Option<String>,
        proxy: Option<String>,
        interval_s: f64,
        timeout_s: f64,
    ) -> PyResult<u64> {
        self.inner
            .watch(core::WatchParams { name, uri, from: aor, proxy, interval_s, timeout_s })
            .map_err(|e| raise(py, &e))
    }

    fn unwatch(&self, py: Python<'_>, watch: u64) -> PyResult<()> {
        self.inner.unwatch(watch).map_err(|e| raise(py, &e))
    }

    fn unregister(&self, py: Python<'_>, registration: u64) -> PyResult<()> {
        self.inner.unregister(registration).map_err(|e| raise(py, &e))
    }

    /// Appends int16 little-endian mono PCM to a turn.
    fn play(
        &self,
        py: Python<'_>,
        call: u64,
        pcm: &Bound<'_, PyAny>,
        rate: u32,
        turn_id: u64,
    ) -> PyResult<()> {
        let outcome = match pcm.cast::<PyBytes>() {
            Ok(bytes) => {
                let bytes = bytes.as_bytes();
                py.detach(|| self.inner.play(call, bytes, rate, turn_id))
            }
            Err(_) => {
                let buffer = PyBuffer::<u8>::get(pcm).map_err(|_| {
                    PyTypeError::new_err(
                        "pcm: bytes or a buffer of format 'B' is needed; cast('B')",
                    )
                })?;
                let bytes = buffer.to_vec(py)?;
                py.detach(|| self.inner.play(call, &bytes, rate, turn_id))
            }
        };
        outcome.map_err(|e| raise(py, &e))
    }

    #[pyo3(signature = (call, background))]
    fn set_background(
        &self,
        py: Python<'_>,
        call: u64,
        background: Option<&Bound<'_, Background>>,
    ) -> PyResult<()> {
        let background = background.and_then(|b| b.get().inner.clone());
        self.inner.set_background(call, background).map_err(|e| raise(py, &e))
    }

    #[pyo3(signature = (call, delivery, chunk_ms, echo_guard, noise_suppression))]
    fn listen(
        &self,
        py: Python<'_>,
        call: u64,
        delivery: Option<&str>,
        #[pyo3(from_py_with = maybe_whole)] chunk_ms: Option<i64>,
        echo_guard: Option<bool>,
        noise_suppression: Option<bool>,
    ) -> PyResult<()> {
        let change = ListenChange {
            what: delivery.map(|d| delivered(py, d)).transpose()?,
            chunk_ms: chunk_ms.map(|ms| ranged(py, "chunk_ms", ms)).transpose()?,
            echo_guard,
            noise_suppression,
        };
        self.inner.listen(call, change).map_err(|e| raise(py, &e))
    }

    fn finish(&self, call: u64, turn_id: u64) {
        self.inner.finish(call, turn_id);
    }

    fn clear(&self, call: u64, turn_id: Option<u64>) {
        self.inner.clear(call, turn_id);
    }

    /// "rtp" when keys go as telephone-events by send_dtmf(), "info" when one by one by send_info().
    fn dtmf_way(&self, py: Python<'_>, call: u64) -> PyResult<&'static str> {
        self.inner.dtmf_way(call).map(core::DtmfSource::name).map_err(|e| raise(py, &e))
    }

    /// Sends keys as telephone-events; returns the number that DtmfSent will have.
    fn send_dtmf(
        &self,
        py: Python<'_>,
        call: u64,
        digits: &str,
        duration_ms: u32,
        gap_ms: u32,
    ) -> PyResult<u64> {
        self.inner.send_dtmf(call, digits, duration_ms, gap_ms).map_err(|e| raise(py, &e))
    }

    /// Sends one key by SIP INFO; returns the number that InfoDone will have.
    fn send_info(&self, py: Python<'_>, call: u64, digit: char, duration_ms: u32) -> PyResult<u64> {
        self.inner.send_info(call, digit, duration_ms).map_err(|e| raise(py, &e))
    }

    /// Counters of a call that has not ended.
    fn call_stats(&self, py: Python<'_>, call: u64) -> PyResult<CallStats> {
        match self.inner.call_stats(call) {
            Some(stats) => Ok(CallStats::from(&stats)),
            None => Err(raise_code(py, "call.gone", &format!("call {call} has ended"))),
        }
    }

    /// New calls get 503 with this Retry-After; None ends that.
    fn set_draining(&self, py: Python<'_>, retry_after_s: Option<u32>) -> PyResult<()> {
        self.inner.set_draining(retry_after_s).map_err(|e| raise(py, &e))
    }

    /// Replaces the networks that may call; None: all.
    fn set_acl(&self, py: Python<'_>, acl: Option<Vec<String>>) -> PyResult<()> {
        let acl = crate::guard::networks(py, acl)?;
        self.inner.set_acl(acl).map_err(|e| raise(py, &e))
    }

    /// Reads the files of TLS again.
    fn reload_tls(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.reload_tls().map_err(|e| raise(py, &e))
    }

    /// Addresses whose calls have another SRTP mode than the configured one.
    fn set_srtp_of(&self, py: Python<'_>, peers: Vec<(String, String)>) -> PyResult<()> {
        let peers = peers
            .iter()
            .map(|(ip, mode)| Ok((address(py, "srtp", ip)?, srtp_mode(py, mode)?)))
            .collect::<PyResult<_>>()?;
        self.inner.set_srtp_of(peers).map_err(|e| raise(py, &e))
    }

    /// Counters of the engine; `consumer_dropped` is added to `events_dropped`.
    fn stats(&self, consumer_dropped: u64) -> EngineStats {
        EngineStats::from_engine(&self.inner.stats(), consumer_dropped)
    }
}

fn convert<'py>(
    py: Python<'py>,
    one: EngineEvent,
    audio: &Bound<'py, PySequence>,
) -> PyResult<Told<'py>> {
    match one {
        EngineEvent::Signal(signal) => signal_event(py, signal),
        EngineEvent::Media(media) => media_event(py, media, audio),
        EngineEvent::Dtmf { call, key, duration_ms, at_ns, source } => {
            let source = source.name().to_owned();
            event(py, call, Dtmf { digit: key.as_char(), duration_ms, at_ns, source })
        }
        EngineEvent::Ended { call, status, reason, by_remote, stats } => {
            let stats = Py::new(py, CallStats::from(&*stats))?;
            event(py, call, CallEnded { status, reason, by_remote, stats })
        }
    }
}

fn signal_event(py: Python<'_>, signal: SignalEvent) -> PyResult<Told<'_>> {
    let signal = match dialog_events::convert(py, signal) {
        Ok(converted) => return converted,
        Err(signal) => signal,
    };
    match signal {
        SignalEvent::Incoming { call, sip_call_id, from, to, source, account } => event(
            py,
            call,
            IncomingCall {
                caller: from,
                dialled: to,
                sip_call_id,
                source,
                account: account.map(String::from),
            },
        ),
        SignalEvent::Progress { call, status } => {
            event(py, call, CallProgress { status, sip_call_id: String::new() })
        }
        SignalEvent::Confirmed { call, recording } => {
            let recording = recording.map(|p| p.to_string_lossy().into_owned());
            event(py, call, CallConfirmed { recording })
        }
        SignalEvent::Failed { call, code, message, status } => {
            event(py, call, CommandFailed { code: code.to_owned(), message, status })
        }
        SignalEvent::InfoDone { call, request, status } => {
            event(py, call, InfoDone { request, status })
        }
        // The engine turns it into EngineEvent::Dtmf.
        SignalEvent::Dtmf { call, .. } => {
            event(py, 0, LogMessage { level: 10, message: format!("call {call}: a key by INFO") })
        }
        SignalEvent::Registration { registration, status, reason, expires_s, server, retry_s } => {
            let changed =
                RegistrationChanged { registration, status, reason, expires_s, server, retry_s };
            event(py, 0, changed)
        }
        SignalEvent::Trunk { watch, alive, status, reason, rtt_ms, server } => {
            event(py, 0, TrunkAnswered { watch, alive, status, reason, rtt_ms, server })
        }
        SignalEvent::Stalled(stall) => {
            let (stuck_s, over, message) =
                (stall.stuck.as_secs_f64(), stall.over, stall.to_string());
            event(py, 0, ThreadStalled { thread: stall.thread, stuck_s, over, message })
        }
        SignalEvent::Log { level, message } => {
            let level = match level {
                LogLevel::Error => 40,
                LogLevel::Warning => 30,
                LogLevel::Info => 20,
                LogLevel::Debug => 10,
            };
            event(py, 0, LogMessage { level, message })
        }
        // The engine turns it into EngineEvent::Ended.
        SignalEvent::Ended { call, status, reason, by_remote, .. } => {
            let stats = Py::new(py, CallStats::default())?;
            event(py, call, CallEnded { status, reason, by_remote, stats })
        }
        // All others were converted above.
        _ => event(py, 0, LogMessage { level: 40, message: "an event of no kind".to_owned() }),
    }
}

fn media_event<'py>(
    py: Python<'py>,
    media: MediaEvent,
    audio: &Bound<'py, PySequence>,
) -> PyResult<Told<'py>> {
    match media {
        MediaEvent::SpeechStarted { call, at_ns, decided_ns } => {
            event(py, call, SpeechStarted { at_ns, decided_ns })
        }
        MediaEvent::SpeechEnded { call, at_ns, decided_ns } => {
            event(py, call, SpeechEnded { at_ns, decided_ns })
        }
        MediaEvent::Audio { call, at_ns, offset, len } => {
            let pcm = Pcm { all: audio.clone().unbind(), range: offset..offset + len };
            event(py, call, Audio { at_ns, pcm })
        }
        MediaEvent::PlayoutStarted { call, turn, at_ns } => {
            event(py, call, PlayoutStarted { turn_id: turn, at_ns })
        }
        MediaEvent::PlayoutFinished { call, turn, samples, at_ns, interrupted } => {
            event(py, call, PlayoutFinished { turn_id: turn, samples, at_ns, interrupted })
        }
        MediaEvent::MediaTimeout { call, silent_ns } => {
            event(py, call, MediaTimeout { silent_s: silent_ns as f64 / 1e9 })
        }
        MediaEvent::DtmfSent { call, request, sent } => event(py, call, DtmfSent { request, sent }),
        // The engine turns these into other events.
        MediaEvent::Dtmf { call, .. } => {
            event(py, 0, LogMessage { level: 10, message: format!("call {call}: a key by RTP") })
        }
        MediaEvent::Closed { call, .. } => {
            event(py, 0, LogMessage { level: 10, message: format!("call {call} closed") })
        }
        MediaEvent::Notice { notice, .. } => {
            event(py, 0, LogMessage { level: 30, message: notice.to_string() })
        }
    }
}
