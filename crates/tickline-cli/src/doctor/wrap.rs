//! Paragraphs that fit a terminal.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use crate::terminal::plain;

/// The widest line, columns.
pub(super) const WIDTH: usize = 100;

/// Breaks a text at its spaces. The first line starts with `first`, the others with as many
/// spaces. A word that is longer than a line, such as a path, stays whole. Facts may come from
/// another machine's file, so control characters become marks.
pub(super) fn wrap(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let options = Options::new(WIDTH)
        .initial_indent(first)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    textwrap::fill(&words.join(" "), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_no_word_is_lost() {
        let text = "word ".repeat(50) + &"long".repeat(40) + " end";
        let wrapped = wrap("  fix: ", &text);
        assert_eq!(
            wrapped.replace("  fix: ", "").split_whitespace().collect::<Vec<_>>(),
            text.split(' ').collect::<Vec<_>>()
        );
        for line in wrapped.lines().filter(|line| !line.contains("longlong")) {
            assert!(line.len() <= WIDTH, "{line}");
        }
        assert!(
            wrapped.lines().skip(1).all(|line| line.starts_with("       ") && !line.starts_with("        "))
        );
        assert_eq!(wrap("", ""), "");
        assert_eq!(wrap("seen: ", "hpet\u{1b}[2J"), "seen: hpet\u{fffd}[2J");
    }
}
