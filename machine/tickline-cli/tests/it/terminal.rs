//! Tests of commands on a pseudo-terminal: colours, and lines that fit.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::thread;

use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::common::{text, tickline};
use crate::watch::ended;

/// A machine with findings.
const FACTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/facts/numa-watchdog.json"
);

/// The output of a command on a terminal.
fn shown(columns: u16, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (shown, code) = shown_with_code(columns, arguments, variables);
    // The code is 3 if the process may not run on some CPUs.
    assert!([0, 1, 3].contains(&code), "{arguments:?}: exit code {code}");
    shown
}

/// The output of a command on a terminal, and its exit code.
fn shown_with_code(columns: u16, arguments: &[&str], variables: &[(&str, &str)]) -> (String, i32) {
    let size = Winsize {
        ws_row: 30,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let OpenptyResult { master, slave } = openpty(&size, None).expect("a pseudo-terminal");
    let end = || Stdio::from(slave.try_clone().expect("a pseudo-terminal"));
    let mut command = tickline(arguments);
    command
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied());
    let child = command
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("a child");
    drop((command, slave));
    let mut shown = Vec::new();
    // Linux reports the closed other end as an error.
    File::from(master).read_to_end(&mut shown).ok();
    (text(&shown), ended(child))
}

const PLAIN: (&str, &str) = ("NO_COLOR", "1");

/// The lines of text with their lengths, without lines of the progress bar, which steer the cursor.
/// Commands, their options and words that are longer than a line stay whole, so they are left out,
/// too. A command of a list begins with its number.
fn lines(shown: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_command = |line: &str| {
        let start = line.trim_start();
        let is_numbered = start.starts_with("1. ") || start.starts_with("2. ");
        line.contains("sudo ") || line.contains(" --privileged ") || is_numbered
    };
    let is_text = move |line: &&str| {
        !line.contains('\u{1b}') && !is_command(line) && line.trim().contains(' ')
    };
    shown
        .lines()
        .filter(is_text)
        .map(|line| (line.trim_end().chars().count(), line))
}

#[test]
fn colour_is_for_terminals_without_no_color() {
    let [with, without] =
        [&[][..], &[PLAIN]].map(|variables| shown(100, &["--facts", FACTS], variables));
    assert!(
        with.contains("\u{1b}[") && !without.contains("\u{1b}["),
        "{with:?}\n{without:?}"
    );
}

/// Symptom: the terminal broke tables of 80 to 100 columns in the middle of words.
#[test]
fn each_command_fits_a_terminal_of_40_and_of_80_columns() {
    let fits = |columns| {
        for arguments in [
            &["bench", "--rounds", "2", "--calls", "100"][..],
            &["warp"],
            &["doctor", "--duration", "1s"],
            &["--facts", FACTS],
            &["who", "--duration", "1s"],
            &["watch", "--duration", "1s", "--interval", "300ms"],
        ] {
            let shown = shown(columns, arguments, &[PLAIN]);
            let long: Vec<_> = lines(&shown)
                .filter(|(length, _)| *length > usize::from(columns))
                .collect();
            assert!(
                long.is_empty(),
                "{arguments:?} on {columns} columns: {long:?}"
            );
        }
    };
    thread::scope(|scope| {
        [40, 80]
            .map(|columns| scope.spawn(move || fits(columns)))
            .map(drop)
    });
}

/// Symptom: `watch` had a heading of 104 columns, and wrapped its rows as prose.
#[test]
fn watch_is_a_table_with_a_plot_on_a_terminal_of_60_of_80_and_of_120_columns() {
    for columns in [60, 80, 120] {
        let arguments = ["watch", "--duration", "1s", "--interval", "300ms"];
        let shown = shown(columns, &arguments, &[PLAIN]);
        let heading = shown.lines().find(|line| line.contains("time s"));
        assert!(
            heading.is_some_and(|line| line.trim_end().ends_with('s')),
            "{shown}"
        );
        let is_row = |(_, line): &(usize, &str)| {
            let first = line.split_whitespace().next();
            first.is_some_and(|word| word.parse::<f64>().is_ok()) && line.contains('|')
        };
        let rows: Vec<_> = lines(&shown).filter(is_row).collect();
        assert!(rows.len() >= 3, "{columns}: {shown}");
        for (length, line) in lines(&shown) {
            assert!(length <= usize::from(columns), "{columns}: {line}");
        }
    }
}

/// Symptom: `watch` with its results in a file or a pipe showed nothing.
#[test]
fn every_command_that_measures_shows_its_progress() {
    for arguments in [
        &["doctor", "--duration", "1s"][..],
        &["bench", "--rounds", "2", "--calls", "100"],
        &["warp"],
        &["who", "--duration", "1s"],
        &["report", "--duration", "1s", "--out", "/dev/null"],
        &[
            "watch",
            "--duration",
            "1s",
            "--interval",
            "300ms",
            "--json",
            "-",
        ],
    ] {
        let shown = shown(80, arguments, &[PLAIN]);
        assert!(
            shown.contains("measuring the start"),
            "{arguments:?}: {shown}"
        );
    }
}

/// Symptom: forty states of the bar, one behind the other, on a serial console.
#[test]
fn a_terminal_that_can_not_redraw_a_line_gets_no_bar() {
    for term in ["dumb", ""] {
        let shown = shown(
            80,
            &["doctor", "--duration", "1s"],
            &[PLAIN, ("TERM", term)],
        );
        assert!(!shown.contains("measuring the start"), "{term}: {shown}");
    }
}

/// Symptom: the bar before the one line that a monitoring system reads.
#[test]
fn a_check_shows_no_bar() {
    let arguments = ["doctor", "--check", "--duration", "1s"];
    let (shown, _) = shown_with_code(80, &arguments, &[PLAIN]);
    assert!(!shown.contains("measuring the start"), "{shown}");
}

#[test]
fn the_rows_of_watch_on_a_terminal_are_its_progress() {
    let arguments = [
        "watch",
        "--duration",
        "1s",
        "--interval",
        "300ms",
        "--csv",
        "-",
    ];
    let shown = shown(80, &arguments, &[PLAIN]);
    assert!(
        shown.contains("at_s,unix_s") && !shown.contains("measuring"),
        "{shown}"
    );
}

/// A serial console reports 0 columns.
#[test]
fn the_width_is_that_of_columns_or_of_the_terminal_or_80() {
    for (reported, variable, columns) in [(0, "", 80), (0, "60", 60), (90, "60", 60), (90, "0", 90)]
    {
        for arguments in [&["--facts", FACTS][..], &["--help"]] {
            let shown = shown(reported, arguments, &[PLAIN, ("COLUMNS", variable)]);
            let longest = lines(&shown)
                .map(|(length, _)| length)
                .max()
                .expect("a text");
            let is_filled = longest > columns - 20 || arguments == ["--help"];
            assert!(
                longest <= columns && is_filled,
                "{arguments:?}, {columns} columns: {longest}\n{shown}"
            );
        }
    }
}

#[test]
fn report_refuses_to_write_a_page_to_a_terminal() {
    let (shown, code) = shown_with_code(100, &["report", "--duration", "3600s"], &[]);
    assert_eq!(code, 2, "{shown}");
    let says = "the report would go to this terminal: name a file, such as --out clocks.html";
    assert!(shown.contains(says), "no {says} in {shown}");
}

/// Symptom: 260 KB of JSON on the terminal.
#[test]
fn flight_refuses_to_write_a_trace_to_a_terminal() {
    let (shown, code) = shown_with_code(100, &["flight", FACTS], &[]);
    assert_eq!(code, 2, "{shown}");
    let says = "the trace would go to this terminal: name a file, such as --out trace.json";
    assert!(shown.contains(says), "no {says} in {shown}");
}
