//! Checks that no document is too long, and that every file name in documents and comments exists.

use std::path::Path;

use crate::files::{read, root};
use crate::step::output_of;

/// The documents with limits, in lines.
const LIMITS: [(&str, usize); 3] = [
    ("README.md", 140),
    ("CONTRIBUTING.md", 175),
    ("DESIGN.md", 330),
];

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

#[test]
fn documents_are_short() {
    for (file, most) in LIMITS {
        let lines = read(file).unwrap().lines().count();
        assert!(lines <= most, "{file} has {lines} lines, of {most} at most");
    }
}

/// The names in backticks (`false`) and the targets of links (`true`) in a text.
fn pointers(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let names = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .map(|name| (false, name));
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| Some((true, rest.split_once(')')?.0)));
    names.chain(links)
}

#[test]
fn every_pointer_to_a_file_is_true() {
    let files = output_of("git ls-files --cached --others --exclude-standard").unwrap();
    let files: Vec<&str> = files
        .lines()
        .filter(|file| root().join(file).is_file())
        .collect();
    let is_there = |name: &str| {
        let folder = name.ends_with('/').then(|| format!("/{name}"));
        files.iter().any(|file| {
            let file = format!("/{file}");
            file.ends_with(&format!("/{name}"))
                || folder.as_ref().is_some_and(|folder| file.contains(folder))
        })
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for file in files
        .iter()
        .filter(|file| file.ends_with(".md") || file.ends_with(".rs"))
    {
        let text = read(file).unwrap();
        let text = if file.ends_with(".md") {
            text
        } else {
            let comments = text
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("//"));
            comments.collect::<Vec<_>>().join("\n")
        };
        for (is_link, pointer) in pointers(&text) {
            let name = pointer.split('#').next().unwrap_or_default();
            let is_path = ENDS.iter().any(|end| name.ends_with(end))
                && !name.starts_with(['/', '~', '.', '*', '$']);
            let is_folder = name.ends_with('/')
                && [
                    "crates/", "machine/", "xtask/", "docs/", "tests/", "benches/", "fuzz/",
                ]
                .iter()
                .any(|folder| name.starts_with(folder));
            let is_true = match is_link {
                true if name.contains("::") || name.contains(':') || !name.contains(['.', '/']) => {
                    continue;
                }
                true => root()
                    .join(file)
                    .parent()
                    .unwrap_or(Path::new(""))
                    .join(name)
                    .exists(),
                false
                    if (!is_path && !is_folder)
                        || name.contains([' ', '<', '{', '*'])
                        || name.contains("NAME")
                        || OTHERS.contains(&name) =>
                {
                    continue;
                }
                false => is_there(name),
            };
            checked += 1;
            if !is_true {
                wrong.push(format!("{file}: {pointer}"));
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
