// SPDX-License-Identifier: GPL-3.0-or-later
//! Compiles the C shim against the pinned PJSIP and hands the link flags on.
//!
//! `VC_PJSIP_PREFIX` names a prefix made by `python3 -m tools.pjsip`; without it that command is run here.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

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
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root =
        here.parent().and_then(Path::parent).ok_or("the crate is not inside the repository")?;
    println!("cargo:rerun-if-env-changed=VC_PJSIP_PREFIX");
    for path in ["shim", "patches", "config_site.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
    for path in ["third_party.toml", "tools/pjsip.py"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    let prefix = match env::var_os("VC_PJSIP_PREFIX") {
        Some(prefix) => PathBuf::from(prefix),
        None => run_tool(root)?,
    };
    let link = prefix.join("lib/link.txt");
    println!("cargo:rerun-if-changed={}", link.display());
    let flags = fs::read_to_string(&link).map_err(|e| {
        format!("{}: {e}; make the prefix with: python3 -m tools.pjsip", link.display())
    })?;
    compile_shim(&prefix)?;
    emit_link_flags(&prefix, &flags)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}

fn run_tool(root: &Path) -> Result<PathBuf, String> {
    let done = Command::new("python3")
        .args(["-m", "tools.pjsip"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("python3 -m tools.pjsip: {e}; install python3 (3.11 or later)"))?;
    if !done.status.success() {
        return Err(format!("python3 -m tools.pjsip: {}", String::from_utf8_lossy(&done.stderr)));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&done.stdout).trim().to_owned()))
}

fn compile_shim(prefix: &Path) -> Result<(), String> {
    let big_endian = variable("CARGO_CFG_TARGET_ENDIAN")? == "big";
    let mut build = cc::Build::new();
    for entry in fs::read_dir("shim").map_err(|e| format!("shim: {e}"))? {
        let path = entry.map_err(|e| format!("shim: {e}"))?.path();
        if path.extension().is_some_and(|ext| ext == "c") {
            build.file(path);
        }
    }
    build
        .flag("-isystem")
        .flag(prefix.join("include"))
        // As PJSIP itself was compiled: they decide on struct layouts.
        .define("PJ_AUTOCONF", "1")
        .define("PJ_IS_BIG_ENDIAN", if big_endian { "1" } else { "0" })
        .define("PJ_IS_LITTLE_ENDIAN", if big_endian { "0" } else { "1" })
        .define("NDEBUG", None)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .opt_level(2)
        .try_compile("vc_shim")
        .map_err(|e| format!("the C shim does not compile: {e}"))
}

fn emit_link_flags(prefix: &Path, flags: &str) -> Result<(), String> {
    let lib = prefix.join("lib");
    println!("cargo:include={}", prefix.join("include").display());
    println!("cargo:rustc-link-search=native={}", lib.display());
    for flag in flags.lines().filter(|line| !line.is_empty()) {
        let name =
            flag.strip_prefix("-l").ok_or_else(|| format!("link.txt: {flag:?} is no -l flag"))?;
        let kind = if lib.join(format!("lib{name}.a")).exists() { "static" } else { "dylib" };
        println!("cargo:rustc-link-lib={kind}={name}");
    }
    Ok(())
}
