// SPDX-License-Identifier: GPL-3.0-or-later
//! Registrations and probes of trunks: from the application to the stack and back, each under the trunk's name.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use pjsip_sys::{Credentials, Endpoint, Probe, ProbeId, RegId, Registration, SipEvent};

use super::queue::{LogLevel, SignalEvent};
use super::thread::Attached;
use super::Tenant;

/// A registration to keep. Personal data and a password: no `Debug`.
pub(crate) struct Register {
    pub registration: u64,
    /// For the log.
    pub name: String,
    pub aor: String,
    pub registrar: String,
    pub proxy: Option<String>,
    pub username: String,
    pub password: String,
    pub realm: String,
    pub expires_s: u32,
    pub retry_first: Duration,
    pub retry_max: Duration,
}

/// A trunk to send OPTIONS to.
pub(crate) struct Watch {
    pub watch: u64,
    /// For the log.
    pub name: String,
    pub uri: String,
    pub from: Option<String>,
    pub proxy: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
}

/// What the application asks of trunks.
pub(crate) enum TrunkCommand {
    Register { tenant: u64, register: Box<Register> },
    UpdatePassword { registration: u64, password: String },
    Unregister(u64),
    Watch { tenant: u64, watch: Box<Watch> },
    Unwatch(u64),
}

struct Binding {
    sip: RegId,
    tenant: Arc<Tenant>,
    name: String,
    username: String,
    realm: String,
    aor: String,
    /// The registrar has it: worth waiting for its removal.
    bound: bool,
    /// Told to the log: a refresh is no news.
    told: Option<(u16, Option<SocketAddr>)>,
}

struct Watched {
    sip: ProbeId,
    tenant: Arc<Tenant>,
    name: String,
    alive: Option<bool>,
}

#[derive(Default)]
pub(super) struct Trunks {
    bindings: HashMap<u64, Binding>,
    watched: HashMap<u64, Watched>,
}

impl Trunks {
    pub(super) fn on_command(
        &mut self,
        endpoint: &mut Endpoint,
        tenants: &HashMap<u64, Attached>,
        command: TrunkCommand,
    ) {
        match command {
            TrunkCommand::Register { tenant, register } => {
                if let Some(attached) = tenants.get(&tenant) {
                    self.register(endpoint, attached, *register);
                }
            }
            TrunkCommand::UpdatePassword { registration, password } => {
                self.update_password(endpoint, registration, password);
            }
            TrunkCommand::Unregister(registration) => {
                if let Some(binding) = self.bindings.get(&registration) {
                    if let Err(e) = endpoint.unregister(binding.sip) {
                        binding.tenant.log(
                            LogLevel::Warning,
                            format!("trunk {}: unregister: {e}", binding.name),
                        );
                    }
                }
            }
            TrunkCommand::Watch { tenant, watch } => {
                if let Some(attached) = tenants.get(&tenant) {
                    self.watch(endpoint, attached, *watch);
                }
            }
            TrunkCommand::Unwatch(watch) => {
                if let Some(watched) = self.watched.remove(&watch) {
                    let _ = endpoint.stop_probe(watched.sip);
                    watched.count(-1, watched.alive == Some(true), false);
                }
            }
        }
    }

    fn register(&mut self, endpoint: &mut Endpoint, attached: &Attached, register: Register) {
        let tenant = &attached.tenant;
        let request = Registration {
            aor: register.aor.clone(),
            registrar: register.registrar,
            credentials: Credentials {
                realm: register.realm.clone(),
                username: register.username.clone(),
                password: register.password,
            },
            expires_s: register.expires_s,
            proxy: register.proxy,
            group: attached.sockets.group,
            retry_first: register.retry_first,
            retry_max: register.retry_max,
            ..Registration::default()
        };
        match endpoint.register(&request) {
            Ok(sip) => {
                tenant.trunks.registrations.fetch_add(1, Ordering::Relaxed);
                let binding = Binding {
                    sip,
                    tenant: Arc::clone(tenant),
                    name: register.name,
                    username: register.username,
                    realm: register.realm,
                    aor: register.aor,
                    bound: false,
                    told: None,
                };
                self.bindings.insert(register.registration, binding);
            }
            Err(e) => {
                tenant
                    .log(LogLevel::Error, format!("trunk {}: no registration: {e}", register.name));
                tenant.tell(SignalEvent::Registration {
                    registration: register.registration,
                    status: 400,
                    reason: e.to_string(),
                    expires_s: 0,
                    server: None,
                    retry_s: None,
                });
            }
        }
    }

    fn update_password(&mut self, endpoint: &mut Endpoint, registration: u64, password: String) {
        let Some(binding) = self.bindings.get_mut(&registration) else { return };
        let credentials = Credentials {
            realm: binding.realm.clone(),
            username: binding.username.clone(),
            password,
        };
        binding.told = None;
        let outcome = endpoint.reregister(binding.sip, &credentials);
        let (level, what) = match outcome {
            Ok(()) => (LogLevel::Info, "registering with the new password".to_owned()),
            Err(e) => (LogLevel::Error, format!("the new password is not used: {e}")),
        };
        binding.tenant.log(level, format!("trunk {}: {what}", binding.name));
    }

    fn watch(&mut self, endpoint: &mut Endpoint, attached: &Attached, watch: Watch) {
        let tenant = &attached.tenant;
        let probe = Probe {
            uri: watch.uri,
            from: watch.from,
            proxy: watch.proxy,
            group: attached.sockets.group,
            interval: watch.interval,
            timeout: watch.timeout,
        };
        match endpoint.probe(&probe) {
            Ok(sip) => {
                let tenant = Arc::clone(tenant);
                let watched = Watched { sip, tenant, name: watch.name, alive: None };
                watched.count(1, false, false);
                self.watched.insert(watch.watch, watched);
            }
            Err(e) => {
                tenant.log(LogLevel::Error, format!("trunk {}: not watched: {e}", watch.name));
                tenant.tell(SignalEvent::Trunk {
                    watch: watch.watch,
                    alive: false,
                    status: 400,
                    reason: e.to_string(),
                    rtt_ms: None,
                    server: None,
                });
            }
        }
    }

    /// The address of record that goes with a user name.
    pub(super) fn aor_of(&self, tenant: u64, username: &str) -> Option<String> {
        self.bindings
            .values()
            .find(|b| b.tenant.id == tenant && b.username == username)
            .map(|b| b.aor.clone())
    }

    /// An engine leaves: its bindings are taken back, nothing of it is watched any more.
    pub(super) fn leave(&mut self, endpoint: &mut Endpoint, tenant: u64) {
        for binding in self.bindings.values().filter(|b| b.tenant.id == tenant) {
            // Without an answer the deadline ends it; the registrar's own timer does the rest.
            let _ = endpoint.unregister(binding.sip);
        }
        self.watched.retain(|_, watched| {
            let stays = watched.tenant.id != tenant;
            if !stays {
                let _ = endpoint.stop_probe(watched.sip);
            }
            stays
        });
    }

    pub(super) fn any_bound(&self, tenant: u64) -> bool {
        self.bindings.values().any(|b| b.bound && b.tenant.id == tenant)
    }

    pub(super) fn forget(&mut self, tenant: u64) {
        self.bindings.retain(|_, b| b.tenant.id != tenant);
    }

    pub(super) fn on_event(&mut self, event: SipEvent, leaving: impl Fn(u64) -> bool) {
        match event {
            SipEvent::Registration { reg, status, reason, expires_s, server, retry } => {
                let found = self.bindings.iter_mut().find(|(_, b)| b.sip == reg);
                let Some((&id, binding)) = found else { return };
                let good = (200..300).contains(&status);
                binding.say(status, &reason, expires_s, server, retry);
                binding.set_bound(good && expires_s > 0);
                binding.tenant.tell(SignalEvent::Registration {
                    registration: id,
                    status,
                    reason,
                    expires_s,
                    server: server.map(|s| s.to_string()),
                    retry_s: retry.map(|r| r.as_secs_f64()),
                });
                if good && expires_s == 0 || leaving(binding.tenant.id) {
                    binding.tenant.trunks.registrations.fetch_sub(1, Ordering::Relaxed);
                    self.bindings.remove(&id);
                }
            }
            SipEvent::Probe { probe, alive, status, reason, rtt, server } => {
                let found = self.watched.iter_mut().find(|(_, w)| w.sip == probe);
                let Some((&watch, watched)) = found else { return };
                watched.say(alive, status, &reason, rtt, server);
                watched.tenant.tell(SignalEvent::Trunk {
                    watch,
                    alive,
                    status,
                    reason,
                    rtt_ms: rtt.map(|r| r.as_secs_f64() * 1e3),
                    server: server.map(|s| s.to_string()),
                });
            }
            _ => {}
        }
    }
}

impl Binding {
    fn set_bound(&mut self, bound: bool) {
        if bound && !self.bound {
            self.tenant.trunks.registered.fetch_add(1, Ordering::Relaxed);
        } else if self.bound && !bound {
            self.tenant.trunks.registered.fetch_sub(1, Ordering::Relaxed);
        }
        self.bound = bound;
    }

    fn say(
        &mut self,
        status: u16,
        reason: &str,
        expires_s: u32,
        server: Option<SocketAddr>,
        retry: Option<Duration>,
    ) {
        let place = server.map_or_else(String::new, |s| format!(" at {s}"));
        let again =
            retry.map_or_else(String::new, |r| format!("; next try in {} s", r.as_secs().max(1)));
        let (level, what) = match status {
            200..=299 if expires_s > 0 && self.told == Some((status, server)) => {
                (LogLevel::Debug, format!("refreshed{place} for {expires_s} s"))
            }
            200..=299 if expires_s > 0 => {
                (LogLevel::Info, format!("registered{place} for {expires_s} s"))
            }
            200..=299 => (LogLevel::Info, format!("unregistered{place}")),
            _ => {
                (LogLevel::Warning, format!("registration failed{place}: {status} {reason}{again}"))
            }
        };
        self.told = Some((status, server));
        self.tenant.log(level, format!("trunk {}: {what}", self.name));
    }
}

impl Watched {
    fn count(&self, trunks: i64, was_up: bool, is_up: bool) {
        let counters = &self.tenant.trunks;
        counters.watched.fetch_add(trunks, Ordering::Relaxed);
        counters.up.fetch_add(i64::from(is_up) - i64::from(was_up), Ordering::Relaxed);
    }

    /// Only changes are news.
    fn say(
        &mut self,
        alive: bool,
        status: u16,
        reason: &str,
        rtt: Option<Duration>,
        server: Option<SocketAddr>,
    ) {
        if self.alive == Some(alive) {
            return;
        }
        self.count(0, self.alive == Some(true), alive);
        self.alive = Some(alive);
        let place = server.map_or_else(String::new, |s| format!(" at {s}"));
        if alive {
            let ms = rtt.map_or(0, |r| r.as_millis());
            let text = format!("trunk {}: up{place}, OPTIONS answered in {ms} ms", self.name);
            self.tenant.log(LogLevel::Info, text);
        } else {
            let text = format!("trunk {}: down{place}: {status} {reason}", self.name);
            self.tenant.log(LogLevel::Warning, text);
        }
    }
}
