//! Files to be written.
//!
//! The program replaces a regular file of the user by a new one, which it writes beside the old
//! one, so that nobody reads half a file. It writes everything else in place, since a new file
//! would not be what the user named: a device, a pipe, a descriptor such as `/dev/stdout`, a file
//! with several hard links or with an access control list, a file of another user, a file in a
//! folder without write access, a mount point.
//!
//! The kernel resolves the name before this program does. Its protection of links, files and pipes
//! in shared folders (`fs.protected_*`, proc_sys_fs(5)) therefore applies: such a name is refused.
//! As `cp` does, the program follows other links, and refuses one that leads nowhere.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

#[cfg(unix)]
use super::descriptor;
use super::naming;

/// A place for a document. A place that cannot be written is an error before the measurement.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    place: Place,
}

/// What the path leads to.
#[derive(Debug)]
enum Place {
    /// A device, a pipe or a descriptor of the process, written from its present position.
    Stream(File),
    /// A regular file that stays: open for writing, and the reason why it is not replaced.
    Keep(File, String),
    /// A regular file to be replaced: open for writing, and its name without links.
    Replace(File, PathBuf),
    /// Nothing yet. The file is created after the measurement, so that an interrupted measurement
    /// leaves nothing.
    New,
}

impl Destination {
    /// Checks the place.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let place = Place::find(path).map_err(|error| naming(path, &error))?;
        match place {
            // The kernel would create the file that the link names, whoever made the link.
            Place::New if fs::symlink_metadata(path).is_ok() => {
                let text = format!("{}: it is a link to a missing file", path.display());
                Err(io::Error::new(io::ErrorKind::NotFound, text))
            }
            place => Ok(Self { path: path.to_owned(), place }),
        }
    }

    /// Whether `path` leads to this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let found = match &self.place {
            Place::Stream(file) | Place::Keep(file, _) | Place::Replace(file, _) => file.metadata().ok(),
            Place::New => None,
        };
        match (found, fs::metadata(path)) {
            (Some(here), Ok(there)) if cfg!(unix) && is_same(&here, &there) => true,
            _ => whole(&self.path) == whole(path),
        }
    }

    /// Lets `write` fill the file, and puts it in its place. Says on standard error why a regular
    /// file was not replaced.
    pub(crate) fn save(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        // Nothing is touched before the document is complete.
        let mut content = Vec::new();
        write(&mut content).map_err(|error| naming(&self.path, &error))?;
        let note = match self.place.put(&self.path, &content) {
            // The place has changed during the measurement.
            Ok(Put::Taken) => match Self::open(&self.path)?.place.put(&self.path, &content) {
                Ok(Put::Taken) => Err(io::ErrorKind::AlreadyExists.into()),
                put => put,
            },
            put => put,
        };
        if let Put::InPlace(reason) = note.map_err(|error| naming(&self.path, &error))? {
            let name = crate::terminal::plain(&self.path.display().to_string());
            // A failure here cannot be reported any more.
            writeln!(io::stderr(), "tickline: {name}: written in place, because {reason}").ok();
        }
        Ok(())
    }

    /// The file, empty, for content that grows: a regular file is not replaced, but emptied.
    pub(crate) fn stream(self) -> io::Result<File> {
        let opened = match self.place {
            Place::Stream(file) => Ok(file),
            Place::Keep(file, _) | Place::Replace(file, _) => file.set_len(0).map(|()| file),
            Place::New => File::create_new(&self.path),
        };
        opened.map_err(|error| naming(&self.path, &error))
    }
}

/// How a document was put in its place.
enum Put {
    Well,
    /// In place, for this reason.
    InPlace(String),
    /// Not at all: the place has changed since the start.
    Taken,
}

impl Place {
    fn find(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A trial: the temporary file is removed at once.
                beside(path, None)?;
                return Ok(Self::New);
            }
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            found => found?,
        };
        #[cfg(unix)]
        if let Some(file) = descriptor::named_by(path)? {
            return Ok(Self::Stream(file));
        }
        // With `create`, which creates nothing here, the kernel also refuses a file that another
        // user has left in a shared folder (`fs.protected_regular`).
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(Self::Stream(file));
        }
        #[cfg(unix)]
        if let Some(file) = descriptor::of_the_same_file(&found) {
            return Ok(Self::Stream(file));
        }
        if let Some(reason) = reason_to_stay(&file, &found) {
            return Ok(Self::Keep(file, reason));
        }
        match fs::canonicalize(path) {
            Ok(name) if is_at(&name, &found) => match beside(&name, Some(&found)) {
                Ok(_) => Ok(Self::Replace(file, name)),
                Err(error) if is_closed(&error) => Ok(Self::Keep(file, "its folder is closed".into())),
                Err(error) => Err(error),
            },
            _ => Ok(Self::Keep(file, "its folder is unknown".into())),
        }
    }

    fn put(self, path: &Path, content: &[u8]) -> io::Result<Put> {
        match self {
            Self::Stream(mut file) => match file.write_all(content) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                _ => Ok(Put::Well),
            },
            Self::Keep(file, reason) => overwrite(file, content, reason),
            Self::Replace(file, name) => {
                let found = file.metadata()?;
                if !is_at(&name, &found) || reason_to_stay(&file, &found).is_some() {
                    return Ok(Put::Taken);
                }
                let new = match beside(&name, Some(&found)) {
                    Err(error) if is_closed(&error) => {
                        return overwrite(file, content, "its folder is closed".into());
                    }
                    new => filled(new?, content)?,
                };
                match keep_rights(new.as_file(), &found).and_then(|()| Ok(new.persist(&name)?)) {
                    Ok(_) => Ok(Put::Well),
                    // A mount point, for example.
                    Err(error) => overwrite(file, content, format!("it could not be replaced ({error})")),
                }
            }
            Self::New => match filled(beside(path, None)?, content)?.persist_noclobber(path) {
                Ok(_) => Ok(Put::Well),
                Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(Put::Taken),
                // Some file systems can't refuse to replace.
                Err(failed) if fs::symlink_metadata(path).is_err() => {
                    failed.file.persist(path)?;
                    Ok(Put::Well)
                }
                Err(failed) => Err(failed.error),
            },
        }
    }
}

fn overwrite(mut file: File, content: &[u8], reason: String) -> io::Result<Put> {
    file.set_len(0)?;
    file.write_all(content)?;
    Ok(Put::InPlace(reason))
}

fn filled(mut file: NamedTempFile, content: &[u8]) -> io::Result<NamedTempFile> {
    file.write_all(content)?;
    Ok(file)
}

/// A temporary file in the folder of `place`. For a new file, it has the permissions of any new
/// file. If it replaces a file, it is private until it gets that file's permissions.
fn beside(place: &Path, replaced: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = place.parent().map_or(Path::new("."), named_folder);
    // For a missing folder this gives the system's error; `tempfile` hides the error's number, and
    // says "entity not found".
    fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tickline-");
    #[cfg(unix)]
    if replaced.is_none() {
        // The process's umask applies, as to any new file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = replaced;
    builder.tempfile_in(folder)
}

/// A parent folder as a path that can be opened. The parent of a bare name is empty, and becomes
/// `.`.
pub(super) fn named_folder(parent: &Path) -> &Path {
    if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
}

/// Whether the folder's rights forbid a new file.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether `name` is that file itself, and not a link to it.
fn is_at(name: &Path, found: &Metadata) -> bool {
    fs::symlink_metadata(name).is_ok_and(|there| is_same(&there, found))
}

/// The path without links; its file need not exist.
fn whole(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let folder = path.parent().map(|parent| fs::canonicalize(named_folder(parent)));
        match folder.zip(path.file_name()) {
            Some((Ok(folder), name)) => folder.join(name),
            _ => path.to_owned(),
        }
    })
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Without inode numbers, the type and the time of creation must do.
#[cfg(not(unix))]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    one.file_type() == other.file_type() && one.created().ok() == other.created().ok()
}

/// What a regular file would lose if a new one replaced it. `None` if nothing.
#[cfg(unix)]
fn reason_to_stay(file: &File, found: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Some(format!("it belongs to another user, {}", found.uid()));
    }
    if found.nlink() != 1 {
        return Some(format!("it has {} hard links", found.nlink()));
    }
    has_access_list(file).then(|| "it has an access control list".into())
}

#[cfg(not(unix))]
fn reason_to_stay(_: &File, _: &Metadata) -> Option<String> {
    None
}

/// With such a list, the group's bits of the mode are the list's mask. They would give the group of
/// a new file more rights than it had.
#[cfg(unix)]
fn has_access_list(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        let without_content: &mut [u8] = &mut [];
        rustix::fs::fgetxattr(file, "system.posix_acl_access", without_content).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

/// Gives the new file the group and the mode of the old one. Both have the same owner.
fn keep_rights(new: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        if new.metadata()?.gid() != old.gid() {
            fchown(new, None, Some(old.gid()))?;
        }
        new.set_permissions(fs::Permissions::from_mode(old.permissions().mode() & 0o777))?;
    }
    #[cfg(not(unix))]
    let _ = (new, old);
    Ok(())
}
