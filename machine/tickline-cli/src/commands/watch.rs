//! `tickline watch`: shows the global clock live.

mod table;
mod text;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::args;
use crate::cpu_list;
use crate::exit::Exit;
use crate::measure::watch::{Ending, Sampler, WatchSample, WatchSummary};
use crate::output::{JsonOutput, is_stdout, line_to_stderr};
use crate::screen::{self, Screen};
use crate::setup::Setup;
use crate::signal;

use table::Table;

/// The most CPUs that are sampled by default. A sample takes about 0.1 ms.
const MAX_WATCHED_CPUS: usize = 64;

/// The longest delay until the loop notices a signal.
const NAP: Duration = Duration::from_millis(50);

/// The number of lines on a terminal from one heading to the next.
const LINES_PER_HEAD: u64 = 20;

pub(crate) fn run(args: &args::Watch) -> io::Result<Exit> {
    let setup = Setup::start_clock();
    let mut cpus = cpu_list::chosen(args.cpus.as_ref())?;
    if args.cpus.is_none() {
        cpus.truncate(MAX_WATCHED_CPUS);
    }
    let output = JsonOutput::open(&args.json)?;
    let csv = args.csv.as_deref();
    let table = csv.map(|path| Table::create(output.find_second("--csv", path)?));
    let stop = signal::stop_flag()?;
    let watch = watch(args, cpus, &stop, table.transpose()?)?;
    let mut document = setup.document("watch", Vec::new(), None);
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
    let mut sampler = Sampler::new(cpus, args.interval);
    let start = Instant::now();
    let mut due = start;
    let ended_by = loop {
        let sample = sampler.sample();
        let written = table.as_mut().map_or(Ok(()), |table| table.add(&sample));
        let shown = written.and_then(|()| {
            if is_shown {
                show(&sample, &sampler.summary)
            } else {
                Ok(())
            }
        });
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ending::ReaderLeft,
            shown => shown?,
        }
        // After a suspend, or on a busy machine, skip the samples that were missed.
        due += args.interval;
        let now = Instant::now();
        if due < now {
            due = now + args.interval;
        }
        let end = args.time.and_then(|time| start.checked_add(time));
        if wait_until(end.map_or(due, |end| due.min(end)), stop) {
            break Ending::Stopped;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break Ending::Time;
        }
    };
    Ok(sampler.finish(ended_by))
}

/// Waits until `due`, or until a signal sets `stop`. Returns whether a signal has come.
fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    // ORDERING: Relaxed, pairs with the signal handler's store. The flag publishes no other data.
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(NAP));
    }
    true
}

/// Prints the line of a sample, which must be the last one in the summary.
fn show(sample: &WatchSample, summary: &WatchSummary) -> io::Result<()> {
    let mut stdout = io::stdout();
    let columns = stdout.is_terminal().then(screen::columns);
    if has_head(summary.all.samples - 1, columns) {
        write!(stdout, "{}", fitted(text::HEAD, columns))?;
    }
    let line = text::line(sample, &summary.cpus);
    write!(stdout, "{}", fitted(&line, columns))
}

/// Whether a heading comes before the line that follows `before` lines. A file has one heading.
/// `columns` are those of the terminal, if there is one.
fn has_head(before: u64, columns: Option<usize>) -> bool {
    before == 0 || columns.is_some() && before.is_multiple_of(LINES_PER_HEAD)
}

/// The line, broken at its spaces if it is too long for the terminal, which would break it in the
/// middle of a word.
fn fitted(line: &str, columns: Option<usize>) -> String {
    let mut screen = Screen::for_stdout();
    if columns.is_some_and(|columns| line.chars().count() > columns) {
        screen.say("", line)
    } else {
        screen.line(line)
    }
    screen.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_a_heading_every_20_lines() {
        let with_head: Vec<u64> = (0..=40).filter(|line| has_head(*line, Some(80))).collect();
        assert_eq!(with_head, [0, 20, 40]);
    }

    #[test]
    fn a_file_has_one_heading() {
        let with_head: Vec<u64> = (0..=40).filter(|line| has_head(*line, None)).collect();
        assert_eq!(with_head, [0]);
    }

    /// A paragraph has single spaces.
    #[test]
    fn only_a_line_that_is_longer_than_the_terminal_becomes_a_paragraph() {
        let line = "offset   5 ns";
        for columns in [None, Some(14), Some(13)] {
            assert_eq!(fitted(line, columns), "offset   5 ns\n", "{columns:?}");
        }
        assert_eq!(fitted(line, Some(12)), "offset 5 ns\n");
    }
}
