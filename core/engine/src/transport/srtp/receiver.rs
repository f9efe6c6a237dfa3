// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens what the peer sends.

use pjsip_sys::sdes::{MasterKey, Mki};

use super::cipher::{Half, Place, Protection};
use super::index::{estimate, Window};
use super::{rtp_header, sequence, word, Refused, ENCRYPTED, INDEX, RTCP_HEADER};

/// Sources remembered at a time. A peer has one, and a new one when it is transferred; what is forgotten could be replayed.
const SOURCES: usize = 8;

/// What is known of one SSRC.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    rtp: Window,
    rtcp: Window,
    /// When it last sent, in packets of all sources.
    used: u64,
}

/// One direction of one call, the peer's to us. Any SSRC that authenticates is the peer's.
#[derive(Debug)]
pub struct Receiver {
    rtp: Protection,
    rtcp: Protection,
    mki: Option<Mki>,
    sources: [Option<Source>; SOURCES],
    used: u64,
    /// SSRC and roll-over counter under the key before this one.
    before: Option<(u32, u64)>,
}

impl Receiver {
    /// `None` only for a key of the wrong length, which [`MasterKey`] excludes.
    pub fn new(key: &MasterKey, mki: Option<Mki>) -> Option<Receiver> {
        let (rtp, rtcp) = (Protection::new(key, Half::Rtp)?, Protection::new(key, Half::Rtcp)?);
        Some(Receiver { rtp, rtcp, mki, sources: [None; SOURCES], used: 0, before: None })
    }

    /// Tells of the receiver with the peer's last key. RFC 3711 §3.3.1 has the roll-over counter go on under a new key, but
    /// peers that make a new context begin with 0: both are tried.
    pub fn follow(&mut self, last: &Receiver) {
        let newest = last.sources.iter().flatten().max_by_key(|s| s.used);
        self.before = newest.and_then(|s| Some((s.ssrc, s.rtp.newest()? >> 16)));
    }

    /// Opens the SRTP packet in `data`, in place. Gives the length of the RTP packet.
    ///
    /// # Errors
    /// [`Refused`]; `data` is as it was then.
    pub fn open_rtp(&mut self, data: &mut [u8]) -> Result<usize, Refused> {
        let header = rtp_header(data).ok_or(Refused::Malformed)?;
        let ssrc = word(data, 8).ok_or(Refused::Malformed)?;
        let sequence = sequence(data);
        let (tag, mki) = (self.rtp.tag(), self.mki_len());
        let text_end = data
            .len()
            .checked_sub(tag + mki)
            .filter(|end| *end >= header)
            .ok_or(Refused::Malformed)?;
        // HMAC's tag is behind the key identifier (RFC 3711 §3.1), GCM's in front of it (RFC 7714 §8).
        let (tag_at, mki_at) = if self.rtp.is_aead() {
            (text_end, text_end + tag)
        } else {
            (text_end + mki, text_end)
        };
        self.check_mki(data, mki_at)?;
        let mut sum = [0; 16];
        let sum = sum.get_mut(..tag).ok_or(Refused::Malformed)?;
        sum.copy_from_slice(data.get(tag_at..tag_at + tag).ok_or(Refused::Malformed)?);
        let known = self.sources.iter().flatten().find(|s| s.ssrc == ssrc);
        let mut result = Err(Refused::Replay);
        for index in guesses(known.and_then(|s| s.rtp.newest()), self.before, ssrc, sequence) {
            let Some(index) = index else { continue };
            if known.is_some_and(|s| !s.rtp.admits(index)) {
                continue;
            }
            let place = Place { ssrc, index };
            let (head, rest) = data.split_at_mut(header);
            let text = rest.get_mut(..text_end - header).ok_or(Refused::Malformed)?;
            let roc = ((index >> 16) as u32).to_be_bytes();
            result = self.rtp.open(place, head, text, sum, roc);
            if result.is_ok() {
                self.source(ssrc).rtp.note(index);
                return Ok(text_end);
            }
        }
        result.map(|()| text_end)
    }

    /// Opens the SRTCP packet in `data`, in place. Gives the length of the RTCP packet.
    ///
    /// # Errors
    /// [`Refused`]; `data` is as it was then.
    pub fn open_rtcp(&mut self, data: &mut [u8]) -> Result<usize, Refused> {
        let (tag, mki) = (self.rtcp.tag(), self.mki_len());
        let text_end = data
            .len()
            .checked_sub(tag + INDEX + mki)
            .filter(|end| *end >= RTCP_HEADER)
            .ok_or(Refused::Malformed)?;
        let ssrc = word(data, 4).ok_or(Refused::Malformed)?;
        let (tag_at, index_at, mki_at) = if self.rtcp.is_aead() {
            (text_end, text_end + tag, text_end + tag + INDEX)
        } else {
            (text_end + INDEX + mki, text_end, text_end + INDEX)
        };
        self.check_mki(data, mki_at)?;
        let index = word(data, index_at).ok_or(Refused::Malformed)?;
        // In clear only by agreement, and we never agree (RFC 4568 §6.3.2).
        if index & ENCRYPTED == 0 {
            return Err(Refused::Auth);
        }
        let place = Place { ssrc, index: u64::from(index & !ENCRYPTED) };
        let known = self.sources.iter().flatten().find(|s| s.ssrc == ssrc);
        if known.is_some_and(|s| !s.rtcp.admits(place.index)) {
            return Err(Refused::Replay);
        }
        let mut sum = [0; 16];
        let sum = sum.get_mut(..tag).ok_or(Refused::Malformed)?;
        sum.copy_from_slice(data.get(tag_at..tag_at + tag).ok_or(Refused::Malformed)?);
        let (head, rest) = data.split_at_mut(RTCP_HEADER);
        let text = rest.get_mut(..text_end - RTCP_HEADER).ok_or(Refused::Malformed)?;
        self.rtcp.open(place, head, text, sum, index.to_be_bytes())?;
        self.source(ssrc).rtcp.note(place.index);
        Ok(text_end)
    }

    fn mki_len(&self) -> usize {
        self.mki.map_or(0, |mki| usize::from(mki.octets))
    }

    /// The key identifier must be the one that the peer announced.
    fn check_mki(&self, data: &[u8], at: usize) -> Result<(), Refused> {
        let Some(mki) = self.mki else { return Ok(()) };
        let field = data.get(at..at + usize::from(mki.octets)).ok_or(Refused::Malformed)?;
        let value = mki.value.to_be_bytes();
        let zeros = field.len().saturating_sub(value.len());
        let (front, back) = field.split_at(zeros);
        let same = front.iter().all(|o| *o == 0) && value.ends_with(back);
        same.then_some(()).ok_or(Refused::Auth)
    }

    /// The source's state, in the place of the one that was silent longest if it is new. Only for what is authentic.
    fn source(&mut self, ssrc: u32) -> &mut Source {
        self.used += 1;
        let used = self.used;
        let known = self.sources.iter().position(|s| s.is_some_and(|s| s.ssrc == ssrc));
        let at = known.unwrap_or_else(|| {
            let ages = self.sources.iter().enumerate().map(|(i, s)| (s.map_or(0, |s| s.used), i));
            ages.min().map_or(0, |(_, i)| i)
        });
        let fresh = Source { ssrc, rtp: Window::default(), rtcp: Window::default(), used };
        let place = &mut self.sources[at];
        let source = place.get_or_insert(fresh);
        if source.ssrc != ssrc {
            *source = fresh;
        }
        source.used = used;
        source
    }
}

/// Indices that a packet may have, most probable first. One, for a source that is known.
fn guesses(
    newest: Option<u64>,
    before: Option<(u32, u64)>,
    ssrc: u32,
    sequence: u16,
) -> [Option<u64>; 3] {
    if let Some(newest) = newest {
        return [estimate(newest, sequence), None, None];
    }
    let at = |roc: u64| Some(roc << 16 | u64::from(sequence));
    let last = before.filter(|(known, roc)| *known == ssrc && *roc > 0).map(|(_, roc)| roc);
    // A stream whose first packets were lost may have wrapped before we hear it.
    let wrapped = if sequence < 0x1000 { at(last.map_or(1, |roc| roc + 1)) } else { None };
    [at(0), last.and_then(at), wrapped]
}
