//! The public API of the published libraries, as text under version control: `docs/api/CRATE.txt`.
//!
//! `cargo public-api` lists a crate's public items from rustdoc's JSON, which the nightly
//! compiler alone writes. Implementations for all types say nothing about a crate, and the list
//! of auto traits grows with the compiler, so both are left out. `crates/tickline/tests/types.rs`
//! has the auto traits that the project promises. The program has no library; its interface is
//! `crates/tickline-cli/schema/`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::step::command;
use crate::targets::PUBLISHED;

/// One target for all developers: what is public differs between systems.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const PROGRAM: &str = "tickline-cli";

pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let is_write = match arguments {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("usage: cargo xtask api [--write]");
            return ExitCode::from(2);
        }
    };
    let mut is_good = true;
    for name in PUBLISHED.iter().filter(|name| **name != PROGRAM) {
        match check(name, is_write) {
            Ok(message) => println!("{message}"),
            Err(why) => {
                println!("{why}");
                is_good = false;
            }
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares the list of a crate with its file, or stores it there; what was found.
fn check(name: &str, is_write: bool) -> Result<String, String> {
    let present = listed(name)?;
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api")).join(format!("{name}.txt"));
    if is_write {
        fs::write(&path, &present).map_err(|error| format!("{name}: {error}"))?;
        return Ok(format!("{name}: {} lines", present.lines().count()));
    }
    let stored = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let changes = changes(&stored, &present);
    if changes.is_empty() {
        return Ok(format!("{name}: as stored"));
    }
    Err(format!(
        "{name} has another public API; if it should: cargo xtask api --write\n{}",
        changes.join("\n")
    ))
}

fn listed(name: &str) -> Result<String, String> {
    let line = format!("cargo +nightly public-api -p {name} --all-features -ss --target {TARGET}");
    let output = command(&line)
        // Beside the other things that the nightly compiler builds.
        .and_then(|mut command| command.env("CARGO_TARGET_DIR", "target/nightly").output().ok())
        .ok_or_else(|| format!("{line} does not start"))?;
    if !output.status.success() {
        return Err(format!("{line} fails:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// The lines that only one of the two lists has.
fn changes(stored: &str, present: &str) -> Vec<String> {
    let only = |sign: char, from: &str, other: &str| {
        let line = |line| format!("{sign} {line}");
        from.lines().filter(|item| !other.lines().any(|there| there == *item)).map(line).collect::<Vec<_>>()
    };
    let mut changes = only('-', stored, present);
    changes.extend(only('+', present, stored));
    changes
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn an_item_that_is_gone_or_new_is_a_change() {
        assert!(changes("a\nb\n", "a\nb\n").is_empty());
        assert_eq!(changes("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    }
}
