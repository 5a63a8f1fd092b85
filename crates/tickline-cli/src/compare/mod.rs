//! `tickline compare A B`: what differs between two machines, or between two dates.

mod figures;
mod text;

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use self::figures::{Figure, figures};
use crate::args;
use crate::document::Document;
use crate::exit::Exit;
use crate::input;
use crate::output::Outputs;
use crate::wrap::Look;

/// The schema's name. This JSON is a comparison, not a document of a machine.
pub(crate) const SCHEMA: &str = "tickline-compare/1";

/// The comparison of two documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Comparison {
    /// The name and version of this schema.
    schema: &'static str,
    /// The first document.
    first: Side,
    /// The second document.
    second: Side,
    /// The limit of `--above`, percent: costs that differ by no more are equal.
    above_percent: f64,
    /// Facts and figures that differ.
    differences: Vec<Difference>,
    /// Facts that only one document knows; they are no differences.
    known_once: Vec<Difference>,
    /// How many facts and figures are equal.
    equal: usize,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Side {
    /// The file's path, as given.
    file: String,
    /// When the document was written, RFC 3339; null if it does not say.
    taken_at: Option<String>,
    /// The version of the program that wrote it; null if it does not say.
    program_version: Option<String>,
}

/// One fact or figure, in the first document and in the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Difference {
    /// The fact's name, in words.
    name: String,
    /// The figures' unit; null for words.
    unit: Option<&'static str>,
    /// What the first document says; null if it does not know.
    first: Value,
    /// What the second document says; null if it does not know.
    second: Value,
    /// The second figure divided by the first; null for words.
    ratio: Option<f64>,
}

pub(crate) fn run(args: &args::Compare) -> io::Result<Exit> {
    let outputs = Outputs::open(&args.json)?;
    let first = (args.first.as_path(), input::document(&args.first)?);
    let second = (args.second.as_path(), input::document(&args.second)?);
    let found = compare(first, second, args.above);
    outputs.emit(&found, |out| text::write(&found, Look::of_stdout(), out))?;
    Ok(if found.differences.is_empty() { Exit::Fast } else { Exit::Closed })
}

/// A document's file, and the document, as it stands and as the rules read it.
type Read<'a> = (&'a Path, (Value, Document));

/// Compares figures by their names.
fn compare(first: Read<'_>, second: Read<'_>, above_percent: f64) -> Comparison {
    let ((first, left), (second, right)) = (side(first, above_percent), side(second, above_percent));
    let (mut differences, mut known_once, mut equal) = (Vec::new(), Vec::new(), 0);
    let mut differs = |figure: &Figure, first: Value, second: Value| {
        let known = !first.is_null() && !second.is_null();
        let ratio = first.as_f64().zip(second.as_f64()).map(|(first, second)| second / first);
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let difference = Difference { name: figure.name.clone(), unit: figure.unit, first, second, ratio };
        if known { &mut differences } else { &mut known_once }.push(difference);
    };
    for one in &left {
        match right.iter().find(|other| other.name == one.name) {
            None => differs(one, one.value.clone(), one.absent()),
            Some(other) if one.equals(other) => equal += 1,
            Some(other) => differs(one, one.value.clone(), other.value.clone()),
        }
    }
    for other in right.iter().filter(|other| left.iter().all(|one| one.name != other.name)) {
        differs(other, other.absent(), other.value.clone());
    }
    Comparison { schema: SCHEMA, first, second, above_percent, differences, known_once, equal }
}

fn side((file, (document, typed)): Read<'_>, above_percent: f64) -> (Side, Vec<Figure>) {
    let text = |key: &str| document[key].as_str().map(str::to_owned);
    let (file, taken_at) = (file.display().to_string(), text("taken_at"));
    let side = Side { file, taken_at, program_version: text("program_version") };
    (side, figures(&document, &typed, above_percent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(first: &Value, second: &Value) -> Comparison {
        let read = |document: &Value| (Path::new("x.json"), input::parse(&document.to_string()).unwrap());
        compare(read(first), read(second), 10.0)
    }

    fn machine(clocksource: &str, cost_ns: f64, served_by: &str) -> Value {
        json!({
            "schema": "tickline/2",
            "taken_at": "2026-11-21T08:00:00Z",
            "machine": {
                "kernel": "6.1.0", "clocksource": clocksource, "available_clocksources": "tsc hpet acpi_pm",
                "architecture": "x86_64", "cpuid": { "invariant_tsc": true },
                "kernel_log": [clocksource],
            },
            "clock": { "frequency_hz": 2_600_000_000_u64 },
            "costs": [{ "clock": "clock_gettime MONOTONIC", "cost_ns": cost_ns, "served_by": served_by }],
        })
    }

    #[test]
    fn a_machine_that_became_slow_differs_by_names_with_units() {
        let found = compared(&machine("tsc", 25.0, "vdso"), &machine("hpet", 1_000.0, "system_call"));
        let named = |name: &str| {
            found
                .differences
                .iter()
                .find(|one| one.name == name)
                .unwrap_or_else(|| panic!("{name}: {found:?}"))
        };
        assert_eq!((&named("health").first, &named("health").second), (&json!("ok"), &json!("slow")));
        assert_eq!(named("finding tsc_not_chosen").first, json!("not found"));
        assert_eq!(named("clocksource").second, json!("hpet"));
        let cost = named("cost of clock_gettime MONOTONIC");
        assert_eq!((cost.unit, cost.ratio), (Some("ns"), Some(40.0)));
        assert_eq!(named("answered by, clock_gettime MONOTONIC").second, json!("system_call"));
        assert!(found.known_once.is_empty(), "{found:?}");
    }

    #[test]
    fn noise_is_no_difference_and_a_rate_is_compared_more_closely() {
        let (first, mut second) = (machine("tsc", 25.0, "vdso"), machine("tsc", 27.4, "vdso"));
        assert_eq!(compared(&first, &second).differences, []);
        second["costs"][0]["cost_ns"] = 27.6.into();
        assert_eq!(compared(&first, &second).differences.len(), 1);
        second = first.clone();
        second["clock"]["frequency_hz"] = 2_600_200_000_u64.into();
        assert_eq!(compared(&first, &second).differences, [], "77 ppm");
        second["clock"]["frequency_hz"] = 2_600_300_000_u64.into();
        let found = compared(&first, &second);
        assert_eq!(
            (found.differences[0].name.as_str(), found.differences[0].unit),
            ("frequency", Some("Hz"))
        );
    }

    #[test]
    fn what_one_document_does_not_know_is_no_difference() {
        let first = machine("tsc", 25.0, "vdso");
        let mut second = first.clone();
        second["machine"]["kernel"] = Value::Null;
        second["machine"]["vdso_mapped"] = true.into();
        let found = compared(&first, &second);
        assert_eq!(found.differences, []);
        let once: Vec<_> = found.known_once.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(once, ["kernel", "vdso mapped"]);
    }
}
