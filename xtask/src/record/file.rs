//! Files: read whole, and replaced whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Longer names of processors are cut.
const LONGEST: usize = 60;

/// `text` as a part of a file name: small letters and digits, with single hyphens for everything
/// else.
pub(super) fn sanitised(text: &str) -> String {
    let letters = text.chars().map(|letter| letter.to_ascii_lowercase());
    let words: String =
        letters.map(|letter| if letter.is_ascii_alphanumeric() { letter } else { ' ' }).collect();
    let mut name = words.split_whitespace().collect::<Vec<_>>().join("-");
    name.truncate(LONGEST); // ASCII alone is left
    let name = name.trim_end_matches('-');
    if name.is_empty() { "unknown".into() } else { name.into() }
}

/// The file's text.
pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts `text` in the place of the file, which is never seen half-written: it goes to a new file
/// beside it first.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), String> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = write(Path::new(&new), text).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        fs::remove_file(&new).ok();
        format!("{}: {error}", path.display())
    })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processors_become_file_names() {
        assert_eq!(sanitised("AMD EPYC 9R45"), "amd-epyc-9r45");
        assert_eq!(
            sanitised("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"),
            "intel-r-xeon-r-gold-6230-cpu-2-10ghz"
        );
        assert_eq!(sanitised("../../etc/passwd\0 Ä"), "etc-passwd");
        assert_eq!(sanitised(""), "unknown");
        assert_eq!(sanitised("©®"), "unknown");
        let long = sanitised(&"ab ".repeat(100));
        assert!(long.len() <= LONGEST && !long.ends_with('-'), "{long}");
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("tickline-record-{}", std::process::id()));
        let path = folder.join("deep/record.json");
        replace(&path, "one").unwrap();
        replace(&path, "two").unwrap();
        assert_eq!(read(&path).unwrap(), "two");
        // A folder stands where the file should go: nothing is left beside it.
        let taken = folder.join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        let message = replace(&taken, "three").unwrap_err();
        assert!(message.contains("taken"), "{message}");
        assert!(taken.join("inside").is_dir());
        assert!(!folder.join("taken.new").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
