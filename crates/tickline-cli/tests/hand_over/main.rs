//! Readings that two processes hand over to each other, while the server of their page is stopped,
//! killed, and started again.
//!
//! The child processes are this program, with a page in their environment.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "what was skipped, and what was counted")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../tickline/tests/common/fork.rs"]
mod fork;
mod game;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Probes, State};

use common::server::{Server, folder, run, status, wait_for_line};
use common::until;
use fork::code_of_fork;
use game::{Board, Game};

/// Not a test of its own: a child process of the others.
#[test]
fn player() {
    game::play();
}

/// The end of all leases, and as much again.
const TWO_LEASES: Duration = Duration::from_millis(1_300);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Those of this round: three rounds have all.
fn a_third(all: &[u64], round: usize) -> impl Iterator<Item = u64> {
    all.iter().copied().skip(round % 3).step_by(3)
}

#[test]
fn no_step_back_while_the_server_is_stopped_killed_and_restarted() {
    let (folder, page) = folder();
    let mut server = Server::start(&page);
    let serves = wait_for_line(&page, &server);
    let mut game = Game::start(&page, folder.path());
    game.go_on(ms(700));
    for round in 0..game::rounds() {
        // Stopped at any moment, for any time.
        for stop_ms in a_third(&[40, 1, 300, 1_700, 900, 450, 3, 1_200, 600], round) {
            server.signal(libc::SIGSTOP);
            game.go_on(ms(stop_ms));
            server.signal(libc::SIGCONT);
            game.go_on(ms(170 + stop_ms / 3));
        }
        // Killed, and another one at once, in the middle of the leases, and after them.
        for pause_ms in a_third(&[350, 1_500, 0, 20], round) {
            server.signal(libc::SIGKILL);
            server.ended();
            game.go_on(ms(pause_ms));
            server = Server::start(&page);
            assert_eq!(wait_for_line(&page, &server), serves, "a restarted server serves as the first one");
            // Two at once.
            assert_eq!(run(&page, &[]).status.code(), Some(2));
            game.go_on(ms(400));
        }
        // Stopped while it starts.
        server.signal(libc::SIGKILL);
        server.ended();
        for start_ms in a_third(&[2, 5, 9, 14, 30], round) {
            server = Server::start(&page);
            thread::sleep(ms(start_ms));
            server.signal(libc::SIGSTOP);
            game.go_on(ms(200));
            server.signal(libc::SIGCONT);
            game.go_on(ms(100));
            server.signal(libc::SIGKILL);
            server.ended();
        }
        server = Server::start(&page);
        wait_for_line(&page, &server);
        game.go_on(ms(300));
    }
    server.signal(libc::SIGTERM);
    assert_eq!(server.ended().0, Some(0));
    game.go_on(TWO_LEASES);
    game.end(serves);
}

/// The check itself: a player that adds a lead to some of its readings, as a line without a
/// high-water mark behind it would, is found out.
#[test]
fn a_step_back_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let board = Board::open(&folder.path().join("board"));
    let clock = Clock::global();
    for reading in 0..100 {
        let ns = i64::try_from(clock.now_ordered().as_nanos()).unwrap();
        board.take(if reading == 50 { ns + 1_000_000_000 } else { ns });
    }
    assert!(board.step_back_ns() > 0);
}

/// A clock of a page says so, and by which.
#[test]
fn a_clock_says_which_page_serves_it() {
    let (_folder, page) = folder();
    let error = Clock::open_page(&page, Probes::Full).unwrap_err();
    assert_eq!(error.kind(), tickline::ErrorKind::Page);
    assert!(error.to_string().contains("page: it cannot be opened"), "{error}");

    let mut server = Server::start(&page);
    let serves = wait_for_line(&page, &server);
    let clock = Clock::open_page(&page, Probes::Full).unwrap();
    let served = clock.page_status().unwrap();
    assert_eq!((&served.path, served.owner), (&page, fs::metadata(&page).unwrap().uid()));
    let mut last_ns = 0;
    let mut in_order = || {
        for _ in 0..1_000 {
            let ns = clock.now_ordered().as_nanos();
            assert!(ns >= last_ns, "{ns} after {last_ns}");
            let plain_ns = clock.now().as_nanos();
            assert!(plain_ns >= ns);
            last_ns = plain_ns;
        }
    };
    in_order();
    let in_child = code_of_fork(|| {
        in_order();
        0
    });
    assert_eq!(in_child, 0, "a forked child attaches again, and reads on");
    if serves {
        until("the clock takes the line", || (clock.status().state == State::Fast).then_some(()));
        assert!(clock.page_status().unwrap().lead_ns.is_some());
    }
    let reading = clock.reading();
    assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
    let unix = clock.unix_reading();
    assert!(unix.earliest() <= unix.time() && unix.time() <= unix.latest());
    clock.disable();
    assert_eq!(clock.status().state, State::Fallback(tickline::Reason::DisabledByProgram));
    in_order();
    clock.enable();
    in_order();
    clock.maintain();
    assert_ne!(clock.status().state, State::Fallback(tickline::Reason::DisabledByProgram));
    server.signal(libc::SIGTERM);
    server.ended();
    in_order();
    assert_eq!(clock.status().state, State::Calibrating);
    assert_eq!(clock.page_status().unwrap().lead_ns, None);
    assert_eq!(status(&page).unwrap()["phase"], "no_line");
    assert_eq!(run(&page, &["off"]).status.code(), Some(0));
    assert_eq!(clock.page_status().unwrap().phase, tickline::page::LeasePhase::Off);
    in_order();
}
