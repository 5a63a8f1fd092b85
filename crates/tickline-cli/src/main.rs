//! The program `tickline`: measures and explains the clocks of the machine it runs on.
//!
//! arguments (`args`) -> measurement (`costs`, `track`) -> findings (`findings`) -> output (`text`, `json`)

#![deny(unsafe_code)]

mod args;
mod calls;
mod costs;
mod findings;
mod json;
mod plot;
mod text;
mod track;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Args, JsonTarget};
use crate::findings::Findings;
use crate::json::Destination;

/// Fast and trusted.
const EXIT_FAST: u8 = 0;
/// Works, but a gate is closed.
const EXIT_CLOSED: u8 = 1;
/// Something went wrong.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nobody is left to tell if this fails.
            writeln!(io::stderr(), "tickline: {error}").ok();
            ExitCode::from(EXIT_ERROR)
        }
    }
}

fn run(args: &Args) -> io::Result<u8> {
    let destination = match &args.json {
        Some(JsonTarget::File(path)) => Some(Destination::open(path)?),
        _ => None,
    };
    let progress = progress_bar();
    let findings = measure(args.time, &progress)?;
    progress.finish_and_clear();

    if let Some(destination) = destination {
        destination.save(&findings)?;
    }
    let mut out = io::stdout().lock();
    ignore_broken_pipe(match &args.json {
        Some(JsonTarget::Stdout) => json::write(&findings, &mut out),
        _ => text::write(&findings, &mut out),
    })?;
    Ok(if findings.is_fast() { EXIT_FAST } else { EXIT_CLOSED })
}

/// The tracking goes first: it gives the clock's thread the time to settle, and the costs are then those of a clock in its
/// steady state.
fn measure(time: Duration, progress: &ProgressBar) -> io::Result<Findings> {
    let guard = tickline::start().map_err(io::Error::other)?;
    progress.set_message("offset and bound");
    let track = track::track(time, |done| advance(progress, done, 0.0, 0.9));
    progress.set_message("costs");
    let costs = costs::measure(|done| advance(progress, done, 0.9, 1.0));
    let findings = Findings::new(costs, track);
    drop(guard);
    Ok(findings)
}

const PROGRESS_STEPS: u64 = 1_000;
const PROGRESS_STEPS_F64: f64 = 1_000.0;

/// A bar on stderr; none where that is not a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(PROGRESS_STEPS);
    let style = ProgressStyle::with_template("measuring {msg:17} [{bar:30}] {percent:>3} %");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 1,000 steps")]
fn advance(progress: &ProgressBar, done: f64, from: f64, to: f64) {
    progress.set_position(((from + done * (to - from)) * PROGRESS_STEPS_F64) as u64);
}

/// A reader that has seen enough is no error.
fn ignore_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
