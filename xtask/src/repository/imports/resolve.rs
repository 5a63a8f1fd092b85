//! Step 3: the modules to which the paths lead, through re-exports: who imports whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::files::{Files, Segments, files_of};
use super::names::{Known, Names};

/// The most re-exports on the way to a name: more than any crate has. Two may lead to each other.
const MAX_RE_EXPORTS: usize = 8;

/// The modules of a crate that have a file, without those of tests.
pub(super) struct Crate {
    pub(super) files: Files,
    /// For each module, the others that it imports, without its own submodules.
    pub(super) imports: BTreeMap<Segments, BTreeSet<Segments>>,
}

impl Crate {
    /// Reads the sources in this folder.
    pub(super) fn read(folder: &Path) -> Self {
        let mut files = files_of(folder);
        let mut known = BTreeMap::new();
        let mut paths_of = BTreeMap::new();
        let mut tests = Vec::new();
        for (module, file) in &files {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            let names = Names::of(&syntax, module, &files);
            known.extend(names.known);
            tests.extend(names.tests);
            paths_of.insert(module.clone(), names.paths);
        }
        let is_product = |module: &Segments| !tests.iter().any(|test| module.starts_with(test));
        files.retain(|module, _| is_product(module));
        paths_of.retain(|module, _| is_product(module));
        let mut imports = BTreeMap::new();
        for (module, paths) in paths_of {
            let targets = paths
                .iter()
                .filter_map(|path| module_of(path, &files, &known));
            let others = targets.filter(|target| !target.starts_with(&module));
            imports.insert(module.clone(), others.collect());
        }
        Self { files, imports }
    }
}

/// The deepest module with a file on this path, through the re-exports on its way.
fn module_of(
    path: &[String],
    files: &Files,
    known: &BTreeMap<Known, Segments>,
) -> Option<Segments> {
    let mut path = path.to_vec();
    for _ in 0..MAX_RE_EXPORTS {
        let is_module = |depth: &usize| files.contains_key(&path[..*depth]);
        let depth = (0..=path.len()).rev().find(is_module)?;
        let (module, rest) = path.split_at(depth);
        let re_export = Known {
            module: module.to_vec(),
            name: rest.first().cloned().unwrap_or_default(),
        };
        match known.get(&re_export) {
            Some(target) if *target != path => path = [&target[..], &rest[1..]].concat(),
            _ => return Some(module.to_vec()),
        }
    }
    None
}
