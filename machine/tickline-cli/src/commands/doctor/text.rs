//! Formats the document as text: the result, the findings, then the facts.

use crate::document::{Detail, Document, Finding, Severity, machine_rows};
use crate::screen::{BAD, SLOW, Screen};
use crate::words::{code, plain};

/// The document as text.
pub(super) fn text(document: &Document) -> String {
    let mut screen = Screen::for_stdout();
    document.show_result(&mut screen);
    findings(document, &mut screen);
    machine(document, &mut screen);
    per_cpu(document, &mut screen);
    clocks(document, &mut screen);
    gates(document, &mut screen);
    track(document, &mut screen);
    screen.text
}

fn findings(document: &Document, screen: &mut Screen) {
    let (notes, faults): (Vec<_>, Vec<_>) = document
        .findings()
        .iter()
        .partition(|finding| finding.severity == Severity::Note);
    for (title, findings) in [("Findings", faults), ("Worth knowing", notes)] {
        if !findings.is_empty() {
            screen.heading(title);
        }
        findings
            .into_iter()
            .for_each(|finding| show(finding, screen));
    }
    if let Some(Finding { code, .. }) = document.findings().first() {
        screen.say(
            "  ",
            &format!("What a code in brackets means: tickline explain {code}"),
        );
    }
}

fn show(finding: &Finding, screen: &mut Screen) {
    let (first, text) = (
        format!("  {:<6} ", code(finding.severity)),
        format!("{} [{}]", finding.what, finding.code),
    );
    match finding.severity {
        Severity::Wrong => screen.say_painted(&first, &text, first.len(), BAD),
        Severity::Slow | Severity::Unsure => screen.say_painted(&first, &text, first.len(), SLOW),
        Severity::Note => screen.say(&first, &text),
    }
    for (name, detail) in finding.details() {
        let label = format!("         {:<5} ", format!("{name}:"));
        match detail {
            Detail::Text(text) => screen.say(&label, &text),
            Detail::Command(command) => screen.line(&format!("{label}{}", plain(&command))),
        }
    }
}

fn machine(document: &Document, screen: &mut Screen) {
    screen.heading("Machine");
    for (name, text) in machine_rows(document) {
        screen.say(&format!("  {name:<13}"), &text);
    }
}

fn per_cpu(document: &Document, screen: &mut Screen) {
    const COLUMNS: [(&str, &str); 6] = [
        ("cpu", "CPU"),
        ("state", "state"),
        ("frequency_hz", "frequency Hz"),
        ("offset_ns", "offset ns"),
        ("age_ns", "age ns"),
        ("failures", "failures"),
    ];
    if !document.clock.per_cpu.is_empty() {
        screen.heading("CPUs, each with a line of its own");
        screen.table_by_key(&COLUMNS, &document.clock.per_cpu);
    }
}

fn clocks(document: &Document, screen: &mut Screen) {
    const COLUMNS: [(&str, &str); 5] = [
        ("clock", "clock"),
        ("cost_ns", "cost ns"),
        ("ratio_to_counter", "to counter"),
        ("resolution_ns", "resolution ns"),
        ("served_by", "answered by"),
    ];
    if document.costs.is_empty() {
        return screen.line("\nClocks: none was measured");
    }
    screen.heading(
        "Clocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers",
    );
    screen.table_by_key(&COLUMNS, &document.costs);
    if let Some(reason) = &document.served_unknown {
        screen.say("  ", &format!("it is unknown who answers: {reason}"));
    }
}

fn gates(document: &Document, screen: &mut Screen) {
    if !document.gates.is_empty() {
        screen.heading("Gates");
    }
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (
            gate.open,
            gate.reason.as_deref().or(gate.warning.as_deref()),
        ) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        screen.say(&format!("  {:<15} ", gate.gate), &line);
    }
}

fn track(document: &Document, screen: &mut Screen) {
    let Some(track) = &document.track else { return };
    screen.heading("Offset from CLOCK_MONOTONIC, and claimed bound");
    screen.say("", &track.summary());
}
