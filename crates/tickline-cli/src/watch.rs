//! `tickline watch`: the global clock, live.

mod lines;
mod rows;
mod tally;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts;

use crate::args::{self, Target};
use crate::cpu_list;
use crate::document::{Document, Ending, TrackSummary, Watch};
use crate::exit::Exit;
use crate::measure::watch::{Sample, Watcher};
use crate::output::Outputs;
use crate::rights;
use crate::terminal;
use crate::wrap::Layout;

use rows::Table;
use tally::Tally;

/// CPUs that are sampled by default: a sample takes some 0.1 ms.
const MOST_CPUS: usize = 64;

/// Longest delay until a signal is noticed.
const NAP: Duration = Duration::from_millis(50);

/// The signals that end `watch` with a summary. SIGHUP is one of them, unless the parent process
/// ignores it, as `nohup` does. SIGINT and SIGTERM always are, even if a shell makes its background
/// programs ignore them.
fn stops() -> Vec<i32> {
    let stops = [consts::SIGINT, consts::SIGTERM].into_iter();
    #[cfg(unix)]
    let stops = stops.chain(Some(consts::SIGHUP).filter(|hangup| !crate::signal::is_ignored(*hangup)));
    stops.collect()
}

pub(crate) fn run(args: &args::Watch) -> io::Result<Exit> {
    let guard = rights::start_clock();
    let mut cpus = cpu_list::chosen(args.cpus.as_ref())?;
    if args.cpus.is_none() {
        cpus.truncate(MOST_CPUS);
    }
    let outputs = Outputs::open(&args.json)?;
    let csv = args.csv.as_ref();
    let rows = csv.map(|target| Table::create(outputs.open_beside("--csv", target)?));
    let mut rows = rows.transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in stops() {
        // A second signal ends the program at once: a blocked pipe may keep it from noticing the
        // first.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let start = Instant::now();
    let mut tally = Tally::new(args.json.target.as_ref().map(|_| Vec::new()));
    let watched = watch(args, cpus, &stop, rows.as_mut(), &mut tally);
    let watched_s = start.elapsed().as_secs_f64();
    let ended_by = watched?;
    let mut document = Document::new("watch");
    document.clock.thread_error = guard.as_ref().err().cloned();
    drop(guard);
    let interval_s = args.interval.as_secs_f64();
    document.watch = Some(Watch { interval_s, watched_s, ended_by, ..tally.watch() });
    document.track = tally.points.map(TrackSummary::of);
    let exit = document.exit();
    if args.csv == Some(Target::Stdout) {
        outputs.emit(&document, |_| Ok(()))?;
        lines::summary(&document, Layout::of_stdout(), &mut io::stderr()).ok();
    } else {
        outputs.emit(&document, |out| lines::summary(&document, Layout::of_stdout(), out))?;
    }
    Ok(exit)
}

/// Takes samples until the time is up, or a signal or the reader ends it.
fn watch(
    args: &args::Watch,
    cpus: Vec<u32>,
    stop: &AtomicBool,
    mut rows: Option<&mut Table>,
    tally: &mut Tally,
) -> io::Result<Ending> {
    let (mut watcher, mut view) = (Watcher::new(cpus, args.interval), View::of(args));
    let start = Instant::now();
    let mut due = start;
    let ending = loop {
        let sample = watcher.sample();
        tally.add(&sample);
        let written = rows.as_mut().map_or(Ok(()), |rows| rows.add(&sample));
        let shown = written.and_then(|()| view.as_mut().map_or(Ok(()), |view| view.show(&sample)));
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ending::ReaderLeft,
            shown => shown?,
        }
        // After a suspend, or on a busy machine, the missed samples are not taken late.
        due += args.interval;
        let now = Instant::now();
        if due < now {
            due = now + args.interval;
        }
        let end = args.time.and_then(|time| start.checked_add(time));
        if is_stopped_before(end.map_or(due, |end| due.min(end)), stop) {
            break Ending::Stopped;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break Ending::Time;
        }
    };
    tally.add_cpu_samples(&watcher.new_cpu_samples());
    Ok(ending)
}

/// Waits until `due`. Returns whether a signal asks for the end.
fn is_stopped_before(due: Instant, stop: &AtomicBool) -> bool {
    // ORDERING: Relaxed, pairs with the signal handler's store; a flag that is polled.
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(NAP));
    }
    true
}

/// Lines on a terminal from one heading to the next.
const LINES_PER_HEAD: usize = 20;

/// The lines that show the samples: their number, and the events that were printed.
struct View(usize, Vec<(&'static str, u64)>);

impl View {
    /// `None` where standard output carries rows or JSON.
    fn of(args: &args::Watch) -> Option<Self> {
        let is_taken = args.csv == Some(Target::Stdout) || args.json.target == Some(Target::Stdout);
        (!is_taken).then(|| Self(0, Vec::new()))
    }

    fn show(&mut self, sample: &Sample) -> io::Result<()> {
        let Self(count, printed) = self;
        let is_terminal = io::stdout().is_terminal();
        let say = |line: &str| {
            // A terminal would break it in the middle of words.
            let is_long = is_terminal && line.chars().count() > terminal::columns();
            let line = if is_long { Layout::of_stdout().wrap("", line) } else { line.to_owned() };
            writeln!(io::stdout(), "{line}")
        };
        if *count == 0 || is_terminal && *count % LINES_PER_HEAD == 0 {
            say(lines::HEAD)?;
        }
        say(&lines::line(sample, printed))?;
        *count += 1;
        printed.clone_from(&sample.events);
        Ok(())
    }
}
