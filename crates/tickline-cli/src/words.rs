//! Values of the JSON in words, for the texts, the report and `compare`.

use serde_json::Value;

use crate::terminal::plain;

/// Units, by the ends of keys.
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

/// Stable names that a reader may not know, and what to show.
const CODES: [(&str, &str); 3] =
    [("vdso", "vDSO"), ("system_call", "system call"), ("nobody", "nobody: SIGSEGV")];

pub(crate) const UNKNOWN: &str = "unknown";

/// A key without the unit that it ends with, and the unit.
pub(crate) fn unit(key: &str) -> (&str, Option<&'static str>) {
    let found = UNITS.iter().find_map(|(end, unit)| Some((key.strip_suffix(end)?, Some(*unit))));
    found.unwrap_or((key, None))
}

/// A figure with two decimals, or a mark for an unknown one.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// A value for a table: figures with two decimals, and a mark for what is unknown.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => figure(None),
        Value::Number(number) if number.is_f64() => figure(number.as_f64()),
        Value::Number(number) => number.to_string(),
        other => text(other),
    }
}

/// A value with its unit; large frequencies in MHz.
pub(crate) fn with_unit(value: &Value, unit: Option<&str>) -> String {
    match (unit, value.as_f64()) {
        (Some("Hz"), Some(hz)) if hz >= 1e6 => format!("{} MHz", grouped(&format!("{:.6}", hz / 1e6))),
        (Some(unit), Some(_)) => format!("{} {unit}", text(value)),
        _ => text(value),
    }
}

/// A value.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Value::String(text) => CODES
            .iter()
            .find(|(code, _)| code == text)
            .map_or_else(|| plain(text), |(_, said)| (*said).to_owned()),
        Value::Number(number) => grouped(&number.to_string()),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(inner) => {
            let part = |(key, value): (&String, &Value)| format!("{} {}", key.replace('_', " "), text(value));
            inner.iter().map(part).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Groups of three digits before the decimal point.
fn grouped(number: &str) -> String {
    let whole = number.find(|character: char| !character.is_ascii_digit() && character != '-');
    let (whole, rest) = number.split_at(whole.unwrap_or(number.len()));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}
