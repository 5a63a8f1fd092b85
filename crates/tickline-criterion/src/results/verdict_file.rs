//! The file of `--verdicts`.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{self, Path, PathBuf};

use crate::arguments::{Options, hints};
use crate::message::Messages;
use crate::results::replace::replace;
use crate::results::verdict::Verdicts;

/// Writes what is known so far, in case that the program ends early. A stream, such as
/// `/dev/stdout`, gets only the last verdicts.
pub(crate) fn store_so_far(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    store_in(verdicts, options, |place| {
        matches!(place, Destination::File(_))
    })
    .map(drop)
}

/// Writes the verdicts of the run's end, and prints where the file is. Another process sees the
/// file before or after, and no part of it.
pub(crate) fn store(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    if let Some(Destination::File(file)) = store_in(verdicts, options, |_| true)? {
        Messages::Shown.print(&format_args!("the verdicts are in {}", file.display()));
    }
    Ok(())
}

/// Writes the verdicts if they are `wanted` in the place that the path names. Returns that place if
/// they are there.
fn store_in(
    verdicts: &Verdicts,
    options: &Options,
    wanted: impl FnOnce(&Destination) -> bool,
) -> Result<Option<Destination>, String> {
    let Some(path) = &options.verdicts else {
        return Ok(None);
    };
    let failed = |error: io::Error| format!("--verdicts: {}: {error}", hints::located(path));
    let place = Destination::of(path).map_err(failed)?;
    if !wanted(&place) {
        return Ok(None);
    }
    let text = serde_json::to_string_pretty(verdicts).map_err(|error| error.to_string())?;
    match &place {
        Destination::Output => write_to(io::stdout().lock(), &text).map_err(failed)?,
        Destination::Errors => write_to(io::stderr().lock(), &text).map_err(failed)?,
        Destination::Stream(stream) => fs::File::options()
            .append(true)
            .open(stream)
            .and_then(|stream| write_to(stream, &text))
            .map_err(failed)?,
        Destination::File(file) => {
            replace(file, &text).map_err(|error| format!("--verdicts: {error}"))?;
        }
    }
    Ok(Some(place))
}

fn write_to(mut stream: impl Write, text: &str) -> io::Result<()> {
    writeln!(stream, "{text}")?;
    stream.flush()
}

/// Where the verdicts go.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    /// This process's standard output. A second handle of a redirected one has a position of its
    /// own: what the program prints later would overwrite the verdicts.
    Output,
    /// This process's standard error.
    Errors,
    /// Another stream, such as a pipe or a device: it is written to, and never replaced. It may be
    /// redirected to a file, whose contents stay.
    Stream(PathBuf),
    /// A file, which need not exist, without symbolic links in its path: each is followed, so that
    /// no link is replaced.
    File(PathBuf),
}

impl Destination {
    /// The place that a path names.
    fn of(path: &Path) -> io::Result<Self> {
        /// As many as Linux follows.
        const MAX_LINKS: usize = 40;
        let is_special =
            |path: &Path| fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir());
        let mut next = path::absolute(path)?;
        for _ in 0..=MAX_LINKS {
            let (Some(folder), Some(name)) = (next.parent(), next.file_name()) else {
                break;
            };
            let folder = match fs::canonicalize(folder) {
                Ok(folder) => folder,
                // A device of Windows may have no folder.
                Err(_) if is_special(&next) => return Ok(Self::Stream(next)),
                Err(error) => return Err(error),
            };
            if let Some(stream) = Self::stream(&folder, name) {
                return Ok(stream);
            }
            let here = folder.join(name);
            match fs::read_link(&here) {
                Ok(target) => next = folder.join(target),
                Err(_) if is_special(&here) => return Ok(Self::Stream(here)),
                Err(_) => return Ok(Self::File(here)),
            }
        }
        Err(io::Error::other(format!(
            "this is a root, ends in .., or leads through more than {MAX_LINKS} links; give the path of a file"
        )))
    }

    /// The stream that is an entry of a folder of the system. The metadata of a redirected stream
    /// are those of a file.
    fn stream(folder: &Path, name: &OsStr) -> Option<Self> {
        // A file below `/dev/shm` is one like others.
        let is_system = ["/dev", "/proc"].iter().any(|top| folder.starts_with(top));
        if !is_system || folder.starts_with("/dev/shm") {
            return None;
        }
        let own = Path::new("/proc").join(std::process::id().to_string());
        let of_this_process = [Path::new("/dev/fd"), &own.join("fd")].contains(&folder);
        Some(match name.to_str() {
            Some("stdout") if folder == Path::new("/dev") => Self::Output,
            Some("stderr") if folder == Path::new("/dev") => Self::Errors,
            Some("1") if of_this_process => Self::Output,
            Some("2") if of_this_process => Self::Errors,
            _ => Self::Stream(folder.join(name)),
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    use crate::test_folder::Folder;

    /// A link in the folder.
    fn link(folder: &Folder, name: &str, target: &str) -> PathBuf {
        let link = folder.0.join(name);
        symlink(target, &link).expect("a link");
        link
    }

    /// Symptom: the link became a file, and what it named stayed missing.
    #[test]
    fn a_link_to_a_file_that_is_missing_is_followed() {
        let folder = Folder::new("dangling");
        let link = link(&folder, "link", "missing.json");
        let options = Options {
            verdicts: Some(link.clone()),
            ..Options::default()
        };
        store(&Verdicts::so_far(&options, Vec::new()), &options).expect("stored");
        assert!(link.is_symlink() && folder.0.join("missing.json").is_file());
    }

    #[test]
    fn links_in_a_circle_are_no_file() {
        let folder = Folder::new("circle");
        let link = link(&folder, "link", "link");
        Destination::of(&link).expect_err("no end");
    }

    #[test]
    fn a_file_in_a_missing_folder_is_an_error() {
        let folder = Folder::new("no-folder");
        Destination::of(&folder.0.join("missing/file")).expect_err("no folder");
    }

    /// Symptom: "/path: Is a directory", without the option.
    #[test]
    fn the_error_of_a_folder_in_the_place_of_the_file_names_the_option() {
        let folder = Folder::new("verdicts-folder");
        let options = Options {
            verdicts: Some(folder.0.clone()),
            ..Options::default()
        };
        let error = store(&Verdicts::so_far(&options, Vec::new()), &options);
        let error = error.expect_err("a folder");
        assert!(error.starts_with("--verdicts: /"), "{error}");
    }

    /// Symptom: `--verdicts /dev/stdout` with a redirected output replaced `/dev/stdout`.
    #[test]
    fn the_standard_streams_are_known_by_name() {
        let folder = Folder::new("streams");
        assert_eq!(
            Destination::of(Path::new("/dev/stdout")).ok(),
            Some(Destination::Output)
        );
        assert_eq!(
            Destination::of(Path::new("/dev/fd/2")).ok(),
            Some(Destination::Errors)
        );
        let link = link(&folder, "link", "/dev/stderr");
        assert_eq!(Destination::of(&link).ok(), Some(Destination::Errors));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_descriptor_that_is_an_open_file_is_a_stream() {
        use std::os::fd::AsRawFd;
        let folder = Folder::new("descriptor");
        let file = fs::File::create(folder.0.join("open")).expect("a file");
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let place = Destination::of(Path::new(&name)).expect("a place");
        assert!(matches!(place, Destination::Stream(_)), "{place:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_in_shared_memory_is_a_file() {
        let file = Path::new("/dev/shm/tickline-criterion-verdicts.json");
        let place = Path::new("/dev/shm")
            .is_dir()
            .then(|| Destination::of(file));
        let is_file = place.is_none_or(|place| matches!(place, Ok(Destination::File(_))));
        assert!(is_file);
    }
}
