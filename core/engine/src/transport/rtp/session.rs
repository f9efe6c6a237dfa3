// SPDX-License-Identifier: GPL-3.0-or-later
//! One RTP session with one peer: receiving, sending, latching and the RTCP between them.

use std::net::SocketAddr;

use super::latch::Latch;
use super::packet::{classify, Kind, RtpPacket, HEADER};
use super::receiver::{Receiver, Verdict};
use super::rtcp::{Builder, Compound, ReportBlock, Rtcp};
use super::sender::Sender;
use crate::media::{MediaParams, Purpose, RtcpWay};

/// Interval of RTCP for two participants (RFC 3550 section 6.2), before it is randomised.
const RTCP_INTERVAL_NS: u64 = 5_000_000_000;
/// Round-trip times above this are a peer's mistake.
const MAX_RTT_NS: u64 = 30_000_000_000;
/// Changes of our SSRC for collisions. Chance never brings a second one; a peer may.
const MAX_COLLISIONS: u8 = 4;

/// Random identity of our side, drawn once for a call.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// SSRC.
    pub ssrc: u32,
    /// First sequence number.
    pub sequence: u16,
    /// First timestamp.
    pub timestamp: u32,
    /// CNAME: 96 random bits, printable (RFC 7022 section 4.2).
    pub cname: [u8; 16],
    /// Seed of the RTCP interval.
    pub seed: u64,
}

impl Identity {
    /// An identity from 32 random bytes.
    pub fn from_random(random: &[u8; 32]) -> Identity {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut cname = [0; 16];
        for (c, r) in cname.iter_mut().zip(random.iter().skip(16)) {
            *c = DIGITS[usize::from(r & 63)];
        }
        let word =
            |i: usize| u32::from_be_bytes([random[i], random[i + 1], random[i + 2], random[i + 3]]);
        Identity {
            ssrc: word(0),
            sequence: word(4) as u16,
            timestamp: word(8),
            cname,
            seed: u64::from(word(12)) << 32 | u64::from(word(4)),
        }
    }
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// RTP packets taken.
    pub packets: u64,
    /// Payload bytes taken.
    pub bytes: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Broken datagrams.
    pub malformed: u64,
    /// Valid packets from elsewhere.
    pub foreign: u64,
    /// RTP of payload types that were not agreed on.
    pub wrong_type: u64,
}

/// An RTP packet of the peer's stream.
#[derive(Clone, Copy, Debug)]
pub struct Media<'a> {
    /// The packet.
    pub packet: RtpPacket<'a>,
    /// What its payload type stands for; never [`Purpose::Unknown`].
    pub purpose: Purpose,
    /// Another timeline begins: see [`Verdict::Take`].
    pub fresh: bool,
    /// Directly follows the newest packet before it.
    pub follows: bool,
    /// Newer than every packet before it.
    pub newest: bool,
}

/// State of the session. The first SDP makes it.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    params: MediaParams,
    latch: Latch,
    /// RTCP address of the SDP; the peer's port above RTP if the SDP is silent.
    rtcp_signalled: SocketAddr,
    receiver: Receiver,
    sender: Sender,
    counters: SessionCounters,
    next_rtcp_ns: u64,
    random: u64,
    packets_at_report: u32,
    rtt_ns: Option<u64>,
    remote: Option<ReportBlock>,
    /// When the peer's RTCP was last heard.
    rtcp_ns: Option<u64>,
    /// SSRC of ours given up for a collision, whose BYE is to be sent.
    abandoned: Option<u32>,
    collisions: u8,
}

impl Session {
    /// After the first SDP.
    pub fn new(identity: Identity, params: &MediaParams, now_ns: u64) -> Session {
        let mut session = Session {
            identity,
            params: *params,
            latch: Latch::new(params.remote_rtp, params.signalling, now_ns),
            rtcp_signalled: rtcp_of(params),
            receiver: Receiver::default(),
            sender: Sender::new(identity.ssrc, identity.sequence, identity.timestamp),
            counters: SessionCounters::default(),
            next_rtcp_ns: 0,
            random: identity.seed | 1,
            packets_at_report: 0,
            rtt_ns: None,
            remote: None,
            rtcp_ns: None,
            abandoned: None,
            collisions: 0,
        };
        // The first report after half the interval (RFC 3550 section 6.2).
        session.next_rtcp_ns = now_ns + session.interval_ns() / 2;
        session
    }

    /// After a later SDP.
    pub fn on_sdp(&mut self, params: &MediaParams, now_ns: u64) {
        self.latch.on_sdp(params.remote_rtp, params.signalling, now_ns);
        self.rtcp_signalled = rtcp_of(params);
        self.params = *params;
    }

    /// Where RTP goes.
    pub fn rtp_target(&self) -> SocketAddr {
        self.latch.target()
    }

    /// Where RTCP goes: with RTP when both share a port (RFC 5761); else the SDP's address, or beside
    /// RTP when that was learnt from a packet. `None` when the peer wants none (RFC 3556).
    pub fn rtcp_target(&self) -> Option<SocketAddr> {
        let rtp = self.latch.target();
        match self.params.rtcp {
            RtcpWay::Off => None,
            RtcpWay::Mux => Some(rtp),
            RtcpWay::Beside if rtp.ip() == self.rtcp_signalled.ip() => Some(self.rtcp_signalled),
            RtcpWay::Beside => Some(SocketAddr::new(rtp.ip(), rtp.port().saturating_add(1))),
        }
    }

    /// Whether RTCP leaves by the RTP socket.
    pub fn rtcp_is_muxed(&self) -> bool {
        self.params.rtcp == RtcpWay::Mux
    }

    /// A datagram on the RTP port that arrived at `arrival_ns`. Gives the packet if it is media of
    /// the peer; everything else is dealt with or counted here.
    pub fn on_datagram<'a>(
        &mut self,
        arrival_ns: u64,
        source: SocketAddr,
        data: &'a [u8],
    ) -> Option<Media<'a>> {
        match classify(data) {
            Kind::Rtp => {}
            Kind::Rtcp => {
                self.on_rtcp(arrival_ns, source, data);
                return None;
            }
            Kind::Stun => return None,
            Kind::Other => {
                self.counters.malformed += 1;
                return None;
            }
        }
        let Ok(packet) = RtpPacket::parse(data) else {
            self.counters.malformed += 1;
            return None;
        };
        let purpose = self.params.purpose(packet.payload_type);
        if purpose == Purpose::Unknown {
            // Proves nothing about where the peer is. Within its own stream it keeps the count of
            // packets right; a stream made of such packets is none.
            self.counters.wrong_type += 1;
            if self.latch.hears(source) && self.receiver.ssrc() == Some(packet.ssrc) {
                self.receiver.on_packet(&packet, arrival_ns);
            }
            return None;
        }
        if !self.latch.on_packet(source, arrival_ns) {
            self.counters.foreign += 1;
            return None;
        }
        if packet.ssrc == self.identity.ssrc {
            self.on_own_ssrc(&packet);
        }
        self.counters.packets += 1;
        self.counters.bytes += packet.payload.len() as u64;
        // Gateways that make events apart from the audio give them an SSRC of their own. The audio
        // stream is not over for that.
        if purpose == Purpose::Event && self.receiver.ssrc().is_some_and(|s| s != packet.ssrc) {
            let (fresh, follows, newest) = (false, false, true);
            return Some(Media { packet, purpose, fresh, follows, newest });
        }
        match self.receiver.on_packet(&packet, arrival_ns) {
            Verdict::Take { fresh, follows, newest } => {
                Some(Media { packet, purpose, fresh, follows, newest })
            }
            Verdict::Duplicate => {
                self.counters.duplicates += 1;
                None
            }
            Verdict::Probation => None,
        }
    }

    /// The peer sends under our SSRC: an echo of our own packets, which is let be, or by chance. Then
    /// we take another one (RFC 3550 section 8.2), a few times at most.
    fn on_own_ssrc(&mut self, packet: &RtpPacket<'_>) {
        if self.sender.sent_lately(packet.sequence, packet.timestamp)
            || self.collisions >= MAX_COLLISIONS
        {
            return;
        }
        self.collisions += 1;
        self.abandoned = Some(self.identity.ssrc);
        let random = self.next_random();
        let ssrc = (random >> 32) as u32;
        self.identity.ssrc = if ssrc == packet.ssrc { !ssrc } else { ssrc };
        self.sender.renumber(self.identity.ssrc, random as u16);
        self.remote = None;
    }

    /// A datagram on the RTCP port, or RTCP on the RTP port.
    pub fn on_rtcp(&mut self, now_ns: u64, source: SocketAddr, data: &[u8]) {
        let Ok(compound) = Compound::parse(data) else {
            self.counters.malformed += 1;
            return;
        };
        // Its port is often not the one of the SDP, and nothing is sent there for it; but the host
        // must be the peer's.
        let host = source.ip();
        if !self.latch.knows(host) && host != self.rtcp_signalled.ip() {
            self.counters.foreign += 1;
            return;
        }
        self.rtcp_ns = Some(now_ns);
        for packet in compound {
            let reports = match packet {
                Rtcp::Sender { ssrc, info, reports } => {
                    self.receiver.on_sender_report(ssrc, info.ntp, now_ns);
                    reports
                }
                Rtcp::Receiver { reports, .. } => reports,
                // The dialog ends a call, not a BYE of one of its sources; but that source is over.
                Rtcp::Bye { ssrc } => {
                    if let Some(ssrc) = ssrc {
                        self.receiver.on_bye(ssrc);
                    }
                    continue;
                }
                Rtcp::Other => continue,
            };
            let ours = self.identity.ssrc;
            for report in reports.filter(|r| r.ssrc == ours) {
                self.on_report(now_ns, report);
            }
        }
    }

    fn on_report(&mut self, now_ns: u64, report: ReportBlock) {
        self.remote = Some(report);
        if report.last_sr == 0 {
            return;
        }
        // RFC 3550 section 6.4.1: A - LSR - DLSR, in 1/65536 s.
        let now = (ntp(now_ns) >> 16) as u32;
        let rtt = now.wrapping_sub(report.last_sr).wrapping_sub(report.delay_since_last_sr);
        // A hair below zero is rounding of DLSR on a fast network.
        let rtt = (rtt as i32).max(0) as u64 * 1_000_000_000 / 65536;
        if rtt <= MAX_RTT_NS {
            self.rtt_ns = Some(rtt);
        }
    }

    /// Header of the next RTP packet.
    pub fn next_header(&mut self, payload_type: u8, samples: u32, octets: u32) -> [u8; HEADER] {
        self.sender.next(payload_type, samples, octets)
    }

    /// Header of a telephone-event packet, under the timestamp at which the key went down.
    pub fn event_header(
        &mut self,
        payload_type: u8,
        timestamp: u32,
        first: bool,
        octets: u32,
    ) -> [u8; HEADER] {
        self.sender.event(payload_type, timestamp, first, octets)
    }

    /// RTP timestamp of what is sent next.
    pub fn timestamp(&self) -> u32 {
        self.sender.timestamp()
    }

    /// Time passes in which nothing is sent.
    pub fn skip(&mut self, samples: u32) {
        self.sender.skip(samples);
    }

    /// The report that is due at `now_ns`, if one is.
    pub fn poll_rtcp(&mut self, now_ns: u64) -> Option<Builder> {
        if now_ns < self.next_rtcp_ns {
            return None;
        }
        self.next_rtcp_ns = now_ns + self.interval_ns();
        Some(self.compound(now_ns))
    }

    /// The last report, with BYE.
    pub fn bye(&mut self, now_ns: u64) -> Builder {
        self.compound(now_ns).bye(self.identity.ssrc)
    }

    fn compound(&mut self, now_ns: u64) -> Builder {
        let sent = self.sender.packets();
        // A sender report only if something was sent since the last one (section 6.4).
        let info = (sent != self.packets_at_report).then(|| self.sender.info(ntp(now_ns)));
        self.packets_at_report = sent;
        let block = self.receiver.report(now_ns);
        let ssrc = self.identity.ssrc;
        let report =
            Builder::report(ssrc, info.as_ref(), block.as_ref()).cname(ssrc, &self.identity.cname);
        match self.abandoned.take() {
            Some(old) => report.bye(old),
            None => report,
        }
    }

    /// Half to one and a half intervals (RFC 3550 section 6.2).
    fn interval_ns(&mut self) -> u64 {
        RTCP_INTERVAL_NS / 2 + (self.next_random() >> 11) % RTCP_INTERVAL_NS
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Counters.
    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    /// The receiving side.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Round-trip time by the last report that told one.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.rtt_ns
    }

    /// The peer's last report about our stream.
    pub fn remote_report(&self) -> Option<&ReportBlock> {
        self.remote.as_ref()
    }

    /// Packets of ours that the peer's last report covers: those it got and those it missed.
    pub fn remote_expected(&self) -> u64 {
        self.remote.map_or(0, |r| self.sender.sent_up_to(r.highest_sequence))
    }

    /// When the peer's RTCP was last heard.
    pub fn rtcp_heard_ns(&self) -> Option<u64> {
        self.rtcp_ns
    }
}

fn rtcp_of(params: &MediaParams) -> SocketAddr {
    params.remote_rtcp.unwrap_or_else(|| {
        let rtp = params.remote_rtp;
        SocketAddr::new(rtp.ip(), rtp.port().saturating_add(1))
    })
}

/// NTP format of a monotonic time. RFC 3550 section 6.4.1 allows any clock that is common to our
/// streams; the wall clock may be set back in mid-call, this one may not.
fn ntp(now_ns: u64) -> u64 {
    ((u128::from(now_ns) << 32) / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests;
