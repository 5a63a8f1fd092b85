//! The document as text for people: the verdict, the findings, then the facts.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::diagnose::{Finding, Level, Severity, Steps};
use crate::document::{CostRow, CpuRow, Document, TrackSummary};
use crate::machine::Machine;
use crate::measure::served_by::ServedBy;
use crate::terminal::plain;
use crate::wrap::{BAD, GOOD, Look, SLOW, figure};

/// Writes the document as text.
pub(super) fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, look, out)?;
    writeln!(out, "{}", look.wrap("", &document.verdict))?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{}", look.wrap("", note)))?;
    findings(document, look, out)?;
    machine(document, look, out)?;
    per_cpu(&document.clock.per_cpu, look, out)?;
    clocks(document, look, out)?;
    gates(document, look, out)?;
    document.track.as_ref().map_or(Ok(()), |summary| track(document, summary, look, out))
}

/// Writes the diagnosis of a recorded machine.
pub(super) fn write_recorded(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, look, out)?;
    writeln!(out, "{}", look.wrap("", "A recorded machine: nothing is measured here."))?;
    findings(document, look, out)?;
    machine(document, look, out)?;
    clocks(document, look, out)
}

/// The sentence about the machine, its level in colour.
fn first_line(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let Some((sentence, health)) = document.headline().zip(document.health.as_ref()) else { return Ok(()) };
    let style = match health.level {
        Level::Ok => GOOD,
        Level::Slow | Level::Unknown => SLOW,
        Level::Wrong => BAD,
    };
    let level_bytes = sentence.find(':').unwrap_or(0);
    writeln!(out, "{}", look.wrap_painted("", &sentence, level_bytes, style))
}

fn findings(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let findings = facts.findings();
    if !findings.iter().any(|finding| finding.severity < Severity::Note) {
        writeln!(out, "\n{}", look.wrap("", &nothing_wrong(facts)))?;
    }
    for (place, finding) in findings.iter().enumerate() {
        let is_note = |finding: &Finding| finding.severity == Severity::Note;
        match (is_note(finding), place.checked_sub(1).map(|before| is_note(&findings[before]))) {
            (false, None) => writeln!(out, "\n{}", look.heading("Findings"))?,
            (true, None | Some(false)) => writeln!(out, "\n{}", look.heading("Worth knowing"))?,
            _ => {}
        }
        let (severity, code) = (finding.severity.name(), finding.code);
        let (first, text) = (format!("  {severity:<6} "), format!("{} [{code}]", finding.what));
        let line = match finding.severity {
            Severity::Wrong => look.wrap_painted(&first, &text, first.len(), BAD),
            Severity::Slow => look.wrap_painted(&first, &text, first.len(), SLOW),
            Severity::Note => look.wrap(&first, &text),
        };
        writeln!(out, "{line}")?;
        for seen in &finding.evidence {
            writeln!(out, "{}", look.wrap("         seen: ", seen))?;
        }
        writeln!(out, "{}", look.wrap("         fix:  ", &finding.fix))?;
        if let Some(place) = finding.steps.as_ref().and_then(Steps::on) {
            writeln!(out, "{}", look.wrap("         run:  ", place))?;
        }
        for (name, command) in finding.steps.iter().flat_map(Steps::named) {
            // Not wrapped, so that it can be copied.
            writeln!(out, "         {:<5} {}", format!("{name}:"), plain(command))?;
        }
        if let Some(gain) = finding.gain() {
            writeln!(out, "{}", look.wrap("         gain: ", &gain))?;
        }
        if let Some(command) = finding.who {
            let text = format!("{command} (counts the calls of each program)");
            writeln!(out, "{}", look.wrap("         who:  ", &text))?;
        }
    }
    Ok(())
}

/// Says that nothing is wrong, and which facts show it.
fn nothing_wrong(facts: &Document) -> String {
    let source = facts.machine.clocksource.as_deref().unwrap_or("unknown");
    let counters = facts.counters();
    match facts.precise() {
        Some((clock, ServedBy::Vdso)) => format!(
            "No call for the time is slow here, and no clock was found to step: the vDSO answers {clock}; clocksource: {source}; counters: {counters}."
        ),
        _ => format!(
            "No fault was found, but it is unknown who answers the clocks; clocksource: {source}; counters: {counters}."
        ),
    }
}

/// The facts that are shown, by their keys; the JSON has the others.
const FACTS: [&str; 12] = [
    "cpu",
    "kernel",
    "clocksource",
    "available_clocksources",
    "hypervisor",
    "cpuid",
    "counter_readable",
    "vdso_mapped",
    "allowed_cpus",
    "online_cpus",
    "time_namespace",
    "ntp",
];

fn machine(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", look.heading("Machine"))?;
    let mut fact = |name: &str, text: &str| {
        writeln!(out, "{}", look.wrap(&format!("  {:<23}", name.replace('_', " ")), text))
    };
    let machine = json!(facts.machine);
    FACTS.iter().try_for_each(|key| fact(key, &shown(&machine[key])))?;
    fact("kernel command line", &parameters(&facts.machine))?;
    fact("frequency", &frequencies(facts))?;
    fact("counters", &facts.counters())?;
    let log = facts.machine.kernel_log.as_ref();
    let log = log.map(|log| format!("{} messages about clocks (see --json)", log.len()));
    fact("kernel log", log.as_deref().unwrap_or("unknown: this user may not read it, or it was not recorded"))
}

/// A fact in words. Those of a structure are named by their keys.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(facts) => {
            let fact = |(key, value): (&String, &Value)| format!("{key} {}", shown(value));
            facts.iter().map(fact).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// The words of the kernel's command line that concern clocks; the JSON has the whole line.
fn parameters(machine: &Machine) -> String {
    const TOPICS: [&str; 9] =
        ["tsc", "clocksource", "hpet", "vdso", "acpi_pm", "no-kvmclock", "lpj", "nohz", "isolcpus"];
    let Some(line) = &machine.kernel_command_line else { return "unknown".to_owned() };
    let words: Vec<&str> =
        line.split_whitespace().filter(|word| TOPICS.iter().any(|topic| word.contains(topic))).collect();
    if words.is_empty() { "nothing about clocks".to_owned() } else { words.join(" ") }
}

fn frequencies(facts: &Document) -> String {
    let mhz = |hz: u64| format!("{}.{:06} MHz", hz / 1_000_000, hz % 1_000_000);
    let (measured, named) = (facts.clock.frequency_hz, facts.clock.nominal_frequency_hz);
    let difference = match (measured, named) {
        (Some(measured), Some(named)) if named >= 1_000_000 => {
            let sign = if measured < named { '-' } else { '+' };
            format!(" ({sign}{} ppm)", measured.abs_diff(named) / (named / 1_000_000))
        }
        _ => String::new(),
    };
    let named = named.map_or_else(
        || "no nominal frequency".to_owned(),
        |hz| format!("{} nominal (by processor or hypervisor)", mhz(hz)),
    );
    let measured = measured.map_or_else(|| "not measured".to_owned(), |hz| format!("{} measured", mhz(hz)));
    format!("{measured}{difference}, {named}")
}

fn per_cpu(rows: &[CpuRow], look: Look, out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", look.heading("CPUs, each with a line of its own"))?;
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let (frequency, age) = (number(row.frequency_hz), number(row.age_ns));
            let (offset, failures) = (row.offset_ns.to_string(), row.failures.to_string());
            vec![row.cpu.to_string(), row.state.to_owned(), frequency, offset, age, failures]
        })
        .collect();
    look.table(&["CPU", "state", "frequency Hz", "offset ns", "age ns", "failures"], &rows, out)
}

fn clocks(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    if facts.costs.is_empty() {
        return writeln!(out, "\nClocks: none was measured");
    }
    let title =
        "Clocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers";
    writeln!(out, "\n{}", look.heading(&look.wrap("", title)))?;
    let rows: Vec<_> = facts.costs.iter().map(clock).collect();
    look.table(&["clock", "cost ns", "to counter", "resolution ns", "answered by"], &rows, out)?;
    match &facts.served_unknown {
        Some(reason) => writeln!(out, "{}", look.wrap("  ", &format!("it is unknown who answers: {reason}"))),
        None => Ok(()),
    }
}

fn clock(row: &CostRow) -> Vec<String> {
    let served = match row.served_by {
        Some(ServedBy::Vdso) => "vDSO",
        Some(ServedBy::SystemCall) => "system call",
        Some(ServedBy::Nobody) => "nobody: SIGSEGV",
        None => "",
    };
    let resolution = row.resolution_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
    vec![
        row.clock.to_string(),
        figure(row.cost_ns),
        figure(row.ratio_to_counter),
        resolution,
        served.to_owned(),
    ]
}

fn gates(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", look.heading("Gates"))?;
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (gate.open, gate.reason.as_deref().or(gate.warning.as_deref())) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        writeln!(out, "{}", look.wrap(&format!("  {:<15} ", gate.gate), &line))?;
    }
    Ok(())
}

fn track(document: &Document, track: &TrackSummary, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", look.heading(&look.wrap("", "Offset from CLOCK_MONOTONIC, and claimed bound")))?;
    let summary = format!(
        "{} samples: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.outside_bracket,
        track.bound_violated
    );
    let drift = document.fast.then(|| {
        let ppb = document.clock.max_drift_ppb;
        format!("Maximum drift: the bound holds while CLOCK_MONOTONIC's rate is within {ppb} ppb of the measured one.")
    });
    let utc = match document.clock.utc_error_ns.map(|ns| ns.div_ceil(1_000)) {
        Some(us) => format!("Unix time: within {us} us of UTC by the NTP daemon's claim"),
        None => "Unix time: not known to be synchronised to UTC, by the kernel's NTP state".to_owned(),
    };
    let mut lines = [Some(summary), drift, Some(utc)].into_iter().flatten();
    lines.try_for_each(|line| writeln!(out, "{}", look.wrap("", &line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_lines_are_listed() {
        let row = |cpu, frequency_hz, age_ns| CpuRow {
            cpu,
            state: "fast",
            frequency_hz,
            offset_ns: -12,
            age_ns,
            failures: 3,
        };
        let mut out = Vec::new();
        let look = Look { colour: crate::terminal::Colour::None, columns: 100 };
        per_cpu(&[row(0, Some(2_596_120_122), Some(5_000)), row(127, None, None)], look, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[3], ["0", "fast", "2596120122", "-12", "5000", "3"]);
        assert_eq!(rows[4], ["127", "fast", "-", "-12", "-", "3"]);
        let ends: Vec<usize> = text.lines().skip(2).map(str::len).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "columns under their titles:\n{text}");
    }

    #[test]
    fn narrow_terminals_have_lists_in_place_of_tables() {
        let facts: Document = serde_json::from_value(serde_json::json!({ "costs": [
            { "clock": "clock_gettime MONOTONIC_COARSE", "cost_ns": 6.0, "ratio_to_counter": 0.5, "resolution_ns": 4_000_000, "served_by": "vdso" },
        ]}))
        .unwrap();
        for columns in [40, 60, 84, 100] {
            let mut out = Vec::new();
            let look = Look { colour: crate::terminal::Colour::None, columns };
            clocks(&facts, look, &mut out).unwrap();
            machine(&facts, look, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.len() <= columns), "{columns}:\n{text}");
            assert!(text.contains("6.00") && text.contains("4000000") && text.contains("vDSO"), "{text}");
        }
    }

    #[test]
    fn frequencies_are_compared() {
        let facts: Document = serde_json::from_value(serde_json::json!({
            "clock": { "frequency_hz": 2_599_000_000_u64, "nominal_frequency_hz": 2_600_000_000_u64 },
        }))
        .unwrap();
        let expected =
            "2599.000000 MHz measured (-384 ppm), 2600.000000 MHz nominal (by processor or hypervisor)";
        assert_eq!(frequencies(&facts), expected);
        assert_eq!(frequencies(&Document::default()), "not measured, no nominal frequency");
    }
}
