// SPDX-License-Identifier: GPL-3.0-or-later
//! RTP packets (RFC 3550 section 5.1) and what else arrives on their port (RFC 7983, RFC 5761).

/// Bytes of a header without CSRC and extension, the only kind we send.
pub const HEADER: usize = 12;

/// What a datagram on an RTP port is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RTP by version and payload type.
    Rtp,
    /// RTCP by version and packet type, on either port.
    Rtcp,
    /// STUN (RFC 8489). We do no ICE; it is counted and dropped.
    Stun,
    /// Nothing we know.
    Other,
}

/// Tells what a datagram is. Says nothing about whether the rest of it is well formed.
pub fn classify(data: &[u8]) -> Kind {
    match data {
        [0..=3, _, _, _, 0x21, 0x12, 0xA4, 0x42, ..] => Kind::Stun,
        // RFC 5761 section 4: RTCP packet types 192 to 223 take payload types 64 to 95 with the
        // marker bit, which RTP does not use.
        [0x80..=0xBF, 192..=223, ..] => Kind::Rtcp,
        [0x80..=0xBF, ..] => Kind::Rtp,
        _ => Kind::Other,
    }
}

/// Why a datagram is no RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than the fixed header.
    #[error("shorter than an RTP header")]
    Short,
    /// Version is not 2.
    #[error("RTP version is not 2")]
    Version,
    /// The CSRC list goes past the end.
    #[error("CSRC list longer than the packet")]
    Csrc,
    /// The header extension goes past the end.
    #[error("header extension longer than the packet")]
    Extension,
    /// Padding count is 0 or greater than what follows the header.
    #[error("padding count is zero or too great")]
    Padding,
}

/// A parsed RTP packet: CSRC, header extension and padding are stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket<'a> {
    /// Marker bit.
    pub marker: bool,
    /// Payload type, 7 bits.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Media timestamp.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload without padding; may be empty.
    pub payload: &'a [u8],
}

impl<'a> RtpPacket<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// [`PacketError`] when it breaks RFC 3550 section 5.1 or 5.3.1.
    pub fn parse(data: &'a [u8]) -> Result<RtpPacket<'a>, PacketError> {
        let (head, mut rest) = data.split_first_chunk::<HEADER>().ok_or(PacketError::Short)?;
        let [first, second, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *head;
        if first >> 6 != 2 {
            return Err(PacketError::Version);
        }
        let csrc = usize::from(first & 0x0F) * 4;
        rest = rest.get(csrc..).ok_or(PacketError::Csrc)?;
        if first & 0x10 != 0 {
            let (head, tail) = rest.split_first_chunk::<4>().ok_or(PacketError::Extension)?;
            let words = usize::from(u16::from_be_bytes([head[2], head[3]]));
            rest = tail.get(words * 4..).ok_or(PacketError::Extension)?;
        }
        if first & 0x20 != 0 {
            let count = usize::from(*rest.last().ok_or(PacketError::Padding)?);
            if count == 0 {
                return Err(PacketError::Padding);
            }
            let keep = rest.len().checked_sub(count).ok_or(PacketError::Padding)?;
            rest = rest.get(..keep).ok_or(PacketError::Padding)?;
        }
        Ok(RtpPacket {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7F,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
            payload: rest,
        })
    }

    /// Header bytes for this packet, without CSRC, extension or padding.
    pub fn header(&self) -> [u8; HEADER] {
        let mut h = [0; HEADER];
        h[0] = 0x80;
        h[1] = u8::from(self.marker) << 7 | (self.payload_type & 0x7F);
        h[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        h[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        h[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        h
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];

    fn sample() -> RtpPacket<'static> {
        RtpPacket {
            marker: true,
            payload_type: 8,
            sequence: 0xFEDC,
            timestamp: 0x8899_AABB,
            ssrc: 0x1234_5678,
            payload: PAYLOAD,
        }
    }

    fn build(csrc: u8, extension: Option<usize>, padding: Option<u8>) -> Vec<u8> {
        let mut d = sample().header().to_vec();
        d[0] |= csrc;
        d.extend(std::iter::repeat_n(0xC5, usize::from(csrc) * 4));
        if let Some(words) = extension {
            d[0] |= 0x10;
            d.extend([0xBE, 0xDE, (words >> 8) as u8, words as u8]);
            d.extend(std::iter::repeat_n(0xEE, words * 4));
        }
        d.extend(PAYLOAD);
        if let Some(count) = padding {
            d[0] |= 0x20;
            d.extend(std::iter::repeat_n(0, usize::from(count) - 1));
            d.push(count);
        }
        d
    }

    /// Field failure B35.
    #[test]
    fn every_mix_of_padding_extension_and_csrc_gives_the_same_payload() {
        for csrc in 0..=15 {
            for extension in [None, Some(0), Some(1), Some(7)] {
                for padding in [None, Some(1), Some(4), Some(255)] {
                    let data = build(csrc, extension, padding);
                    assert_eq!(RtpPacket::parse(&data), Ok(sample()));
                }
            }
        }
    }

    /// Field failure B35.
    #[test]
    fn padding_count_of_zero_or_beyond_the_payload_is_refused() {
        let mut data = build(2, Some(1), Some(4));
        let last = data.len() - 1;
        data[last] = 0;
        assert_eq!(RtpPacket::parse(&data), Err(PacketError::Padding));
        data[last] = 12;
        assert_eq!(RtpPacket::parse(&data).map(|p| p.payload.len()), Ok(0));
        data[last] = 13;
        assert_eq!(RtpPacket::parse(&data), Err(PacketError::Padding));
        let mut bare = sample().header().to_vec();
        bare[0] |= 0x20;
        assert_eq!(RtpPacket::parse(&bare), Err(PacketError::Padding));
    }

    #[test]
    fn truncation_at_every_byte_is_an_error_or_a_shorter_payload() {
        let data = build(3, Some(2), None);
        let head = data.len() - PAYLOAD.len();
        for cut in 0..data.len() {
            match RtpPacket::parse(&data[..cut]) {
                Ok(p) => assert_eq!(p.payload.len(), cut - head),
                Err(_) => assert!(cut < head),
            }
        }
    }

    #[test]
    fn other_versions_are_refused() {
        for version in [0u8, 1, 3] {
            let mut data = build(0, None, None);
            data[0] = version << 6;
            assert_eq!(RtpPacket::parse(&data), Err(PacketError::Version));
        }
    }

    #[test]
    fn datagrams_are_told_apart() {
        let stun = [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42, 0, 0, 0, 0];
        assert_eq!(classify(&stun), Kind::Stun);
        assert_eq!(classify(&[0x80, 200]), Kind::Rtcp);
        assert_eq!(classify(&[0x81, 201, 0, 7]), Kind::Rtcp);
        assert_eq!(classify(&build(0, None, None)), Kind::Rtp);
        assert_eq!(classify(b"OPTIONS sip:x SIP/2.0"), Kind::Other);
        assert_eq!(classify(&[22, 254, 253]), Kind::Other);
        assert_eq!(classify(&[]), Kind::Other);
    }

    #[test]
    fn ten_thousand_mutations_never_do_more_than_fail() {
        let data = build(1, Some(1), Some(4));
        let mut seed = 7u64;
        for _ in 0..10_000 {
            let mut d = data.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % d.len();
                d[at] = (seed >> 20) as u8;
            }
            d.truncate((seed >> 40) as usize % (d.len() + 1));
            if let Ok(p) = RtpPacket::parse(&d) {
                assert!(p.payload.len() + HEADER <= d.len());
            }
            classify(&d);
        }
    }
}
