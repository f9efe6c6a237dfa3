// SPDX-License-Identifier: GPL-3.0-or-later
//! The pair of UDP sockets of one call.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use rustix::net::sockopt;

/// DSCP EF (RFC 3246) in the upper six bits of the traffic class.
const EF: u8 = 46 << 2;
/// Two seconds of 20 ms packets with the kernel's own overhead of about 1 KiB each.
const RECEIVE_BUFFER: usize = 128 * 1024;

/// An RTP socket on an even port and its RTCP socket on the odd one above (RFC 3550 section 11).
/// Both are non-blocking.
#[derive(Debug)]
pub struct RtpSockets {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    v6: bool,
}

impl RtpSockets {
    /// Binds a pair on `bind_ip` with ports within `range` (first and last, both included). Each
    /// search goes on where the last one ended, so that a port rests before it is used again and
    /// late packets of an old call do not reach a new one.
    ///
    /// # Errors
    /// `AddrInUse` when no pair in the range is free; otherwise the system's error.
    pub fn open(bind_ip: IpAddr, range: (u16, u16)) -> io::Result<RtpSockets> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let first = u32::from(range.0).next_multiple_of(2);
        let pairs = ((u32::from(range.1) + 1).saturating_sub(first) / 2) as u16;
        // From one place through all pairs: others who search at the same time hide none of them.
        let start = NEXT.fetch_add(1, Relaxed);
        for step in 0..pairs {
            let pair = start.wrapping_add(step) % pairs;
            let port = (first + 2 * u32::from(pair)) as u16;
            match RtpSockets::bind(bind_ip, port) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                other => {
                    NEXT.store(start.wrapping_add(step).wrapping_add(1), Relaxed);
                    return other;
                }
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn bind(ip: IpAddr, port: u16) -> io::Result<RtpSockets> {
        let rtp = UdpSocket::bind((ip, port))?;
        let rtcp = UdpSocket::bind((ip, port + 1))?;
        for socket in [&rtp, &rtcp] {
            socket.set_nonblocking(true)?;
            // Marking is a wish to the network; a system that refuses it still carries the call.
            let _ = if ip.is_ipv4() {
                sockopt::set_ip_tos(socket, EF)
            } else {
                sockopt::set_ipv6_tclass(socket, u32::from(EF))
            };
        }
        sockopt::set_socket_recv_buffer_size(&rtp, RECEIVE_BUFFER)?;
        Ok(RtpSockets { rtp, rtcp, v6: ip.is_ipv6() })
    }

    /// Address and port of RTP as bound, for the SDP.
    ///
    /// # Errors
    /// The system's error.
    pub fn rtp_addr(&self) -> io::Result<SocketAddr> {
        self.rtp.local_addr()
    }

    /// Address and port of RTCP as bound.
    ///
    /// # Errors
    /// The system's error.
    pub fn rtcp_addr(&self) -> io::Result<SocketAddr> {
        self.rtcp.local_addr()
    }

    pub(crate) fn rtp(&self) -> &UdpSocket {
        &self.rtp
    }

    pub(crate) fn rtcp(&self) -> &UdpSocket {
        &self.rtcp
    }

    /// Sends; false when the system refused.
    pub(crate) fn send(&self, rtcp: bool, to: SocketAddr, data: &[u8]) -> bool {
        let socket = if rtcp { &self.rtcp } else { &self.rtp };
        // A dual-stack socket takes IPv4 addresses in their mapped form only.
        let to = match to {
            SocketAddr::V4(v4) if self.v6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            other => other,
        };
        socket.send_to(data, to).is_ok_and(|n| n == data.len())
    }
}

/// A source address as the SDP would write it: IPv4 in its own form.
pub(crate) fn canonical(source: SocketAddr) -> SocketAddr {
    SocketAddr::new(source.ip().to_canonical(), source.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    // Ports below those that the kernel gives to others.
    #[test]
    fn pairs_are_even_and_odd_and_within_the_range() {
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let mut held = Vec::new();
            while let Ok(s) = RtpSockets::open(ip, (11_001, 11_010)) {
                held.push(s);
            }
            let mut ports: Vec<u16> =
                held.iter().filter_map(|s| s.rtp_addr().ok()).map(|a| a.port()).collect();
            ports.sort_unstable();
            assert_eq!(ports, [11_002, 11_004, 11_006, 11_008], "{ip}");
            for s in &held {
                let rtp = s.rtp_addr().map(|a| a.port() + 1);
                assert_eq!(rtp.ok(), s.rtcp_addr().map(|a| a.port()).ok());
            }
            let err = RtpSockets::open(ip, (11_001, 11_010)).err().map(|e| e.kind());
            assert_eq!(err, Some(io::ErrorKind::AddrInUse));
            // A freed pair can be had again.
            held.pop();
            assert!(RtpSockets::open(ip, (11_001, 11_010)).is_ok());
        }
    }

    #[test]
    fn a_dual_stack_pair_reaches_an_ipv4_peer() {
        let Ok(s) = RtpSockets::open(IpAddr::V6(Ipv6Addr::UNSPECIFIED), (41_100, 41_199)) else {
            unreachable!("no free pair")
        };
        let Ok(peer) = UdpSocket::bind("127.0.0.1:0") else { unreachable!("loopback") };
        let to = peer.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        assert!(s.send(false, to, b"x"));
        let mut buf = [0; 4];
        let from = peer.recv_from(&mut buf).map(|(_, from)| from).ok();
        assert_eq!(from.map(|f| f.port()), s.rtp_addr().map(|a| a.port()).ok());
    }

    #[test]
    fn mapped_sources_are_written_as_ipv4() {
        let mapped = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2).to_ipv6_mapped(), 7));
        assert_eq!(canonical(mapped), SocketAddr::from(([127, 0, 0, 2], 7)));
    }
}
