//! Data as tables, by their keys. The tables show every key of a document without a list of keys
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
    match value {
        Value::Object(counts)
            if !counts.is_empty() && counts.values().all(Value::is_number) && unitless(counts) =>
        {
            let seen: Map<String, Value> = counts
                .iter()
                .filter(|(_, count)| **count != 0)
                .map(|(name, count)| (name.clone(), count.clone()))
                .collect();
            rows.push((
                key.to_owned(),
                if seen.is_empty() { "none".to_owned() } else { text(&Value::Object(seen)) },
            ));
        }
        Value::Object(inner) => {
            for (name, value) in inner {
                let (words, unit) = words(name);
                let key = if key.is_empty() { words } else { format!("{key}, {words}") };
                match (value, unit) {
                    (Value::Number(number), Some(unit)) => {
                        rows.push((key, format!("{} {unit}", grouped(&number.to_string()))))
                    }
                    _ => collect(value, &key, rows),
                }
            }
        }
        _ => rows.push((key.to_owned(), text(value))),
    }
}

/// Whether no key names a unit, as in an object of counts.
fn unitless(values: &Map<String, Value>) -> bool {
    values.keys().all(|key| words(key).1.is_none())
}

/// A key in words, and the unit that it ends with.
fn words(key: &str) -> (String, Option<&'static str>) {
    const UNITS: [(&str, &str); 5] =
        [("_ns", "ns"), ("_hz", "Hz"), ("_ppb", "ppb"), ("_us", "µs"), ("_s", "s")];
    let unit = UNITS.iter().find_map(|(suffix, unit)| Some((key.strip_suffix(suffix)?, *unit)));
    let (name, unit) = unit.map_or((key, None), |(name, unit)| (name, Some(unit)));
    (name.replace('_', " "), unit)
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
    fn numbers_are_grouped() {
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
    fn keys_become_words_and_units() {
        let value = json!({
            "frequency_hz": 2_596_120_122_u64, "kernel": null, "flags": ["a", "b"], "none": [],
            "cpuid": {"invariant": true, "leaf_15_hz": 5},
            "events": {"rate_change": 2, "expiry": 0}
        });
        let mut rows = Vec::new();
        collect(&value, "", &mut rows);
        let expected = [
            ("frequency", "2,596,120,122 Hz"),
            ("kernel", "unknown"),
            ("flags", "a; b"),
            ("none", "none"),
            ("cpuid, invariant", "yes"),
            ("cpuid, leaf 15", "5 Hz"),
            ("events", "rate change 2"),
        ];
        assert_eq!(rows, expected.map(|(key, text)| (key.to_owned(), text.to_owned())));
    }
}
