// SPDX-License-Identifier: GPL-3.0-or-later
//! Events as small frozen classes.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PySequence};
use pyo3::IntoPyObjectExt;

use crate::stats::CallStats;

/// Declares a frozen event class with keyword construction (applications make them in tests) and a repr.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[pyclass(frozen, eq, get_all, module = "voicecore")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $(pub $field: $type),+ }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (*, $($field),+))]
            fn new($($field: $type),+) -> Self {
                $name { $($field),+ }
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                let fields: Vec<(&str, Bound<'_, PyAny>)> =
                    vec![$((stringify!($field), self.$field.clone().into_bound_py_any(py)?)),+];
                crate::repr(stringify!($name), &fields)
            }
        }
    };
}

event! {
    /// The caller began to speak.
    SpeechStarted { at_ns: u64, decided_ns: u64 }
}
event! {
    /// The caller fell silent.
    SpeechEnded { at_ns: u64, decided_ns: u64 }
}
event! {
    /// The first sample of a turn was sent.
    PlayoutStarted { turn_id: u64, at_ns: u64 }
}
event! {
    /// A thread of the core, or the application, does not come back in time, or has come back.
    ThreadStalled { thread: String, stuck_s: f64, over: bool, message: String }
}
event! {
    /// A turn has left the play-out queue.
    PlayoutFinished { turn_id: u64, samples: u64, at_ns: u64, interrupted: bool }
}
event! {
    /// Nothing came from the peer for a while.
    MediaTimeout { silent_s: f64 }
}
event! {
    /// Keys that were to be sent as telephone-events have been, or cannot be.
    DtmfSent { request: u64, sent: bool }
}
event! {
    /// An INFO of ours was answered.
    InfoDone { request: u64, status: u16 }
}
event! {
    /// A provisional response to a dialled call.
    CallProgress { status: u16, sip_call_id: String }
}
event! {
    /// Audio runs before the answer.
    EarlyMedia { recording: Option<String> }
}
event! {
    /// The peer has put us on hold.
    CallHeld { at_ns: u64 }
}
event! {
    /// The peer hears us again.
    CallResumed { at_ns: u64 }
}
event! {
    /// How far a transfer that we asked for has come.
    TransferProgress { status: u16, last: bool }
}
event! {
    /// Outcome of an operation inside of a call.
    OperationDone { operation: String, status: u16, code: Option<String>, message: Option<String> }
}
event! {
    /// Answered and acknowledged.
    CallConfirmed { recording: Option<String> }
}
event! {
    /// A command about a call could not be carried out.
    CommandFailed { code: String, message: String, status: u16 }
}
event! {
    /// A registration changed or was refreshed.
    RegistrationChanged {
        registration: u64,
        status: u16,
        reason: String,
        expires_s: u32,
        server: Option<String>,
        retry_s: Option<f64>,
    }
}
event! {
    /// A trunk answered OPTIONS, or did not.
    TrunkAnswered {
        watch: u64,
        alive: bool,
        status: u16,
        reason: String,
        rtt_ms: Option<f64>,
        server: Option<String>,
    }
}
event! {
    /// A line for the log; `level` as in Python's logging.
    LogMessage { level: u8, message: String }
}

/// The caller pressed a key. What is typed may be a PIN: the repr does not show it.
#[pyclass(frozen, eq, get_all, module = "voicecore")]
#[derive(Clone, PartialEq)]
pub struct Dtmf {
    pub digit: char,
    pub duration_ms: u32,
    pub at_ns: u64,
    pub source: String,
}

#[pymethods]
impl Dtmf {
    #[new]
    #[pyo3(signature = (*, digit, duration_ms, at_ns, source))]
    fn new(digit: char, duration_ms: u32, at_ns: u64, source: String) -> Self {
        Dtmf { digit, duration_ms, at_ns, source }
    }

    fn __repr__(&self) -> String {
        format!(
            "Dtmf(digit=…, duration_ms={}, at_ns={}, source='{}')",
            self.duration_ms, self.at_ns, self.source
        )
    }
}

/// A call came in. Holds personal data: its repr has none of it.
#[pyclass(frozen, get_all, module = "voicecore")]
pub struct IncomingCall {
    pub caller: String,
    pub dialled: String,
    pub sip_call_id: String,
    pub source: String,
    pub account: Option<String>,
}

#[pymethods]
impl IncomingCall {
    #[new]
    #[pyo3(signature = (*, caller, dialled, sip_call_id, source, account=None))]
    fn new(
        caller: String,
        dialled: String,
        sip_call_id: String,
        source: String,
        account: Option<String>,
    ) -> Self {
        IncomingCall { caller, dialled, sip_call_id, source, account }
    }

    fn __repr__(&self) -> String {
        format!("IncomingCall(source={:?}, …)", self.source)
    }
}

/// A piece of the audio of a batch. Its view is made when it is asked for, and mostly gone before the next one is:
/// two hundred at once would set the garbage collector going.
pub struct Pcm {
    pub all: Py<PySequence>,
    pub range: Range<usize>,
}

/// Audio of the caller while speaking.
#[pyclass(frozen, module = "voicecore")]
pub struct Audio {
    #[pyo3(get)]
    pub at_ns: u64,
    pub pcm: Pcm,
}

#[pymethods]
impl Audio {
    #[new]
    #[pyo3(signature = (*, at_ns, pcm))]
    fn new(at_ns: u64, pcm: &Bound<'_, PyAny>) -> PyResult<Self> {
        let all = PyMemoryView::from(pcm)?.into_any().cast_into::<PySequence>()?;
        let range = 0..all.len()?;
        Ok(Audio { at_ns, pcm: Pcm { all: all.unbind(), range } })
    }

    #[getter]
    fn pcm<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySequence>> {
        // Not PySlice::new: of PyO3 0.30 it leaks the two numbers, some 50 bytes for each event.
        self.pcm.all.bind(py).get_slice(self.pcm.range.start, self.pcm.range.end)
    }

    fn __repr__(&self) -> String {
        format!("Audio(at_ns={}, samples={})", self.at_ns, self.pcm.range.len() / 2)
    }
}

/// The call is over; the last event of a call.
#[pyclass(frozen, get_all, module = "voicecore")]
pub struct CallEnded {
    pub status: u16,
    pub reason: String,
    pub by_remote: bool,
    pub stats: Py<CallStats>,
}

#[pymethods]
impl CallEnded {
    #[new]
    #[pyo3(signature = (*, status, reason, by_remote, stats))]
    fn new(status: u16, reason: String, by_remote: bool, stats: Py<CallStats>) -> Self {
        CallEnded { status, reason, by_remote, stats }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let fields = [
            ("status", self.status.into_bound_py_any(py)?),
            ("reason", self.reason.as_str().into_bound_py_any(py)?),
            ("by_remote", self.by_remote.into_bound_py_any(py)?),
        ];
        crate::repr("CallEnded", &fields)
    }
}

/// The peer asks us to call somebody else. Holds personal data: its repr has none of it.
#[pyclass(frozen, get_all, module = "voicecore._core")]
pub struct TransferAsked {
    pub target: String,
}

#[pymethods]
impl TransferAsked {
    #[new]
    #[pyo3(signature = (*, target))]
    fn new(target: String) -> Self {
        TransferAsked { target }
    }

    fn __repr__(&self) -> &'static str {
        "TransferAsked(…)"
    }
}

/// The call has another peer now. Holds personal data: its repr has none of it.
#[pyclass(frozen, get_all, module = "voicecore._core")]
pub struct PeerReplaced {
    pub caller: String,
    pub sip_call_id: String,
    pub source: String,
}

#[pymethods]
impl PeerReplaced {
    #[new]
    #[pyo3(signature = (*, caller, sip_call_id, source))]
    fn new(caller: String, sip_call_id: String, source: String) -> Self {
        PeerReplaced { caller, sip_call_id, source }
    }

    fn __repr__(&self) -> String {
        format!("PeerReplaced(source='{}', …)", self.source)
    }
}
