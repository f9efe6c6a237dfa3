// SPDX-License-Identifier: GPL-3.0-or-later
//! From the host part of a SIP URI to servers (RFC 3263 section 4.2): SRV, then A and AAAA. Waits for answers, so it runs
//! beside the SIP thread only.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::client::ask;
use super::system::{hosts, resolv_conf};
use super::wire::{self, Data, Record};
use super::{Key, Server};
use crate::types::Transport;

/// Of addresses from `/etc/hosts` and the system, which have no lifetime of their own, s.
const LOCAL_TTL: u32 = 30;
const ALIASES_MAX: usize = 8;

/// Servers of `key` and for how many seconds that holds. `None`: the name servers did not answer; with an empty list the
/// name has no address.
pub(super) fn lookup(key: &Key, nameservers: &[SocketAddr]) -> Option<(Vec<Server>, u32)> {
    let own = !nameservers.is_empty();
    let conf = resolv_conf();
    let servers = if own { nameservers } else { &conf.servers };
    let local = hosts(&key.host);
    if !local.is_empty() {
        return Some((at_default_port(key, local), LOCAL_TTL));
    }
    // A name without a dot is meant within our own domain (resolv.conf(5), ndots:1).
    let mut names: Vec<String> = Vec::new();
    if !key.host.contains('.') && !own {
        names.extend(conf.search.iter().map(|domain| format!("{}.{domain}", key.host)));
    }
    names.push(key.host.clone());
    let mut answered = false;
    for name in &names {
        match by_dns(key, name, servers) {
            Some((found, ttl)) if !found.is_empty() => return Some((found, ttl)),
            Some(_) => answered = true,
            None => {}
        }
    }
    // mDNS, directories and whatever else this machine is set up for.
    if !own {
        if let Ok(found) = (key.host.as_str(), 0).to_socket_addrs() {
            let mut ips: Vec<IpAddr> = found.map(|a| a.ip()).collect();
            ips.dedup();
            return Some((at_default_port(key, ips), LOCAL_TTL));
        }
    }
    answered.then_some((Vec::new(), 0))
}

fn at_default_port(key: &Key, ips: Vec<IpAddr>) -> Vec<Server> {
    let port = match (key.port, key.transport) {
        (0, Transport::Tls) => 5061,
        (0, _) => 5060,
        (port, _) => port,
    };
    ips.into_iter()
        .map(|ip| Server { address: SocketAddr::new(ip, port), priority: 0, weight: 0 })
        .collect()
}

fn by_dns(key: &Key, name: &str, servers: &[SocketAddr]) -> Option<(Vec<Server>, u32)> {
    // A port in the URI leaves nothing for SRV to say (RFC 3263 4.2).
    if key.port == 0 {
        let service = match key.transport {
            Transport::Udp => "_sip._udp",
            Transport::Tcp => "_sip._tcp",
            Transport::Tls => "_sips._tcp",
        };
        let found = ask(servers, &format!("{service}.{name}"), wire::SRV).ok()?.records;
        if found.iter().any(|r| matches!(r.data, Data::Server { .. })) {
            return by_srv(&found, servers);
        }
    }
    let (ips, ttl) = addresses(name, servers)?;
    Some((at_default_port(key, ips), ttl))
}

fn by_srv(records: &[Record], servers: &[SocketAddr]) -> Option<(Vec<Server>, u32)> {
    let mut out = Vec::new();
    let mut life = u32::MAX;
    let mut answered = false;
    for record in records {
        let Data::Server { priority, weight, port, target } = &record.data else { continue };
        life = life.min(record.ttl);
        // "." says that the service does not exist (RFC 2782).
        if target.is_empty() {
            answered = true;
            continue;
        }
        let enclosed = ips_of(records, target);
        let (ips, ttl) = if enclosed.is_empty() {
            let Some(found) = addresses(target, servers) else { continue };
            found
        } else {
            (enclosed, record.ttl)
        };
        answered = true;
        life = life.min(ttl);
        let server = |ip| Server {
            address: SocketAddr::new(ip, *port),
            priority: *priority,
            weight: *weight,
        };
        out.extend(ips.into_iter().map(server));
    }
    answered.then_some((out, life))
}

fn ips_of(records: &[Record], name: &str) -> Vec<IpAddr> {
    let mut out = Vec::new();
    for record in records {
        if let (true, Data::Address(ip)) = (record.name == name, &record.data) {
            out.push(*ip);
        }
    }
    out
}

/// A and AAAA, IPv4 first: where both are there, IPv4 is what SIP works over more often.
fn addresses(name: &str, servers: &[SocketAddr]) -> Option<(Vec<IpAddr>, u32)> {
    let mut out = Vec::new();
    let mut life = u32::MAX;
    let mut answered = false;
    for kind in [wire::A, wire::AAAA] {
        let Ok(answer) = ask(servers, name, kind) else { continue };
        answered = true;
        // Along the aliases, which come in any order.
        let mut names = vec![name.trim_end_matches('.').to_ascii_lowercase()];
        for _ in 0..ALIASES_MAX {
            for record in &answer.records {
                if let Data::Alias(to) = &record.data {
                    if names.contains(&record.name) && !names.contains(to) {
                        names.push(to.clone());
                    }
                }
            }
        }
        for record in &answer.records {
            if let (true, Data::Address(ip)) = (names.contains(&record.name), &record.data) {
                out.push(*ip);
                life = life.min(record.ttl);
            }
        }
    }
    answered.then_some((out, if life == u32::MAX { 0 } else { life }))
}
