// SPDX-License-Identifier: GPL-3.0-or-later
//! The stream we send: one SSRC, contiguous sequence numbers, timestamps that follow the media
//! clock without a break (RFC 3550 section 5.1).

use super::packet::{RtpPacket, HEADER};
use super::rtcp::SenderInfo;

/// State of our stream.
#[derive(Debug)]
pub struct Sender {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    marker: bool,
    packets: u32,
    octets: u32,
}

impl Sender {
    /// A stream with random identity (RFC 3550 section 5.1 wants all three random).
    pub fn new(ssrc: u32, sequence: u16, timestamp: u32) -> Sender {
        Sender { ssrc, sequence, timestamp, marker: true, packets: 0, octets: 0 }
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
