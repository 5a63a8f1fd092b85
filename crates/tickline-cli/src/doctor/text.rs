//! The document as text for people: the verdict, the findings, then the facts.

use std::io::{self, Write};

use super::wrap::wrap;
use crate::diagnose::{Facts, Finding, Health, Row, Severity};
use crate::document::{CpuRow, Document, TrackSummary};
use crate::machine::Machine;
use crate::measure::served_by::ServedBy;
use crate::plot;
use crate::terminal::plain;

/// Writes the document as text.
pub(super) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    if let Some(headline) = document.headline() {
        writeln!(out, "{}", wrap("", &headline))?;
    }
    writeln!(out, "{}", wrap("", &document.verdict))?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{note}"))?;
    let facts = Facts::of(document)?;
    findings(document.findings(), &facts, out)?;
    machine(&facts, out)?;
    per_cpu(&document.clock.per_cpu, out)?;
    clocks(&facts, out)?;
    gates(document, out)?;
    document.track.as_ref().map_or(Ok(()), |summary| track(document, summary, out))
}

/// Writes the diagnosis of a recorded machine.
pub(super) fn write_recorded(
    facts: &Facts,
    health: &Health,
    found: &[Finding],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", wrap("", &health.sentence(found)))?;
    writeln!(out, "A recorded machine: nothing is measured here.")?;
    findings(found, facts, out)?;
    machine(facts, out)?;
    clocks(facts, out)
}

fn findings(findings: &[Finding], facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    if !findings.iter().any(|finding| finding.severity < Severity::Note) {
        writeln!(out, "\n{}", wrap("", &nothing_wrong(facts)))?;
    }
    if !findings.is_empty() {
        writeln!(out, "\nFindings")?;
    }
    for finding in findings {
        let (severity, code) = (finding.severity.name(), finding.code);
        writeln!(out, "{}", wrap(&format!("  {severity:<6} "), &format!("{} [{code}]", finding.what)))?;
        for seen in &finding.evidence {
            writeln!(out, "{}", wrap("         seen: ", seen))?;
        }
        writeln!(out, "{}", wrap("         fix:  ", &finding.fix))?;
        if let Some(ratio) = finding.gain_ratio {
            writeln!(out, "         gain: {ratio:.1} times as fast, by the measured costs")?;
        }
    }
    Ok(())
}

/// Says that nothing is wrong, and which facts show it.
fn nothing_wrong(facts: &Facts) -> String {
    let source = facts.machine.clocksource.as_deref().unwrap_or("unknown");
    let counters = facts.counters();
    match facts.precise() {
        Some((clock, ServedBy::Vdso)) => format!(
            "Nothing is wrong with the clocks here: the vDSO answers {clock}; clocksource: {source}; counters: {counters}."
        ),
        _ => format!(
            "No fault was found, but it is unknown who answers the clocks; clocksource: {source}; counters: {counters}."
        ),
    }
}

/// A fact, or `unknown`.
fn known(text: Option<&String>) -> String {
    text.cloned().unwrap_or_else(|| "unknown".to_owned())
}

fn machine(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    let machine = &facts.machine;
    writeln!(out, "\nMachine")?;
    let mut fact = |name: &str, text: String| writeln!(out, "{}", wrap(&format!("  {name:<13}"), &text));
    fact("CPU", known(machine.cpu.as_ref()))?;
    fact("kernel", known(machine.kernel.as_ref()))?;
    fact("command line", parameters(machine))?;
    let (current, available) =
        (known(machine.clocksource.as_ref()), known(machine.available_clocksources.as_ref()));
    fact("clocksource", format!("{current} (available: {available})"))?;
    fact("hypervisor", known(machine.hypervisor.as_ref()))?;
    fact("counter", frequencies(facts))?;
    fact("counters", facts.counters().into_owned())?;
    fact("CPUID", cpuid(machine))?;
    fact("rights", rights(machine))?;
    fact(
        "CPUs",
        format!(
            "{} allowed, {} online",
            known(machine.allowed_cpus.as_ref()),
            known(machine.online_cpus.as_ref())
        ),
    )?;
    fact("namespace", namespace(machine))?;
    fact("NTP", ntp(machine))?;
    let log =
        machine.kernel_log.as_ref().map(|log| format!("{} messages about clocks (see --json)", log.len()));
    fact(
        "kernel log",
        log.unwrap_or_else(|| "unknown: this user may not read it, or it was not recorded".to_owned()),
    )
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

fn frequencies(facts: &Facts) -> String {
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

fn cpuid(machine: &Machine) -> String {
    let Some(cpuid) = &machine.cpuid else { return "unknown".to_owned() };
    let bit = |name: &str, bit: Option<bool>| match bit {
        Some(true) => name.to_owned(),
        Some(false) => format!("no {name}"),
        None => format!("{name} unknown"),
    };
    let mut words = vec![
        bit("invariant TSC", cpuid.invariant_tsc),
        bit("rdtscp", cpuid.rdtscp),
        bit("rdpid", cpuid.rdpid),
        bit("TSC_ADJUST", cpuid.tsc_adjust),
        bit("hypervisor", cpuid.hypervisor),
    ];
    words.extend(cpuid.leaf_15h_hz.map(|hz| format!("leaf 15h {hz} Hz")));
    words.extend(cpuid.leaf_16h_base_mhz.map(|mhz| format!("leaf 16h {mhz} MHz")));
    words.extend(cpuid.hypervisor_khz.map(|khz| format!("leaf 4000_0010h {khz} kHz")));
    words.join(", ")
}

fn rights(machine: &Machine) -> String {
    let counter = match machine.counter_readable {
        Some(true) => "may read the counter",
        Some(false) => "may not read the counter (PR_SET_TSC)",
        None => "the right to read the counter is unknown",
    };
    let vdso = match machine.vdso_mapped {
        Some(true) => "vDSO mapped",
        Some(false) => "no vDSO mapped",
        None => "vDSO unknown",
    };
    format!("{counter}, {vdso}")
}

fn namespace(machine: &Machine) -> String {
    let Some(namespace) = &machine.time_namespace else { return "unknown".to_owned() };
    let offset = |ns: Option<i64>| ns.map_or_else(|| "unknown".to_owned(), |ns| format!("{ns} ns"));
    let children = if namespace.children_elsewhere { "; children receive another namespace" } else { "" };
    match (namespace.monotonic_offset_ns, namespace.boottime_offset_ns) {
        (Some(0), Some(0)) => format!("the machine's own time{children}"),
        (monotonic, boottime) => {
            format!(
                "monotonic {}, boottime {} from the machine's{children}",
                offset(monotonic),
                offset(boottime)
            )
        }
    }
}

fn ntp(machine: &Machine) -> String {
    let Some(ntp) = &machine.ntp else { return "unknown".to_owned() };
    let state = if ntp.synchronised {
        format!("synchronised, within {} us of UTC by its own claim", ntp.maximum_error_us)
    } else {
        "not synchronised".to_owned()
    };
    format!(
        "{state}; rate corrected by {} ppb, tick {} us, {} ns still to slew",
        ntp.frequency_ppb, ntp.tick_us, ntp.offset_ns
    )
}

fn per_cpu(rows: &[CpuRow], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nCPUs, each with a line of its own\n  CPU state        frequency Hz   offset ns      age ns  failures"
    )?;
    for row in rows {
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let (frequency, age) = (number(row.frequency_hz), number(row.age_ns));
        writeln!(
            out,
            "  {:>3} {:<12} {frequency:>12} {:>11} {age:>11} {:>9}",
            row.cpu, row.state, row.offset_ns, row.failures
        )?;
    }
    Ok(())
}

fn clocks(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    if facts.costs.is_empty() {
        return writeln!(out, "\nClocks: none was measured");
    }
    writeln!(
        out,
        "\nClocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers"
    )?;
    writeln!(out, "{:<32} {:>10} {:>12} {:>13}   answered by", "", "cost ns", "to counter", "resolution ns")?;
    for row in &facts.costs {
        clock(row, out)?;
    }
    match &facts.served_unknown {
        Some(reason) => writeln!(out, "{}", wrap("  ", &format!("it is unknown who answers: {reason}"))),
        None => Ok(()),
    }
}

fn clock(row: &Row, out: &mut dyn Write) -> io::Result<()> {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let resolution = row.resolution_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
    let served = match row.served_by {
        Some(ServedBy::Vdso) => "vDSO",
        Some(ServedBy::SystemCall) => "system call",
        Some(ServedBy::Nobody) => "nobody: SIGSEGV",
        None => "",
    };
    let (cost, ratio) = (figure(row.cost_ns), figure(row.ratio_to_counter));
    let line = format!("  {:<30} {cost:>10} {ratio:>12} {resolution:>13}   {served}", plain(&row.clock));
    writeln!(out, "{}", line.trim_end())
}

fn gates(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nGates")?;
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (gate.open, gate.reason.or(gate.warning)) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        writeln!(out, "{}", wrap(&format!("  {:<15} ", gate.gate), &line))?;
    }
    Ok(())
}

fn track(document: &Document, track: &TrackSummary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nOffset from CLOCK_MONOTONIC (*) and claimed bound (.)")?;
    for line in plot::lines(&track.points) {
        writeln!(out, "{line}")?;
    }
    let summary = format!(
        "{} samples: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.outside_bracket,
        track.bound_violated
    );
    writeln!(out, "{}", wrap("", &summary))?;
    if document.fast {
        let drift = format!(
            "Maximum drift: the bound holds while CLOCK_MONOTONIC's rate is within {} ppb of the measured one.",
            document.clock.max_drift_ppb
        );
        writeln!(out, "{}", wrap("", &drift))?;
    }
    match document.clock.utc_error_ns {
        Some(ns) => {
            writeln!(out, "Unix time: within {} us of UTC by the NTP daemon's claim", ns.div_ceil(1_000))
        }
        None => writeln!(out, "Unix time: not synchronised to UTC, by the kernel's NTP state"),
    }
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
        per_cpu(&[row(0, Some(2_596_120_122), Some(5_000)), row(127, None, None)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[3], ["0", "fast", "2596120122", "-12", "5000", "3"]);
        assert_eq!(rows[4], ["127", "fast", "-", "-12", "-", "3"]);
        let ends: Vec<usize> = text.lines().skip(2).map(str::len).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "columns under their titles:\n{text}");
    }

    #[test]
    fn frequencies_are_compared() {
        let facts: Facts = serde_json::from_value(serde_json::json!({
            "clock": { "frequency_hz": 2_599_000_000_u64, "nominal_frequency_hz": 2_600_000_000_u64 },
        }))
        .unwrap();
        let expected =
            "2599.000000 MHz measured (-384 ppm), 2600.000000 MHz nominal (by processor or hypervisor)";
        assert_eq!(frequencies(&facts), expected);
        assert_eq!(frequencies(&Facts::default()), "not measured, no nominal frequency");
    }
}
