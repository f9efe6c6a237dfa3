// SPDX-License-Identifier: GPL-3.0-or-later
//! The rule that a trunk must meet.

use pyo3::prelude::*;
use voicecore_engine::{check_trunk as check, TrunkSettings};

use crate::errors::raise;
use crate::number::whole;

/// Raises ConfigError when the stack would not take such a trunk.
#[pyfunction]
#[pyo3(signature = (*, server, proxy=None, aor=None, username=None, password=None, realm="*", expires_s=300,
    name="trunk"))]
// Keyword arguments of Python, one for each setting.
#[allow(clippy::too_many_arguments)]
pub fn check_trunk(
    py: Python<'_>,
    server: String,
    proxy: Option<String>,
    aor: Option<String>,
    username: Option<String>,
    password: Option<String>,
    realm: &str,
    #[pyo3(from_py_with = whole)] expires_s: i64,
    name: &str,
) -> PyResult<()> {
    let trunk = TrunkSettings {
        server,
        proxy,
        aor,
        username,
        password,
        realm: realm.to_owned(),
        expires_s: u32::try_from(expires_s).unwrap_or(0),
        name: name.to_owned(),
    };
    check(&trunk).map_err(|e| raise(py, &e.into()))
}
