//! criterion's own options, as far as this crate needs to know them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;

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

/// These arguments, with which criterion compares with no run, unless they choose what it compares
/// with or what it saves.
pub(super) fn comparing_with_no_run(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if !CriterionArguments::of(&arguments).has(&BASELINES) {
        arguments.insert(0, format!("--baseline-lenient={NO_BASELINE}").into());
    }
    arguments
}

/// Whether criterion stores its measurements. It stores none if it loads stored ones, if an option
/// forbids it, or if it sends them to cargo-criterion.
pub(crate) fn lets_criterion_store() -> bool {
    !CriterionArguments::of_this_process().has(&["--discard-baseline", "--load-baseline"])
        && env::var_os("CARGO_CRITERION_PORT").is_none()
}

/// The options and values of a command line, each by itself: `-n`, `-s` and `main` for criterion's
/// `-nsmain`.
#[derive(Debug)]
pub(crate) struct CriterionArguments(Vec<String>);

impl CriterionArguments {
    /// Those of this process.
    pub(crate) fn of_this_process() -> &'static Self {
        static ARGUMENTS: LazyLock<CriterionArguments> =
            LazyLock::new(|| CriterionArguments::of(env::args_os().skip(1)));
        &ARGUMENTS
    }

    /// Those of these arguments, without the program's name.
    pub(super) fn of(arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        let mut words = Vec::new();
        for argument in arguments {
            words.extend(separated(&argument.as_ref().to_string_lossy()));
        }
        Self(words)
    }

    /// Whether one of these options is there.
    fn has(&self, options: &[&str]) -> bool {
        self.0.iter().any(|word| options.contains(&word.as_str()))
    }

    /// The value of one of these options.
    fn value_of(&self, options: &[&str]) -> Option<String> {
        let mut words = self.0.iter();
        words.find(|word| options.contains(&word.as_str()))?;
        words.next().cloned()
    }

    /// Whether criterion compares with a baseline.
    pub(super) fn compares(&self) -> bool {
        self.value_of(&BASELINE).is_some()
    }

    /// The name of the baseline with which criterion compares this run.
    pub(crate) fn baseline(&self) -> Option<String> {
        self.value_of(&BASELINE).filter(|name| name != NO_BASELINE)
    }

    /// Whether criterion measures benchmarks that the baseline lacks.
    pub(crate) fn allow_missing_baseline(&self) -> bool {
        self.has(&["--baseline-lenient"])
    }

    /// The name of the baseline as which criterion saves this run. `None` if it compares with one.
    pub(crate) fn saved_as(&self) -> Option<String> {
        let name = || self.chosen_save().unwrap_or_else(|| "base".to_owned());
        (!self.has(&BASELINE)).then(name)
    }

    /// The name of the baseline that the user has this run saved as.
    pub(crate) fn chosen_save(&self) -> Option<String> {
        self.value_of(&["--save-baseline", "-s"])
    }

    /// Why this run can't be saved under the name that the user has chosen: criterion copies the
    /// files of the last run, in `new`, to the folder of that name. A copy onto itself empties
    /// them. Where the file system ignores case, `New` is the same folder.
    pub(crate) fn why_not_saved(&self) -> Option<String> {
        let name = self.chosen_save()?;
        let any = Path::new("benchmark");
        (any.join(name.to_ascii_lowercase()) == any.join("new")).then(|| {
            format!(
                "--save-baseline {name}: `new`, in capitals or not, is criterion's own folder of \
                 the last run: choose another name"
            )
        })
    }

    /// Whether the program only lists its benchmarks.
    pub(crate) fn ask_for_list(&self) -> bool {
        self.has(&["--list"])
    }

    /// Whether the program prints criterion's options, and ends.
    pub(crate) fn ask_for_help(&self) -> bool {
        self.has(&["--help", "-h"])
    }

    /// Whether the program only prints its benchmarks or criterion's options.
    pub(crate) fn only_print(&self) -> bool {
        self.has(&PRINTING)
    }

    /// Why criterion measures nothing, and what to do. `None` if it measures, and if the program
    /// only prints.
    pub(super) fn why_nothing_is_measured(&self) -> Option<&'static str> {
        if self.only_print() {
            None
        } else if !self.has(&["--bench"]) {
            Some("without --bench criterion only tests the benchmarks; add --bench")
        } else if self.has(&["--test"]) {
            Some("with --test criterion only tests the benchmarks; leave --test out")
        } else if self.has(&["--profile-time"]) {
            Some("with --profile-time criterion only profiles the benchmarks; leave it out")
        } else if self.has(&["--load-baseline"]) {
            Some("with --load-baseline criterion measures nothing; leave it out")
        } else {
            None
        }
    }

    /// Whether criterion measures in its quick mode, in which one sample of a slow routine is
    /// enough.
    pub(crate) fn are_quick(&self) -> bool {
        let only_tests = self.has(&["--test", "--profile-time"]);
        self.has(&["--quick"]) && self.has(&["--bench"]) && !only_tests
    }

    /// Whether criterion prints its own comparison with a baseline, its `change:` line.
    pub(crate) fn leave_change(&self) -> bool {
        let format = self.value_of(&["--output-format"]);
        format.as_deref() != Some("bencher") && !self.has(&["--quiet"])
    }

    /// Whether criterion draws no plots.
    pub(crate) fn forbid_plots(&self) -> bool {
        self.has(&["--noplot", "-n"])
    }
}

/// The options and values of an argument, each by itself.
fn separated(text: &str) -> Vec<String> {
    let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        let parts = 1 + usize::from(text.starts_with("--"));
        return text.splitn(parts, '=').map(str::to_owned).collect();
    };
    // A value follows these letters.
    let end = letters
        .find(['b', 'c', 's'])
        .map_or(letters.len(), |at| at + 1);
    let (letters, value) = letters.split_at(end);
    let value = Some(value.trim_start_matches('=').to_owned()).filter(|value| !value.is_empty());
    letters
        .chars()
        .map(|letter| format!("-{letter}"))
        .chain(value)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments in this line.
    fn arguments(line: &str) -> CriterionArguments {
        CriterionArguments::of(line.split(' '))
    }

    /// Symptom: `-smain` replaced the stored `base`, and `-bmain` compared with nothing.
    #[test]
    fn an_options_value_follows_it_or_an_equals_sign_or_its_letter() {
        for line in [
            "a --baseline main",
            "a x --baseline=main --bench",
            "-b main",
            "-b=main -n",
            "-vnbmain",
        ] {
            assert_eq!(
                arguments(line).baseline().as_deref(),
                Some("main"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_letter_after_an_option_with_a_value_is_no_option() {
        let found = arguments("a --save-baseline main -sb=main --bench").baseline();
        assert_eq!(found, None);
    }

    #[test]
    fn only_an_argument_with_a_dash_is_separated() {
        assert_eq!(arguments("-vn a=-n").0, ["-v", "-n", "a=-n"]);
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
            let why = arguments(line).why_nothing_is_measured().expect(line);
            assert!(why.ends_with(end), "{line}: {why}");
        }
    }

    #[test]
    fn nothing_is_said_where_criterion_measures_or_only_prints() {
        for line in ["--bench", "--bench work --quick", "--list", "--help", "-vh"] {
            assert_eq!(arguments(line).why_nothing_is_measured(), None, "{line}");
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
            assert_eq!(arguments(line).are_quick(), expected, "{line}");
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
            assert_eq!(arguments(line).leave_change(), expected, "{line}");
        }
    }
}
