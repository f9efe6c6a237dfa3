// SPDX-License-Identifier: GPL-3.0-or-later
//! The signal path of the tick over a recording: what a call would have heard and decided, frame by
//! frame and by the same code. For comparison with the reference and for trying out settings.

use super::background::Loop;
use super::gain::GainConfig;
use super::listener::Listener;
use super::mixer::{Mixer, MixerConfig};
use super::speech::Decision;
use super::vad::Bank;
use crate::media::{Rate, VadConfig, TICK_NS};

/// What came of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processed {
    /// Audio behind the gain: whole frames.
    pub pcm: Vec<i16>,
    /// Speech probability of each whole window.
    pub probabilities: Vec<f32>,
    /// Each decision with the number of the frame that brought it.
    pub decisions: Vec<(usize, Decision)>,
    /// Gain after each frame, in dB.
    pub gain_db: Vec<f64>,
}

/// Hears `pcm` from fresh state; what does not fill a frame at its end is left out.
pub fn process(pcm: &[i16], rate: Rate, gain: GainConfig, vad: VadConfig) -> Processed {
    let mut listener = Listener::new(gain, vad, 0, true);
    listener.set_rate(rate);
    let mut bank = Bank::new(rate, 1);
    let slot = bank.open();
    let mut out = Processed::default();
    let (mut told, mut heard) = (Vec::with_capacity(1), 0u64);
    for (number, frame) in pcm.chunks_exact(rate.frame()).enumerate() {
        if let Some(window) = listener.hear(frame, number as u64 * TICK_NS) {
            if let Some(slot) = slot {
                bank.push(slot, window);
                bank.run(&mut told);
            }
            for (_, probability) in &told {
                out.probabilities.push(*probability);
                out.decisions.extend(listener.decide(*probability).map(|d| (number, d)));
            }
        }
        let (a, b) = listener.ear().pieces(heard, frame.len());
        out.pcm.extend_from_slice(a);
        out.pcm.extend_from_slice(b);
        heard += frame.len() as u64;
        out.gain_db.push(listener.gain().db());
    }
    out
}

/// Mixes `agent` over `background`, read from its first sample on; `talking` is one for each frame.
/// Gives what is sent, and how many samples had to be clamped.
pub fn mix(
    agent: &[i16],
    talking: &[bool],
    background: Option<Loop>,
    rate: Rate,
    cfg: MixerConfig,
) -> (Vec<i16>, u64) {
    let mut mixer = Mixer::new(cfg);
    if let Some(sound) = background {
        mixer.set(Some((std::sync::Arc::new(sound), 0)));
    }
    let mut out = agent.to_vec();
    for (frame, talking) in out.chunks_exact_mut(rate.frame()).zip(talking) {
        mixer.mix(frame, *talking);
    }
    (out, mixer.overs())
}
