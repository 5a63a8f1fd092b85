//! The mutants: what each takes out, and where.
//!
//! A text to be replaced occurs exactly once in its file; a test of the parent module says so, so
//! whoever rewrites such a line finds out within seconds. Mutants that change nothing anybody
//! could observe do not belong here.

mod bounds;
pub(super) mod by_miri;
mod gate;
mod lease;
mod order;
pub(super) mod orderings;
mod per_cpu;

use std::path::{Path, PathBuf};

/// A rule that is taken out.
#[derive(Debug)]
pub(crate) struct Mutant {
    /// The rule's number in DESIGN.md, "Order", or what else is mutated.
    pub(crate) rule: &'static str,
    /// What the mutated code does.
    pub(crate) does: &'static str,
    /// The file, seen from its crate's `src` ([`crate_of`]).
    pub(crate) file: &'static str,
    /// What stands there, exactly once.
    pub(crate) text: &'static str,
    /// What takes its place.
    pub(crate) instead: &'static str,
}

const CORE: &str = "tickline-core";
const PAGE: &str = "tickline-page";

/// The crates whose rules are taken out.
pub(crate) const CRATES: [&str; 2] = [CORE, PAGE];

/// The crate whose unit tests a mutant of `file` is for: that of the leases, or core.
pub(crate) fn crate_of(file: &str) -> &'static str {
    if file.starts_with("lease/") { PAGE } else { CORE }
}

/// A file of one of these crates, seen from the workspace's root.
pub(crate) fn path_of(package: &str, file: &str) -> String {
    format!("crates/{package}/src/{file}")
}

/// Where rules 5 and 13 are kept.
pub(crate) const HIGH_WATER: &str = "shared/high_water.rs";

/// A file of the tables, seen from the workspace's root. Those outside of core begin with their
/// package.
pub(crate) fn path(file: &str) -> PathBuf {
    if file.starts_with("tickline") {
        Path::new("crates").join(file)
    } else {
        path_of(crate_of(file), file).into()
    }
}

const fn mutant(
    rule: &'static str,
    does: &'static str,
    file: &'static str,
    text: &'static str,
    instead: &'static str,
) -> Mutant {
    Mutant { rule, does, file, text, instead }
}

/// Every mutant: first those of the rules of order.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    let order = order::MUTANTS.iter().chain(bounds::MUTANTS).chain(per_cpu::MUTANTS);
    order.chain(gate::MUTANTS).chain(lease::MUTANTS)
}
