//! Tests of pages in a user namespace, where the owner of a page may not be known.

#![allow(unsafe_code, reason = "namespaces and mounts")]

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::ptr;

use libc::{MS_BIND, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT};
use tickline_observe::skip;
use tickline_page::page_file::{AttachedFile, LockedPageFile};

use super::writer::{folder, given_page, output_of};

fn to_result(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The child process of the tests below. Does nothing by itself.
#[test]
fn role_opens_a_page() {
    if let Some(page) = given_page() {
        println!(
            "said: {}",
            AttachedFile::open(&page).map_or_else(|error| error.to_string(), |_| "yes".into())
        );
    }
}

/// A user namespace without any user. It shows each owner as 65534.
const UNMAPPED_USERS: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;

/// Opens `page` in a child process in new namespaces, where `path` is mounted upon itself. Returns
/// the child's line of output. An error if the kernel does not make such namespaces.
fn opened(
    namespaces: libc::c_int,
    page: &Path,
    path: &Path,
    flags: libc::c_ulong,
) -> io::Result<String> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let enter_namespaces = move || {
        // SAFETY: the call takes a number. The process has one thread, a condition of this call.
        to_result(unsafe { libc::unshare(namespaces) })?;
        // No mount of this process may appear outside.
        let (null, private) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: each pointer is null, or a string that ends with zero.
        to_result(unsafe { libc::mount(null, c"/".as_ptr(), null, private, ptr::null()) })?;
        for (source, flags) in [
            (path.as_ptr(), MS_BIND),
            (
                ptr::null(),
                MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | flags,
            ),
        ] {
            // SAFETY: each pointer is null, or a string that ends with zero.
            to_result(unsafe {
                libc::mount(source, path.as_ptr(), ptr::null(), flags, ptr::null())
            })?;
        }
        Ok(())
    };
    output_of("namespaces::role_opens_a_page", page, enter_namespaces)
}

/// Symptom: no process in a rootless container was served.
#[test]
fn a_page_of_an_unknown_owner_counts_if_it_is_mounted_by_itself_and_read_only() {
    let (above, folder) = folder();
    let page = folder.join("page");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    if let Err(error) = opened(UNMAPPED_USERS, &page, &folder, 0) {
        return skip(format_args!(
            "no mount in a user namespace can be made here: {error}"
        ));
    }
    for (path, flags, is_trusted) in [
        (&*folder, MS_RDONLY, true),
        (&*page, MS_RDONLY, true),
        (&*folder, 0, false),
        (&*page, 0, false),
        // A sandbox may mount the whole tree read-only, and with it the files of all users.
        (above.path(), MS_RDONLY, false),
    ] {
        let found = opened(UNMAPPED_USERS, &page, path, flags).unwrap();
        let refused = "belongs to user 65534, which stands for every user outside of this user \
                       namespace";
        let is_as_expected = if is_trusted {
            found == "yes"
        } else {
            found.contains(refused)
        };
        assert!(
            is_as_expected,
            "{} with flags {flags}: {found}",
            path.display()
        );
    }
    // A page that other users may write to does not count, whatever its mount.
    fs::set_permissions(&page, Permissions::from_mode(0o646)).unwrap();
    assert!(
        opened(UNMAPPED_USERS, &page, &folder, MS_RDONLY)
            .unwrap()
            .contains("others may write")
    );
}

/// Symptom: root trusted the page of a user who had mapped the owners of a mount.
#[test]
fn user_65534_is_not_trusted_in_the_first_user_namespace() {
    let (_folder, page) = folder();
    drop(LockedPageFile::create(&page).unwrap());
    let is_first =
        fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"));
    if !is_first || chown(&page, Some(65_534), None).is_err() {
        return skip("only root of the first user namespace can give a file away");
    }
    match opened(libc::CLONE_NEWNS, &page, &page, MS_RDONLY) {
        Ok(found) => assert!(found.contains("belongs to user 65534 (nobody)"), "{found}"),
        Err(error) => skip(format_args!("no mount can be made here: {error}")),
    }
}
