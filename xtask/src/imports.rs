//! Who imports whom: no circle of imports has more than two files.
//!
//! A file that imports another can't be understood without it, so in a circle of files none can
//! be read first.
//!
//! `use` declarations count, and paths that begin with `crate`, `self` or `super`. A name that a
//! module re-exports counts as the file that defines it. Imports from a module's own submodules
//! do not count, because they are its parts. Nor do tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::mutate::tree;

type Segments = Vec<String>;

/// One crate's files by the path of their module.
#[derive(Default)]
struct Crate {
    files: BTreeMap<Segments, PathBuf>,
    /// What a `use` declaration makes known in a module: the name there, and the path that it
    /// stands for.
    known: BTreeMap<(Segments, String), Segments>,
}

/// Collects what one file names.
struct Names<'a> {
    files: &'a BTreeMap<Segments, PathBuf>,
    module: Segments,
    known: Vec<((Segments, String), Segments)>,
    paths: Vec<Segments>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg")
            && list.tokens.to_string().replace("not (test)", "").contains("test"))
    })
}

impl Names<'_> {
    /// `path` from the crate's root on; none if it begins outside of the crate.
    fn absolute(&self, path: &[String]) -> Option<Segments> {
        let mut module = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                if !self.files.contains_key(&child) {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            module.pop()?;
            rest = &rest[1..];
        }
        module.extend_from_slice(rest);
        Some(module)
    }

    fn declare(&mut self, before: &mut Segments, tree: &syn::UseTree) {
        let (name, alias) = match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.declare(before, &path.tree);
                before.pop();
                return;
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.declare(before, item));
                return;
            }
            syn::UseTree::Glob(_) => (None, None),
            syn::UseTree::Name(name) => (Some(name.ident.to_string()), Some(name.ident.to_string())),
            syn::UseTree::Rename(rename) => (Some(rename.ident.to_string()), Some(rename.rename.to_string())),
        };
        let mut path = before.clone();
        path.extend(name.filter(|name| name != "self"));
        let alias = alias.filter(|alias| alias != "self").or_else(|| path.last().cloned());
        let Some(target) = self.absolute(&path) else { return };
        if let Some(alias) = alias {
            self.known.push(((self.module.clone(), alias), target.clone()));
        }
        self.paths.push(target);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) && item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.declare(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if matches!(segments[0].as_str(), "crate" | "self" | "super") && segments.len() > 1 {
            self.paths.extend(self.absolute(&segments));
        }
        visit::visit_path(self, path);
    }
}

impl Crate {
    fn add(&mut self, folder: &Path, module: &Segments) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_root = module.is_empty() && matches!(stem.as_str(), "lib" | "main");
            let child = [&module[..], std::slice::from_ref(&stem)].concat();
            if path.is_dir() {
                let is_programs = module.is_empty() && stem == "bin";
                if !is_programs && !stem.ends_with("tests") {
                    self.add(&path, &child);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") && !stem.ends_with("tests")
            {
                let module = if stem == "mod" || is_root { module.clone() } else { child };
                // A program beside a library has a root of its own; the library's counts.
                if !(stem == "main" && folder.join("lib.rs").exists()) {
                    self.files.insert(module, path);
                }
            }
        }
    }

    /// The file in which `path` ends, through the re-exports on its way.
    fn file_of(&self, path: &[String]) -> Option<&PathBuf> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let depth = (0..=path.len()).rev().find(|depth| self.files.contains_key(&path[..*depth]))?;
            let (module, rest) = path.split_at(depth);
            let known = rest.first().and_then(|name| self.known.get(&(module.to_vec(), name.clone())));
            match known {
                Some(target) if *target != path => path = [&target[..], &rest[1..]].concat(),
                _ => return self.files.get(module),
            }
        }
        None
    }

    fn imports(folder: &Path) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
        let mut sources = Self::default();
        sources.add(folder, &Vec::new());
        let mut paths = Vec::new();
        for (module, file) in &sources.files {
            let text = fs::read_to_string(file).expect("a source");
            let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut names =
                Names { files: &sources.files, module: module.clone(), known: Vec::new(), paths: Vec::new() };
            names.visit_file(&syntax);
            sources.known.extend(names.known);
            paths.push((file.clone(), names.paths));
        }
        let module_of: BTreeMap<_, _> = sources.files.iter().map(|(module, file)| (file, module)).collect();
        let others = |(file, paths): (PathBuf, Vec<Segments>)| {
            let targets = paths.iter().filter_map(|path| sources.file_of(path).cloned());
            let is_part = |target: &PathBuf| module_of[target].starts_with(module_of[&file]);
            let others = targets.filter(|target| !is_part(target)).collect();
            (file, others)
        };
        paths.into_iter().map(others).collect()
    }
}

/// The files that can be reached from each other.
fn circles(imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> BTreeSet<Vec<PathBuf>> {
    let reached = |from: &PathBuf| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            let fresh =
                imports.get(file).into_iter().flatten().filter(|file| reached.insert((*file).clone()));
            next.extend(fresh.collect::<Vec<_>>());
        }
        reached
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|file| (file, reached(file))).collect();
    let circle = |file: &PathBuf| -> Vec<PathBuf> {
        imports
            .keys()
            .filter(|other| reached[file].contains(*other) && reached[*other].contains(file))
            .cloned()
            .collect()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > 2).collect()
}

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let root = tree::workspace();
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = String::new();
    let mut files = 0;
    for folder in crates.chain([root.join("benches"), root.join("xtask")]).map(|folder| folder.join("src")) {
        let imports = Crate::imports(&folder);
        files += imports.len();
        for circle in circles(&imports) {
            found += "a circle:\n";
            for file in &circle {
                let there = imports[file].iter().filter(|other| circle.contains(other));
                let there: Vec<_> =
                    there.map(|other| other.strip_prefix(&folder).unwrap().display().to_string()).collect();
                found += &format!(
                    "  {} imports {}\n",
                    file.strip_prefix(root).unwrap().display(),
                    there.join(", ")
                );
            }
        }
    }
    assert!(files > 100, "{files} files were read");
    assert!(found.is_empty(), "{found}");
}

#[test]
fn a_circle_is_found_through_a_re_export() {
    let folder = std::env::temp_dir().join(format!("tickline-imports-{}", std::process::id()));
    fs::create_dir_all(folder.join("b")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A; use d::D;");
    write("a.rs", "use crate::b::inner::{self, B}; pub struct A(B, inner::B);");
    write(
        "b/mod.rs",
        "pub mod inner; pub use inner::B; pub struct P; #[cfg(test)] mod more { use crate::d::D; }",
    );
    write("b/inner.rs", "pub struct B(super::P); fn f() -> super::super::c::C { loop {} }");
    write("c.rs", "pub struct C(crate::A);");
    write("d.rs", "use crate::A; pub struct D;");
    let circles = circles(&Crate::imports(&folder));
    fs::remove_dir_all(&folder).unwrap();
    let names = |circle: &Vec<PathBuf>| -> Vec<String> {
        circle.iter().map(|file| file.strip_prefix(&folder).unwrap().display().to_string()).collect()
    };
    assert_eq!(circles.iter().map(names).collect::<Vec<_>>(), [["a.rs", "b/inner.rs", "c.rs"]]);
}
