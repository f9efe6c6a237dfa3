// SPDX-License-Identifier: GPL-3.0-or-later
//! Recorded calls through the very signal code of the tick, side by side in one bank, for
//! comparison with the Python path (core/reference/parity.py).
//!
//! `parity [BACKEND [LIBRARY]] < calls > outcomes`. Little-endian throughout. With the path of a
//! libonnxruntime voice activity is the stock model's.
//!
//! A call: u32 rate; u32 codec (0 PCMA, 1 PCMU, 2 linear 16 bit); u32 length of the payload; u32 gain
//! on, f64 its target in dBov, f64 greatest gain in dB; u32 frames of the agent. If there are any: f64
//! voice, background and ducking in dB; u32 the frame before which the background is stopped; u32
//! samples of its loop, 0 for comfort noise, all ones for none. Then the payload, the agent's samples
//! (i16), a byte for each of its frames, not 0 where it talks, and the loop (i16).
//!
//! An outcome, in the order of the calls: u32 counts of samples as voice activity heard them (i16), of
//! probabilities (f32), of events (three u64: frame, 1 for a start, sample), of audio handed over
//! (three u64: frame, sample, length), of samples sent (i16), u32 samples clamped of those; then these.

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use voicecore_engine::media::g711::{self, Law};
use voicecore_engine::media::{Rate, VadConfig, MAX_FRAME};
use voicecore_engine::signal::background::{Background, Loop};
use voicecore_engine::signal::gain::GainConfig;
use voicecore_engine::signal::listener::Listener;
use voicecore_engine::signal::mixer::{Mixer, MixerConfig};
use voicecore_engine::signal::speech::Decision;
use voicecore_engine::signal::vad::stock::Stock;
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
    listener: Listener,
    agent: Option<Agent>,
    slot: Slot,
    frame: usize,
    ended_now: bool,
    heard: u64,
    gained: Vec<i16>,
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
        let at_ns = self.frame as u64 * TICK_NS;
        self.frame += 1;
        self.ended_now = false;
        Some(self.listener.hear(samples, at_ns))
    }

    fn decide(&mut self, probability: f32) {
        self.probabilities.push(probability);
        let frame = self.frame as u64 - 1;
        match self.listener.decide(probability) {
            Some(Decision::Started(at)) => self.events.push([frame, 1, at]),
            Some(Decision::Ended(at)) => {
                self.events.push([frame, 0, at]);
                self.ended_now = true;
            }
            None => {}
        }
    }

    fn deliver(&mut self) {
        let (a, b) = self.listener.ear().pieces(self.heard, self.rate.frame());
        self.gained.extend(a.iter().chain(b));
        self.heard += self.rate.frame() as u64;
        if let Some((_, from, len)) = self.listener.audio(self.ended_now) {
            let (a, b) = self.listener.ear().pieces(from, len);
            let said = self.gained.get(from as usize..from as usize + len).unwrap_or(&[]);
            assert!(a.iter().chain(b).eq(said), "audio handed over is not what was heard");
            self.chunks.push([self.frame as u64 - 1, from, len as u64]);
        }
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let (sent, overs) = self.agent.as_ref().map_or((Vec::new(), 0), |a| a.send(self.rate));
        let lists = [self.gained.len(), self.probabilities.len(), self.events.len()];
        let counts = lists.into_iter().chain([self.chunks.len(), sent.len(), overs as usize]);
        let mut bytes: Vec<u8> = counts.flat_map(|n| (n as u32).to_le_bytes()).collect();
        bytes.extend(self.gained.iter().flat_map(|s| s.to_le_bytes()));
        bytes.extend(self.probabilities.iter().flat_map(|p| p.to_le_bytes()));
        let rows = self.events.iter().chain(&self.chunks).flatten();
        bytes.extend(rows.flat_map(|n| n.to_le_bytes()));
        bytes.extend(sent.iter().flat_map(|s| s.to_le_bytes()));
        out.write_all(&bytes)
    }
}

/// The agent's side.
struct Agent {
    voice: Vec<i16>,
    talking: Vec<u8>,
    mixing: MixerConfig,
    background: Option<Arc<Loop>>,
    stopped: usize,
}

impl Agent {
    fn send(&self, rate: Rate) -> (Vec<i16>, u64) {
        let mut mixer = Mixer::new(self.mixing);
        mixer.set(self.background.clone().map(|sound| (sound, 0)));
        let mut sent = self.voice.clone();
        let frames = sent.chunks_exact_mut(rate.frame());
        for (k, (frame, talking)) in frames.zip(&self.talking).enumerate() {
            if k == self.stopped {
                mixer.set(None);
            }
            mixer.mix(frame, *talking != 0);
        }
        (sent, mixer.overs())
    }
}

/// Where each rate has its bank.
fn of(rate: Rate) -> usize {
    usize::from(rate == Rate::R16k)
}

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

    fn real(&mut self) -> Result<f64, Box<dyn Error>> {
        Ok(f64::from_le_bytes(self.bytes(8)?.try_into()?))
    }

    fn samples(&mut self, count: usize) -> Result<Vec<i16>, Box<dyn Error>> {
        let pairs = self.bytes(2 * count)?.chunks_exact(2);
        Ok(pairs.map(|b| i16::from_le_bytes([b[0], b[1]])).collect())
    }
}

fn read(bytes: &[u8], banks: &mut [Bank; 2]) -> Result<Vec<Call>, Box<dyn Error>> {
    let mut input = Input(bytes);
    let mut calls = Vec::new();
    while !input.0.is_empty() {
        calls.push(call(&mut input, banks)?);
    }
    Ok(calls)
}

fn call(input: &mut Input, banks: &mut [Bank; 2]) -> Result<Call, Box<dyn Error>> {
    let rate = Rate::of_hz(input.number()?).ok_or("no such rate")?;
    let codec = match input.number()? {
        0 => Codec::G711(Law::A),
        1 => Codec::G711(Law::Mu),
        2 => Codec::Linear,
        _ => return Err("no such codec".into()),
    };
    let length = input.number()? as usize;
    let enabled = input.number()? != 0;
    let gain = GainConfig { enabled, target_dbov: input.real()?, max_db: input.real()? };
    let frames = input.number()? as usize;
    let mut agent = None;
    let mut looped = 0;
    if frames > 0 {
        let (voice_db, background_db, duck_db) = (input.real()?, input.real()?, input.real()?);
        let mixing = MixerConfig { voice_db, background_db, duck_db };
        let (stopped, kind) = (input.number()? as usize, input.number()?);
        let background = match kind {
            0 => Background::noise().map(|sound| sound.of(rate)),
            _ => None,
        };
        looped = if kind == u32::MAX { 0 } else { kind as usize };
        agent = Some(Agent { voice: vec![], talking: vec![], mixing, background, stopped });
    }
    let payload = input.bytes(length)?.to_vec();
    if let Some(agent) = &mut agent {
        agent.voice = input.samples(frames * rate.frame())?;
        agent.talking = input.bytes(frames)?.to_vec();
        if looped > 0 {
            agent.background = Loop::new(input.samples(looped)?).map(Arc::new);
        }
    }
    let mut listener = Listener::new(gain, VadConfig::default(), PREROLL_MS, true);
    listener.set_rate(rate);
    Ok(Call {
        rate,
        codec,
        payload,
        listener,
        agent,
        slot: banks[of(rate)].open().ok_or("too many calls")?,
        frame: 0,
        ended_now: false,
        heard: 0,
        gained: Vec::new(),
        probabilities: Vec::new(),
        events: Vec::new(),
        chunks: Vec::new(),
    })
}

fn run() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1);
    let library = std::env::args().nth(2);
    let backend = Backend::available()
        .find(|backend| wanted.as_ref().is_none_or(|name| name == backend.name()))
        .or(library.as_ref().and(Some(Backend::Scalar)))
        .ok_or("no such backend on this processor")?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let mut banks =
        [Rate::R8k, Rate::R16k].map(|rate| Bank::with_backend(rate, MOST_CALLS, backend));
    if let Some(library) = library {
        for bank in &mut banks {
            bank.use_stock(Stock::load(Path::new(&library), bank.rate())?);
        }
    }
    eprintln!("{}", banks[0].backend());
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
