//! Every call (`c/calls.c`) answers as without a page, in each way in which a program gets the
//! page.

use std::process::Command;
use std::sync::OnceLock;

use crate::common::skip;
use crate::served::{self, Calls, ServedPage};

/// What `c/calls.c` says of its clocks if the page answers them.
const ALL_SERVED: [&str; 3] = ["at first: 111", "in a fork: 111", "executed: 111"];

/// The program, dynamic and static, which the tests share.
fn programs() -> Option<&'static (String, Option<String>)> {
    static COMPILED: OnceLock<Option<(String, Option<String>)>> = OnceLock::new();
    COMPILED.get_or_init(|| served::compile("calls")).as_ref()
}

/// Compares the calls of `command`, which runs `program`, with those of the program alone: in the
/// time namespace of this process, and in another one.
fn assert_answers_as_alone(command: &Command, program: &str, is_served: [&str; 3]) {
    assert_answers_behind(&[], command, program, is_served);
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
    let namespace = served::behind(&offset, &Command::new("true")).output();
    if namespace.is_ok_and(|output| output.status.success()) {
        assert_answers_behind(&offset, command, program, is_served);
    } else {
        skip("programs in a time namespace: unshare -T makes none here");
    }
}

fn assert_answers_behind(prefix: &[&str], command: &Command, program: &str, is_served: [&str; 3]) {
    let plain = served::calls(prefix, &Command::new(program));
    assert_eq!(
        plain.is_served,
        ["at first: 000", "in a fork: 000", "executed: 000"]
    );
    // If a child finds the kernel's tick late, it asks the kernel, whose clock may be below the
    // parent's last reading (machine/docs/lease.md, "Exceptions"). So the test tries again.
    let mut tries = (0..5)
        .map(|_| served::calls(prefix, command))
        .inspect(|found| {
            assert_eq!(of_one_process(found), of_one_process(&plain), "{prefix:?}");
        });
    assert!(
        tries.any(|found| found.is_served == is_served && found.answers == plain.answers),
        "{prefix:?}: a child was not served, or behind"
    );
}

fn of_one_process(calls: &Calls) -> Vec<&String> {
    let answers = calls.answers.iter();
    answers
        .filter(|answer| !answer.starts_with("fork: "))
        .collect()
}

#[test]
fn a_preloaded_program_answers_as_without_a_page() {
    let (Some(served), Some((dynamic, _))) = (ServedPage::new(), programs()) else {
        return;
    };
    let mut preloaded = Command::new(dynamic);
    preloaded
        .env("LD_PRELOAD", served.library)
        .env("TICKLINE_PAGE", &served.page)
        .env("TICKLINE_SERVE", "always")
        .env_remove("TICKLINE");
    assert_answers_as_alone(&preloaded, dynamic, ALL_SERVED);
}

#[test]
fn a_dynamic_program_answers_as_without_a_page() {
    let (Some(served), Some((dynamic, _))) = (ServedPage::new(), programs()) else {
        return;
    };
    assert_answers_as_alone(&served.run(&[dynamic]), dynamic, ALL_SERVED);
}

/// A static program that is executed by a static program is not served.
#[test]
fn a_static_program_answers_as_without_a_page() {
    let (Some(served), Some((dynamic, Some(fixed)))) = (ServedPage::new(), programs()) else {
        return;
    };
    let is_served = ["at first: 111", "in a fork: 111", "executed: 000"];
    assert_answers_as_alone(&served.run(&[fixed]), dynamic, is_served);
}
