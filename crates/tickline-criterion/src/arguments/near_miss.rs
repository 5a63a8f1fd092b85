//! Arguments that are no option, or nearly one.

use std::ffi::{OsStr, OsString};

use super::OwnOption;

/// The long options of criterion 0.8, `configure_from_args`, and clap's own. One that is missing
/// here, and as near to another as a misspelling, would be refused.
const CRITERION: [&str; 32] = [
    "--color",
    "--colour",
    "--verbose",
    "--quiet",
    "--noplot",
    "--save-baseline",
    "--discard-baseline",
    "--baseline",
    "--baseline-lenient",
    "--list",
    "--format",
    "--ignored",
    "--exact",
    "--profile-time",
    "--load-baseline",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--noise-threshold",
    "--confidence-level",
    "--significance-level",
    "--plotting-backend",
    "--output-format",
    "--nocapture",
    "--show-output",
    "--include-ignored",
    "--test",
    "--bench",
    "--quick",
    "--help",
    "--version",
];

/// criterion's options of one letter, and clap's own.
const CRITERION_LETTERS: [char; 7] = ['c', 'v', 'n', 's', 'b', 'h', 'V'];

/// The option that the user means by an argument that neither this crate nor criterion has, such as
/// `--agianst`: criterion would refuse it without its name.
pub(super) fn meant_option(argument: &OsStr) -> Option<&'static str> {
    /// Letters that are inserted, removed or replaced: two in the wrong order are two changes.
    const MAX_CHANGES: usize = 2;
    let name = argument.to_str()?.split('=').next()?;
    if !name.starts_with("--") || CRITERION.contains(&name) {
        return None;
    }
    let options = OwnOption::ALL
        .map(OwnOption::name)
        .into_iter()
        .chain(CRITERION);
    let (changes, nearest) = options
        .map(|option| (strsim::levenshtein(name, option), option))
        .min_by_key(|(changes, _)| *changes)?;
    (changes <= MAX_CHANGES).then_some(nearest)
}

/// The line about the first option that neither this crate nor criterion has: criterion refuses it
/// without its name. It is left to criterion, because a later one may have it.
pub(crate) fn unknown_option(arguments: &[OsString]) -> Option<String> {
    let before_filter = arguments.iter().take_while(|argument| *argument != "--");
    let unknown = before_filter.filter_map(|argument| argument.to_str());
    let unknown = unknown.into_iter().find(|argument| is_unknown(argument))?;
    let own = OwnOption::ALL.map(OwnOption::name);
    Some(format!(
        "criterion 0.8 has no option {unknown}, and this crate neither: it has {}; --help lists all",
        own.join(", ")
    ))
}

fn is_unknown(argument: &str) -> bool {
    if argument.starts_with("--") {
        let name = argument.split('=').next().unwrap_or_default();
        return !CRITERION.contains(&name) && OwnOption::ALL.iter().all(|own| own.name() != name);
    }
    let letter = argument
        .strip_prefix('-')
        .and_then(|letters| letters.chars().next());
    letter.is_some_and(|letter| !CRITERION_LETTERS.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(argument: &str) -> Option<&'static str> {
        meant_option(OsStr::new(argument))
    }

    #[test]
    fn no_option_of_criterion_is_a_misspelling() {
        for option in CRITERION {
            assert_eq!(meant(option), None, "{option}");
        }
    }

    #[test]
    fn an_option_of_criterion_with_a_value_is_no_misspelling() {
        assert_eq!(meant("--save-baseline=main"), None);
    }

    /// Symptom: criterion said "unexpected argument found", and not which.
    #[test]
    fn a_misspelt_option_of_criterion_is_named() {
        assert_eq!(meant("--save-baselne=main"), Some("--save-baseline"));
    }

    #[test]
    fn the_nearest_option_is_meant() {
        assert_eq!(meant("--tst"), Some("--test"));
        assert_eq!(meant("--agianst"), Some("--against"));
    }

    #[test]
    fn two_dashes_are_criterions() {
        assert_eq!(meant("--"), None);
    }

    #[test]
    fn a_word_that_is_like_no_option_is_criterions() {
        assert_eq!(meant("--bogus"), None);
    }

    fn unknown(line: &str) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        unknown_option(&arguments)
    }

    /// Symptom: criterion said "unexpected argument found", and not which.
    #[test]
    fn an_option_that_nothing_has_is_named_with_those_that_there_are() {
        for argument in ["--max-slowdown=3%", "--bogus", "-x"] {
            let line = unknown(&format!("--bench {argument} work")).expect("a line");
            let expected = format!("criterion 0.8 has no option {argument}, ");
            assert!(line.starts_with(&expected), "{line}");
            assert!(line.contains("--max-regression, --max-noise"), "{line}");
        }
    }

    #[test]
    fn an_option_of_criterion_or_of_this_crate_is_known() {
        let known = CRITERION
            .into_iter()
            .chain(OwnOption::ALL.map(OwnOption::name));
        for option in known.chain(["-nbmain", "-vn", "-b=main", "work"]) {
            assert_eq!(unknown(option), None, "{option}");
        }
    }

    #[test]
    fn a_filter_after_two_dashes_is_no_option() {
        assert_eq!(unknown("--bench -- --bogus"), None);
    }
}
