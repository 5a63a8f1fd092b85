//! What standard output can show.

use std::io::{self, IsTerminal};

/// Whether there is colour. Whatever is shown says the same without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Ansi,
    None,
}

impl Colour {
    /// On a terminal that has it, unless `NO_COLOR` says otherwise.
    pub(crate) fn of_stdout() -> Self {
        match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => Self::None,
            _ => Self::Ansi,
        }
    }
}

/// A text from elsewhere as a terminal may have it: whatever would steer the terminal is a mark.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// Where nobody says how wide it is.
const COLUMNS: usize = 100;

/// The width of the terminal.
pub(crate) fn columns() -> usize {
    let size =
        if io::stdout().is_terminal() { ratatui_crossterm::crossterm::terminal::size().ok() } else { None };
    size.map_or(COLUMNS, |(columns, _)| usize::from(columns))
}

/// Whether whole screens can be drawn: a terminal, and one that can place its cursor.
pub(crate) fn draws() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_do_not_steer_the_terminal() {
        assert_eq!(
            plain("\u{1b}[2J\u{9b}2J\r\u{7f}Intel(R) é"),
            "\u{fffd}[2J\u{fffd}2J\u{fffd}\u{fffd}Intel(R) é"
        );
    }
}
