//! Installs what the compiler lacks for a target.

use std::path::Path;

use crate::command::{command, output};

/// Installs the standard library for a target by rustup, unless the compiler has it already, as one
/// without rustup may.
pub(crate) fn install_std(target: &str) -> Result<(), String> {
    let folder = output(command("rustc --print target-libdir --target").arg(target));
    if folder.is_ok_and(|folder| Path::new(&folder).is_dir()) {
        return Ok(());
    }
    let added = output(command("rustup target add").arg(target));
    added
        .map(drop)
        .map_err(|why| format!("the compiler has no library for {target}: {why}"))
}
