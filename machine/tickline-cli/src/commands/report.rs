//! `tickline report`: writes the document as one HTML file, for any browser.

mod html;
mod offset;

use std::io;

use super::result::show_result;
use crate::args::Report;
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::{latency, warp};
use crate::output::{Destination, JsonOutput, out_or_stdout};
use crate::progress::Progress;
use crate::screen::Screen;
use crate::setup::{Setup, Shares};

pub(crate) fn run(args: &Report) -> io::Result<Exit> {
    let out = out_or_stdout(args.out.as_deref(), "report", "clocks.html")?;
    let setup = Setup::start()?;
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let destination = output.find_second("--out", out)?.tried()?;
    let progress = Progress::new();
    let ends = Shares {
        tracked: 0.4,
        measured: 0.7,
    };
    let mut document = setup.measure("report", args.duration, &progress, ends)?;
    document.latencies = latency::measure(progress.part("single readings", ends.measured, 0.8));
    document.warp = Some(warp::measure_all(progress.part("counters", 0.8, 1.0)));
    progress.finish();
    conclude(&mut document);
    write(&destination, &document, output)?;
    Ok(document.exit())
}

/// Adds the findings. If the counters are unsynchronised, also says so in the result.
fn conclude(document: &mut Document) {
    document.add_diagnosis();
    if let Some(result) = document
        .unsynchronised_warp_test()
        .map(crate::commands::warp::result)
    {
        document.result = format!("{} {result}", document.result);
    }
}

/// Writes the report, the JSON, and the result. The result goes to standard output, unless the
/// report or the JSON goes there.
fn write(destination: &Destination, document: &Document, output: JsonOutput) -> io::Result<()> {
    let report = html::html(document) + "\n";
    if destination.is_stdout() {
        return output.emit(document, &report);
    }
    destination.save(report.as_bytes())?;
    let mut screen = Screen::for_stdout();
    show_result(document, &mut screen);
    screen.line(&format!("\nThe report is in {}.", destination.name()));
    output.emit(document, &screen.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example;
    use crate::measure::served_by::ServedBy;

    /// Symptom: a report showed unsynchronised pairs, but no finding about them. Cause: the
    /// diagnosis came before the comparison of the counters.
    #[test]
    fn unsynchronised_counters_are_a_finding_of_the_report() {
        const PAIR: &str = "<th scope=\"row\">0 and 48</th><td>0</td><td>0</td><td>48000.0</td><td>-30.0 to +40.0</td>";
        let mut document = example::document();
        let unsynchronised = document.warp.take();
        // Nothing but the counters may be wrong. The kernel is not known to use them.
        document.fast = true;
        document.machine.clocksource = None;
        document.machine.clock_gettime_file = None;
        for row in &mut document.costs {
            row.served_by = row.served_by.and(Some(ServedBy::Vdso));
        }
        for (warp, exit, is_shown) in [
            (None, Exit::Success, false),
            (unsynchronised, Exit::Negative, true),
        ] {
            document.warp = warp;
            document.result = String::new();
            conclude(&mut document);
            assert_eq!(document.exit(), exit, "{document:?}");
            let has_finding = document
                .findings()
                .iter()
                .any(|found| found.code == "counters_unsynchronised");
            assert_eq!(has_finding, is_shown, "{:?}", document.findings);
            assert_eq!(
                document
                    .result
                    .contains("The counters are unsynchronised: "),
                is_shown
            );
            let report = html::html(&document);
            let parts = [" CPUs are unsynchronised.</h1>", PAIR];
            assert_eq!(
                parts.map(|part| report.contains(part)),
                [is_shown; 2],
                "{report}"
            );
        }
    }
}
