//! Formats the document as text: the result, the findings, then the facts.

use crate::commands::result::show_result;
use crate::document::{CpuRow, Detail, Document, Finding, Severity};
use crate::machine_rows::machine_rows;
use crate::measure::costs::CostRow;
use crate::measure::served_by::ServedBy;
use crate::screen::{BAD, SLOW, Screen};
use crate::words::{figure, or_dash, plain};

/// The text about a document. `program` is the name by which `sudo` finds this program on the
/// machine of the document.
pub(super) fn text(document: &Document, program: &str) -> String {
    let mut screen = Screen::for_stdout();
    show_result(document, &mut screen);
    findings(document, program, &mut screen);
    machine(document, &mut screen);
    per_cpu(document, &mut screen);
    clocks(document, &mut screen);
    gates(document, &mut screen);
    track(document, &mut screen);
    screen.text
}

fn findings(document: &Document, program: &str, screen: &mut Screen) {
    let (notes, faults): (Vec<_>, Vec<_>) = document
        .findings()
        .iter()
        .partition(|finding| finding.severity == Severity::Note);
    for (title, findings) in [("Findings", faults), ("Worth knowing", notes)] {
        if !findings.is_empty() {
            screen.heading(title);
        }
        for finding in findings {
            show(finding, program, screen);
        }
    }
    if let Some(Finding { code, .. }) = document.findings().first() {
        screen.say(
            "  ",
            &format!("What a code in brackets means: tickline explain {code}"),
        );
    }
}

fn show(finding: &Finding, program: &str, screen: &mut Screen) {
    let first = format!("  {:<6} ", finding.severity.code());
    let text = format!("{} [{}]", finding.what, finding.code);
    match finding.severity {
        Severity::Wrong => screen.say_painted(&first, &text, first.len(), BAD),
        Severity::Slow | Severity::Unsure => screen.say_painted(&first, &text, first.len(), SLOW),
        Severity::Note => screen.say(&first, &text),
    }
    for (name, detail) in finding.details(program) {
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
    const COLUMNS: [&str; 6] = [
        "CPU",
        "state",
        "frequency Hz",
        "offset ns",
        "age ns",
        "failures",
    ];
    let row = |row: &CpuRow| {
        vec![
            row.cpu.to_string(),
            row.state.to_owned(),
            or_dash(row.frequency_hz),
            or_dash(row.offset_ns),
            or_dash(row.age_ns),
            row.failures.to_string(),
        ]
    };
    let rows: Vec<_> = document.clock.per_cpu.iter().map(row).collect();
    if !rows.is_empty() {
        screen.heading("CPUs, each with a line of its own");
        screen.table(&COLUMNS, &rows);
    }
}

fn clocks(document: &Document, screen: &mut Screen) {
    const COLUMNS: [&str; 5] = [
        "clock",
        "cost ns",
        "times the counter",
        "resolution ns",
        "answered by",
    ];
    if document.costs.is_empty() {
        return screen.line("\nClocks: none was measured");
    }
    screen.heading(
        "Clocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers",
    );
    let row = |row: &CostRow| {
        vec![
            row.clock.clone(),
            figure(row.cost_ns),
            figure(row.ratio_to_counter),
            or_dash(row.resolution_ns),
            or_dash(row.served_by.map(ServedBy::words)),
        ]
    };
    let rows: Vec<_> = document.costs.iter().map(row).collect();
    screen.table(&COLUMNS, &rows);
    if let Some(reason) = &document.served_unknown {
        screen.say("  ", &format!("it is unknown who answers: {reason}"));
    }
}

/// What a gate is.
pub(crate) const GATES: &str =
    "the conditions for reading the counter; a closed one sends readings to the OS clock";

fn gates(document: &Document, screen: &mut Screen) {
    if !document.gates.is_empty() {
        screen.heading(&format!("Gates: {GATES}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example;
    use crate::document::{Fix, GateRow, Steps};
    use crate::measure::calls::{self, Call};
    use crate::sudo;

    /// The text about a document, if `sudo` finds the program by its usual name.
    fn text(document: &Document) -> String {
        super::text(document, sudo::NAME)
    }

    /// The text about a document with findings of these severities, whose sentences are their
    /// names.
    fn with_findings(severities: &[Severity]) -> String {
        let mut document = example::document();
        let example = document.findings()[0].clone();
        let finding = |severity: &Severity| Finding {
            severity: *severity,
            what: format!("this is {}", severity.code()),
            ..example.clone()
        };
        document.findings = Some(severities.iter().map(finding).collect());
        text(&document)
    }

    #[test]
    fn faults_are_findings_and_the_rest_is_worth_knowing() {
        let shown = with_findings(&[Severity::Slow, Severity::Note]);
        let places = ["Findings", "this is slow", "Worth knowing", "this is note"]
            .map(|part| shown.find(part).expect(part));
        assert!(places.is_sorted(), "{places:?} in {shown}");
    }

    #[test]
    fn headings_without_findings_are_left_out() {
        let [notes, faults] =
            [Severity::Note, Severity::Unsure].map(|severity| with_findings(&[severity]));
        assert!(!notes.contains("Findings"), "{notes}");
        assert!(!faults.contains("Worth knowing"), "{faults}");
    }

    #[test]
    fn a_finding_begins_with_its_severity_and_ends_with_its_code() {
        let shown = with_findings(&[Severity::Wrong, Severity::Slow]);
        let code = example::document().findings()[0].code;
        for severity in ["wrong", "slow"] {
            // Between the two the colour ends.
            for part in [
                format!("  {severity:<6} "),
                format!("this is {severity} [{code}]\n"),
            ] {
                assert!(shown.contains(&part), "no {part} in {shown}");
            }
        }
    }

    #[test]
    fn an_edit_by_hand_has_a_text_for_each_boot_loader() {
        let mut document = example::document();
        let mut finding = document.findings()[0].clone();
        finding.fix = Fix::from("a").with_steps(Steps {
            keep_by_hand: vec!["edit a".to_owned(), "edit b".to_owned()],
            undo_keep_by_hand: vec!["edit it back".to_owned()],
            ..Steps::default()
        });
        document.findings = Some(vec![finding]);
        let shown = text(&document);
        for line in [
            "  keep: edit a\n",
            "  keep: edit b\n",
            "  undo keep: edit it back\n",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }

    #[test]
    fn the_first_code_is_explained_by_a_command() {
        let shown = with_findings(&[Severity::Slow]);
        let code = example::document().findings()[0].code;
        assert!(
            shown.contains(&format!("tickline explain {code}\n")),
            "{shown}"
        );
        assert!(!with_findings(&[]).contains("tickline explain"));
    }

    #[test]
    fn each_clock_has_a_row() {
        let cost = CostRow {
            clock: "clock_gettime MONOTONIC".to_owned(),
            cost_ns: Some(25.0),
            ratio_to_counter: Some(2.5),
            resolution_ns: Some(1),
            served_by: Some(ServedBy::Vdso),
            ..CostRow::default()
        };
        let document = Document {
            costs: vec![cost],
            ..Document::default()
        };
        let shown = text(&document);
        let rows = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = ["clock_gettime", "MONOTONIC", "25.00", "2.50", "1"];
        let row = [&row[..], &[ServedBy::Vdso.words()]].concat();
        assert!(
            rows.into_iter().any(|shown| shown == row),
            "no {row:?} in {shown}"
        );
        assert!(!shown.contains("none was measured"), "{shown}");
    }

    /// Symptom: on 80 columns, two lines of prose for each clock.
    #[test]
    fn all_clocks_are_a_table_on_80_columns() {
        for served_by in [ServedBy::Vdso, ServedBy::SystemCall, ServedBy::Nobody] {
            let cost = |call: Call| CostRow {
                clock: call.name.to_owned(),
                cost_ns: Some(12_345.67),
                ratio_to_counter: Some(1_234.56),
                resolution_ns: Some(10_000_000),
                served_by: Some(served_by),
                ..CostRow::default()
            };
            let document = Document {
                costs: calls::all(None).into_iter().map(cost).collect(),
                ..Document::default()
            };
            let mut screen = Screen::of(80);
            clocks(&document, &mut screen);
            let (_, table) = screen.text.split_once("\n  clock  ").expect("the headings");
            let rows = 1 + document.costs.len();
            assert_eq!(table.lines().skip(1).count(), rows, "{}", screen.text);
        }
    }

    #[test]
    fn a_document_without_costs_says_so() {
        let shown = text(&Document::default());
        assert!(shown.contains("Clocks: none was measured\n"), "{shown}");
    }

    #[test]
    fn a_document_says_why_it_does_not_know_who_answers() {
        let document = Document {
            served_unknown: Some("no filter".to_owned()),
            ..example::document()
        };
        let shown = text(&document);
        assert!(shown.contains("who answers: no filter\n"), "{shown}");
    }

    #[test]
    fn each_cpu_with_a_line_of_its_own_has_a_row() {
        let row = |cpu, frequency_hz, age_ns| CpuRow {
            cpu,
            state: "fast",
            frequency_hz,
            offset_ns: Some(-12),
            age_ns,
            failures: 3,
        };
        let mut document = Document::default();
        document.clock.per_cpu = vec![
            row(0, Some(2_596_120_122), Some(5_000)),
            row(127, None, None),
        ];
        let shown = text(&document);
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for row in [
            ["0", "fast", "2596120122", "-12", "5000", "3"],
            ["127", "fast", "-", "-12", "-", "3"],
        ] {
            assert!(
                rows.iter().any(|shown| *shown == row),
                "no {row:?} in {shown}"
            );
        }
    }

    #[test]
    fn a_gate_is_open_closed_or_open_with_a_doubt() {
        let row = |gate: &str, open, reason: Option<&str>, warning: Option<&str>| GateRow {
            gate: gate.to_owned(),
            open,
            reason: reason.map(str::to_owned),
            warning: warning.map(str::to_owned),
            text: reason
                .or(warning)
                .map(|code| format!("the words for {code}")),
        };
        let document = Document {
            gates: vec![
                row("user", true, None, None),
                row("kernel", false, Some("kernel_rejected"), None),
                row("rate", true, None, Some("untested")),
            ],
            ..Document::default()
        };
        let shown = text(&document);
        for line in [
            "  user            open\n",
            "  kernel          closed: the words for kernel_rejected [kernel_rejected]\n",
            "  rate            open, but the words for untested [untested]\n",
        ] {
            assert!(shown.contains(line), "no {line} in {shown}");
        }
    }

    /// The words of the text about a document, without its line breaks.
    fn words(document: &Document) -> String {
        let text = text(document);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_machine_has_a_heading() {
        let words = words(&example::document());
        assert!(words.contains("Machine"), "{words}");
    }

    #[test]
    fn the_offset_has_a_heading() {
        let words = words(&example::document());
        let heading = "Offset from CLOCK_MONOTONIC, and claimed bound";
        assert!(words.contains(heading), "{words}");
    }

    #[test]
    fn the_largest_offset_of_all_samples_is_shown() {
        let words = words(&example::document());
        let track = "1000 samples: largest offset 551 ns";
        assert!(words.contains(track), "{words}");
    }

    #[test]
    fn the_text_says_what_gates_are() {
        let words = words(&example::document());
        assert!(words.contains(GATES), "{words}");
    }

    #[test]
    fn a_document_without_gates_does_not_say_what_they_are() {
        let words = words(&Document {
            gates: Vec::new(),
            ..example::document()
        });
        assert!(!words.contains(GATES), "{words}");
    }
}
