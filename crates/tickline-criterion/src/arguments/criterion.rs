//! criterion's own options, as far as this crate needs to know them.

use std::env;
use std::ffi::OsString;
use std::path::Path;

/// criterion's options for a comparison with a baseline.
const BASELINE: [&str; 3] = ["--baseline", "--baseline-lenient", "-b"];

/// All of criterion's options about baselines. Some exclude each other.
const BASELINES: [&str; 7] = [
    "--baseline",
    "--baseline-lenient",
    "-b",
    "--save-baseline",
    "-s",
    "--load-baseline",
    "--discard-baseline",
];

/// criterion's options with which a program prints something, and does nothing else.
const PRINTING: [&str; 3] = ["--list", "--help", "-h"];

/// The name of no baseline. criterion then compares with none, and leaves the last run's.
const NO_BASELINE: &str = "tickline-no-baseline";

/// Whether these arguments have criterion compare with a baseline.
pub(super) fn compares(arguments: &[OsString]) -> bool {
    option_value(arguments.iter().cloned(), &BASELINE).is_some()
}

/// These arguments, with which criterion compares with no run, unless they choose what it compares
/// with or what it saves.
pub(super) fn comparing_with_no_run(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_chosen =
        separated(arguments.iter().cloned()).any(|word| BASELINES.contains(&word.as_str()));
    if !is_chosen {
        arguments.insert(0, format!("--baseline-lenient={NO_BASELINE}").into());
    }
    arguments
}

/// The name of the baseline with which criterion compares this run.
pub(crate) fn baseline() -> Option<String> {
    option_value(env::args_os(), &BASELINE).filter(|name| name != NO_BASELINE)
}

/// Whether criterion measures benchmarks that the baseline lacks.
pub(crate) fn allows_missing_baseline() -> bool {
    has(&["--baseline-lenient"])
}

/// The name of the baseline as which criterion saves this run. `None` if it compares with one.
pub(crate) fn saved_as() -> Option<String> {
    (!has(&BASELINE)).then(|| chosen_save().unwrap_or_else(|| "base".to_owned()))
}

/// The name of the baseline that the user has this run saved as.
pub(crate) fn chosen_save() -> Option<String> {
    option_value(env::args_os(), &["--save-baseline", "-s"])
}

/// Why this run can't be saved under the name that the user has chosen: criterion copies the files
/// of the last run, in `new`, to the folder of that name. A copy onto itself empties them. Where the
/// file system ignores case, `New` is the same folder.
pub(crate) fn why_not_saved() -> Option<String> {
    let name = chosen_save()?;
    let any = Path::new("benchmark");
    (any.join(name.to_ascii_lowercase()) == any.join("new")).then(|| {
        format!(
            "--save-baseline {name}: `new`, in capitals or not, is criterion's own folder of the last run: choose \
             another name"
        )
    })
}

/// The options and values, each by itself: `-n`, `-s` and `main` for criterion's `-nsmain`.
fn separated(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = String> {
    arguments.flat_map(|argument| {
        let text = argument.to_string_lossy();
        let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            let parts = 1 + usize::from(text.starts_with("--"));
            return text
                .splitn(parts, '=')
                .map(str::to_owned)
                .collect::<Vec<_>>();
        };
        // A value follows these letters.
        let end = letters
            .find(['b', 'c', 's'])
            .map_or(letters.len(), |at| at + 1);
        let (letters, value) = letters.split_at(end);
        let value =
            Some(value.trim_start_matches('=').to_owned()).filter(|value| !value.is_empty());
        letters
            .chars()
            .map(|letter| format!("-{letter}"))
            .chain(value)
            .collect()
    })
}

/// The value of one of these options.
fn option_value(arguments: impl Iterator<Item = OsString>, options: &[&str]) -> Option<String> {
    let mut arguments = separated(arguments);
    arguments.find(|argument| options.contains(&argument.as_str()))?;
    arguments.next()
}

/// Whether one of these options is among the arguments.
fn has(options: &[&str]) -> bool {
    separated(env::args_os()).any(|argument| options.contains(&argument.as_str()))
}

/// Whether the program only lists its benchmarks.
pub(crate) fn is_list() -> bool {
    has(&["--list"])
}

/// Whether the program prints criterion's options, and ends.
pub(crate) fn is_help() -> bool {
    has(&["--help", "-h"])
}

/// Whether the program only prints its benchmarks or criterion's options.
pub(crate) fn only_prints() -> bool {
    has(&PRINTING)
}

/// Why criterion measures nothing with these arguments, and what to do. `None` if it measures, and
/// if the program only prints.
pub(super) fn why_nothing_is_measured(arguments: &[OsString]) -> Option<&'static str> {
    let words: Vec<_> = separated(arguments.iter().cloned()).collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    if PRINTING.into_iter().any(has) {
        None
    } else if !has("--bench") {
        Some("without --bench criterion only tests the benchmarks; add --bench")
    } else if has("--test") {
        Some("with --test criterion only tests the benchmarks; leave --test out")
    } else if has("--profile-time") {
        Some("with --profile-time criterion only profiles the benchmarks; leave it out")
    } else if has("--load-baseline") {
        Some("with --load-baseline criterion measures nothing; leave it out")
    } else {
        None
    }
}

/// Whether criterion stores its measurements. It stores none if it loads stored ones, if an option
/// forbids it, or if it sends them to cargo-criterion.
pub(crate) fn lets_criterion_store() -> bool {
    !has(&["--discard-baseline", "--load-baseline"])
        && env::var_os("CARGO_CRITERION_PORT").is_none()
}

/// Whether criterion measures in its quick mode, in which one sample of a slow routine is enough.
pub(crate) fn is_quick() -> bool {
    are_quick(env::args_os())
}

fn are_quick(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<_> = separated(arguments).collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    has("--quick") && has("--bench") && !has("--test") && !has("--profile-time")
}

/// Whether criterion prints its own comparison with a baseline, its `change:` line.
pub(crate) fn prints_change() -> bool {
    leave_change(env::args_os())
}

/// Whether these arguments leave criterion its `change:` line.
fn leave_change(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<_> = separated(arguments).collect();
    let is_for_bencher = words
        .windows(2)
        .any(|two| two == ["--output-format", "bencher"]);
    !is_for_bencher && !words.iter().any(|word| word == "--quiet")
}

/// Whether criterion draws no plots.
pub(crate) fn forbids_plots() -> bool {
    has(&["--noplot", "-n"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: `-smain` replaced the stored `base`, and `-bmain` compared with nothing.
    #[test]
    fn an_options_value_follows_it_or_an_equals_sign_or_its_letter() {
        let baseline =
            |line: &str| option_value(line.split(' ').map(OsString::from), &["--baseline", "-b"]);
        for line in [
            "a --baseline main",
            "a x --baseline=main --bench",
            "-b main",
            "-b=main -n",
            "-vnbmain",
        ] {
            assert_eq!(baseline(line).as_deref(), Some("main"), "{line}");
        }
    }

    #[test]
    fn a_letter_after_an_option_with_a_value_is_no_option() {
        let line = "a --save-baseline main -sb=main --bench";
        let found = option_value(line.split(' ').map(OsString::from), &["--baseline", "-b"]);
        assert_eq!(found, None);
    }

    #[test]
    fn only_an_argument_with_a_dash_is_separated() {
        assert!(separated(["-vn".into(), "a=-n".into()].into_iter()).eq(["-v", "-n", "a=-n"]));
    }

    #[test]
    fn an_argument_with_which_nothing_is_measured_is_named() {
        for (line, end) in [
            ("", "; add --bench"),
            ("work --noplot", "; add --bench"),
            ("--bench --test", "; leave --test out"),
            (
                "--bench --profile-time=5",
                "profiles the benchmarks; leave it out",
            ),
            (
                "--bench --load-baseline main",
                "measures nothing; leave it out",
            ),
        ] {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            let why = why_nothing_is_measured(&arguments).expect(line);
            assert!(why.ends_with(end), "{line}: {why}");
        }
    }

    #[test]
    fn nothing_is_said_where_criterion_measures_or_only_prints() {
        for line in ["--bench", "--bench work --quick", "--list", "--help", "-vh"] {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            assert_eq!(why_nothing_is_measured(&arguments), None, "{line}");
        }
    }

    #[test]
    fn criterion_is_quick_only_if_it_measures() {
        for (line, expected) in [
            ("a --bench --quick", true),
            ("a --bench", false),
            ("a --quick", false),
            ("a --bench --quick --test", false),
            ("a --bench --quick --profile-time 5", false),
        ] {
            let arguments = line.split(' ').map(OsString::from);
            assert_eq!(are_quick(arguments), expected, "{line}");
        }
    }

    #[test]
    fn criterion_prints_its_change_unless_an_option_hides_it() {
        for (line, expected) in [
            ("a --bench --baseline main", true),
            ("a --bench --baseline main --quick", true),
            ("a --bench --baseline main --quiet", false),
            ("a --bench --baseline main --output-format=bencher", false),
            ("a --bench --baseline main --output-format criterion", true),
        ] {
            let arguments = line.split(' ').map(OsString::from);
            assert_eq!(leave_change(arguments), expected, "{line}");
        }
    }
}
