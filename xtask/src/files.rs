//! Files of the workspace: read whole, and replaced whole.

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The text of a file.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = root().join(path);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts `text` in the place of the file, which is never seen half-written.
pub(crate) fn store(path: impl AsRef<Path>, text: &str) -> Result<(), String> {
    let path = root().join(path);
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let written = fs::create_dir_all(path.parent().unwrap_or(root()))
        .and_then(|()| fs::write(&new, text))
        .and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| {
        fs::remove_file(&new).ok();
        format!("{}: {error}", path.display())
    })
}

/// What is in a folder; nothing if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}
