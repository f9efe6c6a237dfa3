// SPDX-License-Identifier: GPL-3.0-or-later
//! `GuardConfig`.

use std::collections::HashMap;

use pyo3::prelude::*;
use voicecore_engine::{ConfigError, GuardConfig as Config, Network, Unlisted, User, SCANNERS};

use crate::errors::raise;
use crate::number::{real, whole};

/// Who may call, and how much. Checked when it becomes part of an EngineConfig.
#[pyclass(frozen, module = "voicecore")]
pub struct GuardConfig {
    pub inner: Config,
}

fn bad(py: Python<'_>, field: &'static str, problem: String, remedy: &str) -> PyErr {
    raise(py, &ConfigError::new(field, problem, remedy).into())
}

/// Networks in CIDR notation.
pub fn networks(py: Python<'_>, acl: Option<Vec<String>>) -> PyResult<Option<Vec<Network>>> {
    let one = |text: &String| {
        text.parse().map_err(|problem: String| {
            bad(py, "guard.acl", problem, "write it like 192.0.2.0/24, 192.0.2.7 or 2001:db8::/32")
        })
    };
    acl.map(|acl| acl.iter().map(one).collect()).transpose()
}

fn ranged<T: TryFrom<i64>>(py: Python<'_>, field: &'static str, value: i64) -> PyResult<T> {
    T::try_from(value).map_err(|_| {
        bad(py, field, format!("{value} is out of range"), "see the documentation of GuardConfig")
    })
}

fn default_scanners() -> Vec<String> {
    SCANNERS.iter().map(|s| (*s).to_owned()).collect()
}

#[pymethods]
impl GuardConfig {
    #[new]
    #[pyo3(signature = (*, acl=None, unlisted="silent", scanners=default_scanners(), realm="voice-edge",
        users=HashMap::new(), nonce_s=60, invites_per_s=10.0, invite_burst=40, calls_per_source=0,
        pending_per_source=20, limit_listed=false, sources_max=4096))]
    // Keyword arguments of Python, one for each setting.
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        acl: Option<Vec<String>>,
        unlisted: &str,
        scanners: Vec<String>,
        realm: &str,
        users: HashMap<String, String>,
        #[pyo3(from_py_with = whole)] nonce_s: i64,
        #[pyo3(from_py_with = real)] invites_per_s: f64,
        #[pyo3(from_py_with = whole)] invite_burst: i64,
        #[pyo3(from_py_with = whole)] calls_per_source: i64,
        #[pyo3(from_py_with = whole)] pending_per_source: i64,
        limit_listed: bool,
        #[pyo3(from_py_with = whole)] sources_max: i64,
    ) -> PyResult<Self> {
        let unlisted = match unlisted {
            "silent" => Unlisted::Silent,
            "refuse" => Unlisted::Refuse,
            "challenge" => Unlisted::Challenge,
            other => {
                return Err(bad(
                    py,
                    "guard.unlisted",
                    format!("{other:?} is not known"),
                    "use silent, refuse or challenge",
                ))
            }
        };
        let inner = Config {
            acl: networks(py, acl)?,
            unlisted,
            scanners,
            realm: realm.to_owned(),
            users: users.into_iter().map(|(name, password)| User { name, password }).collect(),
            nonce_s: ranged(py, "guard.nonce_s", nonce_s)?,
            invites_per_s,
            invite_burst: ranged(py, "guard.invite_burst", invite_burst)?,
            calls_per_source: ranged(py, "guard.calls_per_source", calls_per_source)?,
            pending_per_source: ranged(py, "guard.pending_per_source", pending_per_source)?,
            limit_listed,
            sources_max: ranged(py, "guard.sources_max", sources_max)?,
        };
        inner.validate().map_err(|e| raise(py, &e.into()))?;
        Ok(GuardConfig { inner })
    }

    #[getter]
    fn acl(&self) -> Option<Vec<String>> {
        let acl = self.inner.acl.as_ref()?;
        Some(acl.iter().map(Network::to_string).collect())
    }

    #[getter]
    fn unlisted(&self) -> &'static str {
        match self.inner.unlisted {
            Unlisted::Silent => "silent",
            Unlisted::Refuse => "refuse",
            Unlisted::Challenge => "challenge",
        }
    }

    #[getter]
    fn scanners(&self) -> Vec<String> {
        self.inner.scanners.clone()
    }

    #[getter]
    fn realm(&self) -> &str {
        &self.inner.realm
    }

    /// Without names and passwords.
    fn __repr__(&self) -> String {
        let c = &self.inner;
        let acl = c.acl.as_ref().map_or("None".to_owned(), |a| format!("[{} networks]", a.len()));
        format!(
            "GuardConfig(acl={acl}, unlisted={:?}, users={}, …)",
            self.unlisted(),
            c.users.len()
        )
    }
}
