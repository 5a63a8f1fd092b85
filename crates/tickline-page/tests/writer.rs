//! What other processes learn of a page's writer. Apart from other tests, which lock pages: a child
//! of a fork has its parent's locks until its exec.

#![cfg(all(feature = "file", target_os = "linux"))]
#![allow(unsafe_code, reason = "a time namespace")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tickline_page::{Machine, PageWriter, writer_of};

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let page = folder.path().join("page");
    (folder, page)
}

/// Not a test of its own: another process, in the test below.
#[test]
fn asks_for_the_writer() {
    if let Some(page) = std::env::var_os("TICKLINE_TEST_PAGE") {
        println!("writer: {:?}", writer_of(Path::new(&page)).unwrap());
    }
}

/// Whoever closes a file loses its locks by fcntl(2).
#[test]
fn a_writer_stays_known_to_other_processes() {
    let (_folder, page) = folder();
    let told = || {
        let mut asks = Command::new(std::env::current_exe().unwrap());
        asks.args(["--exact", "asks_for_the_writer", "--nocapture"]).env("TICKLINE_TEST_PAGE", &page);
        let output = asks.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| Some(line.split_once("writer: ")?.1.to_owned()));
        line.unwrap_or_else(|| panic!("{text}"))
    };
    let own = Some(std::process::id());
    let writer = PageWriter::create(&page).unwrap();
    assert_eq!(told(), format!("{own:?}"));
    let error = PageWriter::create(&page).unwrap_err().to_string();
    assert!(error.contains(&format!("process {} serves", std::process::id())), "{error}");
    assert_eq!(told(), format!("{own:?}"), "after a second writer was refused");
    assert_eq!(writer_of(&page).unwrap(), own);
    assert_eq!(told(), format!("{own:?}"), "after this process has asked");
    drop(writer);
    assert_eq!((told(), writer_of(&page).unwrap()), ("None".to_owned(), None));
}

/// Not a test of its own: a process in a time namespace whose children would get another one, so
/// that it cannot know its own offset.
#[test]
fn serves_in_a_namespace() {
    let Some(page) = std::env::var_os("TICKLINE_TEST_NAMESPACE") else { return };
    if Machine::find().unwrap().time_namespace == INITIAL_NAMESPACE {
        println!("made: SKIPPED: this process's child is in no other time namespace");
        return;
    }
    PageWriter::create(Path::new(&page)).unwrap();
    // What `/proc/self` tells is of a process's first thread, and this is not the first one.
    // SAFETY: libc lets a child of a fork allocate.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: children get another namespace; nothing else changes.
        let unshared = unsafe { libc::unshare(libc::CLONE_NEWTIME) };
        let text =
            PageWriter::create(Path::new(&page)).map_or_else(|error| error.to_string(), |_| String::new());
        let is_refused = unshared == 0 && text.contains("time namespace") && text.contains("is not known");
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_refused { REFUSED } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    println!("made: {}", libc::WEXITSTATUS(status));
}

/// The exit code of that process's child.
const REFUSED: i32 = 42;

/// Linux, `linux/proc_ns.h`, `PROC_TIME_INIT_INO`.
const INITIAL_NAMESPACE: u64 = 0xefff_fffa;

#[test]
fn no_page_is_made_where_the_offset_is_not_known() {
    let (_folder, page) = folder();
    let mut serves = Command::new(std::env::current_exe().unwrap());
    serves.args(["--exact", "serves_in_a_namespace", "--nocapture"]);
    serves.env("TICKLINE_TEST_NAMESPACE", &page);
    let unshare = || {
        // SAFETY: children, and the program that is executed next, get another namespace.
        match unsafe { libc::unshare(libc::CLONE_NEWTIME) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call between fork and exec.
    let output = match unsafe { serves.pre_exec(unshare) }.output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED: there is no time namespace for this user: {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let made = text.lines().find_map(|line| line.split_once("made: ")).unwrap_or_else(|| panic!("{text}")).1;
    if made.starts_with("SKIPPED") {
        println!("{made}");
        return;
    }
    assert_eq!(made, REFUSED.to_string());
}
