//! Commands on a pseudo-terminal: what they draw, what ends them, and whether the terminal is restored.

#![cfg(unix)]

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::common::{text, tickline};
use crate::watch::{ended, signal};

struct Terminal {
    ours: std::fs::File,
    theirs: std::fs::File,
}

impl Terminal {
    fn open(ws_col: u16, ws_row: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&ours).expect("a pseudo-terminal");
        unlockpt(&ours).expect("a pseudo-terminal");
        tcsetwinsize(&ours, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("a pseudo-terminal");
        let name = ptsname(&ours, Vec::new()).expect("a pseudo-terminal");
        let theirs = std::fs::File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("a pseudo-terminal"))
            .expect("a pseudo-terminal");
        Self { ours: ours.into(), theirs }
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

#[test]
fn watch_draws_on_a_terminal_and_leaves_it_as_it_was() {
    const LEFT: &str = "\u{1b}[?1049l";
    for (columns, rows) in [(100, 30), (20, 4)] {
        for stop in ["key", "signal"] {
            let mut terminal = Terminal::open(columns, rows);
            let before = terminal.modes();
            let child = terminal.run(&["watch", "--interval", "0.1"], None);
            let mut shown = terminal.until("offset");
            if stop == "key" {
                terminal.ours.write_all(b"q").unwrap();
            } else {
                signal(&child, "INT");
            }
            shown += &terminal.until("until stopped");
            let (code, _) = ended(child);
            assert!(code == 0 || code == 1, "exit code {code}");
            assert!(shown.contains("\u{1b}[?1049h") && shown.contains(LEFT), "{shown:?}");
            assert!(shown.find(LEFT) < shown.find("Watched for"), "the summary stays to be seen: {shown:?}");
            let after = terminal.modes();
            assert_eq!(before.local_modes, after.local_modes);
            assert_eq!(before.input_modes, after.input_modes);
        }
    }
}

#[test]
fn warp_is_coloured_on_a_terminal_without_no_color() {
    for (no_color, coloured) in [(None, true), (Some("1"), false)] {
        let terminal = Terminal::open(100, 30);
        let child = terminal.run(&["warp"], no_color);
        let shown = terminal.rest();
        let (code, _) = ended(child);
        // 3: kept from some CPUs.
        assert!([0, 1, 3].contains(&code), "exit code {code}");
        if !shown.contains("Largest possible difference") {
            return eprintln!("SKIPPED: {shown}");
        }
        assert_eq!(shown.contains("\u{1b}[48;5;"), coloured, "{shown:?}");
    }
}

/// Ctrl-Z was taken for any key, since the terminal is in raw mode.
#[cfg(target_os = "linux")]
#[test]
fn watch_can_be_suspended_and_continued() {
    const LEFT: &str = "\u{1b}[?1049l";
    const ENTERED: &str = "\u{1b}[?1049h";
    let mut terminal = Terminal::open(100, 30);
    let before = terminal.modes();
    let child = terminal.run(&["watch", "--interval", "0.1"], None);
    terminal.until("offset");
    for by_key in [true, false] {
        if by_key {
            terminal.ours.write_all(b"\x1a").unwrap();
        } else {
            signal(&child, "TSTP");
        }
        terminal.until(LEFT);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        while !stat().contains(") T ") {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(before.local_modes, terminal.modes().local_modes, "the shell's");
        signal(&child, "CONT");
        // One read may bring this together with the figures.
        terminal.until(ENTERED);
    }
    terminal.ours.write_all(b"q").unwrap();
    terminal.until("until stopped");
    let (code, _) = ended(child);
    assert!(code == 0 || code == 1, "exit code {code}");
}

/// Tables of 80 to 100 columns were broken by the terminal, in the middle of words.
#[test]
fn each_command_fits_a_terminal_of_40_and_of_80_columns() {
    for columns in [40, 80] {
        for arguments in [
            &["bench", "--rounds", "2", "--calls", "100"][..],
            &["warp"],
            &["doctor"],
            &["who", "--secs", "1"],
        ] {
            let terminal = Terminal::open(columns, 30);
            let child = terminal.run(arguments, Some("1"));
            let shown = terminal.rest();
            ended(child);
            // Lines of the progress bar steer the cursor. Commands stay whole, to be copied.
            let is_text = |line: &&str| !line.contains('\u{1b}') && !line.contains("sudo ");
            let long = |line: &&str| line.trim_end().chars().count() > usize::from(columns);
            let long: Vec<&str> = shown.lines().filter(is_text).filter(long).collect();
            assert!(long.is_empty(), "{arguments:?} on {columns} columns: {long:?}");
        }
    }
}

#[test]
fn the_doctor_fits_a_terminal_of_40_columns_in_colour() {
    let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/numa-watchdog.json");
    for (no_color, coloured) in [(None, true), (Some("1"), false)] {
        let terminal = Terminal::open(40, 30);
        let child = terminal.run(&["--facts", facts], no_color);
        let shown = terminal.rest();
        assert_eq!(ended(child).0, 1);
        assert_eq!(shown.contains("\u{1b}["), coloured, "{shown}");
        if !coloured {
            // A word that is longer than a line has a line of its own.
            let long = |line: &&str| line.trim_end().chars().count() > 40;
            assert!(shown.lines().filter(long).all(|line| !line.trim().contains(' ')), "{shown}");
        }
    }
}
