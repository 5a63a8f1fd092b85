//! Who imports whom: in each crate, no circle of imports has more than two files, and no circle
//! has two folders.
//!
//! A file that imports another can't be understood without it. So in a circle of files, none can be
//! read first. The same holds for folders: a module with its submodules.
//!
//! `use` declarations count, and paths that begin with `crate`, `self` or `super`. A name that a
//! module re-exports counts as the file that defines it. Imports from a module's own submodules do
//! not count, because they are its parts. Nor do tests count.
//!
//! There is a file for each step: `files.rs`, `names.rs`, `resolve.rs` and `circles.rs`, all in
//! `imports/`.

mod circles;
mod files;
mod names;
mod resolve;
mod tests;

use circles::{circles_of_files, circles_of_folders};
use resolve::Crate;

use crate::files::{entries, root};

/// The circles of one kind in the crates of the workspace, in words.
fn circles_in_the_workspace(find: fn(&Crate) -> Vec<String>) -> String {
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
        let sources = Crate::read(&folder.join("src"));
        files += sources.imports.len();
        for circle in find(&sources) {
            let name = folder.strip_prefix(root()).unwrap().display();
            text += &format!("{name}: {circle}");
        }
    }
    assert!(files > 200, "{files} files were read");
    text
}

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let found = circles_in_the_workspace(circles_of_files);
    assert!(found.is_empty(), "{found}");
}

#[test]
fn no_circle_of_imports_has_two_folders() {
    let found = circles_in_the_workspace(circles_of_folders);
    assert!(found.is_empty(), "{found}");
}
