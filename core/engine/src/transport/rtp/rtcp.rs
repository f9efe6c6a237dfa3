// SPDX-License-Identifier: GPL-3.0-or-later
//! RTCP packets: compound parsing with the checks of RFC 3550 A.2, and building of ours.

/// Why a datagram is no compound RTCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// Shorter than a header, or than its length field says.
    #[error("RTCP packet longer than the datagram")]
    Short,
    /// Version is not 2.
    #[error("RTCP version is not 2")]
    Version,
    /// A compound packet begins with a sender or receiver report.
    #[error("compound RTCP does not begin with a report")]
    FirstNotReport,
    /// Padding elsewhere than in the last packet, or with a wrong count.
    #[error("RTCP padding is wrong")]
    Padding,
    /// The count field promises more than the packet holds.
    #[error("RTCP count beyond the packet")]
    Count,
}

const SR: u8 = 200;
const RR: u8 = 201;
const SDES: u8 = 202;
const BYE: u8 = 203;

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rtcp<'a> {
    /// Sender report.
    Sender {
        /// Who reports.
        ssrc: u32,
        /// What it sent.
        info: SenderInfo,
        /// Reports on streams it receives.
        reports: Reports<'a>,
    },
    /// Receiver report.
    Receiver {
        /// Who reports.
        ssrc: u32,
        /// Reports on streams it receives.
        reports: Reports<'a>,
    },
    /// The first source that leaves.
    Bye {
        /// `None` for an empty BYE.
        ssrc: Option<u32>,
    },
    /// Well formed, but of no use to us (SDES, APP, feedback).
    Other,
}

/// Sender information of a sender report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// Wall clock in NTP format, 32.32 bits.
    pub ntp: u64,
    /// The same moment on the stream's RTP clock.
    pub rtp_timestamp: u32,
    /// Packets sent.
    pub packets: u32,
    /// Payload bytes sent.
    pub octets: u32,
}

/// One reception report block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// Stream it is about.
    pub ssrc: u32,
    /// Loss since the last report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost since the beginning, 24 bits with sign.
    pub cumulative_lost: i32,
    /// Highest sequence number with cycles above.
    pub highest_sequence: u32,
    /// Interarrival jitter in RTP clock units.
    pub jitter: u32,
    /// Middle 32 bits of the last sender report's NTP time, 0 if none came.
    pub last_sr: u32,
    /// Time since that report, 1/65536 s.
    pub delay_since_last_sr: u32,
}

/// Report blocks of a report, parsed as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports<'a>(&'a [u8]);

impl Iterator for Reports<'_> {
    type Item = ReportBlock;

    fn next(&mut self) -> Option<ReportBlock> {
        let (block, rest) = self.0.split_first_chunk::<24>()?;
        self.0 = rest;
        let word =
            |i: usize| u32::from_be_bytes([block[i], block[i + 1], block[i + 2], block[i + 3]]);
        Some(ReportBlock {
            ssrc: word(0),
            fraction_lost: block[4],
            // 24 bits with sign: shift them to the top and back.
            cumulative_lost: ((word(4) << 8) as i32) >> 8,
            highest_sequence: word(8),
            jitter: word(12),
            last_sr: word(16),
            delay_since_last_sr: word(20),
        })
    }
}

/// Packets of a compound. Make it with [`Compound::parse`], which has checked all lengths.
#[derive(Clone, Copy, Debug)]
pub struct Compound<'a>(&'a [u8]);

impl<'a> Compound<'a> {
    /// Checks a datagram as RFC 3550 A.2 says.
    ///
    /// # Errors
    /// [`RtcpError`] naming the rule it breaks.
    pub fn parse(data: &'a [u8]) -> Result<Compound<'a>, RtcpError> {
        let mut rest = data;
        let mut first = true;
        while !rest.is_empty() || first {
            let (packet, tail) = split(rest)?;
            if first && !matches!(packet.kind, SR | RR) {
                return Err(RtcpError::FirstNotReport);
            }
            if packet.padded && !tail.is_empty() {
                return Err(RtcpError::Padding);
            }
            packet.body()?;
            first = false;
            rest = tail;
        }
        Ok(Compound(data))
    }
}

impl<'a> Iterator for Compound<'a> {
    type Item = Rtcp<'a>;

    fn next(&mut self) -> Option<Rtcp<'a>> {
        let (packet, rest) = split(self.0).ok()?;
        self.0 = rest;
        packet.body().ok()
    }
}

struct Raw<'a> {
    count: usize,
    kind: u8,
    padded: bool,
    body: &'a [u8],
}

fn split(data: &[u8]) -> Result<(Raw<'_>, &[u8]), RtcpError> {
    let (head, rest) = data.split_first_chunk::<4>().ok_or(RtcpError::Short)?;
    if head[0] >> 6 != 2 {
        return Err(RtcpError::Version);
    }
    let len = usize::from(u16::from_be_bytes([head[2], head[3]])) * 4;
    let (mut body, rest) = rest.split_at_checked(len).ok_or(RtcpError::Short)?;
    let padded = head[0] & 0x20 != 0;
    if padded {
        let count = usize::from(*body.last().ok_or(RtcpError::Padding)?);
        if count == 0 || !count.is_multiple_of(4) {
            return Err(RtcpError::Padding);
        }
        let keep = body.len().checked_sub(count).ok_or(RtcpError::Padding)?;
        body = body.get(..keep).ok_or(RtcpError::Padding)?;
    }
    Ok((Raw { count: usize::from(head[0] & 0x1F), kind: head[1], padded, body }, rest))
}

impl<'a> Raw<'a> {
    fn body(&self) -> Result<Rtcp<'a>, RtcpError> {
        match self.kind {
            SR => {
                let (ssrc, rest) = word(self.body)?;
                let (ntp_high, rest) = word(rest)?;
                let (ntp_low, rest) = word(rest)?;
                let (rtp_timestamp, rest) = word(rest)?;
                let (packets, rest) = word(rest)?;
                let (octets, rest) = word(rest)?;
                let ntp = u64::from(ntp_high) << 32 | u64::from(ntp_low);
                let info = SenderInfo { ntp, rtp_timestamp, packets, octets };
                Ok(Rtcp::Sender { ssrc, info, reports: self.reports(rest)? })
            }
            RR => {
                let (ssrc, rest) = word(self.body)?;
                Ok(Rtcp::Receiver { ssrc, reports: self.reports(rest)? })
            }
            BYE if self.count == 0 => Ok(Rtcp::Bye { ssrc: None }),
            BYE => {
                if self.body.len() < self.count * 4 {
                    return Err(RtcpError::Count);
                }
                Ok(Rtcp::Bye { ssrc: Some(word(self.body)?.0) })
            }
            _ => Ok(Rtcp::Other),
        }
    }

    fn reports(&self, data: &'a [u8]) -> Result<Reports<'a>, RtcpError> {
        // What follows the blocks is a profile-specific extension, which we do not read.
        data.get(..self.count * 24).map(Reports).ok_or(RtcpError::Count)
    }
}

fn word(data: &[u8]) -> Result<(u32, &[u8]), RtcpError> {
    let (w, rest) = data.split_first_chunk::<4>().ok_or(RtcpError::Count)?;
    Ok((u32::from_be_bytes(*w), rest))
}

/// Room for any compound we build.
pub const MAX_COMPOUND: usize = 128;

/// A compound packet of ours under construction, in a buffer on the stack.
#[derive(Debug)]
pub struct Builder {
    buf: [u8; MAX_COMPOUND],
    len: usize,
}

impl Builder {
    /// Begins with the report every compound begins with: a sender report when `info` is given.
    pub fn report(ssrc: u32, info: Option<&SenderInfo>, block: Option<&ReportBlock>) -> Builder {
        let mut b = Builder { buf: [0; MAX_COMPOUND], len: 0 };
        let count = u8::from(block.is_some());
        let start = b.begin(if info.is_some() { SR } else { RR }, count);
        b.word(ssrc);
        if let Some(i) = info {
            b.word((i.ntp >> 32) as u32);
            b.word(i.ntp as u32);
            b.word(i.rtp_timestamp);
            b.word(i.packets);
            b.word(i.octets);
        }
        if let Some(r) = block {
            b.word(r.ssrc);
            let lost = r.cumulative_lost.clamp(-0x80_0000, 0x7F_FFFF) as u32 & 0xFF_FFFF;
            b.word(u32::from(r.fraction_lost) << 24 | lost);
            b.word(r.highest_sequence);
            b.word(r.jitter);
            b.word(r.last_sr);
            b.word(r.delay_since_last_sr);
        }
        b.end(start);
        b
    }

    /// Adds a source description with the CNAME, which every compound has (RFC 3550 section 6.1).
    pub fn cname(mut self, ssrc: u32, cname: &[u8; 16]) -> Builder {
        let start = self.begin(SDES, 1);
        self.word(ssrc);
        self.bytes(&[1, cname.len() as u8]);
        self.bytes(cname);
        // One zero byte ends the items, more fill up to the word.
        self.bytes(&[0]);
        while !self.len.is_multiple_of(4) {
            self.bytes(&[0]);
        }
        self.end(start);
        self
    }

    /// Adds a BYE.
    pub fn bye(mut self, ssrc: u32) -> Builder {
        let start = self.begin(BYE, 1);
        self.word(ssrc);
        self.end(start);
        self
    }

    /// The datagram.
    pub fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or(&[])
    }

    fn begin(&mut self, kind: u8, count: u8) -> usize {
        let start = self.len;
        self.bytes(&[0x80 | count, kind, 0, 0]);
        start
    }

    fn end(&mut self, start: usize) {
        let words = (self.len - start) / 4 - 1;
        if let Some(field) = self.buf.get_mut(start + 2..start + 4) {
            field.copy_from_slice(&(words as u16).to_be_bytes());
        }
    }

    fn word(&mut self, w: u32) {
        self.bytes(&w.to_be_bytes());
    }

    fn bytes(&mut self, data: &[u8]) {
        let end = self.len + data.len();
        debug_assert!(end <= MAX_COMPOUND);
        if let Some(room) = self.buf.get_mut(self.len..end) {
            room.copy_from_slice(data);
            self.len = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> ReportBlock {
        ReportBlock {
            ssrc: 0xAABB_CCDD,
            fraction_lost: 12,
            cumulative_lost: -3,
            highest_sequence: 0x0001_FFFF,
            jitter: 33,
            last_sr: 0x1111_2222,
            delay_since_last_sr: 65536,
        }
    }

    fn info() -> SenderInfo {
        SenderInfo { ntp: 0x0102_0304_0506_0708, rtp_timestamp: 9, packets: 10, octets: 1600 }
    }

    fn full() -> Builder {
        Builder::report(7, Some(&info()), Some(&block())).cname(7, b"abcdefghijklmnop").bye(7)
    }

    #[test]
    fn what_is_built_is_what_is_parsed() {
        let built = full();
        let parsed = Compound::parse(built.as_bytes());
        let packets: Vec<_> = parsed.into_iter().flatten().collect();
        assert_eq!(packets.len(), 3);
        let Rtcp::Sender { ssrc, info: i, mut reports } = packets[0] else {
            unreachable!("{packets:?}")
        };
        assert_eq!((ssrc, i, reports.next(), reports.next()), (7, info(), Some(block()), None));
        assert_eq!(packets[1], Rtcp::Other);
        assert_eq!(packets[2], Rtcp::Bye { ssrc: Some(7) });
    }

    #[test]
    fn a_receiver_report_without_blocks_is_eight_bytes() {
        let built = Builder::report(7, None, None);
        assert_eq!(built.as_bytes(), [0x80, 201, 0, 1, 0, 0, 0, 7]);
    }

    #[test]
    fn broken_compounds_are_named() {
        let good = full();
        let good = good.as_bytes();
        let with = |at: usize, v: u8| {
            let mut d = good.to_vec();
            d[at] = v;
            Compound::parse(&d).err()
        };
        assert_eq!(Compound::parse(&[]).err(), Some(RtcpError::Short));
        assert_eq!(with(0, 0x41), Some(RtcpError::Version));
        assert_eq!(with(1, 202), Some(RtcpError::FirstNotReport));
        assert_eq!(with(0, 0xA1), Some(RtcpError::Padding));
        assert_eq!(with(0, 0x9F), Some(RtcpError::Count));
        assert_eq!(with(2, 0xFF), Some(RtcpError::Short));
        for cut in 1..good.len() {
            // Cut at a packet boundary it is a shorter compound; everywhere else it is an error.
            let ok = Compound::parse(&good[..cut]).is_ok();
            assert_eq!(ok, cut == 52 || cut == 80, "cut at {cut}");
        }
    }

    #[test]
    fn ten_thousand_mutations_never_do_more_than_fail() {
        let built = full();
        let mut seed = 3u64;
        for _ in 0..10_000 {
            let mut d = built.as_bytes().to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % d.len();
                d[at] = (seed >> 20) as u8;
            }
            if let Ok(compound) = Compound::parse(&d) {
                for packet in compound {
                    if let Rtcp::Sender { reports, .. } | Rtcp::Receiver { reports, .. } = packet {
                        assert!(reports.count() <= 31);
                    }
                }
            }
        }
    }
}
