//! The text that a command shows: paragraphs and tables that fit the terminal, with colours.

use std::borrow::Cow;
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

    /// Breaks a text between its [words]. The first line starts with `first`. The other lines start
    /// with as many spaces, or with fewer on a narrow terminal. A word that is longer than a line,
    /// such as a path, stays whole, on a line of its own. The text may come from another machine's
    /// file, so a mark replaces each control character.
    fn wrap(&self, first: &str, text: &str) -> String {
        // On a terminal of fewer than 60 columns a column of labels would leave too little room.
        let most = if self.columns < 60 { 4 } else { MAX_COLUMNS };
        let indent = " ".repeat(first.chars().count().min(most));
        let options = Options::new(self.columns)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .initial_indent(first)
            .subsequent_indent(&indent);
        let kept = |word: &str| plain(word).replace(' ', KEPT_SPACE);
        let words: Vec<_> = words(text).into_iter().map(kept).collect();
        textwrap::fill(&words.join(" "), options).replace(KEPT_SPACE, " ")
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
    /// too narrow, headings and cells of words take several lines, with each word whole. If it is
    /// still too narrow, each row is a paragraph.
    pub(crate) fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let Some(columns) = TableColumns::within(self.columns, heads, rows) else {
            return self.paragraphs(heads, rows);
        };
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        let heads = columns.lines(&heads, "");
        let rows = rows.iter().flat_map(|row| columns.lines(row, INDENT));
        for line in heads.into_iter().chain(rows) {
            self.line(line.trim_end());
        }
    }

    /// Adds each row of a table as a paragraph.
    fn paragraphs(&mut self, heads: &[&str], rows: &[Vec<String>]) {
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
    }
}

/// What stands for a space within a word in the wrapping. [`plain`] leaves no such character.
const KEPT_SPACE: &str = "\u{1}";

/// The words of a text. The part of a word in single quotes is for a shell, and keeps its spaces.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let quoted = quoted_bytes(rest).unwrap_or(0);
        let end = rest[quoted..].find(char::is_whitespace);
        let (word, after) = rest.split_at(end.map_or(rest.len(), |end| quoted + end));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// The bytes of the quoted part with which a text begins, as `shell_word` makes it; a backquote may
/// stand before it. `None` if there is none, or if it does not end. A name that another program
/// chose may have an apostrophe: a quote before a letter or a digit ends nothing, and no part has a
/// line end. Other apostrophes may still join words, which makes a line wider.
fn quoted_bytes(text: &str) -> Option<usize> {
    let mut inside = text.trim_start_matches('`').strip_prefix('\'')?;
    loop {
        let (_, after) = inside.split_once('\'')?;
        // A quote within the word.
        let Some(more) = after.strip_prefix(r"\''") else {
            let (quoted, _) = text.split_at(text.len() - after.len());
            let is_word = !after.starts_with(char::is_alphanumeric) && !quoted.contains('\n');
            return is_word.then_some(quoted.len());
        };
        inside = more;
    }
}

/// The least width to which a column of words is narrowed. `MONOTONIC_COARSE` and the name of any
/// process fit.
const MIN_WORDS: usize = 16;

/// What stands before the further lines of a cell.
const INDENT: &str = "  ";

/// The columns of a table. Each starts with two spaces.
#[derive(Debug)]
pub(crate) struct TableColumns(Vec<TableColumn>);

#[derive(Debug)]
struct TableColumn {
    /// The length of the longest cell, or of the heading.
    width: usize,
    /// The least width, in which each word of a cell is whole; [`MIN_WORDS`] or more.
    least: usize,
    /// Whether the cells are words, which stand to the left. Figures stand to the right.
    has_words: bool,
}

impl TableColumns {
    /// Columns that are as wide as these headings and rows.
    pub(crate) fn of(heads: &[&str], rows: &[Vec<String>]) -> Self {
        Self::as_wide_as(heads.iter().map(|head| head.len()), rows)
    }

    /// Columns that are as wide as headings of these lengths, and as these rows.
    fn as_wide_as(heads: impl Iterator<Item = usize>, rows: &[Vec<String>]) -> Self {
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let column = |(column, head)| {
            let lengths = cells(column).map(|cell| cell.chars().count());
            TableColumn {
                width: lengths.chain([head]).max().unwrap_or(0),
                least: cells(column)
                    .map(|cell| least_width(cell))
                    .fold(MIN_WORDS, usize::max),
                has_words: cells(column).any(|cell| cell.contains(char::is_alphabetic)),
            }
        };
        Self(heads.enumerate().map(column).collect())
    }

    /// Columns of a table that is at most this wide. Where it must, it breaks each heading into two
    /// lines, and then the cells of the widest columns between words. `None` if that is not enough.
    fn within(most: usize, heads: &[&str], rows: &[Vec<String>]) -> Option<Self> {
        let whole = Self::of(heads, rows);
        if whole.width() <= most {
            return Some(whole);
        }
        let mut columns = Self::as_wide_as(heads.iter().map(|head| width_of_two_lines(head)), rows);
        while columns.width() > most {
            let columns = columns.0.iter_mut();
            let narrowed = columns.filter(|column| column.has_words && column.width > column.least);
            narrowed.max_by_key(|column| column.width)?.width -= 1;
        }
        Some(columns)
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

    /// The lines of a row, each as wide as the table. A cell that is longer than its column goes on
    /// in the next line, after `indent`.
    fn lines(&self, cells: &[String], indent: &str) -> Vec<String> {
        let cells = cells.iter().zip(&self.0);
        let broken: Vec<_> = cells
            .map(|(cell, column)| column.broken(cell, indent))
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        let line = |line: usize| {
            let cells = broken.iter();
            let cells: Vec<_> = cells
                .map(|lines| lines.get(line).cloned().unwrap_or_default())
                .collect();
            self.row(&cells)
        };
        (0..height).map(line).collect()
    }
}

impl TableColumn {
    /// The lines of a cell: one if the cell fits.
    fn broken(&self, cell: &str, indent: &str) -> Vec<String> {
        let cell = plain(cell);
        if cell.chars().count() <= self.width {
            return vec![cell];
        }
        let options = Options::new(self.width)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .subsequent_indent(indent);
        let lines = textwrap::wrap(&cell, options).into_iter();
        lines.map(Cow::into_owned).collect()
    }
}

/// The least width of a column in which no word of this cell is cut.
fn least_width(cell: &str) -> usize {
    let lengths = cell.split(' ').map(|word| word.chars().count());
    let further = lengths.clone().skip(1).map(|length| INDENT.len() + length);
    lengths.take(1).chain(further).max().unwrap_or(0)
}

/// The least width of a heading in two lines.
fn width_of_two_lines(head: &str) -> usize {
    let spaces = head.match_indices(' ');
    let widths = spaces.map(|(at, _)| at.max(head.len() - at - 1));
    widths.min().unwrap_or(head.len())
}

pub(crate) fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// The styles for wrong, for slow or doubtful, and for good results.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const SLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();

/// The width of a terminal that reports none, as a serial console, columns.
const CONSOLE: usize = 80;

/// The width of the output if it goes to no terminal, columns.
const NO_TERMINAL: usize = 100;

/// The width of the output, columns: the value of the variable COLUMNS, or else the width of the
/// terminal.
pub(crate) fn columns() -> usize {
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
    use crate::words::shell_word;

    fn screen(columns: usize) -> Screen {
        Screen {
            columns,
            text: String::new(),
        }
    }

    /// Symptom: the help had the width of a terminal alone.
    #[test]
    fn the_help_has_the_widths_that_are_taken_by_default() {
        let help = crate::args::help::text(crate::args::help::PROGRAM);
        let widths = format!("{CONSOLE} if unknown; {NO_TERMINAL} without one)");
        assert!(help.contains(&widths), "{help}");
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

    /// Symptom: a path with a space was broken into two lines, and its two spaces became one.
    #[test]
    fn a_quoted_word_of_a_command_stays_in_one_line() {
        let folder = "long/".repeat(8);
        for name in ["my  page", "it's my page"] {
            let word = shell_word(&format!("/{folder}{name}"));
            let text = format!("to start a server: `tickline serve --page {word}`, as user 7");
            let shown = screen(50).wrap("next    ", &text);
            assert!(shown.contains(&format!("{word}`,")), "{shown}");
            assert!(shown.lines().count() > 1, "{shown}");
        }
    }

    #[test]
    fn a_quote_that_does_not_end_is_part_of_a_word() {
        assert_eq!(words("'a b'; 'c d"), ["'a b';", "'c", "d"]);
        assert_eq!(words(" of  users' 'tsc' "), ["of", "users'", "'tsc'"]);
    }

    /// Symptom: a process named `'` made one long word of the list of readers.
    #[test]
    fn an_apostrophe_ends_no_quoted_word() {
        assert_eq!(words("', 9 it's"), ["',", "9", "it's"]);
        assert_eq!(words("'a\nb'"), ["'a", "b'"]);
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

    /// The lines of a table on a terminal of this width.
    fn table_lines(columns: usize, heads: &[&str], rows: &[&[&str]]) -> Vec<String> {
        let row = |row: &&[&str]| row.iter().map(|&cell| cell.to_owned()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        let mut screen = screen(columns);
        screen.table(heads, &rows);
        screen.text.lines().map(str::to_owned).collect()
    }

    const HEADS: [&str; 3] = ["clock", "cost ns", "answered by"];
    const ROWS: [&[&str]; 2] = [
        &["clock_gettime MONOTONIC", "9.00", "system call"],
        &["\u{1b}x", "-", "-"],
    ];

    #[test]
    fn a_table_has_words_to_the_left_and_figures_to_the_right() {
        assert_eq!(
            table_lines(47, &HEADS, &ROWS),
            [
                "  clock                    cost ns  answered by",
                "  clock_gettime MONOTONIC     9.00  system call",
                "  \u{fffd}x                             -  -",
            ]
        );
    }

    #[test]
    fn a_table_that_is_too_wide_breaks_its_headings_first() {
        let lines = [
            "  clock                    cost  answered by",
            "                             ns",
            "  clock_gettime MONOTONIC  9.00  system call",
            "  \u{fffd}x                          -  -",
        ];
        assert_eq!(table_lines(46, &HEADS, &ROWS), lines);
        assert_eq!(table_lines(44, &HEADS, &ROWS), lines);
    }

    #[test]
    fn a_heading_is_broken_into_two_lines() {
        let lines = table_lines(11, &["times the counter"], &[&["9.00"]]);
        assert_eq!(lines, ["  times the", "    counter", "       9.00"]);
    }

    #[test]
    fn a_table_with_broken_headings_breaks_its_widest_words() {
        let lines = [
            "  clock                   cost  answered by",
            "                            ns",
            "  clock_gettime           9.00  system call",
            "    MONOTONIC",
            "  \u{fffd}x                         -  -",
        ];
        assert_eq!(table_lines(43, &HEADS, &ROWS), lines);
    }

    #[test]
    fn a_table_becomes_paragraphs_where_its_words_have_no_room() {
        let first = |columns| table_lines(columns, &HEADS, &ROWS).swap_remove(0);
        assert!(first(37).starts_with("  clock            "));
        assert_eq!(first(36), "  clock clock_gettime MONOTONIC:");
    }

    /// Symptom: a path was cut in two, with no mark where.
    #[test]
    fn a_table_becomes_paragraphs_rather_than_cut_a_word() {
        let rows: [&[&str]; 1] = [&["see /a/path/of/24/characters", "9"]];
        let first = |columns| table_lines(columns, &["file", "ns"], &rows).swap_remove(0);
        assert!(first(32).starts_with("  file        "));
        assert_eq!(first(31), "  file see");
    }

    #[test]
    fn a_table_as_paragraphs_leaves_empty_cells_out() {
        let row = ["0 and 1", "", "9"].map(str::to_owned).to_vec();
        let mut screen = screen(20);
        screen.paragraphs(&["CPUs", "found here", "ns"], &[row]);
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
