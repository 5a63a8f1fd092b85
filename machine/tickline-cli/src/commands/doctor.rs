//! `tickline doctor`: explains the clocks of this machine, or of a recorded machine.

mod switch_clocksource;
mod text;

pub(crate) use text::GATES;

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::args::Doctor;
use crate::diagnose::level;
use crate::document::{Document, Finding, Health, Level, Severity};
use crate::exit::{Exit, PluginStatus};
use crate::float::signed_f64;
use crate::input;
use crate::measure::calls::{MONOTONIC, NOW_NS};
use crate::measure::standstill::{SlowClock, StandingClocks};
use crate::openmetrics;
use crate::output::{Destination, JsonOutput, line_to_stderr, to_stdout};
use crate::progress::Progress;
use crate::setup::{Setup, Shares};
use crate::sudo;
use crate::words::plain;

pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    let result = match &args.facts {
        Some(file) => diagnose_recorded(file, args),
        None => diagnose_this_machine(args),
    };
    match result {
        Err(error) if args.check && is_standing_clock(&error) => {
            Ok(check_failed(PluginStatus::Critical, &error))
        }
        Err(error) if args.check => Ok(unknown(&error)),
        result => result,
    }
}

fn diagnose_this_machine(args: &Doctor) -> io::Result<Exit> {
    if args.fix {
        switch_clocksource::check_can_ask(args)?;
    }
    let setup = Setup::start()?;
    let destinations = open_destinations(args)?;
    // A monitoring system reads one line, and may run the command on a terminal of its own.
    let progress = if args.check {
        Progress::hidden()
    } else {
        Progress::new()
    };
    let ends = Shares {
        tracked: 0.6,
        measured: 1.0,
    };
    let mut document = setup.measure("doctor", args.duration, &progress, ends)?;
    document.max_error_ns = args.max_error_ns;
    document.add_diagnosis();
    progress.finish();
    let exit = write(destinations, args, &document, &document, document.exit())?;
    if args.fix {
        switch_clocksource::fix(&document, args)
    } else {
        Ok(exit)
    }
}

/// The keys that a new diagnosis replaces in a recorded document. All others stay, also those that
/// only another version knows.
#[derive(Serialize)]
struct Diagnosis<'a> {
    max_error_ns: Option<i64>,
    health: Option<&'a Health>,
    findings: &'a [Finding],
}

/// Diagnoses the machine of the file. The JSON output is the file's JSON with the new findings.
fn diagnose_recorded(file: &Path, args: &Doctor) -> io::Result<Exit> {
    let (mut json, mut document) = input::read_document(file)?;
    let destinations = open_destinations(args)?;
    destinations.document.check_inputs(&[file])?;
    if let Some(figures) = &destinations.figures {
        figures.check_inputs("--openmetrics", &[file])?;
    }
    document.max_error_ns = args.max_error_ns;
    document.add_diagnosis();
    let diagnosis = serde_json::to_value(Diagnosis {
        max_error_ns: document.max_error_ns,
        health: document.health.as_ref(),
        findings: document.findings(),
    })?;
    if let (Value::Object(recorded), Value::Object(diagnosis)) = (&mut json, diagnosis) {
        recorded.extend(diagnosis);
    }
    let exit = if document.is_bad() {
        Exit::Negative
    } else {
        Exit::Success
    };
    document.result = "This machine was recorded: nothing is measured here.".to_owned();
    write(destinations, args, &document, &json, exit)
}

/// The destinations of the document, and of the figures for a metrics collector.
struct Destinations {
    document: JsonOutput,
    figures: Option<Destination>,
}

fn open_destinations(args: &Doctor) -> io::Result<Destinations> {
    let document = JsonOutput::open(args.json.target.as_deref())?;
    let figures = document.open_second("--openmetrics", args.openmetrics.as_deref())?;
    Ok(Destinations { document, figures })
}

/// Writes document, text and figures. Returns `exit`, or with `--check` the exit code of the check.
fn write(
    destinations: Destinations,
    args: &Doctor,
    document: &Document,
    json: &impl Serialize,
    exit: Exit,
) -> io::Result<Exit> {
    let (mut output, exit) = if args.check {
        let (line, status) = check(document, &args.accept);
        (line, Exit::Plugin(status))
    } else {
        (text::text(document, &program(args)), exit)
    };
    if let Some(destination) = destinations.figures {
        let figures = openmetrics::text(document);
        if destination.is_stdout() {
            output = figures;
        } else {
            destination.save(figures.as_bytes())?;
        }
    }
    destinations.document.emit(json, &output)?;
    Ok(exit)
}

/// The name by which `sudo` finds this program on the machine of the document. For another machine
/// it is the usual name.
fn program(args: &Doctor) -> String {
    match &args.facts {
        Some(_) => sudo::NAME.to_owned(),
        None => sudo::this_program(),
    }
}

impl PluginStatus {
    const fn of(level: Level) -> Self {
        match level {
            Level::Ok => Self::Ok,
            Level::Unsure | Level::Slow => Self::Warning,
            Level::Wrong => Self::Critical,
            Level::Unknown => Self::Unknown,
        }
    }

    /// The word of the Monitoring Plugins Development Guidelines.
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// The line of `--check` for a monitoring system, and the status. The line has the form of a
/// monitoring plugin's output: `SERVICE STATUS - text | performance data` (Monitoring Plugins
/// Development Guidelines, "Plugin Output for Nagios"). Findings whose codes are `accepted` are in
/// the line, but change neither the status nor the exit code.
fn check(document: &Document, accepted: &[String]) -> (String, PluginStatus) {
    let (level, text) = match &document.health {
        Some(health) => (
            level(document, document.findings(), accepted),
            health.text.as_str(),
        ),
        None => (Level::Unknown, "no diagnosis was made"),
    };
    let status = PluginStatus::of(level);
    let word = status.word();
    let codes = codes(document, accepted);
    let line = format!("TICKLINE {word} - {text}{codes}");
    // In this format a bar begins the performance data, so the text must not contain one.
    let line = plain(&line).replace('|', "/");
    let figures = performance_data(document);
    let bar = if figures.is_empty() { "" } else { " |" };
    (format!("{line}{bar}{figures}\n"), status)
}

/// The codes of the findings in brackets: first the one that decides the level, then all others
/// except notes, and none twice. The `accepted` ones, also notes, are last, and marked. Nothing
/// without a finding.
fn codes(document: &Document, accepted: &[String]) -> String {
    let findings = document.findings();
    let health = document.health.as_ref();
    let deciding = health.and_then(|health| health.finding(findings));
    let is_accepted = |code: &&str| accepted.iter().any(|accepted| accepted == code);
    let others = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Note || is_accepted(&finding.code));
    let mut counted: Vec<&str> = Vec::new();
    for finding in deciding.into_iter().chain(others) {
        if !counted.contains(&finding.code) {
            counted.push(finding.code);
        }
    }
    let (accepted, counted): (Vec<_>, Vec<_>) = counted.into_iter().partition(is_accepted);
    let accepted = accepted.iter().map(|code| format!("{code} accepted"));
    let shown: Vec<_> = counted
        .into_iter()
        .map(str::to_owned)
        .chain(accepted)
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!(" [{}]", shown.join(", "))
}

/// The measured figures for a monitoring system, with a space before each. A figure has the form
/// `'label'=value[unit];[warn];[critical];[minimum]` (the same guidelines).
fn performance_data(document: &Document) -> String {
    let now_ns = document.cost_ns(MONOTONIC);
    // Where nothing is to be gained, the attainable cost may be the larger figure, because it is a
    // sum of two measured costs. The possible cost is then the present one.
    let possible_ns = document
        .attainable_cost_ns()
        .map(|ns| now_ns.map_or(ns, |now_ns| ns.min(now_ns)));
    let costs = [
        ("clock_gettime", now_ns),
        ("possible", possible_ns),
        ("tickline", document.cost_ns(NOW_NS)),
    ];
    // The guidelines have no unit below the microsecond.
    let cost =
        |(name, ns): (&str, Option<f64>)| Some(format!(" {name}={:.4}us;;;0", ns? / 1_000.0));
    let seconds = |ns: i64| format!("{:.6}", signed_f64(ns) / 1e9);
    let most = document.max_error_ns.map(seconds).unwrap_or_default();
    let error = document
        .utc_bound()
        .map(|bound| format!(" utc_error={}s;{most};;0", seconds(bound.ns)));
    costs.into_iter().filter_map(cost).chain(error).collect()
}

/// Prints the line of `--check` for an error, after which the state of the clocks is unknown.
pub(crate) fn unknown(error: &dyn std::error::Error) -> Exit {
    check_failed(PluginStatus::Unknown, error)
}

/// Whether the error is a clock that stands still or hardly moves: that clock is known to be wrong.
fn is_standing_clock(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|error| error.is::<StandingClocks>() || error.is::<SlowClock>())
}

/// Prints the line of `--check` for an error. If standard output can't be written, prints the error
/// to standard error.
fn check_failed(status: PluginStatus, error: &dyn std::error::Error) -> Exit {
    let text = plain(error.to_string().lines().next().unwrap_or_default());
    let line = format!("TICKLINE {} - {}\n", status.word(), text.replace('|', "/"));
    if to_stdout(line).is_err() {
        line_to_stderr(&format!("tickline: {text}"));
    }
    Exit::Plugin(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example;
    use crate::machine::Ntp;

    #[test]
    fn no_code_is_named_twice() {
        let mut document = example::document();
        let slow = document
            .findings()
            .iter()
            .find(|finding| finding.severity != super::Severity::Note)
            .expect("the example has a fault")
            .clone();
        let code = slow.code;
        let mut other = slow.clone();
        other.code = "other";
        document.findings = Some(vec![other.clone(), slow, other]);
        document.health = None;
        assert_eq!(codes(&document, &[]), format!(" [other, {code}]"));
    }

    /// A machine that must keep its slow clock, and has no NTP daemon by intent.
    fn slow_and_unsynchronised() -> Document {
        let mut document = example::document();
        let example = document.findings()[0].clone();
        let finding = |code, severity| Finding {
            code,
            severity,
            ..example.clone()
        };
        document.findings = Some(vec![
            finding("tsc_not_chosen", Severity::Slow),
            finding("ntp_unsynchronised", Severity::Unsure),
        ]);
        document.machine.ntp = Some(Ntp {
            synchronised: false,
            frequency_ppb: 0,
            tick_us: 10_000,
            offset_ns: 0,
            time_constant: None,
            maximum_error_us: 16_000_000,
            estimated_error_us: 16_000_000,
            flags: None,
            leap: None,
            tai_offset_s: None,
        });
        document.health = Some(Health::new(&document, document.findings()));
        document
    }

    /// The line of `--check`, and its exit code, with these codes accepted.
    fn checked(document: &Document, accepted: &[&str]) -> (String, PluginStatus) {
        let accepted: Vec<_> = accepted.iter().map(|code| (*code).to_owned()).collect();
        check(document, &accepted)
    }

    /// Symptom: where the slow clock must stay, the monitoring system warned for ever.
    #[test]
    fn accepted_findings_stay_in_the_line_and_do_not_count() {
        let both = ["tsc_not_chosen", "ntp_unsynchronised"];
        let (line, status) = checked(&slow_and_unsynchronised(), &both);
        assert_eq!(status, PluginStatus::Ok, "{line}");
        assert!(line.starts_with("TICKLINE OK - "), "{line}");
        let marked = "[tsc_not_chosen accepted, ntp_unsynchronised accepted]";
        assert!(line.contains(marked), "{line}");
    }

    #[test]
    fn findings_that_are_not_accepted_count() {
        for (accepted, codes) in [
            (&[][..], "[tsc_not_chosen, ntp_unsynchronised]"),
            (
                &["tsc_not_chosen"],
                "[ntp_unsynchronised, tsc_not_chosen accepted]",
            ),
            (
                &["ntp_unsynchronised"],
                "[tsc_not_chosen, ntp_unsynchronised accepted]",
            ),
            (&["time_off"], "[tsc_not_chosen, ntp_unsynchronised]"),
        ] {
            let (line, status) = checked(&slow_and_unsynchronised(), accepted);
            assert_eq!(status, PluginStatus::Warning, "{line}");
            assert!(line.contains(codes), "{codes}: {line}");
        }
    }

    /// Symptom: an accepted note was in the line only where it was the worst finding.
    #[test]
    fn an_accepted_note_is_in_the_line() {
        let mut document = slow_and_unsynchronised();
        let mut note = document.findings()[0].clone();
        note.severity = Severity::Note;
        note.code = "unix_stepped";
        document.findings.get_or_insert_default().push(note);
        let (line, _) = checked(&document, &["unix_stepped"]);
        let codes = "[tsc_not_chosen, ntp_unsynchronised, unix_stepped accepted]";
        assert!(line.contains(codes), "{line}");
        let (line, _) = checked(&document, &[]);
        assert!(!line.contains("unix_stepped"), "{line}");
    }

    #[test]
    fn what_no_accepted_finding_is_about_stays_unknown() {
        let mut document = slow_and_unsynchronised();
        document.machine.ntp = None;
        let (line, status) = checked(&document, &["tsc_not_chosen", "ntp_unsynchronised"]);
        assert_eq!(status, PluginStatus::Unknown, "{line}");
    }
}
