//! Tests that two processes exchange readings in order while the server of their page is stopped,
//! killed, and started again.
//!
//! The child processes are this test program. Their environment names the page, and they run the
//! test `role_exchanges_readings`.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "what was counted")]

mod common;

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use tempfile::TempDir;
use tickline::{Clock, ClockState};
use tickline_observe::Count;

use common::server::{Server, folder, run, wait_for_line};
use common::{skip, wait_for};

const PAGE: &str = "TICKLINE_TEST_PAGE";
const BOARD: &str = "TICKLINE_TEST_BOARD";

/// The players' shared memory: a mapped file.
#[repr(C)]
struct Board {
    /// The largest reading so far, ns.
    largest_ns: AtomicU64,
    /// The number of readings that followed a reading of the other player.
    exchanges: AtomicU64,
    /// A value other than 0 ends the players.
    end: AtomicU64,
    /// The number of status checks that found a line, and that found none.
    by_line: AtomicU64,
    by_os: AtomicU64,
}

impl Board {
    fn open(path: &Path) -> &'static Self {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .expect("a file");
        file.set_len(4096).expect("room");
        // SAFETY: this is a new mapping of a file that is as long as the structure, and stays so.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                4096,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        // SAFETY: zeros are valid atomics, and the mapping is never unmapped.
        unsafe { &*start.expect("memory").cast::<Self>() }
    }
}

/// A child process of [`Game`]. Does nothing by itself. Fails if a reading is below an earlier one.
#[test]
fn role_exchanges_readings() {
    let (Some(page), Some(board)) = (env::var_os(PAGE), env::var_os(BOARD)) else {
        return;
    };
    let board = Board::open(Path::new(&board));
    let clock = tickline_page::open(page).expect("a clock");
    let mut count = Count::default();
    let mut own_ns = 0;
    while board.end.load(Ordering::SeqCst) == 0 {
        let (earlier_ns, now_ns) =
            count.exchange(&board.largest_ns, || clock.now_ordered().as_nanos());
        assert_eq!(count.backward, 0, "{now_ns} after {earlier_ns}");
        board
            .exchanges
            .fetch_add(u64::from(earlier_ns != own_ns), Ordering::SeqCst);
        own_ns = now_ns;
        if count.comparisons % 128 == 0 {
            let checks = if clock.status().state == ClockState::Fast {
                &board.by_line
            } else {
                &board.by_os
            };
            checks.fetch_add(1, Ordering::SeqCst);
        }
        // The other player may need this CPU.
        thread::yield_now();
    }
}

struct Game {
    board: &'static Board,
    players: Vec<Child>,
}

impl Game {
    fn start(page: &Path, folder: &Path) -> Self {
        let path = folder.join("board");
        let board = Board::open(&path);
        let players = [(); 2].map(|()| {
            Command::new(env::current_exe().expect("this program"))
                .args(["role_exchanges_readings", "--exact", "--nocapture"])
                .env(PAGE, page)
                .env(BOARD, &path)
                .stdout(Stdio::null())
                .spawn()
                .expect("this program")
        });
        Self {
            board,
            players: players.into(),
        }
    }

    fn exchanges(&self) -> u64 {
        self.board.exchanges.load(Ordering::SeqCst)
    }

    /// Lets the players play for `time`, and at least for 1,000 exchanges.
    fn go_on(&mut self, time: Duration) {
        let before = self.exchanges();
        thread::sleep(time);
        wait_for("the players play", || {
            for player in &mut self.players {
                assert!(
                    player.try_wait().expect("a child").is_none(),
                    "a player has ended"
                );
            }
            (self.exchanges() > before + 1_000).then_some(())
        });
    }

    /// Ends the game, and prints its counts. Returns the numbers of status checks that found a
    /// line, and that found none.
    fn end(mut self) -> [u64; 2] {
        self.board.end.store(1, Ordering::SeqCst);
        for player in &mut self.players {
            let status = player.wait().expect("a child");
            assert!(status.success(), "{status}");
        }
        let found = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let by_line = found(&self.board.by_line);
        let by_os = found(&self.board.by_os);
        let exchanges = self.exchanges();
        eprintln!("{exchanges} exchanges; checks that found a line: {by_line}, none: {by_os}");
        assert!(exchanges > 10_000);
        [by_line, by_os]
    }
}

impl Drop for Game {
    fn drop(&mut self) {
        for player in &mut self.players {
            player.kill().ok();
            player.wait().ok();
        }
    }
}

/// Twice the time until all leases end.
const TWO_LEASES: Duration = Duration::from_millis(1_300);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The values of this round. Three rounds have all values.
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
    // The environment may set the number of rounds.
    let rounds = env::var("TICKLINE_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        // Stop the server at any moment, for any time.
        for stop_ms in a_third(&[40, 1, 300, 1_700, 900, 450, 3, 1_200, 600], round) {
            server.signal(libc::SIGSTOP);
            game.go_on(ms(stop_ms));
            server.signal(libc::SIGCONT);
            game.go_on(ms(170 + stop_ms / 3));
        }
        // Kill the server, and start another one at once, in the middle of the leases, or after
        // them.
        for pause_ms in a_third(&[350, 1_500, 0, 20], round) {
            server.signal(libc::SIGKILL);
            server.ended();
            game.go_on(ms(pause_ms));
            server = Server::start(&page);
            assert_eq!(
                wait_for_line(&page, &server),
                serves,
                "a restarted server serves as the first one"
            );
            game.go_on(ms(400));
        }
        // Stop the server while it starts.
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
    let [by_line, by_os] = game.end();
    if !serves {
        return skip("the counter does not serve here, so all readings were by the OS clock");
    }
    assert!(by_line > 0, "no reading was by a line");
    assert!(by_os > 0, "no reading was by the OS clock");
}

/// A page with its server and a clock of it. `true` if the page serves a line.
fn clock_of_page() -> (TempDir, PathBuf, Server, Clock, bool) {
    let (folder, page) = folder();
    let server = Server::start(&page);
    let serves = wait_for_line(&page, &server);
    let clock = tickline_page::open(&page).expect("a page");
    (folder, page, server, clock, serves)
}

#[test]
fn a_pages_clock_is_in_order_through_each_change() {
    let (_folder, page, mut server, clock, serves) = clock_of_page();
    let mut last_ns = 0;
    let mut in_order = || {
        for _ in 0..1_000 {
            for ns in [clock.now_ordered().as_nanos(), clock.now().as_nanos()] {
                assert!(ns >= last_ns, "{ns} after {last_ns}");
                last_ns = ns;
            }
        }
    };
    in_order();
    if serves {
        wait_for("the clock takes the line", || {
            (clock.status().state == ClockState::Fast).then_some(())
        });
    }
    in_order();
    clock.disable();
    in_order();
    clock.enable();
    in_order();
    clock.maintain();
    server.signal(libc::SIGTERM);
    server.ended();
    in_order();
    assert_eq!(run(&page, &["off"]).status.code(), Some(0));
    in_order();
}

#[test]
fn a_reading_of_a_pages_clock_is_within_its_bounds() {
    let (_folder, _page, _server, clock, _) = clock_of_page();
    let reading = clock.reading();
    assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
    let unix = clock.unix_reading();
    assert!(unix.earliest() <= unix.time() && unix.time() <= unix.latest());
}

#[test]
fn a_pages_clock_can_be_disabled_and_enabled() {
    const DISABLED: ClockState = ClockState::Fallback(tickline::Reason::DisabledByProgram);
    let (_folder, _page, _server, clock, _) = clock_of_page();
    clock.disable();
    assert_eq!(clock.status().state, DISABLED);
    clock.enable();
    clock.maintain();
    assert_ne!(clock.status().state, DISABLED);
}

#[test]
fn a_clock_says_whether_the_page_serves_it() {
    let (_folder, _page, mut server, clock, serves) = clock_of_page();
    if serves {
        wait_for("the clock takes the line", || {
            (clock.status().state == ClockState::Fast).then_some(())
        });
    }
    server.signal(libc::SIGTERM);
    server.ended();
    assert_eq!(clock.status().state, ClockState::Calibrating);
}
