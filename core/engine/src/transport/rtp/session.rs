// SPDX-License-Identifier: GPL-3.0-or-later
//! One RTP session with one peer: receiving, sending, latching and the RTCP between them.

use std::net::SocketAddr;

use super::latch::Latch;
use super::packet::{classify, Kind, RtpPacket, HEADER};
use super::receiver::{Receiver, Verdict};
use super::rtcp::{Builder, Compound, ReportBlock, Rtcp};
use super::sender::Sender;
use crate::media::MediaParams;

/// Interval of RTCP for two participants (RFC 3550 section 6.2), before it is randomised.
const RTCP_INTERVAL_NS: u64 = 5_000_000_000;
/// Round-trip times above this are a peer's mistake.
const MAX_RTT_NS: u64 = 30_000_000_000;

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
}

/// An RTP packet of the peer's stream.
#[derive(Clone, Copy, Debug)]
pub struct Media<'a> {
    /// The packet.
    pub packet: RtpPacket<'a>,
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
    latch: Latch,
    /// RTCP address of the SDP; the peer's port above RTP if the SDP is silent.
    rtcp_target: SocketAddr,
    receiver: Receiver,
    sender: Sender,
    counters: SessionCounters,
    next_rtcp_ns: u64,
    random: u64,
    packets_at_report: u32,
    rtt_ns: Option<u64>,
    remote: Option<ReportBlock>,
}

impl Session {
    /// After the first SDP.
    pub fn new(identity: Identity, params: &MediaParams, now_ns: u64) -> Session {
        let mut session = Session {
            identity,
            latch: Latch::new(params.remote_rtp, now_ns),
            rtcp_target: rtcp_of(params),
            receiver: Receiver::default(),
            sender: Sender::new(identity.ssrc, identity.sequence, identity.timestamp),
            counters: SessionCounters::default(),
            next_rtcp_ns: 0,
            random: identity.seed | 1,
            packets_at_report: 0,
            rtt_ns: None,
            remote: None,
        };
        // The first report after half the interval (RFC 3550 section 6.2).
        session.next_rtcp_ns = now_ns + session.interval_ns() / 2;
        session
    }

    /// After a later SDP.
    pub fn on_sdp(&mut self, params: &MediaParams, now_ns: u64) {
        self.latch.on_sdp(params.remote_rtp, now_ns);
        self.rtcp_target = rtcp_of(params);
    }

    /// Where RTP goes.
    pub fn rtp_target(&self) -> SocketAddr {
        self.latch.target()
    }

    /// Where RTCP goes: the SDP's address, or beside RTP when that was learnt from a packet.
    pub fn rtcp_target(&self) -> SocketAddr {
        let rtp = self.latch.target();
        if rtp.ip() == self.rtcp_target.ip() {
            self.rtcp_target
        } else {
            SocketAddr::new(rtp.ip(), rtp.port().saturating_add(1))
        }
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
                self.on_rtcp(arrival_ns, data);
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
        if !self.latch.on_packet(source, arrival_ns) {
            self.counters.foreign += 1;
            return None;
        }
        self.counters.packets += 1;
        self.counters.bytes += packet.payload.len() as u64;
        match self.receiver.on_packet(&packet, arrival_ns) {
            Verdict::Take { fresh, follows, newest } => {
                Some(Media { packet, fresh, follows, newest })
            }
            Verdict::Duplicate => {
                self.counters.duplicates += 1;
                None
            }
            Verdict::Probation => None,
        }
    }

    /// A datagram on the RTCP port, or RTCP on the RTP port.
    pub fn on_rtcp(&mut self, now_ns: u64, data: &[u8]) {
        let Ok(compound) = Compound::parse(data) else {
            self.counters.malformed += 1;
            return;
        };
        for packet in compound {
            let reports = match packet {
                Rtcp::Sender { ssrc, info, reports } => {
                    self.receiver.on_sender_report(ssrc, info.ntp, now_ns);
                    reports
                }
                Rtcp::Receiver { reports, .. } => reports,
                // The dialog ends a call, not a BYE of one of its sources.
                Rtcp::Bye { .. } | Rtcp::Other => continue,
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
        Builder::report(ssrc, info.as_ref(), block.as_ref()).cname(ssrc, &self.identity.cname)
    }

    /// Half to one and a half intervals (RFC 3550 section 6.2).
    fn interval_ns(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        RTCP_INTERVAL_NS / 2 + (self.random >> 11) % RTCP_INTERVAL_NS
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
mod tests {
    use super::*;
    use crate::media::{Codec, Direction};

    const MS: u64 = 1_000_000;

    fn params(port: u16) -> MediaParams {
        MediaParams {
            remote_rtp: SocketAddr::from(([127, 0, 0, 1], port)),
            remote_rtcp: None,
            codec: Codec::Pcma,
            payload_type: 8,
            telephone_event: None,
            ptime_ms: 20,
            direction: Direction::SendRecv,
        }
    }

    fn session(seed: u8, port: u16, now: u64) -> Session {
        Session::new(Identity::from_random(&[seed; 32]), &params(port), now)
    }

    #[test]
    fn two_sessions_learn_loss_and_round_trip_from_each_other() {
        let (mut a, mut b) = (session(1, 2000, 0), session(2, 1000, 0));
        let (from_a, from_b) = ([127, 0, 0, 1], [127, 0, 0, 1]);
        let (from_a, from_b) = (SocketAddr::from((from_a, 1000)), SocketAddr::from((from_b, 2000)));
        let mut reports = 0;
        for tick in 0..3000u64 {
            let now = tick * 20 * MS + 1_000_000 * MS;
            let x = a.next_header(8, 160, 160);
            if tick % 10 != 0 {
                b.on_datagram(now + 30 * MS, from_a, &x);
            }
            let y = b.next_header(8, 160, 160);
            a.on_datagram(now + 30 * MS, from_b, &y);
            if let Some(r) = a.poll_rtcp(now) {
                b.on_rtcp(now + 30 * MS, r.as_bytes());
                reports += 1;
            }
            if let Some(r) = b.poll_rtcp(now) {
                a.on_rtcp(now + 30 * MS, r.as_bytes());
            }
        }
        // 60 s at 5 s on average, randomised between 2.5 and 7.5.
        assert!((8..=24).contains(&reports), "{reports}");
        for s in [&a, &b] {
            let rtt = s.rtt_ns().unwrap_or(0) / MS;
            assert!((58..=62).contains(&rtt), "{rtt} ms");
        }
        let lost = a.remote_report().map_or(0, |r| r.fraction_lost);
        assert!((20..=30).contains(&lost), "{lost}/256");
        assert_eq!(b.remote_report().map(|r| r.fraction_lost), Some(0));
        assert_eq!(a.receiver().lost(), 0);
    }

    #[test]
    fn what_is_not_rtp_is_counted_and_changes_nothing() {
        let mut s = session(1, 2000, 0);
        let peer = SocketAddr::from(([127, 0, 0, 1], 2000));
        for bad in [&b""[..], b"x", &[0x80, 8, 0], &[0x80, 200, 0, 9], &[0xFF; 40]] {
            assert!(s.on_datagram(0, peer, bad).is_none());
        }
        let stun = [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(s.on_datagram(0, peer, &stun).is_none());
        assert_eq!(s.counters(), SessionCounters { malformed: 5, ..Default::default() });
    }

    #[test]
    fn reports_without_sending_are_receiver_reports_and_the_last_says_bye() {
        let mut s = session(1, 2000, 0);
        let report = s.poll_rtcp(8_000 * MS);
        assert_eq!(report.map(|r| r.as_bytes()[1]), Some(201));
        s.next_header(8, 160, 160);
        let bye = s.bye(9_000 * MS);
        let kinds: Vec<_> = Compound::parse(bye.as_bytes()).into_iter().flatten().collect();
        assert!(matches!(kinds[..], [Rtcp::Sender { .. }, Rtcp::Other, Rtcp::Bye { .. }]));
    }

    #[test]
    fn rtcp_goes_beside_rtp_when_that_was_learnt() {
        let mut s = session(1, 2000, 0);
        assert_eq!(s.rtcp_target().port(), 2001);
        let nat = SocketAddr::from(([127, 0, 0, 9], 5000));
        for i in 0..6u16 {
            let h = RtpPacket {
                marker: false,
                payload_type: 8,
                sequence: i,
                timestamp: 0,
                ssrc: 5,
                payload: &[],
            };
            s.on_datagram(u64::from(i) * 20 * MS, nat, &h.header());
        }
        assert_eq!(s.rtcp_target(), SocketAddr::from(([127, 0, 0, 9], 5001)));
    }
}
