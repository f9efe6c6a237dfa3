// SPDX-License-Identifier: GPL-3.0-or-later
//! The stream we send: one SSRC, contiguous sequence numbers, timestamps that follow the media
//! clock without a break (RFC 3550 section 5.1).

use super::packet::{RtpPacket, HEADER};
use super::rtcp::SenderInfo;

/// State of our stream.
#[derive(Debug)]
pub struct Sender {
    ssrc: u32,
    /// First sequence number under this SSRC.
    base: u16,
    sequence: u16,
    timestamp: u32,
    marker: bool,
    packets: u32,
    octets: u32,
}

impl Sender {
    /// A stream with random identity (RFC 3550 section 5.1 wants all three random).
    pub fn new(ssrc: u32, sequence: u16, timestamp: u32) -> Sender {
        Sender { ssrc, base: sequence, sequence, timestamp, marker: true, packets: 0, octets: 0 }
    }

    /// Our SSRC.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Header of the next packet, of `samples` samples and `octets` payload bytes. The marker is
    /// set on the first packet after a time without packets (RFC 3551 section 4.1: nowhere else,
    /// for we send through silence).
    pub fn next(&mut self, payload_type: u8, samples: u32, octets: u32) -> [u8; HEADER] {
        let packet = RtpPacket {
            marker: self.marker,
            payload_type,
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.ssrc,
            payload: &[],
        };
        self.marker = false;
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(samples);
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(octets);
        packet.header()
    }

    /// Header of a telephone-event packet: a timestamp of its own, the marker on the first of a key
    /// (RFC 4733 section 2.5.1.2). The clock does not move by it.
    pub fn event(
        &mut self,
        payload_type: u8,
        timestamp: u32,
        first: bool,
        octets: u32,
    ) -> [u8; HEADER] {
        let (now, marker) = (self.timestamp, self.marker);
        (self.timestamp, self.marker) = (timestamp, first);
        let header = self.next(payload_type, 0, octets);
        (self.timestamp, self.marker) = (now, marker);
        header
    }

    /// Timestamp of what is sent next.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Whether a packet with these numbers may be one of the last ten seconds of ours, come back.
    pub fn sent_lately(&self, sequence: u16, timestamp: u32) -> bool {
        (1..=1000).contains(&self.sequence.wrapping_sub(sequence))
            && self.timestamp.wrapping_sub(timestamp) <= 160_000
    }

    /// Goes on under another SSRC.
    pub fn renumber(&mut self, ssrc: u32, sequence: u16) {
        (self.ssrc, self.base, self.sequence) = (ssrc, sequence, sequence);
        (self.packets, self.octets) = (0, 0);
        self.marker = true;
    }

    /// Packets sent up to the one that a peer's report names as the highest, cycles above it.
    pub fn sent_up_to(&self, highest: u32) -> u64 {
        let told = highest.wrapping_sub(u32::from(self.base)).wrapping_add(1);
        // A peer that came late counts its cycles from there.
        u64::from(if told > self.packets { told & 0xFFFF } else { told }.min(self.packets))
    }

    /// Time passes without a packet: the clock runs on, and the next packet is marked.
    pub fn skip(&mut self, samples: u32) {
        self.timestamp = self.timestamp.wrapping_add(samples);
        self.marker = true;
    }

    /// Packets sent so far.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Sender information for a report made at `ntp`.
    pub fn info(&self, ntp: u64) -> SenderInfo {
        SenderInfo {
            ntp,
            rtp_timestamp: self.timestamp,
            packets: self.packets,
            octets: self.octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &[u8]) -> (bool, u16, u32) {
        RtpPacket::parse(header).map(|p| (p.marker, p.sequence, p.timestamp)).unwrap_or_default()
    }

    #[test]
    fn sequence_is_contiguous_and_time_runs_on_over_a_hold() {
        let mut s = Sender::new(1, 65_535, u32::MAX - 159);
        assert_eq!(parse(&s.next(8, 160, 160)), (true, 65_535, u32::MAX - 159));
        assert_eq!(parse(&s.next(8, 160, 160)), (false, 0, 0));
        s.skip(8000);
        assert_eq!(parse(&s.next(8, 160, 160)), (true, 1, 8160));
        assert_eq!(parse(&s.next(8, 160, 160)), (false, 2, 8320));
        let info = s.info(5);
        assert_eq!((info.packets, info.octets, info.rtp_timestamp), (4, 640, 8480));
    }
}
