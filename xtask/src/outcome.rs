//! The outcome of a check: it has passed, failed or been skipped.

use std::io;

/// The exit code of a command that has skipped some of its checks, and has printed which. All other
/// checks have passed.
pub(crate) const SOME_SKIPPED: u8 = 77;

/// Why a check has not passed.
#[derive(Debug, Clone)]
pub(crate) enum NotPassed {
    /// The check, or a part of it, was skipped, and found no fault. The text says why.
    Skipped(String),
    /// The check failed, with one line for each fault.
    Failed(String),
}

use NotPassed::{Failed, Skipped};

impl From<String> for NotPassed {
    fn from(fault: String) -> Self {
        Failed(fault)
    }
}

impl From<io::Error> for NotPassed {
    fn from(error: io::Error) -> Self {
        Failed(error.to_string())
    }
}

/// The result of a check, in one word.
pub(crate) const fn word<T>(result: &Result<T, NotPassed>) -> &'static str {
    match result {
        Ok(_) => "passed",
        Err(Failed(_)) => "FAILED",
        Err(Skipped(_)) => "SKIPPED",
    }
}

/// The numbers of checks that passed, failed and were skipped.
pub(crate) fn counts<'a, T: 'a>(results: impl Iterator<Item = &'a Result<T, NotPassed>>) -> String {
    let mut passed = 0;
    let mut failed = 0;
    let mut skipped = 0;
    for result in results {
        match result {
            Ok(_) => passed += 1,
            Err(Failed(_)) => failed += 1,
            Err(Skipped(_)) => skipped += 1,
        }
    }
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

/// The exit code of a command that has made these checks.
pub(crate) fn code<'a, T: 'a>(results: impl Iterator<Item = &'a Result<T, NotPassed>>) -> u8 {
    let code = |why: &NotPassed| {
        if matches!(why, Failed(_)) {
            1
        } else {
            SOME_SKIPPED
        }
    };
    results
        .filter_map(|result| result.as_ref().err().map(code))
        .min()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped() -> Result<(), NotPassed> {
        Err(Skipped("no root".to_owned()))
    }

    fn failed() -> Result<(), NotPassed> {
        Err(Failed("red".to_owned()))
    }

    #[test]
    fn a_command_fails_if_one_check_fails_and_skips_if_one_is_skipped() {
        for (results, expected) in [
            (vec![], 0),
            (vec![Ok(())], 0),
            (vec![Ok(()), skipped()], SOME_SKIPPED),
            (vec![skipped(), failed(), Ok(())], 1),
        ] {
            assert_eq!(code(results.iter()), expected);
        }
    }

    #[test]
    fn checks_are_counted_by_their_results() {
        let results = [Ok(()), skipped(), failed(), skipped()];
        assert_eq!(counts(results.iter()), "1 passed, 1 failed, 2 skipped");
    }
}
