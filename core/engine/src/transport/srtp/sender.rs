// SPDX-License-Identifier: GPL-3.0-or-later
//! Protects what we send.

use pjsip_sys::sdes::MasterKey;

use super::cipher::{Half, Place, Protection};
use super::index::estimate;
use super::{rtp_header, sequence, word, Refused, ENCRYPTED, INDEX, RTCP_HEADER};

/// RTP packets under one key (RFC 3711 §9.2).
const RTP_MAX: u64 = 1 << 48;
/// RTCP packets under one key.
const RTCP_MAX: u32 = 1 << 31;

/// One direction of one call, ours to the peer. It has one SSRC at a time.
#[derive(Debug)]
pub struct Sender {
    rtp: Protection,
    rtcp: Protection,
    /// SSRC and index of the newest RTP packet.
    newest: Option<(u32, u64)>,
    rtcp_index: u32,
}

impl Sender {
    /// `None` only for a key of the wrong length, which [`MasterKey`] excludes.
    pub fn new(key: &MasterKey) -> Option<Sender> {
        let (rtp, rtcp) = (Protection::new(key, Half::Rtp)?, Protection::new(key, Half::Rtcp)?);
        Some(Sender { rtp, rtcp, newest: None, rtcp_index: 0 })
    }

    /// Protects the RTP packet in the first `len` octets of `buf`, in place. Gives its new length.
    ///
    /// # Errors
    /// [`Refused`]; nothing may be sent then.
    pub fn protect_rtp(&mut self, buf: &mut [u8], len: usize) -> Result<usize, Refused> {
        let packet = buf.get(..len).ok_or(Refused::Malformed)?;
        let header = rtp_header(packet).ok_or(Refused::Malformed)?;
        let (ssrc, sequence) = (word(packet, 8).ok_or(Refused::Malformed)?, sequence(packet));
        let index = match self.newest {
            Some((known, newest)) if known == ssrc => {
                // Never twice the same: two texts under one key stream give both away.
                let index = estimate(newest, sequence).filter(|index| *index > newest);
                index.ok_or(Refused::Replay)?
            }
            _ => u64::from(sequence),
        };
        if index >= RTP_MAX {
            return Err(Refused::Exhausted);
        }
        let tag = self.rtp.tag();
        let place = Place { ssrc, index };
        let packet = buf.get_mut(..len + tag).ok_or(Refused::Room)?;
        let (head, rest) = packet.split_at_mut(header);
        let (text, end) = rest.split_at_mut(len - header);
        let roc = ((index >> 16) as u32).to_be_bytes();
        let sum = self.rtp.seal(place, head, text, roc)?;
        end.copy_from_slice(sum.get(..tag).ok_or(Refused::Room)?);
        self.newest = Some((ssrc, index));
        Ok(len + tag)
    }

    /// Protects the RTCP packet in the first `len` octets of `buf`, in place. Gives its new length.
    ///
    /// # Errors
    /// [`Refused`]; nothing may be sent then.
    pub fn protect_rtcp(&mut self, buf: &mut [u8], len: usize) -> Result<usize, Refused> {
        if len < RTCP_HEADER {
            return Err(Refused::Malformed);
        }
        if self.rtcp_index >= RTCP_MAX {
            return Err(Refused::Exhausted);
        }
        let tag = self.rtcp.tag();
        let end = len + tag + INDEX;
        let packet = buf.get_mut(..end).ok_or(Refused::Room)?;
        let ssrc = word(packet, 4).ok_or(Refused::Malformed)?;
        let place = Place { ssrc, index: u64::from(self.rtcp_index) };
        let index = (ENCRYPTED | self.rtcp_index).to_be_bytes();
        let (head, rest) = packet.split_at_mut(RTCP_HEADER);
        let (text, rest) = rest.split_at_mut(len - RTCP_HEADER);
        let sum = self.rtcp.seal(place, head, text, index)?;
        let sum = sum.get(..tag).ok_or(Refused::Room)?;
        // RFC 7714 §9.3: GCM's tag belongs to the text; HMAC's comes last (RFC 3711 §3.4).
        let (first, second) =
            if self.rtcp.is_aead() { (sum, &index[..]) } else { (&index[..], sum) };
        for (octet, v) in rest.iter_mut().zip(first.iter().chain(second)) {
            *octet = *v;
        }
        self.rtcp_index += 1;
        Ok(end)
    }

    /// As if so many packets had been sent.
    #[cfg(test)]
    pub(super) fn wind(&mut self, ssrc: u32, index: u64, rtcp_index: u32) {
        self.newest = Some((ssrc, index));
        self.rtcp_index = rtcp_index;
    }
}
