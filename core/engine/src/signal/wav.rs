// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading of WAV files: 16-bit PCM of one or two channels.

/// One channel of sound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sound {
    pub(super) rate: u32,
    pub(super) samples: Vec<i16>,
}

/// Format tags: plain PCM, and the one that has its own tag at the start of a GUID.
const PCM: u16 = 1;
const EXTENSIBLE: u16 = 0xFFFE;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// The sound of a file; two channels become their mean.
pub(super) fn read(bytes: &[u8]) -> Result<Sound, &'static str> {
    if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
        return Err("no WAV file");
    }
    let mut rest = bytes.get(12..).unwrap_or(&[]);
    let mut format = None;
    while let (Some(name), Some(size)) = (rest.get(..4), u32_at(rest, 4)) {
        let body = rest.get(8..).unwrap_or(&[]);
        // What was cut short ends with the file.
        let body_end = (size as usize).min(body.len());
        let chunk = body.get(..body_end).unwrap_or(&[]);
        match name {
            b"fmt " => format = Some(parse(chunk).ok_or("not 16-bit PCM of one or two channels")?),
            b"data" => {
                let (rate, channels) = format.ok_or("audio before its format")?;
                let sample = |b: &[u8]| u16_at(b, 0).map_or(0, |v| i32::from(v as i16));
                let samples = chunk
                    .chunks_exact(2 * channels)
                    .map(|f| (f.chunks_exact(2).map(sample).sum::<i32>() / channels as i32) as i16)
                    .collect();
                return Ok(Sound { rate, samples });
            }
            _ => {}
        }
        // Chunks are padded to even lengths.
        rest = body.get(body_end + (body_end & 1)..).unwrap_or(&[]);
    }
    Err("no audio in it")
}

/// Rate and channels.
fn parse(chunk: &[u8]) -> Option<(u32, usize)> {
    let tag = match u16_at(chunk, 0)? {
        EXTENSIBLE => u16_at(chunk, 24)?,
        tag => tag,
    };
    let (channels, rate, bits) = (u16_at(chunk, 2)?, u32_at(chunk, 4)?, u16_at(chunk, 14)?);
    (tag == PCM && bits == 16 && (1..=2).contains(&channels)).then_some((rate, channels.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut all = name.to_vec();
        all.extend((body.len() as u32).to_le_bytes());
        all.extend(body);
        all.extend(vec![0; body.len() & 1]);
        all
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        let mut body = b"WAVE".to_vec();
        chunks.iter().for_each(|c| body.extend(c));
        chunk(b"RIFF", &body)
    }

    fn format(tag: u16, channels: u16, bits: u16) -> Vec<u8> {
        let mut body = [tag.to_le_bytes(), channels.to_le_bytes()].concat();
        body.extend(11_025u32.to_le_bytes());
        body.extend([0; 6]);
        body.extend(bits.to_le_bytes());
        chunk(b"fmt ", &body)
    }

    #[test]
    fn mono_and_stereo_are_read_past_other_chunks() {
        let data = chunk(b"data", &[1, 0, 3, 0, 0, 0x80, 2, 0x80, 9]);
        let odd = chunk(b"LIST", &[1, 2, 3]);
        let mono = read(&file(&[format(1, 1, 16), odd.clone(), data.clone()]));
        assert_eq!(mono, Ok(Sound { rate: 11_025, samples: vec![1, 3, -32_768, -32_766] }));
        let stereo = read(&file(&[odd, format(1, 2, 16), data]));
        assert_eq!(stereo, Ok(Sound { rate: 11_025, samples: vec![2, -32_767] }));
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_nothing_panics() {
        let data = chunk(b"data", &[0; 8]);
        for (tag, channels, bits) in [(3, 1, 32), (1, 1, 8), (1, 6, 16), (1, 0, 16), (7, 1, 8)] {
            let read = read(&file(&[format(tag, channels, bits), data.clone()]));
            assert_eq!(read, Err("not 16-bit PCM of one or two channels"));
        }
        assert_eq!(read(&file(std::slice::from_ref(&data))), Err("audio before its format"));
        let whole = file(&[format(1, 1, 16), data]);
        for end in 0..whole.len() {
            let _ = read(&whole[..end]);
        }
    }
}
