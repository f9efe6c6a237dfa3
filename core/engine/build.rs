// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts the weights of the voice-activity network where the kernel includes them from.

mod vad_weights;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out_dir) = std::env::var_os("OUT_DIR") else {
        println!("cargo::error=OUT_DIR is not set: run this by cargo");
        return ExitCode::FAILURE;
    };
    if let Err(why) = vad_weights::build(Path::new(&out_dir)) {
        println!("cargo::error=voice-activity weights: {}", why.replace('\n', " "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
