//! The file of the library of `tickline run`: where it is looked for, and which processes have it
//! mapped.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use tickline_page::program::LIBRARY;

/// Where packages of several distributions, and installations by hand, put libraries.
const SYSTEM_FOLDERS: [&str; 4] = [
    "/usr/local/lib",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
];

/// The folders where the program with this file looks for the library, in this order: its own
/// folder, as in a container; the folder `lib` beside that one; the folders of the system.
pub(crate) fn folders(program: &Path) -> Vec<PathBuf> {
    let root = Path::new("/");
    let own = program.parent().unwrap_or(root);
    let beside = own.parent().unwrap_or(root).join("lib");
    let system = SYSTEM_FOLDERS.into_iter().map(PathBuf::from);
    let mut folders = vec![own.to_owned(), beside];
    for folder in system {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// What has the library's name in these folders, each once, without links.
pub(crate) fn files_in(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in folders {
        if let Ok(file) = fs::canonicalize(folder.join(LIBRARY))
            && !files.contains(&file)
        {
            files.push(file);
        }
    }
    files
}

/// Whether this is the path of a file with the library's name.
pub(crate) fn is_named_so(path: &str) -> bool {
    path.rsplit('/').next() == Some(LIBRARY)
}

/// A file as `/proc/PID/maps` states it: the fourth and the fifth word of a line
/// (proc_pid_maps(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MappedFile {
    device: String,
    inode: String,
}

impl MappedFile {
    /// The file at this path.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        Ok(Self {
            device: format!("{:02x}:{:02x}", major(file.dev()), minor(file.dev())),
            inode: file.ino().to_string(),
        })
    }

    /// Whether this line of `maps` is a mapping of the file.
    pub(super) fn is_in(&self, line: &str) -> bool {
        line.split_ascii_whitespace()
            .skip(3)
            .take(2)
            .eq([&self.device, &self.inode])
    }
}

/// The library's files that this program finds, by which processes that have the library are known.
#[derive(Debug)]
pub(super) struct InstalledLibrary(Vec<MappedFile>);

impl InstalledLibrary {
    pub(super) fn find() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        let folders = folders(&program);
        let files = files_in(&folders).into_iter();
        Self(
            files
                .filter_map(|path| MappedFile::at(&path).ok())
                .collect(),
        )
    }

    /// Whether the process with these `maps` has the library: a file of the library's name, or an
    /// installed one that has another name in the process. The name alone decides for a copy, after
    /// an upgrade, and where `maps` states another device than stat(2), as on btrfs. So another
    /// file of exactly this name counts, too.
    pub(super) fn is_in(&self, maps: &str) -> bool {
        maps.lines()
            .any(|line| has_librarys_name(line) || self.0.iter().any(|file| file.is_in(line)))
    }
}

/// Whether a line of `maps` has a path with the library's name. A file that was replaced is
/// `(deleted)`.
fn has_librarys_name(line: &str) -> bool {
    let path = line.splitn(6, ' ').nth(5).unwrap_or_default();
    is_named_so(path.strip_suffix(" (deleted)").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders_of(program: &str) -> Vec<PathBuf> {
        folders(Path::new(program))
    }

    /// Symptom: a copy of the program did not find the package's library.
    #[test]
    fn a_program_in_any_folder_finds_the_library_of_a_package() {
        for program in ["/home/me/.cargo/bin/tickline", "/usr/local/bin/tickline"] {
            assert!(
                folders_of(program).contains(&PathBuf::from("/usr/lib")),
                "{program}"
            );
        }
    }

    #[test]
    fn the_folders_beside_the_program_come_first() {
        let folders = folders_of("/opt/tickline/bin/tickline");
        assert_eq!(
            folders[..2],
            ["/opt/tickline/bin", "/opt/tickline/lib"].map(PathBuf::from)
        );
    }

    #[test]
    fn no_folder_is_tried_twice() {
        let mut folders = folders_of("/usr/bin/tickline");
        let count = folders.len();
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), count);
    }

    #[test]
    fn a_program_in_the_root_folder_has_its_library_there() {
        assert_eq!(folders_of("/tickline")[0], Path::new("/"));
    }

    const NONE: InstalledLibrary = InstalledLibrary(Vec::new());

    fn line(path: &str) -> String {
        format!("7f2-7f3 r-xp 00000000 fe:01 99                 {path}\n")
    }

    #[test]
    fn a_library_is_known_by_the_whole_name_of_its_file() {
        for (path, expected) in [
            ("/usr/lib/libtickline_preload.so", true),
            ("/my lib/libtickline_preload.so", true),
            ("/usr/lib/libtickline_preload.so (deleted)", true),
            // Symptom: such processes were listed as those with the library.
            ("/usr/lib/libtickline_preload.so.debug", false),
            ("/src/libtickline_preload.so/notes", false),
            ("/usr/lib/my-libtickline_preload.so", false),
            ("", false),
        ] {
            assert_eq!(NONE.is_in(&line(path)), expected, "{path}");
        }
    }

    /// Symptom: a process whose library had another name was said to read the page itself.
    #[test]
    fn an_installed_library_is_known_under_another_name() {
        let installed = InstalledLibrary(vec![MappedFile {
            device: "fe:01".to_owned(),
            inode: "99".to_owned(),
        }]);
        assert!(installed.is_in(&line("/clock.so")));
        assert!(!NONE.is_in(&line("/clock.so")));
    }

    #[test]
    fn a_mapped_file_is_known_by_device_and_inode() {
        let file = |device: &str, inode: &str| MappedFile {
            device: device.to_owned(),
            inode: inode.to_owned(),
        };
        let line = "7f0-7f1 r--s 00000000 00:19 42      /run/tickline/page.v1";
        assert!(file("00:19", "42").is_in(line));
        assert!(!file("fe:01", "42").is_in(line), "another device");
        assert!(!file("00:19", "99").is_in(line), "another inode");
        assert!(!file("00:19", "42").is_in(""), "no file");
    }
}
