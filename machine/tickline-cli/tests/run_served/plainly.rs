//! Tests of programs that are not traced, or that run although a part of the preparation fails.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::common::{NOBODY, copy_program, is_root, library, skip, text};
use crate::served::{self, ServedPage, output};

fn is_on_tmpfs(folder: &Path) -> bool {
    // Linux, `linux/magic.h`.
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::statfs(folder).unwrap().f_type == TMPFS_MAGIC
}

/// SELinux and AppArmor refuse some execs of a traced process. Here a preloaded library refuses
/// them.
#[cfg(target_env = "gnu")]
#[test]
fn a_program_that_may_not_be_traced_is_executed_plainly() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let Some(refuses) = library("refused", &[], served.folder.path()) else {
        return;
    };
    // A file that cannot be executed anyway: the message must not mention tracing.
    let file = served.folder.path().join("data");
    fs::write(&file, "text").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    for error in [libc::EACCES, libc::EPERM] {
        let run = |mut command: Command| {
            let run = output(
                command
                    .env("LD_PRELOAD", &refuses)
                    .env("TICKLINE_TEST_ERROR", error.to_string()),
            );
            let message = text(&run.stderr);
            assert_eq!(message.lines().count(), 1, "{message}");
            (run.status.code(), message)
        };
        let (code, message) = run(served.run_traced(&["/bin/sh", "-c", "exit 5"]));
        assert_eq!(code, Some(5), "{message}");
        let expected =
            " has the kernel's clock: the kernel refuses to execute it while tickline traces it: ";
        assert!(message.contains(expected), "{message}");
        let (code, message) = run(served.run(&[file.to_str().unwrap()]));
        assert_eq!(
            (code, message.contains("traced")),
            (Some(126), false),
            "{message}"
        );
    }
}

/// If a filter refuses a necessary call, the program runs unserved, and the line says why.
#[test]
fn a_program_whose_preparation_is_refused_runs() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let read_execute = u64::try_from(libc::PROT_READ | libc::PROT_EXEC).unwrap();
    // The kernel may refuse writes to read-only memory by `/proc/PID/mem` (Linux 6.12,
    // `proc_mem.force_override=never`). The filter refuses each write of 24 bytes, the length of
    // the code. Symptom: SIGKILL for the program.
    let write = ("pwrite64", 2, 24);
    let [text, data] = [libc::PTRACE_POKETEXT, libc::PTRACE_POKEDATA]
        .map(|request| ("ptrace", 0, u64::from(request)));
    for (refused, expected) in [
        (
            &[("mprotect", 2, read_execute)][..],
            " has the kernel's clock: Permission denied",
        ),
        (&[write], " has the clock of "),
        (
            &[write, text, data],
            " has the kernel's clock: its code can't be written: Permission denied",
        ),
    ] {
        let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
        for (call, argument, value) in refused {
            served::refuse(&mut command, call, *argument, *value);
        }
        let run = output(&mut command);
        let message = crate::common::text(&run.stderr);
        assert_eq!(
            (run.status.code(), message.lines().count()),
            (Some(5), 1),
            "{message}"
        );
        assert!(message.contains(expected), "{message}");
    }
}

/// Symptom: the filter killed the helper by SIGSYS, and the audit log reported it.
#[test]
fn a_unit_with_a_filter_is_not_traced() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let with = |variable: &str| {
        let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
        // This filter refuses no real call of ptrace.
        served::refuse(&mut command, "ptrace", 0, u64::MAX >> 1);
        let run = output(command.env_remove("INVOCATION_ID").env(variable, "7"));
        assert_eq!(run.status.code(), Some(5), "{run:?}");
        text(&run.stderr)
    };
    let message = with("INVOCATION_ID");
    assert!(
        message.contains("it can't be traced: its unit has a filter of system calls"),
        "{message}"
    );
    let message = with("OTHER");
    assert!(message.contains(" has the clock of "), "{message}");
}

/// `ProcSubset=pid` hides the boot's id. Symptom: "No such file or directory".
#[test]
fn a_page_in_memory_serves_where_proc_hides_the_boot() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let folder = served.folder.path().join("run");
    fs::create_dir(&folder).unwrap();
    for (kind, expected) in [
        ("tmpfs", " has the clock of "),
        ("none", "random/boot_id can't be read: "),
    ] {
        let script =
            "set -e; [ $0 = none ] || mount -t $0 -o mode=755 $0 $1; cp $2 $1/page; chmod 644 $1/page
            mount -t proc -o subset=pid proc /proc; shift 2; exec \"$@\"";
        let page = folder.join("page");
        if kind == "none" && is_on_tmpfs(&folder) {
            skip("all files of tests are in memory here");
            continue;
        }
        let run = served.run_with(&page, &[served::TRACED, "/bin/sh", "-c", "exit 5"]);
        let paths = [&folder, &served.page].map(|path| path.to_str().unwrap());
        let prefix = [
            &["unshare", "--mount", "sh", "-c", script, kind],
            &paths[..],
        ]
        .concat();
        let run = output(&mut served::behind(&prefix, &run));
        let message = text(&run.stderr);
        if message.contains("mount") {
            skip(message);
            return;
        }
        assert_eq!(
            (run.status.code(), message.contains(expected)),
            (Some(5), true),
            "{kind}: {message}"
        );
    }
}

/// Symptom: SIGXFSZ killed `run` when it wrote its line to a file beyond the size limit.
#[test]
fn a_line_that_cannot_be_written_ends_no_program() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let message = served.folder.path().join("message");
    for program in [
        served.run(&["sh", "-c", "exit 5"]),
        served.run_traced(&["/bin/sh", "-c", "exit 5"]),
    ] {
        let script = "ulimit -f 0; message=$1; shift; exec \"$@\" 2>\"$message\"";
        let limited = ["sh", "-c", script, "sh", message.to_str().unwrap()];
        let run = output(&mut served::behind(&limited, &program));
        assert_eq!(run.status.code(), Some(5), "{program:?}");
    }
}

/// A script has the privileges of its interpreter.
#[test]
fn a_script_with_a_privileged_interpreter_is_executed_plainly() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    if !is_root() {
        skip("only root can make a file that is another user's");
        return;
    }
    let folder = served.folder.path();
    let interpreter = folder.join("interpreter");
    let script = folder.join("script");
    let second = folder.join("second");
    copy_program(Path::new("/bin/cat"), &interpreter);
    for (path, first) in [(&script, &interpreter), (&second, &script)] {
        fs::write(path, format!("#! {} /proc/self/status\n", first.display())).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let ids = |output: &std::process::Output| {
        let text = text(&output.stdout);
        text.lines()
            .filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"))
            .collect::<String>()
    };
    let check = |path: &Path, reason: Option<&str>| {
        let plain = output(&mut Command::new(path));
        let run = output(&mut served.run(&[path.to_str().unwrap()]));
        assert_eq!(ids(&run), ids(&plain), "{}", path.display());
        let message = text(&run.stderr);
        match reason {
            Some(reason) => {
                assert!(
                    message.contains(&format!("{} {reason}", interpreter.display())),
                    "{message}"
                )
            }
            None => assert!(message.contains("LD_PRELOAD gives "), "{message}"),
        }
    };
    let set = Some("is set-user-id or set-group-id");
    for path in [&script, &second] {
        std::os::unix::fs::chown(&interpreter, Some(NOBODY), Some(NOBODY)).unwrap();
        for (mode, reason) in [(0o4755, set), (0o2755, set), (0o755, None)] {
            fs::set_permissions(&interpreter, Permissions::from_mode(mode)).unwrap();
            check(path, reason);
        }
    }
    // CAP_NET_RAW (Linux, `linux/capability.h`, `vfs_cap_data`, revision 2).
    let mut capabilities = [0; 20];
    capabilities[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) =
        rustix::fs::setxattr(&interpreter, c"security.capability", &capabilities, flags)
    {
        skip(format_args!("a file with capabilities: {error}"));
        return;
    }
    for path in [&script, &second] {
        check(path, Some("has capabilities of its own"));
    }
}
