// SPDX-License-Identifier: GPL-3.0-or-later
//! Encryption by peer.

use std::net::IpAddr;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::signalling::SrtpMode;

impl Engine {
    /// For calls that come from these addresses from now on, and for calls to them that say nothing else: another SRTP
    /// mode than the configured one. Replaces what was set before.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`].
    pub fn set_srtp_of(&self, peers: Vec<(IpAddr, SrtpMode)>) -> Result<(), EngineError> {
        self.with_running(|tenant, _| {
            tenant.srtp.set_peers(peers);
            Ok(())
        })
    }
}
