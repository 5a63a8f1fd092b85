//! The mutation check: takes out one rule at a time, or weakens one ordering, and shows that a test
//! fails for it.
//!
//! The workspace is copied to `target/mutate/tree`; each mutant of `xtask/mutants.toml` is applied
//! there, tests are built and run, and the file is put back. A rule's mutant is *caught* if a unit
//! test of its crate fails, or if the tests do not end: some rules make sure that nobody waits.
//! Tests in which threads race do not count.
//!
//! For a weaker ordering a model by loom must fail, or elsewhere than in core and in leases a test
//! under Miri: the processor that runs the tests keeps most orderings, whether the code asks for
//! them or not. A model that does not end has not caught it: models grow with the executions that
//! the orderings allow.
//!
//! A mutant that does not compile proves nothing and is an error. So is a table that does not match
//! the sources.

mod table;
mod tree;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use table::{Mutant, Table, Tests};
use tree::Tree;

use crate::files;

/// How long tests may take, as a multiple of their time without a mutation, and at least. They take
/// a second, or a few on a busy machine; a model takes seconds.
const PATIENCE: (u32, Duration) = (20, Duration::from_secs(10));

/// The same for a model, and for tests without a mutation.
const MODEL_PATIENCE: Duration = Duration::from_secs(60);

/// Seeds under Miri that a weakening may take to be caught. Most take one or two.
const SEEDS: u32 = 32;

/// Where the results are kept.
const STORED: &str = "docs/mutants.md";

/// Failed tests that the table names; the others are counted.
const NAMED: usize = 2;

/// CI takes one in this many, so that it has an answer within two minutes, and no weaker orderings,
/// whose models take minutes to build.
const SAMPLE: usize = 12;

/// Runs the mutants that the arguments ask for: all, a sample, or those with this for a rule or as
/// a part of their description or of their file's name. `--write` stores their rows.
pub(crate) fn run(arguments: &[&str]) -> Result<u8, String> {
    let (store, arguments) = match arguments {
        [rest @ .., "--write"] => (true, rest),
        all => (false, all),
    };
    let table = Table::load()?;
    let all = table.mutants()?;
    let mut mutants: Vec<&Mutant> = match arguments {
        [] => all.iter().collect(),
        ["--sample"] => all.iter().filter(|it| it.tests() == Tests::Unit).step_by(SAMPLE).collect(),
        [filter] if !filter.starts_with('-') => all
            .iter()
            .filter(|it| it.rule == *filter || it.does.contains(filter) || it.file.contains(filter))
            .collect(),
        _ => return Err(format!("takes a filter and --write, or --sample, not '{}'", arguments.join(" "))),
    };
    if mutants.is_empty() {
        return Err(
            "no mutant matches: a filter is a rule, or a part of a description or of a file name".into()
        );
    }
    let start = Instant::now();
    let tree = Tree::copy()?;
    let (mut rows, mut survivors) = (String::new(), 0);
    // What is built and run alike.
    mutants.sort_by_key(|it| (it.tests(), it.package()));
    let is_alike =
        |one: &&Mutant, other: &&Mutant| one.tests() == other.tests() && one.package() == other.package();
    for group in mutants.chunk_by(is_alike) {
        let (found, survived) = check(&tree, group[0].package(), group[0].tests(), group)?;
        rows += &found;
        survivors += survived;
    }
    println!("{} mutants, {survivors} survived, {:.0} s", mutants.len(), start.elapsed().as_secs_f64());
    if store && survivors == 0 {
        for (name, block) in blocks(&table, &all, &rows)? {
            files::store_block(STORED, name, &block)?;
        }
    }
    Ok(u8::from(survivors > 0))
}

/// Applies each of a crate's mutants in its turn, and runs the tests. Their rows, and how many
/// survived.
fn check(tree: &Tree, package: &str, tests: Tests, mutants: &[&Mutant]) -> Result<(String, usize), String> {
    let (mut rows, mut survivors, mut patience) = (String::new(), 0, MODEL_PATIENCE);
    let mut green = Vec::new();
    if tests == Tests::Unit {
        let without = tree.build(package, tests)?.run(&[], MODEL_PATIENCE)?;
        if !without.red.is_empty() || without.hangs {
            return Err(format!("the tests are red without any mutation: {}", without.red.join(", ")));
        }
        println!("{} tests of {package}, {:.1} s", without.green.len(), without.took.as_secs_f64());
        patience = (without.took * PATIENCE.0).max(PATIENCE.1);
        green = without.green;
    }
    let mut red_without = Vec::new();
    for mutant in mutants.iter().filter(|_| tests != Tests::Unit) {
        if !red_without.contains(&mutant.test) && !is_green(tree, mutant)? {
            return Err(format!("{} is red without any mutation", mutant.test));
        }
        red_without.push(mutant.test.clone());
    }
    for mutant in mutants {
        let (red, hangs) = tree.with(mutant, || match tests {
            Tests::Miri => {
                let is_caught = !tree.passes_under_miri(package, &mutant.test, SEEDS)?;
                Ok((if is_caught { vec![mutant.test.clone()] } else { Vec::new() }, false))
            }
            Tests::Loom => {
                let ran = tree.build(package, tests)?.run(&[&mutant.test], patience)?;
                Ok((ran.red, ran.hangs))
            }
            Tests::Unit => {
                let ran = tree.build(package, tests)?.run(&[], patience)?;
                // The tests that have not ended, and those that wait behind them.
                let unended = || green.iter().filter(|test| !ran.green.contains(test)).cloned().collect();
                Ok(if ran.hangs { (unended(), true) } else { (ran.red, false) })
            }
        })?;
        let row = row(mutant, &red, hangs);
        print!("{row}");
        rows += &row;
        survivors += usize::from(red.is_empty());
    }
    Ok((rows, survivors))
}

/// Whether the test of a weakening passes without it.
fn is_green(tree: &Tree, mutant: &Mutant) -> Result<bool, String> {
    if mutant.tests() == Tests::Miri {
        return tree.passes_under_miri(mutant.package(), &mutant.test, 1);
    }
    let ran = tree.build(mutant.package(), mutant.tests())?.run(&[&mutant.test], MODEL_PATIENCE)?;
    Ok(ran.red.is_empty() && !ran.green.is_empty())
}

/// The blocks of the stored page: each mutant has a new row, or else the stored one.
fn blocks(table: &Table, mutants: &[Mutant], new: &str) -> Result<[(&'static str, String); 2], String> {
    let starts: Vec<String> = mutants.iter().map(row_start).collect();
    let mut red = "| rule | mutated, the code does this | file | red |\n|---|---|---|---|\n".to_owned();
    red += &files::merged(&starts, new, &files::block(STORED, "mutants")?)?;
    let mut untold =
        "| file | ordering | weaker | why it is not weaker, and why no model sees it |\n|---|---|---|---|\n"
            .to_owned();
    for it in &table.untold {
        writeln!(untold, "| `{}` | `{}` | `{}` | {} |", it.file, it.from, it.to, it.why).ok();
    }
    Ok([("mutants", red), ("untold", untold)])
}

fn row(mutant: &Mutant, red: &[String], hangs: bool) -> String {
    // The tests that were written for the rule, then those for other rules, then all others.
    let own = format!("rule_{}_", mutant.rule);
    let mut red: Vec<&str> = red.iter().map(|test| test.rsplit("::").next().unwrap_or(test)).collect();
    red.sort_unstable_by_key(|test| (!test.starts_with(&own), !test.starts_with("rule_"), *test));
    let named: Vec<String> = red.iter().take(NAMED).map(|test| format!("`{test}`")).collect();
    let mut cell = if named.is_empty() { "**none**".to_owned() } else { named.join(", ") };
    if red.len() > NAMED {
        write!(cell, " and {} more", red.len() - NAMED).ok();
    }
    format!("{}{cell}{} |\n", row_start(mutant), if hangs { " (hangs)" } else { "" })
}

fn row_start(mutant: &Mutant) -> String {
    format!("| {} | {} | `{}` | ", mutant.rule, mutant.does, mutant.file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_table_has_a_row_for_each_mutant_and_names_tests_that_exist() {
        let table = Table::load().unwrap();
        let advice = "run `cargo xtask mutate FILTER --write` for what has changed";
        for (name, block) in blocks(&table, &table.mutants().unwrap(), "").expect(advice) {
            assert!(files::block(STORED, name).unwrap() == block, "{advice}");
        }
        let sources = crate::step::said("git grep -hw fn -- *.rs").unwrap();
        for row in files::block(STORED, "mutants").unwrap().lines() {
            let red = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
            for test in red.split('`').skip(1).step_by(2).filter(|name| name.contains('_')) {
                assert!(sources.contains(&format!("fn {test}(")), "no test {test}: {advice}: {row}");
            }
        }
    }
}
