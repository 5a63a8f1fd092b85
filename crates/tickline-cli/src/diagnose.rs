//! Diagnosis: facts and measurements -> findings. The rules are pure functions, which collect and
//! measure nothing. They therefore diagnose recorded machines as well as the present one.
//!
//! A rule reads the facts and returns a finding with its evidence, or `None`. An unknown fact is
//! no evidence: a rule that needs it returns `None`.
//!
//! # A new finding
//!
//! 1. The fact: add a field with its unit in its name to `Machine` (`machine.rs`), and collect
//!    it there. Its comment is the schema's description, and says when the field is null. Rules
//!    read it from the [`Document`].
//! 2. The rule: add a function to `counter_and_process.rs`. A rule about Unix time goes to
//!    `unix_time.rs`. A rule that explains a slow clock is an arm of `slow` in `clocksource.rs`. It
//!    returns `None` if a fact that it needs is unknown. Add the function to `RULES`.
//! 3. The text: `texts.json` has the words by a stable code. They are the severity, one sentence
//!    without a full stop, the evidence, and the command or setting that mends the fault.
//!    `Finding::new` puts figures and names in; `with_evidence` and `fix` add what only the rule
//!    can say. The words that several fixes share are in `fix.rs`. A fix must not recommend the TSC
//!    where the counters are unsynchronised or the TSC is not invariant. `explain.md`, beside
//!    `src/`, says at more length what the code means.
//! 4. The schema: `TICKLINE_WRITE_SCHEMA=1 cargo test -p tickline-cli schema` rewrites it. If a key
//!    changes its meaning or goes away, raise the version (`document.rs`).
//! 5. The test: add a row to `rule_cases.json`, which starts from a machine without faults. The
//!    facts of a real machine go into `tests/facts/`, with their source, and the expected finding
//!    into `tests/it/recorded.json`. A guest goes into `tests/vm/guests.toml`;
//!    `cargo xtask vm NAME --write` puts its finding into `docs/findings.md`.

mod clocksource;
mod counter_and_process;
mod facts;
mod finding;
mod fix;
mod health;
mod log;

mod steps;
#[cfg(test)]
mod tests;
mod texts;
mod unix_time;

use crate::document::Document;

pub(crate) use finding::{Detail, Finding, Severity};
pub(crate) use health::{Health, Level};
pub(crate) use steps::Steps;

/// All rules. Findings of one severity are listed in this order.
const RULES: [fn(&Document) -> Option<Finding>; 17] = [
    counter_and_process::counter_denied,
    counter_and_process::counters_unsynchronised,
    counter_and_process::clock_interposed,
    counter_and_process::counter_trapped,
    clocksource::slow,
    clocksource::paravirtual_dearer,
    counter_and_process::traced,
    counter_and_process::no_thread,
    counter_and_process::not_invariant,
    unix_time::ntp_slewing,
    unix_time::time_off,
    unix_time::ntp_unsynchronised,
    unix_time::utc_error_large,
    counter_and_process::frequency_implausible,
    counter_and_process::firmware_writes_tsc,
    counter_and_process::switched_off,
    counter_and_process::environment_unrecognised,
];

/// The findings, the most severe first.
pub(crate) fn diagnose(facts: &Document) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}
