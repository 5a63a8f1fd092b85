//! What the program writes to: a regular file of the user is replaced whole, everything else is
//! written in its place.

#![cfg(unix)]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use common::{code, entries, text};

/// The user and group called nobody on every Linux.
const NOBODY: u32 = 65_534;

/// A shell's script with the program as `$0`, which measures for some milliseconds as `$RUN`.
fn sh(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tickline")]).current_dir(folder).env_remove("TICKLINE");
    command.env("BENCH", "bench --rounds 1 --calls 1").output().expect("a shell")
}

fn is_root() -> bool {
    // SAFETY: always succeeds, and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("the file").ino()
}

/// The document with which the file begins, after `before`.
fn document(path: &Path, before: &str) -> Value {
    let content = fs::read_to_string(path).expect("the file");
    let rest = content.strip_prefix(before).unwrap_or_else(|| panic!("{before:?} is lost: {:.200}", content));
    serde_json::Deserializer::from_str(rest).into_iter().next().expect("JSON").expect("JSON")
}

/// The log was replaced by a file with the JSON alone, and the text went to the lost one.
#[test]
fn a_log_that_is_appended_to_keeps_what_it_has() {
    for (name, script) in [
        ("stdout", "\"$0\" $BENCH --json /dev/stdout >> log"),
        ("file", "\"$0\" $BENCH --json log >> log"),
        ("link", "ln -s /dev/stdout link; \"$0\" $BENCH --json link >> log"),
        ("other", "\"$0\" $BENCH --json /dev/fd/3 3>> log"),
        ("opened", "exec 3> log; echo before >&3; \"$0\" $BENCH --json /dev/fd/3; echo after >&3"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "before\n").unwrap();
        let before = inode(&log);
        let output = sh(folder.path(), script);
        code(&output);
        assert_eq!(inode(&log), before, "{name}: the log is another file");
        assert_eq!(document(&log, "before\n")["command"], "bench", "{name}");
        let log = fs::read_to_string(&log).unwrap() + &text(&output.stdout);
        assert!(log.contains("Long run: 1 calls"), "{name}: the text is lost:\n{log}");
        assert!(!script.contains("after") || log.contains("}\nafter\n"), "{name}: {log}");
        assert_eq!(text(&output.stderr), "", "{name}");
    }
}

/// The rows began at the log's beginning.
#[test]
fn rows_are_appended_to_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "before\n").unwrap();
    let watch = "\"$0\" watch --secs 1 --interval 0.3 --csv /dev/stdout >> log";
    code(&sh(folder.path(), watch));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.starts_with("before\n") && log.contains("\nat_s,unix_s"), "{log}");
    assert!(log.contains("Watched for "), "{log}");
}

/// The other names kept the old content.
#[test]
fn a_file_with_several_hard_links_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    fs::write(&one, "what was there before, ".repeat(10_000)).unwrap();
    fs::hard_link(&one, &two).unwrap();
    let output = sh(folder.path(), "\"$0\" $BENCH --json one");
    code(&output);
    assert_eq!(inode(&one), inode(&two));
    serde_json::from_slice::<Value>(&fs::read(&two).unwrap()).unwrap();
    assert_eq!(entries(folder.path()), ["one", "two"]);
    let said = text(&output.stderr);
    assert_eq!(said, "tickline: one: written in place, because it has 2 hard links\n");
}

/// Root took over what it wrote.
#[test]
fn a_file_of_another_user_stays_theirs() {
    if !is_root() {
        return eprintln!("SKIPPED: without root there is no second user");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs");
    fs::write(&path, "").unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let before = inode(&path);
    let output = sh(folder.path(), "\"$0\" $BENCH --json theirs");
    code(&output);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.ino(), found.uid(), found.gid()), (before, NOBODY, NOBODY));
    assert!(text(&output.stderr).contains("belongs to another user, 65534"), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
}

/// The new file had the process's group, with the rights of the old group.
#[test]
fn a_replaced_file_keeps_its_group_and_mode() {
    if !is_root() {
        return eprintln!("SKIPPED: without root there may be no second group");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours");
    fs::write(&path, "what was there before").unwrap();
    chown(&path, None, Some(NOBODY)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    let before = inode(&path);
    code(&sh(folder.path(), "\"$0\" $BENCH --json ours"));
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (0, NOBODY, 0o660));
    assert_ne!(found.ino(), before, "a file of one's own is replaced as a whole");
}

/// The new file had no list, and the list's mask became the rights of the group.
#[cfg(target_os = "linux")]
#[test]
fn an_access_control_list_is_kept() {
    const LIST: &str = "system.posix_acl_access";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("listed");
    fs::write(&path, "").unwrap();
    // Version 2, then tag, rights and id of each entry: the owner may read and write, user 65534
    // read, the group nothing, by a mask that lets through reading, and others nothing
    // (include/uapi/linux/posix_acl_xattr.h).
    let mut list = 2_u32.to_le_bytes().to_vec();
    let nobody_else = u32::MAX;
    for (tag, rights, id) in [
        (1_u16, 6_u16, nobody_else),
        (2, 4, NOBODY),
        (4, 0, nobody_else),
        (16, 4, nobody_else),
        (32, 0, nobody_else),
    ] {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    if let Err(error) = rustix::fs::setxattr(&path, LIST, &list, rustix::fs::XattrFlags::empty()) {
        return eprintln!("SKIPPED: the file system has no lists: {error}");
    }
    let output = sh(folder.path(), "\"$0\" $BENCH --json listed");
    code(&output);
    let mut kept = [0_u8; 256];
    let size = rustix::fs::getxattr(&path, LIST, &mut kept[..]).expect("the list is lost");
    assert_eq!(kept[..size], list[..]);
    assert!(text(&output.stderr).contains("it has an access control list"), "{}", text(&output.stderr));
}

#[test]
fn a_link_is_followed_and_its_file_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (link, file) = (folder.path().join("link"), folder.path().join("data/file"));
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(&file, "what was there before").unwrap();
    symlink("data/file", &link).unwrap();
    let before = inode(&file);
    code(&sh(folder.path(), "\"$0\" $BENCH --json link"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(inode(&file), before);
    serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(entries(&folder.path().join("data")), ["file"]);
}

/// The file that the link named was created, as by no `cp`.
#[test]
fn a_link_to_a_missing_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    symlink("missing", folder.path().join("link")).unwrap();
    for option in ["$BENCH --json", "watch --secs 1 --csv"] {
        let output = sh(folder.path(), &format!("\"$0\" {option} link"));
        assert_eq!(output.status.code(), Some(2), "{option}: {output:?}");
        let said = text(&output.stderr);
        assert_eq!(said, "tickline: link: it is a link to a missing file\n", "{option}");
        assert_eq!(entries(folder.path()), ["link"], "{option}");
    }
}

/// The kernel refuses to follow such a link (`fs.protected_symlinks`), but the program renamed the
/// new file over what it led to.
#[cfg(target_os = "linux")]
#[test]
fn a_link_that_another_user_left_in_a_shared_folder_is_refused() {
    let protects = fs::read_to_string("/proc/sys/fs/protected_symlinks");
    if !is_root() || protects.is_ok_and(|value| value.trim() == "0") {
        return eprintln!("SKIPPED: this needs root, and fs.protected_symlinks");
    }
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(folder.path().join("precious"), "of value").unwrap();
    symlink("../precious", shared.join("link")).unwrap();
    std::os::unix::fs::lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = sh(folder.path(), "\"$0\" $BENCH --json shared/link");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).to_lowercase().contains("shared/link: permission denied"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"of value");
}

/// The protection of the file did not count, since its folder may be written to.
#[test]
fn a_file_that_is_closed_for_writing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("closed");
    fs::write(&path, "of value").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let script = if is_root() {
        // Root may write to every file.
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_tickline"), folder.path().join("program")).unwrap();
        let script = "setpriv --reuid 65534 --regid 65534 --clear-groups ./program $BENCH --json closed";
        if !Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success()) {
            return eprintln!("SKIPPED: setpriv is missing");
        }
        script
    } else {
        "\"$0\" $BENCH --json closed"
    };
    let output = sh(folder.path(), script);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).to_lowercase().contains("closed: permission denied"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read(&path).unwrap(), b"of value");
}

/// Nothing can be renamed over a mount point, such as a file that a container was given, so the
/// measurement was lost.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_point_is_written_in_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("outside"), "what was there before").unwrap();
    fs::write(folder.path().join("inside"), "").unwrap();
    let script = "unshare -m true 2>/dev/null || exit 77
        exec unshare -m sh -c 'mount --bind outside inside && exec \"$0\" $BENCH --json inside' \"$0\"";
    let output = sh(folder.path(), script);
    if output.status.code() == Some(77) {
        return eprintln!("SKIPPED: this needs root, and namespaces");
    }
    code(&output);
    assert_eq!(document(&folder.path().join("outside"), "")["command"], "bench");
    assert!(text(&output.stderr).contains("it could not be replaced"), "{}", text(&output.stderr));
    assert_eq!(entries(folder.path()), ["inside", "outside"]);
}

/// What takes the place during the measurement is judged like what was there before it.
#[test]
fn a_file_that_appears_during_the_measurement_is_treated_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let script = "\"$0\" --secs 2 --json out & sleep 0.7; echo before > kept; ln kept out; wait $!";
    let output = sh(folder.path(), script);
    code(&output);
    let (out, kept) = (folder.path().join("out"), folder.path().join("kept"));
    assert_eq!(inode(&out), inode(&kept));
    assert_eq!(document(&kept, "")["command"], "doctor");
    assert!(text(&output.stderr).contains("it has 2 hard links"), "{}", text(&output.stderr));
}
