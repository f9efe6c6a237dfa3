// SPDX-License-Identifier: GPL-3.0-or-later
//! Our side of the session description (RFC 8866), offer and answer alike (RFC 3264): the SIP stack
//! narrows it to what the peer can do.

use std::fmt::Write;
use std::net::IpAddr;

use pjsip_sys::Codec;
use zeroize::Zeroizing;

/// Dynamic payload type we offer telephone-event with. In an answer the stack takes the peer's.
const TELEPHONE_EVENT: u8 = 101;

/// Static payload type of comfort noise, which has an RTP clock of 8000 Hz like all our codecs.
const COMFORT_NOISE: u8 = 13;

/// What goes into the description of one call.
pub(crate) struct LocalMedia<'a> {
    /// Numeric session id, unique per call (RFC 8866 section 5.2).
    pub session_id: u64,
    /// Address the peer sends to.
    pub address: IpAddr,
    /// RTP port.
    pub rtp_port: u16,
    /// RTCP port.
    pub rtcp_port: u16,
    /// Codecs, best first.
    pub codecs: &'a [Codec],
    /// `RTP/AVP` or `RTP/SAVP`.
    pub profile: &'a str,
    /// Lines of `a=crypto`; none without SRTP.
    pub crypto: &'a str,
    /// Comfort noise (RFC 3389) is understood. In an answer the stack keeps it only if offered.
    pub comfort_noise: bool,
}

/// SDP text with CRLF line ends.
pub(crate) fn describe(media: &LocalMedia<'_>) -> Zeroizing<String> {
    let family = if media.address.is_ipv4() { "IP4" } else { "IP6" };
    let address = media.address;
    // Room for all of it: a string that grows leaves copies of keys behind.
    let mut sdp = Zeroizing::new(String::with_capacity(1024 + media.crypto.len()));
    // Writing to a String cannot fail.
    let _ = write!(
        sdp,
        "v=0\r\no=- {id} {id} IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\nm=audio {port} {profile}",
        id = media.session_id,
        port = media.rtp_port,
        profile = media.profile,
    );
    for codec in media.codecs {
        let _ = write!(sdp, " {}", codec.static_payload_type());
    }
    if media.comfort_noise {
        let _ = write!(sdp, " {COMFORT_NOISE}");
    }
    let _ = write!(sdp, " {TELEPHONE_EVENT}\r\n");
    // RFC 3605: only where it is not the port above RTP's.
    if Some(media.rtcp_port) != media.rtp_port.checked_add(1) {
        let _ = write!(sdp, "a=rtcp:{} IN {family} {address}\r\n", media.rtcp_port);
    }
    for codec in media.codecs {
        let _ = write!(
            sdp,
            "a=rtpmap:{} {}/{}\r\n",
            codec.static_payload_type(),
            codec.name(),
            codec.clock_rate()
        );
    }
    sdp.push_str(media.crypto);
    if media.comfort_noise {
        let _ = write!(sdp, "a=rtpmap:{COMFORT_NOISE} CN/8000\r\n");
    }
    // RFC 4733 section 2.5.1.1: 0-15 are the keys, 16 is flash.
    let _ = write!(
        sdp,
        "a=rtpmap:{TELEPHONE_EVENT} telephone-event/8000\r\na=fmtp:{TELEPHONE_EVENT} 0-16\r\na=ptime:20\r\na=sendrecv\r\n"
    );
    sdp
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdp(address: &str, rtcp_port: u16) -> Zeroizing<String> {
        let Ok(address) = address.parse() else { panic!("test address") };
        describe(&LocalMedia {
            session_id: 42,
            address,
            rtp_port: 4000,
            rtcp_port,
            codecs: &[Codec::Pcma, Codec::Pcmu],
            profile: "RTP/AVP",
            crypto: "",
            comfort_noise: false,
        })
    }

    #[test]
    fn wideband_and_comfort_noise() {
        let text = describe(&LocalMedia {
            session_id: 1,
            address: [192, 0, 2, 1].into(),
            rtp_port: 4000,
            rtcp_port: 4001,
            codecs: &[Codec::G722, Codec::Pcma],
            profile: "RTP/AVP",
            crypto: "",
            comfort_noise: true,
        })
        .to_string();
        assert!(text.contains("m=audio 4000 RTP/AVP 9 8 13 101\r\n"), "{text}");
        // The clock, not the sampling rate (RFC 3551 section 4.5.2).
        assert!(text.contains("a=rtpmap:9 G722/8000\r\n"), "{text}");
        assert!(text.contains("a=rtpmap:13 CN/8000\r\n"), "{text}");
    }

    #[test]
    fn ipv4_offer() {
        assert_eq!(
            sdp("192.0.2.1", 4001).as_str(),
            "v=0\r\no=- 42 42 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
             m=audio 4000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
             a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-16\r\na=ptime:20\r\na=sendrecv\r\n"
        );
    }

    #[test]
    fn ipv6_and_unusual_rtcp_port() {
        let text = sdp("2001:db8::1", 5555);
        assert!(text.contains("c=IN IP6 2001:db8::1\r\n"), "{text:?}");
        assert!(text.contains("a=rtcp:5555 IN IP6 2001:db8::1\r\n"), "{text:?}");
    }
}
