// SPDX-License-Identifier: GPL-3.0-or-later
//! Names to servers without ever making the SIP thread wait (RFC 3263): lookups run in threads of their own, answers are kept
//! for as long as they hold, and servers that failed lately come last.

mod client;
mod lookup;
mod system;
mod wire;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::endpoint::Waker;
use crate::types::Transport;

/// Lookups at the same time; the others wait for their turn.
const THREADS: usize = 16;
/// However long a record claims to hold.
const LIFE_MAX: Duration = Duration::from_secs(300);
/// Also of records that claim less: a call and its retries should not ask twice.
const LIFE_MIN: Duration = Duration::from_secs(2);
/// That a name has no address is asked again after this.
const NOTHING_LIFE: Duration = Duration::from_secs(5);
/// An old answer serves while the name servers are silent (RFC 8767), and they are asked again after [`NOTHING_LIFE`].
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);
const CACHE_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    host: String,
    /// 0: none in the URI.
    port: u16,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    address: SocketAddr,
    priority: u16,
    weight: u16,
}

struct Known {
    servers: Vec<Server>,
    until: Instant,
    learnt: Instant,
}

type Found = (Key, Option<(Vec<Server>, u32)>);

/// Used by the SIP thread alone.
pub(crate) struct Resolver {
    nameservers: Vec<SocketAddr>,
    waker: Waker,
    known: HashMap<Key, Known>,
    waiting: HashMap<Key, Vec<u64>>,
    queued: VecDeque<Key>,
    running: usize,
    blamed: HashMap<(SocketAddr, Transport), Instant>,
    answers: VecDeque<(u64, Vec<SocketAddr>)>,
    found: (Sender<Found>, Receiver<Found>),
    dice: u64,
}

impl Resolver {
    pub(crate) fn new(nameservers: Vec<SocketAddr>, waker: Waker) -> Resolver {
        Resolver {
            nameservers,
            waker,
            known: HashMap::new(),
            waiting: HashMap::new(),
            queued: VecDeque::new(),
            running: 0,
            blamed: HashMap::new(),
            answers: VecDeque::new(),
            found: mpsc::channel(),
            dice: RandomState::new().build_hasher().finish() | 1,
        }
    }

    /// The answer to `query` comes by [`Resolver::next_answer`].
    pub(crate) fn start(&mut self, query: u64, host: &str, port: u16, transport: Transport) {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let key = Key { host, port, transport };
        if let Some(known) = self.known.get(&key).filter(|k| k.until > Instant::now()) {
            let servers = known.servers.clone();
            let order = self.order(&servers, transport);
            self.answers.push_back((query, order));
            return;
        }
        let waiting = self.waiting.entry(key.clone()).or_default();
        waiting.push(query);
        if waiting.len() == 1 {
            self.queued.push_back(key);
            self.run_queued();
        }
    }

    /// This server comes after all others for `time`.
    pub(crate) fn blame(&mut self, server: SocketAddr, transport: Transport, time: Duration) {
        let now = Instant::now();
        self.blamed.retain(|_, until| *until > now);
        if self.blamed.len() < CACHE_MAX {
            self.blamed.insert((server, transport), now + time);
        }
    }

    /// An answer to a query: servers, the one to be tried first in front. None: the name has no address, or nobody knows.
    pub(crate) fn next_answer(&mut self) -> Option<(u64, Vec<SocketAddr>)> {
        while let Ok((key, found)) = self.found.1.try_recv() {
            self.running -= 1;
            self.take(key, found);
            self.run_queued();
        }
        self.answers.pop_front()
    }

    fn take(&mut self, key: Key, found: Option<(Vec<Server>, u32)>) {
        let now = Instant::now();
        let old = self.known.get(&key).filter(|k| now - k.learnt < STALE_MAX);
        let known = match found {
            Some((servers, ttl)) => {
                let life = if servers.is_empty() {
                    NOTHING_LIFE
                } else {
                    Duration::from_secs(u64::from(ttl)).clamp(LIFE_MIN, LIFE_MAX)
                };
                Known { servers, until: now + life, learnt: now }
            }
            None => Known {
                servers: old.map_or_else(Vec::new, |k| k.servers.clone()),
                until: now + NOTHING_LIFE,
                learnt: old.map_or(now, |k| k.learnt),
            },
        };
        let queries = self.waiting.remove(&key).unwrap_or_default();
        for query in queries {
            let order = self.order(&known.servers, key.transport);
            self.answers.push_back((query, order));
        }
        if self.known.len() >= CACHE_MAX {
            self.known.retain(|_, k| k.until > now);
        }
        if self.known.len() < CACHE_MAX {
            self.known.insert(key, known);
        }
    }

    fn run_queued(&mut self) {
        while self.running < THREADS {
            let Some(key) = self.queued.pop_front() else { return };
            let (sender, waker) = (self.found.0.clone(), self.waker.clone());
            let nameservers = self.nameservers.clone();
            let failed = key.clone();
            let thread = std::thread::Builder::new().name("vc-dns".to_owned()).spawn(move || {
                let found = lookup::lookup(&key, &nameservers);
                // An error means that the endpoint is gone.
                if sender.send((key, found)).is_ok() {
                    waker.wake();
                }
            });
            if thread.is_ok() {
                self.running += 1;
            } else {
                self.take(failed, None);
            }
        }
    }

    /// By priority, within it by chance and weight (RFC 2782); those blamed last, the one whose time is up first in front.
    fn order(&mut self, servers: &[Server], transport: Transport) -> Vec<SocketAddr> {
        let mut left = servers.to_vec();
        left.sort_by_key(|s| (s.priority, s.weight != 0));
        let mut out: Vec<SocketAddr> = Vec::with_capacity(left.len());
        while let Some(first) = left.first().copied() {
            let peers = left.iter().take_while(|s| s.priority == first.priority);
            let total: u64 = peers.clone().map(|s| u64::from(s.weight)).sum();
            let at = if total == 0 {
                0
            } else {
                let mut draw = self.roll() % (total + 1);
                peers
                    .map(|s| u64::from(s.weight))
                    .position(|weight| {
                        let hit = weight >= draw;
                        draw = draw.saturating_sub(weight);
                        hit
                    })
                    .unwrap_or(0)
            };
            let server = left.remove(at);
            if !out.contains(&server.address) {
                out.push(server.address);
            }
        }
        let now = Instant::now();
        out.sort_by_key(|&a| self.blamed.get(&(a, transport)).copied().filter(|u| *u > now));
        out
    }

    /// xorshift64*: chance for load, not for secrets.
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

#[cfg(test)]
mod tests;
