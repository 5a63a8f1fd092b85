//! Who imports whom: in each crate, no circle of imports has more than two files, and no circle
//! has two folders.
//!
//! A file that imports another can't be understood without it. So in a circle of files, none can be
//! read first. The same holds for folders: a module with its submodules.
//!
//! `use` declarations count, and paths that begin with `crate`, `self` or `super`. A name that a
//! module re-exports counts as the file that defines it. Imports from a module's own submodules do
//! not count, because they are its parts. Nor do tests count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::buffer::{Cursor, TokenBuffer};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token};

use crate::files::{entries, root};

/// The names of a path, from the crate's root on.
type Segments = Vec<String>;

/// The files of a crate, relative to the folder of its sources, each with the files that it
/// imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

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

/// Whether a condition of `cfg` holds only in tests.
fn is_only_in_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let conditions = list
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .unwrap_or_default();
    if list.path.is_ident("all") {
        conditions.iter().any(is_only_in_tests)
    } else {
        list.path.is_ident("any") && conditions.iter().all(is_only_in_tests)
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = || attribute.parse_args::<Meta>();
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && condition().is_ok_and(|condition| is_only_in_tests(&condition)))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What a `use` declaration makes known in a module: the module and the name there, and the path
/// that the name stands for.
type Known = ((Segments, String), Segments);

/// Collects what one file names.
struct Names<'a> {
    modules: &'a BTreeMap<Segments, String>,
    module: Segments,
    known: Vec<Known>,
    paths: Vec<Segments>,
    /// The modules in files of their own that are compiled only for tests.
    tests: Vec<Segments>,
}

impl Names<'_> {
    /// `path` from the crate's root on; `None` if it begins outside of the crate.
    fn absolute(&self, path: &[String]) -> Option<Segments> {
        let mut module = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                if !self.modules.contains_key(&child) {
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

    /// Adds a name that a `use` declaration imports from `path`.
    fn import(&mut self, mut path: Segments, name: &str, alias: &str) {
        if name != "self" {
            path.push(name.to_owned());
        }
        let alias = match (alias, path.last()) {
            ("self", Some(last)) => last.clone(),
            _ => alias.to_owned(),
        };
        if let Some(target) = self.absolute(&path) {
            self.known
                .push(((self.module.clone(), alias), target.clone()));
            self.paths.push(target);
        }
    }

    fn declare(&mut self, before: &mut Segments, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.declare(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for item in &group.items {
                    self.declare(before, item);
                }
            }
            syn::UseTree::Glob(_) => self.paths.extend(self.absolute(before)),
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import(before.clone(), &name, &name);
            }
            syn::UseTree::Rename(rename) => self.import(
                before.clone(),
                &rename.ident.to_string(),
                &rename.rename.to_string(),
            ),
        }
    }
}

/// Adds the names and the punctuation of a macro's arguments, without literals: a comment's text is
/// one.
fn add_words(mut tokens: Cursor<'_>, words: &mut Vec<String>) {
    while let Some((_, after)) = tokens.token_tree() {
        if let Some((inside, ..)) = tokens.any_group() {
            add_words(inside, words);
        } else if let Some((name, _)) = tokens.ident() {
            words.push(name.to_string());
        } else if let Some((punctuation, _)) = tokens.punct() {
            words.push(punctuation.as_char().to_string());
        }
        tokens = after;
    }
}

/// Whether a path with this first name may be one of the crate.
fn is_ours(first: &str) -> bool {
    ["crate", "self", "super"].contains(&first)
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        } else if let Item::Mod(module) = item {
            self.tests
                .push([&self.module[..], &[module.ident.to_string()]].concat());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.declare(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Segments = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if is_ours(&segments[0]) && segments.len() > 1 {
            self.paths.extend(self.absolute(&segments));
        }
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are only tokens: `crate`, `:`, `:`, `name`.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let mut words = Vec::new();
        add_words(TokenBuffer::new2(item.tokens.clone()).begin(), &mut words);
        for (at, first) in words.iter().enumerate().filter(|(_, word)| is_ours(word)) {
            let mut segments = vec![first.clone()];
            for rest in words[at + 1..]
                .chunks_exact(3)
                .take_while(|rest| rest[0] == ":" && rest[1] == ":")
            {
                segments.push(rest[2].clone());
            }
            if segments.len() > 1 {
                self.paths.extend(self.absolute(&segments));
            }
        }
    }
}

/// The files of one crate.
#[derive(Default)]
struct Crate {
    /// For each module with a file of its own: the file.
    modules: BTreeMap<Segments, String>,
    known: BTreeMap<(Segments, String), Segments>,
}

impl Crate {
    fn add(&mut self, sources: &Path, folder: &Path, module: &Segments) {
        for path in entries(folder) {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let child = [&module[..], std::slice::from_ref(&stem)].concat();
            let is_root = module.is_empty() && ["lib", "main"].contains(&stem.as_str());
            if path.is_dir() {
                // Each file in `bin` is a crate of its own.
                if !(module.is_empty() && stem == "bin") {
                    self.add(sources, &path, &child);
                }
            } else if path.extension().is_some_and(|end| end == "rs") {
                let module = if stem == "mod" || is_root {
                    module.clone()
                } else {
                    child
                };
                // A program beside a library has a root of its own; the library's counts.
                if !(is_root && stem == "main" && folder.join("lib.rs").exists()) {
                    let file = path.strip_prefix(sources).unwrap_or(&path);
                    self.modules.insert(module, file.display().to_string());
                }
            }
        }
    }

    /// The deepest module with a file on this path, through the re-exports on its way.
    fn module_of(&self, path: &[String]) -> Option<Segments> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let is_module = |depth: &usize| self.modules.contains_key(&path[..*depth]);
            let depth = (0..=path.len()).rev().find(is_module)?;
            let (module, rest) = path.split_at(depth);
            let name = rest.first().cloned().unwrap_or_default();
            match self.known.get(&(module.to_vec(), name)) {
                Some(target) if *target != path => path = [&target[..], &rest[1..]].concat(),
                _ => return Some(module.to_vec()),
            }
        }
        None
    }

    /// For each module of the sources in this folder, the modules that it imports.
    fn read(folder: &Path) -> (Self, BTreeMap<Segments, BTreeSet<Segments>>) {
        let mut sources = Self::default();
        sources.add(folder, folder, &Vec::new());
        let mut named = BTreeMap::new();
        let mut tests = Vec::new();
        for (module, file) in &sources.modules {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            let mut names = Names {
                modules: &sources.modules,
                module: module.clone(),
                known: Vec::new(),
                paths: Vec::new(),
                tests: Vec::new(),
            };
            names.visit_file(&syntax);
            sources.known.extend(names.known);
            tests.extend(names.tests);
            named.insert(module.clone(), names.paths);
        }
        let is_product = |module: &Segments| !tests.iter().any(|test| module.starts_with(test));
        sources.modules.retain(|module, _| is_product(module));
        named.retain(|module, _| is_product(module));
        let mut imports = BTreeMap::new();
        for (module, paths) in named {
            let targets = paths.iter().filter_map(|path| sources.module_of(path));
            let others = targets.filter(|target| !target.starts_with(&module));
            imports.insert(module.clone(), others.collect());
        }
        (sources, imports)
    }
}

/// The circles of more than two files, in words.
fn circles_of_files(
    sources: &Crate,
    imports: &BTreeMap<Segments, BTreeSet<Segments>>,
) -> Vec<String> {
    let file = |module: &Segments| sources.modules[module].clone();
    let files: Imports = imports
        .iter()
        .map(|(module, others)| (file(module), others.iter().map(file).collect()))
        .collect();
    let circles = circles(&files);
    let long = circles.iter().filter(|circle| circle.len() > 2);
    long.map(|circle| words("files", circle, &files)).collect()
}

/// The circles of folders, in words. A folder is a module with its submodules; a file beside it may
/// be on the way from one folder to the next.
fn circles_of_folders(
    sources: &Crate,
    imports: &BTreeMap<Segments, BTreeSet<Segments>>,
) -> Vec<String> {
    let mut found = Vec::new();
    let parents: BTreeSet<&[String]> = imports
        .keys()
        .filter_map(|module| Some(module.split_last()?.1))
        .collect();
    for parent in parents {
        let part_of = |module: &Segments| {
            let part = module.strip_prefix(parent)?.first()?;
            Some([parent, std::slice::from_ref(part)].concat().join("/"))
        };
        let mut parts = Imports::new();
        let mut sizes = BTreeMap::<String, usize>::new();
        let mut importers = BTreeMap::<(String, String), BTreeSet<&str>>::new();
        for (module, others) in imports {
            let Some(part) = part_of(module) else {
                continue;
            };
            *sizes.entry(part.clone()).or_default() += 1;
            let others = others.iter().filter_map(part_of);
            let others: BTreeSet<String> = others.filter(|other| *other != part).collect();
            for other in &others {
                let edge = (part.clone(), other.clone());
                importers
                    .entry(edge)
                    .or_default()
                    .insert(&sources.modules[module]);
            }
            parts.entry(part).or_default().extend(others);
        }
        for circle in circles(&parts) {
            if circle.iter().filter(|part| sizes[**part] > 1).count() < 2 {
                continue;
            }
            let mut text = words("folders", &circle, &parts);
            for ((one, other), files) in &importers {
                if circle.contains(&one) && circle.contains(&other) {
                    let files: Vec<&str> = files.iter().copied().collect();
                    text += &format!("    {one} imports {other} in {}\n", files.join(", "));
                }
            }
            found.push(text);
        }
    }
    found
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

/// A function that finds the circles of one kind.
type Find = fn(&Crate, &BTreeMap<Segments, BTreeSet<Segments>>) -> Vec<String>;

/// The circles of one kind in the crates of the workspace, in words.
fn found_in_the_workspace(find: Find) -> String {
    let mut folders: Vec<_> = ["crates", "machine"]
        .iter()
        .flat_map(|wing| entries(&root().join(wing)))
        .filter(|folder| folder.join("Cargo.toml").exists())
        .collect();
    let others = [
        "benches",
        "tests/observe",
        "tests/sim",
        "tests/vm/guest",
        "xtask",
    ];
    folders.extend(others.map(|name| root().join(name)));
    folders.sort();
    let mut files = 0;
    let mut text = String::new();
    for folder in folders {
        let (sources, imports) = Crate::read(&folder.join("src"));
        files += imports.len();
        for circle in find(&sources, &imports) {
            let name = folder.strip_prefix(root()).unwrap().display();
            text += &format!("{name}: {circle}");
        }
    }
    assert!(files > 200, "{files} files were read");
    text
}

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let found = found_in_the_workspace(circles_of_files);
    assert!(found.is_empty(), "{found}");
}

#[test]
fn no_circle_of_imports_has_two_folders() {
    let found = found_in_the_workspace(circles_of_folders);
    assert!(found.is_empty(), "{found}");
}

/// The faults of a crate with these files.
fn faults_of(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (sources, imports) = Crate::read(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(imports.len() > 1);
    let mut faults = circles_of_files(&sources, &imports);
    faults.extend(circles_of_folders(&sources, &imports));
    faults
}

#[test]
fn a_circle_of_three_files_is_found_through_a_re_export_and_in_a_macro() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; mod d; pub use a::A; use d::D;",
        ),
        (
            "a.rs",
            "use crate::b::inner::{self, B}; pub struct A(B, inner::B);",
        ),
        (
            "b.rs",
            "pub mod inner; pub use inner::B; pub struct P; pub struct Q;",
        ),
        (
            "b/inner.rs",
            "pub struct B(super::P); fn f() { assert!(super::super::c::of(&1)) }",
        ),
        ("c.rs", "pub struct C(crate::A);"),
        ("d.rs", "use crate::A; pub struct D;"),
    ];
    let circle = "a circle of files:\n  a.rs imports b/inner.rs\n  b/inner.rs imports c.rs\n  c.rs imports a.rs\n";
    assert_eq!(faults_of("three", &files), [circle]);
}

#[test]
fn two_files_may_import_each_other_and_tests_may_import_all() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; #[cfg(all(test, not(loom)))] mod check;",
        ),
        (
            "a.rs",
            "use crate::b::B; #[cfg(test)] mod tests { use crate::c::C; }",
        ),
        (
            "b.rs",
            "use crate::a::A; #[cfg(any(test, feature = \"x\"))] fn f() {} m! { /// [`C`](crate::c::C)\n }",
        ),
        ("c.rs", "use crate::b::B; #[test] fn f() { crate::a::f(); }"),
        ("check.rs", "use crate::{a, b, c}; mod more;"),
        ("check/more.rs", "use crate::c; #[cfg(test)] use crate::a;"),
    ];
    assert_eq!(faults_of("tests", &files), [""; 0]);
}

#[test]
fn two_folders_that_import_each_other_are_a_circle_even_without_a_circle_of_files() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "mod one; mod two;"),
        ("a/one.rs", "use crate::b::two::T;"),
        ("a/two.rs", ""),
        ("b.rs", "mod one; mod two;"),
        ("b/one.rs", "use crate::a::two::T;"),
        ("b/two.rs", ""),
        ("c.rs", "use crate::a::two::T;"),
    ];
    assert_eq!(
        faults_of("folders", &files),
        ["a circle of folders:\n  a imports b\n  b imports a\n\
              \x20   a imports b in a/one.rs\n    b imports a in b/one.rs\n"]
    );
}
