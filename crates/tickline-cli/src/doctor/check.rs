//! `--check`: one line for a monitoring system, in the form of its plugins: `SERVICE STATUS - text
//! | performance data`, where a figure is `'label'=value[unit];[warn];[critical];[minimum]`
//! (Monitoring Plugins Development Guidelines, "Plugin Output for Nagios").

use std::io;

use crate::diagnose::{Health, Level};
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::calls::MONOTONIC;
use crate::measure::signed_f64;
use crate::output::to_stdout;
use crate::terminal::plain;

/// The line and its exit code.
pub(super) fn line(document: &Document) -> (String, Exit) {
    let (level, text) = match &document.health {
        Some(health) => (health.level, health.text.as_str()),
        None => (Level::Unknown, "no diagnosis was made"),
    };
    let (status, exit) = match level {
        Level::Ok => ("OK", Exit::Success),
        Level::Unsure | Level::Slow => ("WARNING", Exit::Negative),
        Level::Wrong => ("CRITICAL", Exit::Error),
        Level::Unknown => ("UNKNOWN", Exit::Unknown),
    };
    let worst =
        document.findings().first().filter(|_| document.health.as_ref().is_some_and(Health::needs_care));
    let code = worst.map(|finding| format!(" [{}]", finding.code));
    let mut line = format!("TICKLINE {status} - {text}{}", code.unwrap_or_default());
    // In this format a bar begins the data, so the text must not have one.
    line = plain(&line).replace('|', "/");
    let costs = [
        ("clock_gettime", document.cost_ns(MONOTONIC)),
        ("possible", document.attainable_ns()),
        ("tickline", document.cost_ns("tickline::now_ns")),
    ];
    // The guidelines have no unit below the microsecond.
    let cost = |(name, ns): (&str, Option<f64>)| Some(format!(" {name}={:.4}us;;;0", ns? / 1_000.0));
    let seconds = |ns: i64| format!("{:.6}", signed_f64(ns) / 1e9);
    let most = document.max_error_ns.map(seconds).unwrap_or_default();
    let error = document.utc_bound_ns().map(|ns| format!(" utc_error={}s;{most};;0", seconds(ns)));
    let figures: String = costs.into_iter().filter_map(cost).chain(error).collect();
    if !figures.is_empty() {
        line += " |";
    }
    (line + &figures, exit)
}

/// Prints the line of an error, which leaves everything unknown. If it cannot be printed, the error
/// goes to standard error, and the exit code stays: 2, the usual code of an error, would mean
/// critical.
pub(crate) fn unknown(error: &dyn std::error::Error) -> Exit {
    let text = plain(error.to_string().lines().next().unwrap_or_default());
    let line = format!("TICKLINE UNKNOWN - {}\n", text.replace('|', "/"));
    if to_stdout(line).is_err() {
        // A failure here cannot be reported any more.
        io::Write::write_all(&mut io::stderr(), format!("tickline: {text}\n").as_bytes()).ok();
    }
    Exit::Unknown
}
