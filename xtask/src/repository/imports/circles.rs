//! Step 4: the circles of files and of folders, in words.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Segments;
use super::resolve::Crate;

/// Files, or folders, each with the others that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of more than two files.
pub(super) fn circles_of_files(sources: &Crate) -> Vec<String> {
    let file = |module: &Segments| sources.files[module].clone();
    let files: Imports = sources
        .imports
        .iter()
        .map(|(module, others)| (file(module), others.iter().map(file).collect()))
        .collect();
    let circles = circles(&files);
    let long = circles.iter().filter(|circle| circle.len() > 2);
    long.map(|circle| words("files", circle, &files)).collect()
}

/// The circles of folders. A folder is a module with its submodules; a file beside it may be on the
/// way from one folder to the next.
pub(super) fn circles_of_folders(sources: &Crate) -> Vec<String> {
    let parents: BTreeSet<&[String]> = sources
        .imports
        .keys()
        .filter_map(|module| Some(module.split_last()?.1))
        .collect();
    let siblings = parents
        .into_iter()
        .map(|parent| Siblings::of(parent, sources));
    siblings.flat_map(|siblings| siblings.circles()).collect()
}

/// The folders, and the files without a folder, in one folder.
#[derive(Default)]
struct Siblings<'a> {
    imports: Imports,
    /// The number of files of each.
    sizes: BTreeMap<String, usize>,
    /// The files by which one imports another.
    importers: BTreeMap<(String, String), BTreeSet<&'a str>>,
}

impl<'a> Siblings<'a> {
    /// The children of this module.
    fn of(parent: &[String], sources: &'a Crate) -> Self {
        let child_with = |module: &Segments| {
            let child = module.strip_prefix(parent)?.first()?;
            Some([parent, std::slice::from_ref(child)].concat().join("/"))
        };
        let mut siblings = Self::default();
        for (module, others) in &sources.imports {
            let Some(one) = child_with(module) else {
                continue;
            };
            *siblings.sizes.entry(one.clone()).or_default() += 1;
            let others = others.iter().filter_map(child_with);
            let others: BTreeSet<String> = others.filter(|other| *other != one).collect();
            for other in &others {
                let importers = siblings.importers.entry((one.clone(), other.clone()));
                importers.or_default().insert(&sources.files[module]);
            }
            siblings.imports.entry(one).or_default().extend(others);
        }
        siblings
    }

    /// The circles with two folders.
    fn circles(&self) -> Vec<String> {
        let folders =
            |circle: &[&String]| circle.iter().filter(|one| self.sizes[**one] > 1).count();
        circles(&self.imports)
            .into_iter()
            .filter(|circle| folders(circle) > 1)
            .map(|circle| words("folders", &circle, &self.imports) + &self.places(&circle))
            .collect()
    }

    /// The files in which the members of a circle import each other.
    fn places(&self, circle: &[&String]) -> String {
        let mut text = String::new();
        for ((one, other), files) in &self.importers {
            if circle.contains(&one) && circle.contains(&other) {
                let files: Vec<&str> = files.iter().copied().collect();
                text += &format!("    {one} imports {other} in {}\n", files.join(", "));
            }
        }
        text
    }
}

/// Which keys reach each other: the groups of more than one.
fn circles(imports: &Imports) -> BTreeSet<Vec<&String>> {
    let reached = |from| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(one) = next.pop() {
            for other in imports.get(one).into_iter().flatten() {
                if reached.insert(other) {
                    next.push(other);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|key| (key, reached(key))).collect();
    let circle_of = |one: &String| -> Vec<&String> {
        let is_mutual =
            |other: &&String| reached[one].contains(other) && reached[*other].contains(one);
        imports.keys().filter(is_mutual).collect()
    };
    let circles = imports.keys().map(circle_of);
    circles.filter(|circle| circle.len() > 1).collect()
}

/// The members of a circle, each with those that it imports.
fn words(kind: &str, circle: &[&String], imports: &Imports) -> String {
    let mut text = format!("a circle of {kind}:\n");
    for one in circle {
        let others: Vec<&str> = imports[*one]
            .iter()
            .filter(|other| circle.contains(other))
            .map(String::as_str)
            .collect();
        text += &format!("  {one} imports {}\n", others.join(", "));
    }
    text
}
