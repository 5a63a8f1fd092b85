//! Reads the mutants of rules from `xtask/mutants.toml`, and derives the mutants of orderings from
//! the sources.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::command::output_of;
use crate::files;

/// The two lists of `xtask/mutants.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    rule: Vec<Rule>,
    /// For each file: the tests, one of which must fail for each weaker ordering.
    orderings: BTreeMap<String, Vec<String>>,
}

/// The mutant of a rule: a text of a file, and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    rule: String,
    does: String,
    file: String,
    text: String,
    instead: String,
}

/// A file with a mutation.
#[derive(Debug)]
pub(super) struct Mutant {
    /// The rule that the mutant removes, or `ordering`.
    pub(super) rule: String,
    /// A description of the mutated code's behaviour.
    pub(super) does: String,
    /// The file's path from the root.
    pub(super) file: String,
    /// The text of the mutated file.
    pub(super) mutated: String,
    /// For a weaker ordering: the tests, one of which must fail.
    pub(super) names: Vec<String>,
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
    /// The crate that the mutant changes.
    pub(super) fn package(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }

    /// Loom models cover the orderings in core and in leases. Tests under Miri cover the others.
    pub(super) fn tests(&self) -> Tests {
        let is_in_core = self.file.starts_with("crates/tickline-core/");
        let is_in_leases = self.file.starts_with("machine/tickline-page/src/lease/");
        if self.names.is_empty() {
            Tests::Unit
        } else if is_in_core || is_in_leases {
            Tests::Loom
        } else {
            Tests::Miri
        }
    }
}

impl Table {
    pub(super) fn load() -> Result<Self, String> {
        toml::from_str(&files::read("xtask/mutants.toml")?)
            .map_err(|error| format!("mutants.toml: {error}"))
    }

    /// Every mutant, first the mutants of rules. Returns an error if the table does not match the
    /// sources: a rule's text must occur in its file exactly once, and a file with orderings must
    /// have tests.
    pub(super) fn mutants(&self) -> Result<Vec<Mutant>, String> {
        let mut mutants = Vec::new();
        for rule in &self.rule {
            let source = files::read(&rule.file)?;
            let found = source.matches(&rule.text).count();
            if found != 1 {
                return Err(format!(
                    "mutants.toml is out of date: \"{}\" replaces a text that occurs {found} times in {}, not once:\n{}",
                    rule.does, rule.file, rule.text
                ));
            }
            mutants.push(Mutant {
                rule: rule.rule.clone(),
                does: rule.does.clone(),
                file: rule.file.clone(),
                mutated: source.replacen(&rule.text, &rule.instead, 1),
                names: Vec::new(),
            });
        }
        let mut unused = self.orderings.clone();
        for file in sources()? {
            let source = files::read(&file)?;
            let weakened = weakened(&source).map_err(|why| format!("{file}: {why}"))?;
            let names = unused.remove(&file).unwrap_or_default();
            if names.is_empty() != weakened.is_empty() {
                return Err(format!(
                    "mutants.toml is out of date: it names {} tests for {} weaker orderings in {file}",
                    names.len(),
                    weakened.len()
                ));
            }
            mutants.extend(
                weakened
                    .into_iter()
                    .map(|Weakened { does, mutated }| Mutant {
                        rule: "ordering".to_owned(),
                        does,
                        file: file.clone(),
                        mutated,
                        names: names.clone(),
                    }),
            );
        }
        match unused.keys().next() {
            Some(file) => Err(format!(
                "mutants.toml is out of date: there is no source {file}"
            )),
            None => Ok(mutants),
        }
    }
}

/// The paths of all sources of crates, without tests.
fn sources() -> Result<Vec<String>, String> {
    let listing = output_of(
        "git ls-files --cached --others --exclude-standard -- crates/*/src/*.rs machine/*/src/*.rs",
    )?;
    let is_test = |part: &str| part.trim_end_matches(".rs").ends_with("tests");
    let sources = listing.lines().filter(|file| !file.split('/').any(is_test));
    let sources = sources.filter(|file| files::root().join(file).is_file());
    Ok(sources.map(str::to_owned).collect())
}

/// A source in which one ordering is weaker.
struct Weakened {
    /// The change in words.
    does: String,
    mutated: String,
}

/// For each ordering, the source with the next weaker ordering. A `Relaxed` fence does nothing, so
/// the weakened source has no fence.
fn weakened(source: &str) -> Result<Vec<Weakened>, String> {
    let mut weakened = Vec::new();
    let mut line_start = 0;
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    for line in code.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or(line);
        for (in_line, ordering) in code.match_indices("Ordering::") {
            let from = code[in_line + ordering.len()..]
                .split(|letter: char| !letter.is_alphabetic())
                .next();
            let weaker: &[&str] = match from {
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
            let start = line_start + in_line;
            let before = &source[..start];
            let after = &source[start + ordering.len() + from.map_or(0, str::len)..];
            for to in weaker.iter().filter(|to| !is_unseen(before, to)) {
                let mutated = match before.strip_suffix("fence(") {
                    Some(before) if *to == "Relaxed" => {
                        let before = before.strip_suffix("crate::primitive::").unwrap_or(before);
                        format!("{before}({after}")
                    }
                    _ => format!("{before}Ordering::{to}{after}"),
                };
                let does = format!("`{to}` in `{}`", line.trim());
                weakened.push(Weakened { does, mutated });
            }
        }
        line_start += line.len();
    }
    Ok(weakened)
}

/// Whether the comment on an ordering says that no test sees this weaker ordering, or any weaker
/// one. `before` is the source up to the ordering.
fn is_unseen(before: &str, to: &str) -> bool {
    let comment = before.rsplit("// ORDERING:").next().unwrap_or_default();
    let words: Vec<&str> = comment
        .split_whitespace()
        .filter(|word| *word != "//")
        .collect();
    let named = words
        .windows(4)
        .find(|words| words[..3] == ["No", "test", "sees"])
        .map(|words| words[3].trim_end_matches('.'));
    named.is_some_and(|named| {
        named == to || !["Relaxed", "Acquire", "Release", "AcqRel"].contains(&named)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mutant_matches_its_source_and_every_file_with_orderings_has_tests() {
        let mutants = Table::load().unwrap().mutants().unwrap();
        let orderings = mutants
            .iter()
            .filter(|mutant| mutant.tests() != Tests::Unit);
        assert!(orderings.count() > 40);
        for mutant in &mutants {
            let source = files::read(&mutant.file).unwrap();
            assert_ne!(mutant.mutated, source, "{}", mutant.does);
        }
    }

    #[test]
    fn a_mutant_whose_text_is_not_in_its_file_once_is_refused() {
        let mut table = Table::load().unwrap();
        table.rule[0].text = "no such text".into();
        let error = table.mutants().unwrap_err();
        assert!(error.contains("occurs 0 times"), "{error}");
        table.rule[0].text = "    ".into();
        let error = table.mutants().unwrap_err();
        assert!(error.contains("not once"), "{error}");
    }

    #[test]
    fn orderings_without_tests_are_refused() {
        let mut table = Table::load().unwrap();
        table.orderings.pop_first().unwrap();
        let error = table.mutants().unwrap_err();
        assert!(error.contains("names 0 tests for"), "{error}");
    }

    #[test]
    fn tests_of_a_file_that_is_gone_are_refused() {
        let mut table = Table::load().unwrap();
        let gone = "crates/tickline-core/src/gone.rs".to_owned();
        table.orderings.insert(gone, vec!["a_test".to_owned()]);
        let error = table.mutants().unwrap_err();
        assert!(
            error.contains("there is no source crates/tickline-core/src/gone.rs"),
            "{error}"
        );
    }

    #[test]
    fn each_ordering_is_weakened_but_not_those_that_no_test_sees() {
        let weakened = |source: &str| {
            weakened(source)
                .map(|found| found.into_iter().map(|one| one.mutated).collect::<Vec<_>>())
        };
        for (source, expected) in [
            (
                "a.load(Ordering::Acquire)",
                &["a.load(Ordering::Relaxed)"] as &[&str],
            ),
            ("    fence(Ordering::Release);", &["    ();"]),
            ("crate::primitive::fence(Ordering::Acquire);", &["();"]),
            ("fence(Ordering::SeqCst);", &["fence(Ordering::AcqRel);"]),
            (
                "swap(1, Ordering::AcqRel)",
                &["swap(1, Ordering::Acquire)", "swap(1, Ordering::Release)"],
            ),
            (
                "// ORDERING: both. No test\n// sees Release.\nswap(1, Ordering::AcqRel)",
                &["// ORDERING: both. No test\n// sees Release.\nswap(1, Ordering::Acquire)"],
            ),
            (
                "// ORDERING: No test sees a weaker one.\nswap(1, Ordering::AcqRel)",
                &[],
            ),
            (
                "// Ordering::SeqCst\n(Ordering::Relaxed, Ordering::Less)\n#[cfg(test)]\nmod tests {\nOrdering::Release",
                &[],
            ),
            (
                "#[cfg(test)]\nuse one;\nOrdering::Release",
                &["#[cfg(test)]\nuse one;\nOrdering::Relaxed"],
            ),
        ] {
            assert_eq!(weakened(source).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn an_unknown_ordering_is_refused() {
        let error = weakened("a.load(Ordering::Consume)").err();
        assert!(error.is_some_and(|error| error.starts_with("unknown ordering")));
    }

    /// Miri runs no test for a name that no test has, which looks like a test that passes.
    #[test]
    fn every_test_of_orderings_is_there() {
        let table = Table::load().unwrap();
        let sources = output_of("git grep -hw fn -- *.rs").unwrap();
        for name in table.orderings.values().flatten() {
            assert!(sources.contains(&format!("fn {name}(")), "{name}");
        }
    }

    /// A stored result of the mutation check holds when tickline-criterion has changed
    /// (`ci/nightly.rs`).
    #[test]
    fn no_mutant_is_of_tickline_criterion() {
        let mutants = Table::load().unwrap().mutants().unwrap();
        assert!(mutants.len() > 100, "{} mutants were read", mutants.len());
        let of_criterion = |one: &Mutant| one.package() == "tickline-criterion";
        assert!(!mutants.iter().any(of_criterion));
    }

    #[test]
    fn every_rule_that_has_a_test_has_a_mutant() {
        let table = Table::load().unwrap();
        let mutated: BTreeSet<&str> = table
            .rule
            .iter()
            .map(|mutant| mutant.rule.as_str())
            .collect();
        let mut rules = BTreeSet::new();
        let files = output_of("git ls-files -- crates/tickline-core/src machine/tickline-page/src")
            .unwrap();
        for file in files.lines() {
            let source = files::read(file).unwrap();
            let tests = source
                .split("fn rule_")
                .skip(1)
                .filter_map(|rest| rest.split('_').next());
            rules.extend(tests.map(str::to_owned));
        }
        assert!(rules.len() > 20, "{rules:?}");
        let without: Vec<_> = rules
            .iter()
            .filter(|rule| !mutated.contains(rule.as_str()))
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
