//! Builds `tests/vm/limiter` for a guest twice: over quanta, and over `tickline-quanta` in place of
//! quanta. Both are packages outside of this workspace, because one lock file can't have both.

use std::fs;
use std::path::PathBuf;

use super::image::put;
use crate::command::{command, output};
use crate::dist::TARGET;
use crate::files::{read, root, store};
use crate::outcome::NotPassed;

/// Builds both programs. Returns a folder with them.
pub(super) fn build() -> Result<PathBuf, NotPassed> {
    let to = super::folder().join("limiter-files");
    let patch = root().join("crates/tickline-quanta/patch/0.12");
    let patch = format!("\n[patch.crates-io]\nquanta.path = {patch:?}\n");
    for (name, patch) in [("limiter-quanta", ""), ("limiter-tickline", patch.as_str())] {
        let package = super::folder().join(name);
        for (file, more) in [("Cargo.toml", patch), ("src/main.rs", "")] {
            let text = read(format!("tests/vm/limiter/{file}"))?;
            store(package.join(file), &(text + more))?;
        }
        let cargo = |line: &'static str| output(command(line).arg(TARGET).current_dir(&package));
        cargo("cargo fetch --target").map_err(NotPassed::Skipped)?;
        cargo("cargo build -q --release --target-dir target --target")?;
        put(
            &to,
            name,
            &fs::read(package.join("target").join(TARGET).join("release/limiter"))?,
        )?;
    }
    Ok(to)
}
