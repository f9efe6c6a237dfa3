// SPDX-License-Identifier: GPL-3.0-or-later
//! Fuzz targets over the core: each is a function of bytes that panics or dies when the core is at fault.
//!
//! No sockets, no clock, no chance: an input does the same every time. `just fuzz` builds them for libFuzzer under
//! sanitizers (docs/fuzzing.md); tests/replay.rs runs every input of the tree in the ordinary build.

mod counting;
pub mod demux;
pub mod invite;
mod script;
pub mod sdp;
mod world;

pub use world::close;

/// The entry point that libFuzzer calls.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        /// # Safety
        /// `data` points at `size` bytes that live for the call.
        #[no_mangle]
        pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
            let input = if size == 0 {
                &[][..]
            } else {
                // SAFETY: see above.
                unsafe { std::slice::from_raw_parts(data, size) }
            };
            $run(input);
            0
        }
    };
}
