//! Prometheus' text format, 0.0.4 ("Exposition formats" in its documentation).

use std::collections::BTreeMap;

use super::{Key, Times};

/// The quantiles of a summary, as text and number.
const QUANTILES: [(&str, f64); 4] = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999)];

pub(super) fn text(metric: &str, key: Key, all: &BTreeMap<String, Times>) -> String {
    let label = match key {
        Key::Name => "span",
        Key::Target => "target",
        Key::Field(field) => field,
    };
    assert!(is_name(metric), "{metric:?} is no name of a metric in Prometheus");
    assert!(is_label(label), "{label:?} is no name of a label in Prometheus");
    let mut text = format!("# HELP {metric} Times of spans.\n# TYPE {metric} summary\n");
    for (value, times) in all {
        let value = escaped(value);
        for (quantile_text, quantile) in QUANTILES {
            let seconds = seconds(times.histogram.value_at_quantile(quantile));
            text += &format!("{metric}{{{label}=\"{value}\",quantile=\"{quantile_text}\"}} {seconds}\n");
        }
        text += &format!("{metric}_sum{{{label}=\"{value}\"}} {}\n", seconds(times.sum_ns));
        text += &format!("{metric}_count{{{label}=\"{value}\"}} {}\n", times.histogram.len());
    }
    text
}

/// Seconds with nine decimals. An `f64` does not have enough digits for all values.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Names with two underscores are Prometheus' own, and a summary has a label `quantile`.
fn is_label(name: &str) -> bool {
    is_name(name) && !name.starts_with("__") && name != "quantile"
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_quantiles_a_sum_and_a_count() {
        let mut times = Times::new();
        [1_000_000_000, 1_500_000_000].into_iter().for_each(|ns| times.record(ns));
        let all = BTreeMap::from([("a\"b\\c\nd".to_owned(), times)]);
        let text = text("spans_seconds", Key::Field("route"), &all);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE spans_seconds summary");
        let label = "route=\"a\\\"b\\\\c\\nd\"";
        assert!(lines[2].starts_with(&format!("spans_seconds{{{label},quantile=\"0.5\"}} 1.0")), "{text}");
        assert_eq!(lines[6], format!("spans_seconds_sum{{{label}}} 2.500000000"));
        assert_eq!(lines[7..], [format!("spans_seconds_count{{{label}}} 2")]);
    }

    #[test]
    fn names_are_names() {
        assert!(is_name("http_request_seconds") && is_name("_x9"));
        assert!(is_label("route") && !is_label("quantile") && !is_label("__name__") && !is_label("a.b"));
        assert!(!is_name("9x") && !is_name("") && !is_name("http.status") && !is_name("a b"));
    }
}
