// SPDX-License-Identifier: GPL-3.0-or-later
//! Figures for `tools.bench`, which makes a table and a file of them: one JSON object a line, to
//! the file that BENCH_ROWS names. Without it nothing is written.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// Adds a figure. `at_most` is its aim, if there is one.
pub fn add(metric: &str, unit: &str, value: f64, at_most: Option<f64>) -> io::Result<()> {
    let aim = at_most.map_or(String::new(), |aim| format!(", \"at_most\": {aim}"));
    write(metric, unit, value, &aim)
}

/// Adds a figure and what it is compared with.
#[allow(dead_code, reason = "not every benchmark compares")]
pub fn beside(metric: &str, unit: &str, value: f64, baseline: f64) -> io::Result<()> {
    write(metric, unit, value, &format!(", \"baseline\": {baseline:.3}"))
}

fn write(metric: &str, unit: &str, value: f64, more: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("BENCH_ROWS") else { return Ok(()) };
    // The names are ours: nothing in them needs escaping.
    let line =
        format!("{{\"metric\": \"{metric}\", \"unit\": \"{unit}\", \"value\": {value:.3}{more}}}");
    writeln!(OpenOptions::new().append(true).create(true).open(path)?, "{line}")
}
