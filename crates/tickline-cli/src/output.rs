//! Where output goes: to files, and to standard output, whose reader may leave early.
//!
//! A regular file is replaced as a whole: the new one is written beside it, gets its mode, and
//! takes its name, so that nobody reads half a file, and a failed write leaves the old one.
//! Anything else, such as a device or a pipe, is written in place. A link is followed. The kernel
//! resolves the name first, so its protection of links and files in shared folders
//! (`fs.protected_*`, proc_sys_fs(5)) applies.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::args::{Json, Target};

/// Where a command's document goes. It is opened before the measurement begins.
#[derive(Debug)]
pub(crate) enum Outputs {
    /// As text to standard output, and as JSON to a file if the user names one.
    Text(Option<Destination>),
    /// As JSON to standard output.
    Json,
}

impl Outputs {
    pub(crate) fn open(json: &Json) -> io::Result<Self> {
        Ok(match json.target.as_ref().map(Place::open).transpose()? {
            Some(Place::Stdout) => Self::Json,
            Some(Place::File(file)) => Self::Text(Some(file)),
            None => Self::Text(None),
        })
    }

    /// Opens the place of a second document, `option` of the command line.
    ///
    /// # Errors
    ///
    /// If the place cannot be written, or is that of the JSON.
    pub(crate) fn open_beside(&self, option: &str, target: &Target) -> io::Result<Place> {
        let taken = |name: &dyn std::fmt::Display| {
            Err(io::Error::other(format!("{option} {name} and --json name one place: choose two")))
        };
        match (Place::open(target)?, self) {
            (Place::Stdout, Self::Json) => taken(&"-"),
            (Place::File(file), Self::Text(Some(json))) if json.name == file.name => {
                taken(&file.path.display())
            }
            (place, _) => Ok(place),
        }
    }

    /// Writes the document to all outputs; `write_text` writes it as text.
    pub(crate) fn emit(
        self,
        document: &impl Serialize,
        write_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Json => to_stdout(|out| write_json(document, out)),
            Self::Text(file) => {
                if let Some(file) = file {
                    file.save(|out| write_json(document, out))?;
                }
                text_to_stdout(write_text)
            }
        }
    }
}

/// A place to which a document is written.
#[derive(Debug)]
pub(crate) enum Place {
    Stdout,
    File(Destination),
}

impl Place {
    pub(crate) fn open(target: &Target) -> io::Result<Self> {
        Ok(match target {
            Target::Stdout => Self::Stdout,
            Target::File(path) => Self::File(Destination::open(path)?),
        })
    }
}

/// A file to be written. A place that cannot be written is an error before the measurement.
#[derive(Debug)]
pub(crate) struct Destination {
    /// As the user names it.
    path: PathBuf,
    /// Without links.
    name: PathBuf,
    /// What is written in place: no regular file.
    stream: Option<File>,
}

impl Destination {
    /// Checks the place.
    fn open(path: &Path) -> io::Result<Self> {
        let stream = Self::find(path).map_err(|error| naming(path, &error))?;
        let name = without_links(path);
        if stream.is_none() {
            // A trial: the temporary file is removed at once.
            beside(&name).map_err(|error| naming(path, &error))?;
        }
        Ok(Self { path: path.to_owned(), name, stream })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn find(path: &Path) -> io::Result<Option<File>> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
                // The kernel would create the file that the link names, whoever made the link.
                Ok(_) => Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to a missing file")),
                Err(_) => Ok(None),
            },
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            // A descriptor's name (`/dev/fd/3`) may lead to a regular file, which is not to be
            // replaced.
            Ok(found) if !found.is_file() || path.starts_with("/dev") || path.starts_with("/proc") => {
                File::options().append(true).open(path).map(Some)
            }
            // With `create`, which creates nothing here, the kernel also refuses a file that
            // another user has left in a shared folder (`fs.protected_regular`).
            found => {
                found?;
                File::options().append(true).create(true).open(path).map(|_| None)
            }
        }
    }

    /// Lets `write` fill the file, and puts it in its place.
    pub(crate) fn save(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        // Nothing is touched before the document is complete.
        let mut content = Vec::new();
        write(&mut content).and_then(|()| self.put(&content)).map_err(|error| naming(&self.path, &error))
    }

    fn put(&self, content: &[u8]) -> io::Result<()> {
        if let Some(mut stream) = self.stream.as_ref() {
            return match stream.write_all(content) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                result => result,
            };
        }
        let mut new = beside(&self.name)?;
        new.write_all(content)?;
        take_mode(new.as_file(), &self.name)?;
        new.persist(&self.name)?;
        Ok(())
    }

    /// The file, empty, for content that grows: a regular file is not replaced, but emptied.
    pub(crate) fn stream(self) -> io::Result<File> {
        self.stream.map_or_else(|| File::create(&self.name), Ok).map_err(|error| naming(&self.path, &error))
    }
}

/// A temporary file in the folder of `name`, for its owner alone.
fn beside(name: &Path) -> io::Result<NamedTempFile> {
    let folder = folder(name);
    // For a missing folder this gives the system's error; `tempfile` says "entity not found".
    fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tickline-");
    #[cfg(unix)]
    if !name.exists() {
        // The process's umask applies, as to any new file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    // `tempfile` would name the temporary file.
    builder.tempfile_in(folder).map_err(|error| error.kind().into())
}

/// Gives the new file owner, group and mode of the one that it replaces; without the group's rights
/// where the group cannot be the same.
#[cfg(unix)]
fn take_mode(new: &File, name: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(old) = fs::metadata(name) else { return Ok(()) };
    let is_theirs = fchown(new, Some(old.uid()), Some(old.gid())).is_ok();
    let mode = old.permissions().mode() & if is_theirs { 0o777 } else { 0o707 };
    new.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn take_mode(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The folder of a file. That of a bare name is `.`.
fn folder(name: &Path) -> &Path {
    name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path without links; its file need not exist.
fn without_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (fs::canonicalize(folder(path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    })
}

/// Writes to standard output. A reader that leaves early is not an error.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(io::stdout().lock(), write)
}

/// The same, without colours where the output is not a terminal, or the terminal has none, or
/// `NO_COLOR` is set.
pub(crate) fn text_to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(anstream::stdout().lock(), write)
}

fn write_to(mut out: impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes the document and a line break.
fn write_json(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// The error with its path.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
