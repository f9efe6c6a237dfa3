// SPDX-License-Identifier: GPL-3.0-or-later
//! G.711 A-law and μ-law (ITU-T G.711, decision and output values of its tables 1 and 2).
//!
//! Linear samples are 16 bit: A-law uses the upper 13 bits, μ-law the upper 14. Negative input is
//! taken in one's complement before quantising, as the ITU's reference (G.191) does, so that the
//! characteristic is symmetric.

/// The two characteristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// A-law.
    A,
    /// μ-law.
    Mu,
}

static DECODE_A: [i16; 256] = decode_table(Law::A);
static DECODE_MU: [i16; 256] = decode_table(Law::Mu);
static ENCODE_A: [u8; 4096] = encode_table_a();
static ENCODE_MU: [u8; 16384] = encode_table_mu();

/// Code word of digital silence.
pub fn silence(law: Law) -> u8 {
    match law {
        Law::A => 0xD5,
        Law::Mu => 0xFF,
    }
}

/// Linear sample of a code word.
pub fn decode_one(law: Law, code: u8) -> i16 {
    match law {
        Law::A => DECODE_A[code as usize],
        Law::Mu => DECODE_MU[code as usize],
    }
}

/// Code word of a linear sample.
pub fn encode_one(law: Law, sample: i16) -> u8 {
    // The shifts keep the indices below the tables' lengths for every sample.
    match law {
        Law::A => ENCODE_A[(sample as u16 >> 4) as usize],
        Law::Mu => ENCODE_MU[(sample as u16 >> 2) as usize],
    }
}

/// Decodes as many as both slices hold.
pub fn decode(law: Law, codes: &[u8], out: &mut [i16]) {
    let table = match law {
        Law::A => &DECODE_A,
        Law::Mu => &DECODE_MU,
    };
    for (o, c) in out.iter_mut().zip(codes) {
        *o = table[*c as usize];
    }
}

/// Encodes as many as both slices hold.
pub fn encode(law: Law, samples: &[i16], out: &mut [u8]) {
    match law {
        Law::A => {
            for (o, s) in out.iter_mut().zip(samples) {
                *o = ENCODE_A[(*s as u16 >> 4) as usize];
            }
        }
        Law::Mu => {
            for (o, s) in out.iter_mut().zip(samples) {
                *o = ENCODE_MU[(*s as u16 >> 2) as usize];
            }
        }
    }
}

const fn alaw_expand(code: u8) -> i16 {
    let c = code ^ 0x55;
    let segment = (c >> 4) & 7;
    let step = (c & 15) as i16;
    let magnitude =
        if segment == 0 { (step << 4) + 8 } else { ((step << 4) + 0x108) << (segment - 1) };
    if c & 0x80 != 0 {
        magnitude
    } else {
        -magnitude
    }
}

const fn ulaw_expand(code: u8) -> i16 {
    let c = !code;
    let magnitude = ((((c & 15) as i32) << 3) + 0x84) << ((c >> 4) & 7);
    let magnitude = (magnitude - 0x84) as i16;
    if c & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// `magnitude`: 11 bits, `negative`: sign.
const fn alaw_compress(magnitude: u16, negative: bool) -> u8 {
    let mut code = if magnitude < 16 {
        magnitude as u8
    } else {
        let segment = 12 - magnitude.leading_zeros() as u16;
        ((segment << 4) | ((magnitude >> (segment - 1)) & 15)) as u8
    };
    if !negative {
        code |= 0x80;
    }
    code ^ 0x55
}

/// `magnitude`: 13 bits without the bias of 33, `negative`: sign.
const fn ulaw_compress(magnitude: u16, negative: bool) -> u8 {
    let biased = magnitude + 33;
    let biased = if biased > 0x1FFF { 0x1FFF } else { biased };
    let segment = 10 - biased.leading_zeros() as u16;
    let code = !((segment << 4) | ((biased >> (segment + 1)) & 15)) as u8 & 0x7F;
    if negative {
        code
    } else {
        code | 0x80
    }
}

const fn decode_table(law: Law) -> [i16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = match law {
            Law::A => alaw_expand(i as u8),
            Law::Mu => ulaw_expand(i as u8),
        };
        i += 1;
    }
    table
}

const fn encode_table_a() -> [u8; 4096] {
    let mut table = [0; 4096];
    let mut i = 0u16;
    while i < 4096 {
        let negative = i >= 2048;
        let magnitude = if negative { 4095 - i } else { i };
        table[i as usize] = alaw_compress(magnitude, negative);
        i += 1;
    }
    table
}

const fn encode_table_mu() -> [u8; 16384] {
    let mut table = [0; 16384];
    let mut i = 0u16;
    while i < 16384 {
        let negative = i >= 8192;
        let magnitude = if negative { 16383 - i } else { i };
        table[i as usize] = ulaw_compress(magnitude, negative);
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Law; 2] = [Law::A, Law::Mu];

    #[test]
    fn output_values_are_those_of_the_recommendation() {
        // Positive output values at the segment ends, tables 1a (A-law, scaled by 8 to 16 bit) and
        // 2a (mu-law, scaled by 4).
        for (code, y) in
            [(0xD5u8, 1), (0xC5, 33), (0xF5, 66), (0xE5, 132), (0x95, 264), (0x85, 528)]
        {
            assert_eq!(decode_one(Law::A, code), y * 8, "A-law {code:#x}");
        }
        assert_eq!(decode_one(Law::A, 0xAA), 4032 * 8);
        assert_eq!(decode_one(Law::A, 0x2A), -4032 * 8);
        for (code, y) in [(0xFFu8, 0), (0xFE, 2), (0xEF, 33), (0xDF, 99), (0xCF, 231), (0xBF, 495)]
        {
            assert_eq!(decode_one(Law::Mu, code), y * 4, "mu-law {code:#x}");
        }
        assert_eq!(decode_one(Law::Mu, 0x80), 8031 * 4);
        assert_eq!(decode_one(Law::Mu, 0x00), -8031 * 4);
    }

    #[test]
    fn every_code_survives_decoding_and_encoding() {
        for law in BOTH {
            for code in 0..=255u8 {
                let back = encode_one(law, decode_one(law, code));
                // Mu-law has two zeros; the negative one becomes the positive one.
                let want = if law == Law::Mu && code == 0x7F { 0xFF } else { code };
                assert_eq!(back, want, "{law:?} {code:#x}");
            }
        }
    }

    #[test]
    fn every_sample_is_within_half_a_quantising_step() {
        for law in BOTH {
            for s in i16::MIN..=i16::MAX {
                let got = i32::from(decode_one(law, encode_one(law, s)));
                // 16 steps a segment; segments double. The codec sees 13 or 14 of the 16 bits.
                let (edge, unit) = if law == Law::A { (0, 16) } else { (132, 4) };
                let segment = (got.unsigned_abs() + edge).max(1).ilog2();
                let step = (1i32 << segment >> 4).max(unit);
                // Beyond the last decision value (8159 of 14 bits) mu-law clips.
                let s = i32::from(s).clamp(-32636, 32636);
                assert!((got - s).abs() <= step / 2 + unit, "{law:?} {s}: {got}");
            }
        }
    }

    #[test]
    fn the_characteristic_rises_and_is_symmetric() {
        for law in BOTH {
            let mut last = i16::MIN;
            for s in i16::MIN..=i16::MAX {
                let y = decode_one(law, encode_one(law, s));
                assert!(y >= last, "{law:?} falls at {s}");
                last = y;
                let mirrored = decode_one(law, encode_one(law, !s));
                assert_eq!(i32::from(mirrored), -i32::from(y), "{law:?} {s}");
            }
        }
    }

    #[test]
    fn slices_give_what_single_samples_give() {
        let codes: Vec<u8> = (0..=255).collect();
        for law in BOTH {
            let mut pcm = [0i16; 256];
            decode(law, &codes, &mut pcm);
            let mut back = [0u8; 256];
            encode(law, &pcm, &mut back);
            for (i, c) in codes.iter().enumerate() {
                assert_eq!(pcm[i], decode_one(law, *c));
                assert_eq!(back[i], encode_one(law, pcm[i]));
            }
        }
    }

    #[test]
    fn silence_is_the_code_of_zero() {
        for law in BOTH {
            assert_eq!(encode_one(law, 0), silence(law));
        }
    }
}
