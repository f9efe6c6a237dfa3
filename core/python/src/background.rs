// SPDX-License-Identifier: GPL-3.0-or-later
//! `Background`.

use pyo3::prelude::*;
use voicecore_engine::media;

use crate::errors::raise;

/// What is heard behind the agent.
#[pyclass(frozen, module = "voicecore")]
pub struct Background {
    pub inner: Option<media::Background>,
    name: String,
}

/// By its name in the settings. Reads and resamples a file with the interpreter lock released.
pub fn named(py: Python<'_>, name: &str) -> PyResult<Option<media::Background>> {
    py.detach(|| media::Background::named(name)).map_err(|e| raise(py, &e.into()))
}

#[pymethods]
impl Background {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(Background { inner: named(py, name)?, name: name.to_owned() })
    }

    /// As it was given.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("Background({:?})", self.name)
    }
}
