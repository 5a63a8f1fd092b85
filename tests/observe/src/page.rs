//! A page for tests. Its line is [`AHEAD_NS`] above the OS clock, so that a reading shows whether
//! it comes from the page.

#![expect(clippy::unwrap_used, reason = "a test without its page cannot go on")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};
use tickline_page::lease::memory::{
    EndMark, LeaseLine, LeaseMemory as _, LeaseStore as _, SlotNumber, UnixOffset,
};
use tickline_page::lease::{LeasePhase, Line, Slope};
use tickline_page::page_file::LockedPageFile;
use tickline_page::{Counter as _, HardwareCounter};

use crate::skip;

/// How far the line is above the OS clock, ns.
pub const AHEAD_NS: i64 = 5_000_000;

const DAY_S: u64 = 86_400;

/// A clock by a system call, ns.
///
/// # Panics
///
/// If the kernel does not have the clock.
#[must_use]
pub fn system_call_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for the result.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    assert_eq!(result, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Reads the counter and the clock at the same time. It uses the shortest of 100 brackets, because
/// this thread may be stopped within some of them.
fn shortest_bracket(counter: &HardwareCounter) -> (u64, i64) {
    let samples = (0..100).map(|_| {
        let (before, ns, after) = (
            counter.now_ordered(),
            system_call_ns(libc::CLOCK_MONOTONIC),
            counter.now_ordered(),
        );
        (after - before, (before.midpoint(after), ns))
    });
    samples.min().unwrap().1
}

/// Makes a page in a new folder. Its only line counts for a day. If this process may not read the
/// counter, prints SKIPPED and returns `None`.
///
/// # Panics
///
/// If the page can't be made.
#[must_use]
pub fn served_page() -> Option<(tempfile::TempDir, PathBuf)> {
    if time_stamp_counter_readability() != Ok(TimeStampCounterReadability::Readable) {
        skip("the counter may not be read");
        return None;
    }
    Some(page_off_by(0, 0))
}

/// What a page of [`page_that`] serves.
#[derive(Debug, Clone, Copy)]
pub enum Serves {
    /// One line.
    FirstLine,
    /// Two lines, of which the first has ended.
    SecondLine,
    /// One line, which may be too low.
    DoubtedLine,
    /// An end mark, which is this far above the OS clock, ns.
    EndMark(i64),
}

/// Makes a page like [`served_page`], but the line is lower by `less_ns`, and Unix time is
/// `more_ns` further above the line.
///
/// # Panics
///
/// If this process may not read the counter, or the page can't be made.
#[must_use]
pub fn page_off_by(less_ns: i64, more_ns: i64) -> (tempfile::TempDir, PathBuf) {
    page_that(Serves::FirstLine, less_ns, more_ns)
}

/// Makes a page like [`page_off_by`] that serves `serves`.
///
/// # Panics
///
/// As [`page_off_by`].
#[must_use]
pub fn page_that(serves: Serves, less_ns: i64, more_ns: i64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("page");
    let writer = LockedPageFile::create(&path).unwrap();
    let counter = HardwareCounter::if_present().unwrap();
    let (from_ticks, from_ns) = shortest_bracket(&counter);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (start_ticks, ns) = shortest_bracket(&counter);
    let hz = u128::from(start_ticks - from_ticks) * 1_000_000_000
        / u128::try_from(ns - from_ns).unwrap();
    let hz = u64::try_from(hz).unwrap();
    let line = Line {
        start_ticks,
        base_ns: ns + AHEAD_NS - less_ns,
        slope: Slope::from_hz(hz).unwrap(),
    };
    let offset_ns =
        system_call_ns(libc::CLOCK_REALTIME) - system_call_ns(libc::CLOCK_MONOTONIC) + more_ns;
    let lead_ns = 2 * AHEAD_NS;
    let unix = UnixOffset {
        offset_ns,
        lead_ns,
        least_ns: offset_ns,
    };
    let line = LeaseLine {
        line,
        end_ticks: start_ticks + DAY_S * hz,
        lead_ns,
        unix,
    };
    let [first, second] = [0, 1].map(SlotNumber::from_low_bits);
    let (phase, second) = match serves {
        Serves::FirstLine => (LeasePhase::Published, None),
        Serves::SecondLine => (LeasePhase::Published, Some(second)),
        Serves::DoubtedLine => (LeasePhase::Doubted, None),
        Serves::EndMark(_) => (LeasePhase::NoLine, None),
    };
    match (serves, second) {
        (Serves::EndMark(ahead_ns), _) => {
            let mark = EndMark {
                ns: ns + ahead_ns,
                ..line.end_mark()
            };
            writer.fill(first, &mark.to_words());
        }
        (_, None) => writer.fill(first, &line.to_words()),
        (_, Some(second)) => {
            // The first line ends at its second tick.
            let ended = LeaseLine {
                end_ticks: start_ticks + 1,
                ..line
            };
            writer.fill(first, &ended.to_words());
            writer.fill(second, &line.to_words());
        }
    }
    let word = writer.word();
    assert!(writer.try_swap(word, word.next(phase, first, second)));
    (folder, path)
}
