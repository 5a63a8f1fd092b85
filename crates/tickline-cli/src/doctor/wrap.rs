//! Paragraphs that fit a terminal.

use crate::terminal::plain;

/// The widest line, columns.
pub(super) const WIDTH: usize = 100;

/// Breaks a text at its spaces: the first line starts with `first`, the others with as many spaces. A word that is longer than
/// a line, as a path may be, stays whole. Facts may come from another machine's file, so control characters are marks.
pub(super) fn wrap(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let (mut lines, mut line, mut width) = (String::new(), first.to_owned(), indent);
    for word in text.split_whitespace().map(plain) {
        let length = word.chars().count();
        if width > indent && width + 1 + length > WIDTH {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
            width = indent;
        }
        if width > indent {
            line.push(' ');
            width += 1;
        }
        line.push_str(&word);
        width += length;
    }
    lines + line.trim_end()
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
