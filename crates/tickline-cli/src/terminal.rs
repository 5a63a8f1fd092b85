//! What standard output can show.

use std::io::{self, IsTerminal};
use std::path::Path;

use terminal_size::Width;

/// A text from elsewhere that is safe for a terminal: control characters become marks.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// The name of a file, likewise.
pub(crate) fn plain_path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// The width, columns, where it is unknown.
const COLUMNS: usize = 100;

/// The width of the terminal, columns.
pub(crate) fn columns() -> usize {
    let size = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
    size.map_or(COLUMNS, |(Width(columns), _)| usize::from(columns))
}
