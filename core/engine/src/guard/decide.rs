// SPDX-License-Identifier: GPL-3.0-or-later
//! The guard of one engine: its decisions, on virtual time.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjsip_sys::{Credential, Origin, Refusal, Request, Verdict};

use super::acl::plain;
use super::config::{GuardConfig, Unlisted};
use super::digest::{challenges, verify, Outcome};
use super::nonce::Nonces;
use super::scan::{head, holds};
use super::sources::{Slot, Sources};
use super::{Draining, GuardCounters};

/// Registrars remembered, and for how long after the last REGISTER: longer than any binding is asked for.
const REGISTRARS_MAX: usize = 64;
const REGISTRAR_LIFE: Duration = Duration::from_secs(25 * 3600);
/// Connections of one limited source, and of all sources that the ACL keeps out.
const CONNECTIONS_PER_SOURCE: u32 = 16;
const CONNECTIONS_UNLISTED: usize = 64;
/// What has no end of its header by now is judged as it is.
const HEAD_MAX: usize = 8192;
/// Told to those over a limit, s.
const RETRY_AFTER_S: u32 = 5;

/// How a source stands to the ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This machine.
    Here,
    /// The ACL names it, or we registered there.
    Listed,
    /// There is no ACL.
    Open,
    /// There is one, and it does not.
    Unlisted,
}

/// What the engine gives its guard.
pub(crate) struct GuardSetup {
    pub id: u64,
    pub config: GuardConfig,
    pub bind: IpAddr,
    pub max_calls: usize,
    pub counters: Arc<GuardCounters>,
    pub draining: Arc<Draining>,
    /// Random.
    pub secret: [u8; 32],
}

/// An INVITE that was let in.
pub(super) struct Admitted {
    pub slot: Slot,
    /// Its address may be forged.
    pub unproved: bool,
    /// The user who called.
    pub account: Option<String>,
}

pub(super) struct Guard {
    pub(super) setup: GuardSetup,
    pub(super) ports: Vec<u16>,
    scanners: Vec<Vec<u8>>,
    registrars: Vec<(IpAddr, Instant)>,
    pub(super) sources: Sources,
    nonces: Nonces,
    /// Calls without ACK of sources that never proved their address: together at most half of max_calls.
    pub(super) unproved: u32,
    /// What the last `invite` let pass; `opened` follows at once, if at all.
    pub(super) admitted: Option<Admitted>,
    connections: HashMap<u64, (Slot, bool)>,
    told: [u64; 4],
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn refusal(status: u16, why: &'static str, retry_after: Option<u32>) -> Verdict {
    Verdict::Refuse(Refusal { status, why, retry_after, challenges: Vec::new() })
}

impl Guard {
    pub(super) fn new(setup: GuardSetup, ports: Vec<u16>, now: Instant) -> Guard {
        let config = &setup.config;
        Guard {
            ports,
            scanners: config.scanners.iter().map(|s| s.trim().as_bytes().to_vec()).collect(),
            registrars: Vec::new(),
            sources: Sources::new(config, now),
            nonces: Nonces::new(setup.secret, Duration::from_secs(u64::from(config.nonce_s)), now),
            unproved: 0,
            admitted: None,
            connections: HashMap::new(),
            told: [0; 4],
            setup,
        }
    }

    pub(super) fn standing(&self, source: IpAddr, now: Instant) -> Standing {
        let source = plain(source);
        let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        if here.contains(&source) || !source.is_unspecified() && source == self.setup.bind {
            return Standing::Here;
        }
        let registrar = self.registrars.iter().any(|(address, at)| {
            *address == source && now.saturating_duration_since(*at) < REGISTRAR_LIFE
        });
        match &self.setup.config.acl {
            _ if registrar => Standing::Listed,
            None => Standing::Open,
            Some(acl) if acl.iter().any(|network| network.contains(source)) => Standing::Listed,
            Some(_) => Standing::Unlisted,
        }
    }

    fn is_limited(&self, standing: Standing) -> bool {
        match standing {
            Standing::Here => false,
            Standing::Listed => self.setup.config.limit_listed,
            Standing::Open | Standing::Unlisted => true,
        }
    }

    fn slot(&mut self, source: IpAddr, now: Instant) -> Slot {
        self.sources.slot(source, &self.setup.config, now)
    }

    pub(super) fn connected(&mut self, source: IpAddr, id: u64, now: Instant) -> bool {
        let standing = self.standing(source, now);
        if !self.is_limited(standing) {
            return true;
        }
        let slot = self.slot(source, now);
        let unlisted = standing == Standing::Unlisted;
        let held = self.sources.at(slot).connections;
        self.sources.at(slot).connections = held + 1;
        let of_unlisted = self.connections.values().filter(|(_, unlisted)| *unlisted).count();
        self.connections.insert(id, (slot, unlisted));
        let room =
            held < CONNECTIONS_PER_SOURCE && !(unlisted && of_unlisted >= CONNECTIONS_UNLISTED);
        if !room {
            count(&self.setup.counters.limited);
        }
        room
    }

    pub(super) fn disconnected(&mut self, id: u64) {
        if let Some((slot, _)) = self.connections.remove(&id) {
            let source = self.sources.at(slot);
            source.connections = source.connections.saturating_sub(1);
        }
    }

    pub(super) fn packet(&mut self, origin: &Origin, data: &[u8], now: Instant) -> bool {
        let seen = head(data);
        if seen.response || origin.stream && !seen.complete && data.len() < HEAD_MAX {
            return true;
        }
        let counters = Arc::clone(&self.setup.counters);
        let standing = self.standing(origin.source.ip(), now);
        let silent = self.setup.config.unlisted == Unlisted::Silent;
        if standing == Standing::Unlisted && silent && !seen.to_tag && !seen.ack {
            count(&counters.unlisted);
            return false;
        }
        if self.scanners.iter().any(|scanner| holds(seen.user_agent, scanner)) {
            count(&counters.scanners);
            return false;
        }
        if self.is_limited(standing) && !seen.to_tag && !seen.ack {
            let slot = self.slot(origin.source.ip(), now);
            if self.sources.at(slot).is_muted(now) {
                count(&counters.muted);
                return false;
            }
        }
        true
    }

    pub(super) fn request(
        &mut self,
        origin: &Origin,
        request: &Request<'_>,
        now: Instant,
    ) -> Verdict {
        if request.in_dialog || request.method == b"ACK" {
            return Verdict::Pass;
        }
        let standing = self.standing(origin.source.ip(), now);
        if standing == Standing::Unlisted {
            let counters = Arc::clone(&self.setup.counters);
            let passes = match self.setup.config.unlisted {
                Unlisted::Silent => false,
                Unlisted::Refuse => {
                    count(&counters.unlisted);
                    if !self.misbehaved(origin.source.ip(), now) {
                        return Verdict::Drop;
                    }
                    return refusal(403, "its source is not in the ACL", None);
                }
                Unlisted::Challenge => {
                    request.method == b"CANCEL" || request.method == b"INVITE" && !request.to_tag
                }
            };
            if !passes {
                count(&counters.unlisted);
                return Verdict::Drop;
            }
        }
        if request.to_tag && !self.misbehaved(origin.source.ip(), now) {
            return Verdict::Drop;
        }
        if request.method == b"OPTIONS" && !request.to_tag && self.is_draining() {
            return refusal(503, "draining", self.retry_after());
        }
        Verdict::Pass
    }

    fn is_draining(&self) -> bool {
        self.setup.draining.on.load(Ordering::Relaxed)
    }

    fn retry_after(&self) -> Option<u32> {
        Some(self.setup.draining.retry_after.load(Ordering::Relaxed))
    }

    /// False when it is muted from now on.
    pub(super) fn misbehaved(&mut self, source: IpAddr, now: Instant) -> bool {
        if !self.is_limited(self.standing(source, now)) {
            return true;
        }
        let slot = self.slot(source, now);
        let answered = self.sources.at(slot).misbehave(now);
        if !answered {
            count(&self.setup.counters.muted);
        }
        answered
    }

    /// A refusal that the sender gets only as long as it does not cause too many.
    fn refuse(&mut self, source: IpAddr, now: Instant, verdict: Verdict) -> Verdict {
        if self.misbehaved(source, now) {
            verdict
        } else {
            Verdict::Drop
        }
    }

    pub(super) fn invite(
        &mut self,
        origin: &Origin,
        credentials: &[Credential<'_>],
        now: Instant,
    ) -> Verdict {
        let source = origin.source.ip();
        let standing = self.standing(source, now);
        let limited = self.is_limited(standing);
        let counters = Arc::clone(&self.setup.counters);
        self.admitted = None;
        let slot = self.slot(source, now);
        if limited && !self.sources.at(slot).may_invite(&self.setup.config, now) {
            count(&counters.limited);
            let verdict = refusal(503, "its source sends too many INVITEs", Some(RETRY_AFTER_S));
            return self.refuse(source, now, verdict);
        }
        if self.is_draining() {
            return self.refuse(source, now, refusal(503, "draining", self.retry_after()));
        }
        let config = &self.setup.config;
        let challenged = !config.users.is_empty()
            && (config.unlisted != Unlisted::Challenge || standing == Standing::Unlisted);
        if challenged {
            let outcome = verify(config, &mut self.nonces, credentials, now);
            let (stale, wrong) = (outcome == Outcome::Stale, outcome == Outcome::Wrong);
            let (counter, why) = match outcome {
                Outcome::Right(user) => {
                    self.sources.at(slot).proved = slot != Slot::Shared;
                    return self.room(slot, limited, Some(user), source, now);
                }
                Outcome::Absent => (&counters.challenged, "it brings no credentials"),
                Outcome::Stale => (&counters.challenged, "its nonce is stale or was used"),
                Outcome::Wrong => (&counters.auth_failed, "its credentials are wrong"),
            };
            count(counter);
            let challenges = challenges(config, &mut self.nonces, stale, now);
            let verdict =
                Verdict::Refuse(Refusal { status: 401, why, retry_after: None, challenges });
            // The first request of every call is one without credentials: no fault of the caller's.
            if wrong {
                return self.refuse(source, now, verdict);
            }
            return verdict;
        }
        self.room(slot, limited, None, source, now)
    }

    /// Whether the source may hold one more call.
    fn room(
        &mut self,
        slot: Slot,
        limited: bool,
        account: Option<String>,
        source: IpAddr,
        now: Instant,
    ) -> Verdict {
        let config = &self.setup.config;
        let half = self.setup.max_calls.div_ceil(2);
        let held = self.sources.at(slot);
        let unproved = limited && account.is_none() && !held.proved;
        let over = |held: u32, most: u32| most > 0 && held >= most;
        let why = if !limited {
            None
        } else if over(held.calls, config.calls_per_source) {
            Some("its source has as many calls as it may")
        } else if over(held.pending, config.pending_per_source) {
            Some("its source has as many unacknowledged calls as it may")
        } else if unproved && self.unproved as usize >= half {
            Some("half of max_calls are unacknowledged calls of unknown sources")
        } else {
            None
        };
        if let Some(why) = why {
            count(&self.setup.counters.limited);
            return self.refuse(source, now, refusal(503, why, Some(RETRY_AFTER_S)));
        }
        self.admitted = Some(Admitted { slot, unproved, account });
        Verdict::Pass
    }

    pub(super) fn registering(&mut self, registrar: IpAddr, now: Instant) {
        let registrar = plain(registrar);
        if let Some(known) = self.registrars.iter_mut().find(|(address, _)| *address == registrar) {
            known.1 = now;
            return;
        }
        if self.registrars.len() >= REGISTRARS_MAX {
            self.registrars.sort_by_key(|(_, at)| *at);
            self.registrars.remove(0);
        }
        self.registrars.push((registrar, now));
    }

    /// What was dropped in silence since the last time, for the log.
    pub(super) fn summary(&mut self) -> Option<String> {
        let counters = &self.setup.counters;
        let now = [&counters.unlisted, &counters.scanners, &counters.muted, &counters.limited]
            .map(|counter| counter.load(Ordering::Relaxed));
        let names = ["from outside the ACL", "of scanners", "of muted sources", "over a limit"];
        let parts: Vec<String> = now
            .iter()
            .zip(self.told)
            .zip(names)
            .filter(|((now, told), _)| *now > told)
            .map(|((now, told), name)| format!("{} {name}", *now - told))
            .collect();
        self.told = now;
        (!parts.is_empty()).then(|| format!("requests kept out: {}", parts.join(", ")))
    }
}
