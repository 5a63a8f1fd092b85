//! Tests of `tickline serve`: its start, its end, and the state that other processes see.

#![cfg(target_os = "linux")]

mod damaged_page;
mod notify;
mod off_and_on;
mod status;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tickline_page::page_file::LockedPageFile;

use crate::common::server::{Server, folder, run, serve, status, wait_for_line};
use crate::common::{
    NOBODY, assert_fails, entries, is_root, library, skip, text, tickline, wait_for,
};
use crate::harmless::{USER, open_folder, unprivileged};

fn page_without_server() -> (TempDir, PathBuf) {
    let (folder, page) = folder();
    drop(LockedPageFile::create(&page).unwrap());
    (folder, page)
}

/// A page with a server that serves a line. `None`, with a message, if the counter does not serve.
fn served() -> Option<(TempDir, PathBuf, Server)> {
    let (folder, page) = folder();
    let server = Server::start(&page);
    if !wait_for_line(&page, &server) {
        skip("the counter does not serve here");
        return None;
    }
    Some((folder, page, server))
}

#[test]
fn a_page_has_one_server() {
    let (_folder, page) = folder();
    let server = Server::start(&page);
    wait_for_line(&page, &server);
    let first = server.0.id();
    let expected =
        format!("process {first} serves this page; a page has one server: stop that one");
    assert_fails(&run(&page, &[]), 2, &expected);
    assert_eq!(
        status(&page).unwrap()["server_pid"],
        first,
        "the first one goes on"
    );
}

/// Symptom: the server went on with a file that no program found, and its unit was `active`.
#[test]
fn a_server_whose_file_is_deleted_or_replaced_ends_so_that_its_unit_starts_another() {
    for is_replaced in [false, true] {
        let (folder, page) = folder();
        let mut server = Server::start(&page);
        wait_for_line(&page, &server);
        fs::rename(&page, folder.path().join("old")).unwrap();
        if is_replaced {
            fs::copy(folder.path().join("old"), &page).unwrap();
        }
        let code = wait_for("it ends", || server.0.try_wait().unwrap()).code();
        let mut messages = BufReader::new(server.0.stderr.take().unwrap()).lines();
        let says = |line: std::io::Result<String>| line.unwrap().contains("deleted or replaced");
        assert!(messages.any(says), "replaced: {is_replaced}");
        assert_eq!(code, Some(2), "replaced: {is_replaced}");
    }
}

/// A second server of a served page, which has said that it waits.
fn server_that_waits(page: &Path) -> Server {
    let mut second = Server::start(page);
    let mut line = String::new();
    let messages = second.0.stderr.as_mut().unwrap();
    BufReader::new(messages).read_line(&mut line).unwrap();
    assert!(line.contains("waiting for its end"), "{line}");
    second
}

/// Symptom: the unit stayed `failed` after a trial server had ended, and nothing served the page.
#[test]
fn a_server_waits_for_the_end_of_another_one() {
    let (_folder, page) = folder();
    let mut first = Server::start(&page);
    wait_for_line(&page, &first);
    let second = server_that_waits(&page);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    wait_for("the second one serves", || {
        status(&page).filter(|shown| shown["server_pid"] == second.0.id())
    });
}

/// Symptom: `systemctl stop` in the overlap of an upgrade left the unit `failed`.
#[test]
fn a_signal_ends_a_server_that_waits_for_another_one() {
    let (_folder, page) = folder();
    let first = Server::start(&page);
    wait_for_line(&page, &first);
    let mut second = server_that_waits(&page);
    second.signal(libc::SIGTERM);
    let (code, messages) = second.ended();
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        messages.contains("stopped before it served this page"),
        "{messages}"
    );
}

/// Checks that a server has ended as one signal ends it. A second one would end it at once.
#[track_caller]
fn assert_ended_in_order(server: &mut Server) {
    let (code, messages) = server.ended();
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        messages.contains("stopped: the leases have run out"),
        "{messages}"
    );
}

#[test]
fn a_signal_ends_a_server_after_its_leases() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (_folder, page) = folder();
        let mut server = Server::start(&page);
        wait_for_line(&page, &server);
        server.signal(signal);
        assert_ended_in_order(&mut server);
    }
}

/// Symptom: `timeout -s INT 3 tickline serve` killed the server, whose leases had not run out.
#[test]
fn a_signal_that_comes_twice_at_once_ends_a_server_after_its_leases() {
    let (_folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    // The server gets both together: the second before it has seen the first.
    server.signal(libc::SIGSTOP);
    server.signal(libc::SIGTERM);
    server.signal(libc::SIGINT);
    server.signal(libc::SIGCONT);
    assert_ended_in_order(&mut server);
}

/// Symptom: a hangup ended a server under `nohup`.
#[test]
fn under_nohup_a_hangup_is_no_signal_to_end() {
    let (_folder, page) = folder();
    let mut command = Command::new("nohup");
    command
        .arg(env!("CARGO_BIN_EXE_tickline"))
        .args(["serve", "--page"])
        .arg(&page);
    command
        .env_remove("TICKLINE")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut server = Server(command.stderr(Stdio::piped()).spawn().unwrap());
    wait_for_line(&page, &server);
    server.signal(libc::SIGHUP);
    // A signal that comes sooner counts as the one before it.
    thread::sleep(Duration::from_millis(150));
    server.signal(libc::SIGTERM);
    assert_ended_in_order(&mut server);
}

/// Symptom: SIGSEGV, by the vDSO, when the server noted the time of its start.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[test]
fn a_server_that_may_not_read_the_counter_says_so() {
    let (folder, page) = folder();
    let Some(library) = library("denied", &[], folder.path()) else {
        return;
    };
    let mut command = serve(&page, &[]);
    let output = command.env("LD_PRELOAD", &library).output().unwrap();
    assert_fails(&output, 78, "the process may not read the counter");
}

/// Symptom: "/proc/sys/kernel/random/boot_id can't be read" in a chroot, and not a word on what to
/// do.
#[test]
fn a_server_without_proc_says_to_mount_it() {
    let (_folder, page) = folder();
    let script = "mount -t tmpfs none /proc && echo mounted && exec \"$0\" serve --page \"$1\"";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_tickline"),
        ])
        .arg(&page)
        .output();
    let Some(output) = output
        .ok()
        .filter(|output| text(&output.stdout) == "mounted\n")
    else {
        return skip("no mount namespace");
    };
    assert_fails(&output, 78, "; mount /proc here: mount -t proc proc /proc");
}

fn page_of_stopped_server() -> (TempDir, PathBuf) {
    let (folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    server.signal(libc::SIGTERM);
    server.ended();
    (folder, page)
}

#[test]
fn a_stopped_server_leaves_a_page_without_line_and_server() {
    let (_folder, page) = page_of_stopped_server();
    let shown = status(&page).unwrap();
    assert_eq!(
        (&shown["phase"], &shown["serving"], &shown["server_pid"]),
        (&"no_line".into(), &false.into(), &Value::Null),
        "{shown}"
    );
}

#[test]
fn a_stopped_server_leaves_the_page_and_its_lock() {
    let (_folder, page) = page_of_stopped_server();
    assert_eq!(entries(page.parent().unwrap()), ["page", "page.lock"]);
}

#[test]
fn a_server_that_fails_to_start_leaves_no_file() {
    let (_folder, page) = folder();
    let folder = page.parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    assert_fails(&run(&page, &[]), 78, "777, of which 022 must be clear");
    assert_eq!(entries(folder), [""; 0]);
}

/// Symptom: exit code 2, after which a unit with such a page starts its server ten times a second.
#[test]
fn a_server_whose_folder_is_missing_is_not_started_again() {
    let (folder, _) = folder();
    let missing = folder.path().join("missing");
    let output = run(&missing.join("page"), &[]);
    assert_fails(&output, 78, &format!("make {},", missing.display()));
}

/// Symptom: "page.lock: it can't be opened: Permission denied", without a word on the folder.
#[test]
fn a_server_that_may_not_write_to_its_folder_says_what_to_do() {
    let (folder, program) = open_folder();
    let closed = folder.path().join("closed");
    DirBuilder::new().mode(0o555).create(&closed).unwrap();
    let mut serve = unprivileged(&program);
    serve.arg("serve").arg("--page").arg(closed.join("page"));
    // Root's folder is another user's for the server, which root runs as another user.
    let advice = if is_root() {
        "serve the page as the owner of that folder"
    } else {
        "it is this user's own folder (chmod u+w"
    };
    let says = format!("this user may not write to {}: {advice}", closed.display());
    assert_fails(&serve.output().unwrap(), 78, &says);
}

/// Symptom: "Read-only file system", without a word on what to do in a container.
#[test]
fn a_server_without_a_writable_folder_says_what_to_do() {
    const SCRIPT: &str =
        "mount -t tmpfs -o ro none /run && echo mounted && { \"$0\" serve; echo $?; } 2>&1";
    let output = Command::new("unshare")
        .args(["--mount", "--fork", "sh", "-c", SCRIPT])
        .arg(env!("CARGO_BIN_EXE_tickline"))
        .output();
    let shown = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    if !is_root() || !shown.starts_with("mounted\n") {
        return skip(format_args!("no mount namespace: {shown}"));
    }
    assert!(shown.contains("mount a writable folder there"), "{shown}");
    assert!(shown.ends_with("\n78\n"), "{shown}");
}

/// Symptom: exit code 2 at once, and ten starts a second by the unit, each with lines of log for a
/// disk that was full.
#[test]
fn a_server_that_finds_the_disk_full_serves_when_there_is_room() {
    // The file takes the only page of the disk. The server says that it tries again, and the file
    // goes.
    const SCRIPT: &str = "mount -t tmpfs -o size=4k,mode=755 none \"$1\" && echo mounted && \
        cd \"$1\" && echo full > full && \"$0\" serve --page \"$1/page\" 2>&1 | \
        while read -r line; do \
            echo \"$line\"; pid=${line##*process }; \
            case $line in \
                *'trying again'*) rm full;; \
                *'serves this page') kill \"${pid%% *}\";; \
            esac; \
        done";
    let (folder, _page) = folder();
    let output = Command::new("unshare")
        .args(["--mount", "--fork", "sh", "-c", SCRIPT])
        .arg(env!("CARGO_BIN_EXE_tickline"))
        .arg(folder.path())
        .output();
    let shown = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    if !is_root() || !shown.starts_with("mounted\n") {
        return skip(format_args!("no mount namespace: {shown}"));
    }
    assert!(shown.contains("No space left on device"), "{shown}");
    assert!(shown.contains("serves this page"), "{shown}");
}

/// Symptom: the terminal did what the name of a folder says.
#[test]
fn the_name_of_a_page_does_not_steer_the_terminal() {
    let (_folder, page) = folder();
    let odd = page.parent().unwrap().join("\u{1b}[2J");
    DirBuilder::new().mode(0o755).create(&odd).unwrap();
    let page = odd.join("page");
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    let mut shown = vec![
        text(&run(&page, &["status"]).stdout),
        // A second server.
        text(&run(&page, &[]).stderr),
    ];
    server.signal(libc::SIGTERM);
    shown.push(server.ended().1);
    for word in ["off", "off", "on", "on"] {
        shown.push(text(&run(&page, &[word]).stdout));
    }
    shown.push(text(&run(&odd.join("none"), &["off"]).stderr));
    for shown in shown {
        assert!(shown.contains("/\u{fffd}[2J/"), "{shown:?}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
}

/// Rule W10, and the server's log about it. Symptom: three lines for each change of the rate.
#[cfg(target_env = "gnu")]
#[test]
fn a_fast_slew_is_one_line_of_log() {
    let (folder, page) = folder();
    let Some(library) = library("slewed", &[], folder.path()) else {
        return;
    };
    let flag = folder.path().join("flag");
    let mut command = serve(&page, &[]);
    command
        .env("LD_PRELOAD", &library)
        .env("TICKLINE_TEST_SLEW", &flag);
    let mut server = Server(command.stderr(Stdio::piped()).spawn().unwrap());
    if !wait_for_line(&page, &server) {
        skip("the counter does not serve here");
        return;
    }
    let serves = |wanted: bool| status(&page).filter(|status| status["serving"] == wanted);
    File::create(&flag).unwrap();
    wait_for("nothing is served", || serves(false));
    fs::remove_file(&flag).unwrap();
    wait_for("the page is served again", || serves(true));
    server.signal(libc::SIGTERM);
    let (_, messages) = server.ended();
    let slews = messages
        .lines()
        .filter(|line| line.contains("not served: the kernel slews its clock"));
    assert_eq!(slews.count(), 1, "{messages}");
    assert!(
        messages.contains("programs ask the OS clock\ntickline: "),
        "{messages}"
    );
    assert!(messages.matches(": published\n").count() > 1, "{messages}");
}

/// A page of another time namespace may have no server, but it has readers.
#[test]
fn a_page_of_another_time_namespace_says_what_to_do() {
    let (_folder, page) = page_without_server();
    let server = serve(&page, &[]);
    let mut command = Command::new("unshare");
    command
        .args(["--time", "--monotonic", "1000", "--fork"])
        .arg(server.get_program());
    let output = command.args(server.get_args()).output().unwrap();
    let message = text(&output.stderr);
    if message.contains("unshare") {
        skip(message);
        return;
    }
    assert_fails(&output, 78, "by a server in time namespace");
    assert!(message.contains("start such a server there"), "{message}");
}

#[test]
fn the_doctors_metrics_count_the_readers_of_a_users_page() {
    let (folder, _) = folder();
    let page = folder.path().join("tickline/page.v1");
    DirBuilder::new()
        .mode(0o755)
        .create(page.parent().unwrap())
        .unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    let _clock = tickline_page::open(&page).unwrap();
    let mut doctor = tickline(&["doctor", "--openmetrics", "-"]);
    let output = doctor.env("XDG_RUNTIME_DIR", folder.path()).output();
    let metrics = text(&output.unwrap().stdout);
    let readers = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tickline_page_readers "));
    assert!(
        readers.is_some_and(|readers| readers.parse::<u32>().unwrap() >= 1),
        "{metrics}"
    );
}

/// By default, the page is in a folder of the user.
#[test]
fn a_user_without_rights_serves_that_users_programs() {
    if Path::new("/run/tickline/page.v1").exists() {
        return skip("this machine has a page, which programs prefer to a user's");
    }
    let (folder, program) = open_folder();
    let runtime = folder.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    let as_user = |words: &[&str]| {
        let mut command = unprivileged(&program);
        command
            .args(words)
            .env("XDG_RUNTIME_DIR", &runtime)
            .stderr(Stdio::piped());
        command
    };
    if is_root() {
        std::os::unix::fs::chown(&runtime, Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(&runtime, Permissions::from_mode(0o700)).unwrap();
    let page = runtime.join("tickline/page.v1");
    let mut server = Server(as_user(&["serve"]).spawn().unwrap());
    wait_for("the page is there", || page.exists().then_some(()));
    let output = wait_for("the server has the page", || {
        let output = as_user(&["serve", "status"]).output().unwrap();
        text(&output.stdout)
            .contains(&format!("process {}", server.0.id()))
            .then_some(output)
    });
    let shown = text(&output.stdout);
    assert!(shown.contains("tickline/page.v1, of user "), "{shown}");
    // Symptom: "mapped by no process", by a user who may not examine the processes of others.
    let metrics = as_user(&["doctor", "--duration", "1s", "--openmetrics", "-"])
        .output()
        .unwrap();
    let is_counted = text(&metrics.stdout).contains("\ntickline_page_readers ");
    assert_eq!(is_counted, !shown.contains("readers 0; "), "{shown}");
    if is_root() {
        // To the page of a user, root is another user.
        assert_fails(&run(&page, &["status"]), 2, "user 4711");
    } else {
        skip("the page of another user: only root can give a folder away");
    }
    server.signal(libc::SIGTERM);
    let (code, messages) = server.ended();
    assert_eq!(code, Some(0), "{messages}");
    let elsewhere = |words: &[&str]| {
        as_user(words)
            .env_remove("XDG_RUNTIME_DIR")
            .output()
            .unwrap()
    };
    assert_fails(&elsewhere(&["serve"]), 78, "--page FILE");
    // Symptom: a user saw nothing of the page that root serves.
    assert_fails(
        &elsewhere(&["serve", "status"]),
        2,
        "there is no page /run/tickline/page.v1",
    );
}

/// Symptom: the advice for containers, on the host itself, and a folder that stayed.
#[test]
fn nobody_is_refused_before_a_folder_is_made() {
    let (folder, program) = open_folder();
    let runtime = folder.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    if !is_root() || std::os::unix::fs::chown(&runtime, Some(NOBODY), Some(NOBODY)).is_err() {
        return skip("only root, where user 65534 is mapped, can become that user");
    }
    let mut server = Command::new(&program);
    let server = server.arg("serve").uid(NOBODY).gid(NOBODY);
    let ended = server.env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
    assert_fails(&ended, 78, "user 65534 (nobody) can't serve a page");
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0);
}

/// Symptom: the log named a page that readers did not find by this name, because TICKLINE_PAGE must
/// be an absolute path.
#[test]
fn a_relative_path_of_a_page_is_shown_as_an_absolute_one() {
    let (folder, _) = folder();
    let page = folder.path().canonicalize().unwrap().join("page");
    drop(LockedPageFile::create(&page).unwrap());
    for action in ["status", "off", "on"] {
        let mut command = serve(Path::new("page"), &[action]);
        let output = command.current_dir(&folder).output().unwrap();
        let shown = text(&output.stdout);
        assert!(
            shown.contains(page.to_str().unwrap()),
            "{action}: {output:?}"
        );
    }
}

/// Symptom: "once no program reads it, delete it", of a file that is no page; and "a size of 4096
/// to 4096".
#[test]
fn a_file_of_the_users_own_is_not_to_be_deleted() {
    let (_folder, page) = folder();
    for bytes in [0, 5, 4_096] {
        fs::write(&page, vec![b'a'; bytes]).unwrap();
        for action in [&[][..], &["status"], &["off"], &["on"]] {
            let output = run(&page, action);
            let message = text(&output.stderr);
            let expected = if action.is_empty() { 78 } else { 2 };
            assert_fails(&output, expected, "page");
            assert!(!message.contains("delete"), "{message}");
            assert!(!message.contains("4096 to"), "{message}");
            assert_eq!(fs::read(&page).unwrap().len(), bytes);
        }
    }
}
