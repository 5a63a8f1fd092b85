//! A benchmark program's `main`: this crate's options, the other build of `--against`, exit codes.

use std::any::Any;
use std::env;
use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::SystemTime;

use criterion::Criterion;

use crate::arguments::criterion::CriterionArguments;
use crate::arguments::{self, Options, Role, hints};
use crate::criterion_folder;
use crate::measurement::progress::converted_samples;
use crate::measurement::time::CounterTime;
use crate::message::Messages;
use crate::pairs::builds::{self, Builds, listing};
use crate::pairs::{placement, serving};
use crate::reason::ReasonCode;
use crate::results::verdict::findings::{self, Findings, RunFolder};
use crate::results::verdict::{self, BenchmarkVerdict, LeftOut, RunState, Verdicts};
use crate::results::{baseline_update, verdict_file};

/// Runs a program's benchmarks, with this crate's options, and returns the program's exit code:
/// what `criterion_main!` does, and more.
/// [`--against`](crate::comparisons#a-pull-request-against-main),
/// [`--max-regression`](crate::comparisons#for-ci) and the other options need this call in `main`.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use criterion::{Criterion, criterion_group};
/// use tickline_criterion::{BenchPairs, CounterTime};
///
/// fn parse(criterion: &mut Criterion<CounterTime>) {
///     criterion.bench_pairs("parse", |bencher| bencher.iter(|| "1234567".parse::<u64>()));
/// }
///
/// criterion_group!(
///     name = benches;
///     config = Criterion::default().with_measurement(CounterTime::new_or_wall_time());
///     targets = parse
/// );
///
/// fn main() -> ExitCode {
///     tickline_criterion::run(|| benches()) // several groups: one after the other
/// }
/// ```
///
/// criterion refuses arguments that it does not know. If there are some of this crate's, `run`
/// starts the program again without them, waits for it, and returns its exit code. With `--against`
/// the program is also started to list its benchmarks, and again for each process that takes turns:
/// what `main` does before this call happens in each of these processes. criterion itself then
/// [compares with no run](crate::comparisons#a-pull-request-against-main).
///
/// | exit code | when |
/// |---|---|
/// | 0 | each benchmark passes, or is new. Without `--against` and limits also if none is compared |
/// | 1 | a benchmark is found slower, by more than `--max-regression`: the whole interval of its median or of its mean is above the limit |
/// | 2 | nothing could be compared, or a baseline or the file of `--verdicts` could not be stored |
/// | 3 | none is slower, and at least one is undecided |
/// | 101 | a benchmark has panicked, or criterion has, as for a value that it refuses (`--sample-size 5`); the panic has unwound (the default) |
///
/// Exit code 2 comes with a printed reason. The usual ones:
///
/// - The arguments are wrong, `--against` or `--layout` names no such program, or the baseline is
///   missing.
/// - There is `--against` or a limit, and criterion only tests (no `--bench`, or `--test`).
/// - There is `--against` or a limit, and no benchmark is of [`BenchPairs`](crate::BenchPairs); for
///   the limit of a baseline, none of [`compare`](crate::compare()) either.
/// - There is `--against`, and the other build's `main` does not call `run`, or it has none of the
///   benchmarks, or the programs of one build have different ones.
/// - There is `--save-baseline`, and criterion's `sample.json` or this crate's file of a benchmark
///   of `bench_pairs` or `compare` is not in the baseline. If a benchmark is slower or undecided,
///   the exit code stays 1 or 3.
/// - The file of `--verdicts` could not be written. The exit code is then 2 also if a benchmark is
///   slower; the lines about that are printed.
/// - The baseline of `--update-on-pass` could not be written.
/// - The program can't be started again, or the program that was started again has ended without an
///   exit code from 0 to 255, as by an abort.
///
/// criterion itself ends a program with 1, and a printed reason, for `--profile-time` below 1 s and
/// for baselines under cargo-criterion.
///
/// A benchmark is undecided (exit code 3) in these cases:
///
/// - The estimate of its median is above `--max-regression`, and the low end of the interval is
///   not, or no difference of the medians was found. (If the estimate of its mean is above the
///   limit, and the low end is not, it passes, with a line.)
/// - Half of the width of its median's interval is above `--max-noise`, and the high end above
///   `--max-regression`; without that limit, above 0.
/// - [More than a tenth of a pair is cost](crate::comparisons#the-latency-of-an-iteration), and its
///   interval is neither entirely above `--max-regression` nor entirely below 0.
/// - Its comparison has failed.
///
/// # Panics
///
/// If a benchmark panics.
#[must_use = "without it a slower benchmark passes: write `fn main() -> ExitCode { run(..) }`"]
pub fn run(benchmarks: impl FnOnce()) -> ExitCode {
    match arguments::role() {
        Role::Measure => match measure(Options::take(env::args_os().skip(1)), benchmarks) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                Messages::Shown.print(&error);
                ExitCode::from(verdict::ERROR)
            }
        },
        Role::List => {
            listing::greet();
            benchmarks();
            ExitCode::SUCCESS
        }
        Role::Serve => {
            serving::take_streams();
            placement::shift_heap_start();
            benchmarks();
            ExitCode::SUCCESS
        }
    }
}

/// Runs benchmarks with criterion's default settings, by the counter: the function for the short
/// form `criterion_group!(benches, parse, sort)`, which is by `WallTime`.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use criterion::Criterion;
/// use tickline_criterion::{CounterTime, group, run};
///
/// fn parse(criterion: &mut Criterion<CounterTime>) {
///     criterion.bench_function("parse", |bencher| bencher.iter(|| "1234567".parse::<u64>()));
/// }
///
/// fn main() -> ExitCode {
///     run(|| group(&[parse]))
/// }
/// ```
pub fn group(targets: &[fn(&mut Criterion<CounterTime>)]) {
    let mut criterion = Criterion::default()
        .with_measurement(CounterTime::new_or_wall_time())
        .configure_from_args();
    for target in targets {
        target(&mut criterion);
    }
}

/// How the benchmarks of a process that the user has started have run.
#[derive(Debug)]
enum Ran {
    /// In this process: its findings are to be judged.
    Here,
    /// In the program that was started again, which has stored its own verdicts and errors: its
    /// exit code.
    Again(u8),
    /// In the program that was started again, which has ended without an exit code: why. A program
    /// that a signal has ended has stored no error; its file of verdicts says how far it came.
    EndedWithoutCode(String),
}

/// Runs the benchmarks of a process that the user has started. `taken` has the program's arguments:
/// this crate's own options, and the others. The error of a run that ends early is stored here.
fn measure(
    taken: Result<(Options, Vec<OsString>), String>,
    benchmarks: impl FnOnce(),
) -> Result<u8, String> {
    let options = match &taken {
        Ok((own, _)) if *own != Options::default() => own.clone(),
        Ok(_) => Options::of_this_process().clone(),
        Err(_) => Options {
            verdicts: arguments::verdicts(env::args_os().skip(1)),
            ..Options::default()
        },
    };
    let since = SystemTime::now();
    let ran = taken
        .and_then(|(own, others)| run_here_or_again(&own, others, benchmarks))
        .inspect_err(|error| store_error(error, &options))?;
    match ran {
        Ran::Again(code) => Ok(code),
        Ran::EndedWithoutCode(error) => Err(error),
        Ran::Here if CriterionArguments::of_this_process().only_print() => Ok(0),
        Ran::Here => judge_and_store(&options, since),
    }
}

/// Stores why the run ends early, with the verdicts so far.
fn store_error(error: &str, options: &Options) {
    let verdicts = findings::findings().verdicts.clone();
    // The error itself is printed.
    _ = verdict_file::store(&Verdicts::after(error, options, verdicts), options);
}

/// Runs the benchmarks here, or in the program that is started again without this crate's own
/// options.
fn run_here_or_again(
    own: &Options,
    others: Vec<OsString>,
    benchmarks: impl FnOnce(),
) -> Result<Ran, String> {
    let of_criterion = CriterionArguments::of_this_process();
    // criterion ends the process after its help.
    if of_criterion.ask_for_help() && !arguments::is_again() {
        let ran = run_again(&mut command_again(own, others)?)?;
        Messages::Shown.beside_criterion(&arguments::own_help());
        return Ok(ran);
    }
    if *own != Options::default() {
        own.check_that_criterion_measures(&others)?;
        return run_again(&mut command_again(own, others)?);
    }
    if !of_criterion.only_print() {
        let options = Options::of_this_process();
        // The file of an earlier run must not survive an error of this one.
        verdict_file::store_so_far(&Verdicts::so_far(options, Vec::new()), options)?;
        of_criterion.why_not_saved().map_or(Ok(()), Err)?;
        Builds::start(options).map_err(|error| format!("--against: {error}"))?;
    }
    catch_missing_baseline(|| {
        benchmarks();
        Criterion::default().configure_from_args().final_summary();
    })?;
    Ok(Ran::Here)
}

/// The command that starts the program again, with this crate's own options in a variable.
fn command_again(own: &Options, others: Vec<OsString>) -> Result<Command, String> {
    let mut again = Command::new(arguments::this_program()?);
    own.pass_on(again.args(own.for_criterion(others)))?;
    Ok(again)
}

/// Runs the program that is started again.
///
/// # Errors
///
/// If it can't be started.
fn run_again(again: &mut Command) -> Result<Ran, String> {
    let status = again.status().map_err(|error| {
        let program = Path::new(again.get_program()).display();
        format!(
            "{program} can't be started again, without the options that criterion does not know: {error}; build it \
             again, or leave these options out"
        )
    })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(match code {
        Some(code) => Ran::Again(code),
        None => Ran::EndedWithoutCode(ended_without_code(again, status)),
    })
}

/// The error of a program that has ended without an exit code for this process, such as by a
/// signal. The command for a try has none of this crate's own options.
fn ended_without_code(command: &Command, status: ExitStatus) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let quoted = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    format!(
        "{} has ended with {status}, and judged nothing; its last benchmark above has failed, or its main: try \
         `{}`",
        words[0],
        quoted.collect::<Vec<_>>().join(" ")
    )
}

/// criterion panics where a baseline of `--baseline` or `--load-baseline` is missing. With
/// `--baseline-lenient` in its place there would be no panic, but a benchmark of `bench_function`
/// without a baseline would pass without a word.
///
/// # Errors
///
/// If it did.
fn catch_missing_baseline(body: impl FnOnce()) -> Result<(), String> {
    let hook: Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync> = Arc::from(panic::take_hook());
    let of_others = Arc::clone(&hook);
    panic::set_hook(Box::new(move |panic| {
        if missing_baseline(panic.payload()).is_none() {
            of_others(panic);
        }
    }));
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    panic::set_hook(Box::new(move |panic| hook(panic)));
    result.or_else(|payload| match missing_baseline(&*payload) {
        Some(text) => Err(text),
        None => panic::resume_unwind(payload),
    })
}

/// The text about a missing baseline, if criterion has panicked because of it. criterion 0.8 gives
/// its panic a text, and no type. Nothing else says so, before or after: no function returns the
/// folder in which criterion looks, which the program may have chosen, nor the name of the
/// benchmark's folder in it.
fn missing_baseline(payload: &(dyn Any + Send)) -> Option<String> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied())?;
    let (name, _) = text
        .strip_prefix("Baseline '")?
        .split_once("' must exist")?;
    Some(format!(
        "there is no baseline {name} of this benchmark, the last one above, in {}, unless the program calls \
         Criterion::output_directory; {} saves one, and --baseline-lenient {name} measures benchmarks without one",
        criterion_folder::likely_root(None).display(),
        hints::command_that_saves(name)
    ))
}

/// Judges the findings of a run that began at `since`: updates the baseline, stores the verdicts,
/// and prints them, also if they can't be stored. Returns the exit code.
fn judge_and_store(options: &Options, since: SystemTime) -> Result<u8, String> {
    let Findings {
        verdicts,
        runs,
        not_saved,
    } = std::mem::take(&mut *findings::findings());
    let mut verdicts = Verdicts::at_end(options, verdicts, why_nothing_was_compared);
    verdicts.not_judged = not_judged(&verdicts, since);
    if let Some(error) = not_saved
        && verdicts.state.exit_code() == Some(verdict::PASSES)
    {
        verdicts.state = RunState::Failed { error };
    }
    let passes = verdicts.state.exit_code() == Some(verdict::PASSES);
    if options.update_on_pass
        && passes
        && let Err(error) = update_baseline(&mut verdicts, runs, options)
    {
        verdicts.state = RunState::Failed { error };
    }
    if let Err(not_stored) = verdict_file::store(&verdicts, options) {
        match &verdicts.state {
            RunState::Failed { error } if *error == not_stored => {}
            RunState::Failed { .. } => Messages::Shown.print(&not_stored),
            // The printed lines then have the exit code of this error.
            _ => verdicts.state = RunState::Failed { error: not_stored },
        }
    }
    if !verdicts.benchmarks.is_empty() {
        print(&verdicts, options);
    }
    match verdicts.state {
        RunState::Failed { error } => Err(error),
        state => Ok(state.exit_code().unwrap_or(verdict::ERROR)),
    }
}

/// The benchmarks without a verdict: by the lists of both builds with `--against`, or else by
/// criterion's files of this run.
fn not_judged(verdicts: &Verdicts, since: SystemTime) -> Vec<LeftOut> {
    let judged = &verdicts.benchmarks;
    let is_judged = |name: &str| judged.iter().any(|verdict| verdict.benchmark == name);
    let left_out = |benchmark: String, reason| LeftOut { benchmark, reason };
    if verdicts.against.is_some() || verdicts.baseline.is_none() {
        return builds::not_judged(is_judged)
            .into_iter()
            .map(|(name, reason)| left_out(name.to_owned(), reason))
            .collect();
    }
    let measured = criterion_folder::stored_since(since).into_iter();
    measured
        .filter(|name| !is_judged(name))
        .map(|name| {
            let text = "--baseline compares benchmarks of bench_pairs and compare; it is of bench_function";
            left_out(name, ReasonCode::NotOfBenchPairs.with(text))
        })
        .collect()
}

/// Why a run has compared nothing, although an option needs that.
fn why_nothing_was_compared(verdicts: &[BenchmarkVerdict]) -> String {
    let why = if !verdicts.is_empty() {
        "nothing was compared with the other build: no benchmark was measured that both builds have"
    } else if converted_samples() == 0 {
        "nothing was compared: no benchmark that measures by CounterTime fits the filter"
    } else {
        "nothing was compared: all that was measured are benchmarks of bench_function; this crate compares those \
         of bench_pairs and compare, if criterion stores what it measures"
    };
    why.to_owned()
}

/// Makes this run the baseline, except of benchmarks with untrusted samples. If the verdicts can't
/// be stored, the baseline stays.
fn update_baseline(
    verdicts: &mut Verdicts,
    runs: Vec<RunFolder>,
    options: &Options,
) -> Result<(), String> {
    let (folders, kept) = findings::trusted_runs(runs);
    verdicts.kept_baselines = kept;
    if folders.is_empty() {
        return Ok(());
    }
    let so_far = Verdicts::so_far(options, verdicts.benchmarks.clone());
    verdict_file::store_so_far(&so_far, options)?;
    let name = verdicts.baseline.clone().unwrap_or_default();
    if let Err(error) = baseline_update::update_baselines(&folders, &name) {
        verdicts.kept_baselines.clear();
        return Err(format!("the baseline was not updated: {error}"));
    }
    verdicts.is_baseline_updated = true;
    Ok(())
}

/// Prints the verdicts if there are limits, and what became of the baseline if it was to be
/// updated.
fn print(verdicts: &Verdicts, options: &Options) {
    if options.have_limits() {
        verdicts
            .to_string()
            .lines()
            .for_each(|line| Messages::Shown.print(&line));
    }
    if options.update_on_pass {
        baseline_lines(verdicts)
            .iter()
            .for_each(|line| Messages::Shown.print(line));
    }
}

/// What became of the baseline of `--update-on-pass`, and of the benchmarks that keep theirs.
fn baseline_lines(verdicts: &Verdicts) -> Vec<String> {
    let name = verdicts.baseline.as_deref().unwrap_or_default();
    let what = if !verdicts.is_baseline_updated {
        "stays as it was"
    } else if verdicts.kept_baselines.is_empty() {
        "is now this run: its benchmarks of bench_pairs and compare"
    } else {
        "is now this run: its benchmarks of bench_pairs and compare, but these:"
    };
    let kept = verdicts.kept_baselines.iter().map(|kept| {
        let LeftOut { benchmark, reason } = kept;
        format!("the baseline {name} of {benchmark} stays as it was: {reason}")
    });
    std::iter::once(format!("the baseline {name} {what}"))
        .chain(kept)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;
    use crate::test_folder::Folder;

    /// Lets one test at a time set the panic hook, which all threads share.
    fn only_hook() -> MutexGuard<'static, ()> {
        static HOOK: Mutex<()> = Mutex::new(());
        HOOK.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text about criterion's panic.
    fn text_about(name: &str) -> String {
        let _only = only_hook();
        let error = catch_missing_baseline(|| {
            panic!(
                "Baseline '{name}' must exist before comparison is allowed; try --save-baseline {name}"
            );
        });
        error.expect_err("no baseline")
    }

    /// Symptom: "the baseline main is now this run: its benchmarks", and no word of those it is
    /// not.
    #[test]
    fn a_line_names_each_benchmark_that_keeps_its_baseline() {
        let runs = [("a", 0), ("b", 3)].map(|(name, untrusted)| RunFolder {
            benchmark: name.to_owned(),
            folder: name.into(),
            untrusted,
        });
        let (_, kept_baselines) = findings::trusted_runs(runs.into());
        let verdicts = Verdicts {
            baseline: Some("main".to_owned()),
            is_baseline_updated: true,
            kept_baselines,
            ..Verdicts::so_far(&Options::default(), Vec::new())
        };
        let [updated, kept] = &baseline_lines(&verdicts)[..] else {
            panic!("{verdicts:?}");
        };
        assert_eq!(
            updated,
            "the baseline main is now this run: its benchmarks of bench_pairs and compare, but these:"
        );
        let expected =
            "the baseline main of b stays as it was: 3 of this run's samples can't be trusted";
        assert!(kept.starts_with(expected), "{kept}");
    }

    /// Symptom: "the program can't be started again", without the program or what to do.
    #[test]
    fn the_error_of_a_program_that_does_not_start_has_its_path() {
        let mut command = Command::new("/no/such/program");
        let error = run_again(&mut command).expect_err("no program");
        assert!(error.starts_with("/no/such/program can't be"), "{error}");
    }

    /// Symptom: the verdicts of an earlier run stayed, with exit code 0 in them.
    #[test]
    fn the_verdicts_have_the_error_of_a_run_that_ends_early() {
        let folder = Folder::new("ends-early");
        folder.write("verdicts.json", r#"{"state":"finished","exit_code":0}"#);
        let own = Options {
            verdicts: Some(folder.0.join("verdicts.json")),
            against: vec!["main".into()],
            ..Options::default()
        };
        let error = measure(Ok((own, Vec::new())), || ()).expect_err("no --bench");
        let text = folder.read("verdicts.json").expect("the file");
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(found["error"], error, "{found}");
    }

    /// Symptom: the text was "the program has ended with signal: 6 (SIGABRT)".
    #[test]
    #[cfg(unix)]
    fn the_error_of_a_program_that_a_signal_ends_has_the_program_and_a_command() {
        use std::os::unix::process::ExitStatusExt;

        let mut command = Command::new("/t/work");
        command.args(["--bench", "sort"]);
        let status = ExitStatus::from_raw(6);
        assert_eq!(
            ended_without_code(&command, status),
            format!(
                "/t/work has ended with {status}, and judged nothing; its last benchmark above has failed, or \
                 its main: try `'/t/work' '--bench' 'sort'`"
            )
        );
    }

    #[test]
    fn criterions_panic_about_a_missing_baseline_is_an_error() {
        let text = text_about("main");
        assert!(
            text.starts_with("there is no baseline main of this benchmark"),
            "{text}"
        );
    }

    /// Symptom: the program ended by criterion's panic.
    #[test]
    fn the_name_of_a_missing_baseline_may_have_an_apostrophe() {
        let text = text_about("bob's");
        assert!(
            text.starts_with("there is no baseline bob's of this benchmark"),
            "{text}"
        );
    }

    #[test]
    #[should_panic(expected = "a benchmark's own")]
    fn other_panics_go_on() {
        let _only = only_hook();
        _ = catch_missing_baseline(|| panic!("a benchmark's own"));
    }

    /// Symptom: after the benchmarks, the program's hook was the default one.
    #[test]
    fn the_programs_panic_hook_stays() {
        static CALLED: AtomicBool = AtomicBool::new(false);
        let _only = only_hook();
        let before = panic::take_hook();
        panic::set_hook(Box::new(|panic| {
            if panic.payload().downcast_ref() == Some(&"for the hook") {
                // ORDERING: Relaxed: the same thread loads it.
                CALLED.store(true, Ordering::Relaxed);
            }
        }));
        let caught = catch_missing_baseline(|| {});
        let thrown = panic::catch_unwind(|| panic!("for the hook"));
        panic::set_hook(before);
        assert!(caught.is_ok() && thrown.is_err());
        // ORDERING: Relaxed: the same thread has stored it.
        assert!(CALLED.load(Ordering::Relaxed));
    }
}
