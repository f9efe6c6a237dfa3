// SPDX-License-Identifier: GPL-3.0-or-later
//! Session keys from the master key (RFC 3711 §4.3), and what is done to a packet with them.

use aes::cipher::{consts::U16, StreamCipher};
use aes::cipher::{
    Array, BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit, StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes256};
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm};
use ctr::{flavors::Ctr128BE, CtrCore};
use hmac::{Hmac, Mac};
use pjsip_sys::sdes::{MasterKey, Suite};
use sha1::Sha1;
use zeroize::Zeroizing;

use super::Refused;

/// Octets of a tag of GCM (RFC 7714 §13).
const GCM_TAG: usize = 16;
/// Octets of an HMAC-SHA1 key (RFC 3711 §5.2).
const MAC_KEY: usize = 20;

/// Labels of key derivation (RFC 3711 §4.3.1, §4.3.2): RTP's, RTCP's are three above.
const ENCRYPTION: u8 = 0;
const AUTHENTICATION: u8 = 1;
const SALT: u8 = 2;

/// RTP or RTCP: each has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Rtp,
    Rtcp,
}

enum Aes {
    K128(Aes128),
    K256(Aes256),
}

impl Aes {
    fn new(key: &[u8]) -> Option<Aes> {
        Aes128::new_from_slice(key)
            .map(Aes::K128)
            .or_else(|_| Aes256::new_from_slice(key).map(Aes::K256))
            .ok()
    }

    /// Counter mode from `iv` on.
    fn apply(&self, iv: &[u8; 16], data: &mut [u8]) {
        match self {
            Aes::K128(aes) => counter_mode(aes, iv, data),
            Aes::K256(aes) => counter_mode(aes, iv, data),
        }
    }
}

fn counter_mode<C>(aes: &C, iv: &[u8; 16], data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let core: CtrCore<&C, Ctr128BE> = CtrCore::inner_iv_init(aes, &Array::from(*iv));
    // 2^16 blocks a packet is the limit, and no datagram has as many.
    let _ = StreamCipherCoreWrapper::from_core(core).try_apply_keystream(data);
}

/// One label's key (RFC 3711 §4.3.1 with a key derivation rate of 0; RFC 6188 §3 for AES-256; RFC 7714 §11 for GCM, whose
/// shorter salt is filled up with zeros).
pub(super) fn derive(master: &MasterKey, label: u8, out: &mut [u8]) -> Option<()> {
    let mut iv = [0; 16];
    iv.get_mut(..master.salt().len())?.copy_from_slice(master.salt());
    iv[7] ^= label;
    out.fill(0);
    Aes::new(master.key())?.apply(&iv, out);
    Some(())
}

/// How packets are protected.
enum Cipher {
    /// Counter mode, and a tag of so many octets of HMAC-SHA1.
    Counter {
        aes: Aes,
        mac: Box<Hmac<Sha1>>,
        tag: usize,
    },
    Gcm128(Aes128Gcm),
    Gcm256(Aes256Gcm),
}

/// Session keys of one half of one direction.
pub(super) struct Protection {
    half: Half,
    cipher: Cipher,
    /// 14 octets for counter mode, 12 for GCM; zeros behind.
    salt: Zeroizing<[u8; 14]>,
}

impl std::fmt::Debug for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").finish_non_exhaustive()
    }
}

/// What tells a packet from all others under one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub ssrc: u32,
    /// 48 bits for RTP, 31 for RTCP.
    pub index: u64,
}

impl Protection {
    /// `None` only for a key that is not as long as its suite says, which no [`MasterKey`] is.
    pub(super) fn new(master: &MasterKey, half: Half) -> Option<Protection> {
        let suite = master.suite();
        let base = if half == Half::Rtcp { 3 } else { 0 };
        let mut key = Zeroizing::new([0; 32]);
        let key = key.get_mut(..suite.key_len())?;
        derive(master, base + ENCRYPTION, key)?;
        let mut salt = Zeroizing::new([0; 14]);
        derive(master, base + SALT, salt.get_mut(..suite.salt_len())?)?;
        let cipher = match suite {
            Suite::AeadAes128Gcm => Cipher::Gcm128(Aes128Gcm::new_from_slice(key).ok()?),
            Suite::AeadAes256Gcm => Cipher::Gcm256(Aes256Gcm::new_from_slice(key).ok()?),
            _ => {
                let mut mac_key = Zeroizing::new([0; MAC_KEY]);
                derive(master, base + AUTHENTICATION, &mut mac_key[..])?;
                let mac = Box::new(Hmac::new_from_slice(&mac_key[..]).ok()?);
                let short =
                    matches!(suite, Suite::AesCm128HmacSha1_32 | Suite::AesCm256HmacSha1_32);
                // RTCP has 80 bits with every suite (RFC 4568 §6.2.2).
                let tag = if short && half == Half::Rtp { 4 } else { 10 };
                Cipher::Counter { aes: Aes::new(key)?, mac, tag }
            }
        };
        Some(Protection { half, cipher, salt })
    }

    /// With session keys as RFCs' examples give them; the HMAC key is arbitrary.
    #[cfg(test)]
    pub(super) fn with_session(suite: Suite, half: Half, key: &[u8], salt: &[u8]) -> Protection {
        let master = MasterKey::from_random(suite, &[0; 46]);
        let Some(mut made) = Protection::new(&master, half) else { unreachable!("{suite:?}") };
        made.salt[..salt.len()].copy_from_slice(salt);
        match (&mut made.cipher, Aes::new(key)) {
            (Cipher::Counter { aes, .. }, Some(real)) => *aes = real,
            (Cipher::Gcm128(gcm), Some(Aes::K128(aes))) => *gcm = aes.into(),
            (Cipher::Gcm256(gcm), Some(Aes::K256(aes))) => *gcm = aes.into(),
            _ => unreachable!("{suite:?}"),
        }
        made
    }

    /// Octets of the tag.
    pub(super) fn tag(&self) -> usize {
        match &self.cipher {
            Cipher::Counter { tag, .. } => *tag,
            _ => GCM_TAG,
        }
    }

    /// Whether the tag directly follows what it protects, in front of SRTCP's index and the key identifier (RFC 7714 §7).
    pub(super) fn is_aead(&self) -> bool {
        !matches!(self.cipher, Cipher::Counter { .. })
    }

    /// RFC 3711 §4.1.1: (salt · 2^16) ⊕ (SSRC · 2^64) ⊕ (index · 2^16).
    fn counter_iv(&self, place: Place) -> [u8; 16] {
        let mut iv = [0; 16];
        iv[..14].copy_from_slice(&self.salt[..]);
        for (octet, v) in iv[4..8].iter_mut().zip(place.ssrc.to_be_bytes()) {
            *octet ^= v;
        }
        for (octet, v) in iv[8..14].iter_mut().zip(&place.index.to_be_bytes()[2..]) {
            *octet ^= v;
        }
        iv
    }

    /// RFC 7714 §8.1 and §9.1: 0, SSRC, index of 48 bits (SRTCP's with zeros in front), ⊕ salt.
    fn gcm_iv(&self, place: Place) -> [u8; 12] {
        let mut iv = [0; 12];
        iv[2..6].copy_from_slice(&place.ssrc.to_be_bytes());
        iv[6..].copy_from_slice(&place.index.to_be_bytes()[2..]);
        for (octet, salt) in iv.iter_mut().zip(&self.salt[..]) {
            *octet ^= salt;
        }
        iv
    }

    /// Encrypts `text`, which follows `header`, and gives the tag over both and `extra`: the roll-over counter for RTP, the
    /// index word for RTCP.
    pub(super) fn seal(
        &self,
        place: Place,
        header: &[u8],
        text: &mut [u8],
        extra: [u8; 4],
    ) -> Result<[u8; GCM_TAG], Refused> {
        let mut tag = [0; GCM_TAG];
        match &self.cipher {
            Cipher::Counter { aes, mac, .. } => {
                aes.apply(&self.counter_iv(place), text);
                let mut mac = Hmac::clone(mac);
                for part in [header, text, &extra] {
                    mac.update(part);
                }
                let sum = mac.finalize().into_bytes();
                tag.copy_from_slice(sum.get(..GCM_TAG).unwrap_or(&[0; GCM_TAG]));
            }
            Cipher::Gcm128(gcm) => return self.gcm_seal(gcm, place, header, text, extra),
            Cipher::Gcm256(gcm) => return self.gcm_seal(gcm, place, header, text, extra),
        }
        Ok(tag)
    }

    /// The reverse of [`Protection::seal`]. On failure `text` is as it was.
    pub(super) fn open(
        &self,
        place: Place,
        header: &[u8],
        text: &mut [u8],
        tag: &[u8],
        extra: [u8; 4],
    ) -> Result<(), Refused> {
        match &self.cipher {
            Cipher::Counter { aes, mac, .. } => {
                let mut mac = Hmac::clone(mac);
                for part in [header, text, &extra] {
                    mac.update(part);
                }
                // In constant time.
                mac.verify_truncated_left(tag).map_err(|_| Refused::Auth)?;
                aes.apply(&self.counter_iv(place), text);
                Ok(())
            }
            Cipher::Gcm128(gcm) => self.gcm_open(gcm, place, header, text, tag, extra),
            Cipher::Gcm256(gcm) => self.gcm_open(gcm, place, header, text, tag, extra),
        }
    }
}

type Gcm<C> = aes_gcm::AesGcm<C, aes::cipher::consts::U12>;

impl Protection {
    fn gcm_seal<C>(
        &self,
        gcm: &Gcm<C>,
        place: Place,
        header: &[u8],
        text: &mut [u8],
        extra: [u8; 4],
    ) -> Result<[u8; GCM_TAG], Refused>
    where
        Gcm<C>: AeadInOut<NonceSize = aes::cipher::consts::U12, TagSize = U16>,
    {
        let (mut room, iv) = ([0; super::RTCP_HEADER + 4], self.gcm_iv(place));
        let aad = additional(self.half, header, extra, &mut room);
        let sum = gcm
            .encrypt_inout_detached(&Array::from(iv), aad, text.into())
            .map_err(|_| Refused::Malformed)?;
        Ok(sum.into())
    }

    fn gcm_open<C>(
        &self,
        gcm: &Gcm<C>,
        place: Place,
        header: &[u8],
        text: &mut [u8],
        tag: &[u8],
        extra: [u8; 4],
    ) -> Result<(), Refused>
    where
        Gcm<C>: AeadInOut<NonceSize = aes::cipher::consts::U12, TagSize = U16>,
    {
        let (mut room, iv) = ([0; super::RTCP_HEADER + 4], self.gcm_iv(place));
        let aad = additional(self.half, header, extra, &mut room);
        let tag = <[u8; GCM_TAG]>::try_from(tag).map_err(|_| Refused::Malformed)?;
        gcm.decrypt_inout_detached(&Array::from(iv), aad, text.into(), &Array::from(tag))
            .map_err(|_| Refused::Auth)
    }
}

/// What GCM authenticates beside the text: RTP's header; RTCP's header and index word (RFC 7714 §8.2, §9.2).
fn additional<'a>(
    half: Half,
    header: &'a [u8],
    extra: [u8; 4],
    room: &'a mut [u8; super::RTCP_HEADER + 4],
) -> &'a [u8] {
    if half == Half::Rtp {
        return header;
    }
    for (octet, v) in room.iter_mut().zip(header.iter().take(super::RTCP_HEADER).chain(&extra)) {
        *octet = *v;
    }
    room
}
