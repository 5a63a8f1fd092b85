//! The library that `tickline run` maps into programs: what it may export and import.

use std::fs;
use std::path::Path;

use crate::command::{command, output};

/// The library that `tickline run` maps into programs, and the command that builds it.
pub(crate) const LIBRARY: &str = "libtickline_preload.so";
pub(crate) const PRELOAD: &str = "cargo build -q --profile preload -p tickline-preload";

/// The functions that the library replaces in a program by `LD_PRELOAD`. Any other exported name
/// might replace a function of the program by mistake.
const EXPORTS: [&str; 3] = ["clock_gettime", "gettimeofday", "timespec_get"];

/// The names that the library imports from libc. Even the oldest libc has them. If an import is
/// missing, the dynamic linker loads neither the library nor the program. Any further import would
/// also be missing in a static program.
const IMPORTS: [&str; 2] = ["__errno_location", "environ"];

/// Reads the library, and checks its exports and imports.
pub(crate) fn read_library(folder: &Path) -> Result<Vec<u8>, String> {
    let path = folder.join("preload").join(LIBRARY);
    let listed = output(command("nm -D --without-symbol-versions").arg(&path))?;
    let in_library = |why: String| format!("{}: {why}", path.display());
    require_names(&listed).map_err(in_library)?;
    fs::read(&path).map_err(|error| in_library(error.to_string()))
}

/// Checks the exports and imports in the output of nm(1).
fn require_names(listed: &str) -> Result<(), String> {
    let mut exports = Vec::new();
    let mut imports = Vec::new();
    for line in listed.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            // A weak symbol may be missing.
            [.., "w" | "W" | "v" | "V", _] => {}
            ["U", name] => imports.push(name),
            [.., name] => exports.push(name),
            [] => {}
        }
    }
    if exports != EXPORTS {
        return Err(format!("it exports {exports:?}, not {EXPORTS:?}"));
    }
    match imports.iter().find(|name| !IMPORTS.contains(name)) {
        Some(name) => Err(format!("it imports {name}, which not every program has")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nm(1) lists for a library that is as it should be.
    const GOOD: &str = "\
0000000000001000 T clock_gettime
                 w __cxa_finalize
                 U environ
                 U __errno_location
0000000000001100 T gettimeofday
0000000000001200 T timespec_get
";

    #[test]
    fn a_library_that_is_as_it_should_be_is_accepted() {
        assert_eq!(require_names(GOOD), Ok(()));
    }

    #[test]
    fn a_library_with_other_exports_is_refused() {
        for listed in [
            format!("{GOOD}0000000000001300 T main\n"),
            GOOD.replace("gettimeofday", "time"),
            String::new(),
        ] {
            let error = require_names(&listed).unwrap_err();
            assert!(error.starts_with("it exports ["), "{error}");
        }
    }

    #[test]
    fn a_library_with_another_import_is_refused() {
        let error = require_names(&format!("{GOOD}                 U malloc\n")).unwrap_err();
        assert_eq!(error, "it imports malloc, which not every program has");
    }
}
