//! Step 1: the files of a crate, and the module that each of them holds.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::entries;

/// The names of a path, from the crate's root on.
pub(super) type Segments = Vec<String>;

/// For each module with a file of its own: the file, relative to the folder of the sources.
pub(super) type Files = BTreeMap<Segments, String>;

/// The files in the folder of a crate's sources.
pub(super) fn files_of(sources: &Path) -> Files {
    let mut files = Files::new();
    add(&mut files, sources, sources, &Vec::new());
    files
}

/// Adds the files of a folder, which holds the submodules of `module`.
fn add(files: &mut Files, sources: &Path, folder: &Path, module: &Segments) {
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
                add(files, sources, &path, &child);
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
                files.insert(module, file.display().to_string());
            }
        }
    }
}
