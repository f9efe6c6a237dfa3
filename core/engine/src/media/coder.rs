// SPDX-License-Identifier: GPL-3.0-or-later
//! The codecs of one call at the rate of its line, whichever rate they have.

use super::g722;
use super::halfband::{Doubler, Halver};
use super::{g711, Codec, Coding, Rate, FRAME};

/// Payload bytes to samples of the line.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    line: Rate,
    last: Codec,
    wide: g722::Decoder,
    doubler: Doubler,
    halver: Halver,
}

impl Decoder {
    pub(crate) fn new(line: Rate) -> Decoder {
        Decoder {
            line,
            last: Codec::Pcma,
            wide: g722::Decoder::default(),
            doubler: Doubler::default(),
            halver: Halver::default(),
        }
    }

    /// Decodes as many bytes as both slices hold; in play-out order, for codecs remember.
    pub(crate) fn decode(&mut self, codec: Codec, bytes: &[u8], out: &mut [i16]) {
        self.expect(codec);
        match (codec.law(), self.line) {
            (Some(law), Rate::R8k) => g711::decode(law, bytes, out),
            (None, Rate::R16k) => self.wide.decode(bytes, out),
            (Some(law), Rate::R16k) => {
                for (bytes, out) in bytes.chunks(FRAME).zip(out.chunks_mut(2 * FRAME)) {
                    let mut narrow = [0; FRAME];
                    g711::decode(law, bytes, &mut narrow);
                    self.doubler.run(&narrow[..bytes.len()], out);
                }
            }
            (None, Rate::R8k) => {
                for (bytes, out) in bytes.chunks(FRAME).zip(out.chunks_mut(FRAME)) {
                    let mut wide = [0; 2 * FRAME];
                    self.wide.decode(bytes, &mut wide[..2 * bytes.len()]);
                    self.halver.run(&wide[..2 * bytes.len()], out);
                }
            }
        }
    }

    /// Sound made here at 8 kHz, at the rate of the line.
    pub(crate) fn narrow(&mut self, input: &[i16], out: &mut [i16]) {
        match self.line {
            Rate::R8k => out.copy_from_slice(input),
            Rate::R16k => self.doubler.run(input, out),
        }
    }

    /// A stream of another codec has a beginning of its own.
    fn expect(&mut self, codec: Codec) {
        if codec.rate() != self.last.rate() {
            *self = Decoder { doubler: self.doubler.clone(), ..Decoder::new(self.line) };
        }
        self.last = codec;
    }
}

/// Samples of the line to payload bytes.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    line: Rate,
    last: Codec,
    wide: g722::Encoder,
    doubler: Doubler,
    halver: Halver,
}

impl Encoder {
    pub(crate) fn new(line: Rate) -> Encoder {
        Encoder {
            line,
            last: Codec::Pcma,
            wide: g722::Encoder::default(),
            doubler: Doubler::default(),
            halver: Halver::default(),
        }
    }

    /// Encodes as many samples as both slices hold; a byte is 1/8000 s.
    pub(crate) fn encode(&mut self, codec: Codec, samples: &[i16], out: &mut [u8]) {
        if codec.rate() != self.last.rate() {
            *self = Encoder::new(self.line);
        }
        self.last = codec;
        match (self.line, codec.law()) {
            (Rate::R8k, Some(law)) => g711::encode(law, samples, out),
            (Rate::R16k, None) => self.wide.encode(samples, out),
            (Rate::R16k, Some(law)) => {
                for (samples, out) in samples.chunks(2 * FRAME).zip(out.chunks_mut(FRAME)) {
                    let mut narrow = [0; FRAME];
                    self.halver.run(samples, &mut narrow);
                    g711::encode(law, &narrow, out);
                }
            }
            (Rate::R8k, None) => {
                for (samples, out) in samples.chunks(FRAME).zip(out.chunks_mut(FRAME)) {
                    let mut wide = [0; 2 * FRAME];
                    self.doubler.run(samples, &mut wide[..2 * samples.len()]);
                    self.wide.encode(&wide[..2 * samples.len()], out);
                }
            }
        }
    }
}
