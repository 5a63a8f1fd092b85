use std::fs;

use super::circles::{circles_of_files, circles_of_folders};
use super::resolve::Crate;

/// The circles in a crate with these files.
fn circles_in(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let sources = Crate::read(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(sources.imports.len() > 1);
    let mut circles = circles_of_files(&sources);
    circles.extend(circles_of_folders(&sources));
    circles
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
    assert_eq!(circles_in("three", &files), [circle]);
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
    assert_eq!(circles_in("tests", &files), [""; 0]);
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
        circles_in("folders", &files),
        ["a circle of folders:\n  a imports b\n  b imports a\n\
              \x20   a imports b in a/one.rs\n    b imports a in b/one.rs\n"]
    );
}
