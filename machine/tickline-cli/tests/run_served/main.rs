//! Tests of programs that `tickline run` serves, and of clocks of a page. The page's line is 5 ms
//! above the OS clock, so a test can tell the two. The tests run on any host whose counter may be
//! read.
//!
//! Some of the programs are this test program, executed again.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(
    clippy::print_stdout,
    reason = "what was skipped, and what a child has found"
)]

mod clock;
#[path = "../common/mod.rs"]
mod common;
mod forks;
mod found;
mod interposed;
#[path = "../../../tickline-preload/tests/page/mod.rs"]
mod page;
mod plainly;
mod served;
mod signals;

use std::env;
use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use common::text;
use served::{Calls, ServedPage, output};
use signals::{count_signals, with_two_users};

/// The variable with the role of a child process that is this test program.
const ROLE: &str = "TICKLINE_TEST_ROLE";

/// The child process of the other tests. Does nothing by itself.
#[test]
fn role_named_by_the_variable() {
    match env::var(ROLE).as_deref() {
        Ok("counts") => count_signals(),
        Ok(role) => clock::play(role),
        Err(_) => {}
    }
}

/// The variables also keep their order.
#[test]
fn the_environment_stays_as_it_was() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let program = ["sh", "-c", "tr '\\0' '\\n' </proc/self/environ"];
    let with = |command: &Command| {
        let prefix = ["env", "-i", "PATH=/usr/bin:/bin", "Z=1", "A=2", "M=3"];
        output(&mut served::behind(&prefix, command))
    };
    let plain = with(&served::program(&program));
    let run = with(&served.run(&program));
    let found = text(&run.stdout);
    let is_kept = |line: &&str| !line.starts_with("LD_PRELOAD=") && !line.starts_with("TICKLINE_");
    let kept: Vec<_> = found.lines().filter(is_kept).collect();
    assert!(
        found.contains("LD_PRELOAD="),
        "{found} {}",
        text(&run.stderr)
    );
    assert_eq!(kept, text(&plain.stdout).lines().collect::<Vec<_>>());
}

/// Of two variables with one name, ld.so reads the last, and other code the first. Symptom: the
/// program had no page, after the line "LD_PRELOAD gives cat the clock".
#[test]
fn a_variable_that_is_there_twice_is_set() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let mut command = served.run(&["/bin/cat", "/proc/self/maps"]);
    let string = |text: &std::ffi::OsStr| CString::new(text.as_encoded_bytes()).unwrap();
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(string)
        .collect();
    let twice = [c"LD_PRELOAD=".to_owned(), c"LD_PRELOAD=".to_owned()];
    let execute = move || {
        let pointers = |strings: &[CString]| -> Vec<_> {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([ptr::null()])
                .collect()
        };
        let words = pointers(&words);
        let twice = pointers(&twice);
        // SAFETY: both lists end with null, and their strings live until the call.
        unsafe { libc::execve(words[0], words.as_ptr(), twice.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: the closure allocates and makes a system call, in a child that has one thread.
    let run = output(unsafe { command.pre_exec(execute) });
    let maps = text(&run.stdout);
    assert!(
        maps.contains(served.page.to_str().unwrap()),
        "{}{maps}",
        text(&run.stderr)
    );
}

/// If process numbers are ambiguous, `run` traces no process.
#[test]
fn a_program_in_another_namespace_of_processes_is_not_traced() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let program = [served::TRACED, "/bin/sh", "-c", "(exit 3); echo $?"];
    // Children are in another namespace than their parent, or `/proc` shows the parent's namespace.
    let prefix = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    for prefix in [&prefix[..4], &prefix] {
        let with = |command: &Command| output(&mut served::behind(prefix, command));
        let plain = with(&served::program(&program));
        let run = with(&served.run(&program));
        if !plain.status.success() {
            println!(
                "SKIPPED: no namespace of processes: {}",
                text(&plain.stderr)
            );
            continue;
        }
        assert_eq!(
            text(&run.stdout),
            text(&plain.stdout),
            "{prefix:?}: {}",
            text(&run.stderr)
        );
        assert!(
            text(&run.stderr).contains("can't be traced"),
            "{prefix:?}: {}",
            text(&run.stderr)
        );
    }
}

/// Symptoms: "X has the clock of PAGE" spoke of programs that X starts as well; "X has the kernel's
/// clock" spoke of programs that `LD_PRELOAD` served; "X is served by LD_PRELOAD" spoke of programs
/// that the library does not serve.
#[test]
fn the_line_before_the_exec_says_only_what_is_known() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let page = served.page.display();
    let library = served.library.to_str().unwrap();
    let others = "dynamic programs that it starts with LD_PRELOAD have it, too";
    let gives = format!("LD_PRELOAD gives true the clock of {page} by {library}; {others}");
    let has = |program: &str| format!("{program} has the clock of {page} by {library}; {others}");
    let no_helper = "has the kernel's clock: it can't be traced: its helper was not started: Permission denied \
                     (os error 13); libtickline_preload.so is in LD_PRELOAD";
    let alone =
        "true may be served by libtickline_preload.so in LD_PRELOAD alone: /nonexistent: No ...";
    let off = "true has the kernel's clock: TICKLINE=off";
    let without_clone = |mut command: Command| {
        served::refuse(&mut command, "clone", 0, 0);
        command
    };
    let in_outer_run = |library: &str, serve: &str, switch: &str| {
        let mut command = common::tickline(&["run", "--library", library, "true"]);
        command
            .env("LD_PRELOAD", served.library)
            .env("TICKLINE_PAGE", &served.page);
        command.env("TICKLINE_SERVE", serve).env("TICKLINE", switch);
        command
    };
    let run = || served.run(&["true"]);
    let traced = || served.run_traced(&["/bin/true"]);
    let mut cases = vec![
        ("a dynamic program", run(), gives.clone()),
        ("a traced program", traced(), has(served::TRACED)),
        (
            "a dynamic program, which needs no helper",
            without_clone(run()),
            gives.clone(),
        ),
        (
            "a traced program without a helper",
            without_clone(traced()),
            [served::TRACED, no_helper].join(" "),
        ),
        (
            "in an outer run",
            in_outer_run(library, "always", "on"),
            gives,
        ),
        (
            "in an outer run, without a library",
            in_outer_run("/nonexistent", "always", "on"),
            alone.into(),
        ),
        (
            "in an outer run, switched off",
            in_outer_run(library, "always", "off"),
            off.into(),
        ),
    ];
    if common::is_root() {
        // In a process with another user's rights, a dynamic linker ignores `LD_PRELOAD`.
        let mut command = run();
        // SAFETY: the closure makes one system call.
        unsafe { command.pre_exec(with_two_users) };
        cases.push(("another user's rights", command, has("true")));
    } else {
        println!("SKIPPED: a process with the rights of another user: this user is not root");
    }
    if tickline_page::program::kernels_clock_is_fast() {
        let fast = "true has the kernel's clock: it needs no system call here...";
        cases.push((
            "a fast clock",
            common::tickline(&["run", "true"]),
            fast.into(),
        ));
        cases.push((
            "a fast clock, in an outer run",
            in_outer_run(library, "", "on"),
            fast.into(),
        ));
    }
    cases.into_iter().for_each(assert_says);
}

/// Symptom: "true has the clock of PAGE".
#[test]
fn the_line_says_that_the_page_is_off() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let off = output(common::tickline(&["serve", "off", "--page"]).arg(&served.page));
    assert_eq!(off.status.code(), Some(0), "{off:?}");
    let line = format!(
        "true asks the kernel until {} is served: it is switched off",
        served.page.display()
    );
    assert_says(("a page that is off", served.run(&["true"]), line));
}

/// Asserts that in a situation, the program succeeds after this line, or after one that begins so.
fn assert_says((situation, mut command, line): (&str, Command, String)) {
    let output = output(&mut command);
    let message = text(&output.stderr);
    assert_eq!(
        (output.status.code(), message.lines().count()),
        (Some(0), 1),
        "{situation}: {message}"
    );
    let message = message.trim_end().trim_start_matches("tickline: ");
    let is_it = line
        .strip_suffix("...")
        .map_or(message == line, |beginning| message.starts_with(beginning));
    assert!(is_it, "{situation}: {message}, not {line}");
}

/// Symptom: SIGSEGV in the program, because the symbols of the moved vDSO still led to the library
/// by relative addresses.
#[test]
fn a_program_may_move_its_vdso() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let Some((dynamic, fixed)) = served::compile("moved") else {
        return;
    };
    for program in [Some(dynamic), fixed].into_iter().flatten() {
        let plain = output(&mut Command::new(&program));
        if plain.status.code() != Some(0) {
            println!("SKIPPED: the vDSO does not move: {plain:?}");
            return;
        }
        let run = output(&mut served.run(&[&program]));
        assert_eq!(run.status.code(), Some(0), "{program}: {run:?}");
        assert_eq!(text(&run.stdout), text(&plain.stdout), "{program}");
        assert!(
            text(&run.stderr).contains(" the clock of "),
            "{}",
            text(&run.stderr)
        );
    }
}

/// A program that adopts orphans does not find the helper among its children, and no other process
/// must wait for the helper. Symptom: as process 1, and as a subreaper, such a program was not
/// served.
#[test]
fn a_program_that_adopts_orphans_is_served() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let children = "read children </proc/self/task/$$/children; echo \"<$children>\"";
    let mut command = served.run_traced(&["/bin/sh", "-c", children]);
    let adopt = || {
        // SAFETY: the call takes no pointer.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(adopt) };
    let run = output(&mut command);
    assert!(
        text(&run.stderr).contains("has the clock of"),
        "{}",
        text(&run.stderr)
    );
    assert_eq!(text(&run.stdout), "<>\n", "{run:?}");
}

/// Symptom: a stack overflow in `run` (`ulimit -s 40`). A test build needs more stack than a
/// release build, so the limit here is higher.
#[test]
fn a_program_with_a_small_stack_runs() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let limit = ["env", "-i", "sh", "-c", "ulimit -s 96; exec \"$@\"", "sh"];
    for command in [
        served.run(&["/bin/true"]),
        served.run_traced(&["/bin/true"]),
    ] {
        let run = output(&mut served::behind(&limit, &command));
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        assert!(text(&run.stderr).contains(" the clock of "), "{run:?}");
    }
}

/// Compares every call with and without a page, for each way in which a program gets the page.
#[test]
fn every_call_answers_as_without_a_page() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let Some((dynamic, fixed)) = served::compile("calls") else {
        return;
    };
    let offset = [
        "unshare",
        "-T",
        "-f",
        "--monotonic",
        "100000",
        "--boottime",
        "200000",
        "--",
    ];
    let has_namespaces = served::behind(&offset, &Command::new("true")).output();
    let mut prefixes = vec![&[][..]];
    if has_namespaces.is_ok_and(|output| output.status.success()) {
        prefixes.push(&offset);
    } else {
        println!("SKIPPED: programs in a time namespace: unshare -T makes none here");
    }
    for prefix in prefixes {
        let calls = |command: &Command| served::calls(prefix, command);
        let plain = calls(&Command::new(&dynamic));
        assert_eq!(
            plain.is_served,
            ["at first: 000", "in a fork: 000", "executed: 000"]
        );
        let all = ["at first: 111", "in a fork: 111", "executed: 111"];
        let mut preloaded = Command::new(&dynamic);
        preloaded
            .env("LD_PRELOAD", served.library)
            .env("TICKLINE_SERVE", "always")
            .env_remove("TICKLINE");
        preloaded.env("TICKLINE_PAGE", &served.page);
        let run = |program: &str| served.run(&[program]);
        let mut ways = vec![
            ("LD_PRELOAD", preloaded, all),
            ("run, dynamic", run(&dynamic), all),
        ];
        if let Some(fixed) = &fixed {
            // A static program that is executed by a static program is not served.
            ways.push((
                "run, static",
                run(fixed),
                ["at first: 111", "in a fork: 111", "executed: 000"],
            ));
        }
        for (way, command, is_served) in ways {
            // If a child finds the kernel's tick late, it asks the kernel, whose clock may be below
            // the parent's last reading (machine/docs/lease.md, "Exceptions"). So the test tries
            // again.
            let mut tries = (0..5).map(|_| calls(&command)).inspect(|found| {
                let of_one_process = |found: &Calls| -> Vec<String> {
                    found
                        .answers
                        .iter()
                        .filter(|answer| !answer.starts_with("fork: "))
                        .cloned()
                        .collect()
                };
                assert_eq!(
                    of_one_process(found),
                    of_one_process(&plain),
                    "{way} {prefix:?}"
                );
            });
            let is_as_expected =
                |found: Calls| found.is_served == is_served && found.answers == plain.answers;
            assert!(
                tries.any(is_as_expected),
                "{way} {prefix:?}: a child was not served, or behind"
            );
        }
    }
}
