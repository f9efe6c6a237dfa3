// SPDX-License-Identifier: GPL-3.0-or-later
//! Every input of the tree through its target, in the ordinary build: what fuzzing found stays mended. `just fuzz` runs
//! the same inputs under sanitizers first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use voicecore_fuzz::{close, demux, invite, sdp};

fn inputs(target: &str) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["finds", "corpus"] {
        let folder = here.join(folder).join(target);
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            found.push(entry.unwrap().path());
        }
    }
    found.sort();
    found
}

fn replay(target: &str, run: fn(&[u8])) {
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "no inputs for {target}");
    for path in inputs {
        // Told beforehand: a fault in C ends the process.
        eprintln!("{}", path.display());
        run(&fs::read(path).unwrap());
    }
}

#[test]
fn datagrams_on_the_ports_of_a_call() {
    replay("demux", demux::run);
}

// PJSIP allows one endpoint in a process: the two that need it take turns.
#[test]
fn messages_and_session_descriptions() {
    replay("invite", invite::run);
    replay("sdp", sdp::run);
    close();
}
