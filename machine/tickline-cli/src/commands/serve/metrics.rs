//! `tickline serve status --openmetrics`: the page's state for a monitoring system. The names
//! differ from the names in `doctor --openmetrics`, because node_exporter refuses a metric that is
//! in two files.

use jiff::Timestamp;

use super::status::{PagePhase, PageReport};
use crate::float::{as_f64, signed_f64};
use crate::openmetrics::{Gauge, Sample, seconds};

/// What is known of the page.
#[derive(Debug, Clone, Copy)]
pub(super) enum PageState<'a> {
    /// There is no page.
    NoPage,
    /// There is one, and its state could not be read.
    Unknown,
    /// Its state.
    Known(&'a PageReport),
}

/// The gauges that have samples, and the end marker.
pub(super) fn text(state: PageState<'_>, taken_at: Timestamp) -> String {
    let (is_found, is_serving, report) = match state {
        PageState::NoPage => (false, Some(false), None),
        PageState::Unknown => (true, None, None),
        PageState::Known(report) => (true, Some(report.serving), Some(report)),
    };
    let span = |name, help, ns: fn(&PageReport) -> Option<i64>| {
        Gauge::figure(name, help, report.and_then(ns).map(seconds))
    };
    let gauges = [
        Gauge::yes_or_no(
            "tickline_page_found",
            "Whether there is a page.",
            Some(is_found),
        ),
        Gauge::yes_or_no(
            "tickline_page_serving",
            "Whether programs get the time from the page.",
            is_serving,
        ),
        Gauge::yes_or_no(
            "tickline_page_switched_off",
            "Whether an administrator has switched the page off.",
            report.map(|report| report.switched_off),
        ),
        Gauge::yes_or_no(
            "tickline_page_server",
            "Whether a server keeps the page.",
            report.and_then(|report| report.server.exists()),
        ),
        Gauge::labelled(
            "tickline_page_phase",
            "The page's phase: 1 at the phase that applies.",
            report.into_iter().flat_map(phases),
        ),
        Gauge::labelled(
            "tickline_page_no_line_reason",
            "Why the machine's counter serves no line: 1 at the reason.",
            report.and_then(no_line_reason),
        ),
        span(
            "tickline_page_line_age_seconds",
            "How long the page's line has been in use.",
            |report| report.age_ns,
        ),
        span(
            "tickline_page_lease_left_seconds",
            "How long programs use the page if its server dies now; negative if they no longer do.",
            |report| report.lease_left_ns,
        ),
        span(
            "tickline_page_lead_seconds",
            "How far readings of monotonic time may be above the OS clock.",
            |report| report.lead_limit_ns,
        ),
        span(
            "tickline_page_unix_lead_seconds",
            "How far readings of Unix time may be above the OS clock.",
            |report| report.unix_lead_limit_ns,
        ),
        span(
            "tickline_page_ahead_seconds",
            "How far the page's line is above the OS clock now.",
            |report| report.lead_now_ns,
        ),
        Gauge::labelled(
            "tickline_page_processes",
            "Processes that read the page by the library or by themselves, have the library and \
             not this page, were started by tickline run without either, or may not be examined.",
            report.into_iter().flat_map(processes),
        ),
        Gauge::figure(
            "tickline_page_taken_timestamp_seconds",
            "When the page was read, Unix time.",
            Some(signed_f64(taken_at.as_second())),
        ),
    ];
    let mut text: String = gauges.iter().map(Gauge::text).collect();
    text += "# EOF\n";
    text
}

fn phases(report: &PageReport) -> impl Iterator<Item = Sample> + use<> {
    let now = report.phase;
    PagePhase::all().map(move |phase| Sample {
        labels: vec![("phase", phase.code().to_owned())],
        figure: f64::from(phase == now),
    })
}

fn no_line_reason(report: &PageReport) -> Option<Sample> {
    let reason = report.why_no_line?.reason_of_machine()?;
    Some(Sample {
        labels: vec![("reason", reason.code().to_owned())],
        figure: 1.0,
    })
}

fn processes(report: &PageReport) -> [Sample; 5] {
    let by_library = report.readers.iter().filter(|reader| reader.by_library);
    let by_library = by_library.count();
    let counts = [
        ("by_library", by_library),
        ("by_itself", report.readers.len() - by_library),
        ("library_only", report.library_only.len()),
        ("run_only", report.run_only.len()),
        ("unknown", report.readers_unknown.len()),
    ];
    counts.map(|(reads, count)| Sample {
        labels: vec![("reads", reads.to_owned())],
        figure: as_f64(count as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::super::status::testing::report;
    use super::super::status::{PageServer, WhyNoLine};
    use super::*;

    /// Dashboards and alarms use these names and units, so a change here breaks them.
    #[test]
    fn the_figures_of_a_page_are_the_stored_ones() {
        let shown = text(PageState::Known(&report()), Timestamp::UNIX_EPOCH);
        let stored = include_str!("../../../tests/data/openmetrics_page_expected.txt");
        assert_eq!(shown, stored);
    }

    #[test]
    fn without_a_page_the_figures_say_so() {
        let shown = text(PageState::NoPage, Timestamp::UNIX_EPOCH);
        assert!(shown.contains("\ntickline_page_found 0\n"), "{shown}");
        assert!(shown.contains("\ntickline_page_serving 0\n"), "{shown}");
        assert!(!shown.contains("phase"), "{shown}");
    }

    #[test]
    fn the_reason_for_no_line_is_a_label() {
        let mut without_line = report();
        without_line.why_no_line = Some(WhyNoLine::Machine(tickline::Reason::KernelRejected));
        let shown = text(PageState::Known(&without_line), Timestamp::UNIX_EPOCH);
        let expected = "tickline_page_no_line_reason{reason=\"kernel_rejected\"} 1\n";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn an_unknown_server_is_not_written() {
        let mut unknown = report();
        unknown.server = PageServer::Unknown("no right".to_owned());
        let shown = text(PageState::Known(&unknown), Timestamp::UNIX_EPOCH);
        assert!(!shown.contains("tickline_page_server"), "{shown}");
    }
}
