// SPDX-License-Identifier: GPL-3.0-or-later
//! The voice activity kernel alone, for comparisons between processors.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use voicecore_engine::signal::vad::{Backend, Bank, Rate};

/// Samples between the beginnings of two calls.
const STEP: usize = 331;

/// What each instruction set of this processor makes of the same sound, the fastest first: its name, and the bits of
/// the probabilities of all calls, window by window. Each call hears `pcm` from another sample on.
#[pyfunction]
pub fn speech_probabilities(
    py: Python<'_>,
    pcm: &[u8],
    rate: u32,
    calls: usize,
) -> PyResult<Vec<(&'static str, Vec<u32>)>> {
    let rate = match rate {
        8000 => Rate::R8k,
        16_000 => Rate::R16k,
        _ => return Err(PyValueError::new_err("rate is 8000 or 16000")),
    };
    let sample = |b: &[u8]| f32::from(i16::from_le_bytes([b[0], b[1]])) / 32768.0;
    let samples: Vec<f32> = pcm.chunks_exact(2).map(sample).collect();
    let one = |backend: Backend| (backend.name(), bits(backend, rate, &samples, calls));
    Ok(py.detach(|| Backend::available().map(one).collect()))
}

fn bits(backend: Backend, rate: Rate, samples: &[f32], calls: usize) -> Vec<u32> {
    let mut bank = Bank::with_backend(rate, calls, backend);
    let slots: Vec<_> = (0..calls).map_while(|_| bank.open()).collect();
    let (mut out, mut found) = (Vec::with_capacity(calls), Vec::new());
    let rest = samples.get(calls * STEP..).unwrap_or(&[]);
    for window in 0..rest.len() / rate.window() {
        for (call, slot) in slots.iter().enumerate() {
            let from = window * rate.window() + call * STEP;
            bank.push(*slot, samples.get(from..from + rate.window()).unwrap_or(&[]));
        }
        bank.run(&mut out);
        found.extend(out.iter().map(|(_, p)| p.to_bits()));
    }
    found
}
