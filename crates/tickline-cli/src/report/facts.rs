//! Data as tables, by their keys. A table shows every key of a document; a new key needs no change
//! here.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::words::{UNKNOWN, text, unit, with_unit};

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

fn collect(value: &Value, key: &str, rows: &mut Vec<(String, String)>) {
    let Value::Object(inner) = value else { return };
    let is_count = |(name, value): (&String, &Value)| value.is_number() && words(name).1.is_none();
    if !inner.is_empty() && inner.iter().all(is_count) {
        let seen: Map<_, _> = inner.clone().into_iter().filter(|(_, count)| *count != 0).collect();
        let seen = if seen.is_empty() { "none".to_owned() } else { text(&Value::Object(seen)) };
        return rows.push((key.to_owned(), seen));
    }
    for (name, value) in inner {
        let (words, unit, absent) = words(name);
        let key = if key.is_empty() { words } else { format!("{key}, {words}") };
        match value {
            Value::Object(_) => collect(value, &key, rows),
            Value::Null => rows.push((key, absent.to_owned())),
            _ => rows.push((key, with_unit(value, unit))),
        }
    }
}

/// Names for keys that a reader may not know, and what null means there, unless it is unknown. Other
/// keys are shown with spaces in place of underscores.
const NAMES: &str = include_str!("names.txt");

/// A key in words, the unit that it ends with, and what null means.
fn words(key: &str) -> (String, Option<&'static str>, &'static str) {
    let (name, unit) = unit(key);
    let mut names = NAMES.lines().filter_map(|line| line.split_once(" = "));
    let named = names.find(|(known, _)| *known == key || *known == name);
    match named.map(|(_, name)| name.split_once(" | ").unwrap_or((name, UNKNOWN))) {
        Some((name, absent)) => (name.to_owned(), unit, absent),
        None => (name.replace('_', " "), unit, UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_become_words_and_units() {
        let value = json!({
            "frequency_hz": 2_596_120_122_u64, "offset_ns": -123_456, "tick": 123, "kernel": null, "cloud": null, "interval_ns": 388_888_888, "flags": ["a", "b"], "none": [],
            "cpuid": {"invariant": true, "leaf_15_hz": 5},
            "events": {"rate_change": 2, "expiry": 0}
        });
        let mut rows = Vec::new();
        collect(&value, "", &mut rows);
        let expected = [
            ("frequency, measured", "2,596.120122 MHz"),
            ("offset", "-123.5 us"),
            ("length of a hundredth of a second", "123"),
            ("kernel's release", "unknown"),
            ("cloud, by the firmware", "none that is known here"),
            ("time between two recalibrations", "388.9 ms"),
            ("flags", "a; b"),
            ("none", "none"),
            ("CPUID, invariant", "yes"),
            ("CPUID, leaf 15", "5 Hz"),
            ("events", "rate change 2"),
        ];
        assert_eq!(rows, expected.map(|(key, text)| (key.to_owned(), text.to_owned())));
    }
}
