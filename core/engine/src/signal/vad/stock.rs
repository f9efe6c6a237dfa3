// SPDX-License-Identifier: GPL-3.0-or-later
//! The stock model through onnxruntime, with the bits of core/reference: for whoever trusts that more
//! than the kernel, or has to compare. A call costs about ten times the kernel's time, and a run
//! allocates: not for many calls, and not where a tick may never be late.

#[cfg(feature = "onnxruntime")]
pub use with_onnxruntime::Stock;
#[cfg(not(feature = "onnxruntime"))]
pub use without::Stock;

#[cfg(feature = "onnxruntime")]
mod with_onnxruntime {
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, PoisonError};

    use ort::environment::Environment;
    use ort::session::builder::GraphOptimizationLevel;
    use ort::session::Session;
    use ort::value::TensorRef;

    use super::super::network::UNITS;
    use super::super::states::States;
    use super::super::Rate;

    static MODEL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/silero_vad.onnx"));

    /// The first library that is loaded stays: there is one to a process.
    static ENVIRONMENT: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

    /// A session of its own, on the thread that runs it.
    pub struct Stock {
        session: Session,
        rate: Rate,
        input: Vec<f32>,
        memory: Vec<f32>,
        probabilities: Vec<f32>,
    }

    impl Stock {
        /// Loads the library, an onnxruntime of version 1.24 or later, and the model; runs it once.
        ///
        /// # Errors
        /// What is wrong, in words.
        pub fn load(library: &Path, rate: Rate) -> Result<Stock, String> {
            let at = |why: String| format!("{}: {why}", library.display());
            let mut loaded = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((path, _)) = loaded.as_ref().filter(|(path, _)| path != library) {
                return Err(at(format!("this process has loaded {} before", path.display())));
            }
            let made = match loaded.take() {
                Some(made) => made,
                None => {
                    let found = ort::init_from(library).map_err(|e| at(e.to_string()))?;
                    let named = found.with_name("voicecore").with_telemetry(false);
                    (library.to_owned(), named.build().map_err(|e| at(e.to_string()))?)
                }
            };
            let (_, environment) = loaded.insert(made);
            let session = session(environment).map_err(|e| at(e.to_string()))?;
            let window = rate.window();
            let mut stock = Stock {
                session,
                rate,
                input: Vec::new(),
                memory: Vec::new(),
                probabilities: Vec::new(),
            };
            stock.input.resize(window + window / 8, 0.0);
            stock.memory.resize(2 * UNITS, 0.0);
            stock.ask(1).map_err(|e| at(e.to_string()))?;
            Ok(stock)
        }

        /// Rate of its windows.
        pub fn rate(&self) -> Rate {
            self.rate
        }

        /// Runs the windows of these calls; gives a probability for each.
        pub(in super::super) fn run(&mut self, states: &mut States, calls: &[usize]) -> &[f32] {
            self.input.clear();
            self.memory.clear();
            self.probabilities.clear();
            if calls.is_empty() {
                return &self.probabilities;
            }
            for call in calls {
                self.input.extend_from_slice(states.input(*call));
            }
            for call in calls {
                self.memory.extend_from_slice(states.hidden(*call));
            }
            for call in calls {
                self.memory.extend_from_slice(states.cell(*call));
            }
            // It ran when it was loaded; what goes wrong later (memory) counts as silence.
            if self.ask(calls.len()).is_err() {
                self.probabilities.clear();
            }
            self.probabilities.resize(calls.len(), 0.0);
            let (hidden, cell) = self.memory.split_at(calls.len() * UNITS);
            let both = hidden.chunks_exact(UNITS).zip(cell.chunks_exact(UNITS));
            for (call, (hidden, cell)) in calls.iter().zip(both) {
                states.hidden_mut(*call).copy_from_slice(hidden);
                states.cell_mut(*call).copy_from_slice(cell);
                states.advance(*call);
            }
            &self.probabilities
        }

        fn ask(&mut self, calls: usize) -> ort::Result<()> {
            let width = self.input.len() / calls.max(1);
            let rate = [i64::from(self.rate.hz())];
            let output = self.session.run(ort::inputs![
                "input" => TensorRef::from_array_view(([calls, width], &self.input[..]))?,
                "state" => TensorRef::from_array_view(([2, calls, UNITS], &self.memory[..]))?,
                "sr" => TensorRef::from_array_view(([0usize; 0], &rate[..]))?,
            ])?;
            let (_, found) = output["output"].try_extract_tensor::<f32>()?;
            let (_, memory) = output["stateN"].try_extract_tensor::<f32>()?;
            if memory.len() == self.memory.len() {
                self.memory.copy_from_slice(memory);
            }
            self.probabilities.extend_from_slice(found);
            Ok(())
        }
    }

    fn session(environment: &Environment) -> ort::Result<Session> {
        Session::builder(environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(1)?
            .with_inter_threads(1)?
            .with_intra_op_spinning(false)?
            .commit_from_memory(MODEL)
    }
}

#[cfg(not(feature = "onnxruntime"))]
mod without {
    use std::path::Path;

    use super::super::states::States;
    use super::super::Rate;

    /// There is none in this build.
    pub enum Stock {}

    impl Stock {
        /// Always an error.
        ///
        /// # Errors
        /// This build has no onnxruntime.
        pub fn load(_library: &Path, _rate: Rate) -> Result<Stock, String> {
            Err("this build has no onnxruntime; \"kernel\" gives the same events".to_owned())
        }

        /// Rate of its windows.
        pub fn rate(&self) -> Rate {
            match *self {}
        }

        pub(in super::super) fn run(&mut self, _states: &mut States, _calls: &[usize]) -> &[f32] {
            match *self {}
        }
    }
}
