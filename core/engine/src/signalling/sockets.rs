// SPDX-License-Identifier: GPL-3.0-or-later
//! The SIP sockets of one engine: UDP, TCP and TLS, for one IP version or both.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use pjsip_sys::{Endpoint, Listen, TlsConfig, Transport};

use super::net;
use crate::config::EngineConfig;
use crate::error::SignallingError;

/// The stack closes its sockets with itself only, so the next engine that asks for the like takes over those that one
/// has left behind.
pub(super) struct Sockets {
    /// Of UDP and TCP.
    pub address: SocketAddr,
    /// Where TLS is listened for.
    pub tls_port: Option<u16>,
    /// What belongs together in the stack.
    pub group: u32,
    bind: IpAddr,
    tcp: bool,
    public: Option<IpAddr>,
    tls: TlsConfig,
}

/// `::` is both IP versions: a socket for each, since one for both would write IPv4 addresses in a way that peers do not
/// take.
fn binds(bind: IpAddr) -> Vec<IpAddr> {
    match bind {
        IpAddr::V6(ip) if ip.is_unspecified() => vec![Ipv4Addr::UNSPECIFIED.into(), bind],
        _ => vec![bind],
    }
}

impl Sockets {
    pub(super) fn suits(&self, config: &EngineConfig) -> bool {
        let tls = config.tls.cert_file.is_some().then_some(config.tls_port);
        self.bind == config.bind
            && (config.sip_port == 0 || self.address.port() == config.sip_port)
            && self.tcp == config.tcp
            && self.public == config.public_address
            && self.tls == config.tls
            && (tls == self.tls_port || (tls == Some(0) && self.tls_port.is_some()))
    }

    /// Finds out which ports will be used, without opening them. Errors say what to do.
    pub(super) fn probe(config: &EngineConfig) -> Result<Sockets, SignallingError> {
        static GROUP: AtomicU32 = AtomicU32::new(1);
        let binds = binds(config.bind);
        let port = net::probe(&binds, config.sip_port, config.tcp)?;
        let tls_port = if config.tls.cert_file.is_some() {
            Some(net::probe_tcp(&binds, config.tls_port)?)
        } else {
            None
        };
        Ok(Sockets {
            address: SocketAddr::new(config.bind, port),
            tls_port,
            group: GROUP.fetch_add(1, Ordering::Relaxed),
            bind: config.bind,
            tcp: config.tcp,
            public: config.public_address,
            tls: config.tls.clone(),
        })
    }

    /// Opens them.
    pub(super) fn open(&self, endpoint: &mut Endpoint) -> Result<(), SignallingError> {
        for ip in binds(self.bind) {
            let public = self.public.filter(|public| public.is_ipv4() == ip.is_ipv4());
            let mut listen = Listen {
                transport: Transport::Udp,
                bind: SocketAddr::new(ip, self.address.port()),
                public,
                group: self.group,
                tls: None,
            };
            endpoint.listen(&listen)?;
            if self.tcp {
                listen.transport = Transport::Tcp;
                endpoint.listen(&listen)?;
            }
            // Also without a certificate of ours: then for outgoing connections only.
            listen.transport = Transport::Tls;
            listen.bind.set_port(self.tls_port.unwrap_or(0));
            listen.tls = Some(self.tls.clone());
            endpoint.listen(&listen)?;
        }
        Ok(())
    }

    /// New connections show the certificate that is in the files now.
    pub(super) fn reload_tls(&self, endpoint: &mut Endpoint) -> Result<(), SignallingError> {
        Ok(endpoint.reload_tls(self.group, &self.tls)?)
    }

    /// The ports that requests to this engine come in by.
    pub(super) fn ports(&self) -> Vec<u16> {
        std::iter::once(self.address.port()).chain(self.tls_port).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn only_the_ipv6_wildcard_means_both() {
        let any6 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        assert_eq!(binds(any6), [IpAddr::V4(Ipv4Addr::UNSPECIFIED), any6]);
        for one in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            assert_eq!(binds(one), [one]);
        }
    }
}
