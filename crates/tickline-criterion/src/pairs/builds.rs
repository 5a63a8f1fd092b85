//! Runs two builds of a benchmark alternately: `--against PROGRAM`.
//!
//! This process measures the new build, as usual. For each of its benchmarks it starts the other
//! program, with the benchmark's name. In that process criterion runs only this benchmark, and this
//! crate takes samples only on request. This process drives, and the other process serves. The
//! contract:
//!
//! 1. Both processes are bound to one CPU (Linux), and only one of them runs at a time: the other
//!    process waits for a line.
//! 2. They alternate by slices of 10 ms or less. A random number decides which comes first.
//! 3. Both have samples of the same size, and pairs of the same number of iterations.
//! 4. The n-th pair of a slice and the n-th pair of the other build's slice form a couple. The
//!    couples are analysed as in [`compare`](crate::compare), but a round has whole slices.
//!
//! | line | sent to | meaning |
//! |---|---|---|
//! | `tickline-criterion: counter` | this build | the other build is ready, and measures by this clock |
//! | `[7,5000,64]` | the other build | take a slice of sample 7, of 5,000 iterations, 64 in a pair |
//! | `tickline-criterion: [[0,..],[5434,..]]` | this build | the number of disturbed pairs by disturbance; the pairs that count, ticks |
//!
//! criterion does not tell a program the full names of its benchmarks. This process therefore first
//! starts itself with `--list`, and this crate prints a mark before and after each of its
//! benchmarks.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::arguments::{self, Role};
use crate::backend::readings::PairClock;
use crate::backend::time::CounterTime;
use crate::number::random_side;
use crate::pairs::disturbance::Disturbances;
use crate::pairs::system_facts;
use crate::statistics::couples::Couple;

/// The beginning of a line for the driving process. criterion and the benchmark print other lines.
const MARK: &str = "tickline-criterion: ";

/// A request to the other build for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The number of the sample. A changed number ends the sample before.
    pub(crate) sample: u64,
    pub(crate) iterations: u64,
    /// The number of iterations in a pair.
    pub(crate) iterations_per_pair: u64,
}

/// The role of this process if two builds are interleaved.
#[derive(Debug)]
pub(crate) enum Interleaving {
    /// This process requests slices from the other build.
    Drives(Box<PeerBuild>),
    /// This process is the other build, and has this request.
    Serves(Request),
}

impl Interleaving {
    /// Begins a benchmark; `None` without interleaving. `peer` is the result of
    /// [`PeerBuild::for_next_benchmark`].
    pub(crate) fn begin(peer: Option<Result<PeerBuild, String>>) -> Option<Self> {
        let time = CounterTime::current();
        let clock = clock(&time);
        match arguments::role() {
            Role::List => std::process::exit(1), // The program does not pass `--list` to criterion.
            Role::Serve => {
                send(clock);
                Some(Self::Serves(read_request()))
            }
            Role::Measure => {
                let peer = peer?.and_then(|peer| {
                    if peer.clock == clock {
                        return Ok(Self::Drives(Box::new(peer)));
                    }
                    Err(format!(
                        "it measures by the {}, and this build by the {clock}",
                        peer.clock
                    ))
                });
                peer.inspect_err(|error| time.settings().messages.not_interleaved(error))
                    .ok()
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

/// The limit of compared pairs in a slice. Only slices of futures have more.
const MAX_PAIRS: usize = 8_192;

/// All pairs, or an evenly spaced part of them.
fn evenly(ticks: Vec<u64>) -> impl Iterator<Item = u64> {
    let step = ticks.len().div_ceil(MAX_PAIRS).max(1);
    ticks.into_iter().step_by(step)
}

/// Sends a line to the driving build. It begins with a line break, because the benchmark may have
/// printed an incomplete line.
fn send(text: &str) {
    _ = writeln!(io::stdout(), "\n{MARK}{text}");
}

/// The name of the clock. Two builds are comparable only if they measure by the same clock.
fn clock(time: &CounterTime) -> &'static str {
    match time.pair_clock() {
        PairClock::WithCpu(_) | PairClock::Plain(_) => "counter",
        PairClock::Wall => "OS clock",
    }
}

/// Waits for a request. If there is none, the driving build has ended, and this process exits.
fn read_request() -> Request {
    let mut line = String::new();
    _ = io::stdin().read_line(&mut line);
    match serde_json::from_str(&line) {
        Ok((sample, iterations, iterations_per_pair)) => Request {
            sample,
            iterations,
            iterations_per_pair,
        },
        Err(_) => std::process::exit(0),
    }
}

thread_local! {
    // The number of benchmarks of pairs so far, including those that a filter excludes.
    static BENCHMARKS: Cell<usize> = const { Cell::new(0) };
}

/// The other build, for the driving build.
#[derive(Debug)]
pub(crate) struct PeerBuild {
    child: Child,
    /// `None` once the child must end.
    requests: Option<ChildStdin>,
    replies: Lines<BufReader<ChildStdout>>,
    clock: String,
    /// A command that runs only this benchmark, for an error message.
    command_line: String,
    /// The present slice of the other build, if that build had the first turn.
    early_slice: Option<Vec<u64>>,
    /// The times of the other build and of this build, in order.
    pub(crate) couples: Vec<Couple>,
    /// The indices of couples at which slices end.
    pub(crate) slice_ends: Vec<usize>,
    /// The disturbances of pairs of both builds.
    pub(crate) disturbances: Disturbances,
}

impl PeerBuild {
    /// Starts the other build for the next benchmark of pairs, and waits until it is ready. `None`
    /// if there is no other build, or a filter excludes the benchmark.
    pub(crate) fn for_next_benchmark() -> Option<Result<Self, String>> {
        let number = BENCHMARKS.replace(BENCHMARKS.get().wrapping_add(1));
        if arguments::role() != Role::Measure {
            return None;
        }
        let program = arguments::peer_build()?;
        match benchmark_names() {
            Ok(names) => match names.get(number) {
                Some(name) => Some(Self::start(Path::new(&program), name.as_ref()?)),
                None => Some(Err("this program does not list its benchmark; if its `main` builds `Criterion` itself, call `configure_from_args()`".to_owned())),
            },
            Err(error) => Some(Err(error)),
        }
    }

    fn start(program: &Path, name: &str) -> Result<Self, String> {
        // The child inherits the CPU mask.
        if !system_facts::cpu().is_some_and(system_facts::bind) && cfg!(target_os = "linux") {
            return Err("the thread cannot be bound to its CPU".to_owned());
        }
        let arguments = [
            "--bench",
            "--exact",
            "--discard-baseline",
            "--noplot",
            "--",
            name,
        ];
        let mut child = arguments::prepare(Command::new(program).args(arguments), Role::Serve)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (requests, replies) = (child.stdin.take(), child.stdout.take());
        let mut peer = Self {
            requests,
            replies: BufReader::new(replies.ok_or("its output cannot be read")?).lines(),
            child,
            clock: String::new(),
            command_line: format!("{} {}", program.display(), arguments.join(" ")),
            early_slice: None,
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
                self.command_line
            )
        })
    }

    /// Requests a slice from the other build. Returns its pairs that count, ticks.
    fn request_slice(&mut self, request: Request) -> Result<Vec<u64>, String> {
        let Request {
            sample,
            iterations,
            iterations_per_pair,
        } = request;
        // If the other build has ended, the write fails, and so does the read of the reply.
        self.requests
            .as_mut()
            .map(|to| writeln!(to, "[{sample},{iterations},{iterations_per_pair}]"));
        let (disturbances, ticks) =
            serde_json::from_str(&self.reply()?).map_err(|error| error.to_string())?;
        self.disturbances.add_all(Disturbances(disturbances));
        Ok(ticks)
    }

    /// Discards the results of the warm-up.
    pub(crate) fn discard_warm_up(&mut self) {
        self.couples.clear();
        self.slice_ends.clear();
        self.disturbances = Disturbances::default();
    }

    pub(crate) fn begin_slice(&mut self, request: Request) -> Result<(), String> {
        if random_side() == 0 {
            self.early_slice = Some(self.request_slice(request)?);
        }
        Ok(())
    }

    fn end_slice(
        &mut self,
        request: Request,
        ticks: Vec<u64>,
        ours: Disturbances,
    ) -> Result<(), String> {
        let theirs = match self.early_slice.take() {
            Some(theirs) => theirs,
            None => self.request_slice(request)?,
        };
        self.couples.extend(
            theirs
                .into_iter()
                .zip(evenly(ticks))
                .map(|(theirs, ours)| [theirs, ours]),
        );
        self.disturbances.add_all(ours);
        // A slice may have no pair that counts.
        if self.couples.len() > self.slice_ends.last().copied().unwrap_or(0) {
            self.slice_ends.push(self.couples.len());
        }
        Ok(())
    }
}

impl Drop for PeerBuild {
    fn drop(&mut self) {
        self.requests = None;
        _ = self.child.wait();
    }
}

/// The mark before and after a benchmark in the list.
const BENCHMARK_MARK: &str = "tickline-criterion: benchmark\n";

/// Prints the mark, if this process lists its benchmarks.
pub(crate) fn mark_benchmark() {
    if arguments::role() == Role::List {
        _ = write!(io::stdout(), "{BENCHMARK_MARK}");
    }
}

/// criterion's names of the benchmarks of pairs, in order; `None` for one that a filter excludes.
fn benchmark_names() -> Result<&'static [Option<String>], String> {
    static NAMES: OnceLock<Result<Vec<Option<String>>, String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut list = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        list.args(std::env::args_os().skip(1))
            .arg("--list")
            .stdin(Stdio::null());
        let output = arguments::prepare(&mut list, Role::List)
            .output()
            .map_err(|error| error.to_string())?;
        Ok(parse_names(&String::from_utf8_lossy(&output.stdout)))
    });
    names.as_deref().map_err(Clone::clone)
}

fn parse_names(listing: &str) -> Vec<Option<String>> {
    let within = listing.split(BENCHMARK_MARK).skip(1).step_by(2);
    let name = |lines: &str| {
        lines
            .lines()
            .find_map(|line| line.strip_suffix(": benchmark"))
            .map(str::to_owned)
    };
    within.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_between_marks_and_other_benchmarks_are_ignored() {
        let listing = format!(
            "plain: benchmark\n{BENCHMARK_MARK}a/1: benchmark\n{BENCHMARK_MARK}own words\n{BENCHMARK_MARK}{BENCHMARK_MARK}b: benchmark\n{BENCHMARK_MARK}a: \
             b: benchmark\n{BENCHMARK_MARK}"
        );
        assert_eq!(
            parse_names(&listing),
            [Some("a/1".to_owned()), None, Some("a: b".to_owned())]
        );
        assert_eq!(parse_names("plain: benchmark\n"), []);
    }

    #[test]
    fn at_most_8192_evenly_spaced_pairs_of_a_slice_are_compared() {
        let compared = |pairs: u64| evenly((0..pairs).collect()).collect::<Vec<_>>();
        assert_eq!(compared(8_192).len(), 8_192);
        assert_eq!(compared(8_193)[..3], [0, 2, 4]);
        assert!(compared(0).is_empty());
    }
}
