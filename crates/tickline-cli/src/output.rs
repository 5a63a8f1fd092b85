//! Where output goes: standard output, whose reader may leave, and files, which are complete or
//! absent.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
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
        Ok(match &json.target {
            Some(Target::Stdout) => Self::Json,
            Some(Target::File(path)) => Self::Text(Some(Destination::open(path)?)),
            None => Self::Text(None),
        })
    }

    /// Whether the JSON goes to the file of this name.
    pub(crate) fn goes_to(&self, path: &Path) -> bool {
        matches!(self, Self::Text(Some(json)) if json.is_at(path))
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
                to_stdout(write_text)
            }
        }
    }
}

/// Writes to standard output. A reader that leaves early is no error.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::stdout().lock();
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

/// A file to be written. A place that cannot be written is an error before the measurement, and an
/// existing file stays complete until the new one replaces it.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A regular file, replaced by one that is written beside it. The new file is created after
    /// the measurement, so that an interrupted measurement leaves nothing.
    Replace { place: PathBuf },
    /// A device or a pipe, which is written in place.
    Direct { place: PathBuf, file: File },
}

impl Destination {
    /// Checks the place. It follows symbolic links, so that a link stays a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fail = |error: io::Error| naming(path, &error);
        let place = followed(path);
        match fs::metadata(&place) {
            Ok(found) if found.is_dir() => Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(&place).map_err(fail)?;
                Ok(Self::Direct { place, file })
            }
            _ => {
                // A trial: the temporary file is removed at once.
                beside(&place).map_err(fail)?;
                Ok(Self::Replace { place })
            }
        }
    }

    /// Whether `path` leads to this file.
    fn is_at(&self, path: &Path) -> bool {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (Self::Replace { place } | Self::Direct { place, .. }) = self;
        whole(place) == whole(&followed(path))
    }

    /// Lets `write` fill the file, and puts it in its place.
    pub(crate) fn save(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Direct { place, file } => filled(&file, write).map_err(|error| naming(&place, &error)),
            Self::Replace { place } => {
                let fail = |error: io::Error| naming(&place, &error);
                let file = beside(&place).map_err(fail)?;
                filled(file.as_file(), write).map_err(fail)?;
                #[cfg(unix)]
                if let Ok(replaced) = fs::metadata(&place) {
                    use std::os::unix::fs::PermissionsExt;
                    let permissions = fs::Permissions::from_mode(replaced.permissions().mode() & 0o777);
                    file.as_file().set_permissions(permissions).map_err(fail)?;
                }
                file.persist(&place).map_err(|error| fail(error.error))?;
                Ok(())
            }
        }
    }
}

/// Lets `write` fill the file in large pieces, which shortens the time in which a signal would
/// leave a part.
fn filled(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = BufWriter::new(file);
    write(&mut buffer)?;
    buffer.flush()
}

/// A temporary file in the folder of `place`, with the permissions of a new file.
fn beside(place: &Path) -> io::Result<NamedTempFile> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // For a missing folder this gives the system's error; `tempfile` hides the error's number, and
    // says "entity not found".
    fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tickline-");
    #[cfg(unix)]
    {
        // By default it would be private. The process's umask applies, as to any new file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// The file that `path` leads to; it need not exist.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let new = match (fs::read_link(path), path.parent()) {
            (Ok(target), Some(folder)) => folder.join(target),
            _ => path.to_owned(),
        };
        // Its folder may have several names.
        let folder =
            new.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        match folder.map(fs::canonicalize).zip(new.file_name()) {
            Some((Ok(folder), name)) => folder.join(name),
            _ => new,
        }
    })
}

/// The error with its path, in the system's words alone, since those of `tempfile` name the
/// temporary file.
pub(crate) fn naming(path: &Path, error: &io::Error) -> io::Error {
    let plain = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
    io::Error::new(error.kind(), format!("{}: {plain}", path.display()))
}
