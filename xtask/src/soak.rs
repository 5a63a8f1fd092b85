//! `cargo xtask soak`: everything at once on this machine, and counts that must be 0.

use std::io::Write as _;
use std::process::{ExitCode, Stdio};

use crate::mutate::tree;
use crate::step;

/// The longest run, minutes: a day.
const MAX_MINUTES: u64 = 24 * 60;

/// Where the last table is kept, seen from the workspace's root.
const STORED: &str = "docs/soak.md";

const HEAD: &str = "\
# Soak

Order, bounds and growth while everything happens at once; `benches/src/bin/soak/main.rs` says
what. Written by `cargo xtask soak --minutes N --write`.

";

/// Runs the program `soak` for as long as the arguments say, and ends as it does; `--write` stores
/// its table.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let (minutes, is_write) = match parsed(arguments) {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("xtask: {message}");
            return ExitCode::from(2);
        }
    };
    let line = format!("cargo run --release -q -p tickline-benches --bin soak -- --secs {}", minutes * 60);
    let Some(mut command) = step::command(&line) else { return ExitCode::FAILURE };
    let output = match command.stderr(Stdio::inherit()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("xtask: cargo: {error}");
            return ExitCode::from(2);
        }
    };
    std::io::stdout().write_all(&output.stdout).ok();
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    if is_write && code == Some(0) {
        let table = String::from_utf8_lossy(&output.stdout);
        let minutes = if minutes == 1 { "1 minute".to_owned() } else { format!("{minutes} minutes") };
        let text = format!("{HEAD}{minutes}:\n\n```text\n{}\n```\n", table.trim());
        if let Err(error) = tree::store(STORED, &text) {
            eprintln!("xtask soak: cannot store the table: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::from(code.unwrap_or(1))
}

/// The minutes, and whether the table is to be stored.
fn parsed(arguments: &[&str]) -> Result<(u64, bool), String> {
    let (text, is_write) = match arguments {
        [] => return Ok((1, false)),
        ["--minutes", text] => (text, false),
        ["--minutes", text, "--write"] => (text, true),
        ["--minutes"] => return Err("--minutes needs a number".into()),
        _ => return Err(format!("soak takes --minutes N and --write, not '{}'", arguments.join(" "))),
    };
    match text.parse() {
        Ok(minutes) if (1..=MAX_MINUTES).contains(&minutes) => Ok((minutes, is_write)),
        _ => Err(format!("--minutes {text} is not a whole number from 1 to {MAX_MINUTES}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_checked() {
        assert_eq!(parsed(&[]), Ok((1, false)));
        assert_eq!(parsed(&["--minutes", "10"]), Ok((10, false)));
        assert_eq!(parsed(&["--minutes", "10", "--write"]), Ok((10, true)));
        for text in ["0", "-1", "1.5", "", "x", "1441", "99999999999999999999999"] {
            let message = parsed(&["--minutes", text]).unwrap_err();
            assert!(message.contains(text) && message.contains("1440"), "{message}");
        }
        for wrong in [&["--minutes"][..], &["--secs", "5"], &["--minutes", "5", "6"], &["--write"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
