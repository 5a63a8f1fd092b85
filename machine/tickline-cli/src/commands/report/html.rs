//! Formats the document as HTML. The page contains all its parts, and a content security policy
//! forbids it to load anything.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::offset;
use crate::commands::doctor::GATES;
use crate::commands::warp;
use crate::document::{Detail, Document, Finding, GateRow, Level, Severity};
use crate::float::as_f64;
use crate::machine_rows::machine_rows;
use crate::measure::calls::{MONOTONIC, NOW_NS};
use crate::measure::costs::CostRow;
use crate::measure::latency::LatencyRow;
use crate::measure::served_by::ServedBy;
use crate::measure::warp::WarpTest;
use crate::sudo;
use crate::words::{UNKNOWN, time};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// The report on a document.
pub(super) fn html(document: &Document) -> String {
    let facts = machine_rows(document);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "tickline report" @if let Some(cpu) = &document.machine.cpu { ": " (cpu) } }
                // Without this link, browsers request an icon from the server.
                link rel="icon" href="data:,";
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                (head(document))
                main {
                    @if let Some(found) = &document.findings { (findings(found)) }
                    section.charts aria-label="Charts" {
                        @if document.costs.iter().any(|row| row.cost_ns.is_some()) { (costs(&document.costs)) }
                        @if !document.latencies.is_empty() { (latencies(&document.latencies)) }
                        @if let Some(track) = &document.track { (offset::figure(track)) }
                    }
                    @if let Some(found) = document.warp.as_ref().filter(|warp| !warp.pairs.is_empty()) {
                        section.across aria-label="Counters" { (pairs(found)) }
                    }
                    section.tables aria-label="Facts" {
                        div { h2 { "Machine" } (table("facts", &[], facts.into_iter().map(fact))) }
                        div { h2 { "Gates" } p.quiet { (GATES) } (table("facts", &[], document.gates.iter().map(gate))) }
                    }
                }
                @if let Some(log) = document.machine.kernel_log.as_ref().filter(|log| !log.is_empty()) {
                    section.log {
                        h2 { "The kernel's messages about clocks" }
                        pre { @for line in log { (line) "\n" } }
                    }
                }
                footer {
                    p {
                        "`tickline explain CODE` says what a code in brackets means. Every figure \
                         of this report is in its data, as JSON. "
                        a #download hidden download="tickline.json" href="#" { "Download the data" }
                        noscript { "The data are in the source of this report, in the element with the id data." }
                    }
                }
                script #data type="application/json" { (PreEscaped(for_script(&json!(document)))) }
                script { (PreEscaped(include_str!("report.js"))) }
            }
        }
    }
    .into_string()
}

fn head(document: &Document) -> Markup {
    let call = document.cost_ns(NOW_NS);
    let os = document.cost_ns(MONOTONIC);
    let unsynchronised = document.unsynchronised_warp_test().is_some();
    let level = document
        .health
        .as_ref()
        .map_or(Level::Unknown, |health| health.level);
    html! {
        header {
            p.kind { "tickline " (document.program_version) " · " (document.taken_at) }
            h1 class=(level.code()) { (document.headline().unwrap_or_default()) @if unsynchronised { " CPUs are unsynchronised." } }
            p.result { (document.result) }
            @if let Some(note) = document.build_note() { p.result { strong { (note) } } }
            ul.figures {
                @if let Some(call) = call { (figure("a tickline call", &format!("{call:.1} ns"))) }
                @if let Some(os) = os { (figure("a clock_gettime", &format!("{os:.0} ns"))) }
                @if let Some(track) = &document.track {
                    (figure("largest offset", &time(track.all.largest_offset_ns)))
                    (figure("largest bound", &time(as_f64(track.all.largest_bound_ns))))
                }
            }
        }
    }
}

fn findings(found: &[Finding]) -> Markup {
    let none = !found
        .iter()
        .any(|finding| finding.severity < Severity::Note);
    let program = sudo::this_program();
    html! {
        section.findings {
            h2 { @if none { "Worth knowing" } @else { "Findings" } }
            @if none {
                p { "No call for the time is slow here, and no clock was found to step, by these measurements." }
            }
            @for finding in found {
                article class=(finding.severity.code()) {
                    h3 { span.severity { (finding.severity.code()) } " " (finding.what) " " span.quiet { "[" (finding.code) "]" } }
                    dl {
                        @for (name, detail) in finding.details(&program) {
                            dt { (name) }
                            @match detail {
                                Detail::Text(text) => dd { (text) },
                                Detail::Command(command) => {
                                    dd.step { code { (command) } button hidden type="button" { "Copy" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(name: &str, value: &str) -> Markup {
    html! { li { strong { (value) } span { (name) } } }
}

/// A table of this CSS class. The first cell of each row is its heading.
fn table(class: &str, heads: &[&str], rows: impl Iterator<Item = Vec<Markup>>) -> Markup {
    html! {
        table class=(class) {
            @if !heads.is_empty() { thead { tr { @for head in heads { th scope="col" { (head) } } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (column, cell) in row.iter().enumerate() {
                            @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                        }
                    }
                }
            }
        }
    }
}

/// The costs of the calls, with bars. The length of a bar is the logarithm of the cost, so that 2
/// ns and 25 ns look different beside 1,000 ns.
fn costs(rows: &[CostRow]) -> Markup {
    let largest = rows
        .iter()
        .filter_map(|row| row.cost_ns)
        .fold(10.0, f64::max);
    let width = |ns: f64| {
        format!(
            "width: {:.1}%",
            (100.0 * ns.log10() / largest.log10()).max(1.0)
        )
    };
    let row = |row: &CostRow| {
        let bar = row
            .cost_ns
            .map(|ns| html! { div class={ "bar " (bar_class(row)) } style=(width(ns)) {} });
        let cost = row.cost_ns.map_or("not available".to_owned(), time);
        let served_by = row.served_by.map(ServedBy::words).unwrap_or_default();
        vec![
            html! { (row.clock) },
            bar.unwrap_or_default(),
            html! { (cost) },
            html! { (served_by) },
        ]
    };
    let table = table(
        "wide costs",
        &["clock", "", "cost", "answered by"],
        rows.iter().map(row),
    );
    chart(
        "Cost of a call",
        &table,
        "Calls in a tight loop; the fastest of the interleaved rounds counts. Bars are \
         logarithmic: shorter is better. No clock that reads the counter can cost less than the \
         bare counter.",
    )
}

fn chart(title: &str, content: &Markup, caption: &str) -> Markup {
    html! { figure { h3 { (title) } (content) figcaption { (caption) } } }
}

/// The CSS class of a bar: a clock of tickline, a call that enters the kernel, or any other.
fn bar_class(row: &CostRow) -> &'static str {
    let is_system_call =
        row.served_by == Some(ServedBy::SystemCall) || row.clock.starts_with("system call");
    if row.clock.starts_with("tickline") {
        "tickline"
    } else if is_system_call {
        "call"
    } else {
        "other"
    }
}

fn latencies(rows: &[LatencyRow]) -> Markup {
    let row = |row: &LatencyRow| {
        let times = [row.median_ns, row.p99_ns, row.p99_99_ns, row.max_ns].map(as_f64);
        std::iter::once(html! { (row.clock) })
            .chain(times.map(|ns| html! { (time(ns)) }))
            .collect()
    };
    let heads = [
        "from one to the next",
        "median",
        "99\u{a0}%",
        "99.99\u{a0}%",
        "longest",
    ];
    chart(
        "How long single readings take",
        &table("wide latencies", &heads, rows.iter().map(row)),
        "A loop reads a clock; this is the time from each reading to the next, by that clock. The \
         slow ones waited for a new line or a kernel update, or while an interrupt, another \
         process or the hypervisor had the CPU.",
    )
}

/// The comparison of the CPUs' counters.
fn pairs(warp: &WarpTest) -> Markup {
    let (title, rows) = warp::pairs(warp);
    let rows = rows
        .iter()
        .map(|row| row.iter().map(|cell| html! { (cell) }).collect());
    let content =
        html! { p { (warp::result(warp)) " " (title) "." } (table("wide", &warp::HEADS, rows)) };
    chart(
        "Counters of the CPUs against each other",
        &content,
        "Two threads exchange the counter's value; the offset is the interval that contains the \
         difference between the two counters. It is mostly as wide as an exchange takes.",
    )
}

fn fact((name, text): (&str, String)) -> Vec<Markup> {
    let class = (text == UNKNOWN).then_some("quiet");
    vec![html! { (name) }, html! { span class=[class] { (text) } }]
}

fn gate(gate: &GateRow) -> Vec<Markup> {
    let state = html! {
        @if gate.open { "open" } @else { strong.closed { "closed" } }
        @if let Some(text) = &gate.text { ": " (text) }
        @if let Some(code) = gate.reason.as_ref().or(gate.warning.as_ref()) { " [" (code) "]" }
    };
    vec![html! { (gate.gate) }, state]
}

/// JSON that cannot end its script element, whatever its strings contain. In JSON, `<`, `>` and `&`
/// occur only in strings, so escapes can replace them.
fn for_script(data: &Value) -> String {
    data.to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example;

    /// `TICKLINE_WRITE=1` stores the report in `target/report/sample.html`, where the command
    /// `cargo xtask report` opens it.
    #[test]
    fn hostile_facts_are_shown_and_not_run() {
        let report = html(&example::document());
        if std::env::var_os("TICKLINE_WRITE").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/report");
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(format!("{folder}/sample.html"), &report).unwrap();
        }
        assert!(!report.contains("<script>alert"));
        assert!(!report.contains("<!--"));
        assert_eq!(
            report.matches("</script>").count(),
            2,
            "the data and the script"
        );
        assert!(report.contains("&lt;/script&gt;"), "it is shown as text");
    }

    #[test]
    fn the_data_have_the_facts_as_they_are() {
        let report = html(&example::document());
        let (_, data) = report.split_once("type=\"application/json\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["machine"]["cpu"], example::HOSTILE);
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let report = html(&example::document());
        for part in [
            "http:", "https:", "url(", "@import", " src=", "<img", "fetch(",
        ] {
            assert!(!report.contains(part), "{part}");
        }
    }

    #[test]
    fn findings_are_shown_with_their_gain_and_fix() {
        let report = html(&example::document());
        for part in [
            "hpet, though it would accept tsc",
            "long/long",
            "11.2 times as fast",
            "echo tsc | sudo tee",
        ] {
            assert!(report.contains(part), "{part} is not shown");
        }
        assert!(!report.contains("No call for the time is slow"));
    }

    #[test]
    fn notes_alone_are_worth_knowing_and_no_clock_is_slow() {
        let mut found = example::document().findings().to_vec();
        for finding in &mut found {
            finding.severity = Severity::Note;
        }
        let text = findings(&found).into_string();
        assert!(text.contains("Worth knowing") && text.contains("No call for the time is slow"));
    }

    #[test]
    fn costs_have_bars_by_their_logarithm() {
        let report = html(&example::document());
        for part in [
            "not available",
            "class=\"bar call\" style=\"width: 100.0%\"",
            "class=\"bar tickline\" style=\"width: 40.5%\"",
        ] {
            assert!(report.contains(part), "{part} is not shown");
        }
    }

    #[test]
    fn a_violated_bound_is_marked_in_the_plot() {
        let report = html(&example::document());
        assert!(report.contains("bound violated at 0.03 s"));
    }

    #[test]
    fn the_report_omits_what_was_not_measured_or_found() {
        let mut document = Document::new("report", Vec::new(), None);
        let none = "No call for the time is slow";
        let report = html(&document);
        assert!(
            !report.contains("<figure") && report.contains("supported"),
            "{report}"
        );
        assert!(!report.contains(none));
        document.machine.kernel_log = Some(Vec::new());
        assert!(!html(&document).contains("class=\"log\""));
        document.findings = Some(Vec::new());
        assert!(html(&document).contains(none));
    }

    #[test]
    fn the_bars_tell_ticklines_clocks_and_system_calls_from_the_others() {
        for (clock, served_by, expected) in [
            ("tickline::now_ns", None, "tickline"),
            (
                "clock_gettime MONOTONIC",
                Some(ServedBy::SystemCall),
                "call",
            ),
            ("system call clock_gettime", None, "call"),
            ("clock_gettime MONOTONIC", Some(ServedBy::Vdso), "other"),
            ("std::time::Instant", None, "other"),
        ] {
            let row = CostRow {
                clock: clock.to_owned(),
                served_by,
                ..CostRow::default()
            };
            assert_eq!(bar_class(&row), expected, "{clock}");
        }
    }

    #[test]
    fn only_an_unknown_fact_is_quiet() {
        let cells = |text: &str| {
            let cells = fact(("kernel", text.to_owned()));
            cells
                .into_iter()
                .map(Markup::into_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(cells("6.1.0"), "kernel <span>6.1.0</span>");
        let unknown = cells(UNKNOWN);
        assert_eq!(
            unknown,
            format!("kernel <span class=\"quiet\">{UNKNOWN}</span>")
        );
    }

    #[test]
    fn the_report_has_the_offset_the_latencies_and_the_gates() {
        let document = example::document();
        let report = html(&document);
        assert!(report.contains("Offset from CLOCK_MONOTONIC, and claimed bound"));
        assert!(report.contains("How long single readings take"));
        let gate = &document.gates[0].gate;
        assert!(report.contains(&format!(">{gate}</th>")), "{gate}");
    }

    /// The report on the example, and that on the same document without a comparison of the
    /// counters.
    fn with_and_without_pairs() -> [String; 2] {
        let not_compared = Document {
            warp: None,
            ..example::document()
        };
        [example::document(), not_compared].map(|document| html(&document))
    }

    #[test]
    fn the_heading_says_that_cpus_are_unsynchronised() {
        let [compared, not_compared] = with_and_without_pairs();
        let end = " CPUs are unsynchronised.</h1>";
        assert!(compared.contains(end), "{compared}");
        assert!(!not_compared.contains(end), "{not_compared}");
    }

    #[test]
    fn a_pair_of_unsynchronised_cpus_is_a_row() {
        let [compared, not_compared] = with_and_without_pairs();
        let row = "<th scope=\"row\">0 and 48</th><td>0</td><td>0</td><td>48000.0</td><td>-30.0 to +40.0</td>";
        assert!(compared.contains(row), "{compared}");
        assert!(!not_compared.contains(row), "{not_compared}");
    }

    #[test]
    fn a_figure_has_its_value_and_its_name() {
        let figure = figure("now", "9 ns").into_string();
        assert_eq!(figure, "<li><strong>9 ns</strong><span>now</span></li>");
    }
}
