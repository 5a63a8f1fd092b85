//! Paragraphs that fit the terminal, and colour where it is wanted.

use anstyle::{AnsiColor, Style};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::terminal::{self, Colour, plain};

/// The widest line, columns. Wider paragraphs are hard to read.
const WIDEST: usize = 100;

/// Below this width tables become lists, columns.
pub(crate) const TABLE: usize = 80;

/// How text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: Colour,
    /// Columns of the terminal, 20 at the least.
    pub(crate) columns: usize,
}

impl Look {
    pub(crate) fn of_stdout() -> Self {
        Self { colour: Colour::of_stdout(), columns: terminal::columns().clamp(20, WIDEST) }
    }

    /// Breaks a text at its spaces. The first line starts with `first`, the others with as many
    /// spaces, but fewer on a narrow terminal. A word that is longer than a line, such as a path,
    /// stays whole, on a line of its own. Facts may come from another machine's file, so control
    /// characters become marks.
    pub(crate) fn wrap(&self, first: &str, text: &str) -> String {
        const NARROW: usize = 60;
        let indent = first.chars().count();
        let indent = if self.columns < NARROW { indent.min(4) } else { indent };
        let indent = " ".repeat(indent);
        let options = Options::new(self.columns)
            .initial_indent(first)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit);
        let words: Vec<String> = text.split_whitespace().map(plain).collect();
        textwrap::fill(&words.join(" "), options)
    }

    /// The same, with its first `painted` bytes in this style.
    pub(crate) fn wrap_painted(&self, first: &str, text: &str, painted: usize, style: Style) -> String {
        let lines = self.wrap(first, text);
        match lines.get(..painted).zip(lines.get(painted..)) {
            Some((head, rest)) => format!("{}{rest}", self.paint(head, style)),
            None => lines,
        }
    }

    /// The text in this style, where colour is wanted.
    pub(crate) fn paint(&self, text: &str, style: Style) -> String {
        match self.colour {
            Colour::Ansi => format!("{style}{text}{style:#}"),
            Colour::None => text.to_owned(),
        }
    }

    /// A heading.
    pub(crate) fn heading(&self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }
}

/// The styles of what is bad, what is slow, and what is good.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const SLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();

#[cfg(test)]
mod tests {
    use super::*;

    fn look(columns: usize) -> Look {
        Look { colour: Colour::None, columns }
    }

    #[test]
    fn lines_fit_and_no_word_is_lost() {
        let text = "word ".repeat(50) + &"long".repeat(40) + " end";
        for columns in [40, 80, 100] {
            let wrapped = look(columns).wrap("  fix: ", &text);
            assert_eq!(
                wrapped.replace("  fix: ", "").split_whitespace().collect::<Vec<_>>(),
                text.split(' ').collect::<Vec<_>>()
            );
            for line in wrapped.lines().filter(|line| !line.contains("longlong")) {
                assert!(line.len() <= columns, "{line}");
            }
            let indent = if columns == 40 { 4 } else { 7 };
            let spaces = |line: &str| line.len() - line.trim_start().len();
            assert!(wrapped.lines().skip(1).all(|line| spaces(line) == indent), "{wrapped}");
        }
        assert_eq!(look(100).wrap("", ""), "");
        assert_eq!(look(100).wrap("seen: ", "hpet\u{1b}[2J"), "seen: hpet\u{fffd}[2J");
    }

    #[test]
    fn colour_only_where_it_is_wanted() {
        let coloured = Look { colour: Colour::Ansi, columns: 40 };
        let text = coloured.wrap_painted("", "SLOW: it takes longer than that by far", 4, SLOW);
        assert!(text.starts_with("\u{1b}[") && text.contains("mSLOW\u{1b}[0m: it"), "{text:?}");
        assert_eq!(look(40).wrap_painted("", "SLOW: it", 4, SLOW), "SLOW: it");
    }
}
