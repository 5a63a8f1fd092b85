//! Two builds of a benchmark in turns: `--against PROGRAM`. The driving side.
//!
//! This process measures its benchmark as usual. Then it starts both builds several times, with the
//! benchmark's name, and requests slices from them (`serving.rs`). The contract:
//!
//! 1. A pair of processes is one of each build. Its order is random. Each process has other places
//!    for heap and stack (`placement.rs`), and runs a copy of its program (`program_copy.rs`).
//! 2. All processes are bound to one CPU (Linux), and only one of them runs at a time: the others
//!    wait for a line.
//! 3. The two of a pair take turns by slices of 10 ms or less. A random number decides which comes
//!    first. The first slice of a process warms up, and does not count.
//! 4. All processes have pairs of the same number of iterations. The n-th pair of a slice and the
//!    n-th pair of the other build's slice form a couple.
//! 5. A pair of processes is a replicate of the analysis (`statistics/couples.rs`).
//!
//! A process knows the full names of its benchmarks only from criterion. Both programs are therefore
//! first started with `--list`, and this crate prints a mark before and after each of its
//! benchmarks.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{self, Options, Role};
use crate::backend::time::CounterTime;
use crate::number::{as_f64, count, index, random_side, round};
use crate::pairs::disturbance::{Disturbance, Disturbances};
use crate::pairs::placement;
use crate::pairs::program_copy::ProgramCopy;
use crate::pairs::serving::{MARK, Request, ServedSlice, clock_name};
use crate::pairs::system_facts::{self, SystemFacts};
use crate::statistics::couples::Replicate;
use crate::statistics::signed_rank::MIN_REPLICATES;

const _: () = assert!(arguments::MIN_LAYOUTS == MIN_REPLICATES);

/// The first line of a program that lists its benchmarks, with the version of the turns.
const GREETING: &str = "turns 3";

/// How long a program may take until its first line. It prints the line before all else.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// How long a program may take from its last turn until its end, which drops what its benchmarks
/// have prepared. Nothing depends on that end, so the program is then killed.
const END_TIME: Duration = Duration::from_secs(10);

/// The interval at which a silent process is asked whether it has ended.
const POLL: Duration = Duration::from_millis(100);

/// The mark before and after a benchmark in the list.
const BENCHMARK_MARK: &str = "tickline-criterion: benchmark";

/// The builds of `--against`.
#[derive(Debug)]
pub(crate) struct Builds {
    /// The other build, and this one: of each a program for each layout.
    programs: [Vec<PathBuf>; 2],
    /// The names of this build's benchmarks of pairs, in order; `None` for one that a filter
    /// excludes.
    ours: Vec<Option<String>>,
    theirs: Vec<Option<String>>,
}

static BUILDS: OnceLock<Builds> = OnceLock::new();

thread_local! {
    // The number of benchmarks of pairs so far, including those that a filter excludes.
    static BENCHMARKS: Cell<usize> = const { Cell::new(0) };
}

impl Builds {
    /// Finds out which benchmarks both builds have.
    ///
    /// # Errors
    ///
    /// If a program can't list its benchmarks, or the builds have none in common.
    pub(crate) fn start(options: &Options) -> Result<(), String> {
        let other = options.against.first().ok_or("there is no program")?;
        let ours = std::env::current_exe().map_err(|error| error.to_string())?;
        let builds = Self {
            // Of this build, criterion's own words about a wrong argument are shown.
            ours: list(&ours, Stdio::inherit()).map_err(|error| format!("this build: {error}"))?,
            theirs: list(other, Stdio::null())
                .map_err(|error| format!("{}: {error}", other.display()))?,
            programs: [
                options.against.clone(),
                [vec![ours], options.layouts.clone()].concat(),
            ],
        };
        if !builds
            .ours
            .iter()
            .flatten()
            .any(|name| builds.has_other(name))
        {
            return Err(format!(
                "{}: it has no benchmark of bench_pairs in common with this build and the filter",
                other.display()
            ));
        }
        _ = BUILDS.set(builds);
        Ok(())
    }

    fn has_other(&self, name: &str) -> bool {
        self.theirs.iter().flatten().any(|theirs| theirs == name)
    }
}

/// A benchmark of a program with `--against`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Benchmark {
    builds: &'static Builds,
    pub(crate) name: &'static str,
}

impl Benchmark {
    /// Counts a benchmark of pairs, and returns it if another build is to be compared.
    pub(crate) fn next() -> Option<Self> {
        let number = BENCHMARKS.replace(BENCHMARKS.get().wrapping_add(1));
        let builds = BUILDS.get()?;
        let name = builds.ours.get(number)?.as_deref()?;
        Some(Self { builds, name })
    }

    /// The number of layouts of both builds.
    pub(crate) fn layouts(&self) -> usize {
        self.builds.programs[1].len()
    }

    pub(crate) fn is_in_both(&self) -> bool {
        self.builds.has_other(self.name)
    }

    /// Takes turns, for about `budget`.
    pub(crate) fn take_turns(&self, time: &CounterTime, budget: Duration) -> Result<Turns, String> {
        // The processes inherit the CPU mask.
        let bound = system_facts::cpu().and_then(system_facts::bind);
        if bound.is_none() && cfg!(target_os = "linux") {
            return Err("the thread cannot be bound to its CPU".to_owned());
        }
        let plan = Plan::of(budget);
        let mut turns = Turns::default();
        // The processes of one layout have one place for their code, so that they are one replicate
        // together.
        let layouts = count(self.layouts());
        let pairs = if layouts > 1 {
            plan.pairs.div_ceil(layouts) * layouts
        } else {
            plan.pairs
        };
        let replicates = if layouts > 1 { layouts } else { pairs };
        turns.replicates = vec![Replicate::default(); index(replicates)];
        for pair in 0..pairs {
            turns.add_pair(self, index(pair % replicates), &plan, time)?;
        }
        Ok(turns)
    }
}

/// How much of the time goes where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// The number of pairs of processes.
    pairs: u64,
    /// The number of slices of each process.
    slices: u64,
    slice: Duration,
    /// A pair of processes with enough slices ends after this time, however many it has.
    longest: Duration,
}

/// The number of pairs of processes. With ten pairs, and a placement that changes times by 2 %
/// (standard deviation), +3 % are found in 82 % of runs and +10 % in all; with 16 pairs in 97 %
/// (simulated; a test in `statistics/signed_rank.rs` has the model). The start of a process takes
/// some ms, so that more pairs with less time each would measure little.
const MIN_PAIRS: u64 = 10;
const MAX_PAIRS: u64 = 40;

/// The time of a pair of processes, if that gives between [`MIN_PAIRS`] and [`MAX_PAIRS`].
const PAIR_TIME: Duration = Duration::from_millis(250);

/// The smallest number of slices of a process, for a median of rounds.
const MIN_SLICES: u64 = 3;

/// The wanted number of slices, and their limits: the shortest has enough pairs of 2 us; the longest
/// is the unit of `/proc/stat`.
const SLICES: u32 = 6;
const MIN_SLICE: Duration = Duration::from_millis(2);
const MAX_SLICE: Duration = Duration::from_millis(10);

impl Plan {
    fn of(budget: Duration) -> Self {
        let pairs = round(budget.as_secs_f64() / PAIR_TIME.as_secs_f64());
        let pairs = pairs.clamp(MIN_PAIRS, MAX_PAIRS);
        let pair = budget.div_f64(as_f64(pairs));
        let slice = (pair / 2 / SLICES).clamp(MIN_SLICE, MAX_SLICE);
        let slices = round((pair / 2).div_duration_f64(slice)).max(MIN_SLICES);
        Self {
            pairs,
            slices,
            slice,
            longest: pair * 4,
        }
    }
}

/// The results of two builds that took turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// A replicate for each pair of processes, or for each layout: the times of the other build and
    /// of this one.
    pub(crate) replicates: Vec<Replicate>,
    /// The disturbances of pairs of both builds.
    pub(crate) disturbances: Disturbances,
    /// The number of iterations in a pair; 0 until the first process has chosen it.
    pub(crate) iterations_per_pair: u64,
    /// The number of iterations in a slice.
    iterations: u64,
}

impl Turns {
    /// Starts a process of each build, and takes their slices.
    fn add_pair(
        &mut self,
        benchmark: &Benchmark,
        replicate: usize,
        plan: &Plan,
        time: &CounterTime,
    ) -> Result<(), String> {
        let (begin, first) = (Instant::now(), random_side());
        let mut processes = [None, None];
        for side in [first, 1 - first] {
            let program = &benchmark.builds.programs[side][replicate % benchmark.layouts()];
            let mut process = Process::start(program, benchmark, time)?;
            self.warm_up(&mut process, plan, time)?;
            processes[side] = Some(process);
        }
        for slice in 0..plan.slices {
            if slice >= MIN_SLICES && begin.elapsed() > plan.longest {
                break;
            }
            let facts = SystemFacts::of_clock(time);
            let (first, mut ticks) = (random_side(), [Vec::new(), Vec::new()]);
            for side in [first, 1 - first] {
                let process = processes[side].as_mut().ok_or("it was not started")?;
                let slice = process.slice(self.request())?;
                self.disturbances.add_all(slice.disturbances);
                ticks[side] = slice.ticks;
            }
            let [theirs, ours] = ticks;
            if SystemFacts::of_clock(time)
                .disturbed_since(&facts)
                .is_some()
            {
                let pairs = count(theirs.len() + ours.len());
                self.disturbances.add(Disturbance::Clock, pairs);
                continue;
            }
            self.replicates[replicate]
                .add_visit(theirs.into_iter().zip(ours).map(<[u64; 2]>::from));
        }
        Ok(())
    }

    const fn request(&self) -> Request {
        Request {
            iterations: self.iterations,
            iterations_per_pair: self.iterations_per_pair,
        }
    }

    /// Takes slices that do not count. The first process chooses the size of pairs and slices.
    fn warm_up(
        &mut self,
        process: &mut Process,
        plan: &Plan,
        time: &CounterTime,
    ) -> Result<(), String> {
        let shortest = Request {
            iterations: 1,
            ..self.request()
        };
        let slice = process.slice(shortest)?;
        let clock = clock_name(time.pair_clock());
        if slice.clock != clock {
            return Err(format!(
                "it measures by the {}, and this build by the {clock}",
                slice.clock
            ));
        }
        if self.iterations_per_pair == 0 {
            let mut ticks = slice.ticks;
            ticks.sort_unstable();
            let median = ticks.get(ticks.len() / 2).copied().unwrap_or(1).max(1);
            let slice_ns = plan.slice.as_secs_f64() * 1e9;
            let pairs = round(slice_ns / time.scale().ns_per_tick / as_f64(median)).max(1);
            self.iterations_per_pair = slice.iterations_per_pair;
            self.iterations = pairs.saturating_mul(slice.iterations_per_pair);
        }
        // A routine of many ms is warm after one call.
        if self.iterations > self.iterations_per_pair {
            process.slice(self.request())?;
        }
        Ok(())
    }
}

/// A process that serves.
#[derive(Debug)]
struct Process {
    child: Child,
    /// `None` once the child must end.
    requests: Option<ChildStdin>,
    output: Receiver<String>,
    /// A command that runs only this benchmark, for an error message.
    command_line: String,
    /// What the process runs; `None` if it runs the program itself. It is removed after the
    /// process's end.
    _copy: Option<ProgramCopy>,
}

impl Process {
    /// Starts a copy of a side's program. If there can be none, starts the program, and says so.
    fn start(program: &Path, benchmark: &Benchmark, time: &CounterTime) -> Result<Self, String> {
        static NOT_COPIED: Once = Once::new();
        let copy = ProgramCopy::new(program).inspect_err(|error| {
            let folder = program.parent().unwrap_or(program).display();
            let text = format!(
                "{folder} takes no copy of the program: {error}. Each build keeps its pages of \
                 memory, so equal builds may differ by 1 %"
            );
            time.settings().messages.print_once(&NOT_COPIED, &text);
        });
        let copy = copy.ok();
        // criterion calls a test once, and stores nothing.
        let arguments = ["--bench", "--test", "--exact", "--", benchmark.name];
        let ns_per_tick = time.session().map(|_| time.scale().ns_per_tick);
        let mut command = Command::new(copy.as_ref().map_or(program, ProgramCopy::path));
        command.args(arguments);
        arguments::prepare_serving(&mut command, ns_per_tick, placement::padding())
            .map_err(|error| error.to_string())?;
        let command_line = format!("{} {}", program.display(), arguments.join(" "));
        let mut process = Self::spawn(&mut command, command_line)
            .map_err(|error| format!("{}: {error}", program.display()))?;
        process._copy = copy;
        Ok(process)
    }

    fn spawn(command: &mut Command, command_line: String) -> io::Result<Self> {
        let mut tries = 0;
        let mut child = loop {
            match command.spawn() {
                // A process that another thread forked during the copy has the copy open for writing,
                // until its exec.
                Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                result => break result?,
            }
        };
        let requests = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            requests,
            output: lines(output),
            child,
            command_line,
            _copy: None,
        })
    }

    /// Requests a slice.
    fn slice(&mut self, request: Request) -> Result<ServedSlice, String> {
        // If the process has ended, the write fails, and so does the read of the reply.
        self.requests.as_mut().map(|to| {
            let (iterations, each) = (request.iterations, request.iterations_per_pair);
            writeln!(to, "[{iterations},{each}]")
        });
        let mut lines = std::iter::from_fn(|| next_line(&self.output, &mut self.child));
        let reply = lines.find_map(|line| line.strip_prefix(MARK).map(str::to_owned));
        let reply = reply.ok_or_else(|| {
            format!(
                "a process took no turn, because it failed: try `{}`",
                self.command_line
            )
        })?;
        serde_json::from_str(&reply).map_err(|error| format!("{reply}: {error}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The benchmark returns, and the program ends by itself.
        self.requests = None;
        let end = Instant::now() + END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        // Neither does anything to a process that has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The lines of a process's output. A thread reads them, also those that nobody wants, so that the
/// process never waits for room in the pipe. Bytes that are not UTF-8 are replaced.
///
/// The thread ends at the end of the output. That may come long after the end of the process: the
/// processes that a benchmark has started have the same output.
fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}

/// The next line of a process; `None` if the process has ended, and no line is left.
fn next_line(lines: &Receiver<String>, child: &mut Child) -> Option<String> {
    let mut has_ended = false;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if has_ended => return None,
            // Its last lines may still be in the pipe.
            Err(RecvTimeoutError::Timeout) => has_ended = !matches!(child.try_wait(), Ok(None)),
        }
    }
}

/// Prints the first line of a list, if this process lists its benchmarks.
pub(crate) fn greet() {
    if arguments::role() == Role::List {
        _ = writeln!(io::stdout(), "{MARK}{GREETING}");
    }
}

/// Prints the mark, if this process lists its benchmarks.
pub(crate) fn mark_benchmark() {
    if arguments::role() == Role::List {
        _ = writeln!(io::stdout(), "{BENCHMARK_MARK}");
    }
}

/// criterion's names of a program's benchmarks of pairs, in order; `None` for one that a filter
/// excludes. `program` gets the arguments of this process.
fn list(program: &Path, stderr: Stdio) -> Result<Vec<Option<String>>, String> {
    const NO_PROGRAM: &str = "it is no benchmark program whose main calls tickline_criterion::run, or one of another version of this crate";
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .arg("--list")
        .stdin(Stdio::null());
    let mut child = arguments::prepare(&mut command, Role::List)
        .map_err(|error| error.to_string())?
        .stderr(stderr)
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("its output cannot be read")?;
    let lines = lines(output);
    let greeting = lines.recv_timeout(GREETING_TIME);
    if greeting.is_ok_and(|line| line.strip_prefix(MARK) == Some(GREETING)) {
        let listing: Vec<String> = std::iter::from_fn(|| next_line(&lines, &mut child)).collect();
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(names(&listing));
        }
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return Err(format!(
            "it can't list its benchmarks: {status}; criterion has the arguments {arguments:?}"
        ));
    }
    _ = child.kill();
    _ = child.wait();
    Err(NO_PROGRAM.to_owned())
}

fn names(listing: &[String]) -> Vec<Option<String>> {
    let within = listing
        .split(|line| line == BENCHMARK_MARK)
        .skip(1)
        .step_by(2);
    let name = |lines: &[String]| {
        lines
            .iter()
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
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let listing = format!(
            "plain: benchmark\n{BENCHMARK_MARK}\na/1: benchmark\n{BENCHMARK_MARK}\nown words\n{BENCHMARK_MARK}\n{BENCHMARK_MARK}\nb: \
             benchmark\n{BENCHMARK_MARK}\na: b: benchmark\n{BENCHMARK_MARK}\n"
        );
        assert_eq!(
            names(&lines(&listing)),
            [Some("a/1".to_owned()), None, Some("a: b".to_owned())]
        );
        assert_eq!(names(&lines("plain: benchmark\n")), []);
    }

    /// A process that runs a shell's script.
    #[cfg(unix)]
    fn script(text: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        arguments::prepare_serving(&mut command, None, String::new()).expect("JSON");
        Process::spawn(&mut command, text.to_owned()).expect("a shell")
    }

    #[cfg(unix)]
    const REPLY: &str = r#"echo 'tickline-criterion: {"clock":"counter","iterations_per_pair":1,"disturbances":[0,0,0,0,0,0,0],"ticks":[7]}'"#;

    #[cfg(unix)]
    const REQUEST: Request = Request {
        iterations: 1,
        iterations_per_pair: 1,
    };

    /// Symptom: after a line that is not UTF-8 nobody read, the process waited for room in its pipe,
    /// and this one for the process.
    #[cfg(unix)]
    #[test]
    fn a_process_whose_output_is_no_text_ends() {
        let mut process = script(&format!(
            r"printf '\377\n'; {REPLY}; read request; printf '\377\n'; yes | head -c 1000000"
        ));
        let slice = process.slice(REQUEST).expect("a reply");
        assert_eq!(slice.ticks, [7]);
        drop(process);
    }

    /// Symptom: a process that the benchmark had started kept the pipe open, and its end was awaited.
    #[cfg(unix)]
    #[test]
    fn a_process_that_leaves_another_behind_ends() {
        let begin = Instant::now();
        let mut process = script(&format!("sleep 60 & {REPLY}; read request"));
        process.slice(REQUEST).expect("a reply");
        drop(process);
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    /// Symptom: as above, and the reply of a process that had ended was awaited.
    #[cfg(unix)]
    #[test]
    fn a_process_that_has_ended_without_a_reply_is_an_error() {
        let begin = Instant::now();
        let mut process = script("sleep 60 & true");
        process.slice(REQUEST).expect_err("no reply");
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn ten_pairs_share_a_short_time_and_a_longer_time_has_more() {
        let plan = |ms| {
            let plan = Plan::of(Duration::from_millis(ms));
            (plan.pairs, plan.slices, plan.slice.as_micros())
        };
        assert_eq!(plan(0), (10, 3, 2_000));
        assert_eq!(plan(900), (10, 6, 7_500));
        assert_eq!(plan(5_000), (20, 13, 10_000));
        assert_eq!(plan(60_000), (40, 75, 10_000));
    }
}
