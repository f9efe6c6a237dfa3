// SPDX-License-Identifier: GPL-3.0-or-later
//! Weights of the network, arranged for the kernel.
//!
//! Source: Silero VAD v5/v6 (Silero Team, MIT licence), `silero_vad.onnx`, read at build time by
//! `vad_weights.rs`. For one window the network is: short-time Fourier transform of four frames,
//! magnitudes, four convolutions with ReLU, one LSTM cell, one output unit.

use super::buffer::AlignedBuffer;
use super::Rate;

/// Rows in a panel: the unit in which a matrix is stored, see [`Panels`].
pub const PANEL: usize = 8;
/// Channels out of the four convolutions.
pub const CHANNELS: [usize; 4] = [128, 64, 64, 128];
/// Units of the LSTM: elements of its hidden and of its cell state.
pub const UNITS: usize = 128;
/// STFT frames in a window.
pub const FRAMES: usize = 4;
/// Taps of the convolutions.
pub const TAPS: usize = 3;

static WEIGHTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/silero_vad.f32"));

/// A matrix stored as panels of [`PANEL`] rows, column by column inside a panel, with a bias for
/// each row. The last panel is filled up with rows of zeros.
pub struct Panels {
    data: AlignedBuffer,
    bias: Vec<f32>,
    cols: usize,
}

impl Panels {
    fn new(rows: usize, cols: usize, element: impl Fn(usize, usize) -> f32) -> Panels {
        let padded = rows.next_multiple_of(PANEL);
        let mut data = AlignedBuffer::zeros(padded * cols);
        for row in 0..rows {
            for col in 0..cols {
                data[(row / PANEL * cols + col) * PANEL + row % PANEL] = element(row, col);
            }
        }
        Panels { data, bias: vec![0.0; padded], cols }
    }

    fn with_bias(mut self, bias: &[f32]) -> Panels {
        self.bias[..bias.len()].copy_from_slice(bias);
        self
    }

    /// Rows, a multiple of [`PANEL`].
    pub fn rows(&self) -> usize {
        self.bias.len()
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One value for each row.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// Rows `index * PANEL..` as `[cols][PANEL]`.
    pub fn panel(&self, index: usize) -> &[f32] {
        &self.data[index * self.cols * PANEL..][..self.cols * PANEL]
    }
}

/// The network of one sample rate.
pub struct Network {
    /// Length of an STFT frame; frames are half of it apart.
    pub fft: usize,
    /// Samples that the network sees before the window: the end of the previous one.
    pub context: usize,
    /// Context and window.
    pub input: usize,
    /// Cosine half of the Fourier basis over folded frames: `[bins][fft / 2]`.
    pub stft_even: Panels,
    /// Sine half, without the first and last bin, which are zero: `[bins - 2][fft / 2 - 1]`.
    pub stft_odd: Panels,
    /// Convolutions as `[channels out][tap, channel in]`.
    pub conv: [Panels; 4],
    /// Gates i, f, g, o of the LSTM over its input and its hidden state: `[4 * UNITS][2 * UNITS]`.
    pub lstm: Panels,
    /// Weights of the output unit: `[UNITS]`.
    pub dense: Vec<f32>,
    /// Bias of the output unit.
    pub dense_bias: f32,
}

impl Network {
    /// The network for this rate.
    pub fn load(rate: Rate) -> Network {
        let (fft, offset) = match rate {
            Rate::R8k => (128, 0),
            Rate::R16k => (256, size(128)),
        };
        let mut reader = Reader(&WEIGHTS[offset * size_of::<f32>()..]);
        let bins = fft / 2 + 1;

        let basis = reader.take(2 * bins * fft);
        let mut channels_in = bins;
        let conv = CHANNELS.map(|channels_out| {
            let from = channels_in;
            channels_in = channels_out;
            let weight = reader.take(channels_out * from * TAPS);
            let bias = reader.take(channels_out);
            Panels::new(channels_out, TAPS * from, |row, col| {
                weight[(row * from + col % from) * TAPS + col / from]
            })
            .with_bias(&bias)
        });
        let weight_ih = reader.take(4 * UNITS * UNITS);
        let weight_hh = reader.take(4 * UNITS * UNITS);
        let bias_ih = reader.take(4 * UNITS);
        let bias_hh = reader.take(4 * UNITS);
        let bias: Vec<f32> = bias_ih.iter().zip(&bias_hh).map(|(a, b)| a + b).collect();
        let lstm = Panels::new(4 * UNITS, 2 * UNITS, |row, col| match col.checked_sub(UNITS) {
            None => weight_ih[row * UNITS + col],
            Some(col) => weight_hh[row * UNITS + col],
        })
        .with_bias(&bias);

        Network {
            fft,
            context: fft / 4,
            input: fft / 4 + rate.window(),
            // The window of the transform is symmetric and zero at sample 0, so sample n and
            // sample fft - n share a coefficient, up to the sign in the sine half.
            stft_even: Panels::new(bins, fft / 2, |bin, n| basis[bin * fft + n + 1]),
            stft_odd: Panels::new(bins - 2, fft / 2 - 1, |bin, n| {
                basis[(bins + bin + 1) * fft + n + 1]
            }),
            conv,
            lstm,
            dense: reader.take(UNITS),
            dense_bias: reader.take(1)[0],
        }
    }

    /// Frequency bins of the transform.
    pub fn bins(&self) -> usize {
        self.fft / 2 + 1
    }
}

/// Values in the weight file for the network with this STFT length.
const fn size(fft: usize) -> usize {
    let bins = fft / 2 + 1;
    let [c0, c1, c2, c3] = CHANNELS;
    let conv = (bins * c0 + c0 * c1 + c1 * c2 + c2 * c3) * TAPS + c0 + c1 + c2 + c3;
    2 * bins * fft + conv + 8 * UNITS * UNITS + 8 * UNITS + UNITS + 1
}

const _: () = assert!(WEIGHTS.len() == (size(128) + size(256)) * size_of::<f32>());

/// Takes tensors from the weight file in its order.
struct Reader(&'static [u8]);

impl Reader {
    fn take(&mut self, count: usize) -> Vec<f32> {
        let (taken, rest) = self.0.split_at(count * size_of::<f32>());
        self.0 = rest;
        let value = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        taken.chunks_exact(size_of::<f32>()).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folding the transform is right only for a basis with this symmetry.
    #[test]
    fn fourier_basis_is_symmetric() {
        for (fft, offset) in [(128, 0), (256, size(128))] {
            let bins = fft / 2 + 1;
            let basis = Reader(&WEIGHTS[offset * 4..]).take(2 * bins * fft);
            for (row, coefficients) in basis.chunks_exact(fft).enumerate() {
                let sign = if row < bins { 1.0 } else { -1.0 };
                assert_eq!(coefficients[0], 0.0);
                for n in 1..fft {
                    let error = (coefficients[n] - sign * coefficients[fft - n]).abs();
                    assert!(error < 1e-6, "fft {fft} row {row} sample {n}: {error}");
                }
                if row == bins || row == 2 * bins - 1 {
                    assert!(coefficients.iter().all(|c| c.abs() < 1e-6), "row {row} is not zero");
                }
            }
        }
    }

    #[test]
    fn panels_keep_every_element_and_pad_with_zeros() {
        let panels = Panels::new(10, 3, |row, col| (row * 10 + col) as f32).with_bias(&[1.0; 10]);
        assert_eq!((panels.rows(), panels.cols()), (16, 3));
        assert_eq!(&panels.bias()[8..], &[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(&panels.panel(0)[8..16], &[1.0, 11.0, 21.0, 31.0, 41.0, 51.0, 61.0, 71.0]);
        assert_eq!(&panels.panel(1)[16..24], &[82.0, 92.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
