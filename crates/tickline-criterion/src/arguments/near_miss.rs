//! Arguments that are nearly an option.

use std::ffi::OsStr;

use super::OWN;

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

/// The option that the user means by an argument that neither this crate nor criterion has, such as
/// `--agianst`: criterion would refuse it without its name.
pub(super) fn meant_option(argument: &OsStr) -> Option<&'static str> {
    /// Letters that are inserted, removed or replaced: two in the wrong order are two changes.
    const MAX_CHANGES: usize = 2;
    let name = argument.to_str()?.split('=').next()?;
    if !name.starts_with("--") || CRITERION.contains(&name) {
        return None;
    }
    let options = OWN.into_iter().map(|own| own.name).chain(CRITERION);
    let (changes, nearest) = options
        .map(|option| (strsim::levenshtein(name, option), option))
        .min_by_key(|(changes, _)| *changes)?;
    (changes <= MAX_CHANGES).then_some(nearest)
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
}
