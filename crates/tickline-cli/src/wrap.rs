//! Paragraphs and tables that fit the terminal, with colours.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::terminal::{self, plain};
use crate::words::cell;

/// The widest line, columns. Wider paragraphs are hard to read.
const WIDEST: usize = 100;

/// How text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns of the terminal, 20 at the least.
    pub(crate) columns: usize,
}

impl Layout {
    pub(crate) fn of_stdout() -> Self {
        Self { columns: terminal::columns().clamp(20, WIDEST) }
    }

    /// Breaks a text at its spaces. The first line starts with `first`, the others with as many
    /// spaces, but fewer on a narrow terminal. A word that is longer than a line, such as a path,
    /// stays whole, on a line of its own. Facts may come from another machine's file, so control
    /// characters become marks.
    pub(crate) fn wrap(&self, first: &str, text: &str) -> String {
        // Below 60 columns there is no room for a column of labels.
        let indent = " ".repeat(first.chars().count().min(if self.columns < 60 { 4 } else { WIDEST }));
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

    /// Writes the same.
    pub(crate) fn say(&self, first: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.wrap(first, text))
    }

    /// The same, with its first `painted` bytes in this style.
    pub(crate) fn wrap_painted(&self, first: &str, text: &str, painted: usize, style: Style) -> String {
        let lines = self.wrap(first, text);
        match lines.get(..painted).zip(lines.get(painted..)) {
            Some((head, rest)) => format!("{style}{head}{style:#}{rest}"),
            None => lines,
        }
    }

    /// Rows by their keys, which stand beside the headings: figures with two decimals, and a mark
    /// for what is unknown.
    pub(crate) fn table_of(
        &self,
        columns: &[(&str, &str)],
        rows: &impl Serialize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rows = json!(rows);
        let row = |row: &Value| columns.iter().map(|(key, _)| cell(&row[key])).collect();
        let rows: Vec<_> = rows.as_array().into_iter().flatten().map(row).collect();
        self.table(&columns.iter().map(|(_, head)| *head).collect::<Vec<_>>(), &rows, out)
    }

    /// Rows below their headings: words to the left, figures to the right. Where the terminal is
    /// too narrow for them, each row is a paragraph.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let columns: Vec<(usize, bool)> = (0..heads.len())
            .map(|column| {
                let lengths = cells(column).map(|cell| cell.chars().count());
                let width = lengths.chain([heads[column].len()]).max().unwrap_or(0);
                (width, cells(column).any(|cell| cell.contains(char::is_alphabetic)))
            })
            .collect();
        if columns.iter().map(|(width, _)| width + 2).sum::<usize>() > self.columns {
            return rows.iter().try_for_each(|row| {
                let named = heads.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
                let named: Vec<_> =
                    named.map(|(head, cell)| format!("{head} {cell}").trim().to_owned()).collect();
                let first = row.first().map_or("", String::as_str);
                writeln!(out, "{}", self.wrap("  ", &format!("{} {first}: {}", heads[0], named.join(", "))))
            });
        }
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        std::iter::once(&heads).chain(rows).try_for_each(|row| {
            let line: String = row
                .iter()
                .zip(&columns)
                .map(|(cell, &(width, is_text))| match (plain(cell), is_text) {
                    (cell, true) => format!("  {cell:<width$}"),
                    (cell, false) => format!("  {cell:>width$}"),
                })
                .collect();
            writeln!(out, "{}", line.trim_end())
        })
    }
}

/// A heading.
pub(crate) fn heading(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// The styles of what is bad, what is slow, and what is good.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const SLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: usize) -> Layout {
        Layout { columns }
    }

    #[test]
    fn lines_fit_and_no_word_is_lost() {
        let text = "word ".repeat(50) + &"long".repeat(40) + " end";
        for columns in [40, 80, 100] {
            let wrapped = layout(columns).wrap("  fix: ", &text);
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
        assert_eq!(layout(100).wrap("", ""), "");
        assert_eq!(layout(100).wrap("seen: ", "hpet\u{1b}[2J"), "seen: hpet\u{fffd}[2J");
    }

    #[test]
    fn a_table_becomes_paragraphs_where_it_does_not_fit() {
        let rows = [vec!["rdtsc".to_owned(), "9.00".to_owned()], vec!["\u{1b}x".to_owned(), "-".to_owned()]];
        let written = |columns| {
            let mut out = Vec::new();
            layout(columns).table(&["clock", "cost ns"], &rows, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(20), "  clock  cost ns\n  rdtsc     9.00\n  \u{fffd}x           -\n");
        assert_eq!(written(15).lines().next(), Some("  clock rdtsc:"));
    }
}
