//! Tests that forked children under `tickline run` keep the order, while the server of their page
//! is stopped, killed, and started again.

use std::env;
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::common::server::{Server, folder, wait_for_line};
use crate::common::{compile, skip, tickline, wait_for};
use crate::served;

/// The board of `c/forks.c`, in a mapped file.
#[repr(C)]
struct ForkBoard {
    /// The largest reading so far, ns.
    largest_ns: AtomicU64,
    /// A value other than 0 ends the processes.
    end: AtomicU64,
    /// Readings that followed a reading of another process.
    handed_over: AtomicU64,
    children: AtomicU64,
    /// Readings that were below one that was complete before, and the largest such step, ns.
    backward: AtomicU64,
    largest_step_ns: AtomicU64,
}

impl ForkBoard {
    /// Maps a new file at `path`.
    fn create(path: &Path) -> &'static Self {
        let file = File::create_new(path).unwrap();
        file.set_len(size_of::<Self>() as u64).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let length = size_of::<Self>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping of a file that is as long as the structure, and stays so.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        // SAFETY: zeros are valid atomics, and the mapping is never unmapped.
        unsafe { &*start.unwrap().cast::<Self>() }
    }
}

/// The program, whose processes end with this test.
struct Program(Child, &'static ForkBoard);

impl Drop for Program {
    fn drop(&mut self) {
        self.1.end.store(1, Ordering::SeqCst);
        self.0.wait().ok();
    }
}

/// Symptom: forked children under `run` were below their parents by the lead, 0.3 to 4.7 us, if the
/// server was late, killed or stopped at the fork.
#[test]
fn no_forked_child_steps_back_while_the_server_is_stopped_and_killed() {
    let (folder, page) = folder();
    let forks = folder.path().join("forks");
    if let Err(error) = compile("forks", &["-O1", "-Wall", "-Wextra", "-Werror"], &forks) {
        return skip(format_args!("forks.c is not compiled: {error}"));
    }
    let Some(library) = served::library() else {
        return;
    };
    let mut server = Server::start(&page);
    if !wait_for_line(&page, &server) {
        return skip("the counter does not serve here");
    }
    let path = folder.path().join("board");
    let board = ForkBoard::create(&path);
    let mut program = tickline(&["run", "--quiet", "--always", "--page"]);
    program.arg(&page).arg("--library").arg(library).arg("--");
    program.arg(&forks).arg(&path);
    let mut program = Program(program.spawn().unwrap(), board);
    let found = |count: &AtomicU64| count.load(Ordering::SeqCst);
    // Each part of the test has enough readings to compare, on one CPU and on a busy one, too.
    let mut goes_on = |time: Duration| {
        let before = [&board.children, &board.handed_over].map(found);
        thread::sleep(time);
        wait_for("children are forked, and hand readings over", || {
            let ended = program.0.try_wait().unwrap();
            assert!(ended.is_none(), "the program has ended: {ended:?}");
            let [children, handed_over] = [&board.children, &board.handed_over].map(found);
            (children > before[0] + 20 && handed_over > before[1] + 150).then_some(())
        });
    };
    // The environment may set the number of rounds.
    let rounds = env::var("TICKLINE_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        for stop_ms in [450, 700, 1_300].into_iter().skip(round % 3).step_by(3) {
            // The first line ends, and then the second.
            server.signal(libc::SIGSTOP);
            goes_on(Duration::from_millis(stop_ms));
            server.signal(libc::SIGCONT);
        }
        for pause_ms in [0, 20, 300] {
            server.signal(libc::SIGKILL);
            server.ended();
            goes_on(Duration::from_millis(pause_ms));
            server = Server::start(&page);
            goes_on(Duration::from_millis(200));
        }
    }
    board.end.store(1, Ordering::SeqCst);
    let status = program.0.wait().unwrap();
    let (handed_over, children) = (found(&board.handed_over), found(&board.children));
    let (backward, step_ns) = (found(&board.backward), found(&board.largest_step_ns));
    println!("{handed_over} readings handed over, {children} children, {backward} back");
    assert!(status.success(), "{status}");
    assert_eq!(
        backward, 0,
        "of {handed_over}; the largest step: {step_ns} ns"
    );
}
