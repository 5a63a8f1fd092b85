//! How a file is replaced.

use std::fs;
use std::io;
use std::path::Path;

use crate::arguments::hints;

/// Replaces a file atomically: after an error the old file is unchanged.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", hints::located(path));
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written
        .inspect_err(|_| drop(fs::remove_file(&new)))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Folder;

    #[test]
    fn a_written_file_replaces_the_old_one() {
        let folder = Folder::new("write");
        folder.write("a.json", "old");
        assert_eq!(replace(&folder.0.join("a.json"), "new"), Ok(()));
        assert_eq!(folder.read("a.json").as_deref(), Some("new"));
    }

    /// A folder with a file in it, which no file can replace.
    fn replace_in_the_way(folder: &Folder) -> String {
        folder.write("b.json/in the way", "old");
        replace(&folder.0.join("b.json"), "new").expect_err("a folder is in the way")
    }

    #[test]
    fn the_error_of_a_write_names_the_file() {
        let folder = Folder::new("write-error");
        let error = replace_in_the_way(&folder);
        assert!(error.contains("b.json: "), "{error}");
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let folder = Folder::new("write-old");
        replace_in_the_way(&folder);
        assert_eq!(folder.read("b.json/in the way").as_deref(), Some("old"));
    }

    #[test]
    fn a_failed_write_leaves_no_part_of_a_new_file() {
        let folder = Folder::new("write-part");
        replace_in_the_way(&folder);
        assert_eq!(folder.entries(""), 1);
    }
}
