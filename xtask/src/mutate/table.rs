//! Reads `xtask/mutants.toml`, which says what each mutant takes out, and where. Checks that the
//! table has every ordering.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::files;

/// The file's three lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    rule: Vec<Mutant>,
    /// Weaker orderings. The file has no `rule` and no `instead` for them.
    ordering: Vec<Mutant>,
    /// Orderings that no test distinguishes from weaker ones, and why.
    undetectable: Vec<Mutant>,
}

/// A text of a file, and its replacement.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) rule: String,
    /// What the mutated code does.
    pub(super) does: String,
    /// The file's path from `crates/`.
    pub(super) file: String,
    pub(super) text: String,
    pub(super) instead: String,
    /// The ordering, and the weaker one.
    pub(super) from: String,
    pub(super) to: String,
    /// For a weakening: the test that must fail.
    pub(super) test: String,
    pub(super) why: String,
}

/// The kind of test that must fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tests {
    /// Any unit test of the crate.
    Unit,
    /// A loom model.
    Loom,
    /// A test under Miri.
    Miri,
}

impl Mutant {
    /// The crate that it changes.
    pub(super) fn package(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }

    /// Loom models cover the orderings in core and in leases. Tests under Miri cover the others.
    pub(super) fn tests(&self) -> Tests {
        match &self.file {
            _ if self.rule != "ordering" => Tests::Unit,
            file if file.starts_with("tickline-core/") || file.starts_with("tickline-page/src/lease/") => {
                Tests::Loom
            }
            _ => Tests::Miri,
        }
    }
}

impl Table {
    pub(super) fn load() -> Result<Self, String> {
        toml::from_str(&files::read("xtask/mutants.toml")?).map_err(|error| format!("mutants.toml: {error}"))
    }

    /// Every mutant, first those of the rules. Returns an error if one does not match its source.
    pub(super) fn mutants(&self) -> Result<Vec<Mutant>, String> {
        let mut mutants = self.rule.clone();
        for it in &self.ordering {
            mutants.push(Mutant {
                rule: "ordering".to_owned(),
                does: format!("{} (`{}` → `{}`)", it.does, it.from, it.to),
                instead: weaker(&it.text, &it.from, &it.to)?,
                ..it.clone()
            });
        }
        for mutant in &mutants {
            let found = files::read(format!("crates/{}", mutant.file))?.matches(&mutant.text).count();
            if found != 1 {
                return Err(format!(
                    "mutants.toml is out of date: \"{}\" replaces a text that occurs {found} times in {}, not once:\n{}",
                    mutant.does, mutant.file, mutant.text
                ));
            }
        }
        for file in self.orderings().map(|it| &it.file).collect::<BTreeSet<_>>() {
            let source = files::read(format!("crates/{file}"))?;
            self.is_covered(&source, file)
                .map_err(|why| format!("mutants.toml is out of date: {file}: {why}"))?;
        }
        Ok(mutants)
    }

    fn orderings(&self) -> impl Iterator<Item = &Mutant> {
        self.ordering.iter().chain(&self.undetectable)
    }

    /// Checks that the table has each ordering of a file that could be weaker, with all its next
    /// weaker ones, and that the file has every ordering of the table.
    fn is_covered(&self, source: &str, file: &str) -> Result<(), String> {
        let of_file = self.orderings().filter(|it| it.file == file);
        let mut missing = of_file
            .map(|it| Ok((place(source, &it.text, &it.from)?, it.to.as_str())))
            .collect::<Result<Vec<_>, String>>()?;
        let mut line_start = 0;
        for line in source.split_inclusive('\n').take_while(|line| !line.contains("#[cfg(test)]")) {
            let code = line.split("//").next().unwrap_or(line);
            for (in_line, ordering) in code.match_indices("Ordering::") {
                let name = &code[in_line + ordering.len()..];
                let weaker: &[&str] = match name.split(|letter: char| !letter.is_alphabetic()).next() {
                    Some("Relaxed" | "Less" | "Equal" | "Greater") => &[],
                    Some("Acquire" | "Release") => &["Relaxed"],
                    Some("AcqRel") => &["Acquire", "Release"],
                    Some("SeqCst") => &["AcqRel"],
                    _ => {
                        return Err(format!(
                            "unknown ordering (not Relaxed, Acquire, Release, AcqRel or SeqCst) in\n{line}"
                        ));
                    }
                };
                if has_reason(&source[..line_start + in_line]) {
                    continue;
                }
                for to in weaker {
                    let known = missing.iter().position(|known| *known == (line_start + in_line, *to));
                    let known = known
                        .ok_or(format!("no mutant to {to}, and no reason for having none, in\n{line}"))?;
                    missing.swap_remove(known);
                }
            }
            line_start += line.len();
        }
        match missing.first() {
            Some((place, _)) => Err(format!(
                "the entry for byte {place} is in the table twice, or names an ordering outside of the code"
            )),
            None => Ok(()),
        }
    }
}

/// Where the ordering of an entry stands in its file.
fn place(source: &str, text: &str, from: &str) -> Result<usize, String> {
    let start = source.find(text).filter(|_| source.matches(text).count() == 1);
    let inside = text.find(&format!("Ordering::{from}"));
    start.zip(inside).map(|(start, inside)| start + inside).ok_or_else(|| format!("not exactly one:\n{text}"))
}

/// The text with a weaker ordering. A `Relaxed` fence does nothing, so it is left out.
fn weaker(text: &str, from: &str, to: &str) -> Result<String, String> {
    let from = format!("Ordering::{from}");
    if text.matches(&from).count() != 1 {
        return Err(format!("mutants.toml: not exactly one {from} in\n{text}"));
    }
    let fence = format!("fence({from})");
    let path = format!("crate::primitive::{fence}");
    Ok(match to {
        "Relaxed" if text.contains(&path) => text.replace(&path, "()"),
        "Relaxed" if text.contains(&fence) => text.replace(&fence, "()"),
        _ => text.replace(&from, &format!("Ordering::{to}")),
    })
}

/// Whether the comment on an ordering says why the ordering has no mutant. `before` is the source
/// up to the ordering.
fn has_reason(before: &str) -> bool {
    let comment = before.rsplit("// ORDERING:").next().unwrap_or_default();
    let words: Vec<&str> = comment.split_whitespace().filter(|word| *word != "//").collect();
    words.join(" ").contains("No test sees")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{read, root};

    /// The files of core and of leases with orderings that can be weaker; all files of the other
    /// crates.
    const MODELLED: [&str; 6] = [
        "tickline-core/src/cell.rs",
        "tickline-core/src/state/modelled.rs",
        "tickline-core/src/state/portable.rs",
        "tickline-core/src/try_lock.rs",
        "tickline-core/src/gate/keeper.rs",
        "tickline-page/src/lease/cell.rs",
    ];

    /// The paths of all sources from `crates/`.
    fn sources() -> Vec<String> {
        let files =
            crate::step::output_of("git ls-files --cached --others --exclude-standard -- crates").unwrap();
        let sources = files.lines().filter(|file| file.ends_with(".rs") && root().join(file).is_file());
        sources.map(|file| file["crates/".len()..].to_owned()).collect()
    }

    #[test]
    fn every_mutant_matches_its_source_once_and_every_ordering_has_one_or_a_reason() {
        let table = Table::load().unwrap();
        table.mutants().unwrap_or_else(|stale| panic!("{stale}"));
        let mut files = MODELLED.map(str::to_owned).to_vec();
        let others = ["tests", "tests.rs", "tickline-core", "lease"];
        files
            .extend(sources().into_iter().filter(|file| !file.split('/').any(|part| others.contains(&part))));
        for file in &files {
            let source = read(format!("crates/{file}")).unwrap();
            table.is_covered(&source, file).unwrap_or_else(|why| panic!("{file}: {why}"));
        }
        for it in &table.ordering {
            assert!(files.contains(&it.file), "{} is not covered", it.file);
            assert!(!it.test.is_empty(), "no test for: {}", it.does);
        }
        assert!(table.is_covered("self.word.load(Ordering::Acquire)\n", "another.rs").is_err());
        let nothing = "// Ordering::SeqCst\n(Ordering::Relaxed)\n#[cfg(test)]\nOrdering::Release";
        assert_eq!(table.is_covered(nothing, "another.rs"), Ok(()));
    }

    #[test]
    fn every_rule_that_has_a_test_has_a_mutant() {
        let table = Table::load().unwrap();
        let mutated: BTreeSet<&str> = table.rule.iter().map(|it| it.rule.as_str()).collect();
        let mut rules = BTreeSet::new();
        let packages = ["tickline-core/src/", "tickline-page/src/"];
        for file in sources().iter().filter(|file| packages.iter().any(|package| file.starts_with(package))) {
            let source = read(format!("crates/{file}")).unwrap();
            let tests = source.split("fn rule_").skip(1).filter_map(|rest| rest.split('_').next());
            rules.extend(tests.map(str::to_owned));
        }
        assert!(rules.len() > 20, "{rules:?}");
        let without: Vec<_> = rules.iter().filter(|rule| !mutated.contains(rule.as_str())).collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
