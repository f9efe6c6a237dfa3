// SPDX-License-Identifier: GPL-3.0-or-later
//! Speech probabilities of raw audio, for comparison with the stock model.
//!
//! `vad_file RATE [BACKEND] < samples > probabilities`: both raw little-endian f32, RATE 8000 or
//! 16000; one probability for each whole window.

use std::io::{Read, Write};
use std::process::ExitCode;

use voicecore_engine::signal::vad::{Backend, Bank, Rate};

fn main() -> ExitCode {
    match probabilities() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("vad_file: {why}");
            ExitCode::FAILURE
        }
    }
}

fn probabilities() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rate = match args.next().as_deref() {
        Some("8000") => Rate::R8k,
        Some("16000") => Rate::R16k,
        _ => return Err("usage: vad_file 8000|16000 [BACKEND] < samples > probabilities".into()),
    };
    let wanted = args.next();
    let backend = Backend::available()
        .find(|backend| wanted.as_ref().is_none_or(|name| name == backend.name()))
        .ok_or("no such backend on this processor")?;

    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let value = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let samples: Vec<f32> = bytes.chunks_exact(4).map(value).collect();

    let mut bank = Bank::with_backend(rate, 1, backend);
    let slot = bank.open().ok_or("no slot")?;
    let mut result = Vec::with_capacity(1);
    let mut out = Vec::new();
    for window in samples.chunks_exact(rate.window()) {
        bank.push(slot, window);
        bank.run(&mut result);
        out.extend(result.iter().flat_map(|(_, p)| p.to_le_bytes()));
    }
    std::io::stdout().write_all(&out)?;
    Ok(())
}
