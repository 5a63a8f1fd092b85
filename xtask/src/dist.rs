//! `cargo xtask dist`: the program as one file that needs nothing, for any Linux on x86_64, and the
//! library that `tickline run` maps into others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use elf::ElfBytes;
use elf::abi::{PT_INTERP, STB_GLOBAL};
use elf::endian::AnyEndian;

use crate::step;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// `[profile.dist]` is in the workspace's `Cargo.toml`.
const BUILD: &str = "cargo build -q --profile dist -p tickline-cli --target x86_64-unknown-linux-musl";

/// What `tickline run` maps into programs, and how it is built.
pub(crate) const LIBRARY: &str = "libtickline_preload.so";
pub(crate) const PRELOAD: &str = "cargo build -q --profile preload -p tickline-preload";

/// Builds the program, checks that it is static and runs, and prints where it is and how large.
pub(crate) fn run() -> ExitCode {
    match build() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("xtask dist: {what}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<String, String> {
    // A compiler without rustup may have the target all the same: the build will tell.
    Command::new("rustup").args(["target", "add", TARGET]).output().ok();
    for line in [BUILD, PRELOAD] {
        let built = step::command(line).map(|mut command| command.status());
        if !matches!(built, Some(Ok(status)) if status.success()) {
            return Err(format!("`{line}` failed"));
        }
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let path = folder.join(TARGET).join("dist/tickline");
    let name = path.display();
    let program = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
    if has_interpreter(&program).ok_or_else(|| format!("{name} is no ELF file of 64 bits"))? {
        return Err(format!("{name} is not static: it names a dynamic linker"));
    }
    let bytes = program.len();
    let version =
        Command::new(&path).arg("--version").output().map_err(|error| format!("{name}: {error}"))?;
    if !version.status.success() {
        return Err(format!("{name} --version failed"));
    }
    let (version, tenths) = (String::from_utf8_lossy(&version.stdout), (bytes + 50_000) / 100_000);
    let library = library(&folder)?.len();
    Ok(format!(
        "{name}: {}, static, {}.{} MB ({bytes} bytes)\n{}: for `tickline run` and LD_PRELOAD, {library} bytes",
        version.trim(),
        tenths / 10,
        tenths % 10,
        folder.join("preload").join(LIBRARY).display(),
    ))
}

/// Whether an ELF file names a program that loads its libraries: a header of type PT_INTERP (elf(5)).
/// `None` for another file.
fn has_interpreter(file: &[u8]) -> Option<bool> {
    let file = ElfBytes::<AnyEndian>::minimal_parse(file).ok()?;
    Some(file.segments()?.iter().any(|header| header.p_type == PT_INTERP))
}

/// What the library stands before in a program with `LD_PRELOAD`: any other name would stand before
/// something of the program's, too.
const EXPORTS: [&str; 3] = ["clock_gettime", "gettimeofday", "timespec_get"];

/// What it must find in libc, even in the oldest one; a library that finds less is not loaded, and
/// neither is the program. Whatever else it needed would be missing in a static program, too.
const IMPORTS: [&str; 2] = ["__errno_location", "environ"];

/// Reads the library, and judges what it exports and imports.
pub(crate) fn library(folder: &Path) -> Result<Vec<u8>, String> {
    let path = folder.join("preload").join(LIBRARY);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    judge(&bytes).map_err(|what| format!("{}: {what}", path.display()))?;
    Ok(bytes)
}

fn judge(library: &[u8]) -> Result<(), String> {
    let wrong = |error: elf::ParseError| error.to_string();
    let file = ElfBytes::<AnyEndian>::minimal_parse(library).map_err(wrong)?;
    let (symbols, names) = file.dynamic_symbol_table().map_err(wrong)?.ok_or("it has no symbols")?;
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    for symbol in symbols.iter().filter(|symbol| symbol.st_bind() == STB_GLOBAL) {
        let name = usize::try_from(symbol.st_name).map_err(|error| error.to_string())?;
        let list = if symbol.is_undefined() { &mut imports } else { &mut exports };
        list.push(names.get(name).map_err(wrong)?);
    }
    exports.sort_unstable();
    if exports != EXPORTS {
        return Err(format!("it exports {exports:?}, not {EXPORTS:?}"));
    }
    match imports.iter().find(|name| !IMPORTS.contains(name)) {
        Some(name) => Err(format!("it imports {name}, which not every program has")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_loads_its_libraries_is_not_static() {
        let own = fs::read("/proc/self/exe").unwrap_or_default();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            assert_eq!(has_interpreter(&own), Some(true));
        }
        assert_eq!(has_interpreter(own.get(..100).unwrap_or_default()), None, "cut off");
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn another_library_is_refused() {
        assert!(judge(b"").is_err());
        let own = fs::read("/proc/self/exe").unwrap_or_default();
        assert!(judge(&own).is_err(), "it exports nothing of this kind");
    }
}
