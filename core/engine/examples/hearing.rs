// SPDX-License-Identifier: GPL-3.0-or-later
//! Callers heard by the signal code of the tick with an agent that talks: what the tests in
//! tests/reference run on recorded speech.
//!
//! `hearing < calls > outcomes`, little-endian throughout. A call: u32 rate, u32 line-echo guard
//! (0 or 1), u32 noise suppression (0 or 1), u32 frames; then the caller's samples and those that are
//! sent (i16, as many). An outcome: u32 events, u32 samples; then the events (three u64: frame, 1
//! for a start, sample) and the samples as voice activity heard them (i16).

use std::error::Error;
use std::io::{Read, Write};

use voicecore_engine::media::{ListenChange, Rate, VadConfig};
use voicecore_engine::signal::gain::GainConfig;
use voicecore_engine::signal::listener::{Listener, Refit};
use voicecore_engine::signal::speech::Decision;
use voicecore_engine::signal::vad::Bank;

/// What is left of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Box<dyn Error>> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("the input is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Box<dyn Error>> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into()?))
    }

    fn samples(&mut self, count: usize) -> Result<Vec<i16>, Box<dyn Error>> {
        let pairs = self.bytes(2 * count)?.chunks_exact(2);
        Ok(pairs.map(|b| i16::from_le_bytes([b[0], b[1]])).collect())
    }
}

fn call(input: &mut Input, banks: &mut [Bank; 2]) -> Result<Vec<u8>, Box<dyn Error>> {
    let rate = Rate::of_hz(input.number()?).ok_or("no such rate")?;
    let (guard, denoise) = (input.number()? != 0, input.number()? != 0);
    let frames = input.number()? as usize;
    let caller = input.samples(frames * rate.frame())?;
    let sent = input.samples(frames * rate.frame())?;
    let bank = &mut banks[usize::from(rate == Rate::R16k)];
    let slot = bank.open().ok_or("no slot")?;
    let mut listener = Listener::new(GainConfig::default(), VadConfig::default(), 300, true);
    listener.set_rate(rate);
    let change = ListenChange {
        echo_guard: Some(guard),
        noise_suppression: Some(denoise),
        ..Default::default()
    };
    listener.change(&mut Refit::new(change));
    let (mut events, mut out) = (Vec::new(), Vec::new());
    let mut heard: Vec<i16> = Vec::new();
    let frames = caller.chunks_exact(rate.frame()).zip(sent.chunks_exact(rate.frame()));
    for (k, (frame, sent)) in frames.enumerate() {
        listener.said(sent, frame);
        if let Some(window) = listener.hear(frame, k as u64 * 20_000_000) {
            bank.push(slot, window);
            bank.run(&mut out);
            for (_, probability) in &out {
                match listener.decide(*probability) {
                    Some(Decision::Started(at)) => events.push([k as u64, 1, at]),
                    Some(Decision::Ended(at)) => events.push([k as u64, 0, at]),
                    None => {}
                }
            }
        }
        let (a, b) = listener.ear().pieces((k * rate.frame()) as u64, rate.frame());
        heard.extend(a.iter().chain(b));
    }
    bank.close(slot);
    let counts = [events.len() as u32, heard.len() as u32];
    let mut bytes: Vec<u8> = counts.iter().flat_map(|n| n.to_le_bytes()).collect();
    bytes.extend(events.iter().flatten().flat_map(|n| n.to_le_bytes()));
    bytes.extend(heard.iter().flat_map(|s| s.to_le_bytes()));
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let mut input = Input(&bytes);
    let mut banks = [Rate::R8k, Rate::R16k].map(|rate| Bank::new(rate, 1));
    let mut out = std::io::stdout().lock();
    while !input.0.is_empty() {
        out.write_all(&call(&mut input, &mut banks)?)?;
    }
    Ok(())
}
