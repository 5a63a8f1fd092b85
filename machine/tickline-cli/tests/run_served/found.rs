//! Tests of the library that `tickline run` finds or refuses, by its version and its folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tickline_page::program::{LIBRARY, RUN_INTERFACE};

use crate::common::{copy_program, text};
use crate::served::{self, ServedPage, output};

/// A copy of the library with a change in its mark, which is the number of the interface, and the
/// version behind it: the byte at the index `changed`, of which one bit is inverted.
fn write_other(path: &Path, library: &Path, changed: usize) {
    let mut bytes = fs::read(library).unwrap();
    let mark = [
        &RUN_INTERFACE.to_le_bytes(),
        env!("CARGO_PKG_VERSION").as_bytes(),
    ]
    .concat();
    let starts: Vec<_> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(&mark))
        .collect();
    for start in &starts {
        bytes[start + changed] ^= 1;
    }
    assert!(!starts.is_empty(), "the library has no mark");
    fs::write(path, bytes).unwrap();
}

/// Symptom: the section's size alone decided.
#[test]
fn a_library_of_another_version_or_interface_is_refused() {
    let Some(library) = served::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let (first, rest) = version.split_at(1);
    let other_version = format!("{}{rest}", char::from(first.as_bytes()[0] ^ 1));
    let other_interface = RUN_INTERFACE ^ 1;
    for (changed, found) in [
        (
            0,
            format!("version {version}, interface {other_interface:08x}"),
        ),
        (
            4,
            format!("version {other_version}, interface {RUN_INTERFACE:08x}"),
        ),
    ] {
        let other = folder.path().join("other.so");
        write_other(&other, library, changed);
        let mut command = crate::common::tickline(&["run", "--always", "--library"]);
        let run = output(command.arg(&other).arg("true"));
        let expected = format!(
            "{}: this is {LIBRARY} of {found}, and this program has version {version}, interface \
             {RUN_INTERFACE:08x}: install both from one release, or build both from one commit",
            other.display()
        );
        assert!(text(&run.stderr).contains(&expected), "{run:?}");
    }
}

/// A copy of the program, in a folder `bin` beside a folder `lib` with the library.
struct Copy {
    root: TempDir,
    served: ServedPage,
}

impl Copy {
    /// `None` where no page can be served.
    fn new() -> Option<Self> {
        let served = ServedPage::new()?;
        let root = tempfile::tempdir().unwrap();
        for name in ["bin", "lib"] {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        }
        let copy = Self { root, served };
        copy_program(
            Path::new(env!("CARGO_BIN_EXE_tickline")),
            &copy.root.path().join("bin/tickline"),
        );
        copy.put_library("lib");
        Some(copy)
    }

    fn library(&self, folder: &str) -> PathBuf {
        let root = fs::canonicalize(self.root.path()).unwrap();
        root.join(folder).join(LIBRARY)
    }

    fn put_library(&self, folder: &str) {
        let library = self.library(folder);
        fs::copy(self.served.library, &library).unwrap();
        fs::set_permissions(&library, Permissions::from_mode(0o644)).unwrap();
    }

    /// Checks that `run` uses the library of this folder, and says so.
    fn assert_uses(&self, folder: &str) {
        let mut command = Command::new(self.root.path().join("bin/tickline"));
        command.args(["run", "--always", "--page"]);
        command.arg(&self.served.page);
        command.args(["sh", "-c", "echo $LD_PRELOAD"]);
        let run = output(command.env_remove("TICKLINE").env_remove("LD_PRELOAD"));
        let expected = self.library(folder).display().to_string();
        assert_eq!(text(&run.stdout).trim_end(), expected, "{run:?}");
        let says = format!(" by {expected}; ");
        assert!(text(&run.stderr).contains(&says), "{run:?}");
    }
}

#[test]
fn the_library_beside_the_program_is_used() {
    let Some(copy) = Copy::new() else {
        return;
    };
    copy.put_library("bin");
    copy.assert_uses("bin");
}

/// Symptom: root ran the code of any user, who had put a library beside a copy of the program in
/// /tmp.
#[test]
fn a_library_where_other_users_may_write_is_not_used() {
    let Some(copy) = Copy::new() else {
        return;
    };
    copy.put_library("bin");
    let bin = copy.root.path().join("bin");
    for mode in [0o1777, 0o2775] {
        fs::set_permissions(&bin, Permissions::from_mode(mode)).unwrap();
        copy.assert_uses("lib");
    }
    fs::set_permissions(&bin, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(copy.library("bin"), Permissions::from_mode(0o666)).unwrap();
    copy.assert_uses("lib");
}

#[test]
fn behind_a_library_of_another_version_the_next_one_is_used() {
    let Some(copy) = Copy::new() else {
        return;
    };
    write_other(&copy.library("bin"), copy.served.library, 4);
    copy.assert_uses("lib");
}
