// SPDX-License-Identifier: GPL-3.0-or-later
//! The order of servers.

use std::time::Duration;

use super::{Known, Resolver, Server};
use crate::endpoint::Waker;
use crate::types::Transport;

fn resolver() -> Resolver {
    Resolver::new(Vec::new(), Waker::for_tests())
}

fn server(last: u8, priority: u16, weight: u16) -> Server {
    Server { address: ([192, 0, 2, last], 5060).into(), priority, weight }
}

fn lasts(order: &[std::net::SocketAddr]) -> Vec<u8> {
    order
        .iter()
        .map(|a| match a.ip() {
            std::net::IpAddr::V4(ip) => ip.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        })
        .collect()
}

#[test]
fn priority_comes_before_weight() {
    let mut r = resolver();
    let servers = [server(3, 20, 100), server(1, 5, 0), server(2, 10, 0)];
    for _ in 0..50 {
        assert_eq!(lasts(&r.order(&servers, Transport::Udp)), [1, 2, 3]);
    }
}

#[test]
fn weight_is_the_share_of_first_places() {
    let mut r = resolver();
    let servers = [server(1, 1, 75), server(2, 1, 25)];
    let first = (0..4000).filter(|_| lasts(&r.order(&servers, Transport::Udp))[0] == 1).count();
    assert!((2700..3300).contains(&first), "{first} of 4000");
}

#[test]
fn who_failed_comes_last_for_a_time() {
    let mut r = resolver();
    let servers = [server(1, 1, 0), server(2, 2, 0), server(3, 3, 0)];
    r.blame(servers[0].address, Transport::Udp, Duration::from_secs(60));
    assert_eq!(lasts(&r.order(&servers, Transport::Udp)), [2, 3, 1]);
    assert_eq!(lasts(&r.order(&servers, Transport::Tcp)), [1, 2, 3]);
    r.blame(servers[1].address, Transport::Udp, Duration::from_secs(90));
    assert_eq!(lasts(&r.order(&servers, Transport::Udp)), [3, 1, 2]);
    r.blame(servers[0].address, Transport::Udp, Duration::ZERO);
    r.blame(servers[1].address, Transport::Udp, Duration::ZERO);
    assert_eq!(lasts(&r.order(&servers, Transport::Udp)), [1, 2, 3]);
}

#[test]
fn an_old_answer_serves_while_name_servers_are_silent() {
    let mut r = resolver();
    let key = super::Key { host: "x".to_owned(), port: 0, transport: Transport::Udp };
    r.take(key.clone(), Some((vec![server(7, 0, 0)], 1)));
    r.waiting.insert(key.clone(), vec![1, 2]);
    r.take(key.clone(), None);
    let addresses = vec![server(7, 0, 0).address];
    assert_eq!(r.answers, [(1, addresses.clone()), (2, addresses)]);
    // A name that is gone is gone.
    r.answers.clear();
    r.waiting.insert(key.clone(), vec![3]);
    r.take(key.clone(), Some((Vec::new(), 0)));
    assert_eq!(r.answers, [(3, Vec::new())]);
    assert!(matches!(r.known.get(&key), Some(Known { servers, .. }) if servers.is_empty()));
}
