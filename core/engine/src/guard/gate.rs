// SPDX-License-Identifier: GPL-3.0-or-later
//! The guards of all engines behind the one gate of the stack.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use pjsip_sys::{CallId, Credential, Gate, Origin, Request, Verdict};

use super::acl::Network;
use super::decide::{Admitted, Guard, GuardSetup};
use super::sources::Slot;

struct Tracked {
    guard: u64,
    slot: Slot,
    pending: bool,
    unproved: bool,
    account: Option<String>,
}

#[derive(Default)]
struct Table {
    guards: Vec<Guard>,
    calls: HashMap<CallId, Tracked>,
}

impl Table {
    /// By the port it came to; a port that is none of ours (a connection that we opened) is the oldest engine's.
    fn guard(&mut self, port: u16) -> Option<&mut Guard> {
        let at = self.guards.iter().position(|g| g.ports.contains(&port)).unwrap_or(0);
        self.guards.get_mut(at)
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Guard> {
        self.guards.iter_mut().find(|g| g.setup.id == id)
    }

    fn release(&mut self, call: CallId, over: bool) {
        let Some(tracked) = self.calls.get_mut(&call) else { return };
        let was_pending = std::mem::take(&mut tracked.pending);
        let (id, slot, unproved) = (tracked.guard, tracked.slot, tracked.unproved);
        if over {
            self.calls.remove(&call);
        }
        let Some(guard) = self.by_id(id) else { return };
        if was_pending && unproved {
            guard.unproved = guard.unproved.saturating_sub(1);
        }
        let source = guard.sources.at(slot);
        if was_pending {
            source.pending = source.pending.saturating_sub(1);
        }
        if over {
            source.calls = source.calls.saturating_sub(1);
        } else if slot != Slot::Shared {
            source.proved = true;
        }
    }
}

/// The guards of all engines of the process. Lives on the SIP thread; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Guards {
    table: Rc<RefCell<Table>>,
}

impl Guards {
    pub(crate) fn attach(&self, setup: GuardSetup, ports: Vec<u16>) {
        self.with(|table| table.guards.push(Guard::new(setup, ports, Instant::now())));
    }

    pub(crate) fn detach(&self, id: u64) {
        self.with(|table| table.guards.retain(|g| g.setup.id != id));
    }

    pub(crate) fn set_acl(&self, id: u64, acl: Option<Vec<Network>>) {
        self.with(|table| {
            if let Some(guard) = table.by_id(id) {
                guard.setup.config.acl = acl;
            }
        });
    }

    /// The user that a call which came in authenticated as.
    pub(crate) fn account(&self, call: CallId) -> Option<String> {
        self.table.try_borrow().ok()?.calls.get(&call)?.account.clone()
    }

    /// A line for the log of each engine of which requests were kept out.
    pub(crate) fn summaries(&self) -> Vec<(u64, String)> {
        let mut lines = Vec::new();
        self.with(|table| {
            for guard in &mut table.guards {
                lines.extend(guard.summary().map(|line| (guard.setup.id, line)));
            }
        });
        lines
    }

    /// Never fails: the gate is not asked while an engine attaches or leaves, for both are of one thread.
    fn with(&self, f: impl FnOnce(&mut Table)) {
        if let Ok(mut table) = self.table.try_borrow_mut() {
            f(&mut table);
        }
    }

    fn ask<R>(&self, port: u16, otherwise: R, f: impl FnOnce(&mut Guard, Instant) -> R) -> R {
        let Ok(mut table) = self.table.try_borrow_mut() else { return otherwise };
        match table.guard(port) {
            Some(guard) => f(guard, Instant::now()),
            None => otherwise,
        }
    }
}

impl Gate for Guards {
    fn connected(&mut self, origin: &Origin, id: u64) -> bool {
        self.ask(origin.local_port, true, |g, now| g.connected(origin.source.ip(), id, now))
    }

    fn disconnected(&mut self, id: u64) {
        self.with(|table| table.guards.iter_mut().for_each(|g| g.disconnected(id)));
    }

    fn packet(&mut self, origin: &Origin, data: &[u8]) -> bool {
        self.ask(origin.local_port, true, |g, now| g.packet(origin, data, now))
    }

    fn request(&mut self, origin: &Origin, request: &Request<'_>) -> Verdict {
        self.ask(origin.local_port, Verdict::Pass, |g, now| g.request(origin, request, now))
    }

    fn invite(&mut self, origin: &Origin, credentials: &[Credential<'_>]) -> Verdict {
        self.ask(origin.local_port, Verdict::Pass, |g, now| g.invite(origin, credentials, now))
    }

    fn misbehaved(&mut self, origin: &Origin) -> bool {
        self.ask(origin.local_port, true, |g, now| g.misbehaved(origin.source.ip(), now))
    }

    fn opened(&mut self, origin: &Origin, call: CallId) {
        self.with(|table| {
            let Some(guard) = table.guard(origin.local_port) else { return };
            let Some(Admitted { slot, unproved, account }) = guard.admitted.take() else { return };
            let source = guard.sources.at(slot);
            source.calls += 1;
            source.pending += 1;
            guard.unproved += u32::from(unproved);
            let tracked = Tracked { guard: guard.setup.id, slot, pending: true, unproved, account };
            table.calls.insert(call, tracked);
        });
    }

    fn confirmed(&mut self, call: CallId) {
        self.with(|table| table.release(call, false));
    }

    fn ended(&mut self, call: CallId) {
        self.with(|table| table.release(call, true));
    }

    fn registering(&mut self, registrar: &Origin) {
        self.ask(registrar.local_port, (), |g, now| g.registering(registrar.source.ip(), now));
    }
}
