//! Temporary files, and errors that name their file.

use std::fs::{File, FileType, Metadata};
use std::hash::{BuildHasher, RandomState};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::{fs, io, iter, process};

use crate::trace::unique_number::next_number;

/// `path` with a suffix.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An error about the file `path`: its text begins with the path, in quotes, as an empty path, or
/// one with a colon, would be misread.
pub(crate) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path:?}: {error}"))
}

/// The error of a file that stays because it is not a regular one.
pub(crate) fn not_regular(file: FileType) -> io::Error {
    let kind = if file.is_dir() {
        "folder"
    } else if file.is_symlink() {
        "symbolic link"
    } else {
        "device, pipe or socket"
    };
    io::Error::other(format!("it is a {kind}, not a regular file"))
}

/// Writes a file by `write`, and puts it at `path` once it is complete. Follows links. An older
/// file is replaced if it is a regular one to which this process may write; its mode stays, and its
/// owner and group as far as this process may set them. If links lead to another path, an error
/// names it.
///
/// A device or a pipe is an error. To write into it, as a `TraceFile` does, may wait for a reader,
/// and a panic hook must not. So is an open file of a process, such as `/dev/stderr`: the process
/// still writes to it.
pub(crate) fn replace<T>(path: &Path, write: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let end = &end_of_links(path);
    let replaced = older(path).and_then(|older| {
        with_temporary(
            end,
            |temporary| create_for(older.as_ref(), temporary),
            |temporary, file| {
                if let Some(older) = &older {
                    keep_owner_and_mode(&file, older)?;
                }
                let written = write(&file)?;
                fs::rename(temporary, end)?;
                Ok(written)
            },
        )
    });
    replaced.map_err(|error| {
        if end == path {
            error
        } else {
            with_path(end, &error)
        }
    })
}

/// Fails if [`replace`] would: because of what is at `path`, or because its folder is missing or
/// takes no file from this process. A temporary file there, which is removed at once, tells.
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
    let older = older(path)?;
    with_temporary(
        &end_of_links(path),
        |temporary| create_for(older.as_ref(), temporary),
        |_, _| Ok(()),
    )
}

/// What to do about a file that can be written into, but is not replaced. Not every caller can be
/// given a writer, such as the panic hook.
const OTHER_WAYS: &str =
    "choose another path; of the recorder's calls only write_to() writes into it";

/// The file at `path`, if there is one. It must be a regular one to which this process may write,
/// and the path must not lead through the list of a process's open files, even to a closed one.
pub(crate) fn older(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if leads_through_open_file(path) {
                return Err(io::Error::other("it is a closed file of a process"));
            }
            Ok(None)
        }
        found => {
            // To open a device or a pipe may already have effects.
            regular(found?)?;
            if leads_through_open_file(path) {
                let what = "it is an open file of a process";
                return Err(io::Error::other(format!("{what}: {OTHER_WAYS}")));
            }
            writable(path).map(Some)
        }
    }
}

/// The regular file at `path`, to which this process may write. Does not wait, even if a pipe has
/// meanwhile taken the file's place.
fn writable(path: &Path) -> io::Result<Metadata> {
    // A rename asks for no right to the file itself.
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    options.custom_flags(libc::O_NONBLOCK);
    regular(options.open(path)?.metadata()?)
}

fn regular(found: Metadata) -> io::Result<Metadata> {
    if found.is_file() {
        return Ok(found);
    }
    let error = not_regular(found.file_type());
    if found.is_dir() {
        Err(error)
    } else {
        Err(io::Error::other(format!("{error}: {OTHER_WAYS}")))
    }
}

/// Creates the file that replaces the older one. Until it has that one's group, only its owner has
/// rights.
fn create_for(older: Option<&Metadata>, temporary: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(older) = older {
        options.mode(older.mode() & 0o700);
    }
    #[cfg(not(unix))]
    let _ = older;
    options.open(temporary)
}

/// Gives a new file the owner and the group of the older one, as far as this process may, and its
/// mode. If the group is another one, it gets no rights.
#[cfg(unix)]
fn keep_owner_and_mode(new: &File, older: &Metadata) -> io::Result<()> {
    let has_group = fchown(new, None, Some(older.gid())).is_ok();
    let mode = older.mode() & if has_group { 0o777 } else { 0o707 };
    new.set_permissions(fs::Permissions::from_mode(mode))?;
    // This comes last: only the owner may set the mode.
    _ = fchown(new, Some(older.uid()), None);
    Ok(())
}

#[cfg(not(unix))]
fn keep_owner_and_mode(new: &File, older: &Metadata) -> io::Result<()> {
    new.set_permissions(older.permissions())
}

/// The path to which the symbolic links at `path` lead, even if nothing is there.
fn end_of_links(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_else(|| path.to_owned())
}

/// Whether the symbolic links at `path` lead through a process's list of open files
/// (proc_pid_fd(5)), to which `/dev/fd` leads, or through a folder `/dev/fd`.
fn leads_through_open_file(path: &Path) -> bool {
    links(path).any(|path| {
        let folder = fs::canonicalize(path.with_file_name(".")).unwrap_or_default();
        folder.starts_with("/proc") && folder.ends_with("fd") || folder == Path::new("/dev/fd")
    })
}

/// `path`, and the paths to which the symbolic links there lead, one after the other.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    /// Linux follows so many.
    const MAX_LINKS: usize = 40;

    iter::successors(Some(path.to_owned()), |path| {
        let target = fs::read_link(path).ok()?;
        let mut path = path.clone();
        path.pop();
        path.push(target);
        Some(path)
    })
    .take(MAX_LINKS + 1)
}

/// Makes a temporary file beside `path` by `create_new`, and calls `make` with its path and the
/// file. Once the file is complete, `make` moves or links it to `path`. Finally the temporary file
/// is removed.
pub(crate) fn with_temporary<F, T>(
    path: &Path,
    create_new: impl FnOnce(&Path) -> io::Result<F>,
    make: impl FnOnce(&Path, F) -> io::Result<T>,
) -> io::Result<T> {
    with_new_file(&temporary_path(path, next_number()), create_new, make)
}

/// The path of the temporary file with this number. The name also has a random part: two containers
/// may have a process of the same number each, and one folder.
fn temporary_path(path: &Path, number: u64) -> PathBuf {
    let random = random(number);
    with_suffix(path, &format!(".{}.{random:016x}.part", process::id()))
}

/// A random number. Forked children inherit the state from which std makes random numbers, so the
/// time makes theirs different.
fn random(number: u64) -> u64 {
    RandomState::new().hash_one((number, tickline::now_ns()))
}

/// Does nothing to a file that has this name already: it may be another process's. `create_new`
/// then fails.
fn with_new_file<F, T>(
    temporary: &Path,
    create_new: impl FnOnce(&Path) -> io::Result<F>,
    make: impl FnOnce(&Path, F) -> io::Result<T>,
) -> io::Result<T> {
    let file = create_new(temporary)?;
    let _removed = RemovedFile(temporary);
    make(temporary, file)
}

/// Removes the file at the end, also of a panic.
struct RemovedFile<'a>(&'a Path);

impl Drop for RemovedFile<'_> {
    fn drop(&mut self) {
        _ = fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: in two containers with one volume, process 1 of one published the unfinished file
    /// of process 1 of the other.
    #[test]
    fn two_processes_of_one_number_have_temporary_files_of_different_names() {
        let path = Path::new("box");
        assert_ne!(temporary_path(path, 7), temporary_path(path, 7));
    }

    /// Symptom: a panic's trace at `/dev/stderr` or `/dev/fd/2` replaced the log to which standard
    /// error went.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn an_open_file_of_a_process_is_not_replaced() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::symlink;

        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "a log").unwrap();
        let number = log.as_file().as_raw_fd().to_string();
        let folder = tempfile::tempdir().unwrap();
        let [files, link] = ["files", "link"].map(|name| folder.path().join(name));
        symlink("/proc/self/fd", &files).unwrap(); // as `/dev/fd`
        symlink(Path::new("files").join(&number), &link).unwrap();
        let to_root = std::env::current_dir().unwrap();
        let to_root: PathBuf = to_root.iter().skip(1).map(|_| "..").collect();
        for path in [
            Path::new("/proc/self/fd").join(&number),
            files.join(&number),
            link,
            to_root.join("proc/self/fd").join(&number),
        ] {
            let error = replace(&path, |_| Ok(())).unwrap_err().to_string();
            assert!(
                error.contains("it is an open file of a process"),
                "{path:?}: {error}"
            );
        }
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "a log");
    }

    /// A program may be in any folder, also in that of its open files.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_bare_name_in_the_folder_of_open_files_is_an_open_file() {
        use std::os::fd::AsRawFd;

        let log = tempfile::tempfile().unwrap();
        let number = log.as_raw_fd().to_string();
        let is_taken_for_another = || {
            std::env::set_current_dir("/proc/self/fd").unwrap();
            i32::from(!leads_through_open_file(Path::new(&number)))
        };
        assert_eq!(
            tickline_observe::fork::code_of_fork(is_taken_for_another),
            0
        );
    }

    /// Symptom: no trace could be written to a folder that was named through `/proc`.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn a_file_in_a_folder_that_proc_leads_to_is_no_open_file() {
        use std::os::fd::AsRawFd;

        let folder = tempfile::tempdir().unwrap();
        let open = File::open(&folder).unwrap();
        for path in [
            "/proc/self/cwd/trace.json",
            "/proc/1/root/tmp/trace.json",
            &format!("/proc/self/fd/{}/trace.json", open.as_raw_fd()),
        ] {
            assert!(!leads_through_open_file(Path::new(path)), "{path}");
        }
    }

    /// Symptom: of the children of one process, each in its own pid namespace, one failed because
    /// another one had a temporary file of the same name.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn forked_children_have_different_random_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        _ = random(7); // std's state is there before the fork
        let write = || i32::from(fs::write(&file, random(7).to_string()).is_err());
        assert_eq!(tickline_observe::fork::code_of_fork(write), 0);
        assert_ne!(fs::read_to_string(&file).unwrap(), random(7).to_string());
    }

    /// Symptom: until the file had the older one's mode, everybody could open it.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_file_that_replaces_a_private_one_is_never_public() {
        let folder = tempfile::tempdir().unwrap();
        let [private, new] = ["private", "new"].map(|name| folder.path().join(name));
        fs::write(&private, "").unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
        let older = fs::metadata(&private).unwrap();
        let created = create_for(Some(&older), &new).unwrap();
        assert_eq!(created.metadata().unwrap().mode() & 0o077, 0);
    }

    /// Symptom: the panic hook waited for a reader of the pipe.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_pipe_that_takes_the_place_of_a_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        writable(&pipe).unwrap_err();
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let _reader = options.open(&pipe).unwrap();
        let error = writable(&pipe).unwrap_err().to_string();
        let expected = "it is a device, pipe or socket, not a regular file";
        assert!(error.starts_with(expected), "{error}");
    }

    /// Symptom: each write in the background that panicked left its temporary file.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn a_panic_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, create) = (folder.path().join("box"), |path: &Path| fs::write(path, ""));
        let panics = |_: &Path, ()| -> io::Result<()> { panic!("a write") };
        std::panic::catch_unwind(|| with_temporary(&path, create, panics)).unwrap_err();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn a_file_that_has_the_temporary_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("box.1.part");
        fs::write(&temporary, "another's").unwrap();
        let result = with_new_file(&temporary, |path| fs::File::create_new(path), |_, _| Ok(()));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&temporary).unwrap(), b"another's");
    }
}
