// SPDX-License-Identifier: GPL-3.0-or-later
//! The SIP thread: commands in, events out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjsip_sys::{Codec, Endpoint, EndpointConfig, SipEvent, Waker};

use super::calls::Calls;
use super::queue::{LogLevel, SignalEvent};
use super::sockets::Sockets;
use super::srtp::Srtp;
use super::trunks::Trunks;
use super::{Command, StackCounters, StackSetup, Tenant, DETACH_LIMIT};
use crate::error::SignallingError;
use crate::guard::{GuardSetup, Guards};
use crate::media::now_ns;
use crate::watchdog::Pulse;

/// Calls of the whole process. Each engine has its own `max_calls` below that.
const STACK_CALLS: usize = 4000;
const IDLE: Duration = Duration::from_millis(500);
const LEAVING: Duration = Duration::from_millis(20);
/// How often the log is told of requests that were kept out.
const SUMMARY_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Attached {
    pub tenant: Arc<Tenant>,
    pub sockets: Sockets,
    leaving: Option<(Instant, SyncSender<()>)>,
}

impl Attached {
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }
}

struct Sip {
    endpoint: Endpoint,
    idle: Vec<Sockets>,
    tenants: HashMap<u64, Attached>,
    calls: Calls,
    trunks: Trunks,
    guards: Guards,
    summary_at: Instant,
}

pub(super) fn run(
    setup: &StackSetup,
    inbox: &Receiver<Command>,
    ready: &SyncSender<Result<Waker, SignallingError>>,
    counters: &StackCounters,
    pulse: &Pulse,
) {
    let config = EndpointConfig {
        user_agent: setup.user_agent.clone(),
        nameservers: setup.nameservers.clone(),
        log_level: 2,
        codecs: vec![Codec::Pcma, Codec::Pcmu, Codec::G722],
        max_calls: STACK_CALLS,
    };
    let mut endpoint = match Endpoint::new(&config) {
        Ok((endpoint, waker)) => {
            let _ = ready.send(Ok(waker));
            endpoint
        }
        Err(e) => {
            let _ = ready.send(Err(e.into()));
            return;
        }
    };
    let guards = Guards::default();
    endpoint.set_gate(Box::new(guards.clone()));
    let mut sip = Sip {
        endpoint,
        guards,
        summary_at: Instant::now(),
        idle: Vec::new(),
        tenants: HashMap::new(),
        calls: Calls::default(),
        trunks: Trunks::default(),
    };
    let mut events = Vec::with_capacity(256);
    let mut rush = Rush::default();
    loop {
        let leaving = sip.tenants.values().any(Attached::is_leaving);
        let timeout = if leaving { LEAVING } else { IDLE };
        pulse.back_by(now_ns() + timeout.as_nanos() as u64);
        if let Err(e) = sip.endpoint.poll(timeout, &mut events) {
            sip.log_all(LogLevel::Error, &format!("SIP poll: {e}"));
            // An error that stays must not become a busy loop.
            std::thread::sleep(Duration::from_millis(10));
        }
        for event in events.drain(..) {
            sip.on_event(event);
        }
        loop {
            match inbox.try_recv() {
                Ok(Command::Quit) | Err(TryRecvError::Disconnected) => {
                    sip.endpoint.shutdown();
                    return;
                }
                Ok(command) => sip.on_command(command),
                Err(TryRecvError::Empty) => break,
            }
        }
        sip.let_go();
        sip.calls.end_unacknowledged(&mut sip.endpoint);
        sip.summaries();
        let stats = sip.endpoint.stats();
        counters.transactions.store(stats.transactions, Ordering::Relaxed);
        counters.dialogs.store(stats.dialogs, Ordering::Relaxed);
        if rush.is_over(stats.transactions) {
            sip.endpoint.trim();
        }
        counters.malformed.store(stats.malformed, Ordering::Relaxed);
        counters.rejected.store(stats.rejected, Ordering::Relaxed);
    }
}

/// Many transactions at once leave much memory behind, which stays with the process unless it is
/// asked to give it back.
#[derive(Default)]
struct Rush {
    most: u64,
}

impl Rush {
    /// Of as many as these the memory is worth it.
    const LEAST: u64 = 64;

    /// True once, when few of many are left.
    fn is_over(&mut self, transactions: u64) -> bool {
        self.most = self.most.max(transactions);
        let over = self.most >= Rush::LEAST && transactions < self.most / 8;
        if over {
            self.most = transactions;
        }
        over
    }
}

impl Sip {
    fn on_command(&mut self, command: Command) {
        match command {
            Command::Attach { tenant, reply } => {
                let _ = reply.send(self.attach(tenant));
            }
            Command::Detach { tenant, reply } => self.detach(tenant, reply),
            Command::Ring(call) => self.calls.ring(&mut self.endpoint, call),
            Command::Answer(call) => self.calls.answer(&mut self.endpoint, call),
            Command::Reject { call, status, retry_after } => {
                self.calls.reject(&mut self.endpoint, call, status, retry_after);
            }
            Command::Info { call, request, key, duration_ms } => {
                self.calls.info(&mut self.endpoint, call, request, key, duration_ms);
            }
            Command::Hangup(call) => self.calls.hangup(&mut self.endpoint, call),
            Command::Dial { tenant, dial } => {
                let Some(attached) = self.tenants.get(&tenant) else { return };
                let from = dial.from.clone().or_else(|| {
                    let (username, _) = dial.credentials.as_ref()?;
                    self.trunks.aor_of(tenant, username)
                });
                self.calls.dial(&mut self.endpoint, attached, *dial, from);
            }
            Command::Follow { tenant, call, dial } => {
                let Some(attached) = self.tenants.get(&tenant) else { return };
                self.calls.follow(&mut self.endpoint, attached, call, *dial);
            }
            Command::Dialog(command) => self.calls.on_dialog_command(&mut self.endpoint, command),
            Command::Trunk(command) => {
                self.trunks.on_command(&mut self.endpoint, &self.tenants, command);
            }
            Command::ReloadTls { tenant } => self.reload_tls(tenant),
            Command::SetAcl { tenant, acl } => self.guards.set_acl(tenant, acl),
            #[cfg(test)]
            Command::Block(time) => std::thread::sleep(time),
            Command::Quit => {}
        }
    }

    fn attach(&mut self, tenant: Arc<Tenant>) -> Result<SocketAddr, SignallingError> {
        let config = &tenant.config;
        let idle = self.idle.iter().position(|idle| idle.suits(config));
        let (sockets, open) = match idle.map(|at| self.idle.swap_remove(at)) {
            Some(sockets) => (sockets, true),
            None => (Sockets::probe(config)?, false),
        };
        // Before the sockets are open: nothing gets past the guard.
        self.guard(&tenant, &sockets)?;
        if !open {
            if let Err(e) = sockets.open(&mut self.endpoint) {
                self.guards.detach(tenant.id);
                return Err(e);
            }
        }
        for port in sockets.ports() {
            self.endpoint.set_policy(port, &config.dialogs)?;
        }
        let address = sockets.address;
        self.tenants.insert(tenant.id, Attached { tenant, sockets, leaving: None });
        Ok(address)
    }

    fn guard(&self, tenant: &Tenant, sockets: &Sockets) -> Result<(), SignallingError> {
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| SignallingError::StartFailed(format!("no random numbers: {e}")))?;
        let setup = GuardSetup {
            id: tenant.id,
            config: tenant.config.guard.clone(),
            bind: tenant.config.bind,
            max_calls: tenant.config.max_calls,
            counters: Arc::clone(&tenant.guard),
            draining: Arc::clone(&tenant.draining),
            secret,
        };
        self.guards.attach(setup, sockets.ports());
        Ok(())
    }

    fn reload_tls(&mut self, tenant: u64) {
        let Some(attached) = self.tenants.get(&tenant) else { return };
        let (level, text) = match attached.sockets.reload_tls(&mut self.endpoint) {
            Ok(()) => (LogLevel::Info, "the files of TLS are read again".to_owned()),
            Err(e) => (LogLevel::Error, format!("the files of TLS cannot be read again: {e}")),
        };
        attached.tenant.log(level, text);
    }

    fn summaries(&mut self) {
        if self.summary_at.elapsed() < SUMMARY_EVERY {
            return;
        }
        self.summary_at = Instant::now();
        for (id, line) in self.guards.summaries() {
            if let Some(attached) = self.tenants.get(&id) {
                attached.tenant.log(LogLevel::Warning, line);
            }
        }
    }

    fn detach(&mut self, tenant: u64, reply: SyncSender<()>) {
        let Some(attached) = self.tenants.get_mut(&tenant) else {
            let _ = reply.send(());
            return;
        };
        attached.leaving = Some((Instant::now() + DETACH_LIMIT, reply));
        self.calls.hangup_all(&mut self.endpoint, tenant);
        self.trunks.leave(&mut self.endpoint, tenant);
    }

    /// Releases engines that leave, once nothing of theirs is left or their time is up.
    fn let_go(&mut self) {
        if !self.tenants.values().any(Attached::is_leaving) {
            return;
        }
        let now = Instant::now();
        let Sip { tenants, calls, trunks, .. } = self;
        let gone: Vec<u64> = tenants
            .iter()
            .filter(|(id, attached)| match &attached.leaving {
                Some((deadline, _)) => {
                    now >= *deadline || !(calls.has_any(**id) || trunks.any_bound(**id))
                }
                None => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.calls.forget_all(id);
            self.guards.detach(id);
            self.trunks.forget(id);
            if let Some(attached) = self.tenants.remove(&id) {
                self.idle.push(attached.sockets);
                if let Some((_, reply)) = attached.leaving {
                    let _ = reply.send(());
                }
            }
        }
    }

    fn on_event(&mut self, event: SipEvent) {
        match event {
            SipEvent::Incoming {
                call,
                sip_call_id,
                from,
                to,
                request_uri,
                source,
                local_port,
                has_offer,
            } => {
                let Some(attached) = owner(&self.tenants, &self.idle, local_port, &request_uri)
                else {
                    let _ = self.endpoint.reject(call, 503, None);
                    return;
                };
                let from_whom = (source, has_offer);
                let account = self.guards.account(call).map(String::into_boxed_str);
                self.calls.incoming(&mut self.endpoint, attached, call, from_whom, |id| {
                    SignalEvent::Incoming {
                        call: id,
                        sip_call_id,
                        from,
                        to,
                        source: source.to_string(),
                        account,
                    }
                });
            }
            SipEvent::Progress { call, status } => {
                self.calls.progress(&mut self.endpoint, call, status);
            }
            SipEvent::Media { call, media, srtp, confidential } => {
                self.calls.media(call, &media, Srtp { keys: srtp, confidential });
            }
            SipEvent::Confirmed { call } => self.calls.confirmed(&mut self.endpoint, call),
            SipEvent::Ended { call, status, reason, by_remote } => {
                self.calls.ended(&mut self.endpoint, call, status, &reason, by_remote);
            }
            SipEvent::Dtmf { call, event, duration_ms } => {
                self.calls.dtmf(call, event, duration_ms);
            }
            SipEvent::InfoDone { call, token, status } => {
                self.calls.info_done(call, token, status);
            }
            event @ (SipEvent::Registration { .. } | SipEvent::Probe { .. }) => {
                let Sip { trunks, tenants, .. } = self;
                trunks.on_event(event, |id| tenants.get(&id).is_some_and(Attached::is_leaving));
            }
            SipEvent::Rejected { source, status, why } => {
                self.log_all(
                    LogLevel::Info,
                    &format!("request from {source} refused with {status}: {why}"),
                );
            }
            SipEvent::Malformed { source, why } => {
                let source = source.map_or_else(|| "unknown".to_owned(), |s| s.to_string());
                self.log_all(LogLevel::Info, &format!("not SIP, from {source}: {why}"));
            }
            SipEvent::Log { level, message } => {
                let level = match level {
                    0 | 1 => LogLevel::Error,
                    2 => LogLevel::Warning,
                    3 => LogLevel::Info,
                    _ => LogLevel::Debug,
                };
                self.log_all(level, &message);
            }
            other => self.calls.on_dialog_event(&mut self.endpoint, other),
        }
    }

    fn log_all(&self, level: LogLevel, message: &str) {
        for attached in self.tenants.values() {
            attached.tenant.log(level, message.to_owned());
        }
    }
}

/// The engine a request was sent to, told by the port it came in by, else the one it names; the oldest one when it names none of ours, none
/// when that engine has left.
fn owner<'a>(
    tenants: &'a HashMap<u64, Attached>,
    idle: &[Sockets],
    local_port: u16,
    request_uri: &str,
) -> Option<&'a Attached> {
    let by_socket = tenants.values().find(|a| a.sockets.ports().contains(&local_port));
    if by_socket.is_some() || idle.iter().any(|idle| idle.ports().contains(&local_port)) {
        return by_socket;
    }
    // Over a connection that we opened, whose port is any.
    let port = port_of(request_uri);
    if idle.iter().any(|idle| idle.ports().contains(&port)) {
        return None;
    }
    let named = tenants.values().find(|a| a.sockets.ports().contains(&port));
    named.or_else(|| tenants.values().min_by_key(|a| a.tenant.id))
}

/// Port of a SIP URI, 5060 when it names none (RFC 3261 section 19.1.2).
fn port_of(uri: &str) -> u16 {
    let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    let hostport = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let hostport = hostport.split([';', '?', '>']).next().unwrap_or(hostport);
    let port = match hostport.rsplit_once(']') {
        Some((_, after)) => after.strip_prefix(':'),
        None => hostport.rsplit_once(':').map(|(_, port)| port),
    };
    port.and_then(|p| p.parse().ok()).unwrap_or(5060)
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn port_of_uris() {
        for (uri, port) in [
            ("sip:100@127.0.0.1:5070", 5070),
            ("sip:100@127.0.0.1", 5060),
            ("sip:127.0.0.1:5071;transport=tcp", 5071),
            ("sip:1@[::1]:5072", 5072),
            ("sip:1@[::1]", 5060),
            ("sip:1:secret@host:99999", 5060),
            ("", 5060),
        ] {
            assert_eq!(port_of(uri), port, "{uri}");
        }
    }
}
