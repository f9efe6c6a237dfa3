// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls from a recording, for the benchmarks.

use std::os::fd::AsRawFd;
use std::sync::Mutex;

use pyo3::prelude::*;
use voicecore_engine::events::Batch;
use voicecore_engine::media::{recorded, GainConfig, MediaConfig};
use voicecore_engine::{EngineEvent, EventBatch};

use crate::engine::{to_python, Lists};

/// A media thread over recorded calls, drained as an engine is.
#[pyclass(frozen, module = "voicecore._core")]
pub struct Recorded {
    inner: recorded::Recorded,
    batches: Mutex<(Batch, EventBatch)>,
}

#[pymethods]
impl Recorded {
    #[new]
    #[pyo3(signature = (calls, pcm, ticks, *, gain=false))]
    fn new(py: Python<'_>, calls: usize, pcm: &[u8], ticks: u64, gain: bool) -> PyResult<Self> {
        let pcm: Vec<i16> = pcm.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
        let gain = GainConfig { enabled: gain, ..GainConfig::default() };
        let cfg = MediaConfig { max_calls: calls, gain, ..MediaConfig::default() };
        let inner = py.detach(|| recorded::Recorded::new(calls, &pcm, ticks, &cfg))?;
        Ok(Recorded { inner, batches: Mutex::default() })
    }

    fn start(&self) {
        self.inner.start();
    }

    fn event_fd(&self) -> i32 {
        self.inner.event_fd().as_raw_fd()
    }

    fn running(&self) -> bool {
        self.inner.running()
    }

    /// Thread time of receiving, decoding and gain, voice activity, hand-over, and of fetching without the interpreter's
    /// lock, so far, ns.
    fn spent(&self) -> [u64; 5] {
        self.inner.spent()
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Lists<'py>> {
        let mut kept = self.batches.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (media, batch) = &mut *kept;
        py.detach(|| self.inner.drain(media));
        batch.events.clear();
        batch.events.extend(media.events.drain(..).map(EngineEvent::Media));
        std::mem::swap(&mut batch.audio, &mut media.audio);
        to_python(py, batch)
    }
}
