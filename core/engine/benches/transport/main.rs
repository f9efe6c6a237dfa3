// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs of the transport benchmark; `tools/bench/transport.py` runs and measures them.
//!
//! - `core`: the measured side, the engine without Python: answers every call and speaks to it.
//! - `generate`: the other side, a user agent client that sends and counts RTP of many calls.
//! - `setup`: the same, which places calls one after the other as fast as they are answered.
//! - `handover`: times the way of a datagram into its call's jitter buffer.

mod core;
mod generate;
mod handover;
mod setup;
mod sip;

use std::collections::HashMap;

/// Whatever goes wrong ends the program.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// `--name value` pairs.
pub struct Options(HashMap<String, String>);

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Outcome<Options> {
        let mut map = HashMap::new();
        let mut words = words;
        while let Some(word) = words.next() {
            // Cargo's own argument.
            if word == "--bench" {
                continue;
            }
            let name = word.strip_prefix("--").ok_or_else(|| format!("unexpected {word}"))?;
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            map.insert(name.to_owned(), value);
        }
        Ok(Options(map))
    }

    /// A value as text.
    pub fn text(&self, name: &str) -> Outcome<&str> {
        Ok(self.0.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing"))?)
    }

    /// A number, `default` when it is not given.
    pub fn number(&self, name: &str, default: usize) -> Outcome<usize> {
        Ok(self.0.get(name).map_or(Ok(default), |v| v.parse())?)
    }
}

/// 16-bit little-endian samples of a file.
pub fn pcm(path: &str) -> Outcome<Vec<i16>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect())
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::thread::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let mode = words.next().unwrap_or_default();
    let options = Options::parse(words)?;
    match mode.as_str() {
        "core" => core::run(&options),
        "generate" => generate::run(&options),
        "setup" => setup::run(&options),
        "handover" => handover::run(&options),
        _ => Err("run it with: just bench transport".into()),
    }
}
