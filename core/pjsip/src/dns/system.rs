// SPDX-License-Identifier: GPL-3.0-or-later
//! What this machine says about names: `/etc/resolv.conf` and `/etc/hosts`. Read anew for each lookup, since both change while
//! we run.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 6;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    pub servers: Vec<SocketAddr>,
    pub search: Vec<String>,
}

pub(super) fn resolv_conf() -> ResolvConf {
    parse_resolv_conf(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

fn parse_resolv_conf(text: &str) -> ResolvConf {
    let mut out = ResolvConf::default();
    for line in text.lines() {
        let mut words = line.split(['#', ';']).next().unwrap_or("").split_whitespace();
        match words.next() {
            Some("nameserver") if out.servers.len() < SERVERS_MAX => {
                out.servers.extend(
                    words.next().and_then(|w| w.parse().ok()).map(|ip| SocketAddr::new(ip, 53)),
                );
            }
            // The last one counts.
            Some("search" | "domain") => {
                out.search = words.take(SEARCH_MAX).map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    if out.servers.is_empty() {
        out.servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53)); // resolv.conf(5)
    }
    out
}

pub(super) fn hosts(name: &str) -> Vec<IpAddr> {
    let found = parse_hosts(&fs::read_to_string("/etc/hosts").unwrap_or_default(), name);
    if found.is_empty() && name.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    found
}

fn parse_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let mut out = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(Ok(ip)) = words.next().map(str::parse) else { continue };
        if words.any(|w| w.eq_ignore_ascii_case(name)) && !out.contains(&ip) {
            out.push(ip);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read() {
        let text = "# c\nnameserver 192.0.2.1 # x\nnameserver 2001:db8::1\nnameserver no\nsearch a b\nsearch lan\n";
        let conf = parse_resolv_conf(text);
        assert_eq!(conf.search, ["lan"]);
        assert_eq!(conf.servers, ["192.0.2.1:53", "[2001:db8::1]:53"].map(|s| s.parse().unwrap()));
        assert_eq!(parse_resolv_conf("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn hosts_are_found_by_any_of_their_names() {
        let text = "127.0.0.1 localhost\n192.0.2.9\tpbx.example PBX # office\n2001:db8::9 pbx\nbroken pbx\n";
        let both: [IpAddr; 2] = ["192.0.2.9".parse().unwrap(), "2001:db8::9".parse().unwrap()];
        assert_eq!(parse_hosts(text, "pbx"), both);
        assert_eq!(parse_hosts(text, "pbx.example"), both[..1]);
        assert!(parse_hosts(text, "office").is_empty());
    }
}
