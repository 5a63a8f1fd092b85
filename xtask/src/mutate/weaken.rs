//! Weaker orderings, and the models that must fail for them.
//!
//! All weakenings are put into the copy of the workspace at once, each behind a switch, and the
//! models are built once. A number in the environment turns a switch on. A build for each
//! weakening would take minutes.
//!
//! A weakening is caught if its model fails. A weakening whose model does not end has not been
//! caught: models grow with the executions that the orderings allow.
//!
//! Outside of core there are few orderings. Each is weakened in its turn, and a test must fail under
//! Miri, which emulates late stores and early loads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::table::by_miri;
use super::table::orderings::{FILES, UNTOLD, WEAKENINGS, Weakening};
use super::table::{CRATES, crate_of};
use super::tree::{Tests, Tree};

/// The word in the place of a rule's number.
pub(super) const RULE: &str = "ordering";

/// How long a model may take. The longest takes seconds without a weakening.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most preemptions in an execution, for all models. Three find every weakening; without a
/// weakening, the checks of `ci.rs` allow more.
const PREEMPTIONS: (&str, &str) = ("LOOM_MAX_PREEMPTIONS", "3");

/// Seeds under Miri that a weakening may take to be caught. Most take one or two.
const SEEDS: u32 = 32;

/// Says which switch is on.
const SWITCH: &str = "TICKLINE_WEAKENED";

/// A crate's only import point for atomics.
const PRIMITIVE: &str = "primitive.rs";

/// The code that is added to it in the copy, with the name of [`SWITCH`].
const SWITCHES: &str = r#"
/// Whether the weakening of this number is to be tried.
fn is_on(number: usize) -> bool {
    static ON: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("{SWITCH}").ok()?.parse().ok()) == Some(number)
}

pub(crate) fn weakened(ordering: Ordering, weaker: &[(usize, Ordering)]) -> Ordering {
    weaker.iter().find(|(number, _)| is_on(*number)).map_or(ordering, |(_, weaker)| *weaker)
}

pub(crate) fn weakened_fence(ordering: Ordering) {
    if ordering != Ordering::Relaxed {
        loom::sync::atomic::fence(ordering);
    }
}
"#;

/// Every entry: first those of core.
pub(super) fn all() -> impl Iterator<Item = Weakening> {
    WEAKENINGS.iter().copied().chain(by_miri::weakenings())
}

/// Where the ordering of an entry stands in the source of its file.
fn place(source: &str, text: &str, from: &str) -> Result<usize, String> {
    let ordering = format!("Ordering::{from}");
    let is_once = |text: &str, in_text: &str| in_text.matches(text).count() == 1;
    if !is_once(text, source) || !is_once(&ordering, text) {
        return Err(format!("not exactly one {ordering} in exactly one:\n{text}"));
    }
    let (start, inside) = (source.find(text), text.find(&ordering));
    Ok(start.unwrap_or_default() + inside.unwrap_or_default())
}

/// Whether the tables have every ordering of a file that could be weaker, each with its next
/// weaker ones, and the file every ordering of the tables.
fn is_covered(source: &str, file: &str) -> Result<(), String> {
    let weakenings = all().map(|entry| (entry.file, entry.text, entry.from, entry.to));
    let untold = UNTOLD.iter().map(|entry| (entry.file, entry.text, entry.from, entry.to));
    let entries = weakenings.chain(untold).filter(|entry| entry.0 == file);
    let mut missing = entries
        .map(|(_, text, from, to)| Ok((place(source, text, from)?, to)))
        .collect::<Result<Vec<_>, String>>()?;
    let mut line_start = 0;
    for line in source.split_inclusive('\n') {
        if line.contains("#[cfg(test)]") {
            break;
        }
        let code = line.split("//").next().unwrap_or(line);
        for (in_line, ordering) in code.match_indices("Ordering::") {
            let name = code.get(in_line + ordering.len()..).unwrap_or_default();
            let weaker: &[&str] = match name.split(|letter: char| !letter.is_alphabetic()).next() {
                Some("Relaxed" | "Less" | "Equal" | "Greater") => &[],
                Some("Acquire" | "Release") => &["Relaxed"],
                Some("AcqRel") => &["Acquire", "Release"],
                Some("SeqCst") => &["AcqRel"],
                _ => return Err(format!("an ordering of no known name in\n{line}")),
            };
            if has_reason(source.get(..line_start + in_line).unwrap_or_default()) {
                continue;
            }
            for weaker in weaker {
                let entry = (line_start + in_line, *weaker);
                let known = missing.iter().position(|known| *known == entry);
                let known = known
                    .ok_or(format!("no mutant to {weaker}, and no reason for having none, in\n{line}"))?;
                missing.swap_remove(known);
            }
        }
        line_start += line.len();
    }
    match missing.first() {
        Some((place, _)) => Err(format!("an entry twice, or in no code, at byte {place}")),
        None => Ok(()),
    }
}

/// Whether the comment on an ordering says why it has no mutant. `before` is the source up to there.
fn has_reason(before: &str) -> bool {
    let comment = before.rsplit("// ORDERING:").next().unwrap_or_default();
    let words: Vec<&str> = comment.split_whitespace().filter(|word| *word != "//").collect();
    words.join(" ").contains("No test sees")
}

/// The source with a weaker ordering.
fn weakened(source: &str, weakening: &Weakening) -> Result<String, String> {
    let Weakening { text, from, to, .. } = weakening;
    let place = place(source, text, from)?;
    let (before, after) = (&source[..place], &source[place + "Ordering::".len() + from.len()..]);
    // A fence that is `Relaxed` is none.
    Ok(match before.strip_suffix("fence(") {
        Some(before) => format!("{before}({after}"),
        None => format!("{before}Ordering::{to}{after}"),
    })
}

/// The source of a file with a switch at each of its weakenings.
fn switched(source: &str, file: &str) -> Result<String, String> {
    let out_of_date = |message| format!("the table of orderings is out of date: {file}: {message}");
    is_covered(source, file).map_err(out_of_date)?;
    let of_file = WEAKENINGS.iter().enumerate().filter(|(_, weakening)| weakening.file == file);
    with_switches(source, of_file).map_err(out_of_date)
}

fn with_switches<'a>(
    source: &str,
    weakenings: impl Iterator<Item = (usize, &'a Weakening)>,
) -> Result<String, String> {
    let mut switches = BTreeMap::<usize, (&str, String)>::new();
    for (number, weakening) in weakenings {
        let place = place(source, weakening.text, weakening.from)?;
        let (_, choice) = switches.entry(place).or_insert_with(|| (weakening.from, String::new()));
        write!(choice, "({number}, Ordering::{}), ", weakening.to).ok();
    }
    let mut switched = source.to_owned();
    for (place, (from, choice)) in switches.into_iter().rev() {
        let end = place + "Ordering::".len() + from.len();
        let chosen = format!("crate::primitive::weakened(Ordering::{from}, &[{choice}])");
        switched.replace_range(place..end, &chosen);
        // A fence without an ordering is not allowed.
        let before = switched.get(..place).unwrap_or_default().strip_suffix("fence(");
        if let Some(start) = before.map(|before| before.strip_suffix("crate::primitive::").unwrap_or(before))
        {
            switched.replace_range(start.len()..place, "crate::primitive::weakened_fence(");
        }
    }
    Ok(switched)
}

/// Puts every weakening of a crate into the copy, behind its switch, and builds the models.
fn build(tree: &Tree, package: &str) -> Result<Tests, String> {
    for file in FILES.into_iter().filter(|file| crate_of(file) == package) {
        tree.change(package, file, |source| switched(source, file))?;
    }
    tree.change(package, PRIMITIVE, |source| {
        Ok(format!("{source}{}", SWITCHES.replace("{SWITCH}", SWITCH)))
    })?;
    tree.build_models(package)
}

/// Weakens one ordering outside of core after the other, and runs its test under Miri. How many
/// weakenings survived.
pub(super) fn check_by_miri(
    tree: &Tree,
    weakenings: &[Weakening],
    rows: &mut String,
) -> Result<usize, String> {
    let start = Instant::now();
    let (mut survivors, mut green) = (0, "");
    for weakening in weakenings {
        let Weakening { file, model: test, .. } = *weakening;
        let package = file.split('/').next().unwrap_or_default();
        if test != green && !tree.passes_under_miri(package, test, 1)? {
            return Err(format!("{test} is red without any mutation"));
        }
        green = test;
        let mut before = String::new();
        tree.change(package, file, |source| {
            source.clone_into(&mut before);
            weakened(source, weakening)
        })?;
        let survives = tree.passes_under_miri(package, test, SEEDS);
        tree.change(package, file, |_| Ok(before))?;
        let survives = survives?;
        survivors += usize::from(survives);
        let red = if survives { "**none**".to_owned() } else { format!("`{test}`") };
        let row = format!("{}{red} |\n", row_start(weakening));
        print!("{row}");
        rows.push_str(&row);
    }
    let took_s = start.elapsed().as_secs_f64();
    println!("{} weaker orderings outside of core, {survivors} survived, {took_s:.0} s", weakenings.len());
    Ok(survivors)
}

/// Turns on one switch after the other, and runs its model. How many weakenings survived.
pub(super) fn check(
    tree: &Tree,
    weakenings: &[(usize, Weakening)],
    rows: &mut String,
) -> Result<usize, String> {
    let mut survivors = 0;
    for package in CRATES {
        let of_crate: Vec<_> =
            weakenings.iter().copied().filter(|(_, weakening)| crate_of(weakening.file) == package).collect();
        if !of_crate.is_empty() {
            survivors += check_crate(tree, package, &of_crate, rows)?;
        }
    }
    Ok(survivors)
}

fn check_crate(
    tree: &Tree,
    package: &str,
    weakenings: &[(usize, Weakening)],
    rows: &mut String,
) -> Result<usize, String> {
    let start = Instant::now();
    let models = build(tree, package)?;
    let built_s = start.elapsed().as_secs_f64();
    let mut names: Vec<&str> = weakenings.iter().map(|(_, weakening)| weakening.model).collect();
    names.sort_unstable();
    names.dedup();
    let without = models.run_some(&names, &[PREEMPTIONS], PATIENCE)?;
    let mut green: Vec<&str> = without.green.iter().map(|test| super::last_part(test)).collect();
    green.sort_unstable();
    if green != names {
        return Err(format!("of the models {names:?} these are green without any mutation: {green:?}"));
    }
    println!(
        "{} models of {package}, {built_s:.1} s to build and {:.1} s to run",
        names.len(),
        without.took.as_secs_f64()
    );
    let mut survivors = 0;
    for (number, weakening) in weakenings {
        let number = number.to_string();
        let ran = models.run_some(&[weakening.model], &[PREEMPTIONS, (SWITCH, &number)], PATIENCE)?;
        let red = match (ran.red.is_empty(), ran.hangs) {
            (false, _) => format!("`{}`", weakening.model),
            (true, false) => "**none**".to_owned(),
            (true, true) => "**none** (hangs)".to_owned(),
        };
        survivors += usize::from(ran.red.is_empty());
        let row = format!("{}{red} |\n", row_start(weakening));
        print!("{row}");
        rows.push_str(&row);
    }
    let took_s = start.elapsed().as_secs_f64();
    println!("{} weaker orderings, {survivors} survived, {took_s:.0} s", weakenings.len());
    Ok(survivors)
}

/// The row's beginning, as of any mutant.
pub(super) fn row_start(weakening: &Weakening) -> String {
    let Weakening { does, file, from, to, .. } = weakening;
    super::row_start(RULE, &format!("{does} (`{from}` → `{to}`)"), file)
}

/// A table of the orderings for which no model fails.
pub(super) fn untold() -> String {
    let mut table = String::from(UNTOLD_HEAD);
    for untold in UNTOLD {
        writeln!(table, "| `{}` | `{}` | `{}` | {} |", untold.file, untold.from, untold.to, untold.why).ok();
    }
    table
}

const UNTOLD_HEAD: &str = "
## Orderings without a mutant

No model by loom tells these from weaker ones. Every other ordering in their files is in the table
above, or `Relaxed`. Outside of core the reason stands at the ordering: \"No test sees ...\".

| file | ordering | weaker | why it is not weaker, and why no model sees it |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{table, tree};
    use super::*;

    fn source(file: &str) -> String {
        std::fs::read_to_string(tree::workspace().join(table::path(file))).unwrap()
    }

    /// The sources of all libraries and programs without core's and those of leases, which have models,
    /// and without tests.
    fn files_outside_of_core(folder: &Path, files: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if path.is_dir() && name != "tests" && name != "tickline-core" && name != "lease" {
                files_outside_of_core(&path, files);
            } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
                let file = path.strip_prefix(tree::workspace().join("crates")).unwrap();
                files.push(file.to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_ordering_has_a_mutant_or_a_reason() {
        for file in FILES {
            is_covered(&source(file), file).unwrap_or_else(|why| panic!("{file}: {why}"));
        }
        let mut files = Vec::new();
        files_outside_of_core(&tree::workspace().join("crates"), &mut files);
        for file in &files {
            is_covered(&source(file), file).unwrap_or_else(|why| panic!("{file}: {why}"));
        }
        for entry in by_miri::weakenings() {
            assert!(files.iter().any(|file| file == entry.file), "{} is not there", entry.file);
        }
        assert!(is_covered("self.word.load(Ordering::Acquire)\n", "another.rs").is_err());
        let nothing = "// Ordering::SeqCst\n(Ordering::Relaxed)\n#[cfg(test)]\nOrdering::Release";
        assert_eq!(is_covered(nothing, "another.rs"), Ok(()));
        for file in WEAKENINGS.iter().map(|entry| entry.file).chain(UNTOLD.iter().map(|entry| entry.file)) {
            assert!(FILES.contains(&file), "{file} is not covered");
        }
    }

    #[test]
    fn a_weaker_ordering_stands_where_the_ordering_stood() {
        let source = "load(Ordering::Acquire); fence(Ordering::Acquire);";
        let weakened = |text| {
            weakened(
                source,
                &Weakening { does: "", file: "", text, from: "Acquire", to: "Relaxed", model: "" },
            )
        };
        assert_eq!(
            weakened("load(Ordering::Acquire").unwrap(),
            "load(Ordering::Relaxed); fence(Ordering::Acquire);"
        );
        assert_eq!(weakened("fence(Ordering::Acquire)").unwrap(), "load(Ordering::Acquire); ();");
        assert!(has_reason("// ORDERING: Acquire. No test sees a weaker one: why.\n    load("));
        assert!(!has_reason("// ORDERING: No test sees.\n load(a)\n // ORDERING: Acquire.\n load("));
    }

    #[test]
    fn a_switch_stands_where_the_ordering_stood() {
        let source = "swap(a, Ordering::AcqRel, Ordering::Acquire); fence(Ordering::Acquire);";
        let weakening = |text, from, to| Weakening { does: "", file: "", text, from, to, model: "" };
        let weakenings = [
            weakening("(a, Ordering::AcqRel", "AcqRel", "Acquire"),
            weakening("fence(Ordering::Acquire)", "Acquire", "Relaxed"),
            weakening("(a, Ordering::AcqRel, Ordering::Acquire", "AcqRel", "Release"),
        ];
        assert_eq!(
            with_switches(source, weakenings.iter().enumerate()).unwrap(),
            "swap(a, crate::primitive::weakened(Ordering::AcqRel, &[(0, Ordering::Acquire), (2, Ordering::Release), ]), \
             Ordering::Acquire); crate::primitive::weakened_fence(crate::primitive::weakened(Ordering::Acquire, \
             &[(1, Ordering::Relaxed), ]));"
        );
        let twice = weakening("Ordering::Acquire", "Acquire", "Relaxed");
        assert!(with_switches(source, [(0, &twice)].into_iter()).is_err());
    }
}
