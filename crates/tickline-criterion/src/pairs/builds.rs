//! Two builds of a benchmark in turns: `--against PROGRAM`. The driving side.
//!
//! This process measures its benchmark as usual. Then it starts both builds several times, with the
//! benchmark's name, and requests slices from them (`serving.rs`). The contract:
//!
//! 1. A pair of processes is one process of each build. A random number decides which starts first.
//!    Each process has other places for heap and stack (`placement.rs`), and runs a copy of its
//!    program (`program_copy.rs`).
//! 2. All processes are bound to one CPU (Linux), and only one of them runs at a time: the others
//!    wait for a line.
//! 3. The two processes take turns by slices of 10 ms or less, with what the benchmark prepares for
//!    them; a slice has eight pairs or more, however long they take. A random number decides which
//!    comes first. The first slice of a process warms up, and does not count.
//! 4. All processes have pairs of the same number of iterations. The n-th pair of a slice and the
//!    n-th pair of the other build's slice form a couple.
//! 5. A pair of processes is a replicate of the analysis (`statistics/couples.rs`); with several
//!    layouts, all pairs of processes of a layout are one replicate.

use std::cell::Cell;
use std::path::{self, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::arguments::{self, Options, hints};
use crate::measurement::time::CounterTime;
use crate::number::{as_f64, count, index, random_side, round};
use crate::pairs::builds::listing::{Build, Listing, list};
use crate::pairs::builds::process::Process;
use crate::pairs::collector::PairSize;
use crate::pairs::disturbance::Disturbances;
use crate::pairs::program_copy;
use crate::pairs::serving::Request;
use crate::pairs::system_facts::{self, SystemFacts};
use crate::reason::VerdictReason;
use crate::statistics::couples::Replicate;
use crate::statistics::signed_rank::MIN_REPLICATES;

pub(crate) mod listing;
mod process;

const _: () = assert!(arguments::MIN_LAYOUTS == MIN_REPLICATES);

/// The builds of `--against`.
#[derive(Debug)]
pub(crate) struct Builds {
    /// The other build, and this one: of each a program for each layout.
    programs: [Vec<PathBuf>; 2],
    ours: Listing,
    theirs: Listing,
}

// criterion 0.8 calls benchmarks with its `Criterion` alone, which returns neither its measurement
// nor any other value of a caller. `run` can therefore pass nothing on to `bench_pairs`, nor can
// one benchmark to the next, except by statics.
static BUILDS: OnceLock<Builds> = OnceLock::new();

thread_local! {
    // The number of benchmarks of pairs so far, including those that a filter excludes.
    static BENCHMARKS: Cell<usize> = const { Cell::new(0) };
}

impl Builds {
    /// Finds out which benchmarks both builds have, if there is another one. Removes what a killed
    /// comparison has left.
    ///
    /// # Errors
    ///
    /// If a program can't list its benchmarks, a layout has other benchmarks than the rest of its
    /// build, or the builds have none in common.
    pub(crate) fn start(options: &Options) -> Result<(), String> {
        let Some(first) = options.against.first() else {
            return Ok(());
        };
        let [theirs, layouts] = [absolute(&options.against)?, absolute(&options.layouts)?];
        let ours = arguments::this_program()?;
        let builds = Self {
            // Of this build, criterion's own words about a wrong argument are shown.
            ours: list(&ours, Build::This).map_err(|error| format!("this build: {error}"))?,
            theirs: list(&theirs[0], Build::Other)
                .map_err(|error| format!("{}: {error}", hints::located(first)))?,
            programs: [theirs, [vec![ours], layouts].concat()],
        };
        let Self {
            programs: [their_programs, our_programs],
            ours,
            theirs,
        } = &builds;
        let our_layouts = options.layouts.iter().zip(&our_programs[1..]);
        same_benchmarks(our_layouts, Build::This, ours)?;
        let their_layouts = options.against.iter().zip(their_programs).skip(1);
        same_benchmarks(their_layouts, Build::Other, theirs)?;
        let mut names = ours.pairs.iter().flatten();
        if !names.any(|name| theirs.has_pairs(name)) {
            return Err(format!(
                "it compares benchmarks of bench_pairs that both builds have: {}; {}; write bench_pairs in both \
                 builds, or change the filter",
                ours.describe("this build"),
                theirs.describe(&first.display().to_string())
            ));
        }
        builds
            .programs
            .iter()
            .flatten()
            .for_each(|program| program_copy::remove_left(program));
        _ = BUILDS.set(builds);
        Ok(())
    }
}

/// With `--against`, the benchmarks of both builds that have no verdict, each with the reason.
pub(crate) fn not_judged(is_judged: impl Fn(&str) -> bool) -> Vec<(&'static str, VerdictReason)> {
    match BUILDS.get() {
        Some(builds) => builds.ours.not_judged(&builds.theirs, is_judged),
        None => Vec::new(),
    }
}

/// Checks that further layouts of a build have its benchmarks: a wrong program would be noticed
/// only at its turn, after minutes. Their order may differ, with the objects' order in the program.
/// A program of the other build that has the same benchmarks is not noticed. A layout is a path as
/// the user has given it, for the errors, and its absolute path.
fn same_benchmarks<'a>(
    layouts: impl Iterator<Item = (&'a PathBuf, &'a PathBuf)>,
    build: Build,
    of_build: &Listing,
) -> Result<(), String> {
    for (given, program) in layouts {
        let listing = list(program, build);
        let listing = listing.map_err(|error| format!("{}: {error}", hints::located(given)))?;
        let program = given.display();
        let difference = if let Some(name) = of_build.only_here(&listing) {
            format!("{program} lacks {name}, which the others have")
        } else if let Some(name) = listing.only_here(of_build) {
            format!("{program} has {name}, which the others lack")
        } else {
            continue;
        };
        return Err(format!(
            "all layouts of a build have the same benchmarks of bench_pairs: {difference}; give programs of one build"
        ));
    }
    Ok(())
}

/// The paths from the root on: the system looks for a mere name in folders of its own.
fn absolute(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let absolute = |given: &PathBuf| {
        path::absolute(given).map_err(|error| {
            format!(
                "{}: the folder in which this path begins is unknown: {error}; give an absolute \
                 path",
                given.display()
            )
        })
    };
    paths.iter().map(absolute).collect()
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
        let name = builds.ours.pairs.get(number)?.as_deref()?;
        Some(Self { builds, name })
    }

    /// A benchmark of builds that can't be started.
    #[cfg(test)]
    pub(crate) fn without_programs(name: &'static str) -> Self {
        let builds = Box::leak(Box::new(Builds {
            programs: [Vec::new(), Vec::new()],
            ours: Listing::default(),
            theirs: Listing::default(),
        }));
        Self { builds, name }
    }

    /// The number of layouts of both builds.
    pub(crate) fn layouts(&self) -> usize {
        self.builds.programs[1].len()
    }

    /// Why the other build has nothing to compare it with. `None` if it has.
    pub(crate) fn why_not_comparable(&self) -> Option<VerdictReason> {
        self.builds.theirs.why_not_comparable(self.name)
    }

    /// Takes turns, for about `budget`.
    pub(crate) fn take_turns(
        &self,
        measurement: &CounterTime,
        pair_size: PairSize,
        budget: Duration,
    ) -> Result<Turns, String> {
        // The processes inherit the CPU mask.
        let _bound = system_facts::bind_to_present_cpu()?;
        let plan = Plan::of(budget);
        let mut turns = Turns {
            iterations_per_pair: (pair_size == PairSize::One).then_some(1),
            ..Turns::default()
        };
        // The processes of one layout have one place for their code, so that they are one replicate
        // together.
        let layouts = count(self.layouts());
        let process_pairs = if layouts > 1 {
            plan.process_pairs.div_ceil(layouts) * layouts
        } else {
            plan.process_pairs
        };
        let replicates = if layouts > 1 { layouts } else { process_pairs };
        turns.replicates = vec![Replicate::default(); index(replicates)];
        for number in 0..process_pairs {
            turns.add_process_pair(self, index(number % replicates), &plan, measurement)?;
        }
        Ok(turns)
    }
}

/// How much of the time goes where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    process_pairs: u64,
    /// The number of slices of each process.
    slices: u64,
    slice: Duration,
    /// A pair of processes with enough slices ends after this time, however many it has.
    max_time: Duration,
}

/// The number of pairs of processes. With ten, and a placement that changes times by 2 % (standard
/// deviation), +3 % are found in 82 % of runs and +10 % in all; with 16 in 97 % (simulated; a test
/// in `statistics/signed_rank.rs` has the model). The start of a process takes some ms, so that
/// more processes with less time each would measure little.
const MIN_PROCESS_PAIRS: u64 = 10;
const MAX_PROCESS_PAIRS: u64 = 40;

/// The time of a pair of processes, if that gives between [`MIN_PROCESS_PAIRS`] and
/// [`MAX_PROCESS_PAIRS`].
const PROCESS_PAIR_TIME: Duration = Duration::from_millis(250);

/// The smallest number of slices of a process, for a median of rounds.
const MIN_SLICES: u64 = 3;

/// The number of pairs that the search for the size of a slice begins with, and how often it takes
/// a size that seems too large: other programs may have had the CPU. The shortest time counts.
const FIRST_PAIRS: u64 = 8;
const TRIES: usize = 3;

/// The wanted number of slices, and their limits: the shortest has enough pairs of 2 us; the
/// longest is the unit of `/proc/stat`.
const SLICES: u32 = 6;
const MIN_SLICE: Duration = Duration::from_millis(2);
const MAX_SLICE: Duration = Duration::from_millis(10);

impl Plan {
    fn of(budget: Duration) -> Self {
        let process_pairs = round(budget.as_secs_f64() / PROCESS_PAIR_TIME.as_secs_f64());
        let process_pairs = process_pairs.clamp(MIN_PROCESS_PAIRS, MAX_PROCESS_PAIRS);
        let time = budget.div_f64(as_f64(process_pairs));
        let slice = (time / 2 / SLICES).clamp(MIN_SLICE, MAX_SLICE);
        let slices = round((time / 2).div_duration_f64(slice)).max(MIN_SLICES);
        Self {
            process_pairs,
            slices,
            slice,
            max_time: time * 4,
        }
    }
}

/// The number of pairs that take `time`, by the median of those that were measured, without what is
/// between pairs. At least 1.
fn max_pairs(mut ticks: Vec<u64>, ns_per_tick: f64, time: Duration) -> u64 {
    ticks.sort_unstable();
    let median = ticks.get(ticks.len() / 2).copied().unwrap_or(1).max(1);
    let pair_ns = as_f64(median) * ns_per_tick;
    round(time.as_secs_f64() * 1e9 / pair_ns).max(1)
}

/// The number of pairs of a slice, at most `max`, that takes about `time` with all that the
/// benchmark prepares for it. `take` takes a slice of a number of pairs, and returns how long it
/// took.
fn pairs_of_slice<E>(
    max: u64,
    time: Duration,
    mut take: impl FnMut(u64) -> Result<Duration, E>,
) -> Result<u64, E> {
    let mut pairs = FIRST_PAIRS;
    while pairs < max {
        let mut min_time = Duration::MAX;
        for _ in 0..TRIES {
            min_time = min_time.min(take(pairs)?);
            if min_time < time / 2 {
                break;
            }
        }
        if min_time >= time / 2 {
            let fitting = round(as_f64(pairs) * time.div_duration_f64(min_time));
            return Ok(fitting.clamp(1, max));
        }
        pairs *= 2;
    }
    Ok(max)
}

/// The results of two builds that took turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// A replicate for each pair of processes, or for each layout: the times of the other build and
    /// of this one.
    pub(crate) replicates: Vec<Replicate>,
    /// The disturbances of pairs of both builds.
    pub(crate) disturbances: Disturbances,
    /// The number of iterations in a pair; `None` until the first process has chosen it, if it may.
    pub(crate) iterations_per_pair: Option<u64>,
    /// The number of iterations in a slice; `None` until the first process has chosen it.
    iterations: Option<u64>,
}

impl Turns {
    /// Starts a pair of processes, and takes their slices.
    fn add_process_pair(
        &mut self,
        benchmark: &Benchmark,
        replicate: usize,
        plan: &Plan,
        measurement: &CounterTime,
    ) -> Result<(), String> {
        let begin = Instant::now();
        let mut iterations = 1;
        let mut start = |side: usize| -> Result<Process, String> {
            let program = &benchmark.builds.programs[side][replicate % benchmark.layouts()];
            let mut process = Process::start(program, benchmark.name, measurement)?;
            iterations = self.warm_up(&mut process, plan, measurement)?;
            Ok(process)
        };
        let mut processes = if random_side() == 0 {
            [start(0)?, start(1)?]
        } else {
            let of_this_build = start(1)?;
            [start(0)?, of_this_build]
        };
        for slice in 0..plan.slices {
            if slice >= MIN_SLICES && begin.elapsed() > plan.max_time {
                break;
            }
            let facts = SystemFacts::of_clock(measurement);
            let first = random_side();
            let mut ticks = [Vec::new(), Vec::new()];
            for side in [first, 1 - first] {
                let slice = processes[side].slice(self.request(iterations))?;
                self.disturbances.add_all(slice.disturbances);
                ticks[side] = slice.ticks;
            }
            let [theirs, ours] = ticks;
            if let Some(disturbance) = SystemFacts::of_clock(measurement).disturbed_since(&facts) {
                let pairs = count(theirs.len() + ours.len());
                self.disturbances.add(disturbance, pairs);
                continue;
            }
            self.replicates[replicate]
                .add_stretch(theirs.into_iter().zip(ours).map(<[u64; 2]>::from));
        }
        Ok(())
    }

    /// The request for a slice of `iterations`.
    const fn request(&self, iterations: u64) -> Request {
        Request {
            iterations,
            iterations_per_pair: self.iterations_per_pair,
        }
    }

    /// Takes slices that do not count. The first process chooses the size of pairs and slices.
    /// Returns the number of iterations in a slice.
    fn warm_up(
        &mut self,
        process: &mut Process,
        plan: &Plan,
        measurement: &CounterTime,
    ) -> Result<u64, String> {
        let slice = process.slice(self.request(1))?;
        let clock = measurement.measured_by();
        if slice.clock != clock {
            return Err(format!(
                "it measures by the {}, and this build by the {clock}; build both with the same CounterTime",
                slice.clock
            ));
        }
        let iterations_per_pair = *self
            .iterations_per_pair
            .get_or_insert(slice.iterations_per_pair);
        let iterations = match self.iterations {
            Some(iterations) => iterations,
            None => {
                let ns_per_tick = measurement.scale().rate.ns_per_tick;
                let max = max_pairs(slice.ticks, ns_per_tick, plan.slice);
                let pairs = pairs_of_slice(max, plan.slice, |pairs| {
                    let begin = Instant::now();
                    let iterations = pairs.saturating_mul(iterations_per_pair);
                    process
                        .slice(self.request(iterations))
                        .map(|_| begin.elapsed())
                })?;
                pairs.saturating_mul(iterations_per_pair)
            }
        };
        self.iterations = Some(iterations);
        // A routine of many ms is warm after one call.
        if iterations > iterations_per_pair {
            process.slice(self.request(iterations))?;
        }
        Ok(iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_pairs_of_processes_share_a_short_time_and_a_longer_time_has_more() {
        let plan = |ms| {
            let plan = Plan::of(Duration::from_millis(ms));
            (plan.process_pairs, plan.slices, plan.slice.as_micros())
        };
        assert_eq!(plan(0), (10, 3, 2_000));
        assert_eq!(plan(900), (10, 6, 7_500));
        assert_eq!(plan(5_000), (20, 13, 10_000));
        assert_eq!(plan(60_000), (40, 75, 10_000));
    }

    /// The pairs of a slice of 10 ms: each takes 2 us, and so long to prepare. `lost` is the time
    /// that the n-th slice loses to other programs.
    fn pairs_in_10_ms(setup: Duration, lost: impl Fn(usize) -> Duration) -> u64 {
        let mut slices = 0;
        pairs_of_slice(5_000, Duration::from_millis(10), |pairs| {
            slices += 1;
            let pair = Duration::from_micros(2) + setup;
            Ok::<_, ()>(pair.mul_f64(as_f64(pairs)) + lost(slices))
        })
        .expect("slices")
    }

    #[test]
    fn the_most_pairs_of_a_slice_fill_its_time_by_their_median() {
        let max = |ns_per_tick| {
            let ticks = vec![9_000, 4_000, 2_000];
            max_pairs(ticks, ns_per_tick, Duration::from_millis(10))
        };
        assert_eq!(max(0.5), 5_000);
        assert_eq!(max(1e6), 1, "a pair is longer than the slice");
    }

    /// Symptom: a slice of 10 ms of a routine of 64 ns, whose setup took 10 us, took over a second.
    #[test]
    fn the_time_of_a_slice_contains_its_setup() {
        let setup = Duration::from_micros(32 * 10);
        assert_eq!(pairs_in_10_ms(setup, |_| Duration::ZERO), 31);
    }

    #[test]
    fn without_a_setup_the_pairs_fill_the_slice() {
        assert_eq!(pairs_in_10_ms(Duration::ZERO, |_| Duration::ZERO), 5_000);
    }

    #[test]
    fn other_programs_do_not_make_slices_shorter() {
        let lost = |slice| Duration::from_millis(if slice % TRIES == 0 { 0 } else { 30 });
        assert_eq!(pairs_in_10_ms(Duration::ZERO, lost), 5_000);
    }
}
