//! A guest's report: the lines of JSON that the guest sends, one for each phase. Only the fields
//! that xtask reads are here. A field that a phase does not have is `None`, and satisfies no rule.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One phase of a report. `tests/vm/guest` writes it, and explains the figures.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Phase {
    /// The phase's name.
    pub(super) phase: String,
    /// The phase's length by the guest's clock.
    pub(super) ms: Option<u64>,
    /// The error with which the guest, or a program, gave up.
    pub(super) error: Option<String>,

    // What the guest or this machine lacks: what it is, and the program that lacks it.
    pub(super) what: Option<String>,
    pub(super) program: Option<String>,

    // The machine (`machine.rs`).
    pub(super) kernel: Option<String>,
    pub(super) clocksource: Option<String>,
    /// The clocksources that the kernel offers, separated by spaces.
    pub(super) clocksources: Option<String>,

    // A clock, watched (`brackets.rs`).
    /// The state of the clock; for a step of the package, of the unit.
    pub(super) state: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) reasons: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) comparison: Comparison,
    pub(super) narrowest_bracket_ns: Option<u64>,
    pub(super) ahead_ns: Option<u64>,
    pub(super) behind_ns: Option<u64>,
    pub(super) far_percent: Option<u64>,
    pub(super) fast_percent: Option<u64>,
    pub(super) bounded_percent: Option<u64>,
    pub(super) bound_violated: Option<u64>,
    pub(super) widest_bound_ns: Option<u64>,
    pub(super) unix_outside_ns: Option<u64>,
    pub(super) unix_bound_violated: Option<u64>,
    pub(super) unix_widest_bound_ns: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) readers: Readers,
    #[serde(deserialize_with = "or_default")]
    pub(super) work: Work,
    #[serde(deserialize_with = "or_default")]
    pub(super) cost: Cost,

    // A program's output (`report.rs` and `doctor.rs` of the guest).
    pub(super) exit_code: Option<u64>,
    pub(super) errors: Option<String>,
    #[serde(deserialize_with = "if_it_fits")]
    pub(super) output: Output,
    pub(super) finding: Option<Finding>,
    pub(super) kernel_synchronised: Option<bool>,

    // `tickline who`, and the program that asks (`who.rs`).
    #[serde(deserialize_with = "or_default")]
    pub(super) who: Who,
    #[serde(deserialize_with = "or_default")]
    pub(super) asker: Caller,
    pub(super) first_is_asker: Option<bool>,
    pub(super) asker_rows: Option<u64>,
    pub(super) rows: Option<u64>,
    pub(super) counted_permille: Option<u64>,
    pub(super) core_permille: Option<u64>,
    pub(super) fixed_core_permille: Option<u64>,

    // `tickline watch` (`migrate.rs`).
    pub(super) jumps: Option<u64>,

    // A static program, served (`served.rs`).
    /// The last reading of the program that ran before.
    pub(super) last_ns_before: Option<u64>,
    /// The messages of the server.
    pub(super) server: Option<String>,

    // Readings of UTC (`utc/counts.rs`).
    pub(super) readings: Option<u64>,
    pub(super) answered: Option<u64>,
    pub(super) missed: Option<u64>,
    pub(super) missed_ns: Option<u64>,
    pub(super) narrowest_ns: Option<u64>,
    /// The number of readings of each kind, and the time of the last one.
    pub(super) kinds: Kinds,
    pub(super) after_ms: Kinds,
    /// The kinds in the order of their first readings.
    pub(super) in_order: Vec<String>,

    // A program on Debian (`programs.rs`).
    pub(super) messages: Option<String>,
    pub(super) lead_ns: Option<u64>,
    pub(super) unix_lead_ns: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) counted: Counted,
    #[serde(deserialize_with = "or_default")]
    pub(super) monotonic: Readings,
    #[serde(deserialize_with = "or_default")]
    pub(super) realtime: Readings,
    pub(super) ns: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) figures: Figures,
    #[serde(deserialize_with = "or_default")]
    pub(super) native: Native,

    // Programs that exchange readings (`programs/exchange.rs`).
    pub(super) answers: Option<u64>,
    pub(super) calls: Option<u64>,
    pub(super) backward: Option<u64>,
    pub(super) below_others: Option<u64>,
    pub(super) is_served: Option<bool>,
    /// Whether a page was served at the end of each state of the server.
    pub(super) served: Vec<bool>,

    // A step of the package, or of its unit (`programs/units.rs`).
    pub(super) command: Option<String>,
    pub(super) done: Option<bool>,
    pub(super) reached: Option<bool>,
    pub(super) serving: Option<bool>,
}

/// The comparison of the CPUs' counters.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Comparison {
    pub(super) found: Option<String>,
}

/// The counts of the threads that read all the time.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Readers {
    pub(super) readings: Option<u64>,
    pub(super) exchanges: Option<u64>,
    pub(super) backward: Option<u64>,
    pub(super) backward_in_thread: Option<u64>,
    pub(super) largest_backward_ns: Option<u64>,
    pub(super) os_largest_backward_ns: Option<u64>,
}

/// What an act reports.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Work {
    pub(super) done: Option<bool>,
    pub(super) reached: Option<bool>,
    pub(super) after_us: Option<u64>,
    pub(super) beyond_interval_us: Option<u64>,
    pub(super) unreported_ms: Option<u64>,
    pub(super) outside_ms: Option<u64>,
    pub(super) disrupted_ms: Option<u64>,
    pub(super) slept_ms: Option<u64>,
    pub(super) ahead_us: Option<u64>,
    pub(super) grown_ns: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) synchronised: Waited,
    #[serde(deserialize_with = "or_default")]
    pub(super) back: Waited,
    #[serde(deserialize_with = "or_default")]
    pub(super) claims: Claims,
}

/// How far the claims of a source missed (`claims.rs`).
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Claims {
    pub(super) asked: Option<u64>,
    pub(super) missed_ns: Option<u64>,
    pub(super) rate_missed_ppb: Option<u64>,
}

/// Whether an event was seen in time.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Waited {
    pub(super) reached: Option<bool>,
}

/// The costs of calls.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Cost {
    pub(super) os_to_now_percent: Option<u64>,
}

/// The JSON that a program prints.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Output {
    pub(super) fast: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub(super) health: Health,
    pub(super) first_ns: Option<u64>,
    pub(super) call_ns: Option<u64>,
    pub(super) backward: Option<u64>,
    pub(super) messages: Option<u64>,
    pub(super) refused: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) machine: OutputMachine,
}

/// The part `health` of the output of the program `tickline`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Health {
    pub(super) level: Option<String>,
}

/// The part `machine` of the output of the program `tickline`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct OutputMachine {
    pub(super) counter_difference_ticks: Option<i64>,
}

/// A finding of the program `tickline`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Finding {
    pub(super) code: Option<String>,
    pub(super) fix: Option<String>,
    pub(super) gain_ratio: Option<f64>,
}

/// The part `who` of the output of `tickline who`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Who {
    pub(super) instead: Vec<String>,
    pub(super) lost_calls: Option<u64>,
}

/// A row of `tickline who`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Caller {
    pub(super) process: Option<String>,
    pub(super) clock: Option<String>,
}

/// A figure for each kind of readings of UTC: their source, or why there is none.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Kinds {
    pub(super) chronyd: Option<u64>,
    pub(super) clock_bound: Option<u64>,
    pub(super) kernel: Option<u64>,
    pub(super) leap_second: Option<u64>,
    pub(super) disrupted: Option<u64>,
}

/// The system calls that strace has counted for a number of calls, and the server's messages
/// meanwhile.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Counted {
    pub(super) calls: Option<u64>,
    pub(super) served_clocks: Option<u64>,
    pub(super) server: Option<String>,
}

/// A program's readings of one clock.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Readings {
    pub(super) calls: Option<u64>,
    pub(super) backward: Option<u64>,
    pub(super) below_os_ns: Option<u64>,
    pub(super) above_os_ns: Option<u64>,
}

/// Postgres' own figures.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    pub(super) pg_test_timing_ns: Option<f64>,
    pub(super) explain_on_ms: Option<f64>,
    pub(super) explain_off_ms: Option<f64>,
}

/// The figures of the same program without tickline.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Native {
    pub(super) ns: Option<f64>,
    /// The cost of a call in the fastest batch of a static program.
    pub(super) call_ns: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) figures: Figures,
}

impl Phase {
    /// The phase that says that this machine lacks a requirement.
    pub(super) fn unavailable(what: &str) -> Self {
        Self {
            phase: "unavailable".to_owned(),
            what: Some(what.to_owned()),
            ..Self::default()
        }
    }

    /// The code of the first finding that the program `tickline` printed.
    pub(super) fn finding_code(&self) -> Option<&str> {
        self.finding.as_ref()?.code.as_deref()
    }
}

/// All phases of this name.
pub(super) fn named<'a>(phases: &'a [Phase], name: &'a str) -> impl Iterator<Item = &'a Phase> {
    phases.iter().filter(move |phase| phase.phase == name)
}

/// A part of a phase, or its default where the guest sends `null`.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A part of a phase, or its default if it is something else: programs print what they like.
fn if_it_fits<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    from: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::files;

    #[test]
    fn what_a_phase_lacks_or_has_as_null_is_none() {
        let phase = json!({ "phase": "before", "reason": null, "work": null, "finding": null,
            "output": null, "readers": { "backward": 3 }, "unknown": [1] });
        let phase: Phase = serde_json::from_value(phase).unwrap();
        assert_eq!(phase.reason, None);
        assert_eq!(phase.work.done, None);
        assert_eq!(phase.readers.backward, Some(3));
        assert_eq!(phase.readers.readings, None);
    }

    #[test]
    fn only_the_output_of_a_program_may_be_anything() {
        let of = |phase| serde_json::from_value::<Phase>(phase);
        assert!(of(json!({ "phase": "journal", "output": "a text" })).is_ok());
        assert!(of(json!({ "phase": "end", "readers": "a text" })).is_err());
        assert!(of(json!({ "phase": "end", "missed_ns": -1 })).is_err());
        let output = json!({ "phase": "limiter", "output": { "refused": 49 } });
        assert_eq!(of(output).unwrap().output.refused, Some(49));
    }

    /// Adds the text of each file in a folder.
    fn add_texts(folder: &Path, text: &mut String) {
        for path in files::entries(folder) {
            if path.is_dir() {
                add_texts(&path, text);
            } else {
                text.push_str(&files::read(&path).unwrap());
            }
        }
    }

    /// The names of the fields of this struct.
    fn fields(item: &syn::ItemStruct) -> impl Iterator<Item = String> {
        let fields = item.fields.iter();
        fields.filter_map(|field| Some(field.ident.as_ref()?.to_string()))
    }

    /// A field is written as a key, `"name"`, or as the field of a struct, `name: `.
    fn is_written(field: &str, text: &str) -> bool {
        let starts = ["", "pub(super) ", "pub(crate) "];
        let starts = starts.map(|visibility| format!("{visibility}{field}: "));
        let mut lines = text.lines().map(str::trim_start);
        text.contains(&format!("\"{field}\""))
            || lines.any(|line| starts.iter().any(|start| line.starts_with(start)))
    }

    #[test]
    fn the_guest_or_its_programs_write_each_field() {
        let texts = |folders: &[&str]| {
            let mut text = String::new();
            for folder in folders {
                add_texts(&files::root().join(folder), &mut text);
            }
            text
        };
        let guest = texts(&["tests/vm/guest/src", "tests/vm/programs"]);
        let tickline = texts(&["machine/tickline-cli/src"]);
        let callers = texts(&["tests/vm/guest/src", "tests/vm/limiter/src"]);
        let kinds = texts(&["crates/tickline-utc/src"]);
        let source = files::read("xtask/src/vm/report.rs").unwrap();
        let mut count = 0;
        for item in syn::parse_file(&source).unwrap().items {
            let syn::Item::Struct(item) = item else {
                continue;
            };
            let writers = match item.ident.to_string().as_str() {
                "Output" => [&callers, &tickline],
                "Health" | "OutputMachine" | "Finding" | "Who" | "Caller" => [&tickline; 2],
                "Kinds" => [&kinds; 2],
                _ => [&guest; 2],
            };
            for field in fields(&item) {
                let is_written = writers.iter().any(|text| is_written(&field, text));
                assert!(is_written, "{}: nothing writes {field}", item.ident);
                count += 1;
            }
        }
        assert!(count > 100, "{count}");
    }
}
