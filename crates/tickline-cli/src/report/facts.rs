//! Data as tables, by their keys. A table shows every key of a document; a new key needs no change
//! here.

use maud::{Markup, html};
use serde_json::{Map, Value};

/// A table of an object's values. The keys of inner objects follow the outer key. An object of
/// counts (numbers without units) is one row, without the zeros.
pub(super) fn table(value: &Value) -> Markup {
    let mut rows = Vec::new();
    collect(value, "", &mut rows);
    html! {
        table.facts {
            tbody {
                @for (key, text) in rows {
                    tr { th scope="row" { (key) } td.quiet[text == UNKNOWN] { (text) } }
                }
            }
        }
    }
}

const UNKNOWN: &str = "unknown";

fn collect(value: &Value, key: &str, rows: &mut Vec<(String, String)>) {
    let Value::Object(inner) = value else { return rows.push((key.to_owned(), text(value))) };
    let is_count = |(name, value): (&String, &Value)| value.is_number() && words(name).1.is_none();
    if !inner.is_empty() && inner.iter().all(is_count) {
        let seen: Map<_, _> = inner.clone().into_iter().filter(|(_, count)| *count != 0).collect();
        let seen = if seen.is_empty() { "none".to_owned() } else { text(&Value::Object(seen)) };
        return rows.push((key.to_owned(), seen));
    }
    for (name, value) in inner {
        let (words, unit) = words(name);
        let key = if key.is_empty() { words } else { format!("{key}, {words}") };
        match unit.filter(|_| value.is_number()) {
            Some(unit) => rows.push((key, format!("{} {unit}", text(value)))),
            None => collect(value, &key, rows),
        }
    }
}

/// Names for keys that a reader may not know. Other keys are shown with spaces in place of
/// underscores.
const NAMES: &str = include_str!("names.txt");

/// A key in words, and the unit that it ends with.
fn words(key: &str) -> (String, Option<&str>) {
    let (name, unit) = match key.rsplit_once('_') {
        Some((name, unit @ ("ns" | "ppb" | "ticks" | "s"))) => (name, Some(unit)),
        Some((name, "hz")) => (name, Some("Hz")),
        Some((name, "khz")) => (name, Some("kHz")),
        Some((name, "mhz")) => (name, Some("MHz")),
        Some((name, "us")) => (name, Some("µs")),
        _ => (key, None),
    };
    let mut names = NAMES.lines().filter_map(|line| line.split_once(" = "));
    let named = names.find(|(known, _)| *known == key || *known == name);
    (named.map_or_else(|| name.replace('_', " "), |(_, name)| name.to_owned()), unit)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => grouped(&number.to_string()),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(inner) => {
            let part = |(key, value): (&String, &Value)| format!("{} {}", words(key).0, text(value));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_become_words_and_units() {
        let value = json!({
            "frequency_hz": 2_596_120_122.5, "offset_ns": -123_456, "tick": 123, "kernel": null, "flags": ["a", "b"], "none": [],
            "cpuid": {"invariant": true, "leaf_15_hz": 5},
            "events": {"rate_change": 2, "expiry": 0}
        });
        let mut rows = Vec::new();
        collect(&value, "", &mut rows);
        let expected = [
            ("frequency, measured", "2,596,120,122.5 Hz"),
            ("offset", "-123,456 ns"),
            ("length of a hundredth of a second", "123"),
            ("kernel's release", "unknown"),
            ("flags", "a; b"),
            ("none", "none"),
            ("CPUID, invariant", "yes"),
            ("CPUID, leaf 15", "5 Hz"),
            ("events", "rate change 2"),
        ];
        assert_eq!(rows, expected.map(|(key, text)| (key.to_owned(), text.to_owned())));
    }
}
