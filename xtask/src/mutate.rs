//! The mutation check: takes out one rule at a time and shows that a test fails for it.
//!
//! The workspace is copied to `target/mutate/tree`; each mutant of the [`table`] is applied
//! there, its crate's unit tests are built and run, and the file is put back. A mutant is
//! *caught* if a test fails, or if the tests do not end: some rules make sure that nobody waits.
//! Tests in which threads race do not count.
//!
//! Orderings of atomic accesses are weakened as well, and models by loom must fail for it, or tests
//! under Miri outside of core ([`weaken`]): the processor that runs the tests keeps most orderings,
//! whether the code asks for them or not.
//!
//! A mutant that does not compile proves nothing and is an error. So are a table that does not
//! match the sources, and a test of a rule (`rule_N_...`) that fails for no mutant.

mod table;
pub(crate) mod tree;
mod weaken;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use table::orderings::{WEAKENINGS, Weakening};
use table::{Mutant, crate_of};
use tree::{Ran, Tree};

/// How long tests may take, as a multiple of their time without a mutation, and at least. They
/// take a second, or a few on a busy machine.
const PATIENCE: (u32, Duration) = (20, Duration::from_secs(10));

/// Where the table is kept, seen from the workspace's root.
const STORED: &str = "docs/mutants.md";

/// Failed tests that the table names; the others are counted.
const NAMED: usize = 2;

/// Runs the mutants that the arguments ask for; `--write` stores their rows.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let (wanted, store) = match arguments {
        [] => (Wanted::All, false),
        ["--write"] => (Wanted::All, true),
        ["--sample"] => (Wanted::Sample, false),
        [filter] if !filter.starts_with('-') => (Wanted::Matching(filter), false),
        [filter, "--write"] if !filter.starts_with('-') => (Wanted::Matching(filter), true),
        _ => {
            eprintln!("xtask: mutate takes a filter and --write, or --sample, not '{}'", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match check(wanted, store) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(survivors) => {
            eprintln!("xtask: {survivors} mutants survived");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// Which mutants are asked for.
#[derive(Debug, Clone, Copy)]
enum Wanted<'a> {
    All,
    /// Those with this for a rule, or as a part of their description or of their file's name.
    Matching(&'a str),
    /// The first of each [`SAMPLE`] in the table, and no weaker orderings, whose models take
    /// minutes to build.
    Sample,
}

/// One in so many, so that CI has an answer within two minutes.
const SAMPLE: usize = 20;

impl Wanted<'_> {
    fn has(self, index: usize, rule: &str, does: &str, file: &str) -> bool {
        match self {
            Self::All => true,
            Self::Matching(filter) => rule == filter || does.contains(filter) || file.contains(filter),
            Self::Sample => rule != weaken::RULE && index.checked_rem(SAMPLE) == Some(0),
        }
    }
}

/// How many mutants survived; an error if that is unknown.
fn check(wanted: Wanted<'_>, store: bool) -> Result<usize, String> {
    let mutants: Vec<&Mutant> = table::all()
        .enumerate()
        .filter(|(index, mutant)| wanted.has(*index, mutant.rule, mutant.does, mutant.file))
        .map(|(_, mutant)| mutant)
        .collect();
    let (weakenings, by_miri): (Vec<(usize, Weakening)>, Vec<_>) = weaken::all()
        .enumerate()
        .filter(|(index, weakening)| wanted.has(*index, weaken::RULE, weakening.does, weakening.file))
        .partition(|(index, _)| *index < WEAKENINGS.len());
    if mutants.is_empty() && weakenings.is_empty() && by_miri.is_empty() {
        return Err(
            "no mutant matches; a filter is a rule, or a part of a description or of a file name".into()
        );
    }
    let tree = Tree::copy()?;
    let (mut rows, mut survivors) = (String::new(), 0);
    if !mutants.is_empty() {
        survivors += check_rules(&tree, &mutants, &mut rows)?;
    }
    if !weakenings.is_empty() {
        survivors += weaken::check(&tree, &weakenings, &mut rows)?;
    }
    if !by_miri.is_empty() {
        let by_miri: Vec<Weakening> = by_miri.into_iter().map(|(_, weakening)| weakening).collect();
        survivors += weaken::check_by_miri(&tree, &by_miri, &mut rows)?;
    }
    if store && survivors == 0 {
        let stored = tree::stored(STORED)?;
        tree::store(STORED, &format!("{HEAD}{}{}", with_rows(&stored, &rows)?, weaken::untold()))?;
    }
    Ok(survivors)
}

/// How the row of each mutant begins, in the order of the table.
fn row_starts() -> impl Iterator<Item = String> {
    let rules = table::all().map(|mutant| row_start(mutant.rule, mutant.does, mutant.file));
    rules.chain(weaken::all().map(|weakening| weaken::row_start(&weakening)))
}

/// The row of each mutant: a new one, or else the stored one. Rows of mutants that are gone are
/// left out.
fn with_rows(stored: &str, new: &str) -> Result<String, String> {
    row_starts()
        .map(|start| {
            let row = new.lines().chain(stored.lines()).find(|row| row.starts_with(&start));
            row.map(|row| format!("{row}\n"))
                .ok_or_else(|| format!("{STORED} has no row `{start}`: run that mutant, too"))
        })
        .collect()
}

/// Takes out one rule after the other, and runs the unit tests.
fn check_rules(tree: &Tree, mutants: &[&Mutant], rows: &mut String) -> Result<usize, String> {
    for mutant in mutants {
        tree.mutated(mutant)?; // all of them before the first one is run
    }
    let (start, mut survivors, mut never_red) = (Instant::now(), 0, Vec::new());
    for package in table::CRATES {
        let of_crate: Vec<&Mutant> =
            mutants.iter().copied().filter(|mutant| crate_of(mutant.file) == package).collect();
        if !of_crate.is_empty() {
            survivors += check_crate(tree, package, &of_crate, rows, &mut never_red)?;
        }
    }
    println!("{} mutants, {survivors} survived, {:.0} s", mutants.len(), start.elapsed().as_secs_f64());
    if mutants.len() == table::all().count() && !never_red.is_empty() {
        return Err(format!("no mutant turns these red, so they prove nothing: {}", never_red.join(", ")));
    }
    Ok(survivors)
}

/// The same for one crate. Adds the tests of rules that no mutant has turned red to `never_red`.
fn check_crate(
    tree: &Tree,
    package: &str,
    mutants: &[&Mutant],
    rows: &mut String,
    never_red: &mut Vec<String>,
) -> Result<usize, String> {
    let start = Instant::now();
    let tests = tree.build(package)?;
    let without = tests.run(PATIENCE.1)?;
    let patience = (without.took * PATIENCE.0).max(PATIENCE.1);
    if !without.red.is_empty() || without.hangs {
        return Err(format!("the tests are red without any mutation: {}", without.red.join(", ")));
    }
    println!(
        "{} tests of {package}, {:.1} s to build and {:.1} s to run",
        without.green.len(),
        start.elapsed().as_secs_f64() - without.took.as_secs_f64(),
        without.took.as_secs_f64()
    );
    let mut survivors = 0;
    let mut never: Vec<&str> =
        without.green.iter().map(|test| last_part(test)).filter(|test| test.starts_with("rule_")).collect();
    for mutant in mutants {
        let ran = tree.with(mutant, || tree.build(package)?.run(patience))?;
        survivors += usize::from(!ran.is_red());
        let red = red(&ran, &without);
        never.retain(|test| !red.contains(test));
        let row = row(mutant, red, ran.hangs);
        print!("{row}");
        rows.push_str(&row);
    }
    never_red.extend(never.into_iter().map(str::to_owned));
    Ok(survivors)
}

/// The tests that did not pass, by the last part of their names.
fn red<'a>(ran: &'a Ran, without: &'a Ran) -> Vec<&'a str> {
    if ran.hangs {
        // The tests that have not ended, and those that wait behind them.
        without.green.iter().filter(|test| !ran.green.contains(test)).map(|test| last_part(test)).collect()
    } else {
        ran.red.iter().map(|test| last_part(test)).collect()
    }
}

const HEAD: &str = "\
# Mutants

Each row takes one rule out of `tickline-core`, or out of the leases of `tickline-page` (`lease/`),
and names the tests that fail then. `cargo xtask mutate --write` writes this file; the mutants are in
`xtask/src/mutate/table/`. *Rule*: its number in DESIGN.md, \"Order\", or in [lease.md](lease.md), or
what else is taken out. *Ordering*: an atomic access has a weaker one, and a model by loom fails, or
outside of core a test under Miri.

| rule | mutated, the code does this | file | red |
|---|---|---|---|
";

fn row(mutant: &Mutant, mut red: Vec<&str>, hangs: bool) -> String {
    // The tests that were written for the rule, then those for other rules, then all others.
    let own = format!("rule_{}_", mutant.rule);
    red.sort_unstable_by_key(|test| (!test.starts_with(&own), !test.starts_with("rule_"), *test));
    let mut cell = String::new();
    for (index, test) in red.iter().take(NAMED).enumerate() {
        write!(cell, "{}`{test}`", if index == 0 { "" } else { ", " }).ok();
    }
    match red.len() {
        0 => cell.push_str("**none**"),
        all if all > NAMED => {
            write!(cell, " and {} more", all - NAMED).ok();
        }
        _ => {}
    }
    if hangs {
        cell.push_str(" (hangs)");
    }
    format!("{}{cell} |\n", row_start(mutant.rule, mutant.does, mutant.file))
}

fn row_start(rule: &str, does: &str, file: &str) -> String {
    format!("| {rule} | {does} | `{file}` | ")
}

fn last_part(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_occurs_exactly_once() {
        let mut stale = Vec::new();
        for mutant in table::all() {
            let path = tree::workspace().join(table::path_of(crate_of(mutant.file), mutant.file));
            let found = std::fs::read_to_string(path).unwrap().matches(mutant.text).count();
            if found != 1 {
                stale.push(format!("{found} times in {}: \"{}\"", mutant.file, mutant.does));
            }
        }
        assert!(stale.is_empty(), "texts that are out of date:\n{}", stale.join("\n"));
    }

    #[test]
    fn a_sample_has_one_mutant_in_ten_and_no_model() {
        let sample = table::all()
            .enumerate()
            .filter(|(index, mutant)| Wanted::Sample.has(*index, mutant.rule, mutant.does, mutant.file));
        assert_eq!(sample.count(), table::all().count().div_ceil(SAMPLE));
        assert!(!Wanted::Sample.has(0, weaken::RULE, "", ""));
    }

    #[test]
    fn the_stored_table_has_a_row_for_each_mutant() {
        const STALE: &str =
            "run `cargo xtask mutate FILTER --write` for what has changed, or without a filter";
        let stored = std::fs::read_to_string(tree::workspace().join(STORED)).unwrap();
        let rows = stored.strip_prefix(HEAD).expect(STALE).strip_suffix(&weaken::untold()).expect(STALE);
        let starts: Vec<String> = row_starts().collect();
        assert_eq!(rows.lines().count(), starts.len(), "{STALE}");
        for (start, row) in starts.iter().zip(rows.lines()) {
            assert!(row.starts_with(start), "{STALE}: {row}");
        }
    }

    #[test]
    fn a_run_of_some_mutants_changes_their_rows_alone() {
        let row = |start: &str, red: &str| format!("{start}`{red}` |\n");
        let starts: Vec<String> = row_starts().collect();
        let all = |red: &str| starts.iter().map(|start| row(start, red)).collect::<String>();
        let changed = with_rows(&format!("{HEAD}{}", all("old")), &row(&starts[1], "new")).unwrap();
        assert_eq!(changed, all("old").replacen(&row(&starts[1], "old"), &row(&starts[1], "new"), 1));
        assert_eq!(with_rows("", &all("new")), Ok(all("new")));
        let gone = format!("{}{}", all("old"), row("| 99 | a mutant that is gone | `line.rs` | ", "old"));
        assert_eq!(with_rows(&gone, ""), Ok(all("old")));
        let message = with_rows(&row(&starts[0], "old"), "").unwrap_err();
        assert!(message.contains(&starts[1]), "{message}");
    }
}
