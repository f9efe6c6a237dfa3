// SPDX-License-Identifier: GPL-3.0-or-later
//! The network's forward pass over one tile of calls.
//!
//! Activations are `[row][call]`. Everything here is generic over the tile and inlined into one
//! function for each instruction set (`simd`), which is what gives the plain loops their vectors.

use super::activation::{relu, sigmoid, tanh};
use super::buffer::AlignedBuffer;
use super::network::{Network, Panels, CHANNELS, FRAMES, TAPS, UNITS};
pub use super::simd::product::{CallsInLanes, Product, RowsInLanes};
use super::states::States;

/// The forward pass as compiled for one instruction set and one number of calls.
pub struct Tile {
    /// Calls it has room for.
    pub calls: usize,
    /// Time of one pass as measured by `benches/vad.rs`, in µs per 20 ms of audio at 8 kHz; only
    /// the proportions between tiles matter.
    pub cost: u32,
    /// Runs the pass. Only for a processor that has the tile's instruction set.
    pub run: unsafe fn(Job<'_>),
}

/// One pass: which calls, over which memory.
pub struct Job<'a> {
    /// Weights.
    pub network: &'a Network,
    /// Records of all calls.
    pub states: &'a mut States,
    /// Activations; the results are in [`Workspace::probability`].
    pub work: &'a mut Workspace,
    /// Records to run, at most as many as the tile has room for.
    pub calls: &'a [usize],
}

/// Activations of a tile, each `[row][call]`.
pub struct Workspace {
    samples: AlignedBuffer,
    folded: AlignedBuffer,
    spectrum: AlignedBuffer,
    magnitude: AlignedBuffer,
    conv: [AlignedBuffer; 3],
    lstm_input: AlignedBuffer,
    gates: AlignedBuffer,
    cell: AlignedBuffer,
    /// Speech probability of each call of the last pass.
    pub probability: AlignedBuffer,
}

impl Workspace {
    /// Room for tiles of up to `calls` calls.
    pub fn new(network: &Network, calls: usize) -> Workspace {
        let rows = |rows: usize| AlignedBuffer::zeros(rows * calls);
        let spectrum = network.stft_even.rows() + network.stft_odd.rows();
        Workspace {
            samples: rows(network.input + network.fft / 4),
            folded: rows(network.fft - 1),
            spectrum: rows(spectrum),
            magnitude: rows(FRAMES * network.bins()),
            conv: [rows(4 * CHANNELS[0]), rows(2 * CHANNELS[1]), rows(CHANNELS[2])],
            lstm_input: rows(2 * UNITS),
            gates: rows(4 * UNITS),
            cell: rows(UNITS),
            probability: rows(1),
        }
    }
}

/// Runs one window of each of the job's calls and moves their states on.
#[inline(always)]
pub fn run<P: Product>(tile: P, job: Job<'_>) {
    let Job { network, states, work, calls } = job;
    assert!(calls.len() <= P::CALLS);
    let n = P::CALLS;
    interleave(states, calls, States::input, &mut work.samples, n);
    interleave(states, calls, States::hidden, &mut work.lstm_input[UNITS * n..], n);
    interleave(states, calls, States::cell, &mut work.cell, n);
    magnitudes(tile, network, work);
    let [conv0, conv1, conv2] = &mut work.conv;
    let [first, second, third, fourth] = &network.conv;
    convolve(tile, first, FRAMES, 1, &work.magnitude, conv0);
    convolve(tile, second, 4, 2, conv0, conv1);
    convolve(tile, third, 2, 2, conv1, conv2);
    convolve(tile, fourth, 1, 1, conv2, &mut work.lstm_input[..UNITS * n]);
    lstm(tile, network, work);
    output(tile, network, work);
    deinterleave(states, calls, &work.lstm_input[UNITS * n..], States::hidden_mut, n);
    deinterleave(states, calls, &work.cell, States::cell_mut, n);
    for &call in calls {
        states.advance(call);
    }
}

/// Rows that [`interleave`] and [`deinterleave`] move at a time: a cache line of a call's record.
const STRIP: usize = 16;

/// Lays the calls' records side by side: that part of each, to `to[row][call]`.
#[inline(always)]
fn interleave(
    states: &States,
    calls: &[usize],
    part: impl Fn(&States, usize) -> &[f32],
    to: &mut [f32],
    n: usize,
) {
    for (strip, to) in to.chunks_exact_mut(STRIP * n).enumerate() {
        for (lane, &call) in calls.iter().enumerate().take(n) {
            let Some(from) = part(states, call).chunks_exact(STRIP).nth(strip) else { return };
            for (row, value) in from.iter().enumerate() {
                to[row * n + lane] = *value;
            }
        }
    }
}

/// The way back: `from[row][call]` to that part of each record.
#[inline(always)]
fn deinterleave(
    states: &mut States,
    calls: &[usize],
    from: &[f32],
    part: impl Fn(&mut States, usize) -> &mut [f32],
    n: usize,
) {
    for (strip, from) in from.chunks_exact(STRIP * n).enumerate() {
        for (lane, &call) in calls.iter().enumerate().take(n) {
            let Some(to) = part(states, call).chunks_exact_mut(STRIP).nth(strip) else { return };
            for (row, value) in to.iter_mut().enumerate() {
                *value = from[row * n + lane];
            }
        }
    }
}

/// Magnitudes of the short-time Fourier transform: `samples` to `magnitude[frame][bin]`.
///
/// Frames are folded on their middle first: sums of the mirrored samples go with the cosines,
/// differences with the sines, which halves the products.
#[inline(always)]
fn magnitudes<P: Product>(tile: P, network: &Network, work: &mut Workspace) {
    let n = P::CALLS;
    let (fft, hop, bins) = (network.fft, network.fft / 2, network.bins());
    // Reflected at the end, without repeating the last sample.
    for i in 0..fft / 4 {
        let from = (network.input - 2 - i) * n;
        work.samples.copy_within(from..from + n, (network.input + i) * n);
    }
    let (sums, differences) = work.folded.split_at_mut(hop * n);
    let (even, odd) = work.spectrum.split_at_mut(network.stft_even.rows() * n);
    for (t, magnitude) in work.magnitude.chunks_exact_mut(bins * n).take(FRAMES).enumerate() {
        let frame = &work.samples[t * hop * n..][..fft * n];
        for j in 1..hop {
            let (left, right) = (&frame[j * n..][..n], &frame[(fft - j) * n..][..n]);
            let sum = &mut sums[(j - 1) * n..][..n];
            let difference = &mut differences[(j - 1) * n..][..n];
            for c in 0..n {
                sum[c] = left[c] + right[c];
                difference[c] = left[c] - right[c];
            }
        }
        sums[(hop - 1) * n..][..n].copy_from_slice(&frame[hop * n..][..n]);
        tile.product(&network.stft_even, 0..hop, sums, even, false);
        tile.product(&network.stft_odd, 0..hop - 1, differences, odd, false);
        // The first and the last bin have no sine half.
        let inner = n..(bins - 1) * n;
        for c in 0..n {
            magnitude[c] = even[c].abs();
            magnitude[inner.end + c] = even[inner.end + c].abs();
        }
        let pairs = even[inner.clone()].iter().zip(&odd[..]);
        for (magnitude, (re, im)) in magnitude[inner].iter_mut().zip(pairs) {
            *magnitude = (re * re + im * im).sqrt();
        }
    }
}

/// Convolution over time with ReLU, [`TAPS`] taps, padded with one frame of zeros on each side:
/// `x[frame][channel]` to `out[frame][channel]`. Taps that meet the padding are left out.
#[inline(always)]
fn convolve<P: Product>(
    tile: P,
    conv: &Panels,
    frames: usize,
    stride: usize,
    x: &[f32],
    out: &mut [f32],
) {
    let channels = conv.cols() / TAPS;
    let frames_out = (frames - 1) / stride + 1;
    for (t, out) in out.chunks_exact_mut(conv.rows() * P::CALLS).take(frames_out).enumerate() {
        let centre = t * stride;
        let first_tap = 1usize.saturating_sub(centre);
        let last_tap = (frames - centre).min(TAPS - 1);
        let x = &x[(centre + first_tap - 1) * channels * P::CALLS..];
        tile.product(conv, first_tap * channels..(last_tap + 1) * channels, x, out, true);
    }
}

/// One step of the LSTM: `lstm_input` and `cell` to the hidden half of `lstm_input` and `cell`.
#[inline(always)]
fn lstm<P: Product>(tile: P, network: &Network, work: &mut Workspace) {
    let size = UNITS * P::CALLS;
    tile.product(&network.lstm, 0..2 * UNITS, &work.lstm_input, &mut work.gates, false);
    let (input_gate, rest) = work.gates.split_at(size);
    let (forget_gate, rest) = rest.split_at(size);
    let (candidate, output_gate) = rest.split_at(size);
    let output_gate = &output_gate[..size];
    let cell = &mut work.cell[..size];
    let hidden = &mut work.lstm_input[size..2 * size];
    for i in 0..size {
        let kept = sigmoid(forget_gate[i]) * cell[i];
        cell[i] = kept + sigmoid(input_gate[i]) * tanh(candidate[i]);
        hidden[i] = sigmoid(output_gate[i]) * tanh(cell[i]);
    }
}

/// The output unit: hidden state to `probability`.
#[inline(always)]
fn output<P: Product>(_tile: P, network: &Network, work: &mut Workspace) {
    let n = P::CALLS;
    let probability = &mut work.probability[..n];
    probability.fill(network.dense_bias);
    let hidden = &work.lstm_input[UNITS * n..];
    for (weight, hidden) in network.dense.iter().zip(hidden.chunks_exact(n)) {
        for (sum, hidden) in probability.iter_mut().zip(hidden) {
            *sum = relu(*hidden).mul_add(*weight, *sum);
        }
    }
    for p in probability {
        *p = sigmoid(*p);
    }
}
