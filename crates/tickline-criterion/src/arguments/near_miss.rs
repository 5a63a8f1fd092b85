//! Arguments that are nearly an option of this crate.

use std::ffi::OsStr;

use super::OWN;

/// The option of this crate that the user means by an argument that neither this crate nor
/// criterion has, such as `--agianst`: criterion would refuse it without its name.
pub(super) fn meant_option(argument: &OsStr) -> Option<&'static str> {
    /// Letters that are inserted, removed or replaced: two in the wrong order are two changes. No
    /// option of criterion is that near.
    const MAX_CHANGES: usize = 2;
    let name = argument.to_str()?.split('=').next()?;
    if !name.starts_with("--") {
        return None;
    }
    let near = |own: &&str| strsim::levenshtein(name, own) <= MAX_CHANGES;
    OWN.into_iter().map(|(own, _)| own).find(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of criterion 0.8, `configure_from_args`.
    #[test]
    fn no_option_of_criterion_is_nearly_one_of_this_crate() {
        for option in [
            "--color",
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
            "--benchmarks",
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
        ] {
            assert_eq!(meant_option(OsStr::new(option)), None, "{option}");
        }
    }
}
