//! Whether the kernel keeps a page in memory. The limit of locked memory and the locked memory are
//! those of a whole process, so a child makes the page.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{capabilities, set_capabilities};
use tickline_observe::skip;
use tickline_page::page_file::LockedPageFile;

use crate::writer::{folder, given_page, output_of};

/// The child process of the tests below. Does nothing by itself. Root would be above the
/// limit by a capability.
#[test]
fn role_locks_a_page() {
    let Some(page) = given_page() else { return };
    let mut own = capabilities(None).unwrap();
    own.effective.remove(own.effective);
    set_capabilities(None, own).unwrap();
    let writer = LockedPageFile::create(&page).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let by_kernel = locked.unwrap().trim() != "0 kB";
    println!(
        "said: locked: {}, by the kernel: {by_kernel}",
        writer.is_locked_in_memory()
    );
}

/// What a child says about a page that it makes, if `limit` is that of its locked memory.
fn said_with(limit: Rlimit) -> String {
    let (_folder, page) = folder();
    let prepare = move || Ok(setrlimit(Resource::Memlock, limit)?);
    output_of("locked::role_locks_a_page", &page, prepare).unwrap()
}

#[test]
fn a_page_that_is_locked_in_memory_counts_as_locked() {
    let limit = getrlimit(Resource::Memlock);
    if limit.current.is_some_and(|bytes| bytes < 1 << 16) {
        return skip("the limit of locked memory may be below a page here");
    }
    assert_eq!(said_with(limit), "locked: true, by the kernel: true");
}

/// A systemd unit may say so by `LimitMEMLOCK=0`.
#[test]
fn a_page_that_may_not_be_locked_in_memory_counts_as_not_locked() {
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Memlock)
    };
    assert_eq!(said_with(none), "locked: false, by the kernel: false");
}
