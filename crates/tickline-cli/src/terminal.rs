//! What standard output can show.

use std::io::{self, IsTerminal};
use std::path::Path;

use terminal_size::{Width, terminal_size_of};

/// A text from elsewhere that is safe for a terminal: what steers it becomes a mark.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|character| if is_steering(character) { '\u{fffd}' } else { character }).collect()
}

/// Whether a character steers the terminal, or turns the direction of a row (`Bidi_Control`,
/// Unicode Standard Annex 9).
fn is_steering(character: char) -> bool {
    let turns =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    character.is_control() || turns.iter().any(|turns| turns.contains(&character))
}

/// The name of a file, likewise.
pub(crate) fn plain_path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// The width, columns: that of the variable COLUMNS, else that of the terminal. A serial console
/// knows none.
pub(crate) fn columns() -> usize {
    const CONSOLE: usize = 80;
    const NO_TERMINAL: usize = 100;
    let chosen = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    chosen.filter(|columns| *columns > 0).unwrap_or_else(|| match terminal_size_of(io::stdout()) {
        Some((Width(columns), _)) => usize::from(columns),
        None if io::stdout().is_terminal() => CONSOLE,
        None => NO_TERMINAL,
    })
}
