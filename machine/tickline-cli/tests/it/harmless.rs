//! Tests that the program changes nothing, and needs no privileges.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
use crate::common::filter::{filter, put_under};
use crate::common::{assert_fails, copy_program, is_root, skip, text, tickline};

/// A folder that every user may enter, with a copy of the program. Other users may not be able to
/// enter the build folder.
pub(crate) fn open_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let program = folder.path().join("tickline");
    copy_program(Path::new(env!("CARGO_BIN_EXE_tickline")), &program);
    (folder, program)
}

/// A user without privileges, for tests that run as root. A page of `nobody` would be refused,
/// because in a user namespace `nobody` stands for every user outside of it.
pub(crate) const USER: u32 = 4_711;

/// The program run by a user without privileges: `USER` if the test runs as root, else the test's
/// own user.
pub(crate) fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("TICKLINE");
    if is_root() {
        command.uid(USER).gid(USER);
    }
    command
}

fn served_by(document: &Value, clock: &str) -> Value {
    let costs = document["costs"].as_array().expect("the table");
    costs
        .iter()
        .find(|cost| cost["clock"] == clock)
        .expect("its row")["served_by"]
        .clone()
}

/// `doctor --fix --yes` of a user without the right to switch, where the kernel's clocksource is
/// `current`; `None`, with a message, if that cannot be set up here.
fn fix_without_the_right(current: &str) -> Option<Output> {
    const SCRIPT: &str = "folder=/sys/devices/system/clocksource/clocksource0 && \
        mount --bind \"$1/current\" $folder/current_clocksource && \
        mount --bind \"$1/available\" $folder/available_clocksource && echo mounted >&2 && \
        exec setpriv --reuid 4711 --regid 4711 --clear-groups \"$0\" --fix --yes";
    let (folder, program) = open_folder();
    fs::write(folder.path().join("current"), format!("{current}\n")).unwrap();
    fs::write(folder.path().join("available"), "tsc hpet acpi_pm \n").unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT]);
    let output = command.arg(&program).arg(folder.path()).output().ok();
    let output = output.filter(|output| output.stderr.starts_with(b"mounted\n"));
    if output.is_none() {
        skip("no mount namespace");
    }
    output
}

/// Symptom: it measured first, and printed the diagnosis.
#[test]
fn a_fix_without_a_question_is_refused_to_a_user_without_the_right_to_it() {
    let Some(output) = fix_without_the_right("hpet") else {
        return;
    };
    assert_fails(&output, 2, "only root may change it: sudo ");
    assert_fails(&output, 2, " doctor --fix --yes");
    assert_eq!(text(&output.stdout), "");
}

/// Symptom: exit code 2, and not a word of diagnosis, on a machine that had nothing to switch.
#[test]
fn a_fix_without_a_question_shows_any_user_the_diagnosis_where_the_counter_keeps_time() {
    if let Some(output) = fix_without_the_right("tsc") {
        assert_ne!(text(&output.stdout), "", "{}", text(&output.stderr));
    }
}

/// A user without privileges gets the same facts as root, except the kernel's log and the facts
/// that only the log shows, such as the hypervisor behind KVM's interface.
#[test]
fn an_unprivileged_user_gets_the_facts_that_root_gets() {
    let (_folder, program) = open_folder();
    if !is_root() {
        return skip("without root there is no second user to compare with");
    }
    let json = |command: &mut Command| -> Value {
        let output = command.args(["--json", "-"]).output().unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let root = json(Command::new(&program).env_remove("TICKLINE"));
    let user = json(&mut unprivileged(&program));
    for key in [
        "clocksource",
        "available_clocksources",
        "cpuid",
        "counter_readable",
        "vdso_mapped",
        "allowed_cpus",
    ] {
        assert_eq!(root["machine"][key], user["machine"][key], "{key}");
    }
    let [root_on, user_on] = [&root, &user].map(|document| &document["machine"]["hypervisor"]);
    let is_hidden = user["machine"]["kernel_log"].is_null() && user_on == "kvm";
    assert!(
        root_on == user_on || is_hidden && root_on == "firecracker",
        "{root_on}"
    );
    assert_eq!(root["served_unknown"], user["served_unknown"]);
    assert_eq!(
        served_by(&root, "clock_gettime MONOTONIC"),
        served_by(&user, "clock_gettime MONOTONIC")
    );
}

#[test]
fn without_the_right_to_write_only_output_files_fail() {
    let (folder, program) = open_folder();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let run = |arguments: &[&str]| {
        unprivileged(&program)
            .current_dir(&closed)
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = run(&[]);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        text(&output.stderr)
    );
    assert_fails(
        &run(&["--json", "out.json"]),
        2,
        "out.json: Permission denied (os error 13)",
    );
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
    // Symptom: the program replaced a read-only file in a writable folder.
    let file = folder.path().join("read-only");
    fs::write(&file, "of value").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    if is_root() {
        for path in [file.as_path(), folder.path()] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
    }
    assert_fails(
        &run(&["--json", "../read-only"]),
        2,
        "read-only: Permission denied (os error 13)",
    );
    assert_eq!(fs::read(&file).unwrap(), b"of value");
}

/// An error, because nobody sees what it finds.
#[test]
fn doctor_without_any_standard_stream_ends_with_an_error() {
    let status = Command::new("sh")
        .args([
            "-c",
            "exec \"$0\" --duration 1s <&- >&- 2>&-",
            env!("CARGO_BIN_EXE_tickline"),
        ])
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2), "{status}");
}

/// The system calls that set a clock, rename, remove, link or create a file, change modes, owners
/// or times, mount, send a signal, or change the kernel.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
const CHANGES: [&str; 24] = [
    "settimeofday",
    "clock_settime",
    "unlinkat",
    "renameat2",
    "linkat",
    "symlinkat",
    "mkdirat",
    "mknodat",
    "fchmod",
    "fchmodat",
    "fchown",
    "fchownat",
    "truncate",
    "ftruncate",
    "utimensat",
    "mount",
    "umount2",
    "sethostname",
    "reboot",
    "init_module",
    "finit_module",
    "delete_module",
    "kill",
    "bpf",
];

/// Older forms of these calls, some of which newer architectures lack, and which musl uses.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
const OLDER_CHANGES: [&str; 14] = [
    "creat", "unlink", "rename", "renameat", "link", "symlink", "mkdir", "rmdir", "mknod", "chmod",
    "chown", "lchown", "utime", "utimes",
];

/// The flags with which `open` may write. `O_RDONLY` is 0.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
const OPEN_FOR_WRITING: [i32; 4] = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];

/// The rules of seccompiler for all of these calls that the architecture has.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
fn rules_of_changes() -> Vec<Value> {
    let calls = CHANGES.iter().chain(&OLDER_CHANGES);
    let mut rules: Vec<Value> = calls.map(|call| json!({ "syscall": call })).collect();
    let mut add_open = |call: &str, flags_index: u8| {
        for flag in OPEN_FOR_WRITING {
            let has_flag = json!({
                "index": flags_index,
                "type": "dword",
                "op": { "masked_eq": flag },
                "val": flag,
            });
            rules.push(json!({ "syscall": call, "args": [has_flag] }));
        }
    };
    add_open("openat", 2);
    add_open("open", 1);
    // x86_64 has all of them, so a name that seccompiler does not know there is a mistake.
    if cfg!(not(target_arch = "x86_64")) {
        rules.retain(|rule| filter(&"kill_process".into(), &json!([rule])).is_ok());
    }
    rules
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
#[test]
fn who_attaches_to_no_process() {
    let rules = ["ptrace", "process_vm_readv", "process_vm_writev"];
    let rules = rules.map(|call| json!({ "syscall": call }));
    let kills = filter(&"kill_process".into(), &json!(rules)).unwrap();
    let mut command = tickline(&["who", "--duration", "1s"]);
    put_under(&mut command, kills);
    let output = command.output().unwrap();
    let errors = text(&output.stderr);
    assert!(
        output.status.code().is_some(),
        "{}: {errors}",
        output.status
    );
    if !output.status.success() {
        let answer = text(&output.stdout);
        skip(format_args!(
            "calls of the clock can't be counted here: {answer}{errors}"
        ));
    }
}

/// A filter kills the program and its child processes at a system call that
///
/// - opens a file for writing,
/// - renames, removes, links or creates a file,
/// - changes modes or owners,
/// - mounts,
/// - sets a clock,
/// - sends a signal.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
#[test]
fn doctor_makes_no_system_call_that_changes_the_system() {
    use std::os::unix::process::ExitStatusExt;

    let rules = Value::from(rules_of_changes());
    let folder = tempfile::tempdir().unwrap();
    let run = |target: &str| {
        let mut command = tickline(&["--json", target]);
        let kills = filter(&"kill_process".into(), &rules).unwrap();
        put_under(command.current_dir(&folder), kills);
        command.output().unwrap()
    };
    // First check the filter: it must kill a program that writes a file.
    let status = run("out.json").status;
    assert_eq!(
        status.signal(),
        Some(libc::SIGSYS),
        "the filter has no effect: {status}"
    );
    let output = run("-");
    let errors = text(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}: {errors}",
        output.status
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Check that the program and its child processes have done all their work.
    assert!(
        document["served_unknown"].is_null(),
        "{}",
        document["served_unknown"]
    );
    assert!(!document["track"]["points"].as_array().unwrap().is_empty());
}
