//! Tests of a page's file: which files readers and writers trust, make and keep.

#![cfg(all(feature = "file", target_os = "linux"))]

use std::error::Error as _;
use std::fs::{self, Permissions};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tickline_observe::skip;
use tickline_page::lease::memory::{Bank, Field, LeaseMemory, LeaseStore, SlotNumber};
use tickline_page::lease::{LeasePhase, Writer, WriterConfig};
use tickline_page::page_file::{
    AttachedFile, LockedPageFile, PageErrorCause, PageSwitch, lock_holder, switch_off, switch_on,
};
use tickline_page::{BootContext, Header};

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our own folder");
    let page = folder.path().join("page");
    (folder, page)
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Checks that a reader and a writer refuse this file, and give the reason.
#[track_caller]
fn assert_refused(page: &Path, expected: &str) {
    for error in [
        AttachedFile::open(page).map(drop),
        LockedPageFile::create(page).map(drop),
    ] {
        let error = error.expect_err("not trusted");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(
            error.source().is_none(),
            "a caller that prints the chain would repeat {error}"
        );
    }
}

/// A new page, whose writer has ended.
fn new_page() -> (TempDir, PathBuf) {
    let (folder, page) = folder();
    drop(LockedPageFile::create(&page).expect("our own folder"));
    (folder, page)
}

#[test]
fn a_new_page_has_the_header_of_this_process() {
    let (_folder, page) = new_page();
    let attached = AttachedFile::open(&page).unwrap();
    let context = BootContext::current().unwrap();
    assert_eq!(attached.file().page().header(), Header::new(&context));
}

#[test]
fn a_new_page_has_the_time_of_this_process() {
    let (_folder, page) = new_page();
    let attached = AttachedFile::open(&page).unwrap();
    assert_eq!(attached.page().page_offset_ns(), 0);
}

#[test]
fn a_new_page_is_readable_for_all_and_writable_for_its_owner() {
    let (_folder, page) = new_page();
    assert_eq!(fs::metadata(&page).unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn a_new_page_has_its_whole_size() {
    let (_folder, page) = new_page();
    assert_eq!(fs::metadata(&page).unwrap().len(), 4096);
}

#[test]
fn a_writer_removes_the_incomplete_page_of_a_killed_one() {
    let (folder, page) = folder();
    fs::write(folder.path().join("page.new"), b"half").unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    assert_eq!(entries(folder.path()), ["page", "page.lock"]);
}

/// Readers have the first file mapped.
#[test]
fn the_next_writer_keeps_the_file() {
    let (_folder, page) = new_page();
    let inode = || fs::metadata(&page).unwrap().ino();
    let first = inode();
    drop(LockedPageFile::create(&page).unwrap());
    assert_eq!(inode(), first);
}

/// A writer takes the lines that it replaces from the page.
#[test]
fn a_writer_reads_the_fields_of_a_slot_that_it_has_filled() {
    let (_folder, page) = folder();
    let writer = LockedPageFile::create(&page).unwrap();
    let [slot, ..] = SlotNumber::in_bank(Bank::First);
    writer.fill(slot, &[10, 11, 12, 13, 14, 15, 16, 17]);
    let found = [Field::Start, Field::Lead, Field::UnixLead].map(|field| writer.field(slot, field));
    assert_eq!(found, [10, 14, 16]);
}

#[test]
fn a_writer_makes_no_file_in_a_folder_that_others_may_write_to() {
    let (folder, page) = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    let error = LockedPageFile::create(&page).unwrap_err().to_string();
    assert!(error.contains("mode 41777"), "{error}");
    assert_eq!(entries(folder.path()), <[&str; 0]>::default());
}

#[test]
fn a_page_that_others_may_write_to_is_not_trusted() {
    let (_folder, page) = new_page();
    for mode in [0o664, 0o646, 0o666] {
        fs::set_permissions(&page, Permissions::from_mode(mode)).unwrap();
        assert_refused(
            &page,
            &format!("mode 100{mode:o}, of which 022 must be clear"),
        );
    }
}

#[test]
fn a_page_that_others_may_write_to_is_not_switched() {
    let (_folder, page) = new_page();
    for mode in [0o664, 0o646, 0o666] {
        fs::set_permissions(&page, Permissions::from_mode(mode)).unwrap();
        for error in [switch_off(&page), switch_on(&page)].map(Result::unwrap_err) {
            let error = error.to_string();
            assert!(error.contains("of which 022 must be clear"), "{error}");
        }
    }
}

#[test]
fn a_page_in_a_folder_that_others_may_write_to_is_not_trusted() {
    let (folder, page) = new_page();
    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        assert_refused(&page, &format!("{mode:o}, of which 022 must be clear"));
    }
}

/// Symptom: "others may write to the page or its folder", without the command that fixes it.
#[test]
fn an_error_names_what_others_may_write_to_and_the_command() {
    let (folder, page) = new_page();
    let message = || AttachedFile::open(&page).unwrap_err().to_string();
    let folder = folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    let expected = format!("; chmod go-w {}", folder.display());
    assert!(message().ends_with(&expected), "{}", message());
    assert!(
        message().contains("write to the page's folder: "),
        "{}",
        message()
    );
    // Such as /tmp, which is meant for all users.
    fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
    assert!(
        message().ends_with("; name a page in another folder"),
        "{}",
        message()
    );
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&page, Permissions::from_mode(0o666)).unwrap();
    let expected = format!("; chmod go-w {}", page.display());
    assert!(message().ends_with(&expected), "{}", message());
    assert!(message().contains("write to the page: "), "{}", message());
}

#[test]
fn a_page_that_was_truncated_is_refused() {
    let (_folder, page) = new_page();
    let file = fs::OpenOptions::new().write(true).open(&page).unwrap();
    file.set_len(0).unwrap();
    let error = AttachedFile::open(&page).unwrap_err().to_string();
    let expected = "the page has 0 bytes, not 4096: it was truncated";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn links_are_not_followed() {
    let (folder, page) = new_page();
    let link = folder.path().join("link");
    symlink(&page, &link).unwrap();
    assert_refused(&link, "link: this is a symbolic link");
    let (elsewhere, _) = self::folder();
    symlink(folder.path(), elsewhere.path().join("folder")).unwrap();
    for page in ["folder/page", "folder//page", "folder/./page"] {
        assert_refused(
            &elsewhere.path().join(page),
            "its folder is a link, which is not followed",
        );
    }
}

#[test]
fn a_file_that_is_not_a_page_is_refused() {
    let (folder, page) = folder();
    fs::write(&page, [0; 100]).unwrap();
    let error = AttachedFile::open(&page).unwrap_err().to_string();
    assert!(
        error.contains("the page has 100 bytes, not 4096"),
        "{error}"
    );
    fs::write(&page, [0; 4096]).unwrap();
    let error = AttachedFile::open(&page).unwrap_err().to_string();
    assert!(error.contains("does not begin with `tickline`"), "{error}");
    assert_refused(Path::new("/"), "name of a file: name the page's file");
    let missing = folder.path().join("none/page");
    assert_refused(&missing, "none/page: its folder");
    assert!(LockedPageFile::create(&missing).unwrap_err().is_not_found());
}

#[test]
fn a_device_is_no_page() {
    let error = AttachedFile::open(Path::new("/dev/null")).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("is not a regular file (mode 2") && error.ends_with("): name another file"),
        "{error}"
    );
}

/// Symptom: "Is a directory" from a call that opens the file for writing, without what to do.
#[test]
fn a_folder_is_no_page_for_a_reader_and_for_a_writer() {
    let (_folder, page) = folder();
    fs::create_dir(&page).unwrap();
    let errors = [
        AttachedFile::open(&page).map(drop),
        LockedPageFile::create(&page).map(drop),
        switch_off(&page).map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("this is a folder, not a file"), "{error}");
    }
}

/// Symptom: a database, the server's own log or a disk image became a page.
#[test]
fn a_file_that_is_not_a_page_stays_as_it_is() {
    let (folder, page) = folder();
    let data: Vec<u8> = (0..=255).cycle().take(8_192).collect();
    let log = b"tickline: process 1 serves this page\n".repeat(200);
    for bytes in [data, log, vec![0; 4_096], vec![0; 100], vec![]] {
        fs::write(&page, &bytes).unwrap();
        let errors = [
            LockedPageFile::create(&page).map(drop),
            switch_off(&page).map(drop),
        ];
        assert!(fs::read(&page).unwrap() == bytes, "{errors:?}");
        assert_eq!(entries(folder.path()), ["page"]);
        for error in errors {
            let error = error.unwrap_err().to_string();
            let expected = format!("page: this file of {} bytes is not a page", bytes.len());
            assert!(
                error.contains(&expected) && error.contains("name another file"),
                "{error}"
            );
        }
    }
}

/// Offsets in a page (README, "Layout, version 1").
const VERSION: Range<usize> = 8..12;
const BOOT_ID: Range<usize> = 16..32;
const NAMESPACE_OFFSET: usize = 48;

/// No process reads such a page.
#[test]
fn a_page_of_another_boot_is_replaced() {
    let (_folder, page) = new_page();
    let original = fs::read(&page).unwrap();
    let mut other = original.clone();
    other[BOOT_ID].fill(7);
    fs::write(&page, other).unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    assert_eq!(fs::read(&page).unwrap(), original);
}

#[test]
fn a_page_of_another_boot_is_replaced_whatever_its_version() {
    let (_folder, page) = new_page();
    let original = fs::read(&page).unwrap();
    let mut other = original.clone();
    other.resize(8_192, 0);
    other[BOOT_ID].fill(7);
    other[VERSION].fill(7);
    fs::write(&page, other).unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    assert_eq!(fs::read(&page).unwrap(), original);
}

/// Symptom: attached readers shifted the page's time by the previous writer's namespace.
#[test]
fn a_page_of_this_boot_for_another_time_namespace_is_not_replaced() {
    let (folder, page) = new_page();
    let mut other = fs::read(&page).unwrap();
    other[NAMESPACE_OFFSET] ^= 1;
    fs::write(&page, &other).unwrap();
    let error = LockedPageFile::create(&page).unwrap_err().to_string();
    assert!(
        error.contains("made in this boot by a server in time namespace"),
        "{error}"
    );
    assert_eq!(fs::read(&page).unwrap(), other);
    assert_eq!(entries(folder.path()), ["page", "page.lock"]);
}

/// The switch of a page that no writer has used.
const NEW: PageSwitch = PageSwitch::On {
    phase: LeasePhase::Off,
};

#[test]
fn a_new_page_is_not_switched_off() {
    let (_folder, page) = new_page();
    assert_eq!(switch_on(&page).unwrap(), NEW);
}

#[test]
fn a_page_is_switched_off_once() {
    let (_folder, page) = new_page();
    let before = [(); 2].map(|()| switch_off(&page).unwrap());
    assert_eq!(before, [NEW, PageSwitch::Off]);
}

#[test]
fn a_page_is_switched_on_again_once() {
    let (_folder, page) = new_page();
    switch_off(&page).unwrap();
    let before = [(); 2].map(|()| switch_on(&page).unwrap());
    assert_eq!(before, [PageSwitch::Off, NEW]);
}

#[test]
fn who_switches_a_page_off_learns_what_it_served() {
    let (_folder, page) = folder();
    Writer::start(&LockedPageFile::create(&page).unwrap(), WriterConfig::new()).unwrap();
    let phase = LeasePhase::NoLine;
    assert_eq!(switch_off(&page).unwrap(), PageSwitch::On { phase });
}

#[test]
fn a_writer_notices_that_its_file_was_truncated() {
    let (_folder, page) = folder();
    let writer = LockedPageFile::create(&page).unwrap();
    writer.check_size().unwrap();
    let file = fs::File::options().write(true).open(&page).unwrap();
    file.set_len(4_095).unwrap();
    let error = writer.check_size().unwrap_err().to_string();
    assert!(
        error.contains("the page has 4095 bytes, not 4096"),
        "{error}"
    );
}

/// Symptom: a server did not notice that its file was replaced before its first look at the path.
#[test]
fn a_writer_notices_that_its_file_was_replaced() {
    let (folder, path) = folder();
    let other = folder.path().join("other");
    drop(LockedPageFile::create(&other).unwrap());
    let page = LockedPageFile::create(&path).unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(!page.is_at_its_path());
}

#[test]
fn a_writer_notices_that_its_file_was_deleted() {
    let (_folder, path) = folder();
    let page = LockedPageFile::create(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!page.is_at_its_path());
}

#[test]
fn a_file_that_nobody_has_touched_is_at_its_path() {
    let (_folder, path) = folder();
    assert!(LockedPageFile::create(&path).unwrap().is_at_its_path());
}

#[test]
fn a_word_is_still_until_it_is_swapped() {
    let (_folder, page) = folder();
    let writer = LockedPageFile::create(&page).unwrap();
    let word = writer.word();
    assert!(writer.is_still(word));
    assert!(writer.try_swap(word, word.taken_over()));
    assert!(!writer.is_still(word));
}

/// Otherwise a program that the server starts would keep the lock.
#[test]
fn no_program_inherits_a_file_of_the_page() {
    let (folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    let mut found = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let is_ours = fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(folder.path()));
        if is_ours {
            found += 1;
            let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
            let info = fs::read_to_string(info).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
            assert_ne!(flags & libc::O_CLOEXEC, 0, "{info}");
        }
    }
    assert!(found >= 2, "the page and its lock are open");
}

#[test]
fn a_link_is_no_lock() {
    let (folder, page) = new_page();
    fs::remove_file(folder.path().join("page.lock")).unwrap();
    symlink(&page, folder.path().join("page.lock")).unwrap();
    for result in [
        lock_holder(&page).map(drop),
        LockedPageFile::create(&page).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error.cause(), PageErrorCause::Lock(_)), "{error}");
    }
}

/// Another user who could open the lock for reading could keep every server out.
#[test]
fn only_the_owner_may_open_the_lock() {
    let (folder, page) = folder();
    let lock = folder.path().join("page.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, Permissions::from_mode(0o666)).unwrap();
    let _writer = LockedPageFile::create(&page).unwrap();
    assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o7777, 0o600);
}

/// Symptom: "another process serves this page", while a thread of this process dropped the lock.
#[test]
fn a_lock_that_another_thread_drops_is_held_by_this_process_or_free() {
    let (_folder, page) = new_page();
    let makes_pages = || {
        for _ in 0..1_000 {
            if let Err(error) = LockedPageFile::create(&page) {
                let process = Some(std::process::id());
                assert_eq!(*error.cause(), PageErrorCause::Served { process });
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(makes_pages);
        makes_pages();
    });
}

#[test]
fn a_lock_of_another_user_is_refused() {
    const OTHER: u32 = 4_711;
    let (folder, page) = folder();
    let lock = folder.path().join("page.lock");
    fs::write(&lock, "").unwrap();
    if std::os::unix::fs::chown(&lock, Some(OTHER), None).is_err() {
        return skip("only root can give a file away");
    }
    let error = LockedPageFile::create(&page).unwrap_err().to_string();
    assert!(error.contains("4711"), "{error}");
    assert_eq!(fs::metadata(&lock).unwrap().uid(), OTHER);
    assert!(!page.exists());
}

/// A reader that is attacked can't set the clock of the others.
#[test]
fn a_reader_maps_the_page_read_only() {
    let (_folder, page) = new_page();
    let _attached = AttachedFile::open(&page).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut rights = maps
        .lines()
        .filter(|line| line.ends_with(page.to_str().unwrap()))
        .map(|line| line.split_whitespace().nth(1).unwrap());
    assert_eq!((rights.next(), rights.next()), (Some("r--s"), None));
}

#[test]
fn a_dropped_page_is_unmapped() {
    let (_folder, page) = new_page();
    let is_mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.contains(page.to_str().unwrap())
    };
    assert!(!is_mapped());
    let attached = AttachedFile::open(&page).unwrap();
    assert!(is_mapped());
    drop(attached);
    assert!(!is_mapped());
}

#[test]
fn a_snapshot_has_the_generation_of_the_page() {
    let Some(counter) = tickline_page::HardwareCounter::if_present() else {
        return skip("no counter on this target");
    };
    let (_folder, page) = folder();
    let writer = LockedPageFile::create(&page).unwrap();
    let word = writer.word();
    assert!(writer.try_swap(word, word.taken_over()));
    let attached = AttachedFile::open(&page).unwrap();
    let generation = attached.file().snapshot(&counter).generation;
    assert_eq!(generation, word.generation() + 1);
}

/// Symptom: a server went on with a file that no program found.
#[test]
fn a_page_whose_folder_was_replaced_by_a_file_is_not_at_its_path() {
    let (folder, _) = folder();
    let inner = folder.path().join("folder");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
    let writer = LockedPageFile::create(inner.join("page")).unwrap();
    assert!(writer.is_at_its_path());
    fs::rename(&inner, folder.path().join("old")).unwrap();
    fs::write(&inner, "").unwrap();
    assert!(!writer.is_at_its_path());
}
