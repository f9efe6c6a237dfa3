// SPDX-License-Identifier: GPL-3.0-or-later
//! Between the shim's C types and ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ffi;
use crate::types::{Codec, Direction, MediaDescription, RtcpWay};

pub(crate) fn addr_to_c(address: SocketAddr) -> ffi::Addr {
    let mut out = ffi::Addr { port: address.port(), ..ffi::Addr::default() };
    match address.ip() {
        IpAddr::V4(ip) => {
            out.family = 4;
            out.ip[..4].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.family = 6;
            out.ip = ip.octets();
        }
    }
    out
}

pub(crate) fn addr_from_c(address: &ffi::Addr) -> Option<SocketAddr> {
    let ip = match address.family {
        4 => {
            let [a, b, c, d, ..] = address.ip;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        6 => IpAddr::V6(Ipv6Addr::from(address.ip)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, address.port))
}

pub(crate) fn codec_bits(codecs: &[Codec]) -> u32 {
    codecs.iter().fold(0, |bits, codec| {
        bits | u32::from(match codec {
            Codec::Pcma => ffi::CODEC_PCMA,
            Codec::Pcmu => ffi::CODEC_PCMU,
            Codec::G722 => ffi::CODEC_G722,
        })
    })
}

pub(crate) fn media_from_c(media: &ffi::Media) -> Option<MediaDescription> {
    let codec = match media.codec {
        ffi::CODEC_PCMA => Codec::Pcma,
        ffi::CODEC_PCMU => Codec::Pcmu,
        ffi::CODEC_G722 => Codec::G722,
        _ => return None,
    };
    let direction = match (media.direction & ffi::SENDS != 0, media.direction & ffi::RECEIVES != 0)
    {
        (true, true) => Direction::SendRecv,
        (true, false) => Direction::SendOnly,
        (false, true) => Direction::RecvOnly,
        (false, false) => Direction::Inactive,
    };
    Some(MediaDescription {
        remote_rtp: addr_from_c(&media.rtp)?,
        remote_rtcp: addr_from_c(&media.rtcp),
        codec,
        payload_type: media.tx_pt,
        rx_payload_type: media.rx_pt,
        telephone_event: (media.tx_event_pt != ffi::NO_PT).then_some(media.tx_event_pt),
        rx_telephone_event: (media.rx_event_pt != ffi::NO_PT).then_some(media.rx_event_pt),
        comfort_noise: (media.cn_pt != ffi::NO_PT).then_some(media.cn_pt),
        ptime_ms: media.ptime_ms,
        direction,
        rtcp: match media.direction & (ffi::RTCP_MUX | ffi::RTCP_OFF) {
            0 => RtcpWay::Beside,
            ffi::RTCP_MUX => RtcpWay::Mux,
            _ => RtcpWay::Off,
        },
    })
}

/// Milliseconds for the shim; what does not fit is the greatest there is.
pub(crate) fn millis(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// Text or nothing.
pub(crate) fn optional(text: Option<&str>) -> ffi::Str {
    ffi::Str::new(text.unwrap_or(""))
}
