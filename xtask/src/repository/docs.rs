//! Checks that every document has a reader, and that every file name in documents and comments
//! exists.

use std::path::Path;

use crate::command::output_of;
use crate::files::{read, root};

/// A name in backticks with one of these suffixes must be a file of this repository. Names with
/// other suffixes may be files of the kernel's sources, or JSON that programs write.
const ENDS: [&str; 8] = [".rs", ".md", ".toml", ".sh", ".yaml", ".svg", ".png", ".py"];

/// Files of other projects, and files that programs write.
const OTHERS: [&str; 6] = [
    "DataSourceAzure.py",
    "src/vmm/src/devices/acpi/vmgenid.rs",
    "cfg.rs",
    "tests/future.rs",
    "report/pairs.svg",
    "routine.rs",
];

/// The list of all documents.
const LIST: &str = "docs/README.md";

#[test]
fn each_document_has_a_reader() {
    let listed = read(LIST).unwrap();
    let folder = root().join(LIST);
    let folder = folder.parent().unwrap();
    let listed: Vec<_> = links(&listed)
        .filter_map(|link| folder.join(link).canonicalize().ok())
        .collect();
    let files = output_of("git ls-files --cached --others --exclude-standard *.md").unwrap();
    let files: Vec<&str> = files
        .lines()
        .filter(|file| root().join(file).is_file() && *file != LIST)
        .collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let path = root().join(file).canonicalize().unwrap();
        assert!(
            listed.contains(&path),
            "{LIST} does not say for whom {file} is"
        );
    }
}

/// The names in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The targets of links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("](").skip(1);
    rests.filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// The folders whose names in backticks must be there.
const FOLDERS: [&str; 7] = [
    "crates/", "machine/", "xtask/", "docs/", "tests/", "benches/", "fuzz/",
];

/// Whether a name in backticks must be a file or a folder of this repository.
fn is_pointer(name: &str) -> bool {
    let is_file =
        ENDS.iter().any(|end| name.ends_with(end)) && !name.starts_with(['/', '~', '.', '*', '$']);
    let is_folder = name.ends_with('/') && FOLDERS.iter().any(|folder| name.starts_with(folder));
    (is_file || is_folder)
        && !name.contains([' ', '<', '{', '*'])
        && !name.contains("NAME")
        && !OTHERS.contains(&name)
}

/// Whether a link leads to a file, and not to a page or to an item of rustdoc.
fn is_to_file(link: &str) -> bool {
    !link.contains(':') && link.contains(['.', '/'])
}

/// The prose of a file: all of a document, the comments of a source.
fn prose(file: &str) -> String {
    let text = read(file).unwrap();
    if file.ends_with(".md") {
        return text;
    }
    let lines = text.lines().map(str::trim_start);
    let comments: Vec<&str> = lines.filter_map(|line| line.strip_prefix("//")).collect();
    comments.join("\n")
}

#[test]
fn every_pointer_to_a_file_is_true() {
    let files = output_of("git ls-files --cached --others --exclude-standard").unwrap();
    let files: Vec<&str> = files
        .lines()
        .filter(|file| root().join(file).is_file())
        .collect();
    let is_there = |name: &str| {
        let name = format!("/{name}");
        files.iter().any(|file| {
            let file = format!("/{file}");
            file.ends_with(&name) || (name.ends_with('/') && file.contains(&name))
        })
    };
    let mut checked = 0;
    let mut wrong = Vec::new();
    for file in &files {
        if !file.ends_with(".md") && !file.ends_with(".rs") {
            continue;
        }
        let text = prose(file);
        for name in names(&text) {
            let name = name.split('#').next().unwrap_or_default();
            if is_pointer(name) {
                checked += 1;
                if !is_there(name) {
                    wrong.push(format!("{file}: {name}"));
                }
            }
        }
        let folder = root().join(file);
        let folder = folder.parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            let path = link.split('#').next().unwrap_or_default();
            if is_to_file(path) {
                checked += 1;
                if !folder.join(path).exists() {
                    wrong.push(format!("{file}: {link}"));
                }
            }
        }
    }
    assert!(checked > 300, "{checked} pointers were read");
    assert!(
        wrong.is_empty(),
        "of {checked} pointers these lead nowhere:\n{}",
        wrong.join("\n")
    );
}

/// A line of a document, or of rustdoc in a source.
fn rendered<'a>(file: &str, line: &'a str) -> Option<&'a str> {
    if file.ends_with(".md") {
        return Some(line);
    }
    let line = line.trim_start();
    let text = line.strip_prefix("//!").or(line.strip_prefix("///"))?;
    Some(text.trim_start())
}

fn is_row(line: &str) -> bool {
    line.starts_with("| ") && line.ends_with(" |")
}

/// Whether a line that stands directly below a table's row would be rendered as a row. A row, an
/// element of HTML and a block of code would not.
fn is_taken_for_row(next: &str) -> bool {
    !next.is_empty() && !next.starts_with(['|', '<']) && !next.starts_with("```")
}

/// Symptom: a paragraph of rustdoc was the last row of the table above it.
#[test]
fn an_empty_line_follows_each_table() {
    let files = output_of("git ls-files --cached --others --exclude-standard *.md *.rs").unwrap();
    let mut rows = 0;
    let mut wrong = Vec::new();
    for file in files.lines().filter(|file| root().join(file).is_file()) {
        let text = read(file).unwrap();
        for (row, next) in text.lines().zip(text.lines().skip(1)) {
            if let (Some(row), Some(next)) = (rendered(file, row), rendered(file, next))
                && is_row(row)
            {
                rows += 1;
                if is_taken_for_row(next) {
                    wrong.push(format!("{file}: {next}"));
                }
            }
        }
    }
    assert!(rows > 100, "{rows} rows were read");
    assert!(
        wrong.is_empty(),
        "an empty line is missing above:\n{}",
        wrong.join("\n")
    );
}

/// The pages that name tests for each promise: "- `FILE`: `TEST`". The line may break after `:`.
const PROMISES: [&str; 3] = ["SECURITY.md", "docs/footprint.md", "machine/SECURITY.md"];

/// The tests that a page names, each after its file.
fn promised(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("- `").skip(1).filter_map(|item| {
        let (file, rest) = item.split_once('`')?;
        let test = rest.strip_prefix(':')?.trim_start().strip_prefix('`')?;
        Some((file, test.split_once('`')?.0))
    })
}

/// Whether a file has a function of this name.
fn has_function(file: &str, name: &str) -> bool {
    read(file).is_ok_and(|text| text.contains(&format!("fn {name}(")))
}

#[test]
fn every_test_that_a_promise_names_is_in_its_file() {
    let mut checked = 0;
    let mut missing = Vec::new();
    for page in PROMISES {
        let text = read(page).unwrap();
        for (file, test) in promised(&text) {
            checked += 1;
            if !has_function(file, test) {
                missing.push(format!("{page}: {file}: {test}"));
            }
        }
    }
    assert!(checked > 50, "{checked} tests were read");
    assert!(
        missing.is_empty(),
        "not in the file that the page names:\n{}",
        missing.join("\n")
    );
}

/// Symptom: a test whose name stood on the next line was not looked for.
#[test]
fn a_promise_may_name_its_test_on_the_next_line() {
    let page = "- `a.rs`: `one`\n- `b.rs`:\n  `two` and more\n- `tool` in CI\n";
    let tests: Vec<(&str, &str)> = promised(page).collect();
    assert_eq!(tests, [("a.rs", "one"), ("b.rs", "two")]);
}
