//! Where output goes: to files, and to standard output, whose reader may leave early.
//!
//! A regular file is replaced as a whole. The new file is written beside the old one, gets its
//! mode, and takes its name. So nobody reads half a file, and a failed write leaves the old one.
//! Anything else, such as a device or a pipe, is written in place. A link is followed. The kernel
//! resolves the name first, so its protection of links and files in shared folders
//! (`fs.protected_*`, proc_sys_fs(5)) applies.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::args::Json;
use crate::words::plain_path;

/// Where a command's document goes besides the text on standard output, or in its place. It is
/// opened before the measurement begins.
#[derive(Debug)]
pub(crate) struct Outputs(Option<Destination>);

impl Outputs {
    pub(crate) fn open(json: &Json) -> io::Result<Self> {
        Ok(Self(json.target.as_deref().map(Destination::open).transpose()?))
    }

    /// Opens the place of a second document, `option` of the command line.
    ///
    /// # Errors
    ///
    /// If the place cannot be written, or is that of the JSON.
    pub(crate) fn open_beside(&self, option: &str, path: &Path) -> io::Result<Destination> {
        let place = Destination::open(path)?;
        if self.0.as_ref().is_some_and(|json| json.resolved == place.resolved) {
            let path = place.path.display();
            return Err(io::Error::other(format!("{option} {path} and --json name one place: choose two")));
        }
        Ok(place)
    }

    /// Writes the document as JSON where the user asks for that, and `text` to standard output,
    /// unless the JSON goes there.
    pub(crate) fn emit(self, document: &impl Serialize, text: &str) -> io::Result<()> {
        if let Some(place) = self.0 {
            place.save((serde_json::to_string_pretty(document)? + "\n").as_bytes())?;
            if place.is_stdout() {
                return Ok(());
            }
        }
        text_to_stdout(text)
    }
}

/// A place to which a document is written.
#[derive(Debug)]
pub(crate) struct Destination {
    /// As the user names it.
    path: PathBuf,
    /// Without links.
    resolved: PathBuf,
    way: Way,
}

/// How a place is written to.
#[derive(Debug)]
enum Way {
    Stdout,
    /// What is no regular file, in place.
    Stream(File),
    /// A regular file, which a new one replaces.
    Replace,
}

impl Destination {
    /// Checks the place: one that cannot be written is an error before the measurement.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let way = Way::to(path).map_err(|error| naming(path, &error))?;
        let resolved = match way {
            Way::Stdout => PathBuf::from("-"),
            _ => without_links(path),
        };
        if matches!(way, Way::Replace) {
            // A trial: the temporary file is removed at once.
            beside(&resolved).map_err(|error| naming(path, &error))?;
        }
        Ok(Self { path: path.to_owned(), resolved, way })
    }

    pub(crate) const fn is_stdout(&self) -> bool {
        matches!(self.way, Way::Stdout)
    }

    /// Its name for messages.
    pub(crate) fn name(&self) -> String {
        if self.is_stdout() { "standard output".to_owned() } else { plain_path(&self.path) }
    }

    /// Writes a document.
    pub(crate) fn save(&self, content: &[u8]) -> io::Result<()> {
        let saved = match &self.way {
            Way::Stdout => return to_stdout(content),
            Way::Stream(file) => write_to(file, content),
            Way::Replace => self.replace(content),
        };
        saved.map_err(|error| naming(&self.path, &error))
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let mut new = beside(&self.resolved)?;
        new.write_all(content)?;
        #[cfg(unix)]
        take_mode(new.as_file(), &self.resolved)?;
        new.persist(&self.resolved)?;
        Ok(())
    }

    /// The place, empty, for content that grows: a regular file is not replaced, but emptied.
    pub(crate) fn stream(self) -> io::Result<Box<dyn Write>> {
        Ok(match self.way {
            Way::Stdout => Box::new(io::stdout()),
            Way::Stream(file) => Box::new(file),
            Way::Replace => {
                Box::new(File::create(&self.resolved).map_err(|error| naming(&self.path, &error))?)
            }
        })
    }
}

impl Way {
    fn to(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            _ if is_stdout(path) => Ok(Self::Stdout),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
                // The kernel would create the file that the link names, whoever made the link.
                Ok(_) => Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to a missing file")),
                Err(_) => Ok(Self::Replace),
            },
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            // A descriptor's name (`/dev/fd/3`) may lead to a regular file, which is not to be
            // replaced.
            Ok(found) if !found.is_file() || path.starts_with("/dev") || path.starts_with("/proc") => {
                File::options().append(true).open(path).map(Self::Stream)
            }
            // With `create`, which creates nothing here, the kernel also refuses a file that
            // another user has left in a shared folder (`fs.protected_regular`).
            found => {
                found?;
                File::options().append(true).create(true).open(path).map(|_| Self::Replace)
            }
        }
    }
}

/// Whether a name on the command line means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout"].map(Path::new).contains(&path)
}

/// A temporary file in the folder of `name`, only for its owner.
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
pub(crate) fn to_stdout(content: impl AsRef<[u8]>) -> io::Result<()> {
    write_to(io::stdout().lock(), content.as_ref())
}

/// The same, without colours where the output is not a terminal, or the terminal has none, or
/// `NO_COLOR` is set.
pub(crate) fn text_to_stdout(text: &str) -> io::Result<()> {
    write_to(anstream::stdout().lock(), text.as_bytes())
}

fn write_to(mut out: impl Write, content: &[u8]) -> io::Result<()> {
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The error with its path.
pub(crate) fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
