//! Step 2: the paths that one file names: in `use` declarations, in its code, and in the arguments
//! of macros. What only tests name is left out.

use syn::buffer::{Cursor, TokenBuffer};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token};

use super::files::{Files, Segments};

/// A name that a `use` declaration makes known in a module.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub(super) module: Segments,
    pub(super) name: String,
}

/// What one file names.
pub(super) struct Names<'a> {
    files: &'a Files,
    /// The module in which the visit is.
    module: Segments,
    /// The names that `use` declarations make known, each with the path that it stands for.
    pub(super) known: Vec<(Known, Segments)>,
    /// All paths of the crate, from its root on.
    pub(super) paths: Vec<Segments>,
    /// The modules in files of their own that are compiled only for tests.
    pub(super) tests: Vec<Segments>,
}

impl<'a> Names<'a> {
    /// What the file of this module names.
    pub(super) fn of(syntax: &syn::File, module: &Segments, files: &'a Files) -> Self {
        let mut names = Self {
            files,
            module: module.clone(),
            known: Vec::new(),
            paths: Vec::new(),
            tests: Vec::new(),
        };
        names.visit_file(syntax);
        names
    }

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
            let known = Known {
                module: self.module.clone(),
                name: alias,
            };
            self.known.push((known, target.clone()));
            self.paths.push(target);
        }
    }

    /// Adds what a `use` declaration imports; `before` is the path before this part of it.
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
