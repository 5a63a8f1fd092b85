//! Finds the library where the user names none. The first file that is trusted, and is the library
//! of this version, is used.

use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use tickline_page::page_file::{FileError, judge_file};
use tickline_page::program::LIBRARY;

use super::image::Image;
use crate::machine::library;
use crate::words::with_path;

/// The library beside this program, or in a folder of the system.
///
/// # Errors
///
/// If none can be used. The error names each file, and why it is not used.
pub(super) fn image() -> io::Result<Image> {
    let program = env::current_exe().map_err(|error| io::Error::other(no_program(&error)))?;
    let folders = library::folders(&program);
    first_usable(&folders).map_err(|unusable| {
        io::Error::other(if unusable.is_empty() {
            no_library(&program, &folders)
        } else {
            no_usable_library(&unusable)
        })
    })
}

/// The first library in these folders that can be used, or why each file cannot be.
fn first_usable(folders: &[PathBuf]) -> Result<Image, Vec<String>> {
    let mut unusable = Vec::new();
    for path in library::files_in(folders) {
        // A file that another user may have written is not even read.
        match judge(&path).and_then(|()| Image::read(&path)) {
            Ok(image) => return Ok(image),
            Err(error) => unusable.push(error.to_string()),
        }
    }
    Err(unusable)
}

/// Judges a file of the library as a page's file is judged: its code runs in the programs of this
/// user, so no other user but root may write to it or to its folder.
///
/// # Errors
///
/// If the file is not trusted.
fn judge(file: &Path) -> io::Result<()> {
    judge_file(file.as_os_str().as_bytes())
        .map_err(|error| with_path(file, &io::Error::other(why_not_trusted(error))))
}

/// Why the file is not trusted, in words.
fn why_not_trusted(error: FileError) -> String {
    match error {
        FileError::NotRegular { mode } => format!("this is not a regular file: mode {mode:o}"),
        FileError::UnmappedOwner => {
            "it or its folder belongs to user 65534, which stands for every user outside of this \
             user namespace: mount the file by itself, read-only"
                .to_owned()
        }
        FileError::ForeignOwner { owner: 65_534, .. } => {
            "it or its folder belongs to user 65534 (nobody), whose files are not trusted"
                .to_owned()
        }
        FileError::ForeignOwner { owner, reader: 0 } => {
            format!("it or its folder belongs to user {owner}, not to root")
        }
        FileError::ForeignOwner { owner, reader } => {
            format!("it or its folder belongs to user {owner}, not to root or to user {reader}")
        }
        FileError::WritableByOthers { mode } => {
            let is_folder = FileType::from_raw_mode(mode).is_dir();
            let what = if is_folder { "its folder" } else { "it" };
            let mode = mode & 0o7777;
            format!(
                "other users may write to {what} (mode {mode:o}), and the bits 022 must be clear"
            )
        }
        other => other.to_string(),
    }
}

/// The error if this program does not know its own file. The system's error comes last, because it
/// is a sentence of its own.
fn no_program(error: &io::Error) -> String {
    format!(
        "name {LIBRARY} with --library, because this program finds neither its own file nor the \
         library beside it: {error}"
    )
}

/// The error if none of the library's files can be used.
fn no_usable_library(unusable: &[String]) -> String {
    format!(
        "no {LIBRARY} can be used: {}; name another one with --library",
        unusable.join("; ")
    )
}

/// The error if the library is in none of the folders where this program looks for it.
fn no_library(program: &Path, folders: &[PathBuf]) -> String {
    let is_in_clone = program
        .ancestors()
        .nth(2)
        .is_some_and(|folder| folder.ends_with("target"));
    let makes = if is_in_clone {
        "; `cargo build --profile preload -p tickline-preload` makes target/preload/".to_owned()
            + LIBRARY
    } else {
        String::new()
    };
    let folders: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    format!(
        "no {LIBRARY} in {}: put it into one of them (in a container, by a mount), or name it with --library{makes}",
        folders.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A folder of this mode with a file of the library's name, which is not the library.
    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(LIBRARY);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        folder
    }

    /// Symptom: beside a copy of the program in /tmp, root loaded the library of any user.
    #[test]
    fn each_file_that_is_not_used_is_named_with_the_reason() {
        let folders = [0o1777, 0o775, 0o755].map(folder);
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let unusable = first_usable(&paths).unwrap_err();
        let writable = |mode| format!("other users may write to its folder (mode {mode})");
        let other = format!("this is not the {LIBRARY} of version ");
        for ((found, folder), why) in
            unusable
                .iter()
                .zip(&paths)
                .zip([writable("1777"), writable("775"), other])
        {
            let path = folder.join(LIBRARY);
            let expected = format!("{}: {why}", path.display());
            assert!(found.starts_with(&expected), "{found}");
        }
        assert_eq!(unusable.len(), 3);
        let text = no_usable_library(&unusable);
        assert!(unusable.iter().all(|why| text.contains(why)), "{text}");
    }

    /// Symptom: the advice to mount the file, also on the host.
    #[test]
    fn a_mount_is_advised_only_where_user_65534_stands_for_others() {
        let of_nobody = FileError::ForeignOwner {
            owner: 65_534,
            reader: 1_000,
        };
        for (error, is_advised) in [(FileError::UnmappedOwner, true), (of_nobody, false)] {
            let why = why_not_trusted(error);
            assert_eq!(why.contains("mount the file"), is_advised, "{why}");
        }
    }

    /// Docker's -v makes a folder in place of a file that is missing.
    #[test]
    fn a_folder_in_place_of_the_library_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(LIBRARY)).unwrap();
        let unusable = first_usable(&[folder.path().to_owned()]).unwrap_err();
        assert!(unusable[0].contains("not a regular file"), "{unusable:?}");
    }

    /// Symptom: "Is /proc mounted?; name the library".
    #[test]
    fn the_systems_question_ends_the_message() {
        let error = io::Error::other("no /proc/self/exe available. Is /proc mounted?");
        let message = no_program(&error);
        assert!(message.ends_with("Is /proc mounted?"), "{message}");
    }

    /// Symptom: `cargo build` as the advice in a container.
    #[test]
    fn a_missing_library_is_to_be_built_only_in_a_clone() {
        for (program, is_in_clone) in [
            ("/clone/target/release/tickline", true),
            ("/usr/bin/tickline", false),
            ("/tickline", false),
        ] {
            let text = no_library(Path::new(program), &[PathBuf::from("/lib")]);
            assert_eq!(text.contains("cargo build"), is_in_clone, "{text}");
        }
    }

    /// Symptom: `beside /opt/tickline/bin/tickline or in ../lib`, where the library was in
    /// /usr/lib.
    #[test]
    fn a_missing_library_was_looked_for_in_all_these_folders() {
        let program = Path::new("/opt/tickline/bin/tickline");
        let folders = library::folders(program);
        let text = no_library(program, &folders);
        for folder in folders {
            assert!(text.contains(folder.to_str().unwrap()), "{text}");
        }
    }
}
