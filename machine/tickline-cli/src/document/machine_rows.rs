//! Describes a document's machine in words, as rows for `doctor` and for the report.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Document;
use crate::machine::Ntp;
use crate::words::{UNKNOWN, split_unit, with_unit};

/// For each row: JSON pointers into the document, and the texts for the value at each pointer:
/// `known`, `unknown`, and `no` for false or 0. `codes` has the words for codes. The row leaves out
/// a value for which there is no text.
const ROWS: &str = include_str!("machine_rows.json");

/// The name of each row, and its text.
pub(crate) fn machine_rows(facts: &Document) -> Vec<(String, String)> {
    let mut json = json!({ "machine": facts.machine, "clock": facts.clock });
    let hz = |key: &str| json["clock"][key].as_f64();
    let ppm = hz("frequency_hz").zip(hz("nominal_frequency_hz"));
    let ppm = ppm.map(|(measured, nominal)| format!("{:+.0}", (measured / nominal - 1.0) * 1e6));
    json["clock"]["difference_ppm"] = json!(ppm);
    if facts.clock.bound_ns.is_none() {
        json["clock"]["max_drift_ppb"] = Value::Null;
    }
    let nonzero_events: BTreeMap<_, _> = facts
        .clock
        .events
        .iter()
        .filter(|(_, count)| **count > 0)
        .collect();
    json["clock"]["events"] = if nonzero_events.is_empty() {
        Value::Null
    } else {
        json!(nonzero_events)
    };
    if facts.machine.ntp.is_some() && facts.kernel_claim().is_none() {
        // These figures are the kernel's limits and assumptions, not a daemon's claim.
        json["machine"]["ntp"]["maximum_error_us"] = Value::Null;
        json["machine"]["ntp"]["estimated_error_us"] = Value::Null;
    }
    json["machine"]["rate_ppb"] = json!(facts.machine.ntp.as_ref().map(Ntp::rate_ppb));
    json["machine"]["counters"] = json!(facts.counters());
    json["machine"]["kernel_command_line"] = json!(parameters(facts));
    json["machine"]["kernel_log"] = json!(facts.machine.kernel_log.as_ref().map(Vec::len));
    // A malformed file, which the test finds, gives no rows.
    let rows: Map<String, Value> = serde_json::from_str(ROWS).unwrap_or_default();
    let row = |(name, pointers): (String, Value)| {
        let pointers = pointers.as_object().into_iter().flatten();
        let facts =
            pointers.map(|(at, texts)| describe(at, json.pointer(at).unwrap_or_default(), texts));
        let facts: Vec<_> = facts.filter(|fact| !fact.is_empty()).collect();
        (
            name,
            if facts.is_empty() {
                UNKNOWN.to_owned()
            } else {
                facts.join(", ")
            },
        )
    };
    rows.into_iter().map(row).collect()
}

/// The text for the value at `pointer`; empty if `texts` has none for such a value.
fn describe(pointer: &str, value: &Value, texts: &Value) -> String {
    let key = match value {
        Value::Null => "unknown",
        value if (*value == false || *value == 0) && texts["no"].is_string() => "no",
        _ => "known",
    };
    let words = value
        .as_str()
        .and_then(|code| texts["codes"][code].as_str());
    let words = words.map_or_else(|| with_unit(value, split_unit(pointer).1), str::to_owned);
    texts[key]
        .as_str()
        .unwrap_or_default()
        .replace("{}", &words)
}

/// The words of the kernel's command line that concern clocks; the JSON has the whole line.
fn parameters(facts: &Document) -> Option<String> {
    const TOPICS: [&str; 9] = [
        "tsc",
        "clocksource",
        "hpet",
        "vdso",
        "acpi_pm",
        "no-kvmclock",
        "lpj",
        "nohz",
        "isolcpus",
    ];
    facts.machine.kernel_command_line.as_ref()?;
    let is_topic = |word: &&str| TOPICS.iter().any(|topic| word.contains(topic));
    let words: Vec<&str> = facts.parameters().filter(is_topic).collect();
    Some(if words.is_empty() {
        "nothing about clocks".to_owned()
    } else {
        words.join(" ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the section showed keys of the JSON ("counter_readable no").
    #[test]
    fn the_machine_is_described_in_words() {
        let mut facts: Document = serde_json::from_value(json!({
            "machine": {
                "counter_readable": false,
                "vdso_mapped": true,
                "cpuid": { "invariant_tsc": true, "rdtscp": false, "leaf_15h_hz": 2_600_000_000_u64 },
                "time_namespace": { "monotonic_offset_ns": 0, "boottime_offset_ns": -5_000 },
                "ntp": { "synchronised": true, "tick_us": 10_834, "frequency_ppb": -32_670, "offset_ns": 0,
                    "maximum_error_us": 923_305, "estimated_error_us": 7, "flags": ["UNSYNC", "NANO"] },
                "ntp_daemon": { "name": "chronyd", "synchronised": true, "reference": "PHC0", "stratum": 1,
                    "offset_ns": 480_000_000, "bound_ns": 506_000, "updated_s": 9_000 },
            },
            "clock": { "frequency_hz": 2_599_000_000_u64, "nominal_frequency_hz": 2_600_000_000_u64,
                "utc_unknown": "unsynchronised" },
        }))
        .unwrap();
        facts.clock.events = [("rate_change", 2), ("expiry", 0)].into();
        let rows = machine_rows(&facts);
        let text: String = rows
            .into_iter()
            .map(|(name, text)| format!("{name}: {text}\n"))
            .collect();
        for row in [
            "CPU: unknown\n",
            "counter: 2,599.000000 MHz measured, -385 ppm from nominal, 2,600.000000 MHz nominal (by ",
            "CPUID: invariant TSC, no rdtscp, leaf 15h 2,600.000000 MHz\n",
            "rights: may not read the counter (PR_SET_TSC), vDSO mapped\n",
            "namespace: the machine's monotonic time, boot time -5 us from the machine's\n",
            "NTP: synchronised, within 923 ms of UTC by its claim, probably within 7 us, rate corrected by 8.3 %, flags: UNSYNC; NANO\n",
            "NTP daemon: chronyd, synchronised, follows PHC0, stratum 1, 480 ms left to remove, within 506 us of UTC by its claim, updated 2.5 h ago\n",
            "UTC: not known: the clock is not synchronised\n",
            "events: rate change 2\n",
        ] {
            assert!(text.contains(row), "no {row} in:\n{text}");
        }
        let json = json!({ "machine": facts.machine, "clock": facts.clock });
        let rows: Map<String, Value> = serde_json::from_str(ROWS).unwrap();
        let all = rows.values().filter_map(Value::as_object).flatten();
        let missing: Vec<_> = all
            .clone()
            .map(|(at, _)| at)
            .filter(|at| json.pointer(at).is_none())
            .collect();
        assert_eq!(
            missing,
            ["/clock/difference_ppm", "/machine/rate_ppb"],
            "only derived values"
        );
        let mut keys = all.flat_map(|(_, texts)| texts.as_object().unwrap().keys());
        assert!(keys.all(|key| ["known", "unknown", "no", "codes"].contains(&key.as_str())));
    }
}
