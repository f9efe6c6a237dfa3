// SPDX-License-Identifier: GPL-3.0-or-later
//! What is known of each sender: how fast it asks and what it holds. Bounded, whatever addresses are made up.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::acl::plain;
use super::config::GuardConfig;

/// Malformed or refused messages that a source may send at once, and per second from then on, until it is muted.
const BAD_BURST: f64 = 20.0;
const BAD_PER_S: f64 = 2.0;
/// A source that holds nothing and was silent for this long is forgotten when there is no room for another.
const IDLE: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Tokens that come at a steady rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(burst: f64, now: Instant) -> Bucket {
        Bucket { tokens: burst, at: now }
    }

    fn refill(&mut self, per_s: f64, burst: f64, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * per_s;
        self.tokens = (self.tokens + gained).min(burst);
        self.at = now;
    }

    fn take(&mut self, per_s: f64, burst: f64, now: Instant) -> bool {
        self.refill(per_s, burst, now);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[derive(Debug)]
pub(super) struct Source {
    invites: Bucket,
    bad: Bucket,
    pub calls: u32,
    /// Of these, without ACK.
    pub pending: u32,
    pub connections: u32,
    /// It acknowledged a call or knew a password: its address is not forged.
    pub proved: bool,
    seen: Instant,
}

impl Source {
    fn new(config: &GuardConfig, now: Instant) -> Source {
        Source {
            invites: Bucket::new(f64::from(config.invite_burst), now),
            bad: Bucket::new(BAD_BURST, now),
            calls: 0,
            pending: 0,
            connections: 0,
            proved: false,
            seen: now,
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.calls == 0 && self.connections == 0 && now.saturating_duration_since(self.seen) >= IDLE
    }

    /// Whether it may send another INVITE now.
    pub(super) fn may_invite(&mut self, config: &GuardConfig, now: Instant) -> bool {
        config.invites_per_s == 0.0
            || self.invites.take(config.invites_per_s, f64::from(config.invite_burst), now)
    }

    /// Takes note of something bad. False when there was too much of it.
    pub(super) fn misbehave(&mut self, now: Instant) -> bool {
        self.bad.take(BAD_PER_S, BAD_BURST, now)
    }

    pub(super) fn is_muted(&mut self, now: Instant) -> bool {
        self.bad.refill(BAD_PER_S, BAD_BURST, now);
        self.bad.tokens < 1.0
    }
}

/// Where a source is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Own(IpAddr),
    /// With all others for which there was no room.
    Shared,
}

pub(super) struct Sources {
    own: HashMap<IpAddr, Source>,
    shared: Source,
    max: usize,
    swept: Instant,
}

/// One sender: an IPv4 address, or the /64 that an IPv6 host has to itself.
fn key(address: IpAddr) -> IpAddr {
    match plain(address) {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

impl Sources {
    pub(super) fn new(config: &GuardConfig, now: Instant) -> Sources {
        Sources {
            own: HashMap::new(),
            shared: Source::new(config, now),
            max: config.sources_max,
            swept: now,
        }
    }

    /// The slot of a sender, made if there is room.
    pub(super) fn slot(&mut self, address: IpAddr, config: &GuardConfig, now: Instant) -> Slot {
        let key = key(address);
        if let Some(source) = self.own.get_mut(&key) {
            source.seen = now;
            return Slot::Own(key);
        }
        if self.own.len() >= self.max && now.saturating_duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.own.retain(|_, source| !source.is_idle(now));
        }
        if self.own.len() >= self.max {
            return Slot::Shared;
        }
        self.own.insert(key, Source::new(config, now));
        Slot::Own(key)
    }

    pub(super) fn at(&mut self, slot: Slot) -> &mut Source {
        match slot {
            // A slot with calls or connections is never swept; for the rest the shared one is as good.
            Slot::Own(key) => self.own.get_mut(&key).unwrap_or(&mut self.shared),
            Slot::Shared => &mut self.shared,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }
}
