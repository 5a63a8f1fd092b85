//! Writes output to files and to standard output, whose reader may exit early.
//!
//! The program replaces a regular file as a whole. It writes a new file in the same folder, gives
//! it the old file's owner, group and mode, and renames it. So no reader sees half a file, and a
//! failed write leaves the old file. The program writes to devices, pipes and descriptors
//! (`/dev/fd/3`) in place, and so it writes the rows of `watch --csv`: it empties their file first.
//! It follows links. The kernel resolves the name first, so its protection of links and files in
//! shared folders (`fs.protected_*`, proc_sys_fs(5)) applies.

#[cfg(target_os = "linux")]
mod closed_stdout;
#[cfg(unix)]
mod descriptor;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::words::{plain, plain_path, with_path};

/// The destination of a command's JSON, if the user asks for it. A command opens it before the
/// measurement begins.
#[derive(Debug)]
pub(crate) struct JsonOutput(Option<Destination>);

impl JsonOutput {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let json = path.map(|path| Destination::find(path)?.tried());
        Ok(Self(json.transpose()?))
    }

    /// Finds the destination of a second document, which `option` of the command line names.
    ///
    /// # Errors
    ///
    /// If the destination cannot be written, or is also the destination of the JSON.
    pub(crate) fn find_second(&self, option: &str, path: &Path) -> io::Result<Destination> {
        let second = Destination::find(path)?;
        if self
            .0
            .as_ref()
            .is_some_and(|json| json.resolved == second.resolved)
        {
            let path = second.path.display();
            return Err(io::Error::other(format!(
                "{option} {path} and --json name one place: write one of them to a file of its own"
            )));
        }
        Ok(second)
    }

    /// The destination of a second document, if the user asks for one; see [`Self::find_second`].
    pub(crate) fn open_second(
        &self,
        option: &str,
        path: Option<&Path>,
    ) -> io::Result<Option<Destination>> {
        path.map(|path| self.find_second(option, path)?.tried())
            .transpose()
    }

    /// Checks that the JSON does not replace a document which the command reads.
    ///
    /// # Errors
    ///
    /// If it would.
    pub(crate) fn check_inputs(&self, inputs: &[&Path]) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|json| json.check_inputs("--json", inputs))
    }

    /// Writes the document as JSON, if the user asks for it. Writes `text` to standard output,
    /// unless the JSON goes there.
    pub(crate) fn emit(self, document: &impl Serialize, text: &str) -> io::Result<()> {
        if let Some(json) = self.0 {
            json.save((serde_json::to_string_pretty(document)? + "\n").as_bytes())?;
            if json.is_stdout() {
                return Ok(());
            }
        }
        text_to_stdout(text)
    }
}

/// A file or stream to which a document is written.
#[derive(Debug)]
pub(crate) struct Destination {
    /// The path as the user gives it.
    path: PathBuf,
    /// The path without links.
    resolved: PathBuf,
    method: WriteMethod,
}

/// How the program writes to a destination.
#[derive(Debug)]
enum WriteMethod {
    Stdout,
    /// In place: a device or a pipe.
    Stream(File),
    /// By replacement: a regular file.
    Replace,
}

impl Destination {
    /// Finds the destination, and checks that this process may write to it.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let method = WriteMethod::for_path(path).map_err(|error| with_path(path, &error))?;
        if matches!(method, WriteMethod::Replace) && matches!(folder(path).try_exists(), Ok(false))
        {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("can't write {}: its folder does not exist", path.display()),
            ));
        }
        let resolved = match method {
            WriteMethod::Stdout => PathBuf::from("-"),
            _ => resolve_links(path),
        };
        Ok(Self {
            path: path.to_owned(),
            resolved,
            method,
        })
    }

    /// Checks before the measurement that [`save`](Self::save) can replace a regular file.
    pub(crate) fn tried(self) -> io::Result<Self> {
        if matches!(self.method, WriteMethod::Replace) {
            // Make a temporary file as a trial. It is removed at once.
            temporary_file_in_folder_of(&self.resolved)
                .map_err(|error| with_path(&self.path, &error))?;
        }
        Ok(self)
    }

    /// Whether a write to the destination would change this file.
    pub(crate) fn is_at(&self, file: &Path) -> bool {
        self.resolved == resolve_links(file)
    }

    /// Checks that a write to the destination, which `option` of the command line names, does not
    /// replace a document which the command reads.
    ///
    /// # Errors
    ///
    /// If it would.
    pub(crate) fn check_inputs(&self, option: &str, inputs: &[&Path]) -> io::Result<()> {
        let replaces = |input: &&Path| {
            let is_stdin = *input == Path::new("-");
            let file = if is_stdin {
                Path::new("/dev/stdin")
            } else {
                *input
            };
            self.resolved.is_file() && self.is_at(file)
        };
        match inputs.iter().copied().find(replaces) {
            Some(input) => Err(io::Error::other(format!(
                "{option} would replace {}, which this command reads: choose another file",
                input.display()
            ))),
            None => Ok(()),
        }
    }

    pub(crate) const fn is_stdout(&self) -> bool {
        matches!(self.method, WriteMethod::Stdout)
    }

    /// The destination's name for messages.
    pub(crate) fn name(&self) -> String {
        if self.is_stdout() {
            "standard output".to_owned()
        } else {
            plain_path(&self.path)
        }
    }

    /// Writes a document.
    pub(crate) fn save(&self, content: &[u8]) -> io::Result<()> {
        let saved = match &self.method {
            WriteMethod::Stdout => return to_stdout(content),
            WriteMethod::Stream(file) => write_to(file, content),
            WriteMethod::Replace => self.replace(content),
        };
        saved.map_err(|error| with_path(&self.path, &error))
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let new = temporary_file_in_folder_of(&self.resolved)?;
        // The errors of `NamedTempFile` name the temporary file.
        new.as_file().write_all(content)?;
        #[cfg(unix)]
        copy_owner_and_mode(new.as_file(), &self.resolved)?;
        new.persist(&self.resolved)?;
        Ok(())
    }

    /// A writer for content that grows. A regular file is emptied, not replaced.
    pub(crate) fn stream(self) -> io::Result<Box<dyn Write>> {
        Ok(match self.method {
            WriteMethod::Stdout => {
                check_stdout()?;
                Box::new(io::stdout())
            }
            WriteMethod::Stream(file) => Box::new(file),
            WriteMethod::Replace => Box::new(
                File::create(&self.resolved).map_err(|error| with_path(&self.path, &error))?,
            ),
        })
    }
}

impl WriteMethod {
    fn for_path(path: &Path) -> io::Result<Self> {
        if is_stdout(path) {
            return Ok(Self::Stdout);
        }
        // A write to the descriptor itself moves its offset, so that what others write there
        // follows.
        #[cfg(unix)]
        if let Some(own) = own_descriptor(path) {
            return descriptor::duplicate_for_writing(own).map(|file| Self::Stream(file.into()));
        }
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fs::symlink_metadata(path) {
                    // The kernel would create the link's target, even if another user made the
                    // link.
                    Ok(_) => Err(io::Error::new(
                        io::ErrorKind::NotFound,
                        "it is a link to a missing file",
                    )),
                    // As for `cp`. Without this, `Path` would drop the end.
                    Err(_) if names_folder(path) => Err(io::ErrorKind::NotADirectory.into()),
                    Err(_) => Ok(Self::Replace),
                }
            }
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            // The path of a descriptor may lead to a regular file. That file must keep its inode,
            // because another process may have it open.
            Ok(found) if !found.is_file() || is_descriptor(path) => {
                File::options().append(true).open(path).map(Self::Stream)
            }
            // The file exists, so `create` creates nothing. It makes the kernel refuse a file that
            // another user has left in a shared folder (`fs.protected_regular`).
            found => {
                found?;
                File::options()
                    .append(true)
                    .create(true)
                    .open(path)
                    .map(|_| Self::Replace)
            }
        }
    }
}

/// Whether a name on the command line means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .map(Path::new)
        .contains(&path)
}

/// The path of `--out`, or else standard output. `content` is what goes there, in words, and
/// `example` a name for its file.
///
/// # Errors
///
/// If it would go to a terminal without `--out`.
pub(crate) fn out_or_stdout<'a>(
    out: Option<&'a Path>,
    content: &str,
    example: &str,
) -> io::Result<&'a Path> {
    match out {
        Some(path) => Ok(path),
        None if io::stdout().is_terminal() => Err(io::Error::other(format!(
            "the {content} would go to this terminal: name a file, such as --out {example}"
        ))),
        None => Ok(Path::new("-")),
    }
}

/// Whether a path ends as that of a folder does: `new/` or `new/.`.
fn names_folder(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.strip_suffix('.')
        .unwrap_or(&path)
        .ends_with(std::path::is_separator)
}

/// Whether a path is that of an open descriptor, such as `/dev/fd/3`, which links lead to.
fn is_descriptor(path: &Path) -> bool {
    let folder = fs::canonicalize(folder(path)).unwrap_or_default();
    let is_of_process = folder.starts_with("/proc") && folder.ends_with("fd");
    is_of_process || folder == Path::new("/dev/fd") || path == Path::new("/dev/stderr")
}

/// The descriptor of this process that a path names.
#[cfg(unix)]
fn own_descriptor(path: &Path) -> Option<libc::c_int> {
    if path == Path::new("/dev/stderr") {
        return Some(libc::STDERR_FILENO);
    }
    let folder = folder(path);
    let is_own = folder == Path::new("/dev/fd")
        || fs::canonicalize(folder).ok()? == fs::canonicalize("/proc/self/fd").ok()?;
    let number = path.file_name()?.to_str()?;
    number.parse().ok().filter(|number| is_own && *number >= 0)
}

/// A temporary file in the folder of `name`, which only its owner may access if `name` exists.
fn temporary_file_in_folder_of(name: &Path) -> io::Result<NamedTempFile> {
    let mut options = File::options();
    options.write(true).create_new(true);
    // If no file is replaced, the temporary file gets the usual mode, and the umask applies.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(
        &mut options,
        if name.exists() { 0o600 } else { 0o666 },
    );
    // `make_in` returns the system's error. That of `tempfile_in` names the temporary file.
    tempfile::Builder::new()
        .prefix(".tickline-")
        .make_in(folder(name), |path| options.open(path))
}

/// Gives the new file the owner, group and mode of the file that it replaces. If this process may
/// not set the group, the group gets no rights.
#[cfg(unix)]
fn copy_owner_and_mode(new: &File, name: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(old) = fs::metadata(name) else {
        return Ok(());
    };
    let has_owner = fchown(new, Some(old.uid()), Some(old.gid())).is_ok();
    let mode = old.permissions().mode() & if has_owner { 0o777 } else { 0o707 };
    new.set_permissions(fs::Permissions::from_mode(mode))
}

/// The folder of a file; `.` for a bare name.
fn folder(name: &Path) -> &Path {
    name.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// The path without links; its file need not exist.
fn resolve_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        match (fs::canonicalize(folder(path)), path.file_name()) {
            (Ok(folder), Some(name)) => folder.join(name),
            _ => path.to_owned(),
        }
    })
}

/// Writes to standard output. A reader that exits early is not an error.
pub(crate) fn to_stdout(content: impl AsRef<[u8]>) -> io::Result<()> {
    check_stdout()?;
    write_to(io::stdout().lock(), content.as_ref()).map_err(of_stdout)
}

/// Writes text to standard output, as [`to_stdout`] does. Removes the colours if the output is not
/// a terminal, if the terminal has none, or if `NO_COLOR` is set.
pub(crate) fn text_to_stdout(text: &str) -> io::Result<()> {
    check_stdout()?;
    write_to(anstream::stdout().lock(), text.as_bytes()).map_err(of_stdout)
}

/// An error if standard output was closed when this process began: Rust's library has opened
/// `/dev/null` in its place, so that each write would succeed.
pub(crate) fn check_stdout() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if closed_stdout::was_stdout_closed() {
        return Err(of_stdout(io::Error::from_raw_os_error(libc::EBADF)));
    }
    Ok(())
}

/// The error of a write to standard output, which it names.
fn of_stdout(error: io::Error) -> io::Error {
    with_path(Path::new("standard output"), &error)
}

/// Writes a line to standard error. If that fails, the program has no way to report it.
pub(crate) fn line_to_stderr(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// Writes the message of an error, with the program's name, to standard error.
pub(crate) fn error_to_stderr(error: &dyn std::error::Error) {
    line_to_stderr(&format!("tickline: {}", plain(&error.to_string())));
}

fn write_to(mut out: impl Write, content: &[u8]) -> io::Result<()> {
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The old file may be private, and the new one has its mode only at the end.
    #[test]
    fn an_unfinished_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("run.json");
        fs::write(&old, "").unwrap();
        let new = temporary_file_in_folder_of(&old).unwrap();
        let mode = new.as_file().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn only_the_folders_of_open_descriptors_have_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("fd");
        fs::create_dir(&other).unwrap();
        for (path, is_one) in [
            (Path::new("/dev/fd/3"), true),
            (Path::new("/proc/self/fd/1"), true),
            (Path::new("/dev/stderr"), true),
            (Path::new("/proc/version"), false),
            (&other.join("3"), false),
            (Path::new("3"), false),
        ] {
            assert_eq!(is_descriptor(path), is_one, "{}", path.display());
        }
    }
}
