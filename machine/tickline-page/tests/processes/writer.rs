//! Tests that other processes know a page's writer. A child executes this test program again.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tickline_observe::skip;
use tickline_page::page_file::{LockHolder, LockedPageFile, lock_holder};

/// The environment variable that has the page's path in a child process.
pub(crate) const PAGE: &str = "TICKLINE_TEST_PAGE";

/// Makes a trusted folder, and the path of a page in it.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let page = folder.path().join("page");
    (folder, page)
}

/// The page's path, in a child process.
pub(crate) fn given_page() -> Option<PathBuf> {
    std::env::var_os(PAGE).map(PathBuf::from)
}

/// Runs `test` in a child process, after `prepare`. Returns its output after `said: `.
pub(crate) fn output_of(
    test: &str,
    page: &Path,
    prepare: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", test, "--nocapture"])
        .env(PAGE, page);
    // SAFETY: between fork and exec, `prepare` makes only system calls.
    let output = unsafe { command.pre_exec(prepare) }.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find_map(|line| Some(line.split_once("said: ")?.1.to_owned()));
    Ok(line.unwrap_or_else(|| panic!("{text}")))
}

/// The child process of the test below. Does nothing by itself.
#[test]
fn role_asks_for_the_writer() {
    if let Some(page) = given_page() {
        println!("said: {:?}", lock_holder(&page).unwrap());
    }
}

/// What another process says about the page's writer.
fn writer_by_child(page: &Path) -> String {
    output_of("writer::role_asks_for_the_writer", page, || Ok(())).unwrap()
}

/// What a process says of a page whose writer is this process.
fn this_process() -> String {
    format!("{:?}", LockHolder::Process(std::process::id()))
}

#[test]
fn a_writer_is_known_to_other_processes() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    assert_eq!(writer_by_child(&page), this_process());
}

#[test]
fn a_page_without_a_writer_has_none() {
    let (_folder, page) = folder();
    drop(LockedPageFile::create(&page).unwrap());
    assert_eq!(
        lock_holder(&page).unwrap(),
        LockHolder::None,
        "no writer any more"
    );
    assert_eq!(writer_by_child(&page), "None");
}

/// A container may have the page alone.
#[test]
fn without_its_lock_a_pages_writer_is_unknown() {
    let (_folder, page) = folder();
    let error = lock_holder(&page).unwrap_err().to_string();
    assert!(error.contains("page.lock: it can't be opened: "), "{error}");
}

#[test]
fn a_second_writer_is_refused_with_the_number_of_the_first() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    let error = LockedPageFile::create(&page).unwrap_err().to_string();
    let process = std::process::id();
    let expected =
        format!("process {process} serves this page; a page has one server: stop that one");
    assert!(error.contains(&expected), "{error}");
}

/// A process that closes a lock file loses its fcntl(2) lock of it.
#[test]
fn a_writer_stays_known_after_a_second_one_was_refused() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    LockedPageFile::create(&page).unwrap_err();
    assert_eq!(writer_by_child(&page), this_process());
}

/// As above.
#[test]
fn a_writer_stays_known_after_its_own_process_has_asked() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    let asked = lock_holder(&page).unwrap();
    assert_eq!(asked.pid(), Some(std::process::id()));
    assert_eq!(writer_by_child(&page), this_process());
}

/// Symptom: `serve status` in a container said that the server had stopped.
#[test]
fn a_writer_outside_of_the_pid_namespace_is_known_to_exist() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    let output = Command::new("unshare")
        .args(["--pid", "--fork"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "writer::role_asks_for_the_writer", "--nocapture"])
        .env(PAGE, &page)
        .output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    if !said.contains("said: ") {
        return skip(format_args!("no pid namespace: {said}"));
    }
    assert!(said.contains("said: Invisible"), "{said}");
}
