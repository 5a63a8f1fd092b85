//! `tickline watch`: shows the global clock live.

mod plot;
mod table;
mod text;
mod view;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::args;
use crate::cpu_list;
use crate::exit::Exit;
use crate::float::as_f64;
use crate::measure::stopwatch::Stopwatch;
use crate::measure::watch::{Ending, Sampler, WatchSummary};
use crate::output::{JsonOutput, check_stdout, is_stdout, line_to_stderr};
use crate::progress::Progress;
use crate::screen;
use crate::setup::Setup;
use crate::signal;

use table::Table;
use view::View;

/// The most CPUs that are sampled by default. A sample takes about 0.1 ms.
const MAX_WATCHED_CPUS: usize = 64;

/// The longest delay until the loop notices a signal.
const NAP: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &args::Watch) -> io::Result<Exit> {
    let setup = Setup::start_clock()?;
    let mut cpus = cpu_list::chosen(args.cpus.as_ref())?;
    if args.cpus.is_none() {
        cpus.truncate(MAX_WATCHED_CPUS);
    }
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let csv = args.csv.as_deref();
    let table = csv.map(|path| Table::create(output.find_second("--csv", path)?));
    let stop = signal::stop_flag()?;
    let watch = watch(args, cpus, &stop, table.transpose()?)?;
    let mut document = setup.document("watch", Vec::new(), None)?;
    document.watch = Some(watch);
    let summary = text::summary(&document);
    if csv.is_some_and(is_stdout) {
        output.emit(&document, "")?;
        line_to_stderr(summary.trim_end());
    } else {
        output.emit(&document, &summary)?;
    }
    Ok(document.exit())
}

/// Takes samples until the time is up, a signal comes, or the reader of standard output exits.
/// Returns the summary.
fn watch(
    args: &args::Watch,
    cpus: Vec<u32>,
    stop: &AtomicBool,
    mut table: Option<Table>,
) -> io::Result<WatchSummary> {
    // If standard output carries the table or the JSON, no lines go there.
    let is_shown = [&args.csv, &args.json.target]
        .into_iter()
        .flatten()
        .all(|path| !is_stdout(path));
    let progress = if is_shown {
        None
    } else {
        QuietProgress::new(args)
    };
    let columns = || {
        io::stdout()
            .is_terminal()
            .then(|| screen::columns().max(20))
    };
    let mut view = View::new(&cpus);
    let mut sampler = Sampler::new(cpus, args.interval);
    let start = Stopwatch::start();
    let end = args.duration;
    let mut due = Duration::ZERO;
    let ended_by = loop {
        let sample = sampler.sample();
        let written = table.as_mut().map_or(Ok(()), |table| table.add(&sample));
        let shown = written.and_then(|()| {
            if !is_shown {
                return Ok(());
            }
            let lines = view.lines(&sample, &sampler.summary.cpus, columns());
            check_stdout()?;
            write!(io::stdout(), "{lines}")
        });
        if let Some(progress) = &progress {
            progress.show(&sampler.summary);
        }
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ending::ReaderLeft,
            shown => shown?,
        }
        due = next_due(due, start.elapsed(), args.interval);
        if wait_until(start, end.map_or(due, |end| due.min(end)), stop) {
            break Ending::Stopped;
        }
        if end.is_some_and(|end| start.elapsed() >= end) {
            break Ending::Time;
        }
    };
    if let Some(progress) = progress {
        progress.bar.finish();
    }
    Ok(sampler.finish(ended_by))
}

/// The time of the next sample. After a suspend, or on a busy machine, the samples that were missed
/// are skipped.
fn next_due(due: Duration, now: Duration, interval: Duration) -> Duration {
    let next = due + interval;
    if next < now { now + interval } else { next }
}

/// The progress of a watch that shows no lines.
struct QuietProgress {
    bar: Progress,
    duration: Option<Duration>,
}

impl QuietProgress {
    /// `None` if the user sees the rows of a table.
    fn new(args: &args::Watch) -> Option<Self> {
        let csv_is_shown = args.csv.as_deref().is_some_and(is_stdout) && io::stdout().is_terminal();
        if csv_is_shown {
            return None;
        }
        let bar = match args.duration {
            Some(_) => Progress::new(),
            None => Progress::without_end(),
        };
        Some(Self {
            bar,
            duration: args.duration,
        })
    }

    fn show(&self, summary: &WatchSummary) {
        match self.duration {
            Some(duration) => {
                self.bar.part("samples", 0.0, 1.0)(finished_share(summary, duration));
            }
            None => self.bar.count(summary.all.samples),
        }
    }
}

/// The finished share of a watch of this duration, by its samples.
fn finished_share(summary: &WatchSummary, duration: Duration) -> f64 {
    let watched_s = as_f64(summary.all.samples) * summary.interval_s;
    (watched_s / duration.as_secs_f64()).min(1.0)
}

/// Waits until `start` is `due` ago, or until a signal sets `stop`. Returns whether a signal has come.
fn wait_until(start: Stopwatch, due: Duration, stop: &AtomicBool) -> bool {
    // ORDERING: Relaxed, pairs with the signal handler's store. The flag publishes no other data.
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_sub(start.elapsed());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(NAP));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn samples_are_an_interval_apart() {
        let due = SECOND;
        for now in [due, due + SECOND / 2, due + SECOND] {
            assert_eq!(next_due(due, now, SECOND), due + SECOND);
        }
    }

    #[test]
    fn missed_samples_are_skipped() {
        let due = SECOND;
        let now = due + 7 * SECOND / 2;
        assert_eq!(next_due(due, now, SECOND), now + SECOND);
    }

    #[test]
    fn the_progress_of_a_watch_is_the_share_of_its_samples() {
        let mut summary = WatchSummary::default();
        summary.interval_s = 0.5;
        summary.all.samples = 3;
        assert_eq!(finished_share(&summary, 3 * SECOND), 0.5);
        summary.all.samples = 7;
        assert_eq!(finished_share(&summary, 3 * SECOND), 1.0);
    }

    #[test]
    fn a_wait_ends_at_its_time_or_at_a_signal() {
        let stop = AtomicBool::new(false);
        let start = Stopwatch::start();
        let due = Duration::from_millis(2);
        assert!(!wait_until(start, due, &stop));
        assert!(start.elapsed() >= due);
        let stop = AtomicBool::new(true);
        assert!(wait_until(start, 3_600 * SECOND, &stop));
    }
}
