//! Reads and replaces whole files of the workspace, and makes and removes folders.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// The folder in which cargo builds.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The text of a file.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = root().join(path);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a folder, and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a folder with all that is in it, if there is one.
pub(crate) fn remove_folder(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Replaces the file by `text`. No reader ever sees the file half-written.
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

/// Splits a file's text at its block: the text before, between and after the markers `<!-- NAME
/// -->` and `<!-- /NAME -->`. The text must have each marker once.
fn parts<'a>(text: &'a str, name: &str) -> Result<[&'a str; 3], String> {
    let first = format!("<!-- {name} -->\n");
    let last = format!("<!-- /{name} -->");
    if text.matches(&first).count() != 1 || text.matches(&last).count() != 1 {
        return Err(format!(
            "it must have each of these markers once: {} and {last}",
            first.trim_end()
        ));
    }
    let start = text.find(&first).unwrap_or_default() + first.len();
    let end = text.find(&last).unwrap_or_default();
    let [before, after] = [&text[..start], &text[end..]];
    let block = text
        .get(start..end)
        .ok_or_else(|| format!("{last} is before {first}"))?;
    Ok([before, block, after])
}

/// The block of this name in a file.
pub(crate) fn block(path: &str, name: &str) -> Result<String, String> {
    let text = read(path)?;
    parts(&text, name)
        .map(|[_, block, _]| block.to_owned())
        .map_err(|why| format!("{path}: {why}"))
}

/// A file's text with the block of this name replaced.
pub(crate) fn with_block(text: &str, name: &str, block: &str) -> Result<String, String> {
    parts(text, name).map(|[before, _, after]| [before, block, after].concat())
}

/// Replaces the block of this name in a file by `block`.
pub(crate) fn store_block(path: &str, name: &str, block: &str) -> Result<(), String> {
    store(
        path,
        &with_block(&read(path)?, name, block).map_err(|why| format!("{path}: {why}"))?,
    )
}

/// A table's head with these titles.
pub(crate) fn table_head(titles: &[impl AsRef<str>]) -> String {
    let line = titles.iter().map(|title| format!(" {} |", title.as_ref()));
    let line: String = line.collect();
    format!("|{line}\n|{}\n", "---|".repeat(titles.len()))
}

/// For each of `starts`, the row that begins with it, from `new` or else from `stored`. Other rows
/// are left out.
pub(crate) fn merged(starts: &[String], new: &str, stored: &str) -> Result<String, String> {
    let row = |start: &String| {
        let mut rows = new
            .lines()
            .chain(stored.lines())
            .filter(|row| row.starts_with(start));
        rows.next()
            .map(|row| format!("{row}\n"))
            .ok_or_else(|| format!("no row is stored that begins with {start}"))
    };
    starts.iter().map(row).collect()
}

/// The entries of a folder; none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n";

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let new = with_block(TEXT, "a", "new\nlines\n").unwrap();
        assert_eq!(new, "before\n<!-- a -->\nnew\nlines\n<!-- /a -->\nafter\n");
        assert_eq!(with_block(&new, "a", "old\n").unwrap(), TEXT);
    }

    #[test]
    fn a_marker_that_is_missing_there_twice_or_astray_is_named() {
        for (text, expected) in [
            ("<!-- a -->\n", "<!-- /a -->"),
            ("<!-- /a -->\n", "<!-- a -->"),
            (&TEXT.repeat(2), "once"),
            (
                "<!-- /a -->\n<!-- a -->\n",
                "<!-- /a --> is before <!-- a -->",
            ),
        ] {
            let error = with_block(text, "a", "new").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(with_block(TEXT, "b", "new").is_err());
    }

    #[test]
    fn a_table_has_new_rows_or_else_the_stored_ones_and_no_others() {
        let starts = ["| one |", "| two |"].map(str::to_owned);
        let stored = "head\n| two | old |\n| one | old |\n| gone | old |\n";
        let table = merged(&starts, "| one | new |\n", stored).unwrap();
        assert_eq!(table, "| one | new |\n| two | old |\n");
        let error = merged(&starts, "| one | new |\n", "").unwrap_err();
        assert!(error.contains("| two |"), "{error}");
    }

    /// A folder of a test, which must remove it.
    fn folder_of(test: &str) -> PathBuf {
        target().join(format!("{test}-{}", std::process::id()))
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = folder_of("replaced-whole");
        let path = folder.join("in/a/folder");
        for text in ["a long text", "short"] {
            store(&path, text).unwrap();
            assert_eq!(read(&path).unwrap(), text);
            assert_eq!(entries(path.parent().unwrap()), std::slice::from_ref(&path));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_is_removed_if_it_is_there() {
        let folder = folder_of("removed");
        store(folder.join("in/a/folder"), "text").unwrap();
        let removed = [remove_folder(&folder), remove_folder(&folder)];
        assert_eq!((removed, folder.exists()), ([Ok(()), Ok(())], false));
    }

    #[test]
    fn what_is_no_folder_is_not_removed_and_is_named() {
        let folder = folder_of("not-removed");
        let file = folder.join("file");
        store(&file, "text").unwrap();
        let error = remove_folder(&file).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        let named = format!("{}: ", file.display());
        assert!(error.starts_with(&named), "{error}");
    }

    #[test]
    fn a_file_that_can_not_be_replaced_leaves_nothing_behind() {
        let folder = folder_of("not-replaced");
        let path = folder.join("in/a/folder");
        store(&path, "text").unwrap();
        // A file can't be replaced by a folder's name.
        assert!(store(folder.join("in"), "new").is_err());
        assert_eq!(entries(&folder), [folder.join("in")]);
        assert_eq!(read(&path).unwrap(), "text");
        fs::remove_dir_all(folder).unwrap();
    }
}
