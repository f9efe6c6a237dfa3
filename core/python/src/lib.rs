// SPDX-License-Identifier: GPL-3.0-or-later
//! Python boundary of voicecore: the module `voicecore._core`.
//!
//! What applications use is the package `voicecore` around it; the classes here are frozen and small.
#![deny(unsafe_code)]
// What these items mean is told to Python by their docstrings and by `_core.pyi`.
#![allow(missing_docs)]

mod background;
mod config;
mod dialog_events;
mod engine;
mod errors;
mod events;
mod guard;
mod kernel;
mod number;
mod recorded;
mod stats;
mod trunk;

use pyo3::prelude::*;

/// Every error code with its meaning.
#[pyfunction]
fn error_codes() -> std::collections::HashMap<&'static str, &'static str> {
    voicecore_engine::CODES.iter().copied().collect()
}

/// The release of the core, as its crates have it.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// `Name(field=value, …)` as Python's dataclasses print.
fn repr(name: &str, fields: &[(&str, Bound<'_, PyAny>)]) -> PyResult<String> {
    let mut parts = Vec::with_capacity(fields.len());
    for (field, value) in fields {
        parts.push(format!("{field}={}", value.repr()?));
    }
    Ok(format!("{name}({})", parts.join(", ")))
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::background::Background;
    #[pymodule_export]
    use super::config::EngineConfig;
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::error_codes;
    #[pymodule_export]
    use super::events::{
        Audio, CallConfirmed, CallEnded, CallHeld, CallProgress, CallResumed, CommandFailed, Dtmf,
        DtmfSent, EarlyMedia, IncomingCall, InfoDone, LogMessage, MediaTimeout, OperationDone,
        PeerReplaced, PlayoutFinished, PlayoutStarted, RegistrationChanged, SpeechEnded,
        SpeechStarted, ThreadStalled, TransferAsked, TransferProgress, TrunkAnswered,
    };
    #[pymodule_export]
    use super::guard::GuardConfig;
    #[pymodule_export]
    use super::kernel::speech_probabilities;
    #[pymodule_export]
    use super::recorded::Recorded;
    #[pymodule_export]
    use super::stats::{CallStats, EngineStats};
    #[pymodule_export]
    use super::trunk::check_trunk;
    #[pymodule_export]
    use super::version;
}
