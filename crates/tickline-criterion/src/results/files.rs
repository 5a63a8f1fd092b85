//! This crate's files, next to criterion's files of a benchmark.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use serde::Serialize;
use serde_json::Value;

use crate::arguments::criterion::{CriterionArguments, lets_criterion_store};
use crate::arguments::{Options, hints};
use crate::criterion_folder::{find, full_name, is_run, likely_root, why_not_writable};
use crate::measurement::measured_by::MeasuredBy;
use crate::message::Messages;
use crate::pairs::collector::{Collector, MoreIterations};
use crate::reason::{ReasonCode, VerdictReason};
use crate::results::baseline::{Change, MIN_PARTS};
use crate::results::cost_share::CostShare;
use crate::results::replace::replace;
use crate::results::stored_run::StoredRun;
use crate::results::text::INDENT;
use crate::results::verdict::findings::{RunFolder, findings};
use crate::results::verdict::{ComparedWith, Conclusion, Difference, Judgement, MeanDifference};

/// A baseline of a benchmark.
pub(crate) struct Baseline {
    pub(crate) name: String,
    pub(crate) run: StoredRun,
}

impl Baseline {
    /// The line about a stored run of the benchmark of which samples can't be trusted.
    fn why_untrusted(&self, benchmark: &str) -> Option<String> {
        let name = &self.name;
        let untrusted = self.run.samples_untrusted;
        (untrusted > 0).then(|| {
            format!(
                "{untrusted} samples of the baseline {name} of {benchmark} can't be trusted, because the clock did \
                 not trust the counter meanwhile; save it again: {}",
                hints::command_that_saves(name)
            )
        })
    }

    /// Why a run by another clock can't be compared with it.
    fn why_other_clock(&self, now: &StoredRun) -> Option<String> {
        let Self { name, run: then } = self;
        let text = |run: &StoredRun| match run.measured_by {
            Some(MeasuredBy::Unknown) | None => "an unknown clock".to_owned(),
            Some(clock) => format!("the {clock}"),
        };
        (then.measured_by.is_none() || then.measured_by != now.measured_by).then(|| {
            format!(
                "the baseline {name} is by {}, and this run by {}, so their times are not comparable; measure again by \
                 the baseline's clock, or save it again by this run's: {}",
                text(then),
                text(now),
                hints::command_that_saves(name)
            )
        })
    }
}

/// Makes a plot from criterion's name of the benchmark, and from the baseline.
type Draw<'a> = &'a dyn Fn(&str, Option<&Baseline>) -> Result<String, Box<dyn Error>>;

/// The version of the JSON.
const VERSION: u32 = 1;

/// The files of a benchmark.
pub(crate) struct Files<'a> {
    /// The name of the JSON and of the plot, without extensions.
    pub(crate) stem: &'a str,
    /// The heading in criterion's report.
    pub(crate) heading: &'a str,
    /// What later runs are compared with.
    pub(crate) run: StoredRun,
    /// The further keys of the JSON, which only scripts read.
    pub(crate) details: Value,
    pub(crate) svg: Draw<'a>,
    pub(crate) reference: Reference,
}

/// The JSON of a benchmark.
#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    benchmark: &'a str,
    #[serde(flatten)]
    run: &'a StoredRun,
    #[serde(flatten)]
    details: &'a Value,
    /// The comparison with a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<Value>,
}

/// What the files are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The baseline of `--baseline`, if there is one.
    Baseline,
    /// They are themselves a comparison with another build.
    OtherBuild,
}

/// What became of the files.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// criterion's folder of the benchmark; `None` if the files are not there.
    pub(crate) folder: Option<PathBuf>,
    /// Whether a line about the baseline has said that pairs are too short.
    pub(crate) has_named_short_pairs: bool,
}

/// Stores `files` next to criterion's files of the collector's benchmark. Prints a line if it does
/// not find criterion's files.
pub(crate) fn store<const N: usize>(collector: &Collector<N>, files: Files<'_>) -> Stored {
    if !lets_criterion_store() {
        return Stored::default();
    }
    let time = &collector.time;
    let messages = time.settings().messages;
    let chosen = time.settings().output_directory.as_deref();
    let Some(folder) = find(chosen, &collector.collected.returned_ns, collector.begin) else {
        let root = likely_root(chosen);
        let why = why_not_writable(&root).map(|why| {
            format!("{why}; let this user write there, or set CRITERION_HOME to another folder")
        });
        let error = why.unwrap_or_else(|| {
            format!(
                "criterion's files of this run are not in {}; a line `Criterion.rs ERROR` above \
                 has the path if criterion could not write them; or the program may call \
                 Criterion::output_directory, which it then must pass to \
                 CounterTime::builder().output_directory as well",
                root.display()
            )
        });
        static FIRST: Once = Once::new();
        messages.print_once(&FIRST, &format_args!("not stored: {error}"));
        not_stored(time.measured_by(), "unknown", error);
        return Stored::default();
    };
    Stored {
        has_named_short_pairs: write(collector, &folder, files),
        folder: Some(folder),
    }
}

/// Adds the collector's benchmark as one that can't be compared with a baseline, if it should be.
pub(crate) fn undecided<const N: usize>(collector: &Collector<N>, reason: VerdictReason) {
    let chosen = collector.time.settings().output_directory.as_deref();
    let name = find(chosen, &collector.collected.returned_ns, collector.begin)
        .and_then(|folder| full_name(&folder));
    let name = name.as_deref().unwrap_or("unknown");
    baseline_undecided(collector.time.measured_by(), name, reason);
}

/// Adds a benchmark that is not in the files.
fn not_stored(measured_by: MeasuredBy, benchmark: &str, error: String) {
    if let Some(name) = CriterionArguments::of_this_process().chosen_save() {
        findings()
            .not_saved
            .get_or_insert_with(|| format!("the baseline {name} is not saved: {error}"));
    }
    baseline_undecided(measured_by, benchmark, ReasonCode::Failed.with(error));
}

/// Adds a benchmark that should be compared with a baseline, and can't be.
fn baseline_undecided(measured_by: MeasuredBy, benchmark: &str, reason: VerdictReason) {
    if CriterionArguments::of_this_process().baseline().is_some() {
        findings().add_without(
            benchmark,
            ComparedWith::Baseline,
            measured_by,
            Judgement::undecided(reason),
        );
    }
}

/// Reads the baseline `name` of the benchmark. Without a baseline, the benchmark is new if the run
/// may lack baselines. It is undecided if there is a baseline that can't be read: otherwise a
/// broken file would pass, and this run could replace it.
fn read_baseline(folder: &Path, name: String, stem: &str) -> Result<Baseline, Judgement> {
    let file = folder.join(&name).join(format!("{stem}.json"));
    let error = match StoredRun::read(&file) {
        Ok(run) => return Ok(Baseline { name, run }),
        Err(error) => error,
    };
    if !matches!(file.try_exists(), Ok(false)) {
        let error = format!(
            "the baseline {name} can't be read: {error}; save it again with the build that it is of, and this version of tickline-criterion: {}",
            hints::command_that_saves(&name)
        );
        return Err(Judgement::undecided(ReasonCode::NoBaseline.with(error)));
    }
    let reason = ReasonCode::NoBaseline.with(format!(
        "no baseline {name} in {}: {error}; {} saves one",
        folder.display(),
        hints::command_that_saves(&name)
    ));
    if CriterionArguments::of_this_process().allow_missing_baseline() {
        Err(Judgement::new(Conclusion::New, reason))
    } else {
        Err(Judgement::undecided(reason))
    }
}

/// The comparison of this run with a baseline, or what there is to say without it.
fn change(
    then: &Result<Baseline, Judgement>,
    now: &StoredRun,
    more: MoreIterations,
) -> Result<Change, Judgement> {
    match then {
        Ok(then) => {
            if let Some(error) = then.why_other_clock(now) {
                return Err(Judgement::undecided(ReasonCode::OtherClock.with(error)));
            }
            Change::new(&then.name, &then.run, now, more).ok_or_else(|| {
                let error = format!(
                    "a run has fewer than {MIN_PARTS} samples, or rounds of a comparison, as in criterion's quick \
                     mode; measure both runs without --quick"
                );
                Judgement::undecided(ReasonCode::TooFewSamples.with(error))
            })
        }
        Err(judgement) => Err(judgement.clone()),
    }
}

/// Compares with the baseline, and writes the files. Returns whether a line about the baseline has
/// said that pairs are too short.
fn write<const N: usize>(collector: &Collector<N>, folder: &Path, files: Files<'_>) -> bool {
    let messages = collector.time.settings().messages;
    let measured_by = collector.time.measured_by();
    let name = full_name(folder).unwrap_or_default();
    findings().runs.push(RunFolder {
        benchmark: name.clone(),
        folder: folder.to_owned(),
        untrusted: files.run.samples_untrusted,
    });
    let baseline = match files.reference {
        Reference::Baseline => CriterionArguments::of_this_process().baseline(),
        Reference::OtherBuild => None,
    };
    let then = baseline.map(|baseline| read_baseline(folder, baseline, files.stem));
    if let Some(Ok(then)) = &then
        && let Some(line) = then.why_untrusted(&name)
    {
        messages.print(&line);
    }
    let more = collector.more_iterations();
    let change = then.as_ref().map(|then| change(then, &files.run, more));
    let has_named_short_pairs = print_change(messages, change.as_ref(), &files, more);
    let json = Json {
        version: VERSION,
        benchmark: &name,
        run: &files.run,
        details: &files.details,
        baseline: match &change {
            Some(Ok(change)) => Some(change.json()),
            _ => None,
        },
    };
    if let Err(error) = write_json(folder, files.stem, &json, &collector.collected.returned_ns) {
        messages.print(&format_args!("not stored: {error}"));
        // Such a run must not become the baseline, so this takes the place of any other finding.
        not_stored(measured_by, &name, error);
        return has_named_short_pairs;
    }
    match change {
        Some(Ok(change)) => findings().add(
            &name,
            ComparedWith::Baseline,
            measured_by,
            Difference {
                percent: change.parts.percent(),
                is_different: change.parts.are_different(),
                mean: change.means.map(|means| MeanDifference {
                    percent: means.percent(),
                    is_different: means.are_different(),
                    is_in_some_calls: means.percent().low > change.parts.percent().high,
                }),
                why_hidden: change.why_hidden(),
            },
        ),
        Some(Err(judgement)) => {
            findings().add_without(&name, ComparedWith::Baseline, measured_by, judgement);
        }
        None => {}
    }
    let then = then.and_then(Result::ok);
    if !CriterionArguments::of_this_process().forbid_plots()
        && let Err(error) = write_plot(folder, &name, &files, then.as_ref())
    {
        messages.print(&format_args!("not drawn: {error}"));
    }
    has_named_short_pairs
}

/// Prints the comparison with the baseline, or why there is none, and what short pairs do to the
/// baseline that this run becomes. Returns whether a line was about short pairs.
fn print_change(
    messages: Messages,
    change: Option<&Result<Change, Judgement>>,
    files: &Files<'_>,
    more: MoreIterations,
) -> bool {
    match change {
        Some(Ok(change)) => {
            messages.beside_criterion(change);
            if CriterionArguments::of_this_process().leave_change() {
                messages.beside_criterion(&format_args!(
                    "{INDENT}criterion's change: ignores what else changed between the runs; \
                     --quiet hides it"
                ));
            }
            return change.why_hidden().is_some();
        }
        Some(Err(judgement)) => {
            if let Some(reason) = &judgement.reason {
                messages.print(&format_args!("not compared with the baseline: {reason}"));
            }
        }
        None => {}
    }
    let line = match files.reference {
        Reference::Baseline => {
            saved_name().and_then(|name| why_too_short(&name, files.run.pair_cost_share, more))
        }
        Reference::OtherBuild => None,
    };
    if let Some(line) = &line {
        messages.beside_criterion(line);
    }
    line.is_some()
}

/// The name of the baseline that this run becomes: in any case, or if it passes.
fn saved_name() -> Option<String> {
    let arguments = CriterionArguments::of_this_process();
    let updated = || {
        Options::of_this_process()
            .update_on_pass
            .then(|| arguments.baseline())
    };
    arguments.chosen_save().or_else(|| updated().flatten())
}

/// The line about a run that becomes the baseline `name`, and that later runs can't be compared
/// with in percent.
fn why_too_short(name: &str, share: Option<CostShare>, more: MoreIterations) -> Option<String> {
    let reason = share?.why_hidden_by_baseline(more)?;
    Some(format!("{INDENT}baseline {name}: this run is {reason}"))
}

/// Writes the JSON, and a copy in the folder of the baseline that criterion saves.
///
/// # Errors
///
/// If a file can't be written, or if criterion has not saved this run, of these times, as the
/// baseline that the user wants.
fn write_json(
    folder: &Path,
    stem: &str,
    json: &Json<'_>,
    returned_ns: &[f64],
) -> Result<(), String> {
    let json = serde_json::to_string(json).map_err(|error| error.to_string())?;
    replace(&folder.join(format!("new/{stem}.json")), &json)?;
    let arguments = CriterionArguments::of_this_process();
    let Some(saved) = arguments.saved_as().map(|name| folder.join(name)) else {
        return Ok(());
    };
    if arguments.chosen_save().is_some() && !is_run(&saved, returned_ns) {
        return Err(format!(
            "{}: criterion has not stored this run there; a line `Criterion.rs ERROR` above says \
             why; without one, the program must call configure_from_args() last",
            saved.display()
        ));
    }
    // Without `--save-baseline`, the program decides whether criterion saves at all.
    if saved.is_dir() {
        replace(&saved.join(format!("{stem}.json")), &json)?;
    }
    Ok(())
}

/// Writes the plot, and adds it to criterion's report, if there is one.
fn write_plot(
    folder: &Path,
    benchmark: &str,
    files: &Files<'_>,
    then: Option<&Baseline>,
) -> Result<(), String> {
    let report = folder.join("report");
    fs::create_dir_all(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let svg = format!("{}.svg", files.stem);
    let plot = (files.svg)(benchmark, then).map_err(|error| format!("the plot: {error}"))?;
    replace(&report.join(&svg), &plot)?;
    let index = report.join("index.html");
    let text = fs::read_to_string(&index).unwrap_or_default();
    link(&text, files.heading, &svg, files.stem).map_or(Ok(()), |text| replace(&index, &text))
}

/// The report with the plot at its end. `None` if the report already has the plot, or has no end.
fn link(report: &str, heading: &str, svg: &str, stem: &str) -> Option<String> {
    if report.contains(svg) {
        return None;
    }
    let at = report
        .find("<div id=\"footer\">")
        .or_else(|| report.rfind("</body>"))?;
    let (before, after) = report.split_at(at);
    Some(format!(
        "{before}<div class=\"body\">\n        <h3>{heading}</h3>\n        <a href=\"{svg}\"><img src=\"{svg}\" \
         alt=\"{heading}\" style=\"width: 100%; max-width: 960px\"/></a>\n        <p><a \
         href=\"../new/{stem}.json\">{stem}.json</a></p>\n    </div>\n    {after}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::stored_run::tests::{of_parts, of_samples};
    use crate::results::stored_run::{Parts, Rounds};
    use crate::test_folder::Folder;

    /// The baseline that this run has become.
    fn main_of(run: StoredRun) -> Baseline {
        let name = "main".to_owned();
        Baseline { name, run }
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let rounds = Rounds {
            rounds_ns: vec![1.0, -1.0],
            ..Rounds::default()
        };
        for run in [of_samples(&[1.0, 2.5]), of_parts(Parts::Rounds(rounds))] {
            let json = Json {
                version: VERSION,
                benchmark: "a",
                run: &run,
                details: &json!({ "pairs": 2 }),
                baseline: None,
            };
            let json = serde_json::to_value(json).expect("JSON");
            assert_eq!(json["pairs"], 2);
            assert_eq!(serde_json::from_value::<StoredRun>(json).ok(), Some(run));
        }
    }

    /// Symptom: "data did not match any variant of untagged enum Parts", and not what to do.
    #[test]
    fn the_text_of_a_baseline_that_lacks_a_part_names_it_and_says_what_to_do() {
        let folder = Folder::new("lacks-a-part");
        for (stem, json, part) in [
            ("pairs", json!({ "sample_times_ns": [] }), "histogram_ns"),
            (
                "comparison",
                json!({ "rounds_ns": [], "median_a_ns": 1.0, "mean_a_ns": 1.0 }),
                "mean_rounds_ns",
            ),
        ] {
            folder.write(&format!("main/{stem}.json"), &json.to_string());
            let found = read_baseline(&folder.0, "main".to_owned(), stem).err();
            let text = found.and_then(|found| found.reason).expect("why").text;
            let expected = format!(
                "{stem}.json: missing field `{part}`; save it again with the build that it is of, and this version of tickline-criterion: `cargo bench "
            );
            assert!(text.contains(&expected), "{text}");
        }
    }

    /// Symptom: `--save-baseline` stored such samples, and each later run was compared with them.
    #[test]
    fn a_baseline_with_untrusted_samples_is_named() {
        let line_about = |samples_untrusted| {
            let run = StoredRun {
                samples_untrusted,
                ..of_samples(&[])
            };
            main_of(run).why_untrusted("group/a")
        };
        let line = line_about(3).expect("a line");
        let expected = "3 samples of the baseline main of group/a can't be trusted, ";
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(line_about(0), None);
    }

    /// Symptom: a run that fell back to `WallTime` became the baseline of a run by the counter.
    #[test]
    fn a_run_by_another_clock_is_not_compared_with_the_baseline() {
        let by = |measured_by| StoredRun {
            measured_by,
            ..of_samples(&[])
        };
        let [counter, os_clock] = [MeasuredBy::Counter, MeasuredBy::OsClock].map(Some);
        let why = |then, now| main_of(by(then)).why_other_clock(&by(now));
        assert_eq!(why(counter, counter), None);
        assert_eq!(why(os_clock, os_clock), None);
        for (then, expected) in [
            (
                counter,
                "the baseline main is by the counter, and this run by the OS clock, ",
            ),
            (
                None,
                "the baseline main is by an unknown clock, and this run by the OS clock, ",
            ),
            (
                Some(MeasuredBy::Unknown),
                "the baseline main is by an unknown clock, and this run by the OS clock, ",
            ),
        ] {
            let text = why(then, os_clock).expect("not comparable");
            assert!(text.starts_with(expected), "{text}");
        }
    }

    /// Symptom: only the run that was compared with it said so, when it was too late.
    #[test]
    fn a_run_of_short_pairs_is_named_when_it_becomes_the_baseline() {
        let line_about = |share: f64| {
            let share = Some(CostShare(share));
            why_too_short("main", share, MoreIterations::CostShare)
        };
        let line = line_about(0.45).expect("a line");
        let expected =
            "baseline main: this run is too short for a percentage: 45 % of a pair is the cost";
        assert!(line.trim().starts_with(expected), "{line}");
        assert!(line.contains("put cost_share(0.01) before iter"), "{line}");
        assert_eq!(line_about(0.09), None);
    }

    const REPORT: &str = "<html><body><p>x</p>\n    <div id=\"footer\"></div></body></html>";

    #[test]
    fn the_plot_is_before_the_reports_footer() {
        let linked = link(REPORT, "Pairs", "pairs.svg", "pairs").expect("a link");
        let [plot, footer] = ["pairs.svg", "footer"].map(|text| linked.find(text).expect(text));
        assert!(plot < footer, "{linked}");
    }

    #[test]
    fn the_plot_is_in_the_report_once() {
        let linked = link(REPORT, "Pairs", "pairs.svg", "pairs").expect("a link");
        assert_eq!(link(&linked, "Pairs", "pairs.svg", "pairs"), None);
    }

    #[test]
    fn a_report_without_an_end_gets_no_plot() {
        assert_eq!(link("<p>", "Pairs", "pairs.svg", "pairs"), None);
    }
}
