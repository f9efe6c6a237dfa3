// SPDX-License-Identifier: GPL-3.0-or-later
//! What a payload type stands for, by what was agreed on (RFC 3264 section 6.1): our own number is
//! what the peer should send with, the peer's own is what many send with all the same.

use super::noise::PAYLOAD_TYPE as COMFORT_NOISE;
use super::{Codec, MediaParams};

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Audio of a codec.
    Audio(Codec),
    /// A telephone-event.
    Event,
    /// Comfort noise.
    Noise,
    /// Nothing that was agreed on.
    Unknown,
}

impl MediaParams {
    /// What the peer's packets of this payload type are.
    pub fn purpose(&self, payload_type: u8) -> Purpose {
        let t = payload_type;
        if t == self.rx_payload_type {
            return Purpose::Audio(self.codec);
        }
        if self.rx_telephone_event == Some(t) {
            return Purpose::Event;
        }
        if t == self.payload_type {
            return Purpose::Audio(self.codec);
        }
        if self.telephone_event == Some(t) {
            return Purpose::Event;
        }
        if self.comfort_noise == Some(t) {
            return Purpose::Noise;
        }
        match t {
            // Static payload types say what they are (RFC 3551): a peer that changes the codec
            // ahead of its SDP is understood.
            0 => Purpose::Audio(Codec::Pcmu),
            8 => Purpose::Audio(Codec::Pcma),
            9 => Purpose::Audio(Codec::G722),
            COMFORT_NOISE => Purpose::Noise,
            _ => Purpose::Unknown,
        }
    }
}
