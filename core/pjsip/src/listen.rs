// SPDX-License-Identifier: GPL-3.0-or-later
//! Sockets to listen on, and the files of TLS.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use crate::convert::{addr_from_c, addr_to_c};
use crate::endpoint::{text_of, Endpoint};
use crate::error::SipError;
use crate::ffi;
use crate::types::{Listen, TlsConfig, Transport};

/// Longest path the shim takes.
const PATH_MAX: usize = 1000;

fn path(file: Option<&PathBuf>, which: &str) -> Result<ffi::Str, SipError> {
    let bytes = file.map_or(OsStr::new(""), |f| f.as_os_str()).as_bytes();
    if bytes.len() > PATH_MAX || bytes.contains(&0) {
        return Err(SipError::Tls(format!("{which}: the path is too long")));
    }
    Ok(ffi::Str { ptr: bytes.as_ptr(), len: bytes.len() })
}

fn tls_to_c(tls: &TlsConfig) -> Result<ffi::Tls, SipError> {
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        return Err(SipError::Tls("cert_file and key_file belong together; give both".to_owned()));
    }
    if tls.verify_client && tls.cert_file.is_none() {
        return Err(SipError::Tls(
            "verify_client needs cert_file: without a certificate of ours nobody can connect"
                .to_owned(),
        ));
    }
    Ok(ffi::Tls {
        ca_file: path(tls.ca_file.as_ref(), "ca_file")?,
        cert_file: path(tls.cert_file.as_ref(), "cert_file")?,
        key_file: path(tls.key_file.as_ref(), "key_file")?,
        verify_client: u32::from(tls.verify_client),
        reserved: 0,
    })
}

/// Whether the files of TLS can be read, are what they should be, and belong together.
///
/// # Errors
/// [`SipError::Tls`] with the file and the reason.
pub fn check_tls(tls: &TlsConfig) -> Result<(), SipError> {
    let raw = tls_to_c(tls)?;
    let mut buf = [0_u8; 512];
    // SAFETY: the paths live over the call, as tls does; buf has the size given, and the shim writes no more than that.
    if unsafe { ffi::vc_tls_check(&raw, buf.as_mut_ptr(), buf.len()) } == 0 {
        return Ok(());
    }
    let text = buf.split(|&b| b == 0).next().unwrap_or(&[]);
    Err(SipError::Tls(String::from_utf8_lossy(text).into_owned()))
}

impl Endpoint {
    /// Opens a UDP socket and returns the address it is bound to. `public` is what peers are told instead.
    /// Errors: [`SipError::Bind`].
    pub fn add_udp(
        &mut self,
        bind: SocketAddr,
        public: Option<IpAddr>,
    ) -> Result<SocketAddr, SipError> {
        let transport = Transport::Udp;
        self.listen(&Listen { transport, bind, public, group: 0, tls: None })
    }

    /// Opens a TCP listener and returns the address it is bound to. `public` is what peers are told instead.
    /// Errors: [`SipError::Bind`].
    pub fn add_tcp(
        &mut self,
        bind: SocketAddr,
        public: Option<IpAddr>,
    ) -> Result<SocketAddr, SipError> {
        let transport = Transport::Tcp;
        self.listen(&Listen { transport, bind, public, group: 0, tls: None })
    }

    /// Reads the files of TLS again for the listeners of a group: new connections show the certificate that is there now, those
    /// that are up go on. Outgoing connections read theirs each time. Connections that wait to be accepted are refused.
    ///
    /// # Errors
    /// [`SipError::Tls`]: the files cannot be used, and nothing changes. [`SipError::Pj`]: the port cannot be had again.
    pub fn reload_tls(&mut self, group: u32, tls: &TlsConfig) -> Result<(), SipError> {
        check_tls(tls)?;
        let tls = tls_to_c(tls)?;
        // SAFETY: raw is live until Drop; the paths live over the call, and PJSIP copies them.
        let status = unsafe { ffi::vc_tls_reload(self.raw, group, &tls) };
        if status != 0 {
            return Err(crate::endpoint::error("listening for TLS again", status));
        }
        Ok(())
    }

    /// Opens a socket and returns the address it is bound to. TLS without a certificate of ours opens none: it is for
    /// outgoing connections only. Errors: [`SipError::Bind`], [`SipError::Tls`].
    pub fn listen(&mut self, listen: &Listen) -> Result<SocketAddr, SipError> {
        let tls = match (listen.transport, &listen.tls) {
            (Transport::Tls, None) => return Err(SipError::BadArgument("tls")),
            (Transport::Tls, Some(tls)) => {
                check_tls(tls)?;
                Some(tls_to_c(tls)?)
            }
            _ => None,
        };
        let want = ffi::Listen {
            bind: addr_to_c(listen.bind),
            shown: listen.public.map_or_else(ffi::Addr::default, |ip| {
                addr_to_c(SocketAddr::new(ip, listen.bind.port()))
            }),
            kind: match listen.transport {
                Transport::Udp => ffi::UDP,
                Transport::Tcp => ffi::TCP,
                Transport::Tls => ffi::TLS,
            },
            group: listen.group,
        };
        let mut bound = ffi::Addr::default();
        let tls = tls.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: raw is live until Drop; everything pointed at lives over the call, and PJSIP copies the paths.
        let status = unsafe { ffi::vc_listen_on(self.raw, &want, tls, &mut bound) };
        if status != 0 {
            return Err(SipError::Bind { address: listen.bind, reason: text_of(status) });
        }
        addr_from_c(&bound).ok_or(SipError::NotReady("the transport has no address"))
    }
}
