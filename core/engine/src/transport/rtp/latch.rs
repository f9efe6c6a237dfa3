// SPDX-License-Identifier: GPL-3.0-or-later
//! Where RTP goes to and from whom it is taken: symmetric RTP (RFC 4961) with the guard of
//! RFC 7362. We send to the SDP's address until a packet shows where the peer really is; that is
//! learnt once, within a short window after the SDP, and the SDP's address wins while it is alive.
//!
//! Another host than the SDP's gets our audio only where a NAT explains it: it is the host that the
//! signalling comes from, or the SDP's address cannot be reached from outside. Else whoever is first
//! to send to our port would get the call's audio. It is heard all the same while the SDP's own host
//! is silent: some gateways send from one host and receive at another.

use std::net::{IpAddr, SocketAddr};

/// Time after an SDP in which the source may be learnt.
pub const WINDOW_NS: u64 = 5_000_000_000;
/// A source that was silent this long may be displaced within the window.
const ACTIVE_NS: u64 = 500_000_000;
/// Packets another host must send before it is believed: time for the SDP's address to speak.
const PROOF: u8 = 5;

/// How well a source fits the SDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Host,
    SameHost,
    Exact,
}

/// The peer's address as learnt so far.
#[derive(Debug)]
pub struct Latch {
    signalled: SocketAddr,
    signalling: Option<IpAddr>,
    target: SocketAddr,
    /// Who is heard, once proven by a packet.
    source: Option<SocketAddr>,
    /// How the source was proven by a packet; `None` while only the SDP names it.
    proven: Option<Fit>,
    last_ns: u64,
    window_end_ns: u64,
    candidate: Option<(SocketAddr, u8)>,
    /// Where the peer was before it named another address, and until when what comes from there may
    /// have been on its way: it proves nothing.
    former: Option<(SocketAddr, u64)>,
}

impl Latch {
    /// After an SDP that names `signalled`, in signalling that comes from the host `signalling`.
    pub fn new(signalled: SocketAddr, signalling: Option<IpAddr>, now_ns: u64) -> Latch {
        Latch {
            signalled,
            signalling,
            target: signalled,
            source: None,
            proven: None,
            last_ns: 0,
            window_end_ns: now_ns.saturating_add(WINDOW_NS),
            candidate: None,
            former: None,
        }
    }

    /// After a new SDP. The same address again keeps what was learnt (the peer may sit behind a
    /// NAT) and opens the window; another one starts afresh.
    pub fn on_sdp(&mut self, signalled: SocketAddr, signalling: Option<IpAddr>, now_ns: u64) {
        self.signalling = signalling;
        if signalled == self.signalled {
            self.window_end_ns = now_ns.saturating_add(WINDOW_NS);
        } else {
            let before = self.source.unwrap_or(self.target);
            let former = Some((before, now_ns.saturating_add(ACTIVE_NS)))
                .filter(|(former, _)| *former != signalled);
            *self = Latch { former, ..Latch::new(signalled, signalling, now_ns) };
        }
    }

    /// Where to send.
    pub fn target(&self) -> SocketAddr {
        self.target
    }

    /// Whether the peer is heard from there.
    pub fn hears(&self, source: SocketAddr) -> bool {
        self.source == Some(source)
    }

    /// Whether the peer is heard, or to be reached, at that host.
    pub fn knows(&self, host: IpAddr) -> bool {
        self.target.ip() == host || self.source.is_some_and(|s| s.ip() == host)
    }

    /// Takes note of a valid packet from `source`; tells whether it is the peer's.
    pub fn on_packet(&mut self, source: SocketAddr, now_ns: u64) -> bool {
        if self.hears(source) {
            self.last_ns = now_ns;
            return true;
        }
        if self.former.is_some_and(|(former, until_ns)| former == source && now_ns < until_ns) {
            // Heard until the peer speaks from where it is now.
            return self.proven.is_none();
        }
        let fit = if source == self.signalled {
            Fit::Exact
        } else if source.ip() == self.signalled.ip() {
            Fit::SameHost
        } else {
            Fit::Host
        };
        let open = now_ns <= self.window_end_ns;
        let silent = now_ns.saturating_sub(self.last_ns) > ACTIVE_NS;
        let may = match self.proven {
            None => fit == Fit::Exact || open,
            Some(known) => fit == Fit::Exact || (open && (silent || fit > known)),
        };
        if !may {
            return false;
        }
        if fit == Fit::Host {
            let seen = match self.candidate {
                Some((s, n)) if s == source => n.saturating_add(1),
                _ => 1,
            };
            self.candidate = Some((source, seen));
            if seen < PROOF {
                return false;
            }
        }
        self.source = Some(source);
        let explained = self.signalling == Some(source.ip()) || is_inside(self.signalled.ip());
        self.target = if fit == Fit::Host && !explained { self.signalled } else { source };
        self.proven = Some(fit);
        self.last_ns = now_ns;
        self.candidate = None;
        true
    }
}

/// Whether an address is one of those that a NAT hides, or that never leave a machine or a link.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            // RFC 1918, RFC 6598 (carrier-grade NAT), RFC 3927, this machine.
            ip.is_private()
                || (a == 100 && b & 0xC0 == 64)
                || ip.is_link_local()
                || ip.is_loopback()
                || ip.is_unspecified()
        }
        IpAddr::V6(ip) => {
            let first = ip.segments()[0];
            // RFC 4193, RFC 4291.
            first & 0xFE00 == 0xFC00
                || first & 0xFFC0 == 0xFE80
                || ip.is_loopback()
                || ip.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn addr(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, host], port))
    }

    /// Field failure B33.
    #[test]
    fn an_intruder_neither_draws_our_audio_nor_is_heard() {
        let (peer, intruder) = (addr(2, 4000), addr(3, 4000));
        let mut latch = Latch::new(peer, None, 0);
        // The intruder is even first.
        assert!(!latch.on_packet(intruder, 0));
        for i in 0..1000 {
            let now = i * 20 * MS;
            assert!(latch.on_packet(peer, now));
            assert!(!latch.on_packet(intruder, now + MS));
            assert_eq!(latch.target(), peer);
        }
        // Nor when the peer falls silent later: only a new SDP opens the window.
        assert!(!latch.on_packet(intruder, 60_000 * MS));
        assert_eq!(latch.target(), peer);
    }

    #[test]
    fn packets_still_on_their_way_do_not_call_a_peer_back_that_has_moved() {
        let (old, new) = (addr(2, 4000), addr(2, 5000));
        let mut latch = Latch::new(old, None, 0);
        assert!(latch.on_packet(old, 20 * MS));
        latch.on_sdp(new, None, 40 * MS);
        assert!(latch.on_packet(old, 50 * MS), "heard until the new address speaks");
        assert_eq!(latch.target(), new);
        assert!(latch.on_packet(new, 60 * MS));
        assert!(!latch.on_packet(old, 70 * MS));
        assert!(latch.on_packet(new, 2_000 * MS));
        assert!(!latch.on_packet(old, 2_001 * MS));
        assert_eq!(latch.target(), new);
        // It may move back.
        latch.on_sdp(old, None, 3_000 * MS);
        assert!(latch.on_packet(old, 3_020 * MS));
        assert_eq!(latch.target(), old);
    }

    /// Field failure B33.
    #[test]
    fn another_port_of_the_same_host_is_learnt_at_once_and_only_once() {
        let (sdp, real, other) = (addr(2, 4000), addr(2, 5000), addr(2, 6000));
        let mut latch = Latch::new(sdp, None, 0);
        assert_eq!(latch.target(), sdp);
        assert!(latch.on_packet(real, 20 * MS));
        assert_eq!(latch.target(), real);
        assert!(!latch.on_packet(other, 30 * MS));
        assert!(latch.on_packet(real, 40 * MS));
        assert_eq!(latch.target(), real);
    }

    #[test]
    fn a_peer_behind_a_nat_is_learnt_after_a_few_packets() {
        let (sdp, nat) = (addr(9, 4000), addr(3, 1234));
        let mut latch = Latch::new(sdp, None, 0);
        let taken: Vec<bool> = (0..6).map(|i| latch.on_packet(nat, i * 20 * MS)).collect();
        assert_eq!(taken, [false, false, false, false, true, true]);
        assert_eq!(latch.target(), nat);
    }

    #[test]
    fn the_sdp_address_wins_when_it_speaks() {
        let (sdp, early) = (addr(2, 4000), addr(3, 4000));
        let mut latch = Latch::new(sdp, None, 0);
        for i in 0..10 {
            latch.on_packet(early, i * 20 * MS);
        }
        assert_eq!(latch.target(), early);
        assert!(latch.on_packet(sdp, 10_000 * MS));
        assert_eq!(latch.target(), sdp);
        assert!(!latch.on_packet(early, 10_001 * MS));
    }

    #[test]
    fn nothing_is_learnt_after_the_window() {
        let mut latch = Latch::new(addr(2, 4000), None, 0);
        assert!(!latch.on_packet(addr(2, 5000), 5_001 * MS));
        assert_eq!(latch.target(), addr(2, 4000));
    }

    #[test]
    fn a_new_sdp_opens_the_window_again() {
        let (sdp, nat, moved) = (addr(9, 4000), addr(9, 1234), addr(9, 5678));
        let mut latch = Latch::new(sdp, None, 0);
        assert!(latch.on_packet(nat, 0));
        assert!(!latch.on_packet(moved, 60_000 * MS));
        // Same address: what was learnt stays until the peer shows up elsewhere.
        latch.on_sdp(sdp, None, 60_000 * MS);
        assert_eq!(latch.target(), nat);
        assert!(latch.on_packet(moved, 60_020 * MS));
        assert_eq!(latch.target(), moved);
        // Another address: afresh.
        latch.on_sdp(addr(4, 4000), None, 61_000 * MS);
        assert_eq!(latch.target(), addr(4, 4000));
    }

    #[test]
    fn another_host_is_heard_while_the_named_one_is_silent_but_gets_nothing() {
        let public = |last: u8| SocketAddr::from(([203, 0, 113, last], 4000));
        let (named, gateway) = (public(1), public(2));
        let mut latch = Latch::new(named, Some(named.ip()), 0);
        let taken: Vec<bool> = (0..6).map(|i| latch.on_packet(gateway, i * 20 * MS)).collect();
        assert_eq!(taken, [false, false, false, false, true, true]);
        assert_eq!(latch.target(), named);
        assert!(latch.knows(gateway.ip()) && latch.knows(named.ip()));
        // The named host speaks: it alone is the peer from then on.
        assert!(latch.on_packet(named, 60_000 * MS));
        assert!(!latch.on_packet(gateway, 60_010 * MS));
        assert_eq!(latch.target(), named);
    }

    #[test]
    fn another_host_is_believed_only_where_a_nat_explains_it() {
        let public = |last: u8| SocketAddr::from(([203, 0, 113, last], 4000));
        let believed = |sdp: SocketAddr, signalling: Option<IpAddr>, source: SocketAddr| {
            let mut latch = Latch::new(sdp, signalling, 0);
            (0..10).any(|i| latch.on_packet(source, i * 20 * MS)) && latch.target() == source
        };
        // A trunk names a public address: no stranger, however early, gets the call.
        assert!(!believed(public(1), None, public(2)));
        assert!(!believed(public(1), Some(public(3).ip()), public(2)));
        // A telephone that names a public address but sends from where it signals.
        assert!(believed(public(1), Some(public(2).ip()), public(2)));
        // One that names the address it has behind its NAT.
        for inside in ["10.1.2.3:4", "192.168.0.9:4", "172.16.5.5:4", "100.64.0.1:4"] {
            let Ok(inside) = inside.parse() else { unreachable!("an address") };
            assert!(believed(inside, None, public(2)), "{inside}");
        }
        for ip in ["fd00::1", "fe80::1", "::1", "127.0.0.1", "169.254.1.1", "0.0.0.0"] {
            assert!(ip.parse().is_ok_and(is_inside), "{ip}");
        }
        for ip in ["2001:db8::1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "11.0.0.1"] {
            assert!(ip.parse().is_ok_and(|ip| !is_inside(ip)), "{ip}");
        }
        // Another port of the named host needs no explanation.
        let other_port = SocketAddr::from(([203, 0, 113, 1], 9999));
        assert!(believed(public(1), None, other_port));
    }
}
