//! Where output goes: standard output, whose reader may leave, and files, which are whole or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::args::{Json, Target};

/// Where a command's document goes. Opened before anything is measured.
#[derive(Debug)]
pub(crate) enum Outputs {
    /// As text to standard output, and as JSON to a file where one was named.
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

    /// Writes the document to all of them; as text by `write_text`.
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

/// A reader that has seen enough is no error.
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

/// A file that will be written. Nothing is measured for a place that cannot be written to, and a file that is there stays whole
/// until the new one is complete.
#[derive(Debug)]
pub(crate) enum Destination {
    /// To be replaced by a file that is written beside it. That is made when there is something to write, so that an
    /// interrupted measurement leaves nothing.
    Replace { place: PathBuf },
    /// Something that is no regular file (a device, a pipe): it is written to as it is.
    Direct { place: PathBuf, file: File },
}

impl Destination {
    /// Looks at the place. Symbolic links are followed, so that a link stays one.
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
                // A trial, which is gone at once.
                beside(&place).map_err(fail)?;
                Ok(Self::Replace { place })
            }
        }
    }

    /// Whether both are one file, by whatever names.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        whole(self.place()) == whole(other.place())
    }

    fn place(&self) -> &PathBuf {
        match self {
            Self::Replace { place } | Self::Direct { place, .. } => place,
        }
    }

    /// Has `write` fill it, and puts it in its place.
    pub(crate) fn save(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Direct { place, mut file } => write(&mut file).map_err(|error| naming(&place, &error)),
            Self::Replace { place } => {
                let fail = |error: io::Error| naming(&place, &error);
                let mut file = beside(&place).map_err(fail)?;
                write(&mut file).map_err(fail)?;
                #[cfg(unix)]
                {
                    // A temporary file is private; a report is as readable as any other file would be.
                    use std::os::unix::fs::PermissionsExt;
                    let permissions = fs::Permissions::from_mode(mode_at(&place));
                    file.as_file().set_permissions(permissions).map_err(fail)?;
                }
                file.persist(&place).map_err(|error| fail(error.error))?;
                Ok(())
            }
        }
    }
}

/// A temporary file in the folder of `place`.
fn beside(place: &Path) -> io::Result<NamedTempFile> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The system's own error where there is no folder: that of `tempfile` hides its number, and says "entity not found".
    fs::metadata(folder)?;
    tempfile::Builder::new().prefix(".tickline-").tempfile_in(folder)
}

/// The file that `path` leads to, also if it does not exist yet.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (fs::read_link(path), path.parent()) {
        (Ok(target), Some(folder)) => folder.join(target),
        _ => path.to_owned(),
    })
}

/// The error with the path it is about, in the system's words alone: those of `tempfile` name the temporary file.
pub(crate) fn naming(path: &Path, error: &io::Error) -> io::Error {
    let plain = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
    io::Error::new(error.kind(), format!("{}: {plain}", path.display()))
}

/// The mode of the file that is replaced; for a new one, readable by everybody.
#[cfg(unix)]
fn mode_at(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).map_or(0o644, |metadata| metadata.permissions().mode() & 0o777)
}
