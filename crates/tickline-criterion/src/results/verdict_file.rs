//! The file of `--verdicts`.

use std::fs;

use crate::arguments::{Options, hints};
use crate::message::Messages;
use crate::results::replace::replace;
use crate::results::verdict::Verdicts;

/// Writes the verdicts of the run's end, and prints where the file is.
pub(crate) fn store(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    store_so_far(verdicts, options)?;
    if let Some(path) = &options.verdicts {
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        Messages::Shown.print(&format_args!("the verdicts are in {}", file.display()));
    }
    Ok(())
}

/// Writes what is known so far, in case the program ends early. Another process sees the old file
/// or the new one, never a part of one.
///
/// # Errors
///
/// If the file can't be written, or if something else is in its place. The file is replaced: a link
/// such as `/dev/stdout` would become a file.
pub(crate) fn store_so_far(verdicts: &Verdicts, options: &Options) -> Result<(), String> {
    let Some(path) = &options.verdicts else {
        return Ok(());
    };
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(format!(
            "--verdicts: {}: this is a folder, a link, a stream or a device; give the path of a file",
            hints::located(path)
        ));
    }
    let text = serde_json::to_string_pretty(verdicts).map_err(|error| error.to_string())?;
    replace(path, &text).map_err(|error| format!("--verdicts: {error}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::test_folder::Folder;

    /// The result of verdicts in this file.
    fn store_in(path: &Path) -> Result<(), String> {
        let options = Options {
            verdicts: Some(path.to_owned()),
            ..Options::default()
        };
        store(&Verdicts::so_far(&options, Vec::new()), &options)
    }

    #[test]
    fn a_file_in_a_missing_folder_is_an_error() {
        let folder = Folder::new("no-folder");
        store_in(&folder.0.join("missing/file")).expect_err("no folder");
    }

    /// Symptom: "/path: Is a directory", without the option.
    #[test]
    fn the_error_of_a_folder_in_the_place_of_the_file_names_the_option() {
        let folder = Folder::new("verdicts-folder");
        let error = store_in(&folder.0).expect_err("a folder");
        let expected = format!("--verdicts: {}: this is a folder, ", folder.0.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    /// Symptom: the link became a file, and what it named stayed as it was.
    #[test]
    #[cfg(unix)]
    fn a_link_is_refused_and_stays() {
        let folder = Folder::new("verdicts-link");
        folder.write("file.json", "old");
        for target in ["file.json", "missing.json", "link", "/dev/stderr"] {
            let link = folder.0.join("link");
            std::os::unix::fs::symlink(target, &link).expect("a link");
            store_in(&link).expect_err(target);
            assert_eq!(
                fs::read_link(&link).ok().as_deref(),
                Some(Path::new(target))
            );
            fs::remove_file(link).expect("it was there");
        }
        assert_eq!(folder.read("file.json").as_deref(), Some("old"));
        assert_eq!(folder.entries(""), 1);
    }

    /// Symptom: `--verdicts /dev/stdout` with a redirected output replaced `/dev/stdout`. A test that
    /// named a device would replace it, if the refusal were broken.
    #[test]
    #[cfg(unix)]
    fn what_is_neither_a_file_nor_a_link_is_refused() {
        let folder = Folder::new("verdicts-socket");
        let socket = folder.0.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let error = store_in(&socket).expect_err("a socket");
        assert!(error.ends_with("; give the path of a file"), "{error}");
        assert_eq!(folder.entries(""), 1);
    }
}
