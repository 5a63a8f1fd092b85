//! Which pages count in a user namespace, where the owner of a page cannot be known.

#![allow(unsafe_code, reason = "namespaces and mounts")]

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::ptr;

use libc::{MS_BIND, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT};
use tickline_page::host::{LockedPageFile, PageFile};

use super::writer::{folder, given_page, said_by};

fn to_result(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Not a test of its own: another process, in the test below.
#[test]
fn opens_a_page() {
    if let Some(page) = given_page() {
        println!(
            "said: {}",
            PageFile::attach(&page).map_or_else(|error| error.to_string(), |_| "yes".into())
        );
    }
}

/// A user namespace without any user, so that each owner is shown as 65534.
const NOBODY: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;

/// What a process says of `page` in other namespaces, with `place` mounted there upon itself. An
/// error if there can be no such namespaces.
fn opened(spaces: libc::c_int, page: &Path, place: &Path, flags: libc::c_ulong) -> io::Result<String> {
    let place = CString::new(place.as_os_str().as_bytes()).expect("a path");
    let set_apart = move || {
        // SAFETY: passes numbers. The process has one thread, as a user namespace demands.
        to_result(unsafe { libc::unshare(spaces) })?;
        // Nothing that is mounted here is to appear outside.
        let (nothing, private) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: strings that end with zero, or none.
        to_result(unsafe { libc::mount(nothing, c"/".as_ptr(), nothing, private, ptr::null()) })?;
        for (source, flags) in
            [(place.as_ptr(), MS_BIND), (ptr::null(), MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | flags)]
        {
            // SAFETY: strings that end with zero, or none.
            to_result(unsafe { libc::mount(source, place.as_ptr(), ptr::null(), flags, ptr::null()) })?;
        }
        Ok(())
    };
    said_by("namespaces::opens_a_page", page, set_apart)
}

/// Symptom: no process in a rootless container was served.
#[test]
fn a_page_of_an_unknown_owner_counts_if_it_is_mounted_by_itself_and_read_only() {
    let (above, folder) = folder();
    let page = folder.join("page");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    if let Err(error) = opened(NOBODY, &page, &folder, 0) {
        println!("SKIPPED: no mount in a user namespace can be made here: {error}");
        return;
    }
    for (place, flags, is_trusted) in [
        (&*folder, MS_RDONLY, true),
        (&*page, MS_RDONLY, true),
        (&*folder, 0, false),
        (&*page, 0, false),
        // As in a sandbox that has the whole tree read-only, and with it the files of all users.
        (above.path(), MS_RDONLY, false),
    ] {
        let found = opened(NOBODY, &page, place, flags).unwrap();
        let refused = "belongs to user 65534, which in a user namespace stands for every user outside of it";
        let is_as_expected = if is_trusted { found == "yes" } else { found.contains(refused) };
        assert!(is_as_expected, "{} with flags {flags}: {found}", place.display());
    }
    // What others may write to does not count, however it is mounted.
    fs::set_permissions(&page, Permissions::from_mode(0o646)).unwrap();
    assert!(opened(NOBODY, &page, &folder, MS_RDONLY).unwrap().contains("others may write"));
}

/// Symptom: a user who maps the owners of a mount of his own made a page of his count for root.
#[test]
fn user_65534_is_trusted_in_no_first_user_namespace() {
    let (_folder, page) = folder();
    drop(LockedPageFile::create(&page).unwrap());
    let is_first = fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"));
    if !is_first || chown(&page, Some(65_534), None).is_err() {
        println!("SKIPPED: only root of the first user namespace gives files away");
        return;
    }
    match opened(libc::CLONE_NEWNS, &page, &page, MS_RDONLY) {
        Ok(found) => assert!(found.contains("belongs to user 65534"), "{found}"),
        Err(error) => println!("SKIPPED: no mount can be made here: {error}"),
    }
}
