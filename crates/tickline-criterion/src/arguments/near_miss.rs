//! Arguments that are nearly an option of this crate.

use std::ffi::OsStr;

use super::OWN;

/// The option of this crate that the user means by an argument that neither this crate nor criterion
/// has, such as `--agianst`: criterion would refuse it without its name.
pub(super) fn meant_option(argument: &OsStr) -> Option<&'static str> {
    /// Two letters in the wrong order are two changes. No option of criterion is that near.
    const MAX_CHANGES: usize = 2;
    let name = argument.to_str()?.split('=').next()?;
    if !name.starts_with("--") {
        return None;
    }
    let near = |own: &&str| changes(name.as_bytes(), own.as_bytes()) <= MAX_CHANGES;
    OWN.into_iter().map(|(own, _)| own).find(near)
}

/// The number of letters to insert, remove or replace, to get from one text to the other
/// (Levenshtein).
fn changes(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
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
