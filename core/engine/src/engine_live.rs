// SPDX-License-Identifier: GPL-3.0-or-later
//! What may change while an engine runs.

use std::sync::atomic::Ordering;

use crate::config_network;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::guard::Network;
use crate::signalling::Command;

impl Engine {
    /// From now on new calls, and OPTIONS outside of calls, get 503 with this Retry-After; `None` ends that. Calls that are
    /// up go on.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`].
    pub fn set_draining(&self, retry_after_s: Option<u32>) -> Result<(), EngineError> {
        self.with_running(|tenant, _| {
            let draining = &tenant.draining;
            draining.retry_after.store(retry_after_s.unwrap_or(0), Ordering::Relaxed);
            draining.on.store(retry_after_s.is_some(), Ordering::Relaxed);
            Ok(())
        })
    }

    /// Replaces the ACL; `None` lets all call. Holds for requests that come from now on.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn set_acl(&self, acl: Option<Vec<Network>>) -> Result<(), EngineError> {
        self.with_running(|tenant, sip| Ok(sip.send(Command::SetAcl { tenant: tenant.id, acl })?))
    }

    /// Reads the files of TLS again: connections from now on show the new certificate, and those that are up go on. Files that
    /// do not fit are refused here, and the old ones stay.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `config.invalid`, `engine.busy`.
    pub fn reload_tls(&self) -> Result<(), EngineError> {
        self.with_running(|tenant, sip| {
            config_network::check_tls(&tenant.config.tls)?;
            Ok(sip.send(Command::ReloadTls { tenant: tenant.id })?)
        })
    }
}
