// SPDX-License-Identifier: GPL-3.0-or-later
//! SRTP as its RFCs show it, and as networks and peers treat it.

mod streams;
mod vectors;

use pjsip_sys::sdes::{MasterKey, Suite};

use super::{Receiver, Sender, OVERHEAD};

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| b.is_ascii_hexdigit()).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap_or(""), 16);
    digits.chunks(2).map(|p| pair(p).unwrap_or_else(|_| unreachable!("hex"))).collect()
}

pub(super) fn key(suite: Suite, seed: u8) -> MasterKey {
    MasterKey::from_random(suite, &std::array::from_fn(|i| seed.wrapping_add(i as u8)))
}

pub(super) fn pair(suite: Suite) -> (Sender, Receiver) {
    let key = key(suite, 1);
    match (Sender::new(&key), Receiver::new(&key, None)) {
        (Some(tx), Some(rx)) => (tx, rx),
        _ => unreachable!("{suite:?}"),
    }
}

/// An RTP packet of 20 ms whose payload tells its number.
pub(super) fn rtp(ssrc: u32, sequence: u16) -> Vec<u8> {
    let mut p = vec![0x80, 8];
    p.extend(sequence.to_be_bytes());
    p.extend((u32::from(sequence) * 160).to_be_bytes());
    p.extend(ssrc.to_be_bytes());
    p.extend(std::iter::repeat_n(sequence as u8, 160));
    p
}

/// A sender report with one block.
pub(super) fn rtcp(ssrc: u32) -> Vec<u8> {
    let mut p = vec![0x81, 200, 0, 12];
    p.extend(ssrc.to_be_bytes());
    p.extend((0..44).map(|i| i * 3));
    p
}

pub(super) fn seal(tx: &mut Sender, packet: &[u8]) -> Vec<u8> {
    let mut buf = packet.to_vec();
    buf.resize(packet.len() + OVERHEAD, 0);
    let len = tx.protect_rtp(&mut buf, packet.len());
    buf.truncate(len.unwrap_or_else(|e| unreachable!("{e}")));
    buf
}

pub(super) fn seal_rtcp(tx: &mut Sender, packet: &[u8]) -> Vec<u8> {
    let mut buf = packet.to_vec();
    buf.resize(packet.len() + OVERHEAD, 0);
    let len = tx.protect_rtcp(&mut buf, packet.len());
    buf.truncate(len.unwrap_or_else(|e| unreachable!("{e}")));
    buf
}

pub(super) fn open(rx: &mut Receiver, packet: &[u8]) -> Result<Vec<u8>, super::Refused> {
    let mut buf = packet.to_vec();
    let result = rx.open_rtp(&mut buf);
    if result.is_err() {
        assert_eq!(buf, packet, "a packet that is refused stays as it was");
    }
    buf.truncate(result?);
    Ok(buf)
}

pub(super) fn open_rtcp(rx: &mut Receiver, packet: &[u8]) -> Result<Vec<u8>, super::Refused> {
    let mut buf = packet.to_vec();
    let result = rx.open_rtcp(&mut buf);
    if result.is_err() {
        assert_eq!(buf, packet, "a packet that is refused stays as it was");
    }
    buf.truncate(result?);
    Ok(buf)
}
