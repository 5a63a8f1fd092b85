//! `tickline report`: writes the document as one HTML file, for any browser.

#[cfg(test)]
pub(crate) mod example;
mod html;
mod offset;

use std::io;

use crate::args::Report;
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::{latency, warp};
use crate::output::{Destination, JsonOutput};
use crate::progress::Progress;
use crate::screen::Screen;
use crate::setup::Setup;

pub(crate) fn run(args: &Report) -> io::Result<Exit> {
    let setup = Setup::start();
    let output = JsonOutput::open(&args.json)?;
    let destination = output.open_second("--out", &args.out)?;
    let progress = Progress::new();
    let mut document = setup.measure("report", args.time, &progress, 0.7);
    document.latencies = latency::measure(progress.part("single readings", 0.7, 0.8));
    document.warp = Some(warp::measure_all(progress.part("counters", 0.8, 1.0)));
    progress.finish();
    conclude(&mut document);
    write(&destination, &document, output)?;
    Ok(document.exit())
}

/// Adds the findings. If the counters are unsynchronised, also says so in the result.
fn conclude(document: &mut Document) {
    document.diagnose();
    if let Some(result) = document.unsynchronised().map(crate::commands::warp::result) {
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
    document.show_result(&mut screen);
    screen.line(&format!("\nThe report is in {}.", destination.name()));
    output.emit(document, &screen.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Finding;
    use crate::measure::served_by::ServedBy;

    /// Symptom: a report showed unsynchronised pairs, but no finding about them. Cause: the
    /// diagnosis came before the comparison of the counters.
    #[test]
    fn unsynchronised_counters_are_a_finding_of_the_report() {
        let says_so = |document: &Document| {
            let is_finding = |finding: &Finding| finding.code == "counters_unsynchronised";
            let report = html::html(document);
            let pair =
                "<th scope=\"row\">0 and 48</th><td>0</td><td>0</td><td>48000.0</td><td>-30.0 to +40.0</td>";
            let is_shown = report.contains(" CPUs are unsynchronised.</h1>") && report.contains(pair);
            assert_eq!(document.findings().iter().any(is_finding), is_shown, "{:?}", document.findings);
            is_shown && document.result.contains(" The counters are unsynchronised: ")
        };
        let exit = |document: &mut Document| {
            conclude(document);
            document.exit()
        };
        let mut document = example::document();
        document.fast = true;
        assert_eq!(exit(&mut document), Exit::Negative);
        assert!(says_so(&document), "{}", document.result);

        (document.warp, document.result) = (None, String::new());
        assert_eq!(exit(&mut document), Exit::Negative, "the example's clocks are slow");
        (document.machine.clocksource, document.machine.clock_gettime_file) = (Some("tsc".to_owned()), None);
        document.costs.iter_mut().for_each(|row| row.served_by = row.served_by.and(Some(ServedBy::Vdso)));
        assert_eq!(exit(&mut document), Exit::Success);
        assert!(!says_so(&document), "{document:?}");
    }
}
