// SPDX-License-Identifier: GPL-3.0-or-later
//! SRTP and SRTCP (RFC 3711, RFC 6188, RFC 7714), without I/O: packets are protected and opened in the caller's buffer.
//!
//! Nothing here allocates after construction, so that the media thread may call it for every packet. Ciphers and hashes are
//! RustCrypto's, which use the processor's AES and SHA instructions; what is ours is the framing: key derivation, packet
//! index, replay window (`docs/adr/0014`). Keys are wiped when dropped.

mod cipher;
mod index;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::Receiver;
pub use sender::Sender;

/// Octets that protecting adds to a packet, at most: the tag of GCM and the index of SRTCP.
pub const OVERHEAD: usize = 20;

/// Octets of the index at the end of an SRTCP packet (RFC 3711 §3.4).
const INDEX: usize = 4;
/// The flag in it that says the packet is encrypted.
const ENCRYPTED: u32 = 1 << 31;
/// Octets in front of an SRTCP packet that stay in clear: header and SSRC of the first report.
const RTCP_HEADER: usize = 8;

/// Why a packet was neither protected nor opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No RTP or RTCP packet, or too short for the suite.
    #[error("not an SRTP packet")]
    Malformed,
    /// The tag does not fit: another key, or somebody else's packet.
    #[error("authentication failed")]
    Auth,
    /// Was here before, or is too old to tell (RFC 3711 §3.3.2).
    #[error("replayed")]
    Replay,
    /// The buffer has no room for the tag.
    #[error("no room for the tag")]
    Room,
    /// The key has protected as many packets as it may (RFC 3711 §9.2).
    #[error("the key is used up")]
    Exhausted,
}

/// Octets of an RTP header with CSRCs and extension (RFC 3550 §5.1): what stays in clear.
fn rtp_header(data: &[u8]) -> Option<usize> {
    let first = *data.first()?;
    if first >> 6 != 2 {
        return None;
    }
    let mut len = 12 + usize::from(first & 0x0F) * 4;
    if first & 0x10 != 0 {
        let words = data.get(len + 2..len + 4)?;
        len += 4 + usize::from(u16::from_be_bytes([words[0], words[1]])) * 4;
    }
    (len <= data.len()).then_some(len)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

fn sequence(data: &[u8]) -> u16 {
    data.get(2..4).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}
