// SPDX-License-Identifier: GPL-3.0-or-later
//! Voice activity: the Silero network over many calls at once.
//!
//! A [`Bank`] keeps the recurrent state of every call and runs all windows that became complete in
//! one tick together, with the calls in the lanes of SIMD registers. It gives a speech probability
//! for each window; what counts as the start and the end of speech is decided elsewhere.
//!
//! A probability depends on nothing but what its own call has heard: it has the same bits beside
//! any other calls and on any instruction set.

mod activation;
mod buffer;
mod kernel;
mod network;
mod simd;
mod states;
pub mod stock;
#[cfg(test)]
mod tests;

use kernel::{Job, Tile, Workspace};
use network::Network;
pub use simd::Backend;
use states::States;
use stock::Stock;

/// Sample rate of the windows. The two rates have their own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// 8 kHz: windows of 256 samples.
    R8k,
    /// 16 kHz: windows of 512 samples.
    R16k,
}

impl Rate {
    /// Samples in one window (32 ms).
    pub const fn window(self) -> usize {
        match self {
            Rate::R8k => 256,
            Rate::R16k => 512,
        }
    }
}

/// A call's place in a [`Bank`]. After [`Bank::close`] it is stale for good: using it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    index: usize,
    generation: u32,
}

/// What the bank knows of a place, beside the network's state.
#[derive(Clone, Copy, Default)]
struct Place {
    generation: u32,
    staged: bool,
}

/// States of up to `capacity` calls of one sample rate. Nothing allocates after [`Bank::new`].
pub struct Bank {
    backend: Backend,
    rate: Rate,
    network: Network,
    states: States,
    work: Workspace,
    places: Vec<Place>,
    free: Vec<usize>,
    /// Places with a window to run, in the order of `push`.
    staged: Vec<usize>,
    /// For each number of windows left to run, the tile to run next.
    plan: Vec<&'static Tile>,
    /// Runs the windows in the kernel's place.
    stock: Option<Stock>,
}

impl Bank {
    /// A bank for up to `capacity` calls, on the fastest instruction set of this processor.
    pub fn new(rate: Rate, capacity: usize) -> Bank {
        let backend = Backend::available().next().unwrap_or(Backend::Scalar);
        Bank::with_backend(rate, capacity, backend)
    }

    /// A bank on a chosen instruction set; for tests and measurements.
    ///
    /// # Panics
    /// When the processor does not have it: see [`Backend::is_available`].
    pub fn with_backend(rate: Rate, capacity: usize, backend: Backend) -> Bank {
        assert!(backend.is_available(), "this processor has no {}", backend.name());
        let network = Network::load(rate);
        let tiles = backend.tiles();
        let widest = tiles.iter().map(|tile| tile.calls).max().unwrap_or(1);
        Bank {
            backend,
            rate,
            states: States::new(capacity, network.context, network.input),
            work: Workspace::new(&network, widest),
            network,
            places: vec![Place::default(); capacity],
            free: (0..capacity).rev().collect(),
            staged: Vec::with_capacity(capacity),
            plan: plan(tiles, capacity),
            stock: None,
        }
    }

    /// Has the stock model run the windows from now on, for calls that are opened later. Then
    /// [`Bank::run`] allocates.
    pub fn use_stock(&mut self, stock: Stock) {
        self.stock = Some(stock);
    }

    /// Name of the instruction set in use: "avx512", "avx2", "neon" or "scalar"; or "onnxruntime".
    pub fn backend(&self) -> &'static str {
        match self.stock {
            Some(_) => "onnxruntime",
            None => self.backend.name(),
        }
    }

    /// Windows that one pass takes on the fastest instruction set of this processor.
    pub fn lanes() -> usize {
        let backend = Backend::available().next().unwrap_or(Backend::Scalar);
        backend.tiles().iter().map(|tile| tile.calls).max().unwrap_or(1)
    }

    /// Sample rate of the windows.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes a slot that has heard nothing yet, or `None` when all are taken.
    pub fn open(&mut self) -> Option<Slot> {
        let index = self.free.pop()?;
        self.states.reset(index);
        Some(Slot { index, generation: self.places[index].generation })
    }

    /// Gives a slot back; a window staged for it is dropped.
    pub fn close(&mut self, slot: Slot) {
        if self.is_open(slot) {
            self.unstage(slot.index);
            let place = &mut self.places[slot.index];
            place.generation = place.generation.wrapping_add(1);
            self.free.push(slot.index);
        }
    }

    /// Forgets what the slot has heard, as if just opened; a window staged for it is dropped.
    pub fn reset(&mut self, slot: Slot) {
        if self.is_open(slot) {
            self.unstage(slot.index);
            self.states.reset(slot.index);
        }
    }

    /// Stages the slot's next window: [`Rate::window`] samples in [-1, 1). Between two runs a slot
    /// has at most one: a second one replaces the first. A stale slot is ignored.
    ///
    /// # Panics
    /// When `window` has another length.
    pub fn push(&mut self, slot: Slot, window: &[f32]) {
        assert_eq!(window.len(), self.rate.window(), "samples in a window");
        if self.is_open(slot) {
            self.states.set_window(slot.index, window);
            let place = &mut self.places[slot.index];
            if !place.staged {
                place.staged = true;
                self.staged.push(slot.index);
            }
        }
    }

    /// Runs all staged windows. `out` is cleared, then gets each staged slot and its speech
    /// probability in the order of [`Bank::push`]; it does not allocate when its capacity is the
    /// bank's.
    pub fn run(&mut self, out: &mut Vec<(Slot, f32)>) {
        out.clear();
        if let Some(stock) = &mut self.stock {
            let probabilities = stock.run(&mut self.states, &self.staged);
            for (&index, &probability) in self.staged.iter().zip(probabilities) {
                let place = &mut self.places[index];
                place.staged = false;
                out.push((Slot { index, generation: place.generation }, probability));
            }
            self.staged.clear();
            return;
        }
        let mut left = &self.staged[..];
        while !left.is_empty() {
            let tile = self.plan[left.len()];
            let (calls, later) = left.split_at(tile.calls.min(left.len()));
            let (network, states, work) = (&self.network, &mut self.states, &mut self.work);
            // SAFETY: the tile is one of the backend's, whose presence with_backend checked.
            unsafe { (tile.run)(Job { network, states, work, calls }) };
            for (&index, &probability) in calls.iter().zip(self.work.probability.iter()) {
                let place = &mut self.places[index];
                place.staged = false;
                out.push((Slot { index, generation: place.generation }, probability));
            }
            left = later;
        }
        self.staged.clear();
    }

    fn is_open(&self, slot: Slot) -> bool {
        self.places.get(slot.index).is_some_and(|place| place.generation == slot.generation)
    }

    fn unstage(&mut self, index: usize) {
        if std::mem::take(&mut self.places[index].staged) {
            self.staged.retain(|&staged| staged != index);
        }
    }
}

/// The cheapest way to run 0, 1, … `capacity` windows: the tile to begin with. A tile costs the
/// same however few of its lanes are taken.
fn plan(tiles: &'static [Tile], capacity: usize) -> Vec<&'static Tile> {
    let mut costs = vec![0];
    let mut plan = vec![&tiles[0]];
    for windows in 1..=capacity {
        let cost = |tile: &Tile| tile.cost + costs[windows.saturating_sub(tile.calls)];
        let best = tiles.iter().min_by_key(|tile| cost(tile)).unwrap_or(&tiles[0]);
        costs.push(cost(best));
        plan.push(best);
    }
    plan
}
