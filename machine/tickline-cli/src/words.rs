//! Formats figures as text, makes texts of others safe for terminals, and names files in errors.

use std::io;
use std::path::Path;

use tickline_utc::UtcSource;

use crate::float::{as_f64, signed_f64};

pub(crate) const UNKNOWN: &str = "unknown";

/// A frequency, Hz; a large one in MHz.
pub(crate) fn frequency(hz: u64) -> String {
    if hz >= 1_000_000 {
        format!("{} MHz", grouped(format!("{:.6}", as_f64(hz) / 1e6)))
    } else {
        format!("{} Hz", grouped(hz))
    }
}

/// A rate, ppb, in the unit that suits it.
pub(crate) fn rate(ppb: i64) -> String {
    match signed_f64(ppb) {
        large if large.abs() >= 1e7 => short(large / 1e7) + " %",
        middle if middle.abs() >= 1e3 => short(middle / 1e3) + " ppm",
        _ => format!("{} ppb", grouped(ppb)),
    }
}

/// The source of a claim about UTC, in words; `code` is the code of the library, or of another
/// version of it.
pub(crate) fn source_name(code: &str) -> String {
    match UtcSource::ALL.iter().find(|source| source.code() == code) {
        // Its own text says that the claim is the kernel's maximum error.
        Some(UtcSource::Kernel) => "the kernel".to_owned(),
        Some(source) => source.to_string(),
        None => plain(code),
    }
}

/// A figure for a table, with two decimals; a dash stands for an unknown figure.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.2}"),
        _ => "-".to_owned(),
    }
}

/// A value for a table; a dash stands for an unknown value.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A number with commas between groups of three digits before the decimal point.
pub(crate) fn grouped(number: impl ToString) -> String {
    let number = number.to_string();
    let digits = number.trim_start_matches('-');
    let sign = &number[..number.len() - digits.len()];
    let whole = digits
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(whole);
    let groups: Vec<_> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    format!("{sign}{}{rest}", groups.join(","))
}

/// A time with at most three digits, in the unit that suits it.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => (ns, "ns"),
        size if size < 1e6 => (ns / 1e3, "us"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        size if size < 7.2e12 => (ns / 1e9, "s"),
        _ => (ns / 3.6e12, "h"),
    };
    let figure = if value.abs() < 100.0 {
        short(value)
    } else {
        format!("{value:.0}")
    };
    format!("{figure} {unit}")
}

/// A figure with one decimal, unless that is 0.
fn short(figure: f64) -> String {
    format!("{figure:.1}").replace(".0", "")
}

/// A text that is safe for a terminal: a mark replaces each character that steers the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|character| {
            if is_steering(character) {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

/// Whether a character is a control character, or changes the direction of a line (`Bidi_Control`,
/// Unicode Standard Annex 9).
fn is_steering(character: char) -> bool {
    let turns = [
        '\u{61c}'..='\u{61c}',
        '\u{200e}'..='\u{200f}',
        '\u{202a}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
    ];
    character.is_control() || turns.iter().any(|turns| turns.contains(&character))
}

/// The path of a file that is safe for a terminal, as [`plain`] makes it.
pub(crate) fn plain_path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// The text as one word of a POSIX shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+,:@%=".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The error with the path in its message.
pub(crate) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_other_characters_is_quoted_for_a_shell() {
        for (text, word) in [
            ("/run/page.v1", "/run/page.v1"),
            ("/my page", "'/my page'"),
            ("/it's", r"'/it'\''s'"),
            ("/$HOME", "'/$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn a_source_of_utc_has_its_name_or_its_code() {
        for source in UtcSource::ALL {
            assert!(!source_name(source.code()).contains('_'), "{source:?}");
        }
        assert_eq!(source_name("of_a_later_version"), "of_a_later_version");
    }

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in [
            ("1", "1"),
            ("123", "123"),
            ("1234", "1,234"),
            ("-123456", "-123,456"),
            ("2596120122.5", "2,596,120,122.5"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (8.84, "8.8 ns"),
            (168.1, "168 ns"),
            (-20.0, "-20 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1 us"),
            (1_500.0, "1.5 us"),
            (1e6, "1 ms"),
            (1e9, "1 s"),
            (7.1e12, "7100 s"),
            (7.2e12, "2 h"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn a_rate_has_the_unit_that_suits_it() {
        assert_eq!(rate(-999), "-999 ppb");
        assert_eq!(rate(1_000), "1 ppm");
        assert_eq!(rate(-32_670), "-32.7 ppm");
        assert_eq!(rate(10_000_000), "1 %");
    }

    #[test]
    fn a_frequency_has_the_unit_that_suits_it() {
        assert_eq!(frequency(999_999), "999,999 Hz");
        assert_eq!(frequency(1_000_000), "1.000000 MHz");
    }

    #[test]
    fn an_unknown_figure_is_a_dash() {
        assert_eq!(figure(Some(1.005_9)), "1.01");
        assert_eq!(figure(Some(f64::INFINITY)), "-");
        assert_eq!(figure(None), "-");
        assert_eq!(or_dash(Some(7)), "7");
        assert_eq!(or_dash(None::<u64>), "-");
    }

    #[test]
    fn characters_that_steer_a_terminal_are_replaced() {
        assert_eq!(
            plain("\u{1b}[2J\u{9b}2J\r\u{7f}\u{202e}Intel(R) é"),
            "\u{fffd}[2J\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}Intel(R) é"
        );
    }
}
