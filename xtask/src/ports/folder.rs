//! A published crate's sources, laid out to be built: as they are, or with lines replaced.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, Result, failed};

/// Lays out `source` in `folder`, and says what is changed. Replaces `edits` in each line within the
/// folder `edited` that is one, and appends `dependency` to its manifest.
///
/// Files that are right already keep their time, so that cargo builds nothing twice.
pub(super) fn lay(
    source: &Path,
    folder: &Path,
    edited: &str,
    edits: &[(&str, &str)],
    dependency: Option<&str>,
) -> Result<String> {
    let files = files(source)?;
    remove_others(folder, &files)?;
    let (mut changed_lines, mut changed_files) = (0, 0);
    for file in &files {
        let mut content = fs::read(source.join(file)).map_err(failed("its sources"))?;
        let text = std::str::from_utf8(&content).ok().filter(|_| file.starts_with(edited));
        if let Some((text, count)) = text.and_then(|text| edit(text, edits)) {
            content = text.into_bytes();
            changed_lines += count;
            changed_files += 1;
        }
        if let (Some(dependency), true) = (dependency, file == Path::new("Cargo.toml")) {
            content.extend(dependency.bytes());
        }
        write(&folder.join(file), &content)?;
    }
    match (edits.is_empty(), changed_lines) {
        (true, _) => Ok("0 lines changed, one dependency patched".to_owned()),
        (false, 0) => Err(Failure::Failed("none of the lines to be replaced is in its sources".to_owned())),
        (false, lines) => Ok(format!("{lines} lines changed in {changed_files} files, one dependency added")),
    }
}

/// All files below `source`, as paths from there.
fn files(source: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut files, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(source.join(&folder)).map_err(failed("its sources"))? {
            let entry = entry.map_err(failed("its sources"))?;
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// Removes what an earlier layout has left behind.
fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> Result<()> {
    if folder.exists() {
        for other in self::files(folder)?.difference(files) {
            fs::remove_file(folder.join(other)).map_err(failed("an old file"))?;
        }
    }
    Ok(())
}

/// Writes a file, unless it has that content.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("a folder"))?;
    }
    // What cargo unpacks may be read-only, so nothing is copied but the content.
    fs::write(path, content).map_err(failed("a file"))
}

/// The text with each line replaced that is one of `edits`, indented or not, and how many there
/// were; `None` if none.
fn edit(text: &str, edits: &[(&str, &str)]) -> Option<(String, usize)> {
    let (mut edited, mut count) = (String::with_capacity(text.len()), 0);
    for line in text.split_inclusive('\n') {
        match edits.iter().find(|(from, _)| line.trim() == *from) {
            Some((from, to)) => {
                edited += &line.replace(from, to);
                count += 1;
            }
            None => edited += line,
        }
    }
    (count > 0).then_some((edited, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_replaced() {
        let edits = [("use a::B;", "use c::B;")];
        assert_eq!(
            edit("use a::B;\n// use a::B;\n", &edits),
            Some(("use c::B;\n// use a::B;\n".to_owned(), 1))
        );
        assert_eq!(edit("x\n    use a::B;\r\ny", &edits), Some(("x\n    use c::B;\r\ny".to_owned(), 1)));
        assert_eq!(edit("use a::Bc;\n", &edits), None);
    }
}
