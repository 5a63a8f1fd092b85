//! This crate gives [criterion](https://docs.rs/criterion) the CPU's counter as its clock, through
//! [tickline]: times are in ns of `CLOCK_MONOTONIC`, with less overhead than those of `WallTime`.
//!
//! ```no_run
//! use std::hint::black_box;
//! use std::process::ExitCode;
//!
//! use criterion::{BatchSize, Criterion, criterion_group};
//! use tickline_criterion::CounterTime;
//!
//! fn push(criterion: &mut Criterion<CounterTime>) {
//!     criterion.bench_function("push", |bencher| {
//!         let setup = || Vec::with_capacity(1);
//!         let push = |mut vec: Vec<i32>| { vec.push(7); black_box(vec) };
//!         bencher.iter_batched(setup, push, BatchSize::PerIteration)
//!     });
//! }
//!
//! criterion_group!(
//!     name = benches;
//!     config = Criterion::default().with_measurement(CounterTime::new_or_wall_time());
//!     targets = push
//! );
//!
//! fn main() -> ExitCode {
//!     tickline_criterion::run(|| benches())
//! }
//! ```
//!
//! The counter measures on Linux and Windows only, and only if [it can be trusted](tickline#trust).
//! Elsewhere, as on macOS, [`CounterTime::new_or_wall_time`] measures as `WallTime` does.
//!
//! To convert existing benchmarks, write `&mut Criterion<CounterTime>` in place of
//! `&mut Criterion`, and change these:
//!
//! | there is | it becomes |
//! |---|---|
//! | `criterion_group!(name = benches; config = ..; targets = push, pop)` | the same, with `.with_measurement(CounterTime::new_or_wall_time())` after `config` |
//! | the short form `criterion_group!(benches, push, pop)` | the long form above; or no group, and `run(\|\| group(&[push, pop]))` in `main` ([`group`]) |
//! | `criterion_main!(benches)` | `fn main() -> ExitCode { run(\|\| benches()) }` ([`run`]) |
//! | a helper's `&mut Bencher` | `&mut Bencher<'_, CounterTime>`; for [`BenchPairs`] `&mut PairBencher<'_>` |
//! | a helper's `&mut BenchmarkGroup<'_, WallTime>` | `&mut BenchmarkGroup<'_, CounterTime>` |
//! | a routine of `iter_custom` that returns a `Duration` | a routine that reads a [`CounterTime`] and returns an [`Elapsed`]: a clone, or in a target of `criterion_group!` or [`group`] another one, `let time = CounterTime::new_or_wall_time();` ([examples](CounterTime#readings-in-iter_custom)). Or the `Duration` with `.into()`: the routine keeps its clock, nothing is subtracted, and a line says so |
//!
//! - The short form is for `WallTime` only. With `&mut Criterion<CounterTime>` it does not compile:
//!   `error[E0308]: mismatched types`, with "expected `&mut Criterion<CounterTime>`, found
//!   `&mut Criterion`" below it.
//! - `criterion_main!` still measures, but criterion then refuses this crate's options.
//! - criterion compares the first run with the last one by `WallTime`. Its "Performance has
//!   improved" is then due to the clock ([caveats](#caveats)).
//!
//! At the start the crate prints a line on the standard error stream, here of `known_delays` on an
//! AMD EPYC, family 25, model 17, 2026-11-26:
//!
//! ```text
//! tickline: counter at 2596.134 MHz +-963 ppb, resolution 10.0 ns; a start and an end cost 22.7 ns, subtracted
//! ```
//!
//! # Purpose
//!
//! criterion may read the clock around each iteration (`iter_batched` with `PerIteration`,
//! `iter_custom`), or around small batches. `WallTime` then adds the cost of two calls of the OS
//! clock to the routine's time. This cost hides the time of a routine that takes a few ns. Two
//! readings of the counter cost less, and this crate measures and subtracts their cost.
//!
//! With `iter`, and with large batches, criterion reads the clock once for thousands of iterations.
//! On free CPUs both clocks then give the same result. On busy CPUs this crate's is the true one:
//! [the time that others use](#busy-cpus) does not count.
//!
//! The [table of known delays](#known-delays) has both clocks. In one long run they agree within 40
//! ppm. Under criterion one clock measures seconds after the other, so changes of the core's
//! frequency add to the difference.
//!
//! # Busy CPUs
//!
//! Browsers, compilers and other tests use the CPU, too. Meanwhile the benchmark waits, and
//! `WallTime` counts this time. On Linux, `CounterTime` subtracts from each sample the time in
//! which the thread did not run. Every benchmark with `CounterTime` gets this; a plain `iter` needs
//! no other change. At the end the crate prints how much it subtracted, here in `under_load`
//! of [`benches`](https://github.com/tickline/tickline/blob/main/benches/README.md):
//!
//! ```text
//! tickline: 79 of 1000 samples lost the CPU, and this time was subtracted: 711.104 ms of waiting for a CPU (in 79)
//! ```
//!
//! | lost time | known by | subtracted |
//! |---|---|---|
//! | a wait for a CPU that other programs use | the run delay in `/proc/thread-self/schedstat`, less the CPU time of the process's other threads | yes |
//! | steal: the hypervisor ran other guests | the thread's CPU clock, if the kernel has `CONFIG_PARAVIRT_TIME_ACCOUNTING`, and the hypervisor reports it | yes |
//! | interrupts | the thread's CPU clock, if the kernel has `CONFIG_IRQ_TIME_ACCOUNTING` | yes |
//! | a CPU quota of the control group | both | yes |
//! | a move to another CPU | the CPU's id, which comes with the counter | no; it is counted, and printed |
//!
//! - The crate asks the kernel before the start and after the end, outside of the measured
//!   interval. Both together take about 5 us a sample, of which 1.2 us are for the process's CPU
//!   clock. That part grows by 7 ns with each further thread of the process (AMD EPYC under KVM,
//!   Linux 6.18).
//! - The subtracted time is the counter's time less that of the thread's CPU clock, and never more
//!   than the sample's interval. A difference of at most 1 us plus 0.1 % of the sample is not
//!   subtracted.
//! - **Waits of the routine itself count**: a sleep, a lock, I/O. If the thread blocked in a
//!   sample, nothing is subtracted from that sample.
//! - **Yields to threads of the same process count**, too (`yield_now`, as in spin locks). The
//!   kernel does not say who ran in the place of a thread that yields. So the crate takes the CPU
//!   time of the process's other threads, on any CPU, for the routine's own. It subtracts only the
//!   rest of the wait.
//! - A sample that may have lost 1 % of its time or more beyond what is subtracted is one of
//!   [`Incidents::uncertain_samples`]. So is a sample that began on another thread. A printed line
//!   says how many there are. If the process has other threads that are always busy, most samples
//!   that lost the CPU are uncertain.
//! - The kernel does not tell a routine's child processes from other programs. **If a routine
//!   yields to a process, this wait is subtracted**; if it sleeps until the process answers, it is
//!   not. For such a routine turn the subtraction off.
//! - A batch that is shorter than 50 us is too short for a system call on each side. So after some
//!   such batches, the crate asks the kernel only about every 50 us, between two of them. If a
//!   batch then takes longer, what it lost is known, except for the time since the last question.
//!   [`BenchPairs`] excludes such iterations instead.
//! - What other programs leave behind stays in the sample: after a wait the caches and branch
//!   predictors are cold. `under_load` measures this error, beside programs that only compute, and
//!   beside programs that empty the caches.
//! - Only the thread that measures is watched. If a routine waits for threads of its own, the time
//!   that others took from those threads counts.
//! - If a routine sends packets to itself, the kernel does a part of its work in interrupts. If the
//!   kernel measures interrupts, this part is subtracted, too.
//! - [`CounterTimeBuilder::include_disturbed`] (or `cargo bench --bench NAME --
//!   --include-disturbed`) turns all of this off. Where the system says nothing, the time is as the
//!   counter measured it, and a line says so: [`CounterTime::not_subtracted`].
//!
//! # Distributions
//!
//! criterion's mean hides the tail of a routine, and a single preemption spoils the mean. A *pair*
//! is the two clock readings around one timed run. With [`BenchPairs`], such a run is one
//! iteration, and a histogram keeps all pairs:
//!
//! ```no_run
//! # use criterion::Criterion;
//! use std::hint::black_box;
//! use tickline_criterion::{BenchPairs, CounterTime};
//!
//! fn parse(criterion: &mut Criterion<CounterTime>) {
//!     let text = || black_box("1234567");
//!     criterion.bench_pairs("parse", |bencher| bencher.iter(|| text().parse::<u64>()));
//! }
//! ```
//!
//! - The crate prints p50, p90, p99, p99.9 and the slowest pair below criterion's line, and stores
//!   them as `new/pairs.json`. criterion's report of the benchmark shows them as a plot.
//! - The crate subtracts the cost of a pair, and interpolates quantiles within the counter's
//!   resolution. The median of equal times is therefore right within a tenth of that resolution.
//! - [`PairBencher::cost_share`] is for routines that take less than the counter's resolution. It
//!   puts enough iterations into a pair to keep the pair's cost below a given share of its time.
//! - [`PairBencher::latency`] is for comparisons of two builds: a pair then has one iteration
//!   there, too. Otherwise a pair has many, and those of a short routine overlap.
//! - The crate excludes disturbed pairs, also from the mean that criterion gets, and measures
//!   further pairs in their place. It prints and stores how many there were of each disturbance,
//!   and the time of the longest: `preempted 717 (up to 24.09 ms)`. With `cargo bench --bench NAME
//!   -- --include-disturbed` disturbed pairs count ([`run`]).
//!
//! | disturbance | seen by | excluded |
//! |---|---|---|
//! | `moved` | the CPU's id, which comes with the counter | the pair; after a move between two pairs, the second |
//! | `backwards` | an end that is before its start | the pair, which has no duration |
//! | `preempted` | `ru_nivcsw` of the thread (Linux). It counts yields to another thread as well, so a routine that yields is better measured with `iter` or `--include-disturbed` | 50 us of pairs (see below) |
//! | `interrupted` | a loop that only reads the counter: its gaps are interrupts | long pairs that interrupts explain (see below) |
//! | `stolen` | the CPU's `steal` in `/proc/stat` (Linux) | 10 ms of pairs |
//! | `frequency` | cpufreq, where the kernel shows it: a change by more than 2 % | 10 ms of pairs |
//! | `clock` | a disruption or a closed gate of tickline's clock. The code behind the count says what: of a [`tickline::Event`], such as `unix_step`, of the gate's [`tickline::Reason`], or of the [`tickline::ClockState`] | 10 ms of pairs |
//!
//! **A routine's own slow calls count**, but for two kinds:
//!
//! - Calls that interrupts, or pauses by the hypervisor, explain: they are about as rare as
//!   interrupts that take as long, or down to a tenth as long.
//! - Calls so long that the thread is often preempted in them.
//!
//! Without them the mean, p99.9 and max are too small. If the longest excluded pair is as long as
//! your slow calls, run again with `--include-disturbed`. A printed line says how many pairs count
//! although they are as long as an interrupt. Among them is a pause that the hypervisor does not
//! report, if the loop has seen none of its length.
//!
//! # Known delays
//!
//! The table has the errors in ns, without other load, and while compilers and tests kept both CPUs
//! busy.
//!
//! - The rows from 20 ns on are chains of multiplications in a function. Long runs give their true
//!   time.
//! - "less call" is the error of p50 minus the error of the empty function's p50
//!   ([caveats](#caveats)).
//! - The result of `WallTime` contains the cost of two readings, and the time that other programs
//!   took.
//! - `taskset -c 1 cargo run --release --example known_delays` prints these columns. It fails if
//!   the error of `CounterTime` is larger than the example's head allows.
//!
//! AMD EPYC, family 25, model 17, 2 CPUs, Linux 6.18.44-fc-v595, rustc 1.95.0, 2026-11-26, without
//! other load and with busy CPUs:
//!
//! | | truth | `WallTime`: mean | pairs: mean | p50 | less call | busy CPUs: truth | `WallTime`: mean | pairs: mean | p50 | less call |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | an empty closure | 0.0 | +24.9 | +0.4 | +0.0 | +0.0 | 0.0 | +23.8 | +0.3 | +0.0 | +0.0 |
//! | an empty function | 3.0 | +22.4 | +3.3 | +3.4 | +0.0 | 3.0 | +34.4 | +2.5 | +3.2 | +0.0 |
//! | 20 ns | 22.6 | +19.7 | +2.2 | +2.7 | -0.6 | 22.5 | +39.6 | +3.1 | +3.3 | +0.1 |
//! | 50 ns | 51.7 | +18.5 | +2.3 | +2.5 | -0.9 | 51.7 | +52.5 | +2.2 | +2.7 | -0.4 |
//! | 100 ns | 97.2 | +20.7 | +4.0 | +1.3 | -2.1 | 100.5 | +141.9 | +5.9 | +2.6 | -0.6 |
//! | 500 ns | 500.0 | +24.8 | +3.2 | +1.7 | -1.6 | 500.1 | +595.4 | +7.5 | +4.8 | +1.7 |
//!
//! # Comparisons
//!
//! - [`compare`] runs two routines in turns, at eight places of their code, and gives an interval
//!   of 95 % confidence for their difference.
//! - `cargo bench --bench NAME -- --against PROGRAM` gives one for two builds of a program, such as
//!   a pull request and main.
//! - criterion's `--save-baseline` and `--baseline` compare with a stored run.
//! - Medians and means are compared: if some calls are slow, [only the means
//!   tell](comparison_method#medians-and-means).
//! - With limits, `--max-regression 3% --max-noise 2%`, the exit code ([`run`]) and a file
//!   ([`Verdicts`]) tell CI what was found.
//!
//! [`comparisons`] has the commands, their output, and a [job for CI](comparisons#for-ci).
//! [`comparison_method`] says how often equal builds are found different, by this crate and by
//! other harnesses.
//!
//! # Guarantees and their limits
//!
//! | guaranteed | not guaranteed |
//! |---|---|
//! | The measured time contains no work from before the start or after the end. At the end all work in between has executed (on riscv64, only the loads): see [fences](#fences). | that the last stores have left the store buffer; that the compiler leaves arithmetic between the readings if no `black_box` takes the result ([caveats](#caveats)) |
//! | The rate is that of `CLOCK_MONOTONIC` within [`Calibration::uncertainty_ppb`], as long as the bounds of [`tickline::Reading`] hold. It follows tickline's clock while benchmarks run. | a constant frequency of the CPU's cores: results are ns, not cycles |
//! | The crate uses no counter that can't be trusted: [`CounterTime::new`] returns an [`Error`] with the reason. | the same digits on all machines: counters have resolutions of 0.2 to 40 ns ([`Calibration::resolution_ns`]) |
//! | If one instruction reads counter and CPU id (x86_64), the crate notices a move of the thread between the two readings of a pair. [`BenchPairs`] and [`compare`] also notice a move between two pairs. | that it notices a move away and back; with criterion's own bencher, a move between two pairs |
//! | The crate reports the disruptions that tickline's clock notices: counter reset, suspend, rate change, clock set, gate closed. It also reports samples that were taken while a gate was closed ([`Incidents`]). | that the clock notices each of them before the sample ends: it may take half a second |
//! | Other programs' time does not count where Linux reports it and it can be told from the routine's own ([busy CPUs](#busy-cpus)). It is subtracted from the samples of criterion's bencher. [`BenchPairs`] and [`compare`] exclude iterations with it. | that Linux reports all of it, or that it can be told from the routine's own; on other systems it is in the samples, as with every clock |
//! | No sample is 0, which criterion would refuse: the smallest sample is an attosecond. | that a single pair is more exact than the counter's resolution; means over many pairs are |
//!
//! # Cost
//!
//! | when | what | time |
//! |---|---|---|
//! | [`CounterTime::new`]; with `--list` nothing | the wait until the rate is known to 1 ppm | 0.1 to 0.2 s, at most 2 s; before that, where the kernel keeps time with another clock, or does not say with which (Windows), 20 ms a CPU or more ([`CounterTimeBuilder::settle`]) |
//! | then | the measurement of a pair's cost | 2 ms |
//! | then, and in each process that `--against` starts | the loop that detects interrupts | 20 ms |
//! | around a sample of 50 us or longer, outside of its time | the questions to the kernel | 5 us |
//! | after a sample | its conversion, which needs the clock's status | 10 us |
//! | twice a second, between samples | the measurement of a pair's cost | 1 ms |
//! | as long as the clock exists | a thread of tickline, which wakes up twice a second | 0.02 to 0.04 % of a core ([record](https://github.com/tickline/tickline/blob/main/benches/README.md#tickline)) |
//!
//! # Fences
//!
//! The start waits until all earlier instructions have executed and all earlier stores have
//! drained. Then it reads the counter; no later instruction begins before this read. The end waits
//! until the measured code has executed, and then reads the counter.
//!
//! - On x86_64 the start is a full fence, `rdtscp`, `lfence`; the end is `rdtscp`, `lfence`.
//! - On aarch64 there is an `isb` on both sides of the read of the register.
//! - riscv64 has no such instruction: loads stay between the readings, but arithmetic and stores
//!   may move across them.
//!
//! The head of `src/measurement/readings.rs` names the manuals and sections.
//!
//! # Caveats
//!
//! - **With criterion's `iter_batched`, `iter_batched_ref`, `iter_with_large_drop` and
//!   `iter_custom`, give the result to a `black_box` inside of the routine.** criterion's own
//!   `black_box` comes after the second reading there, or not at all (`iter_custom`). The compiler
//!   may move arithmetic that needs no memory across a reading, with this clock and with
//!   `WallTime`. In criterion's `iter`, in [`BenchPairs`] and in [`compare`], a `black_box` takes
//!   the result before the second reading.
//! - A routine between two fences starts with an empty pipeline. A call of an empty function then
//!   takes 7 ns; in a loop it takes 3 ns (on the AMD EPYC above). The routine really takes that
//!   time, so the clock is right. criterion's
//!   [`Bencher::iter`](https://docs.rs/criterion/0.8/criterion/struct.Bencher.html#method.iter)
//!   measures the throughput instead.
//! - The crate measures the cost that it subtracts twice a second, between samples. If the core
//!   changes its frequency in between, the cost of a pair differs by about 1 ns.
//! - Bind the process to a CPU (`taskset -c 1 cargo bench`). This crate reports moves of the
//!   thread, and prevents them only with `--against`.
//! - criterion compares with the results of the last run, even if that run used another clock. The
//!   first "Performance has improved" after a change of clock is due to the clock; the second run
//!   compares like with like. To avoid the first comparison, remove `target/criterion`:
//!   `--discard-baseline` keeps the old run. With `--against` criterion compares with no run.
//! - After a change from `bench_function` to `bench_pairs`, a routine of 5 ns reads about twice as
//!   long, one of 0.25 ns some 20 times (on an AMD EPYC, family 26, model 2): see the call above.
//! - This crate's options need [`run`] in `main`. criterion refuses arguments that it does not
//!   know, so `run` starts the program again without them. With `--against` it starts the program
//!   several times more. What `main` does before `run`, and what a benchmark prepares, happens each
//!   time.
//!
//! # Output
//!
//! Other libraries of this project do not print. This crate prints distributions and comparisons on
//! the standard output, below criterion's line. All other output goes to the standard error stream:
//!
//! - once in a process, the line about the counter, above [Purpose](#purpose);
//! - once in a process, that an option of this crate needs [`run`] in `main`;
//! - each time that the crate uses `WallTime` instead, a line with the reason;
//! - when the last clone of a [`CounterTime`] is dropped, a line for each kind of incident that
//!   happened. With `criterion_group!` this is at the end of the group.
//!
//! [`CounterTimeBuilder::quiet`] turns all output off.
//!
//! # Environment
//!
//! | variable | effect |
//! |---|---|
//! | `TICKLINE_CRITERION` | with the value `include-disturbed`, the same as `--include-disturbed` |
//! | `TICKLINE_CRITERION_PASSED` | not for users: JSON that [`run`] sets for each process that it starts. It has this crate's options, and so the programs that are started (`--against`, `--layout`) and the file that is written (`--verdicts`). It counts only in a process whose arguments are in it, too |
//! | `TICKLINE_CRITERION_PADDING` | not for users: its length, less than a page, shifts the stack of a process that takes turns. Nothing reads it |
//! | `CRITERION_HOME`, `CARGO_TARGET_DIR` | criterion's own: where its folder is, in which this crate stores its files, too |
//! | `CARGO_CRITERION_PORT` | cargo-criterion's own: where it is set, criterion stores no measurements, and this crate stores none |
//!
//! [tickline] reads `TICKLINE` when the process starts ([`tickline::EnvironmentSwitch`]).
//!
//! # Examples
//!
//! `benches/distributions.rs` (`cargo bench -p tickline-criterion --bench distributions`) has
//! distributions and a comparison; `examples/known_delays.rs` has both clocks.
//!
//! [`Calibration::resolution_ns`]: measurement::Calibration::resolution_ns
//! [`Calibration::uncertainty_ppb`]: measurement::Calibration::uncertainty_ppb
//! [`CounterTimeBuilder::include_disturbed`]: measurement::CounterTimeBuilder::include_disturbed
//! [`CounterTimeBuilder::quiet`]: measurement::CounterTimeBuilder::quiet
//! [`CounterTimeBuilder::settle`]: measurement::CounterTimeBuilder::settle
//! [`Error`]: measurement::Error
//! [`Incidents`]: measurement::Incidents
//! [`Incidents::uncertain_samples`]: measurement::Incidents::uncertain_samples
//! [`Verdicts`]: results::Verdicts
#![forbid(unsafe_code)]

// The folders, in order: each uses only those above it.
//
// | folder | has |
// |---|---|
// | `measurement` | `CounterTime`, the clock that criterion measures by |
// | `statistics` | arithmetic over the times of pairs |
// | `pairs` | pairs of readings, and which of them count; another build in turns |
// | `results` | distributions, comparisons and baselines: printed, stored and drawn |
//
// `run` is what a program calls, `bench_pairs` and `compare` what a benchmark calls. `arguments`,
// `criterion_folder`, `message`, `number`, `octaves` and `reason` serve all of them.
mod arguments;
mod bench_pairs;
mod compare;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/comparison_method.md")]
pub mod comparison_method {}
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/comparisons.md")]
pub mod comparisons {}
mod criterion_folder;
pub mod measurement;
mod message;
mod number;
mod octaves;
mod pairs;
mod reason;
pub mod results;
mod run;
mod statistics;
#[cfg(test)]
mod test_folder;
#[cfg(test)]
mod testing;

// What a benchmark names. The types of its results are in `measurement` and `results`.
pub use bench_pairs::{BenchPairs, PairId};
pub use compare::compare;
pub use measurement::readings::Elapsed;
pub use measurement::time::CounterTime;
pub use pairs::bencher::PairBencher;
pub use run::{group, run};

/// Makes the README's example a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
