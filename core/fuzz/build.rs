// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles what puts bytes into PJSIP without sockets, and lays it over PJSIP's clock, resolver and sockets.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

/// Functions of PJLIB and the shim that c/world.c stands in for, in these programs only.
const WRAPPED: [&str; 12] = [
    "vc_emit",
    "pj_get_timestamp",
    "pj_gettimeofday",
    "pj_generate_unique_string",
    "pj_rand",
    "pj_getaddrinfo",
    "pj_gethostip",
    "pj_getipinterface",
    "pj_sock_sendto",
    "pj_sock_send",
    "pj_sock_connect",
    "pj_sock_getsockname",
];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    for path in ["c", "../pjsip/shim"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let include = env::var("DEP_VC_PJSIP_INCLUDE").map_err(|e| format!("pjsip-sys: {e}"))?;
    let big = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let mut build = cc::Build::new();
    for entry in fs::read_dir("c").map_err(|e| format!("c: {e}"))? {
        let path = entry.map_err(|e| format!("c: {e}"))?.path();
        if path.extension().is_some_and(|ext| ext == "c") {
            build.file(path);
        }
    }
    build
        .flag("-isystem")
        .flag(PathBuf::from(include))
        .include("../pjsip/shim")
        // As PJSIP itself was compiled (core/pjsip/build.rs).
        .define("PJ_AUTOCONF", "1")
        .define("PJ_IS_BIG_ENDIAN", if big { "1" } else { "0" })
        .define("PJ_IS_LITTLE_ENDIAN", if big { "0" } else { "1" })
        .define("NDEBUG", None)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .opt_level(1)
        .try_compile("vc_fuzz")
        .map_err(|e| format!("the fuzz harness does not compile: {e}"))?;
    for name in WRAPPED {
        println!("cargo:rustc-link-arg=-Wl,--wrap={name}");
    }
    Ok(())
}
