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

/// Names for keys that a reader may not know. Other keys are shown with spaces in place of
/// underscores.
const NAMES: [(&str, &str); 38] = [
    ("cpu", "processor"),
    ("kernel", "kernel's release"),
    ("kernel_command_line", "kernel's command line"),
    ("clocksource", "clocksource: what the kernel keeps time with"),
    ("available_clocksources", "clocksources that the kernel lists"),
    ("cloud", "cloud, by the firmware"),
    ("product", "vendor and product, by the firmware"),
    ("cpuid", "CPUID"),
    ("invariant_tsc", "counter of one rate in all power states (invariant TSC)"),
    ("tsc_adjust", "counter can be adjusted (TSC_ADJUST)"),
    ("leaf_15h", "counter's frequency (leaf 15h)"),
    ("leaf_16h_base", "base frequency (leaf 16h)"),
    ("counter_readable", "process may read the counter"),
    ("vdso_mapped", "kernel answers in the process (vDSO mapped)"),
    ("vsyscall64", "setting vsyscall64"),
    ("tracer_pid", "process that traces this one (0: none)"),
    ("clock_gettime_file", "clock_gettime comes from"),
    ("clock_gettime_difference", "time by clock_gettime minus that by the kernel"),
    ("time_namespace", "time namespace"),
    ("monotonic_offset", "monotonic time ahead of the machine's"),
    ("boottime_offset", "boot time ahead of the machine's"),
    ("children_elsewhere", "children receive another one"),
    ("allowed_cpus", "CPUs that this process may use"),
    ("online_cpus", "CPUs that are online"),
    ("ntp", "NTP"),
    ("tick", "length of a hundredth of a second"),
    ("maximum_error", "distance from UTC, at most, by the daemon"),
    ("estimated_error", "distance from UTC, probably, by the daemon"),
    ("counters", "counters of the CPUs"),
    ("counter_difference", "least difference of two CPUs' counters"),
    ("frequency_hz", "frequency, measured"),
    ("frequency_ppb", "correction of the rate"),
    ("nominal_frequency", "frequency, by processor or hypervisor"),
    ("bound", "bound: how far a reading may be off"),
    ("max_drift", "maximum drift: the rates that the bound allows for"),
    ("interval", "time between two recalibrations"),
    ("utc_error", "distance from UTC, at most"),
    ("thread_error", "why the clock has no thread"),
];

/// A key in words, and the unit that it ends with.
fn words(key: &str) -> (String, Option<&'static str>) {
    const UNITS: [(&str, &str); 8] = [
        ("_ns", "ns"),
        ("_khz", "kHz"),
        ("_mhz", "MHz"),
        ("_hz", "Hz"),
        ("_ppb", "ppb"),
        ("_us", "µs"),
        ("_ticks", "ticks"),
        ("_s", "s"),
    ];
    let unit = UNITS.iter().find_map(|(suffix, unit)| Some((key.strip_suffix(suffix)?, *unit)));
    let (name, unit) = unit.map_or((key, None), |(name, unit)| (name, Some(unit)));
    let named = NAMES.iter().find(|(known, _)| *known == key || *known == name);
    (named.map_or_else(|| name.replace('_', " "), |(_, name)| (*name).to_owned()), unit)
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
            ("frequency, measured", "2,596,120,122 Hz"),
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
