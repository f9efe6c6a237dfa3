// SPDX-License-Identifier: GPL-3.0-or-later
//! Errors of the engine as the exceptions of `voicecore._errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use voicecore_engine::EngineError;

static CONFIG: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SIGNALLING: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static GONE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static FULL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Which exception a code belongs to.
fn class_of(code: &str) -> (&'static PyOnceLock<Py<PyType>>, &'static str) {
    match code {
        "media.playout_full" => (&FULL, "PlayoutFull"),
        "call.gone" => (&GONE, "CallGone"),
        "engine.not_running" | "engine.already_running" => (&BASE, "VoicecoreError"),
        _ if code.starts_with("config.") => (&CONFIG, "ConfigError"),
        _ if code.starts_with("sip.")
            || code.starts_with("engine.")
            || code.starts_with("dtmf.") =>
        {
            (&SIGNALLING, "SignallingError")
        }
        _ => (&BASE, "VoicecoreError"),
    }
}

/// The exception for `error`.
pub fn raise(py: Python<'_>, error: &EngineError) -> PyErr {
    raise_code(py, error.code(), &error.to_string())
}

/// The exception for a code with its message.
pub fn raise_code(py: Python<'_>, code: &str, message: &str) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let (cell, name) = class_of(code);
        let class = cell.import(py, "voicecore._errors", name)?;
        let kwargs = PyDict::new(py);
        kwargs.set_item("code", code)?;
        Ok(PyErr::from_value(class.call((message,), Some(&kwargs))?))
    };
    build().unwrap_or_else(|e| e)
}
