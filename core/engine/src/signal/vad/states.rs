// SPDX-License-Identifier: GPL-3.0-or-later
//! What is kept of each call between windows.

use super::buffer::AlignedBuffer;
use super::network::UNITS;

/// For each call one record, `[input | hidden | cell]`: the samples of context and window, and
/// the LSTM's two states of [`UNITS`] values. A call's record is by itself, so that the call can
/// run in any tile, beside any other.
pub struct States {
    records: AlignedBuffer,
    input: usize,
    context: usize,
}

impl States {
    /// Fresh states for `capacity` calls whose network sees `context` samples before the window
    /// and `input` samples altogether.
    pub fn new(capacity: usize, context: usize, input: usize) -> States {
        let records = AlignedBuffer::zeros(capacity * (input + 2 * UNITS));
        States { records, input, context }
    }

    fn record(&self, call: usize) -> &[f32] {
        let size = self.input + 2 * UNITS;
        &self.records[call * size..][..size]
    }

    fn record_mut(&mut self, call: usize) -> &mut [f32] {
        let size = self.input + 2 * UNITS;
        &mut self.records[call * size..][..size]
    }

    /// Samples of context and window.
    pub fn input(&self, call: usize) -> &[f32] {
        &self.record(call)[..self.input]
    }

    /// Hidden state of the LSTM.
    pub fn hidden(&self, call: usize) -> &[f32] {
        &self.record(call)[self.input..][..UNITS]
    }

    /// Cell state of the LSTM.
    pub fn cell(&self, call: usize) -> &[f32] {
        &self.record(call)[self.input + UNITS..]
    }

    /// Hidden state, to be written.
    pub fn hidden_mut(&mut self, call: usize) -> &mut [f32] {
        let input = self.input;
        &mut self.record_mut(call)[input..][..UNITS]
    }

    /// Cell state, to be written.
    pub fn cell_mut(&mut self, call: usize) -> &mut [f32] {
        let input = self.input;
        &mut self.record_mut(call)[input + UNITS..]
    }

    /// Forgets everything that was heard.
    pub fn reset(&mut self, call: usize) {
        self.record_mut(call).fill(0.0);
    }

    /// Puts the next window behind the context.
    ///
    /// # Panics
    /// When `window` has another length than the network's.
    pub fn set_window(&mut self, call: usize, window: &[f32]) {
        let (context, input) = (self.context, self.input);
        self.record_mut(call)[context..input].copy_from_slice(window);
    }

    /// Makes the end of the window the context of the next one.
    pub fn advance(&mut self, call: usize) {
        let (context, input) = (self.context, self.input);
        self.record_mut(call).copy_within(input - context..input, 0);
    }
}
