//! `cargo xtask dist`: the program as one file that needs nothing, for any Linux on x86_64.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::step;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// `[profile.dist]` is in the workspace's `Cargo.toml`.
const BUILD: &str = "cargo build -q --profile dist -p tickline-cli --target x86_64-unknown-linux-musl";

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
    let built = step::command(BUILD).map(|mut command| command.status());
    if !matches!(built, Some(Ok(status)) if status.success()) {
        return Err(format!("`{BUILD}` failed"));
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
    Ok(format!("{name}: {}, static, {}.{} MB ({bytes} bytes)", version.trim(), tenths / 10, tenths % 10))
}

/// Whether a little-endian ELF file of 64 bits names a program that loads its libraries: a header
/// of type PT_INTERP (elf(5)). `None` for another file.
fn has_interpreter(file: &[u8]) -> Option<bool> {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let bytes = file.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let kind = |header: u64| number(usize::try_from(first + header * size).ok()?, 4);
    (0..count).map(kind).collect::<Option<Vec<u64>>>().map(|kinds| kinds.contains(&INTERPRETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_found_among_the_headers() {
        let mut file = vec![0_u8; 64 + 2 * 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (64, 56, 2);
        (file[64], file[64 + 56]) = (1, 2);
        assert_eq!(has_interpreter(&file), Some(false));
        file[64 + 56] = 3;
        assert_eq!(has_interpreter(&file), Some(true));
        assert_eq!(has_interpreter(&file[..100]), None, "cut off");
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
    }
}
