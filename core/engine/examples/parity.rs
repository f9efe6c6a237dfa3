// SPDX-License-Identifier: GPL-3.0-or-later
//! Recorded calls through the very signal code of the tick, side by side in one bank, for
//! comparison with the Python path (core/reference/parity.py).
//!
//! `parity [BACKEND] < calls > outcomes`. Little-endian throughout. A call: u32 rate, u32 codec (0
//! PCMA, 1 PCMU, 2 linear 16 bit), u32 length, payload of so many bytes. An outcome, in the order of the calls: four u32
//! counts, then that many i16 samples as voice activity heard them, f32 probabilities, events of
//! three u64 (frame, 1 for a start, sample) and chunks of three (frame, sample, length).

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

use voicecore_engine::media::g711::{self, Law};
use voicecore_engine::media::{Rate, VadConfig, MAX_FRAME};
use voicecore_engine::signal::speech::{Decision, Ear};
use voicecore_engine::signal::vad::{Backend, Bank, Slot};

const TICK_NS: u64 = 20_000_000;
const PREROLL_MS: u32 = 300;

#[derive(Clone, Copy)]
enum Codec {
    G711(Law),
    Linear,
}

struct Call {
    rate: Rate,
    codec: Codec,
    payload: Vec<u8>,
    ear: Ear,
    slot: Slot,
    frame: usize,
    ended_now: bool,
    heard: Vec<i16>,
    probabilities: Vec<f32>,
    events: Vec<[u64; 3]>,
    chunks: Vec<[u64; 3]>,
}

impl Call {
    /// The next frame; gives its window when one is full. `None` at the end.
    fn hear(&mut self) -> Option<Option<&[f32]>> {
        let mut samples = [0i16; MAX_FRAME];
        let samples = samples.get_mut(..self.rate.frame())?;
        let bytes = match self.codec {
            Codec::G711(_) => samples.len(),
            Codec::Linear => 2 * samples.len(),
        };
        let payload = self.payload.get(self.frame * bytes..(self.frame + 1) * bytes)?;
        match self.codec {
            Codec::G711(law) => g711::decode(law, payload, samples),
            Codec::Linear => {
                for (s, b) in samples.iter_mut().zip(payload.chunks_exact(2)) {
                    *s = i16::from_le_bytes([b[0], b[1]]);
                }
            }
        }
        self.heard.extend_from_slice(samples);
        let at_ns = self.frame as u64 * TICK_NS;
        self.frame += 1;
        self.ended_now = false;
        Some(self.ear.hear(samples, at_ns))
    }

    fn decide(&mut self, probability: f32) {
        self.probabilities.push(probability);
        let frame = self.frame as u64 - 1;
        match self.ear.decide(probability) {
            Some(Decision::Started(at)) => self.events.push([frame, 1, at]),
            Some(Decision::Ended(at)) => {
                self.events.push([frame, 0, at]);
                self.ended_now = true;
            }
            None => {}
        }
    }

    fn deliver(&mut self) {
        if let Some((_, from, len)) = self.ear.audio(self.ended_now) {
            // The samples the application gets are those of the audio that was heard.
            let (a, b) = self.ear.pieces(from, len);
            let said = self.heard.get(from as usize..from as usize + len).unwrap_or(&[]);
            assert!(a.iter().chain(b).eq(said), "audio handed over is not what was heard");
            self.chunks.push([self.frame as u64 - 1, from, len as u64]);
        }
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let counts =
            [self.heard.len(), self.probabilities.len(), self.events.len(), self.chunks.len()];
        let mut bytes: Vec<u8> = counts.iter().flat_map(|n| (*n as u32).to_le_bytes()).collect();
        bytes.extend(self.heard.iter().flat_map(|s| s.to_le_bytes()));
        bytes.extend(self.probabilities.iter().flat_map(|p| p.to_le_bytes()));
        let rows = self.events.iter().chain(&self.chunks).flatten();
        bytes.extend(rows.flat_map(|n| n.to_le_bytes()));
        out.write_all(&bytes)
    }
}

/// Where each rate has its bank.
fn of(rate: Rate) -> usize {
    usize::from(rate == Rate::R16k)
}

fn read(mut bytes: &[u8], banks: &mut [Bank; 2]) -> Result<Vec<Call>, Box<dyn Error>> {
    let mut calls = Vec::new();
    while !bytes.is_empty() {
        let mut number = || {
            let (head, rest) = bytes.split_first_chunk::<4>()?;
            bytes = rest;
            Some(u32::from_le_bytes(*head))
        };
        let header = (number(), number(), number());
        let (Some(rate), Some(codec), Some(length)) = header else { return Err("cut off".into()) };
        let rate = Rate::of_hz(rate).ok_or("no such rate")?;
        let codec = match codec {
            0 => Codec::G711(Law::A),
            1 => Codec::G711(Law::Mu),
            2 => Codec::Linear,
            _ => return Err("no such codec".into()),
        };
        let (payload, rest) = bytes.split_at_checked(length as usize).ok_or("cut off")?;
        bytes = rest;
        let mut ear = Ear::new(VadConfig::default(), PREROLL_MS, true);
        ear.set_rate(rate);
        calls.push(Call {
            rate,
            codec,
            payload: payload.to_vec(),
            ear,
            slot: banks[of(rate)].open().ok_or("too many calls")?,
            frame: 0,
            ended_now: false,
            heard: Vec::new(),
            probabilities: Vec::new(),
            events: Vec::new(),
            chunks: Vec::new(),
        });
    }
    Ok(calls)
}

fn run() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1);
    let backend = Backend::available()
        .find(|backend| wanted.as_ref().is_none_or(|name| name == backend.name()))
        .ok_or("no such backend on this processor")?;
    eprintln!("{}", backend.name());
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let mut banks =
        [Rate::R8k, Rate::R16k].map(|rate| Bank::with_backend(rate, MOST_CALLS, backend));
    let mut calls = read(&bytes, &mut banks)?;
    let mut going: Vec<usize> = (0..calls.len()).collect();
    let mut staged: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    let mut probabilities = Vec::with_capacity(calls.len());
    // Every round is a tick of all calls that have not ended.
    while !going.is_empty() {
        going.retain(|index| {
            let Call { rate, slot, .. } = calls[*index];
            match calls[*index].hear() {
                None => return false,
                Some(None) => {}
                Some(Some(window)) => {
                    banks[of(rate)].push(slot, window);
                    staged[of(rate)].push(*index);
                }
            }
            true
        });
        for (bank, staged) in banks.iter_mut().zip(&mut staged) {
            bank.run(&mut probabilities);
            for (index, (_, probability)) in staged.drain(..).zip(&probabilities) {
                calls[index].decide(*probability);
            }
        }
        for index in &going {
            calls[*index].deliver();
        }
    }
    let mut out = std::io::stdout().lock();
    for call in &calls {
        call.write(&mut out)?;
    }
    Ok(())
}

const MOST_CALLS: usize = 64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("parity: {why}");
            ExitCode::FAILURE
        }
    }
}
