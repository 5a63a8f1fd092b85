//! `serve off` and `serve on` change the page alone: a dead or stopped server can't be asked.

use std::path::Path;
use std::process::Command;

use super::page_without_server;
use crate::common::server::{Server, folder, run, status, wait_for_line};
use crate::common::{assert_fails, skip, text, tickline, wait_for};
use crate::harmless::{USER, open_folder};

/// Switches a page off or on, and returns what the program says.
#[track_caller]
fn switch(page: &Path, word: &str) -> String {
    let output = run(page, &[word]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The option that names this page in a command. Its path is quoted, because a mark stands for a
/// control character.
fn option_of(page: &Path) -> String {
    let page = page.display().to_string().replace('\u{1b}', "\u{fffd}");
    format!("--page '{page}'")
}

#[track_caller]
fn assert_off(page: &Path) {
    let shown = status(page).unwrap();
    assert_eq!(
        (&shown["phase"], &shown["switched_off"]),
        (&"off".into(), &true.into()),
        "{shown}"
    );
}

/// Checks that a server has ended because its page is off. With another code systemd would start
/// the server again.
#[track_caller]
fn assert_ended_by_off(server: &mut Server) -> String {
    let (code, messages) = server.ended();
    assert!(
        code == Some(0) && messages.contains("the page is switched off"),
        "{code:?}: {messages}"
    );
    messages
}

#[test]
fn off_ends_a_running_server() {
    let (_folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    let said = switch(&page, "off");
    assert!(said.contains(": off; it was "), "{said}");
    assert_ended_by_off(&mut server);
    assert_off(&page);
}

/// The guide's check for Nagios has no other way to know it.
#[test]
fn the_guides_check_finds_that_a_page_is_switched_off() {
    let guide = include_str!("../../../../docs/fleet.md");
    let (_, pattern) = guide
        .split_once("--json - 2>/dev/null | grep -q '")
        .unwrap();
    let (pattern, _) = pattern.split_once('\'').unwrap();
    let (_folder, page) = page_without_server();
    let shown = || text(&run(&page, &["status", "--json", "-"]).stdout);
    assert!(!shown().contains(pattern), "{}", shown());
    switch(&page, "off");
    assert!(shown().contains(pattern), "{}", shown());
}

#[test]
fn off_needs_no_live_server() {
    let (_folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    server.signal(libc::SIGKILL);
    server.ended();
    let said = switch(&page, "off");
    assert!(said.contains(": off; it was "), "{said}");
    assert_off(&page);
}

#[test]
fn a_server_that_resumes_late_leaves_the_page_off() {
    let (_folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    server.signal(libc::SIGSTOP);
    let said = switch(&page, "off");
    assert!(said.contains(": off; it was "), "{said}");
    server.signal(libc::SIGCONT);
    assert_ended_by_off(&mut server);
    assert_off(&page);
}

/// systemd starts a server again after a kill.
#[test]
fn a_server_that_starts_on_a_page_that_is_off_leaves_it_off() {
    let (_folder, page) = folder();
    let mut killed = Server::start(&page);
    wait_for_line(&page, &killed);
    killed.signal(libc::SIGKILL);
    killed.ended();
    switch(&page, "off");
    let messages = assert_ended_by_off(&mut Server::start(&page));
    let on = format!(" serve on {}", option_of(&page));
    assert!(messages.contains(&on), "{messages}");
    assert!(!messages.contains("serves this page"), "{messages}");
    assert_off(&page);
}

#[test]
fn after_on_another_start_serves_the_page() {
    let (_folder, page) = page_without_server();
    switch(&page, "off");
    let said = switch(&page, "on");
    assert!(said.contains(": a server may serve it again"), "{said}");
    let _server = Server::start(&page);
    wait_for("another start serves it", || {
        status(&page).filter(|status| status["phase"] != "off")
    });
}

#[test]
fn on_names_the_command_that_starts_a_server() {
    let (_folder, page) = page_without_server();
    switch(&page, "off");
    let said = switch(&page, "on");
    // No service is for a page of another path. Symptom: `systemctl start tickline`.
    let start = format!(" serve {}", option_of(&page));
    assert!(said.contains(&start), "{said}");
    assert!(!said.contains("systemctl"), "{said}");
}

#[test]
fn a_second_off_and_a_second_on_change_nothing_and_say_so() {
    let (_folder, page) = page_without_server();
    for (word, says) in [("off", "was off already"), ("on", "was not switched off")] {
        switch(&page, word);
        let said = switch(&page, word);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_page_may_be_named_before_the_action() {
    let (_folder, page) = page_without_server();
    let mut off = tickline(&["serve", "--page"]);
    off.arg(&page).arg("off");
    assert_eq!(off.output().unwrap().status.code(), Some(0));
    assert_off(&page);
}

/// Symptom: the second page was switched off, without a word on the first.
#[test]
fn two_pages_are_not_switched_off_at_once() {
    let (_folder, page) = page_without_server();
    let output = run(&page, &["--page", "/run/other", "off"]);
    assert_fails(&output, 78, "--page names two pages, /run/other and ");
    assert_eq!(status(&page).unwrap()["switched_off"], false);
}

const OFF: &str = "switched off: run";
const WITHOUT_SERVER: &str = "no server publishes a line";

#[test]
fn the_status_says_what_ends_that_a_page_is_off() {
    let (_folder, page) = page_without_server();
    switch(&page, "off");
    assert_off(&page);
    let words = text(&run(&page, &["status"]).stdout);
    assert!(words.contains(OFF), "{words}");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let on = format!(" serve on {}", option_of(&page));
    assert!(words.contains(&on), "{words}");
    assert!(!words.contains(WITHOUT_SERVER), "{words}");
}

/// Symptom: the status was "switched off" between `on` and the start of a server.
#[test]
fn after_on_the_status_says_that_a_server_is_missing() {
    let (_folder, page) = page_without_server();
    switch(&page, "off");
    switch(&page, "on");
    let shown = status(&page).unwrap();
    assert_eq!(
        (&shown["phase"], &shown["switched_off"]),
        (&"off".into(), &false.into()),
        "{shown}"
    );
    let words = text(&run(&page, &["status"]).stdout);
    assert!(words.contains(WITHOUT_SERVER), "{words}");
    assert!(!words.contains(OFF), "{words}");
}

/// Symptom: "there is no page, so nothing is served there", while the machine's page was served.
#[test]
fn a_user_who_switches_a_page_off_hears_of_the_machines_page() {
    let (_folder, program) = open_folder();
    let script = format!(
        "mount -t tmpfs none /run && echo mounted && mkdir -p /run/tickline && chmod 755 /run /run/tickline && {{
        touch /run/tickline/page.v1
        setpriv --reuid {USER} --regid {USER} --clear-groups env -u XDG_RUNTIME_DIR \"$0\" serve off
        setpriv --reuid {USER} --regid {USER} --clear-groups env XDG_RUNTIME_DIR=/run/none \"$0\" serve on
        setpriv --reuid {USER} --regid {USER} --clear-groups \"$0\" serve off --page /run/none
        }} 2>&1"
    );
    let output = Command::new("unshare")
        .args(["--mount", "--fork", "sh", "-c", &script])
        .arg(&program)
        .output();
    let shown = output
        .map(|output| text(&output.stdout))
        .unwrap_or_default();
    if !shown.starts_with("mounted\n") {
        return skip(format_args!("no mount namespace: {shown}"));
    }
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    // Symptom: the line began with how to start a server.
    let begin = "tickline: the machine's page /run/tickline/page.v1 stays as it is: `sudo ";
    let then = |word: &str| format!(" serve {word}` switches it {word}; this user's page: ");
    assert!(lines[0].starts_with(begin), "{shown}");
    assert!(lines[0].contains(&then("off")), "{shown}");
    assert!(lines[1].starts_with(begin), "{shown}");
    // Symptom: not a word of this user's page, which does not exist.
    let missing = then("on") + "there is none at /run/none/tickline/page.v1";
    assert!(lines[1].ends_with(&missing), "{shown}");
    // Another page was named.
    assert!(!lines[2].contains("the machine's page"), "{shown}");
}
