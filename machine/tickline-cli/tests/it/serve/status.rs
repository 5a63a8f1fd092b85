//! `serve status` shows the state of a page.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tickline_page::page_file::LockedPageFile;

use super::{page_of_stopped_server, page_without_server, served};
use crate::common::server::{folder, run, status};
use crate::common::{assert_fails, is_root, skip, text, tickline, wait_for};
use crate::harmless::{USER, open_folder, unprivileged};
use crate::measured::{closed, faults, schema};

#[test]
fn the_status_has_the_keys_of_its_schema() {
    let (_folder, page) = page_without_server();
    let schema = closed(schema("tickline-serve-1"));
    let faults = faults(&schema, &status(&page).unwrap());
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A page without a line, a server and readers has null and empty lists for their keys.
#[test]
fn the_status_of_a_served_page_with_a_reader_has_the_keys_of_its_schema() {
    let Some((_folder, page, _server)) = served() else {
        return;
    };
    let _clock = tickline_page::open(&page).unwrap();
    // On a busy machine the leases may run out.
    let shown = wait_for("it is served", || {
        status(&page).filter(|shown| shown["serving"] == true)
    });
    assert!(shown["readers"][0].is_object(), "{shown}");
    let faults = faults(&closed(schema("tickline-serve-1")), &shown);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_status_has_its_schema_and_the_pages_owner() {
    let (_folder, page) = page_without_server();
    let shown = status(&page).unwrap();
    assert_eq!(shown["schema"], "tickline-serve/1");
    assert_eq!(shown["owner"], fs::metadata(&page).unwrap().uid());
}

/// Symptom: the advice to move `/etc/passwd` away.
#[test]
fn a_file_that_is_no_page_may_be_the_wrong_path() {
    let (_folder, page) = folder();
    fs::write(&page, "junk").unwrap();
    for word in ["status", "off"] {
        assert_fails(&run(&page, &[word]), 2, "the right path?");
        assert!(!text(&run(&page, &[word]).stderr).contains("move"));
    }
}

#[test]
fn a_page_whose_server_has_ended_says_so() {
    let (_folder, page) = page_of_stopped_server();
    let shown = text(&run(&page, &["status"]).stdout);
    if shown.contains("tickline doctor") {
        return skip(format_args!("a gate is closed on this machine: {shown}"));
    }
    assert!(shown.contains("the server has ended"), "{shown}");
}

#[test]
fn a_server_that_a_signal_has_stopped_is_said_to_be_stopped() {
    let Some((_folder, page, server)) = served() else {
        return;
    };
    server.signal(libc::SIGSTOP);
    let advice = format!("(state T): `kill -CONT {}`", server.0.id());
    wait_for("the status says so", || {
        let shown = text(&run(&page, &["status"]).stdout);
        shown.contains(&advice).then_some(())
    });
}

#[test]
fn the_status_of_a_page_that_is_not_served_is_negative() {
    let (_folder, page) = page_without_server();
    assert_eq!(run(&page, &["status"]).status.code(), Some(1));
}

#[test]
fn a_served_page_has_a_lead_and_a_lease() {
    let Some((_folder, page, _server)) = served() else {
        return;
    };
    // On a busy machine the server may get no CPU between two checks, and its leases run out.
    let shown = wait_for("it is served", || {
        status(&page).filter(|shown| shown["serving"] == true)
    });
    assert!(
        shown["lead_ns"].as_i64().unwrap() > 0 && shown["lease_ns"].as_i64().unwrap() > 0,
        "{shown}"
    );
}

#[test]
fn a_served_page_says_so_in_words() {
    let Some((_folder, page, _server)) = served() else {
        return;
    };
    // As above, the leases may run out.
    let words = wait_for("it says so", || {
        Some(text(&run(&page, &["status"]).stdout))
            .filter(|words| words.contains("phase   published: "))
    });
    for part in [
        "above the OS clock",
        "all leases end in",
        "server  process ",
    ] {
        assert!(words.contains(part), "{part} is not in:\n{words}");
    }
}

/// Symptom: "no page is served", which said that a process served it.
#[test]
fn the_status_of_a_deleted_file_names_the_process_that_serves_it() {
    let (_folder, page) = folder();
    let _server = LockedPageFile::create(&page).unwrap();
    fs::remove_file(&page).unwrap();
    let expected = format!(
        "process {} serves a deleted file: restart it",
        std::process::id()
    );
    assert_fails(&run(&page, &["status"]), 2, &expected);
}

/// Symptom: "its lock cannot be opened: Permission denied (os error 13)", which reads as a fault.
#[test]
fn another_user_is_told_who_may_see_the_server() {
    if !is_root() {
        return skip("needs root");
    }
    let (_program_folder, program) = open_folder();
    let (_folder, page) = page_of_stopped_server();
    let mut command = unprivileged(&program);
    command.args(["serve", "status", "--page"]).arg(&page);
    let output = command.output().unwrap();
    let shown = text(&output.stdout);
    let expected = "server  unknown: only root and the page's owner may see it\n";
    assert!(shown.contains(expected), "{shown}");
}

/// Symptom: the machines of a fleet without a line looked alike.
#[test]
fn a_page_without_a_line_says_which_gate_is_closed() {
    const SCRIPT: &str = "for file in current available; do
        mount --bind \"$1\" /sys/devices/system/clocksource/clocksource0/${file}_clocksource || exit
        done && echo mounted && \"$0\" serve status --page \"$2\" --json -";
    let (folder, page) = page_of_stopped_server();
    let clocksource = folder.path().join("clocksource");
    fs::write(&clocksource, "hpet\n").unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--fork", "sh", "-c", SCRIPT])
        .arg(env!("CARGO_BIN_EXE_tickline"))
        .args([&clocksource, &page])
        .env_remove("TICKLINE")
        .output();
    let shown = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    let Some(shown) = shown.strip_prefix("mounted\n") else {
        return skip(format_args!("no mount namespace: {shown}"));
    };
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert!(
        shown["no_line_reason"] == "kernel_rejected" || !cfg!(target_arch = "x86_64"),
        "{shown}"
    );
}

#[test]
fn json_is_for_the_status_of_a_page() {
    let (_folder, page) = folder();
    let advice = "tip: it is for status: tickline serve status --json FILE";
    assert_fails(&run(&page, &["--json", "-"]), 78, advice);
    assert_fails(&run(&page, &["status"]), 2, "there is no page");
}

#[test]
fn a_wrong_action_is_answered_with_the_actions() {
    let (_folder, page) = folder();
    assert_fails(
        &run(&page, &["stop"]),
        78,
        "tip: the actions are status, off and on",
    );
}

#[test]
fn status_lists_who_reads_the_page() {
    let (_folder, page) = page_without_server();
    let is_listed = || {
        let listed = status(&page).unwrap()["readers"].clone();
        let mut readers = listed.as_array().unwrap().iter();
        readers.any(|reader| reader["pid"] == std::process::id())
    };
    assert!(!is_listed());
    let clock = tickline_page::open(&page).unwrap();
    assert!(is_listed());
    drop(clock);
    assert!(!is_listed());
}

#[test]
fn status_says_how_a_process_reads_the_page() {
    let (_folder, page) = page_without_server();
    let _clock = tickline_page::open(&page).unwrap();
    let words = text(&run(&page, &["status"]).stdout);
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let line = format!(
        "{} {}, which reads the page itself",
        std::process::id(),
        name.trim_end()
    );
    // A forked child of this process that has not yet executed its program is a reader, too.
    assert!(
        words.contains("\nreaders ") && words.contains(&line),
        "{words}"
    );
}

/// Symptom: a static program that had started before the page kept the OS clock, and no list had
/// it.
#[cfg(target_arch = "x86_64")]
#[test]
fn status_lists_a_program_that_run_could_not_serve() {
    let (_folder, page) = page_without_server();
    let mut run = tickline(&["run", "--quiet", "--always", "--page", "/nonexistent"]);
    let mut program = run.args(["sleep", "60"]).spawn().unwrap();
    let pid = program.id();
    wait_for("the program runs", || {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        (name == "sleep\n").then_some(())
    });
    let listed = status(&page).unwrap()["run_only"].clone();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(listed.as_array().unwrap().contains(&pid.into()), "{listed}");
}

/// Runs a script with the program as `$0` in namespaces of its own, in which `/proc` shows a user
/// only that user's processes. `None`, with a message, if this user may not make namespaces.
fn with_hidden_processes(program: &Path, script: &str) -> Option<std::process::Output> {
    let script = format!(
        "mount -t proc -o hidepid=2 proc /proc && echo mounted && {}",
        script.replace(
            "AS_USER",
            &format!("setpriv --reuid {USER} --regid {USER} --clear-groups")
        )
    );
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--mount", "--fork", "sh", "-c", &script])
        .arg(program)
        .env_remove("TICKLINE");
    let output = command.output().ok()?;
    if text(&output.stdout).starts_with("mounted\n") {
        return Some(output);
    }
    skip(format_args!("no such namespace: {}", text(&output.stderr)));
    None
}

/// Symptom: "mapped by no process", where the user does not see the processes of others.
#[test]
fn the_readers_are_unknown_to_a_user_who_does_not_see_all_processes() {
    let (folder, program) = open_folder();
    let runtime = folder.path().join("runtime");
    let page = runtime.join("tickline/page.v1");
    DirBuilder::new()
        .mode(0o755)
        .recursive(true)
        .create(page.parent().unwrap())
        .unwrap();
    drop(LockedPageFile::create(&page).unwrap());
    let script = format!(
        "XDG_RUNTIME_DIR={} AS_USER \"$0\" doctor --duration 1s --openmetrics -",
        runtime.display()
    );
    let Some(output) = with_hidden_processes(&program, &script) else {
        return;
    };
    let metrics = text(&output.stdout);
    assert!(metrics.contains("tickline_machine_info"), "{output:?}");
    assert!(!metrics.contains("\ntickline_page_readers "), "{metrics}");
    let script = format!("AS_USER \"$0\" serve status --page {}", page.display());
    let output = with_hidden_processes(&program, &script).unwrap();
    let words = text(&output.stdout);
    assert!(
        words.contains("readers 0; /proc hides other users' processes"),
        "{output:?}"
    );
}

/// Symptom: `status` showed the page that root's server had left behind.
#[test]
fn a_page_that_no_server_has_does_not_hide_that_of_the_user() {
    const SCRIPT: &str = "mount -t tmpfs none /run && echo mounted && mkdir -p /run/mine/tickline && chmod -R 755 /run/mine && {
        \"$0\" serve & left=$!
        until test -e /run/tickline/page.v1; do sleep 0.1; done
        kill -9 $left; wait $left
        # The leases run out.
        sleep 2
        \"$0\" serve --page /run/mine/tickline/page.v1 & own=$!
        until \"$0\" serve status --page /run/mine/tickline/page.v1 | grep -q \"process $own\"; do sleep 0.1; done
        \"$0\" serve status; kill -9 $own; } 2>&1";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--fork", "sh", "-c", SCRIPT])
        .arg(env!("CARGO_BIN_EXE_tickline"))
        .env("XDG_RUNTIME_DIR", "/run/mine")
        .env_remove("TICKLINE");
    let output = command.output();
    let shown = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    if !shown.starts_with("mounted\n") {
        return skip(format_args!("no mount namespace: {shown}"));
    }
    assert!(
        shown.contains("page    /run/mine/tickline/page.v1"),
        "{shown}"
    );
}

/// Symptom: after a start that had failed, the status named no start.
#[test]
fn the_status_of_a_missing_page_says_how_to_start_a_server() {
    let (_folder, page) = folder();
    let message = text(&run(&page, &["status"]).stderr);
    assert!(message.contains(", start a server: "), "{message}");
}

/// Symptom: "no page is at /run/tickline/page.v1 or /run/tickline/page.v1".
#[test]
fn two_default_pages_with_one_path_are_named_once() {
    let (_folder, page) = folder();
    let mut command = tickline(&["serve", "status", "--page"]);
    command.arg(page.with_file_name("pgae"));
    let output = command.env("XDG_RUNTIME_DIR", "/run").output().unwrap();
    let message = text(&output.stderr);
    let count = message.matches("/run/tickline/page.v1").count();
    assert_eq!(count, 1, "{message}");
}
