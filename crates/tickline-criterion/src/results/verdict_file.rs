//! The file of `--verdicts`.

use std::fs;

use crate::arguments::Options;
use crate::results::files;
use crate::results::verdict::Verdicts;

/// Writes what is known so far, in case that the program ends early. A stream, such as
/// `/dev/stdout`, gets only the last verdicts.
pub(crate) fn store_so_far(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    match &options.verdicts {
        Some(path) if !files::is_stream(path) => store(verdicts, options),
        _ => Ok(()),
    }
}

/// Writes the verdicts. Another process sees the file before or after, and no part of it.
pub(crate) fn store(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    let Some(path) = &options.verdicts else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(verdicts).map_err(|error| error.to_string())?;
    if files::is_stream(path) {
        return fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    // The file that a symbolic link names is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    files::replace(&path, &text)
}
