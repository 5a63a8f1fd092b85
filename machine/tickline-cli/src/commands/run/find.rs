//! Finds the library where the user names none. The first file that is trusted, and is the library
//! of this version, is used.

use std::env;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::process::{Uid, geteuid};
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
    let own_folder = program.parent().unwrap_or(Path::new("/"));
    first_usable(&folders, own_folder).map_err(|unusable| {
        io::Error::other(if unusable.is_empty() {
            no_library(&program, &folders)
        } else {
            no_usable_library(&unusable)
        })
    })
}

/// The first library in these folders that can be used, or why each file cannot be. `own_folder` is
/// this program's.
fn first_usable(folders: &[PathBuf], own_folder: &Path) -> Result<Image, Vec<String>> {
    let mut unusable = Vec::new();
    for path in library::files_in(folders) {
        // A file that another user may have written is not even read.
        match judge(&path, own_folder).and_then(|()| Image::read(&path)) {
            Ok(image) => return Ok(image),
            Err(error) => unusable.push(error.to_string()),
        }
    }
    Err(unusable)
}

/// Judges a file of the library as a page's file is judged: its code runs in the programs of this
/// user, so no other user but root may write to it or to its folder. For a user without rights,
/// umask 002 is no obstacle in `own_folder`, which is this program's ([`is_as_the_program`]).
///
/// # Errors
///
/// If the file is not trusted.
fn judge(file: &Path, own_folder: &Path) -> io::Result<()> {
    let error = match judge_file(file.as_os_str().as_bytes()) {
        Ok(()) => return Ok(()),
        Err(FileError::WritableByOthers { .. }) if is_in_program_folder(file, own_folder) => {
            return Ok(());
        }
        Err(error) => error,
    };
    let why = match error {
        FileError::NotRegular { mode } => format!("this is not a regular file: mode {mode:o}"),
        FileError::ForeignOwner { owner: 65_534, .. } => {
            "it or its folder belongs to user 65534, which in a user namespace stands for every user outside of it: mount the file by itself, read-only".to_owned()
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
    };
    Err(with_path(file, &io::Error::other(why)))
}

/// Whether the library is in this folder of the program, and [`is_as_the_program`].
fn is_in_program_folder(file: &Path, own_folder: &Path) -> bool {
    file.parent() == Some(own_folder)
        && fs::metadata(file)
            .and_then(|file| Ok((file, fs::metadata(own_folder)?)))
            .is_ok_and(|(file, folder)| is_as_the_program(&file, &folder, geteuid()))
}

/// Whether only the group of the program's `folder` may write to the library in it. That group may
/// replace the program as well, unless the folder is sticky, so the library lends it nothing.
/// umask 002 makes such files in a user's clone. For root, no group may write.
fn is_as_the_program(library: &Metadata, folder: &Metadata, user: Uid) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    const GROUP_WRITES: u32 = 0o020;
    let is_only_of_group = (library.mode() | folder.mode()) & OTHERS_WRITE == 0
        && folder.mode() & (GROUP_WRITES | STICKY) == GROUP_WRITES;
    let is_library_of_group = library.mode() & GROUP_WRITES == 0 || library.gid() == folder.gid();
    !user.is_root() && is_only_of_group && is_library_of_group
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
    use std::fs::Permissions;
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
        let unusable = first_usable(&paths, Path::new("/usr/bin")).unwrap_err();
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

    /// Whether a user of this number uses a library of this mode in a folder of this mode, which is
    /// the program's.
    fn is_used(folder_mode: u32, mode: u32, user: u32) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(LIBRARY);
        fs::write(&file, "").unwrap();
        for (path, mode) in [(&*file, mode), (folder.path(), folder_mode)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let [library, folder] = [&*file, folder.path()].map(|path| fs::metadata(path).unwrap());
        is_as_the_program(&library, &folder, Uid::from_raw(user))
    }

    /// Symptom: with umask 002 the library of a user's own clone was passed over.
    #[test]
    fn a_user_uses_the_library_of_a_clone_that_umask_002_has_made() {
        assert!(is_used(0o775, 0o775, 1000));
        assert!(is_used(0o775, 0o644, 1000));
    }

    #[test]
    fn root_uses_no_library_that_a_group_may_write_to() {
        assert!(!is_used(0o775, 0o775, 0));
    }

    #[test]
    fn who_can_not_replace_the_program_must_not_write_to_the_library() {
        for (folder, library) in [
            (0o1775, 0o644),
            (0o755, 0o664),
            (0o775, 0o666),
            (0o777, 0o644),
        ] {
            assert!(!is_used(folder, library, 1000), "{folder:o}, {library:o}");
        }
    }

    /// Docker's -v makes a folder in place of a file that is missing.
    #[test]
    fn a_folder_in_place_of_the_library_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(LIBRARY)).unwrap();
        let unusable = first_usable(&[folder.path().to_owned()], folder.path()).unwrap_err();
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

    /// Symptom: `beside /opt/tickline/bin/tickline or in ../lib`, where the library was in /usr/lib.
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
