//! Commands on a pseudo-terminal: what they draw, what ends them, and whether the terminal is restored.

#![cfg(unix)]

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};

use crate::common::{text, tickline};
use crate::watch::{ended, signal};

struct Terminal {
    ours: std::fs::File,
    theirs: std::fs::File,
}

impl Terminal {
    fn open(ws_col: u16, ws_row: u16) -> Self {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a pseudo-terminal");
        Self { ours: master.into(), theirs: slave.into() }
    }

    fn run(&self, arguments: &[&str], no_color: Option<&str>) -> Child {
        let end = || Stdio::from(self.theirs.try_clone().expect("a pseudo-terminal"));
        let mut command = tickline(arguments);
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.envs(no_color.map(|value| ("NO_COLOR", value)));
        command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("a child")
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.theirs).expect("a pseudo-terminal")
    }

    /// What is written until it contains `part`.
    fn until(&mut self, part: &str) -> String {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        while !text(&all).contains(part) {
            let length = self.ours.read(&mut some).expect("a pseudo-terminal");
            all.extend_from_slice(&some[..length]);
        }
        text(&all)
    }

    /// What is written until the child has gone.
    fn rest(self) -> String {
        let Self { mut ours, theirs } = self;
        drop(theirs);
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        // Linux reports the closed other end by an error.
        while let Ok(length @ 1..) = ours.read(&mut some) {
            all.extend_from_slice(&some[..length]);
        }
        text(&all)
    }
}

/// Symptom: Ctrl-Z was taken for any key, since the terminal is in raw mode.
#[test]
fn watch_draws_on_a_terminal_and_leaves_it_as_it_was() {
    const LEFT: &str = "\u{1b}[?1049l";
    const ENTERED: &str = "\u{1b}[?1049h";
    for ((columns, rows), by_key) in
        [((100, 30), true), ((100, 30), false), ((20, 4), true), ((20, 4), false)]
    {
        let mut terminal = Terminal::open(columns, rows);
        let before = terminal.modes();
        let child = terminal.run(&["watch", "--interval", "0.1"], None);
        let ask = |terminal: &mut Terminal, key: &[u8], name| match by_key {
            true => terminal.ours.write_all(key).unwrap(),
            false => signal(&child, name),
        };
        let mut shown = terminal.until("offset");
        if cfg!(target_os = "linux") {
            ask(&mut terminal, b"\x1a", "TSTP");
            terminal.until(LEFT);
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            while !stat().contains(") T ") {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(before.local_flags, terminal.modes().local_flags, "the shell's");
            signal(&child, "CONT");
            // One read may bring this together with the figures.
            terminal.until(ENTERED);
        }
        ask(&mut terminal, b"q", "INT");
        shown += &terminal.until("until stopped");
        let (code, _) = ended(child);
        assert!(code == 0 || code == 1, "exit code {code}");
        assert!(shown.contains(ENTERED) && shown.contains(LEFT), "{shown:?}");
        assert!(shown.find(LEFT) < shown.find("Watched for"), "the summary stays to be seen: {shown:?}");
        let after = terminal.modes();
        assert_eq!((before.local_flags, before.input_flags), (after.local_flags, after.input_flags));
    }
}

/// A machine with findings.
const FACTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/numa-watchdog.json");

/// What a command shows that ends by itself.
fn shown(columns: u16, arguments: &[&str], no_color: Option<&str>) -> String {
    let terminal = Terminal::open(columns, 30);
    let child = terminal.run(arguments, no_color);
    let shown = terminal.rest();
    let (code, _) = ended(child);
    // 3: kept from some CPUs.
    assert!([0, 1, 3].contains(&code), "{arguments:?}: exit code {code}");
    shown
}

#[test]
fn colour_is_for_terminals_without_no_color() {
    let [with, without] = [None, Some("1")].map(|no_color| shown(100, &["--facts", FACTS], no_color));
    assert!(with.contains("\u{1b}[") && !without.contains("\u{1b}["), "{with:?}\n{without:?}");
}

/// Tables of 80 to 100 columns were broken by the terminal, in the middle of words.
#[test]
fn each_command_fits_a_terminal_of_40_and_of_80_columns() {
    for columns in [40, 80] {
        for arguments in [
            &["bench", "--rounds", "2", "--calls", "100"][..],
            &["warp"],
            &["doctor"],
            &["--facts", FACTS],
            &["who", "--secs", "1"],
        ] {
            let shown = shown(columns, arguments, Some("1"));
            // Lines of the progress bar steer the cursor. Commands stay whole, to be copied, and so do
            // words that are longer than a line.
            let is_text = |line: &&str| {
                !line.contains('\u{1b}') && !line.contains("sudo ") && line.trim().contains(' ')
            };
            let is_long = |line: &&str| line.trim_end().chars().count() > usize::from(columns);
            let long: Vec<&str> = shown.lines().filter(is_text).filter(is_long).collect();
            assert!(long.is_empty(), "{arguments:?} on {columns} columns: {long:?}");
        }
    }
}
