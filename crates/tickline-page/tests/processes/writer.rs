//! What other processes learn of a page's writer, and processes that are this test, executed again.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tickline_page::host::{LockedPageFile, writer_of};

/// The variable that has the page's path in such a process.
const PAGE: &str = "TICKLINE_TEST_PAGE";

/// A folder that may be trusted, and the path of a page in it.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let page = folder.path().join("page");
    (folder, page)
}

/// The page, in a process that is the test of another one.
pub(crate) fn given_page() -> Option<PathBuf> {
    std::env::var_os(PAGE).map(PathBuf::from)
}

/// What a test says behind `said: ` in another process, which `prepare` has changed before.
pub(crate) fn said_by(
    test: &str,
    page: &Path,
    prepare: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture"]).env(PAGE, page);
    // SAFETY: system calls between fork and exec.
    let output = unsafe { command.pre_exec(prepare) }.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| Some(line.split_once("said: ")?.1.to_owned()));
    Ok(line.unwrap_or_else(|| panic!("{text}")))
}

/// Not a test of its own: another process, in the test below.
#[test]
fn asks_for_the_writer() {
    if let Some(page) = given_page() {
        println!("said: {:?}", writer_of(&page).unwrap());
    }
}

/// A process that closes a file loses its locks by fcntl(2).
#[test]
fn a_writer_stays_known_to_other_processes() {
    let (_folder, page) = folder();
    let asked = || said_by("writer::asks_for_the_writer", &page, || Ok(())).unwrap();
    let process = std::process::id();
    let own = Some(process);
    assert_eq!(writer_of(&page).unwrap(), None);
    let writer = LockedPageFile::create(&page).unwrap();
    assert_eq!(asked(), format!("{own:?}"));
    let error = LockedPageFile::create(&page).unwrap_err().to_string();
    assert!(error.contains(&format!("process {process} serves this page; a page has one server")), "{error}");
    assert_eq!(asked(), format!("{own:?}"), "after a second writer was refused");
    assert_eq!(writer_of(&page).unwrap(), own);
    assert_eq!(asked(), format!("{own:?}"), "after this process has asked");
    drop(writer);
    assert_eq!((asked(), writer_of(&page).unwrap()), ("None".to_owned(), None));
}
