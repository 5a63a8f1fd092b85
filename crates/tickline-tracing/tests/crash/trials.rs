//! From a function to a test of the harness.

use std::sync::{Arc, LazyLock};

use libtest_mimic::Trial;

/// A test that needs nothing.
pub(crate) type Test = fn();

/// A claim about what the tests share.
pub(crate) type Claim<T> = fn(&T);

/// A test for each function.
pub(crate) fn of_functions(group: &str, tests: &[(&str, Test)]) -> Vec<Trial> {
    let trial = |&(name, test): &(&str, Test)| {
        Trial::test(format!("{group}::{name}"), move || {
            test();
            Ok(())
        })
    };
    tests.iter().map(trial).collect()
}

/// A test for each claim about what `make` returns. `make` is called once, by the first test that
/// is not left out. What it returns is dropped with the last test, so that its folder is removed.
pub(crate) fn of_claims<T: Send + Sync + 'static>(
    group: &str,
    claims: &[(&str, Claim<T>)],
    make: impl FnOnce() -> T + Send + 'static,
) -> Vec<Trial> {
    let made = Arc::new(LazyLock::new(make));
    let trial = |&(name, claim): &(&str, Claim<T>)| {
        let made = Arc::clone(&made);
        Trial::test(format!("{group}::{name}"), move || {
            claim(&made);
            Ok(())
        })
    };
    claims.iter().map(trial).collect()
}
