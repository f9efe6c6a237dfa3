// SPDX-License-Identifier: GPL-3.0-or-later
//! Sockets before the stack has them: whether SIP can bind, and which address of ours a peer sees.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use crate::error::SignallingError;

/// Finds out whether SIP can be bound, with errors that say what to do. With port 0 a port is
/// chosen that is free for UDP and TCP.
pub(crate) fn probe(bind: SocketAddr, tcp: bool) -> Result<SocketAddr, SignallingError> {
    if bind.port() != 0 {
        return probe_port(bind, tcp);
    }
    let mut last = Err(SignallingError::StartFailed("no free port".to_owned()));
    for _ in 0..16 {
        let udp = UdpSocket::bind(bind).map_err(|e| failed(&e, bind, "UDP"))?;
        let addr = udp.local_addr().map_err(|e| failed(&e, bind, "UDP"))?;
        drop(udp);
        last = probe_port(addr, tcp);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn probe_port(addr: SocketAddr, tcp: bool) -> Result<SocketAddr, SignallingError> {
    UdpSocket::bind(addr).map_err(|e| failed(&e, addr, "UDP"))?;
    if tcp {
        TcpListener::bind(addr).map_err(|e| failed(&e, addr, "TCP"))?;
    }
    Ok(addr)
}

fn failed(error: &io::Error, addr: SocketAddr, proto: &'static str) -> SignallingError {
    match error.kind() {
        ErrorKind::AddrInUse => SignallingError::PortInUse { addr, proto },
        ErrorKind::AddrNotAvailable => SignallingError::AddressNotAvailable { addr },
        ErrorKind::PermissionDenied => SignallingError::PermissionDenied { addr, proto },
        _ => SignallingError::StartFailed(format!("{proto} {addr}: {error}")),
    }
}

/// The address of ours that goes into SDP for `peer`: the public one if set, the bound one if it
/// names an interface, else the one the routing table gives.
pub(crate) fn local_towards(
    bind: IpAddr,
    public: Option<IpAddr>,
    peer: Option<IpAddr>,
) -> io::Result<IpAddr> {
    if let Some(public) = public {
        return Ok(public);
    }
    if !bind.is_unspecified() {
        return Ok(bind);
    }
    // Without a peer's address the default route decides (documentation addresses, RFC 5737, RFC 3849).
    let peer = peer.unwrap_or(match bind {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    });
    // connect() on UDP sends nothing; it only asks the routing table.
    let socket = UdpSocket::bind((bind, 0))?;
    socket.connect((peer, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    #[test]
    fn any_port_is_a_port() {
        let Ok(addr) = probe(SocketAddr::new(LOOPBACK, 0), true) else { panic!("no port") };
        assert_ne!(addr.port(), 0);
    }

    #[test]
    fn a_port_held_by_another_is_named() {
        let Ok(holder) = UdpSocket::bind((LOOPBACK, 0)) else { panic!("bind") };
        let Ok(addr) = holder.local_addr() else { panic!("addr") };
        match probe(addr, false) {
            Err(SignallingError::PortInUse { addr: named, proto: "UDP" }) => {
                assert_eq!(named, addr)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let addr = SocketAddr::from(([192, 0, 2, 77], 5060));
        assert!(matches!(probe(addr, true), Err(SignallingError::AddressNotAvailable { .. })));
    }

    #[test]
    fn the_local_address_follows_public_then_bind_then_route() {
        let public = IpAddr::from([203, 0, 113, 9]);
        assert_eq!(local_towards(LOOPBACK, Some(public), None).ok(), Some(public));
        assert_eq!(local_towards(LOOPBACK, None, Some(public)).ok(), Some(LOOPBACK));
        assert_eq!(local_towards(ANY, None, Some(LOOPBACK)).ok(), Some(LOOPBACK));
    }
}
