//! The diagnosis: rules make findings from facts and measurements. The rules are pure functions
//! that collect and measure nothing, so they diagnose recorded machines as well as this machine.
//!
//! A rule reads the facts, and returns a finding with its evidence, or `None`. An unknown fact is
//! no evidence: a rule that needs it returns `None`.
//!
//! # A new finding
//!
//! 1. The fact: add a field, with the unit in its name, to `Machine` (`machine.rs`), and collect
//!    it there. The field's comment is the schema's description, and says when the field is null.
//!    Rules read the field from the [`Document`].
//! 2. The rule: add a function to `counter_and_process.rs`, or to `unix_time.rs` if the rule is
//!    about Unix time, and add the function to `RULES`. A rule that explains a slow clock is an arm
//!    of `slow` in `clocksource.rs`.
//! 3. The text: add an entry to `texts.json` under a stable code. It has the severity, one sentence
//!    without a full stop, the evidence, and the command or setting that mends the fault.
//!    `Finding::new` inserts figures and names; `with_evidence` and `with_fix` add parts that
//!    depend on the facts. `fix.rs` has the texts that several fixes share. A fix must not
//!    recommend the TSC if the counters are unsynchronised or the TSC is not invariant.
//!    `explain.md`, beside `src/`, explains the code at more length.
//! 4. The schema: `TICKLINE_WRITE_SCHEMA=1 cargo test -p tickline-cli schema` rewrites it. If a key
//!    changes its meaning or is removed, raise the version (`document.rs`).
//! 5. The test: add a row to `tests/data/rule_cases.json`, which starts from a machine without
//!    faults. Put the facts of a real machine into `tests/facts/`, with their source, and the
//!    expected finding into `tests/it/recorded.rs`. Put a guest into `tests/vm/guests.toml`;
//!    `cargo xtask vm NAME --write` puts its finding into `machine/docs/findings.md`.

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
pub(crate) use health::{Health, Level, worst};
pub(crate) use steps::Steps;

/// All rules. Findings of the same severity have this order.
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
