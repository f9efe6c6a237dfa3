// SPDX-License-Identifier: GPL-3.0-or-later
//! Trunks: registrations, and OPTIONS that tell whether a trunk is there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::signalling::{next_id, Command, Register, Tenant, TrunkCommand, Watch};

/// A binding to keep at a registrar. Personal data and a password: no `Debug`.
pub struct RegisterParams {
    /// For the log; no personal data.
    pub name: String,
    /// Address of record, `sip:user@domain`.
    pub aor: String,
    /// Registrar, `sip:host` or `sip:host:port`.
    pub registrar: String,
    /// Outbound proxy.
    pub proxy: Option<String>,
    /// User name for digest authentication.
    pub username: String,
    /// Password in clear.
    pub password: String,
    /// Realm, `*` for any.
    pub realm: String,
    /// Lifetime asked for, s.
    pub expires_s: u32,
    /// Pause after the first failure, s; it doubles.
    pub retry_first_s: f64,
    /// Longest pause, s.
    pub retry_max_s: f64,
}

/// A trunk to watch by OPTIONS. May hold personal data: no `Debug`.
pub struct WatchParams {
    /// For the log; no personal data.
    pub name: String,
    /// Server, `sip:host` or `sip:host:port`.
    pub uri: String,
    /// `From`; `None`: our address.
    pub from: Option<String>,
    /// Outbound proxy.
    pub proxy: Option<String>,
    /// From one OPTIONS to the next, s.
    pub interval_s: f64,
    /// How long each server may be silent, s.
    pub timeout_s: f64,
}

/// How many trunks there are and how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkStats {
    /// Registrations kept.
    pub registrations: u64,
    /// Of these, those that stand.
    pub registered: u64,
    /// Trunks watched by OPTIONS.
    pub watched: u64,
    /// Of these, those that answered last time.
    pub up: u64,
}

impl TrunkStats {
    pub(crate) fn of(tenant: &Tenant) -> TrunkStats {
        let read = |counter: &std::sync::atomic::AtomicI64| {
            u64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(0)
        };
        TrunkStats {
            registrations: read(&tenant.trunks.registrations),
            registered: read(&tenant.trunks.registered),
            watched: read(&tenant.trunks.watched),
            up: read(&tenant.trunks.up),
        }
    }
}

/// Between a millisecond and a day, whatever was given.
fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(if value.is_finite() { value.clamp(0.001, 86_400.0) } else { 86_400.0 })
}

impl Engine {
    /// Keeps a registration; returns its id at once. Outcomes are `Registration` events.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn register(&self, params: RegisterParams) -> Result<u64, EngineError> {
        let registration = next_id();
        let first = seconds(params.retry_first_s);
        let register = Box::new(Register {
            registration,
            name: params.name,
            aor: params.aor,
            registrar: params.registrar,
            proxy: params.proxy,
            username: params.username,
            password: params.password,
            realm: params.realm,
            expires_s: params.expires_s,
            retry_first: first,
            retry_max: seconds(params.retry_max_s).max(first),
        });
        self.with_running(|tenant, sip| {
            let command = TrunkCommand::Register { tenant: tenant.id, register };
            Ok(sip.send(Command::Trunk(command))?)
        })?;
        Ok(registration)
    }

    /// Registers again at once with another password, which is used from then on. Calls that are up do not notice.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn update_password(&self, registration: u64, password: String) -> Result<(), EngineError> {
        self.command(Command::Trunk(TrunkCommand::UpdatePassword { registration, password }))
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn unregister(&self, registration: u64) -> Result<(), EngineError> {
        self.command(Command::Trunk(TrunkCommand::Unregister(registration)))
    }

    /// Sends OPTIONS to a trunk now and at an interval; returns an id at once. Outcomes are `Trunk` events.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn watch(&self, params: WatchParams) -> Result<u64, EngineError> {
        let id = next_id();
        let watch = Box::new(Watch {
            watch: id,
            name: params.name,
            uri: params.uri,
            from: params.from,
            proxy: params.proxy,
            interval: seconds(params.interval_s),
            timeout: seconds(params.timeout_s),
        });
        self.with_running(|tenant, sip| {
            let command = TrunkCommand::Watch { tenant: tenant.id, watch };
            Ok(sip.send(Command::Trunk(command))?)
        })?;
        Ok(id)
    }

    /// No more OPTIONS.
    ///
    /// # Errors
    /// [`EngineError::NotRunning`], `engine.busy`.
    pub fn unwatch(&self, watch: u64) -> Result<(), EngineError> {
        self.command(Command::Trunk(TrunkCommand::Unwatch(watch)))
    }
}
