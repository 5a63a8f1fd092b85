//! The line that `tickline run` prints before it executes the program: it says only what is known.
//!
//! Symptoms: "X has the clock of PAGE" spoke of programs that X starts as well; "X has the kernel's
//! clock" spoke of programs that `LD_PRELOAD` served; "X is served by LD_PRELOAD" spoke of programs
//! that the library does not serve.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::common::{self, skip, text};
use crate::served::{self, ServedPage, TRACED, output};
use crate::signals::with_two_users;

/// Asserts that the program succeeds after this line alone.
fn assert_says(mut command: Command, line: &str) {
    assert_eq!(said(&mut command), line);
}

/// As [`assert_says`], of a line that begins so.
fn assert_begins(mut command: Command, beginning: &str) {
    let line = said(&mut command);
    assert!(line.starts_with(beginning), "{line}, not {beginning}");
}

/// The line of a program that succeeds.
fn said(command: &mut Command) -> String {
    let output = output(command);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
        .trim_end()
        .trim_start_matches("tickline: ")
        .to_owned()
}

/// What follows a program in the line about its clock: the clock is the page's.
fn the_clock(served: &ServedPage) -> String {
    format!(
        "the clock of {} by {}; dynamic programs that it starts with LD_PRELOAD have it, too",
        served.page.display(),
        served.library.display()
    )
}

fn without_clone(mut command: Command) -> Command {
    served::refuse(&mut command, "clone", 0, 0);
    command
}

/// `tickline run` in the environment of an outer one, whose variables have these values.
fn in_outer_run(served: &ServedPage, library: &str, serve: &str, switch: &str) -> Command {
    let mut command = common::tickline(&["run", "--library", library, "true"]);
    command
        .env("LD_PRELOAD", served.library)
        .env("TICKLINE_PAGE", &served.page)
        .env("TICKLINE_SERVE", serve)
        .env("TICKLINE", switch);
    command
}

#[test]
fn a_dynamic_program_is_given_the_clock() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let line = format!("LD_PRELOAD gives true {}", the_clock(&served));
    assert_says(served.run(&["true"]), &line);
}

#[test]
fn a_dynamic_program_needs_no_helper() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let line = format!("LD_PRELOAD gives true {}", the_clock(&served));
    assert_says(without_clone(served.run(&["true"])), &line);
}

#[test]
fn a_traced_program_has_the_clock() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let line = format!("{TRACED} has {}", the_clock(&served));
    assert_says(served.run_traced(&["/bin/true"]), &line);
}

#[test]
fn a_traced_program_without_a_helper_has_the_kernels_clock() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let line = format!(
        "{TRACED} has the kernel's clock: it can't be traced: its helper was not started: \
         Permission denied (os error 13); libtickline_preload.so is in LD_PRELOAD"
    );
    assert_says(without_clone(served.run_traced(&["/bin/true"])), &line);
}

#[test]
fn a_run_in_an_outer_one_gives_the_clock() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let library = served.library.to_str().unwrap();
    let line = format!("LD_PRELOAD gives true {}", the_clock(&served));
    assert_says(in_outer_run(&served, library, "always", "on"), &line);
}

#[test]
fn a_run_without_a_library_leaves_the_program_to_the_outer_one() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    assert_begins(
        in_outer_run(&served, "/nonexistent", "always", "on"),
        "true may be served by libtickline_preload.so in LD_PRELOAD alone: /nonexistent: No ",
    );
}

/// Symptom: "its folder can't be opened", without a doubt about the path.
#[test]
fn a_page_whose_path_has_a_typing_error_is_doubted() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let library = served.library.to_str().unwrap();
    let mut run = common::tickline(&["run", "--always", "--library", library, "true"]);
    run.env("TICKLINE_PAGE", "/nonexistent/pgae");
    assert_begins(
        run,
        "true has the kernel's clock: there is no page /nonexistent/pgae: there is no folder \
         /nonexistent",
    );
}

#[test]
fn a_run_that_is_switched_off_says_so() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let library = served.library.to_str().unwrap();
    assert_says(
        in_outer_run(&served, library, "always", "off"),
        "true has the kernel's clock: TICKLINE=off",
    );
}

/// In a process with another user's rights, a dynamic linker ignores `LD_PRELOAD`.
#[test]
fn a_program_with_another_users_rights_has_the_clock() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    if !common::is_root() {
        skip("a process with the rights of another user: this user is not root");
        return;
    }
    let mut command = served.run(&["true"]);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(with_two_users) };
    assert_says(command, &format!("true has {}", the_clock(&served)));
}

#[test]
fn a_fast_clock_is_left_as_it_is() {
    if !tickline_page::program::kernels_clock_is_fast() {
        skip("the kernel's clock is a system call here");
        return;
    }
    let fast = "true has the kernel's clock: it needs no system call here";
    assert_begins(common::tickline(&["run", "true"]), fast);
}

/// Symptom: the line did not say how to get the page all the same.
#[test]
fn beside_a_fast_clock_the_option_that_uses_the_page_is_named() {
    if !tickline_page::program::kernels_clock_is_fast() {
        skip("the kernel's clock is a system call here");
        return;
    }
    let line = said(&mut common::tickline(&["run", "true"]));
    let option = "; to use the page all the same: tickline run --always";
    assert!(line.ends_with(option), "{line}");
}

#[test]
fn a_fast_clock_is_left_as_it_is_in_an_outer_run() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    if !tickline_page::program::kernels_clock_is_fast() {
        skip("the kernel's clock is a system call here");
        return;
    }
    let library = served.library.to_str().unwrap();
    let fast = "true has the kernel's clock: it needs no system call here";
    assert_begins(in_outer_run(&served, library, "", "on"), fast);
}

/// Symptom: "it is switched off" between `serve on` and the start of a server.
#[test]
fn a_page_that_was_switched_on_lacks_a_server() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    for word in ["off", "on"] {
        let switched = output(common::tickline(&["serve", word, "--page"]).arg(&served.page));
        assert_eq!(switched.status.code(), Some(0), "{switched:?}");
    }
    let line = format!(
        "true asks the kernel until {} is served: no server publishes a line",
        served.page.display()
    );
    assert_says(served.run(&["true"]), &line);
}

/// Symptom: "true has the clock of PAGE".
#[test]
fn a_page_that_is_off_is_called_off() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let off = output(common::tickline(&["serve", "off", "--page"]).arg(&served.page));
    assert_eq!(off.status.code(), Some(0), "{off:?}");
    let line = format!(
        "true asks the kernel until {} is served: it is switched off",
        served.page.display()
    );
    assert_says(served.run(&["true"]), &line);
}
