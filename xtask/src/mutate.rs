//! The mutation check: removes one rule at a time, or weakens one ordering, and shows that a test
//! then fails.
//!
//! The check copies the workspace to `target/mutate/tree`. For each mutant of `xtask/mutants.toml`
//! it changes the file in the copy, builds and runs tests, and restores the file. A rule's mutant
//! is *caught* if a unit test of its crate fails, or if the tests do not end, because some rules
//! make sure that no thread waits for another. Tests in which threads race do not count.
//!
//! The check weakens each ordering of the sources, unless the comment on the ordering says that no
//! test sees that. A loom model (core, leases) or a test under Miri (elsewhere) must then fail.
//! Ordinary tests would miss a weaker ordering, because x86 keeps most orderings anyway. A model
//! that does not end has not caught the mutant: a weaker ordering allows more executions, so the
//! model takes longer.
//!
//! A mutant that does not compile proves nothing and is an error. So is a table that does not match
//! the sources.

mod table;
mod tree;

use std::collections::BTreeSet;
use std::slice;
use std::time::{Duration, Instant};

use clap::Args;
use table::{Mutant, Table, Tests};
use tree::{Limit, Tree};

/// The longest time for the tests of a mutant: this many times their time without a mutation, but
/// at least [`MIN_TIMEOUT`]. They take a second, or a few seconds on a busy machine.
const TIMES_AS_LONG: u32 = 20;
const MIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time for the tests without a mutation.
const UNMUTATED_TIMEOUT: Duration = Duration::from_secs(60);

/// The most CPU time for the models of one mutant, s. They take up to half a minute.
const MODELS_CPU_S: u64 = 120;

/// The most seeds under Miri for one weaker ordering. Most need one or two seeds.
const SEEDS: u32 = 32;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only the mutants of a rule's number, of `ordering`, or with this part in their description
    /// or file name
    filter: Option<String>,
}

/// All mutants, or those that match the filter.
fn chosen<'a>(all: &'a [Mutant], filter: Option<&str>) -> Vec<&'a Mutant> {
    let Some(filter) = filter else {
        return all.iter().collect();
    };
    let matches = |one: &&Mutant| {
        one.rule == filter || one.does.contains(filter) || one.file.contains(filter)
    };
    all.iter().filter(matches).collect()
}

/// Runs all mutants, or those that match the filter.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let all = Table::load()?.mutants()?;
    let mut mutants = chosen(&all, arguments.filter.as_deref());
    if mutants.is_empty() {
        return Err(
            "no mutant matches: a filter is a rule, or a part of a description or of a file name"
                .into(),
        );
    }
    let start = Instant::now();
    let tree = Tree::copy()?;
    let mut survivors = 0;
    // Group the mutants that need the same build and the same tests.
    mutants.sort_by_key(|mutant| (mutant.tests(), mutant.package()));
    let is_alike = |one: &&Mutant, other: &&Mutant| {
        one.tests() == other.tests() && one.package() == other.package()
    };
    for group in mutants.chunk_by(is_alike) {
        let (package, tests) = (group[0].package(), group[0].tests());
        survivors += match tests {
            Tests::Unit => try_rules(&tree, package, group)?,
            Tests::Loom | Tests::Miri => try_orderings(&tree, package, tests, group)?,
        };
    }
    println!(
        "{} mutants, {survivors} survived, {:.0} s",
        mutants.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(u8::from(survivors > 0))
}

/// Applies each of a crate's mutants of rules in turn, and runs the unit tests, of which any must
/// fail, or must not end. Returns the number of survivors.
fn try_rules(tree: &Tree, package: &str, mutants: &[&Mutant]) -> Result<usize, String> {
    let limit = Limit::Time(UNMUTATED_TIMEOUT);
    let without = tree.build(package, Tests::Unit)?.run(&[], limit)?;
    if without.hangs {
        let limit_s = UNMUTATED_TIMEOUT.as_secs();
        return Err(format!(
            "the tests of {package} do not end within {limit_s} s without any mutation"
        ));
    }
    if !without.red.is_empty() {
        return Err(format!(
            "the tests are red without any mutation: {}",
            without.red.join(", ")
        ));
    }
    println!(
        "{} tests of {package}, {:.1} s",
        without.green.len(),
        without.took.as_secs_f64()
    );
    let patience = (without.took * TIMES_AS_LONG).max(MIN_TIMEOUT);
    let mut survivors = 0;
    for mutant in mutants {
        let ran = tree.with_mutant(mutant, || {
            tree.build(package, Tests::Unit)?
                .run(&[], Limit::Time(patience))
        })?;
        if !ran.hangs {
            println!("{}", row(mutant, &ran.red));
            survivors += usize::from(ran.red.is_empty());
            continue;
        }
        // The tests that hang, and the tests that have not begun because of them.
        let mut unended = without.green.clone();
        unended.retain(|test| !ran.green.contains(test));
        println!("{} (hangs)", row(mutant, &unended));
        survivors += usize::from(unended.is_empty());
    }
    Ok(survivors)
}

/// Applies each of a crate's weaker orderings in turn, and runs the tests that are named for its
/// file, of which one must fail. A model that does not end has not failed. Returns the number of
/// survivors.
fn try_orderings(
    tree: &Tree,
    package: &str,
    tests: Tests,
    mutants: &[&Mutant],
) -> Result<usize, String> {
    let names: BTreeSet<&String> = mutants.iter().flat_map(|mutant| &mutant.names).collect();
    for name in names {
        if !passes_as_is(tree, package, tests, slice::from_ref(name))? {
            return Err(format!("{name} is red without any mutation"));
        }
    }
    let mut survivors = 0;
    for mutant in mutants {
        let red = tree.with_mutant(mutant, || {
            if tests == Tests::Loom {
                let limit = Limit::CpuTime(MODELS_CPU_S);
                let ran = tree.build(package, tests)?.run(&mutant.names, limit)?;
                Ok(ran.red)
            } else if tree.passes_under_miri(package, &mutant.names, SEEDS)? {
                Ok(Vec::new())
            } else {
                Ok(vec![mutant.names.join(" or ")])
            }
        })?;
        println!("{}", row(mutant, &red));
        survivors += usize::from(red.is_empty());
    }
    Ok(survivors)
}

/// Whether a test for weaker orderings passes without a mutation.
fn passes_as_is(tree: &Tree, package: &str, tests: Tests, name: &[String]) -> Result<bool, String> {
    if tests == Tests::Miri {
        return tree.passes_under_miri(package, name, 1);
    }
    let limit = Limit::CpuTime(MODELS_CPU_S);
    let ran = tree.build(package, tests)?.run(name, limit)?;
    Ok(ran.red.is_empty() && !ran.green.is_empty())
}

/// The line for a mutant: its description, and the tests that fail, first the tests of its rule.
fn row(mutant: &Mutant, red: &[String]) -> String {
    let prefix = format!("rule_{}_", mutant.rule);
    let mut red: Vec<&str> = red
        .iter()
        .map(|test| test.rsplit("::").next().unwrap_or(test))
        .collect();
    red.sort_unstable_by_key(|test| (!test.starts_with(&prefix), *test));
    let tests = match red[..] {
        [] => "SURVIVED".to_owned(),
        [test] => test.to_owned(),
        [test, ..] => format!("{test} and {} more", red.len() - 1),
    };
    format!("{}, {}: {}: {tests}", mutant.rule, mutant.file, mutant.does)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutant of rule 12.
    fn mutant(does: &str, file: &str) -> Mutant {
        Mutant {
            rule: "12".to_owned(),
            does: does.to_owned(),
            file: file.to_owned(),
            mutated: String::new(),
            names: Vec::new(),
        }
    }

    #[test]
    fn a_filter_is_a_whole_rule_or_a_part_of_a_description_or_of_a_file_name() {
        let all = [
            mutant("no order is kept", "crates/a.rs"),
            mutant("no lock is taken", "machine/b.rs"),
        ];
        for (filter, expected) in [
            ("12", 2),
            ("1", 0),
            ("order", 1),
            ("machine/", 1),
            ("no such rule", 0),
        ] {
            assert_eq!(chosen(&all, Some(filter)).len(), expected, "{filter}");
        }
    }

    /// The row of a mutant for which these tests have failed.
    fn row_of(red: &[&str]) -> String {
        let red: Vec<String> = red.iter().map(|test| (*test).to_owned()).collect();
        row(&mutant("no order is kept", "a.rs"), &red)
    }

    #[test]
    fn a_row_names_the_test_of_the_rule_first() {
        let expected = "12, a.rs: no order is kept: rule_12_holds and 1 more";
        assert_eq!(row_of(&["a::another", "b::rule_12_holds"]), expected);
    }

    #[test]
    fn a_row_names_another_test_if_that_of_the_rule_has_passed() {
        let expected = "12, a.rs: no order is kept: rule_1_holds";
        assert_eq!(row_of(&["a::rule_1_holds"]), expected);
    }

    #[test]
    fn a_row_without_a_test_names_a_survivor() {
        assert_eq!(row_of(&[]), "12, a.rs: no order is kept: SURVIVED");
    }
}
