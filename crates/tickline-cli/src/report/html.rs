//! The report as HTML. It contains everything, and a policy in its head forbids it to load
//! anything.

use std::io;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::chart::{cost, latency, offset};
use super::facts;
use crate::diagnose::{Finding, Level, Severity, Steps};
use crate::document::{Document, Gate, LatencyRow};
use crate::measure::as_f64;
use crate::measure::calls::MONOTONIC;
use crate::measure::warp::Warp;
use crate::warp;
use crate::words::{code, time};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The report on a document.
pub(super) fn html(document: &Document) -> io::Result<String> {
    let data = serde_json::to_value(document)?;
    // The log has a section of its own, since it is long.
    let mut machine = data["machine"].clone();
    let log = machine.as_object_mut().and_then(|machine| machine.shift_remove("kernel_log"));
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "tickline report" @if let Some(cpu) = &document.machine.cpu { ": " (cpu) } }
                // Without this, browsers ask the server for an icon.
                link rel="icon" href="data:,";
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                (head(document))
                main {
                    @if let Some(found) = &document.findings { (findings(found)) }
                    section.charts aria-label="Charts" {
                        (cost::figure(&document.costs))
                        @if let Some(track) = &document.track { (offset::figure(track)) }
                        @if !document.latencies.is_empty() {
                            div { (latency::figure(&document.latencies)) (latencies(&document.latencies)) }
                        }
                        @if let Some(found) = document.warp.as_ref().filter(|warp| !warp.pairs.is_empty()) { (pairs(found)) }
                    }
                    section.tables aria-label="Facts" {
                        div { h2 { "Machine" } (facts::table(&machine)) }
                        div { h2 { "Clock" } (facts::table(&data["clock"])) }
                        div { h2 { "Gates" } (gates(&document.gates)) }
                    }
                }
                @if let Some(log) = log.as_ref().and_then(Value::as_array) {
                    section.log {
                        h2 { "The kernel's messages about clocks" }
                        pre { @for line in log.iter().filter_map(Value::as_str) { (line) "\n" } }
                    }
                }
                footer {
                    p {
                        "Every figure of this report is in its data, as JSON. "
                        a #download hidden download="tickline.json" href="#" { "Download the data" }
                        noscript { "The data are in the source of this report, in the element with the id data." }
                    }
                }
                script #data type="application/json" { (PreEscaped(for_script(&data))) }
                script { (PreEscaped(include_str!("report.js"))) }
            }
        }
    };
    Ok(whole.into_string())
}

fn head(document: &Document) -> Markup {
    let (call, os) = (document.cost_ns("tickline::now_ns"), document.cost_ns(MONOTONIC));
    let unsynchronised = document.warp.as_ref().is_some_and(|warp| warp.synchronised == Some(false));
    let level = document.health.as_ref().map_or(Level::Unknown, |health| health.level);
    html! {
        header {
            p.kind { "tickline " (document.program_version) " · " (document.taken_at) }
            h1 class=(code(level)) { (heading(document)) @if unsynchronised { " CPUs are unsynchronised." } }
            p.verdict { (document.verdict) }
            @if let Some(note) = document.build_note() { p.verdict { strong { (note) } } }
            ul.figures {
                @if let Some(call) = call { (figure("a tickline call", &format!("{call:.1} ns"))) }
                @if let Some(os) = os { (figure("a clock_gettime", &format!("{os:.0} ns"))) }
                @if let Some(track) = &document.track {
                    (figure("largest offset", &time(track.largest_offset_ns)))
                    (figure("largest bound", &time(as_f64(track.largest_bound_ns))))
                }
            }
        }
    }
}

/// The sentence about the machine; without a diagnosis, what tickline does there.
fn heading(document: &Document) -> String {
    let without = if document.fast { "The counter serves." } else { "The OS clock serves." };
    document.headline().unwrap_or_else(|| without.to_owned())
}

fn findings(found: &[Finding]) -> Markup {
    let none = !found.iter().any(|finding| finding.severity < Severity::Note);
    html! {
        section.findings {
            h2 { @if none { "Worth knowing" } @else { "Findings" } }
            @if none {
                p { "No call for the time is slow here, and no clock was found to step, by these measurements." }
            }
            @for finding in found {
                article class=(code(finding.severity)) {
                    h3 { span.severity { (code(finding.severity)) } " " (finding.what) }
                    dl {
                        @for seen in &finding.evidence { dt { "seen" } dd { (seen) } }
                        dt { "fix" }
                        @for (number, step) in finding.fix_by_step() { dd { (number) (step) } }
                        @if let Some(place) = finding.steps.as_ref().and_then(Steps::on) {
                            dt { "run" }
                            dd { (place) }
                        }
                        @for (name, command) in finding.steps.iter().flat_map(Steps::named) {
                            dt { (name) }
                            dd.step { code { (command) } button hidden type="button" { "Copy" } }
                        }
                        @if let Some(gain) = finding.gain() {
                            dt { "gain" }
                            dd { (gain) }
                        }
                        @if let Some(command) = finding.who {
                            dt { "who" }
                            dd.step { code { (command) } button hidden type="button" { "Copy" } }
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

fn latencies(rows: &[LatencyRow]) -> Markup {
    html! {
        table.wide {
            thead {
                tr {
                    th scope="col" { "from one to the next" }
                    @for name in ["median", "99 %", "99.99 %", "longest"] { th.number scope="col" { (name) } }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { (row.clock) }
                        @for ns in [row.median_ns, row.p99_ns, row.p99_99_ns, row.max_ns].map(as_f64) {
                            td.number { (time(ns)) }
                        }
                    }
                }
            }
        }
    }
}

/// The comparison of the CPUs' counters.
fn pairs(warp: &Warp) -> Markup {
    let (title, rows) = warp::pairs(warp);
    html! {
        figure.across {
            h3 { "Counters of the CPUs against each other" }
            p { (warp::verdict(warp)) " " (title) "." }
            table.wide {
                thead { tr { @for head in warp::HEADS { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
            figcaption {
                "Two threads exchange the counter's value; the offset is the interval that contains the difference between "
                "the two counters. It is mostly as wide as an exchange takes."
            }
        }
    }
}

fn gates(gates: &[Gate]) -> Markup {
    html! {
        table.facts {
            tbody {
                @for gate in gates {
                    tr {
                        th scope="row" { (gate.gate.replace('_', " ")) }
                        td {
                            @if gate.open { "open" } @else { strong.closed { "closed" } }
                            @if let Some(text) = &gate.text { ": " (text) }
                        }
                    }
                }
            }
        }
    }
}

/// JSON that cannot end its script element, whatever its strings contain: `<`, `>` and `&` occur
/// only in strings, where JSON allows escapes.
fn for_script(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// `TICKLINE_WRITE_REPORT=FILE` stores the report.
    #[test]
    fn hostile_facts_are_shown_and_not_run_and_nothing_is_loaded() {
        let report = html(&sample::document()).unwrap();
        if let Some(path) = std::env::var_os("TICKLINE_WRITE_REPORT") {
            std::fs::write(path, &report).unwrap();
        }
        let none = "No call for the time is slow";
        for part in
            [none, "<script>alert", "<!--", "http:", "https:", "url(", "@import", " src=", "<img", "fetch("]
        {
            assert!(!report.contains(part), "{part}");
        }
        assert_eq!(report.matches("</script>").count(), 2, "the data and the script");
        let data =
            report.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["machine"]["cpu"], sample::HOSTILE);
        for part in [
            "&lt;/script&gt;",
            "something is as it should not be",
            "long/long",
            "something else",
            "52.5 times as fast",
            "echo a_clock | sudo tee",
        ] {
            assert!(report.contains(part), "{part} is not shown");
        }
    }

    #[test]
    fn what_was_not_measured_or_found_is_not_shown() {
        let mut document = Document::new("report");
        let none = "No call for the time is slow";
        let report = html(&document).unwrap();
        assert!(!report.contains("<figure") && report.contains("counter exists"), "{report}");
        assert!(!report.contains(none));
        document.findings = Some(Vec::new());
        assert!(html(&document).unwrap().contains(none));
    }
}
