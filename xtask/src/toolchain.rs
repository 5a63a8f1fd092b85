//! Installs what the compiler lacks for a target.

use std::path::Path;

use crate::command::{command, output};

/// Installs the standard library for a target by rustup, unless the compiler has it already. Fails
/// if the compiler lacks it all the same: rustup may serve another compiler.
pub(crate) fn install_std(target: &str) -> Result<(), String> {
    if has_std(target) {
        return Ok(());
    }
    let added = output(command("rustup target add").arg(target));
    if has_std(target) {
        return Ok(());
    }
    let why = added.err();
    let why = why.unwrap_or_else(|| "rustup has added it to another compiler".to_owned());
    Err(format!("the compiler has no library for {target}: {why}"))
}

/// Whether the compiler has the standard library for a target.
fn has_std(target: &str) -> bool {
    let folder = output(command("rustc --print target-libdir --target").arg(target));
    folder.is_ok_and(|folder| Path::new(&folder).is_dir())
}
