//! Copies of a program, for a new process each.
//!
//! The pages of a program's file are in the kernel's page cache, at the same places of physical
//! memory for all its processes. Caches are indexed by physical addresses, so one file of two with
//! the same bytes can be slower by 1 % until the kernel reads it again. A copy has pages of its
//! own. Therefore each process runs a new copy, and the pages are part of what the interval samples
//! (`placement.rs`).
//!
//! A comparison that is killed leaves its copies. A later one removes those that are a day old and
//! that nobody uses: the owner of a copy holds a lock, which the kernel removes with the owner's
//! process (Linux). Elsewhere copies are left.
//!
//! On some file systems that several machines share, a lock holds on one machine only: 9p, sshfs,
//! NFS with local locks. Another machine's comparison sees no lock there. Only a copy's age keeps
//! it from being removed while it is in use: none is removed in its first day, and a process that
//! serves for longer loses its file, which on NFS may end it. If the machines' clocks differ, the
//! day is as much shorter or longer.
//!
//! | rejected | price |
//! |---|---|
//! | a copy in the folder for temporary files | the program misses the libraries and data that it looks for beside itself |
//! | a memfd | the program has no path, so `current_exe` leads nowhere |
//! | `POSIX_FADV_DONTNEED` | does nothing to pages that a process has mapped, and this process runs one of the builds |

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::number::random_below;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as lock;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as lock;

/// The beginning of a copy's name, which a number of [`DIGITS`] and `-` follow, and the name of the
/// program.
const PREFIX: &str = ".copy-";

/// The number of hexadecimal digits.
const DIGITS: usize = 16;

/// The smallest age of a copy that is removed, since it was written.
const MIN_AGE: Duration = Duration::from_secs(24 * 3_600);

/// A copy beside the program, which is removed in the end.
#[derive(Debug)]
pub(crate) struct ProgramCopy {
    path: PathBuf,
    /// `None` if the file system has no locks.
    _lock: Option<lock::Lock>,
}

impl ProgramCopy {
    /// Copies a program to a file of its own. The copy has the program's mode.
    ///
    /// # Errors
    ///
    /// If the folder takes no file, or the program can't be read.
    pub(crate) fn new(program: &Path) -> io::Result<Self> {
        Self::with_lock(program, lock::hold)
    }

    /// Tries again if another comparison removes the copy before `hold` has locked it: one process
    /// of a pair would run the original, and the other a copy.
    fn with_lock(
        program: &Path,
        mut hold: impl FnMut(&Path) -> io::Result<Option<lock::Lock>>,
    ) -> io::Result<Self> {
        const TRIES: usize = 3;
        let original = File::open(program).map_err(|error| {
            io::Error::new(error.kind(), format!("the program can't be read: {error}"))
        })?;
        let mut tries = 1;
        loop {
            let (mut copy, file) = Self::empty(program)?;
            match hold(&copy.path) {
                Ok(lock) => copy._lock = lock,
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            return copy.filled(original, file);
        }
    }

    /// A new file, and the handle that may write to it.
    fn empty(program: &Path) -> io::Result<(Self, File)> {
        // A number at random: processes with one number may share the folder (containers). The end
        // of the name stays, which is how Windows knows a program.
        let mut name = OsString::from(format!("{PREFIX}{:0DIGITS$x}-", random_below(u64::MAX)));
        name.push(program.file_name().unwrap_or_default());
        let path = program.with_file_name(name);
        // Neither a file nor a link is overwritten.
        let file = File::create_new(&path)?;
        // The lock belongs to another file handle: a program can't be started while a handle may
        // write to it.
        Ok((Self { path, _lock: None }, file))
    }

    /// The copy with the program's bytes and mode.
    fn filled(self, mut original: File, mut file: File) -> io::Result<Self> {
        io::copy(&mut original, &mut file)?;
        file.set_permissions(original.metadata()?.permissions())?;
        Ok(self)
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

/// Removes the copies of a program whose owners were killed, after [`MIN_AGE`].
pub(crate) fn remove_left(program: &Path) {
    let folder = match program.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_name_of_copy(&entry.file_name(), program)) {
        let path = entry.path();
        // The metadata are the link's own, not its target's.
        if entry.metadata().is_ok_and(|data| is_old_file(&data))
            && let Some(_lock) = lock::if_unused(&path)
        {
            // A copy that can't be removed takes room, and does no other harm.
            _ = fs::remove_file(&path);
        }
    }
}

fn is_old_file(data: &fs::Metadata) -> bool {
    let age = data.modified().ok().and_then(|time| time.elapsed().ok());
    data.is_file() && age.is_some_and(|age| age >= MIN_AGE)
}

/// Whether a file has the name of a copy of the program.
fn is_name_of_copy(name: &OsStr, program: &Path) -> bool {
    let number_and_rest = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes());
    let Some((number, rest)) = number_and_rest.and_then(|rest| rest.split_at_checked(DIGITS))
    else {
        return false;
    };
    let program = program.file_name().unwrap_or_default();
    number.iter().all(u8::is_ascii_hexdigit)
        && rest.strip_prefix(b"-") == Some(program.as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

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

    /// Symptom: the folder was said to take no copy.
    #[test]
    fn a_program_that_cannot_be_read_is_said_to_be() {
        let error = ProgramCopy::new(Path::new("/no/such/program")).expect_err("no program");
        let text = error.to_string();
        assert!(text.starts_with("the program can't be read: "), "{text}");
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

    /// Makes a file look as if it was written so long ago.
    fn set_age(path: &Path, age: Duration) {
        let file = File::options().append(true).open(path).expect("a file");
        let time = SystemTime::now() - age;
        file.set_modified(time).expect("own file");
    }

    /// Makes a file so old that it would be removed if nobody used it.
    fn make_old(path: &Path) {
        set_age(path, 2 * MIN_AGE);
    }

    /// A file with the name of a copy, which nobody uses.
    #[cfg(target_os = "linux")]
    fn left_copy(program: &Path) -> PathBuf {
        let left = program.with_file_name(".copy-0123456789abcdef-program-103");
        fs::write(&left, "").expect("a file");
        make_old(&left);
        left
    }

    /// Symptom: a comparison that was killed left two copies for ever.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_that_nobody_uses_is_removed() {
        let program = program("copy-left");
        let left = left_copy(&program);
        remove_left(&program);
        assert!(!left.exists());
        remove(&program);
    }

    #[test]
    fn a_copy_that_is_used_stays() {
        let program = program("copy-used");
        let copy = ProgramCopy::new(&program).expect("a copy");
        make_old(copy.path());
        remove_left(&program);
        assert!(copy.path().exists());
        drop(copy);
        remove(&program);
    }

    #[test]
    fn only_files_with_the_name_of_a_copy_are_removed() {
        let program = program("copy-names");
        for name in [
            "program-103",
            ".copy-0123456789abcdef-program-1034",
            ".copy-0123456789abcdef-other",
            ".copy-0123456789abcde-program-103",
            ".copy-0123456789abcdeg-program-103",
            ".copy-program-103",
            "copy-0123456789abcdef-program-103",
        ] {
            let path = program.with_file_name(name);
            fs::write(&path, "").expect("a file");
            make_old(&path);
            remove_left(&program);
            assert!(path.exists(), "{name}");
        }
        remove(&program);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_with_the_name_of_a_copy_stays() {
        let program = program("copy-link");
        let link = program.with_file_name(".copy-0123456789abcdef-program-103");
        make_old(&program);
        std::os::unix::fs::symlink(&program, &link).expect("a link");
        remove_left(&program);
        assert!(link.is_symlink() && program.exists());
        remove(&program);
    }

    /// A comparison on another machine may use it: some shared file systems have locks of each
    /// machine alone.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_of_the_last_day_stays() {
        let program = program("copy-young");
        let left = left_copy(&program);
        set_age(&left, MIN_AGE / 2);
        remove_left(&program);
        assert!(left.exists());
        remove(&program);
    }

    /// NFS refuses the lock of another handle.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_lock_for_a_removal_is_of_a_handle_that_may_write() {
        let program = program("copy-handle");
        let mut lock = lock::if_unused(&left_copy(&program)).expect("nobody uses it");
        io::Write::write_all(&mut lock, b"x").expect("writable");
        remove(&program);
    }

    /// Another comparison may find a copy before its owner has locked it.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_that_was_removed_before_its_lock_is_an_error() {
        let program = program("copy-lost");
        let lost = program.with_file_name("lost");
        fs::write(&lost, "").expect("a file");
        let name_of_handle = |file: &File| {
            let number = std::os::fd::AsRawFd::as_raw_fd(file);
            PathBuf::from(format!("/proc/self/fd/{number}"))
        };
        let file = File::open(&lost).expect("a file");
        fs::remove_file(&lost).expect("own file");
        let error = lock::hold(&name_of_handle(&file)).expect_err("it has no name");
        assert_eq!(error.to_string(), "another comparison has removed it");
        remove(&program);
    }

    /// Symptom: one process of a pair ran the original, and the other a copy.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_that_was_removed_before_its_lock_is_made_again() {
        let program = program("copy-again");
        let mut names = Vec::new();
        let copy = ProgramCopy::with_lock(&program, |path| {
            names.push(path.to_owned());
            if names.len() < 3 {
                fs::remove_file(path).expect("own file");
            }
            lock::hold(path)
        })
        .expect("a copy");
        assert_eq!(Some(copy.path()), names.last().map(PathBuf::as_path));
        drop(copy);
        remove(&program);
    }

    #[test]
    fn a_copy_that_is_removed_each_time_is_an_error() {
        let program = program("copy-never");
        let error = ProgramCopy::with_lock(&program, |_| Err(io::ErrorKind::NotFound.into()))
            .expect_err("no copy");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        remove(&program);
    }
}
