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

    /// The example, in which nothing but the counters is wrong. The kernel is not known to use
    /// them.
    fn unsynchronised() -> Document {
        let mut document = example::document();
        document.fast = true;
        document.machine.clocksource = None;
        document.machine.clock_gettime_file = None;
        for row in &mut document.costs {
            row.served_by = row.served_by.and(Some(ServedBy::Vdso));
        }
        document.result = String::new();
        document
    }

    /// The same without a comparison of the counters.
    fn not_compared() -> Document {
        Document {
            warp: None,
            ..unsynchronised()
        }
    }

    fn concluded(mut document: Document) -> Document {
        conclude(&mut document);
        document
    }

    /// Symptom: a report showed unsynchronised pairs, but no finding about them. Cause: the
    /// diagnosis came before the comparison of the counters.
    #[test]
    fn unsynchronised_counters_are_a_finding_of_the_report() {
        for (document, is_found) in [(not_compared(), false), (unsynchronised(), true)] {
            let document = concluded(document);
            let mut codes = document.findings().iter().map(|found| found.code);
            assert_eq!(
                codes.any(|code| code == "counters_unsynchronised"),
                is_found,
                "{:?}",
                document.findings
            );
        }
    }

    #[test]
    fn unsynchronised_counters_make_the_exit_negative() {
        for (document, exit) in [
            (not_compared(), Exit::Success),
            (unsynchronised(), Exit::Negative),
        ] {
            let document = concluded(document);
            assert_eq!(document.exit(), exit, "{document:?}");
        }
    }

    #[test]
    fn the_result_says_that_the_counters_are_unsynchronised() {
        for (document, is_said) in [(not_compared(), false), (unsynchronised(), true)] {
            let result = concluded(document).result;
            assert_eq!(
                result.contains("The counters are unsynchronised: "),
                is_said,
                "{result}"
            );
        }
    }
}
