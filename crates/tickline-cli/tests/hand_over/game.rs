//! Two processes that hand readings of a page to each other.
//!
//! They are the test's program again, with a page in their environment and `player` for a test.

use std::env;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use tickline::{Clock, Probes, State};

use crate::common::until;

const PAGE: &str = "TICKLINE_TEST_PAGE";
const BOARD: &str = "TICKLINE_TEST_BOARD";
const PLAYER: &str = "TICKLINE_TEST_PLAYER";

/// What the players share: a file, mapped.
#[repr(C)]
pub(crate) struct Board {
    /// Number of readings so far; the player of the same parity is next.
    turn: AtomicU64,
    /// The last reading, ns.
    last_ns: AtomicI64,
    /// Not 0: the players end.
    end: AtomicU64,
    /// The largest step of a reading below the one before, ns; 0 if there was none.
    step_back_ns: AtomicI64,
    /// Looks at the state that found a line, or none.
    by_line: AtomicU64,
    by_os: AtomicU64,
}

impl Board {
    pub(crate) fn open(path: &Path) -> &'static Self {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file");
        file.set_len(4096).expect("room");
        // SAFETY: a new mapping of a file that is as long as the structure, and stays so.
        let start = unsafe {
            mmap(ptr::null_mut(), 4096, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
        };
        // SAFETY: zeros are valid atomics, and the mapping is never unmapped.
        unsafe { &*start.expect("memory").cast::<Self>() }
    }

    /// A player's reading, which comes after the other's.
    pub(crate) fn take(&self, ns: i64) {
        let before_ns = self.last_ns.swap(ns, Ordering::SeqCst);
        self.step_back_ns.fetch_max(before_ns - ns, Ordering::SeqCst);
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn step_back_ns(&self) -> i64 {
        self.step_back_ns.load(Ordering::SeqCst)
    }

    fn play(&self, player: u64, now_ns: impl Fn() -> i64, mut sometimes: impl FnMut()) {
        loop {
            for spins in 0_u32.. {
                if self.end.load(Ordering::SeqCst) != 0 {
                    return;
                }
                if self.turn.load(Ordering::SeqCst) % 2 == player {
                    break;
                }
                if spins > 200 {
                    thread::yield_now();
                }
            }
            self.take(now_ns());
            if self.turn.load(Ordering::SeqCst) % 256 < 2 {
                sometimes();
            }
        }
    }
}

/// What the test `player` does: a child process of [`Game`], unless it is called by itself.
pub(crate) fn play() {
    let (Some(page), Some(board), Some(player)) =
        (env::var_os(PAGE), env::var_os(BOARD), env::var_os(PLAYER))
    else {
        return;
    };
    let board = Board::open(Path::new(&board));
    let clock = Clock::open_page(page, Probes::Full).expect("a clock");
    let player = u64::from(player == "1");
    let now_ns = || i64::try_from(clock.now_ordered().as_nanos()).expect("below 2^63");
    board.play(player, now_ns, || {
        let count = if clock.status().state == State::Fast { &board.by_line } else { &board.by_os };
        count.fetch_add(1, Ordering::SeqCst);
    });
}

pub(crate) struct Game {
    board: &'static Board,
    players: Vec<Child>,
}

impl Game {
    pub(crate) fn start(page: &Path, folder: &Path) -> Self {
        let path = folder.join("board");
        let board = Board::open(&path);
        let players = ["0", "1"].map(|player| {
            Command::new(env::current_exe().expect("this program"))
                .args(["player", "--exact", "--nocapture"])
                .env(PAGE, page)
                .env(BOARD, &path)
                .env(PLAYER, player)
                .stdout(Stdio::null())
                .spawn()
                .expect("this program")
        });
        Self { board, players: players.into() }
    }

    pub(crate) fn handovers(&self) -> u64 {
        self.board.turn.load(Ordering::SeqCst)
    }

    /// Lets the players play for a while, and at least for some handovers.
    pub(crate) fn go_on(&mut self, time: Duration) {
        let before = self.handovers();
        thread::sleep(time);
        until("the players play", || {
            for player in &mut self.players {
                assert!(player.try_wait().expect("a child").is_none(), "a player has ended");
            }
            (self.handovers() > before + 1_000).then_some(())
        });
    }

    /// Ends the game, and says what it was. Fails if a reading was below the one before it.
    pub(crate) fn end(mut self, serves: bool) {
        self.board.end.store(1, Ordering::SeqCst);
        for player in &mut self.players {
            let status = player.wait().expect("a child");
            assert!(status.success(), "{status}");
        }
        let found = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let (by_line, by_os) = (found(&self.board.by_line), found(&self.board.by_os));
        let (handovers, step_back_ns) = (self.handovers(), self.board.step_back_ns());
        eprintln!("{handovers} handovers; looks that found a line: {by_line}, none: {by_os}");
        assert!(handovers > 10_000);
        assert_eq!(step_back_ns, 0, "of {handovers} handovers, the largest steps back by that many ns");
        if serves {
            assert!(by_line > 0, "no reading was by a line");
            assert!(by_os > 0, "no reading was by the OS clock");
        } else {
            eprintln!("SKIPPED: the counter does not serve here, so all readings were by the OS clock");
        }
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

/// How often a test does all it does: once, or as often as `TICKLINE_TEST_ROUNDS` says.
pub(crate) fn rounds() -> usize {
    env::var("TICKLINE_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().expect("a number of rounds"))
}
