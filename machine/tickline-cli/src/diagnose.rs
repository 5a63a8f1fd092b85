//! The diagnosis: rules make findings from facts and measurements. The rules are pure functions
//! that collect and measure nothing, so they diagnose recorded machines as well as this machine.
//!
//! A rule reads the facts, and returns a finding with its evidence, or `None`. An unknown fact is
//! no evidence: a rule that needs it returns `None`.
//!
//! # A new finding
//!
//! A finding over facts that the [`Document`] has is a change of four files:
//!
//! 1. The rule, with everything that the finding says: a function in `counter_and_process.rs`, or
//!    in `unix_time.rs` if the rule is about Unix time. A rule that explains a slow clock is an arm
//!    of a function in `clocksource.rs` or `tsc.rs`. The condition leads to the [`Finding`], and
//!    beside it stand the severity (`wrong`, `slow`, `unsure`, `note`), the code, one sentence
//!    without a full stop, the evidence (`seen`), and the command or setting that mends the fault
//!    (`fix`). `shared_fixes.rs` and `hosts.rs` have fixes that several rules share. A fix must not recommend
//!    the TSC if the counters are unsynchronised or the TSC is not invariant. A new function also
//!    goes into the list of rules at the head of its file. A new code is a variant of `Code` at the
//!    end of the file, with its stable name and what it means, at more length. The compiler names
//!    what is missing.
//! 2. The tests, in `tests/`: a good machine with the fault, and one without it. A new code needs a
//!    machine in the test `each_code_about_...`, or that test does not compile.
//! 3. `explain.md`, beside `src/`, which
//!    `TICKLINE_WRITE_EXPLAIN=1 cargo test -p tickline-cli explain` writes from the explanations.
//! 4. `CHANGELOG.md`.
//!
//! The README, the schema and the other commands show findings without knowing their codes.
//!
//! A new fact is a field, with the unit in its name, in `Machine` (`machine.rs`), which collects
//! it. The field's comment is the schema's description, and says when the field is null.
//! `TICKLINE_WRITE_SCHEMA=1 cargo test -p tickline-cli schema` rewrites the schema. If a key
//! changes its meaning or is removed, raise the version (`document.rs`). Questions that several
//! rules ask go into `document/facts.rs`. `facts.sh` collects the fact without the program.
//!
//! The facts of a real machine go into `tests/facts/`, with their source, and the expected finding
//! into `tests/it/recorded.rs`. A guest goes into `tests/vm/guests.toml`; `cargo xtask vm NAME
//! --write` puts its finding into `machine/docs/findings.md`.

mod clocksource;
mod counter_and_process;
mod hosts;
mod judge_health;
mod shared_fixes;
mod steps;
#[cfg(test)]
mod tests;
mod tsc;
mod unix_time;

use clap::ValueEnum;

use crate::document::{Document, Explained, Explanation, Finding, Health};

/// A rule: makes a finding from facts, or none.
type Rule = fn(&Document) -> Option<Finding>;

/// All rules, from the lists in their files. Findings of the same severity have this order.
fn rules() -> impl Iterator<Item = Rule> {
    counter_and_process::BEFORE_CLOCKSOURCE
        .into_iter()
        .chain(clocksource::RULES)
        .chain(counter_and_process::BEFORE_UNIX_TIME)
        .chain(unix_time::RULES)
        .chain(counter_and_process::LAST)
}

/// What each code means, by code.
pub(crate) fn explanations() -> Vec<Explanation> {
    let mut explanations = Vec::new();
    explanations.extend(explanations_of::<counter_and_process::Code>());
    explanations.extend(explanations_of::<clocksource::Code>());
    explanations.extend(explanations_of::<tsc::Code>());
    explanations.extend(explanations_of::<unix_time::Code>());
    explanations.sort_by_key(|explanation| explanation.code);
    explanations
}

/// What the codes of one file of rules mean. `ValueEnum` lists all variants.
fn explanations_of<C: Explained + ValueEnum + 'static>() -> impl Iterator<Item = Explanation> {
    C::value_variants().iter().map(Explained::explanation)
}

/// The findings, the most severe first.
pub(crate) fn diagnose(facts: &Document) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules().filter_map(|rule| rule(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

impl Document {
    /// Adds the findings, and the health that they show. The caller must add all measurements
    /// before, because the rules read them.
    pub(crate) fn diagnose(&mut self) {
        let findings = diagnose(self);
        self.health = Some(Health::new(self, &findings));
        self.findings = Some(findings);
    }
}
