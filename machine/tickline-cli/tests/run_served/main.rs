//! Tests of programs that `tickline run` serves, and of clocks of a page. The page's line is 5 ms
//! above the OS clock, so a test can tell the two. The tests run on any host whose counter may be
//! read.
//!
//! Some of the programs are this test program, executed again.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what a child has found")]

mod announced;
mod calls;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod forks;
mod found;
mod interposed;
mod plainly;
mod served;
mod signals;

use std::env;
use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use common::{skip, text};
use serde_json::Value;
use served::{ServedPage, output};
use signals::count_signals;

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

/// Symptom: "which reads the page itself", of a program that has the library without its file.
#[test]
fn the_status_says_that_the_library_reads_the_page_in_a_static_program() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let Some((_, Some(program))) = served::compile("pauses") else {
        return;
    };
    let mut program = served.run(&[&program]).spawn().unwrap();
    let reader = common::wait_for("the program has the page", || {
        let report = common::server::status(&served.page).unwrap();
        let mut readers = report["readers"].as_array().unwrap().iter();
        // `tickline run` has the page before it executes the program.
        let is_program =
            |reader: &&Value| reader["pid"] == program.id() && reader["name"] == "pauses-static";
        readers.find(is_program).cloned()
    });
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(reader["by_library"], true, "{reader}");
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
            skip(format_args!(
                "no namespace of processes: {}",
                text(&plain.stderr)
            ));
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
            skip(format_args!("the vDSO does not move: {plain:?}"));
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
