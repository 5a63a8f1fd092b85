//! Copies of a program, for a new process each.
//!
//! The pages of a program's file are in the kernel's page cache, at the same places of physical
//! memory for all its processes. Caches are indexed by physical addresses, so one file of two with
//! the same bytes can be slower by 1 % until the kernel reads it again. A copy has pages of its
//! own. Therefore each process runs a new copy, and the pages are part of what the interval samples
//! (`placement.rs`).
//!
//! | rejected | price |
//! |---|---|
//! | a copy in the folder for temporary files | the program misses the libraries and data that it looks for beside itself |
//! | a memfd | the program has no path, so `current_exe` leads nowhere |
//! | `POSIX_FADV_DONTNEED` | does nothing to pages that a process has mapped, and this process runs one of the builds |

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::number::random_below;

/// A copy beside the program, which is removed in the end.
#[derive(Debug)]
pub(crate) struct ProgramCopy {
    path: PathBuf,
}

impl ProgramCopy {
    /// Copies a program to a file of its own. The copy has the program's mode.
    ///
    /// # Errors
    ///
    /// If the folder takes no file, or the program can't be read.
    pub(crate) fn new(program: &Path) -> io::Result<Self> {
        let mut original = File::open(program)?;
        // A number at random: processes with one number may share the folder (containers). The end
        // of the name stays, which is how Windows knows a program.
        let mut name = OsString::from(format!(".copy-{:016x}-", random_below(u64::MAX)));
        name.push(program.file_name().unwrap_or_default());
        let path = program.with_file_name(name);
        // Neither a file nor a link is overwritten.
        let mut file = File::create_new(&path)?;
        let copy = Self { path };
        io::copy(&mut original, &mut file)?;
        file.set_permissions(original.metadata()?.permissions())?;
        Ok(copy)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProgramCopy {
    fn drop(&mut self) {
        // A copy that is left takes room until somebody removes it.
        _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, with a file that is a program.
    fn program(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join("program-103");
        fs::write(&program, "#!/bin/sh\n").expect("a file");
        program
    }

    fn remove(program: &Path) {
        fs::remove_dir_all(program.parent().expect("a folder")).expect("an end");
    }

    #[test]
    fn a_copy_is_beside_the_program_with_its_bytes_and_the_end_of_its_name() {
        let program = program("copy-beside");
        let copy = ProgramCopy::new(&program).expect("a copy");
        assert_eq!(copy.path().parent(), program.parent());
        let name = copy.path().file_name().expect("a name").to_string_lossy();
        assert!(name.ends_with("-program-103"), "{name}");
        assert_eq!(
            fs::read(copy.path()).expect("readable"),
            fs::read(&program).expect("readable")
        );
        drop(copy);
        remove(&program);
    }

    #[cfg(unix)]
    #[test]
    fn a_copy_has_the_mode_of_the_program() {
        use std::os::unix::fs::PermissionsExt as _;

        let program = program("copy-mode");
        let mode = 0o750;
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("own file");
        let copy = ProgramCopy::new(&program).expect("a copy");
        let permissions = fs::metadata(copy.path()).expect("there").permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
        drop(copy);
        remove(&program);
    }

    #[test]
    fn two_copies_are_two_files() {
        let program = program("copy-two");
        let copies = [(); 2].map(|()| ProgramCopy::new(&program).expect("a copy"));
        assert_ne!(copies[0].path(), copies[1].path());
        drop(copies);
        remove(&program);
    }

    #[test]
    fn a_copy_is_removed_in_the_end() {
        let program = program("copy-removed");
        let path = ProgramCopy::new(&program)
            .expect("a copy")
            .path()
            .to_owned();
        assert!(!path.exists(), "{}", path.display());
        remove(&program);
    }

    #[test]
    fn a_half_copy_is_removed_if_the_program_cannot_be_read() {
        let program = program("copy-of-nothing");
        let missing = program.with_file_name("missing");
        let error = ProgramCopy::new(&missing).expect_err("there is no program");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let files = fs::read_dir(program.parent().expect("a folder")).expect("a folder");
        assert_eq!(files.count(), 1, "only the program is left");
        remove(&program);
    }
}
