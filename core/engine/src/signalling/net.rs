// SPDX-License-Identifier: GPL-3.0-or-later
//! Sockets before the stack has them: whether SIP can bind, and which address of ours a peer sees.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use crate::error::SignallingError;

/// Finds out whether SIP can be bound to all of `binds`, with errors that say what to do. With port 0 a port is
/// chosen that is free for UDP and TCP. Returns the port.
pub(crate) fn probe(binds: &[IpAddr], port: u16, tcp: bool) -> Result<u16, SignallingError> {
    probe_any(binds, port, |port| {
        for &ip in binds {
            let addr = SocketAddr::new(ip, port);
            UdpSocket::bind(addr).map_err(|e| failed(&e, addr, "UDP"))?;
            if tcp {
                TcpListener::bind(addr).map_err(|e| failed(&e, addr, "TCP"))?;
            }
        }
        Ok(())
    })
}

/// The same for TLS, which is over TCP.
pub(crate) fn probe_tcp(binds: &[IpAddr], port: u16) -> Result<u16, SignallingError> {
    probe_any(binds, port, |port| {
        for &ip in binds {
            let addr = SocketAddr::new(ip, port);
            TcpListener::bind(addr).map_err(|e| failed(&e, addr, "TLS"))?;
        }
        Ok(())
    })
}

fn probe_any(
    binds: &[IpAddr],
    port: u16,
    free: impl Fn(u16) -> Result<(), SignallingError>,
) -> Result<u16, SignallingError> {
    let mut last = Err(SignallingError::StartFailed("no free port".to_owned()));
    if port != 0 {
        return free(port).map(|()| port);
    }
    let Some(&ip) = binds.first() else { return last };
    for _ in 0..16 {
        let bind = SocketAddr::new(ip, 0);
        let udp = UdpSocket::bind(bind).map_err(|e| failed(&e, bind, "UDP"))?;
        let port = udp.local_addr().map_err(|e| failed(&e, bind, "UDP"))?.port();
        drop(udp);
        last = free(port).map(|()| port);
        if last.is_ok() {
            break;
        }
    }
    last
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
/// names an interface, else the one the routing table gives. Without a peer's address it is the unspecified one, which the
/// stack replaces once it knows where the call goes.
pub(crate) fn local_towards(
    bind: IpAddr,
    public: Option<IpAddr>,
    peer: Option<IpAddr>,
) -> io::Result<IpAddr> {
    let peer = peer.map(|peer| peer.to_canonical());
    // `::` takes both versions, and peers of the other one are not told an address that they cannot use.
    let both = bind.is_ipv6() && bind.is_unspecified();
    if let Some(public) = public {
        if !both || peer.is_none_or(|peer| peer.is_ipv4() == public.is_ipv4()) {
            return Ok(public);
        }
    }
    if !bind.is_unspecified() {
        return Ok(bind);
    }
    let Some(peer) = peer else { return Ok(bind) };
    let bind = if both && peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { bind };
    // connect() on UDP sends nothing; it only asks the routing table.
    let socket = UdpSocket::bind((bind, 0))?;
    socket.connect((peer, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    #[test]
    fn any_port_is_a_port() {
        let Ok(port) = probe(&[LOOPBACK], 0, true) else { panic!("no port") };
        assert_ne!(port, 0);
        assert!(probe_tcp(&[LOOPBACK], 0).is_ok_and(|port| port != 0));
    }

    #[test]
    fn a_port_held_by_another_is_named() {
        let Ok(holder) = UdpSocket::bind((LOOPBACK, 0)) else { panic!("bind") };
        let Ok(addr) = holder.local_addr() else { panic!("addr") };
        match probe(&[LOOPBACK], addr.port(), false) {
            Err(SignallingError::PortInUse { addr: named, proto: "UDP" }) => {
                assert_eq!(named, addr)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let foreign = [IpAddr::from([192, 0, 2, 77])];
        assert!(matches!(
            probe(&foreign, 5060, true),
            Err(SignallingError::AddressNotAvailable { .. })
        ));
    }

    #[test]
    fn the_local_address_follows_public_then_bind_then_route() {
        let public = IpAddr::from([203, 0, 113, 9]);
        assert_eq!(local_towards(LOOPBACK, Some(public), None).ok(), Some(public));
        assert_eq!(local_towards(LOOPBACK, None, Some(public)).ok(), Some(LOOPBACK));
        assert_eq!(local_towards(ANY, None, Some(LOOPBACK)).ok(), Some(LOOPBACK));
        assert_eq!(local_towards(ANY, None, None).ok(), Some(ANY));
    }

    #[test]
    fn each_ip_version_is_told_an_address_of_its_own() {
        let both = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let public = IpAddr::from([203, 0, 113, 9]);
        let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert_eq!(local_towards(both, None, Some(LOOPBACK)).ok(), Some(LOOPBACK));
        assert_eq!(local_towards(both, None, Some(six)).ok(), Some(six));
        assert_eq!(local_towards(both, Some(public), Some(LOOPBACK)).ok(), Some(public));
        assert_eq!(local_towards(both, Some(public), Some(six)).ok(), Some(six));
    }
}
