//! The text that a command shows: paragraphs and tables that fit the terminal, with colours.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use terminal_size::{Width, terminal_size_of};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::words::plain;

/// The widest line, columns. Wider paragraphs are hard to read.
const MAX_COLUMNS: usize = 100;

/// The text of a command, and the width to which it is wrapped.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Columns of the terminal, at least 20.
    columns: usize,
    pub(crate) text: String,
}

impl Screen {
    pub(crate) fn for_stdout() -> Self {
        Self::of(columns())
    }

    /// A screen for a terminal of this width.
    pub(crate) fn of(columns: usize) -> Self {
        Self {
            columns: columns.clamp(20, MAX_COLUMNS),
            text: String::new(),
        }
    }

    /// Adds a line without wrapping it.
    pub(crate) fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// Adds a heading, after an empty line.
    pub(crate) fn heading(&mut self, title: &str) {
        self.line(&format!("\n{}", bold(&self.wrap("", title))));
    }

    /// Adds a paragraph.
    pub(crate) fn say(&mut self, first: &str, text: &str) {
        self.line(&self.wrap(first, text));
    }

    /// Adds a paragraph, with the first `painted` bytes in this style.
    pub(crate) fn say_painted(&mut self, first: &str, text: &str, painted: usize, style: Style) {
        let lines = self.wrap(first, text);
        self.line(&match lines.split_at_checked(painted) {
            Some((head, rest)) => format!("{style}{head}{style:#}{rest}"),
            None => lines,
        });
    }

    /// Breaks a text at its spaces. The first line starts with `first`. The other lines start with
    /// as many spaces, or with fewer on a narrow terminal. A word that is longer than a line, such
    /// as a path, stays whole, on a line of its own. The text may come from another machine's file,
    /// so a mark replaces each control character.
    fn wrap(&self, first: &str, text: &str) -> String {
        // On a terminal of fewer than 60 columns a column of labels would leave too little room.
        let indent =
            " ".repeat(
                first
                    .chars()
                    .count()
                    .min(if self.columns < 60 { 4 } else { MAX_COLUMNS }),
            );
        let options = Options::new(self.columns)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .initial_indent(first)
            .subsequent_indent(&indent);
        let words: Vec<String> = text.split_whitespace().map(plain).collect();
        textwrap::fill(&words.join(" "), options)
    }

    /// Adds words in as many columns as fit, in their order downwards.
    pub(crate) fn in_columns(&mut self, words: &[&str]) {
        const GAP: usize = 2;
        let width = words.iter().map(|word| word.len()).max().unwrap_or(0) + GAP;
        let columns = ((self.columns + GAP) / width).max(1);
        let rows = words.len().div_ceil(columns);
        for row in 0..rows {
            let words = words.iter().skip(row).step_by(rows);
            let line: String = words.map(|word| format!("{word:<width$}")).collect();
            self.line(line.trim_end());
        }
    }

    /// Adds rows below their headings: words to the left, figures to the right. If the terminal is
    /// too narrow for the table, each row becomes a paragraph.
    pub(crate) fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let columns = TableColumns::of(heads, rows);
        if columns.width() > self.columns {
            for row in rows {
                let named = heads
                    .iter()
                    .zip(row)
                    .skip(1)
                    .filter(|(_, cell)| !cell.is_empty());
                let named: Vec<_> = named
                    .map(|(head, cell)| format!("{head} {cell}").trim().to_owned())
                    .collect();
                let first = row.first().map_or("", String::as_str);
                self.say("  ", &format!("{} {first}: {}", heads[0], named.join(", ")));
            }
            return;
        }
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        for row in std::iter::once(&heads).chain(rows) {
            self.line(columns.row(row).trim_end());
        }
    }
}

/// The columns of a table. Each starts with two spaces.
#[derive(Debug)]
pub(crate) struct TableColumns(Vec<TableColumn>);

#[derive(Debug)]
struct TableColumn {
    /// The length of the longest cell, or of the heading.
    width: usize,
    /// Whether the cells are words, which stand to the left. Figures stand to the right.
    has_words: bool,
}

impl TableColumns {
    /// Columns that are as wide as these headings and rows.
    pub(crate) fn of(heads: &[&str], rows: &[Vec<String>]) -> Self {
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let column = |(column, head): (usize, &&str)| {
            let lengths = cells(column).map(|cell| cell.chars().count());
            TableColumn {
                width: lengths.chain([head.len()]).max().unwrap_or(0),
                has_words: cells(column).any(|cell| cell.contains(char::is_alphabetic)),
            }
        };
        Self(heads.iter().enumerate().map(column).collect())
    }

    /// The width of the table.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|column| column.width + 2).sum()
    }

    /// A row, as wide as the table.
    pub(crate) fn row(&self, cells: &[String]) -> String {
        let cells = cells.iter().zip(&self.0).map(|(cell, column)| {
            let width = column.width;
            match (plain(cell), column.has_words) {
                (cell, true) => format!("  {cell:<width$}"),
                (cell, false) => format!("  {cell:>width$}"),
            }
        });
        cells.collect()
    }
}

pub(crate) fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// The styles for wrong, for slow or doubtful, and for good results.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const SLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();

/// The width of the output, columns: the value of the variable COLUMNS, or else the width of the
/// terminal. A serial console reports no width.
pub(crate) fn columns() -> usize {
    const CONSOLE: usize = 80;
    const NO_TERMINAL: usize = 100;
    let chosen = std::env::var("COLUMNS").ok();
    chosen
        .as_deref()
        .and_then(chosen_columns)
        .unwrap_or_else(|| match terminal_size_of(io::stdout()) {
            Some((Width(columns), _)) => usize::from(columns),
            None if io::stdout().is_terminal() => CONSOLE,
            None => NO_TERMINAL,
        })
}

/// The width that the variable COLUMNS states; `None` if it is no width.
fn chosen_columns(value: &str) -> Option<usize> {
    value.parse().ok().filter(|columns| *columns != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(columns: usize) -> Screen {
        Screen {
            columns,
            text: String::new(),
        }
    }

    #[test]
    fn wrapped_lines_fit_and_lose_no_word() {
        let text = "word ".repeat(50) + &"long".repeat(40) + " end";
        for columns in [40, 80, 100] {
            let wrapped = screen(columns).wrap("  fix: ", &text);
            assert!(
                wrapped
                    .replace("  fix: ", "")
                    .split_whitespace()
                    .eq(text.split(' ')),
                "{wrapped}"
            );
            for line in wrapped.lines().filter(|line| !line.contains("longlong")) {
                assert!(line.len() <= columns, "{line}");
            }
            let indent = if columns == 40 { 4 } else { 7 };
            let spaces = |line: &str| line.len() - line.trim_start().len();
            assert!(
                wrapped.lines().skip(1).all(|line| spaces(line) == indent),
                "{wrapped}"
            );
        }
        assert_eq!(screen(100).wrap("", ""), "");
        assert_eq!(
            screen(100).wrap("seen: ", "hpet\u{1b}[2J"),
            "seen: hpet\u{fffd}[2J"
        );
    }

    #[test]
    fn words_in_columns_fit_and_read_downwards() {
        let words = ["ant", "bee", "cow", "dog", "elk"];
        let shown = |columns| {
            let mut screen = screen(columns);
            screen.in_columns(&words);
            screen.text
        };
        assert_eq!(shown(2), "ant\nbee\ncow\ndog\nelk\n");
        assert_eq!(shown(12), "ant  dog\nbee  elk\ncow\n");
        assert_eq!(shown(13), "ant  cow  elk\nbee  dog\n");
        assert_eq!(shown(80), "ant  bee  cow  dog  elk\n");
    }

    #[test]
    fn a_table_becomes_paragraphs_where_it_does_not_fit() {
        let rows = [
            vec!["rdtsc".to_owned(), "9.00".to_owned()],
            vec!["\u{1b}x".to_owned(), "-".to_owned()],
        ];
        let [wide, narrow] = [16, 15].map(|columns| {
            let mut screen = screen(columns);
            screen.table(&["clock", "cost ns"], &rows);
            screen.text
        });
        assert_eq!(
            wide,
            "  clock  cost ns\n  rdtsc     9.00\n  \u{fffd}x           -\n"
        );
        assert_eq!(narrow.lines().next(), Some("  clock rdtsc:"));
    }

    #[test]
    fn a_table_as_paragraphs_leaves_empty_cells_out() {
        let row = ["0 and 1", "", "9"].map(str::to_owned).to_vec();
        let mut screen = screen(20);
        screen.table(&["CPUs", "found here", "ns"], &[row]);
        assert_eq!(screen.text, "  CPUs 0 and 1: ns 9\n");
    }

    #[test]
    fn lines_under_a_label_are_indented_to_its_end_from_60_columns_on() {
        let second_line = |columns| {
            let text = screen(columns).wrap("  fix: ", &"word ".repeat(20));
            text.lines().nth(1).unwrap().to_owned()
        };
        assert!(second_line(60).starts_with("       word"));
        assert!(second_line(59).starts_with("    word"));
    }

    #[test]
    fn the_variable_states_a_width_above_0() {
        for (value, expected) in [
            ("72", Some(72)),
            ("1", Some(1)),
            ("0", None),
            ("-1", None),
            ("", None),
            ("wide", None),
        ] {
            assert_eq!(chosen_columns(value), expected, "{value}");
        }
    }
}
