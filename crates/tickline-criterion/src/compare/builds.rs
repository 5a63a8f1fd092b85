//! Runs two builds of a benchmark alternately: `--against PROGRAM`.
//!
//! This process measures the new build, as always. For each of its benchmarks it starts the other
//! program, with the benchmark's name. There criterion runs that benchmark alone, and this crate
//! takes no sample until it is asked for one. This process drives, and the other one serves. The
//! contract:
//!
//! 1. Both processes are bound to one CPU (Linux), and only one of them runs at a time: the other
//!    one waits for a line.
//! 2. They alternate by slices of 10 ms or less. A random number decides which comes first.
//! 3. Both have samples of the same size, and pairs of the same number of iterations.
//! 4. The n-th pair of a slice and the n-th of the other build's slice are a couple, as those
//!    of [`compare`](crate::compare), which gives the verdict. Its rounds have whole slices.
//!
//! | line | sent to | says |
//! |---|---|---|
//! | `tickline-criterion: counter` | this build | ready, and by which clock |
//! | `[7,5000,64]` | the other build | take a slice of sample 7, of 5,000 iterations, 64 in a pair |
//! | `tickline-criterion: [[0,..],[5434,..]]` | this build | disturbed pairs by disturbance; the pairs that count, ticks |
//!
//! A program does not learn its benchmarks' full names from criterion. So this process first starts
//! itself with `--list`, and this crate prints a mark before and after each of its benchmarks.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::arguments::{self, Role};
use crate::compare::couples::Couple;
use crate::compare::toss;
use crate::evidence;
use crate::pairs::disturbance::Disturbances;
use crate::readings::Source;
use crate::time::CounterTime;

/// What a line for the driving process begins with: criterion and the benchmark print, too.
const MARK: &str = "tickline-criterion: ";

/// What the other build is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The number of the sample. Another one than before ends that sample.
    pub(crate) sample: u64,
    pub(crate) iterations: u64,
    /// Iterations in a pair.
    pub(crate) iterations_per_pair: u64,
}

/// The part of this process where two builds are interleaved.
#[derive(Debug)]
pub(crate) enum Interleaving {
    /// Asks the other build for slices.
    Drives(Box<PeerBuild>),
    /// Is the other build, with the present request.
    Serves(Request),
}

impl Interleaving {
    /// The part of this process in a benchmark that begins. `peer` is what
    /// [`PeerBuild::for_next_benchmark`] returned.
    pub(crate) fn of(peer: Option<Result<PeerBuild, String>>) -> Option<Self> {
        let time = CounterTime::current();
        let clock = clock(&time);
        match arguments::role() {
            Role::Lists => std::process::exit(1), // criterion was not given the argument
            Role::Serves => {
                send(clock);
                Some(Self::Serves(read_request()))
            }
            Role::Measures => {
                let peer = peer?.and_then(|peer| {
                    if peer.clock == clock {
                        return Ok(Self::Drives(Box::new(peer)));
                    }
                    Err(format!("it measures by the {}, and this build by the {clock}", peer.clock))
                });
                peer.inspect_err(|error| time.settings().messages.not_interleaved(error)).ok()
            }
        }
    }

    /// Ends a slice with the pairs that count, ticks.
    pub(crate) fn end_slice(
        &mut self,
        request: Request,
        ticks: Vec<u64>,
        disturbances: Disturbances,
    ) -> Result<(), String> {
        match self {
            Self::Drives(peer) => peer.end_slice(request, ticks, disturbances),
            Self::Serves(present) => {
                let ticks: Vec<u64> = evenly(ticks).collect();
                send(&serde_json::to_string(&(disturbances.0, ticks)).unwrap_or_default());
                *present = read_request();
                Ok(())
            }
        }
    }
}

/// The most pairs of a slice that are compared. Only futures have more, because each is a pair.
const MAX_PAIRS: usize = 8_192;

/// All pairs, or some of them, evenly.
fn evenly(ticks: Vec<u64>) -> impl Iterator<Item = u64> {
    let step = ticks.len().div_ceil(MAX_PAIRS).max(1);
    ticks.into_iter().step_by(step)
}

/// Sends a line to the build that drives. The benchmark may have left its own line open.
fn send(what: &str) {
    writeln!(io::stdout(), "\n{MARK}{what}").ok();
}

/// The name of the clock: ticks of one are not those of another.
fn clock(time: &CounterTime) -> &'static str {
    match time.source() {
        Source::WithCpu(_) | Source::Plain(_) => "counter",
        Source::Wall => "OS clock",
    }
}

/// Waits for a request. The process ends if there is none: the build that drives has enough, or is
/// gone.
fn read_request() -> Request {
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok();
    match serde_json::from_str(&line) {
        Ok((sample, iterations, iterations_per_pair)) => Request { sample, iterations, iterations_per_pair },
        Err(_) => std::process::exit(0),
    }
}

thread_local! {
    // The benchmarks of pairs so far, including those that a filter excludes.
    static BENCHMARKS: Cell<usize> = const { Cell::new(0) };
}

/// The other build, as the driving one sees it.
#[derive(Debug)]
pub(crate) struct PeerBuild {
    child: Child,
    /// `None` when it is to end.
    requests: Option<ChildStdin>,
    replies: Lines<BufReader<ChildStdout>>,
    clock: String,
    /// How to run only this benchmark.
    alone: String,
    /// The present slice of the other build, if its turn came first.
    first: Option<Vec<u64>>,
    /// The times of the other build and of this one, in their order.
    pub(crate) couples: Vec<Couple>,
    /// Where their slices end.
    pub(crate) slice_ends: Vec<usize>,
    /// What disturbed pairs of both.
    pub(crate) disturbances: Disturbances,
}

impl PeerBuild {
    /// Starts the other build for the next benchmark of pairs, and waits until it is ready. `None`
    /// if there is no other build, or a filter excludes the benchmark.
    pub(crate) fn for_next_benchmark() -> Option<Result<Self, String>> {
        let number = BENCHMARKS.replace(BENCHMARKS.get().wrapping_add(1));
        let program = arguments::peer_build().filter(|_| arguments::role() == Role::Measures)?;
        match names() {
            Ok(names) => match names.get(number) {
                Some(name) => Some(Self::start(Path::new(&program), name.as_ref()?)),
                None => Some(Err("this program does not list its benchmark; if its `main` builds `Criterion` itself, call `configure_from_args()`".to_owned())),
            },
            Err(error) => Some(Err(error)),
        }
    }

    fn start(program: &Path, name: &str) -> Result<Self, String> {
        // The child inherits the CPU.
        if !evidence::cpu().is_some_and(evidence::bind) && cfg!(target_os = "linux") {
            return Err("the thread cannot be bound to its CPU".to_owned());
        }
        let arguments = ["--bench", "--exact", "--discard-baseline", "--noplot", "--", name];
        let mut child = arguments::start(Command::new(program).args(arguments), Role::Serves)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (requests, replies) = (child.stdin.take(), child.stdout.take());
        let mut peer = Self {
            requests,
            replies: BufReader::new(replies.ok_or("its output cannot be read")?).lines(),
            child,
            clock: String::new(),
            alone: format!("{} {}", program.display(), arguments.join(" ")),
            first: None,
            couples: Vec::new(),
            slice_ends: Vec::new(),
            disturbances: Disturbances::default(),
        };
        peer.clock = peer.reply()?;
        Ok(peer)
    }

    fn reply(&mut self) -> Result<String, String> {
        let mut lines = self.replies.by_ref().map_while(Result::ok);
        let reply = lines.find_map(|line| line.strip_prefix(MARK).map(str::to_owned));
        reply.ok_or_else(|| {
            format!(
                "it took no turn, because it has no such benchmark, is too old for turns, or failed: try `{}`",
                self.alone
            )
        })
    }

    /// Lets the other build take a slice. Returns its pairs that count, ticks.
    fn ask(&mut self, request: Request) -> Result<Vec<u64>, String> {
        let Request { sample, iterations, iterations_per_pair } = request;
        // If it is gone, there is no reply.
        self.requests.as_mut().map(|to| writeln!(to, "[{sample},{iterations},{iterations_per_pair}]"));
        let (disturbances, ticks) =
            serde_json::from_str(&self.reply()?).map_err(|error| error.to_string())?;
        self.disturbances.add_all(Disturbances(disturbances));
        Ok(ticks)
    }

    /// Forgets the warm-up.
    pub(crate) fn forget(&mut self) {
        (self.couples, self.slice_ends, self.disturbances) =
            (Vec::new(), Vec::new(), Disturbances::default());
    }

    pub(crate) fn begin_slice(&mut self, request: Request) -> Result<(), String> {
        if toss() == 0 {
            self.first = Some(self.ask(request)?);
        }
        Ok(())
    }

    fn end_slice(&mut self, request: Request, ticks: Vec<u64>, ours: Disturbances) -> Result<(), String> {
        let theirs = match self.first.take() {
            Some(theirs) => theirs,
            None => self.ask(request)?,
        };
        self.couples.extend(theirs.into_iter().zip(evenly(ticks)).map(|(theirs, ours)| [theirs, ours]));
        self.disturbances.add_all(ours);
        // Perhaps nothing of a slice counts.
        if self.couples.len() > self.slice_ends.last().copied().unwrap_or(0) {
            self.slice_ends.push(self.couples.len());
        }
        Ok(())
    }
}

impl Drop for PeerBuild {
    fn drop(&mut self) {
        self.requests = None;
        self.child.wait().ok();
    }
}

/// The mark around a benchmark.
const AROUND: &str = "tickline-criterion: benchmark\n";

/// Marks where a benchmark's name begins or ends, if this process lists them.
pub(crate) fn mark() {
    if arguments::role() == Role::Lists {
        write!(io::stdout(), "{AROUND}").ok();
    }
}

/// criterion's names of this program's benchmarks, by their numbers; `None` for those that a filter
/// excludes.
fn names() -> Result<&'static [Option<String>], String> {
    static NAMES: OnceLock<Result<Vec<Option<String>>, String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut list = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        list.args(std::env::args_os().skip(1)).arg("--list").stdin(Stdio::null());
        let output = arguments::start(&mut list, Role::Lists).output().map_err(|error| error.to_string())?;
        Ok(names_in(&String::from_utf8_lossy(&output.stdout)))
    });
    names.as_deref().map_err(Clone::clone)
}

fn names_in(listing: &str) -> Vec<Option<String>> {
    let within = listing.split(AROUND).skip(1).step_by(2);
    let name =
        |lines: &str| lines.lines().find_map(|line| line.strip_suffix(": benchmark")).map(str::to_owned);
    within.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_between_marks_and_not_that_of_another_benchmark() {
        let listing = format!(
            "plain: benchmark\n{AROUND}a/1: benchmark\n{AROUND}own words\n{AROUND}{AROUND}b: benchmark\n{AROUND}a: \
             b: benchmark\n{AROUND}"
        );
        assert_eq!(names_in(&listing), [Some("a/1".to_owned()), None, Some("a: b".to_owned())]);
        assert_eq!(names_in("plain: benchmark\n"), []);
    }
}
