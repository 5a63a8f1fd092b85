//! Formats the values of the JSON as text, and makes texts of others safe for terminals.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

/// The suffixes of keys, and their units.
const UNITS: [(&str, &str); 9] = [
    ("_ns", "ns"),
    ("_us", "us"),
    ("_s", "s"),
    ("_hz", "Hz"),
    ("_khz", "kHz"),
    ("_mhz", "MHz"),
    ("_ppb", "ppb"),
    ("_percent", "percent"),
    ("_ticks", "ticks"),
];

/// Stable codes that a reader may not know, and the text for each. They have one meaning in all keys.
const CODES: [(&str, &str); 5] = [
    ("vdso", "vDSO"),
    ("system_call", "system call"),
    ("nobody", "nobody: SIGSEGV"),
    ("clock_bound", "clock-bound"),
    ("kernel", "the kernel"),
];

pub(crate) const UNKNOWN: &str = "unknown";

/// A key without its unit suffix, and the unit.
pub(crate) fn split_unit(key: &str) -> (&str, Option<&'static str>) {
    let found = UNITS
        .iter()
        .find_map(|(end, unit)| Some((key.strip_suffix(end)?, Some(*unit))));
    found.unwrap_or((key, None))
}

/// The name of an enumeration's value, as in JSON.
pub(crate) fn code(value: impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

/// A value for a table: figures have two decimals, and a dash stands for an unknown value.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.2}", number.as_f64().unwrap_or_default())
        }
        Value::Number(number) => number.to_string(),
        other => text(other),
    }
}

/// A value with its unit: large frequencies in MHz, times and rates in the unit that suits them.
pub(crate) fn with_unit(value: &Value, unit: Option<&str>) -> String {
    let (Some(unit), Some(number)) = (unit, value.as_f64()) else {
        return text(value);
    };
    match unit {
        "Hz" if number >= 1e6 => format!("{} MHz", grouped(&format!("{:.6}", number / 1e6))),
        "ns" => time(number),
        "us" => time(number * 1e3),
        "s" => time(number * 1e9),
        "ppb" if number.abs() >= 1e7 => short(number / 1e7) + " %",
        "ppb" if number.abs() >= 1e3 => short(number / 1e3) + " ppm",
        _ => format!("{} {unit}", text(value)),
    }
}

/// A value as text.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Value::String(text) => CODES
            .iter()
            .find(|(code, _)| code == text)
            .map_or_else(|| plain(text), |(_, words)| (*words).to_owned()),
        Value::Number(number) => grouped(&number.to_string()),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(inner) => {
            let part = |(key, value): (&String, &Value)| {
                format!("{} {}", key.replace('_', " "), text(value))
            };
            inner.iter().map(part).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A number with commas between groups of three digits before the decimal point.
fn grouped(number: &str) -> String {
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
