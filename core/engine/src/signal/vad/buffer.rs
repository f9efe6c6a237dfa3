// SPDX-License-Identifier: GPL-3.0-or-later
//! Buffers on a cache-line boundary: a 64-byte load that straddles two lines costs twice.

use std::ops::{Deref, DerefMut};

const LINE: usize = 64;

/// Fixed-length f32 buffer whose first element starts a cache line.
pub struct AlignedBuffer {
    memory: Vec<f32>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> AlignedBuffer {
        let memory = vec![0.0f32; len + LINE / size_of::<f32>()];
        // align_offset may decline to answer; then the buffer is merely slower.
        let start = memory.as_ptr().align_offset(LINE).min(LINE / size_of::<f32>());
        AlignedBuffer { memory, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
