//! `--openmetrics`: the main figures for a monitoring system, under names that stay.
//!
//! The text format is that of OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>),
//! as far as it agrees with Prometheus' older text format, which node_exporter's textfile collector
//! reads: gauges only, since the older format has no `info` and no `stateset`.

use std::io::{self, Write};

use jiff::Timestamp;

use crate::diagnose::Level;
use crate::document::Document;
use crate::measure::served_by::ServedBy;

/// Names and values of labels, and the value.
type Sample = (Vec<(&'static str, String)>, f64);

/// A gauge: its name, what it says, and its values. An unknown figure has none.
type Gauge = (&'static str, &'static str, Vec<Sample>);

/// Writes the gauges that have values, and the mark of the end.
pub(crate) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    for (name, help, samples) in gauges(document).iter().filter(|(.., samples)| !samples.is_empty()) {
        writeln!(out, "# TYPE {name} gauge")?;
        if let Some(unit) = ["seconds", "hertz"].into_iter().find(|unit| name.ends_with(unit)) {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
        writeln!(out, "# HELP {name} {help}")?;
        for (labels, value) in samples {
            writeln!(out, "{name}{} {value}", labelled(labels))?;
        }
    }
    writeln!(out, "# EOF")
}

fn labelled(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    // Backslash, quotation mark and line break have escapes.
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// A value without labels.
fn plain(value: Option<f64>) -> Vec<Sample> {
    value.map(|value| (Vec::new(), value)).into_iter().collect()
}

fn state(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// Nanoseconds as seconds.
fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are a hundred days in ns, and more than any frequency in Hz"
)]
fn figure(value: u64) -> f64 {
    value as f64
}

/// All gauges. A name, a label or a unit changes only with the major version of the program.
fn gauges(document: &Document) -> Vec<Gauge> {
    const LEVELS: [(Level, &str); 4] =
        [(Level::Ok, "ok"), (Level::Slow, "slow"), (Level::Wrong, "wrong"), (Level::Unknown, "unknown")];
    let (machine, clock) = (&document.machine, &document.clock);
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let labels = vec![
        ("version", document.program_version.to_string()),
        ("clocksource", known(&machine.clocksource)),
        ("kernel", known(&machine.kernel)),
        ("hypervisor", known(&machine.hypervisor)),
        ("cpu", known(&machine.cpu)),
    ];
    let label = |name, value: &str| vec![(name, value.to_owned())];
    let health = document
        .health
        .iter()
        .flat_map(|health| LEVELS.map(|(level, name)| (label("level", name), state(health.level == level))));
    let findings = document.findings().iter().map(|finding| {
        let severity = ("severity", finding.severity.name().to_owned());
        ([label("code", finding.code), vec![severity]].concat(), 1.0)
    });
    let costs = document.costs.iter();
    let calls = costs
        .clone()
        .filter_map(|row| Some((label("clock", &row.clock), state(row.served_by? == ServedBy::SystemCall))));
    let costs = costs.filter_map(|row| Some((label("clock", &row.clock), seconds(row.cost_ns?))));
    let gates = document.gates.iter().map(|gate| (label("gate", &gate.gate), state(!gate.open)));
    let offset_ns = document.track.as_ref().map(|track| track.largest_offset_ns.abs());
    let taken = document.taken_at.parse::<Timestamp>().ok();
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let taken_s = taken.map(|time| time.as_second() as f64);
    vec![
        ("tickline_machine_info", "The program's version and the machine; always 1.", vec![(labels, 1.0)]),
        ("tickline_health", "How the machine's clocks are: 1 at the level that applies.", health.collect()),
        ("tickline_finding", "A finding of tickline doctor, by its code; always 1.", findings.collect()),
        (
            "tickline_ntp_synchronised",
            "Whether the kernel calls its clock synchronised.",
            plain(machine.ntp.as_ref().map(|ntp| state(ntp.synchronised))),
        ),
        (
            "tickline_clock_call_seconds",
            "What a call of a clock costs, in the fastest round.",
            costs.collect(),
        ),
        (
            "tickline_clock_system_call",
            "Whether each call of a clock is a system call, which the vDSO does not answer.",
            calls.collect(),
        ),
        (
            "tickline_clock_attainable_seconds",
            "What a call of a precise clock would cost if the vDSO read the counter.",
            plain(document.attainable_ns().map(seconds)),
        ),
        (
            "tickline_counter_used",
            "Whether tickline reads the CPU's counter.",
            plain(Some(state(document.fast))),
        ),
        ("tickline_gate_closed", "Whether a gate keeps tickline from the counter.", gates.collect()),
        (
            "tickline_counter_hertz",
            "The counter's frequency as measured.",
            plain(clock.frequency_hz.map(figure)),
        ),
        (
            "tickline_offset_seconds",
            "The largest offset of tickline from CLOCK_MONOTONIC that was seen, of either sign.",
            plain(offset_ns.map(seconds)),
        ),
        (
            "tickline_bound_seconds",
            "The bound that tickline states for that offset at present.",
            plain(clock.bound_ns.map(figure).map(seconds)),
        ),
        (
            "tickline_utc_error_seconds",
            "The kernel's bound of the distance of Unix time from UTC.",
            plain(clock.utc_error_ns.map(figure).map(seconds)),
        ),
        (
            "tickline_page_readers",
            "Processes that have the page of tickline serve mapped.",
            plain(machine.page_readers.map(|readers| figure(readers as u64))),
        ),
        ("tickline_taken_timestamp_seconds", "When this was measured, Unix time.", plain(taken_s)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that dashboards and alarms use, with units and escapes: a change here breaks them.
    #[test]
    fn the_text_is_what_collectors_read() {
        let mut document: Document = serde_json::from_value(serde_json::json!({
            "program_version": "1.0",
            "taken_at": "1970-01-01T00:00:07Z",
            "machine": { "cpu": "x\"y\\z\n", "kernel": "6.1", "clocksource": "hpet", "hypervisor": "none",
                "architecture": "x86_64", "available_clocksources": "hpet tsc", "kernel_log": [], "page_readers": 3,
                "ntp": { "synchronised": true, "tick_us": 10_000, "frequency_ppb": 0, "offset_ns": 0,
                    "maximum_error_us": 0, "estimated_error_us": 0 } },
            "clock": { "frequency_hz": 2_000_000_000_u64, "bound_ns": 20, "utc_error_ns": 1_500_000_000 },
            "gates": [{ "gate": "exists", "open": true }, { "gate": "kernel", "open": false }],
            "costs": [
                { "clock": "lfence; rdtsc", "cost_ns": 20.0 },
                { "clock": "clock_gettime MONOTONIC", "cost_ns": 1_000.0, "served_by": "system_call" },
                { "clock": "clock_gettime MONOTONIC_COARSE", "cost_ns": 5.0, "served_by": "vdso" },
            ],
        }))
        .unwrap();
        document.track = Some(crate::document::TrackSummary {
            largest_offset_ns: 12.5,
            largest_bound_ns: 20,
            outside_bracket: 0,
            bound_violated: 0,
            points: Vec::new(),
        });
        document.diagnose();
        let mut out = Vec::new();
        write(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, include_str!("openmetrics.txt"));
    }
}
