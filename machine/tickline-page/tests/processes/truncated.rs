//! The owner of a page can end its readers. The child executes this test program again.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use tickline_page::page_file::{AttachedFile, LockedPageFile};

use crate::writer::{PAGE, folder, given_page};

/// The child process of the test below. Does nothing by itself.
#[test]
fn role_reads_a_page_that_is_truncated() {
    if let Some(page) = given_page() {
        let attached = AttachedFile::open(&page).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
        file.set_len(0).unwrap();
        std::hint::black_box(attached.file().page().header());
    }
}

/// What `tickline_page::open` and the README say.
#[test]
fn a_page_that_its_owner_truncates_ends_its_readers_by_sigbus() {
    let (_folder, page) = folder();
    drop(LockedPageFile::create(&page).unwrap());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "truncated::role_reads_a_page_that_is_truncated"])
        .env(PAGE, &page)
        .output()
        .unwrap();
    assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
}
