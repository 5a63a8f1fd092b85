//! The document as text for people: the verdict, the findings, then the facts.

use std::io::{self, Write};

use crate::diagnose::{Detail, Finding, Level, Severity};
use crate::document::{CpuRow, Document, TrackSummary, lines};
use crate::terminal::plain;
use crate::words::code;
use crate::wrap::{BAD, GOOD, Layout, SLOW, heading};

/// Writes the document as text.
pub(super) fn write(document: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, layout, out)?;
    layout.say("", &document.verdict, out)?;
    document.build_note().map_or(Ok(()), |note| layout.say("", note, out))?;
    findings(document, layout, out)?;
    machine(document, layout, out)?;
    per_cpu(&document.clock.per_cpu, layout, out)?;
    clocks(document, layout, out)?;
    gates(document, layout, out)?;
    document.track.as_ref().map_or(Ok(()), |summary| track(summary, layout, out))
}

/// Writes the diagnosis of a recorded machine.
pub(super) fn write_recorded(document: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, layout, out)?;
    layout.say("", "A recorded machine: nothing is measured here.", out)?;
    findings(document, layout, out)?;
    machine(document, layout, out)?;
    clocks(document, layout, out)
}

/// The sentence about the machine, its level in colour.
fn first_line(document: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let Some((sentence, health)) = document.headline().zip(document.health.as_ref()) else { return Ok(()) };
    let style = match health.level {
        Level::Ok => GOOD,
        Level::Unsure | Level::Slow | Level::Unknown => SLOW,
        Level::Wrong => BAD,
    };
    let level_bytes = sentence.find(':').unwrap_or(0);
    writeln!(out, "{}", layout.wrap_painted("", &sentence, level_bytes, style))
}

fn findings(facts: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let findings = facts.findings();
    for (place, finding) in findings.iter().enumerate() {
        let is_note = |finding: &Finding| finding.severity == Severity::Note;
        match (is_note(finding), place.checked_sub(1).map(|before| is_note(&findings[before]))) {
            (false, None) => writeln!(out, "\n{}", heading("Findings"))?,
            (true, None | Some(false)) => writeln!(out, "\n{}", heading("Worth knowing"))?,
            _ => {}
        }
        let (severity, code) = (code(finding.severity), finding.code);
        let (first, text) = (format!("  {severity:<6} "), format!("{} [{code}]", finding.what));
        let line = match finding.severity {
            Severity::Wrong => layout.wrap_painted(&first, &text, first.len(), BAD),
            Severity::Slow | Severity::Unsure => layout.wrap_painted(&first, &text, first.len(), SLOW),
            Severity::Note => layout.wrap(&first, &text),
        };
        writeln!(out, "{line}")?;
        for (name, said) in finding.details() {
            let label = format!("         {:<5} ", format!("{name}:"));
            match said {
                Detail::Text(text) => layout.say(&label, &text, out)?,
                Detail::Command(command) => writeln!(out, "{label}{}", plain(&command))?,
            }
        }
    }
    findings.first().map_or(Ok(()), |first| {
        layout.say("  ", &format!("What a code in brackets means: tickline explain {}", first.code), out)
    })
}

fn machine(facts: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading("Machine"))?;
    lines(facts)?.iter().try_for_each(|(name, text)| layout.say(&format!("  {name:<13}"), text, out))
}

fn per_cpu(rows: &[CpuRow], layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", heading("CPUs, each with a line of its own"))?;
    const COLUMNS: [(&str, &str); 6] = [
        ("cpu", "CPU"),
        ("state", "state"),
        ("frequency_hz", "frequency Hz"),
        ("offset_ns", "offset ns"),
        ("age_ns", "age ns"),
        ("failures", "failures"),
    ];
    layout.table_of(&COLUMNS, &rows, out)
}

fn clocks(facts: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    if facts.costs.is_empty() {
        return writeln!(out, "\nClocks: none was measured");
    }
    let title =
        "Clocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers";
    writeln!(out, "\n{}", heading(&layout.wrap("", title)))?;
    const COLUMNS: [(&str, &str); 5] = [
        ("clock", "clock"),
        ("cost_ns", "cost ns"),
        ("ratio_to_counter", "to counter"),
        ("resolution_ns", "resolution ns"),
        ("served_by", "answered by"),
    ];
    layout.table_of(&COLUMNS, &facts.costs, out)?;
    match &facts.served_unknown {
        Some(reason) => layout.say("  ", &format!("it is unknown who answers: {reason}"), out),
        None => Ok(()),
    }
}

fn gates(document: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading("Gates"))?;
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (gate.open, gate.reason.as_deref().or(gate.warning.as_deref())) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        layout.say(&format!("  {:<15} ", gate.gate), &line, out)?;
    }
    Ok(())
}

fn track(track: &TrackSummary, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading(&layout.wrap("", "Offset from CLOCK_MONOTONIC, and claimed bound")))?;
    let summary = format!(
        "{} samples: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.outside_bracket,
        track.bound_violated
    );
    layout.say("", &summary, out)
}
