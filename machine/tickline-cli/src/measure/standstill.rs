//! Finds a clock that stands still, or hardly moves, such as that of a process whose time
//! libfaketime has frozen. A command that waits by such a clock would wait for ever.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::units::ticks_between;

use super::calls::{kernel_ns, monotonic_ns};
use crate::machine;
use crate::words::grouped;

/// A clock that has not moved counts as standing if the counter has advanced by this, ticks: 54 ms
/// at 5 GHz, the highest frequency of a TSC. The clock of a kernel whose clocksource is `jiffies`
/// moves every 10 ms (HZ=100).
const LIMIT_TICKS: u64 = 1 << 28;

/// The number of reads after which the counter decides. A machine that was stopped and goes on may
/// have a counter far beyond the kernel's clock, until the next timer tick.
const MIN_READS: u64 = 50_000;

/// The number of reads after which a clock counts as standing whatever the counter says. A clock
/// that moves only at timer ticks is read by a system call, which takes at least 50 ns, so these
/// reads take more than ten timer ticks.
const MAX_READS: u64 = 2_000_000;

/// Clocks that stand still.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StandingClocks {
    clocks: Vec<&'static str>,
    reads: u64,
    /// The progress of the counter during the reads; `None` if the process may not read it.
    ticks: Option<u64>,
    /// The library that replaces libc's clocks.
    library: Option<String>,
}

impl fmt::Display for StandingClocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.clocks.len() == 1 {
            "stands"
        } else {
            "stand"
        };
        let clocks = self.clocks.join(" and ");
        let reads = grouped(self.reads);
        write!(
            formatter,
            "{clocks} {verb} still: no change in {reads} reads"
        )?;
        if let Some(ticks) = self.ticks {
            write!(
                formatter,
                ", while the counter advanced {} ticks",
                grouped(ticks)
            )?;
        }
        formatter
            .write_str(". Nothing can be measured or awaited by a clock that does not move.")?;
        write_library(self.library.as_deref(), formatter)
    }
}

impl Error for StandingClocks {}

/// A clock that hardly moves, or runs back, while the clock of the system call goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlowClock {
    /// The progress of libc's clock, ns; negative if it runs back.
    libc_ns: i64,
    /// The least progress of the system call's clock meanwhile, ns.
    kernel_ns: i64,
    /// The library that replaces libc's clocks.
    library: Option<String>,
}

impl fmt::Display for SlowClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "CLOCK_MONOTONIC advanced {} ns, while that of the system call advanced {} ns. Nothing \
             can be measured or awaited by a clock that is so slow.",
            self.libc_ns, self.kernel_ns
        )?;
        write_library(self.library.as_deref(), formatter)
    }
}

impl Error for SlowClock {}

fn write_library(library: Option<&str>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match library {
        Some(library) => write!(
            formatter,
            " {library} replaces libc's clock_gettime: start the program without it (see \
             LD_PRELOAD and /etc/ld.so.preload)."
        ),
        None => Ok(()),
    }
}

/// The library that replaces libc's clocks, if there is one.
fn stranger() -> Option<String> {
    machine::clock_gettime_file().filter(|file| !machine::is_libc(file))
}

/// Checks that `CLOCK_MONOTONIC` moves, and not far slower than the system call's. All commands that measure wait by it. Unix time may stand
/// still: no command waits by it.
///
/// The check neither sleeps nor waits by a clock. It ends after a limited number of reads. The
/// calling thread must have the right to read the counter, because the vDSO reads it. `counter` is
/// `None` if it is not known to be readable.
///
/// # Errors
///
/// [`StandingClocks`], with the clocks that stand still, or [`SlowClock`].
pub(crate) fn check(counter: Option<HardwareCounter>) -> io::Result<()> {
    let unix_ns = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
    };
    let found = standing(
        &monotonic_ns,
        &[("CLOCK_REALTIME", &unix_ns)],
        counter.map(|counter| move || counter.now_ordered()),
    );
    match found {
        Some(found) => Err(io::Error::other(StandingClocks {
            library: stranger(),
            ..found
        })),
        None => check_pace(),
    }
}

/// Checks that `CLOCK_MONOTONIC` is not far slower than the system call's. A clock that stands still
/// passes, because the system call's may stand as well: [`check`] finds it.
///
/// # Errors
///
/// [`SlowClock`].
pub(crate) fn check_pace() -> io::Result<()> {
    match slow(&monotonic_ns, &kernel_ns) {
        Some(found) => Err(io::Error::other(SlowClock {
            library: stranger(),
            ..found
        })),
        None => Ok(()),
    }
}

/// The time for the comparison of two paces, ns: far more than the system calls take.
const PACE_NS: u64 = 2_000_000;

/// A clock this many times slower than the system call's is unusable: libfaketime prolongs each
/// sleep as often.
const SLOW: i64 = 10;

/// Compares the pace of libc's clock with that of the system call's.
fn slow(libc_ns: &dyn Fn() -> u64, kernel_ns: &dyn Fn() -> u64) -> Option<SlowClock> {
    let libc_start_ns = libc_ns();
    // Read after libc's clock at the start, and before it at the end: pauses between the reads do
    // not make libc's clock look slow.
    let kernel_start_ns = kernel_ns();
    let elapsed_ns = (0..MAX_READS)
        .map(|_| kernel_ns().saturating_sub(kernel_start_ns))
        .find(|elapsed_ns| *elapsed_ns >= PACE_NS)?;
    let found = SlowClock {
        libc_ns: ticks_between(libc_start_ns, libc_ns()),
        kernel_ns: i64::try_from(elapsed_ns).ok()?,
        library: None,
    };
    let is_slow = found.libc_ns != 0 && found.libc_ns < found.kernel_ns / SLOW;
    is_slow.then_some(found)
}

/// Reads the clock until it moves. If it does not, also names the others that have not moved
/// meanwhile.
fn standing(
    monotonic_ns: &dyn Fn() -> u64,
    others: &[(&'static str, &dyn Fn() -> u64)],
    ticks: Option<impl Fn() -> u64>,
) -> Option<StandingClocks> {
    let counter = || ticks.as_ref().map(|ticks| ticks());
    let start_ns = monotonic_ns();
    let others_start_ns: Vec<u64> = others.iter().map(|(_, read_ns)| read_ns()).collect();
    let start_ticks = counter();
    let mut reads = 0;
    let mut elapsed_ticks = None;
    while reads < MAX_READS {
        // The clock is read after the counter, so a pause between the two does not make the clock
        // look slow.
        elapsed_ticks = counter()
            .zip(start_ticks)
            .map(|(now, start)| now.wrapping_sub(start));
        if monotonic_ns() != start_ns {
            return None;
        }
        reads += 1;
        if reads >= MIN_READS && elapsed_ticks.is_some_and(|ticks| ticks >= LIMIT_TICKS) {
            break;
        }
    }
    let standing_others = others
        .iter()
        .zip(others_start_ns)
        .filter(|((_, read_ns), start_ns)| read_ns() == *start_ns);
    let clocks = std::iter::once("CLOCK_MONOTONIC")
        .chain(standing_others.map(|((name, _), _)| *name))
        .collect();
    Some(StandingClocks {
        clocks,
        reads,
        ticks: elapsed_ticks,
        library: None,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A counter that advances by `step` at each read.
    fn counter(step: u64) -> impl Fn() -> u64 {
        let ticks = Cell::new(0);
        move || {
            ticks.set(ticks.get() + step);
            ticks.get()
        }
    }

    const NO_COUNTER: Option<fn() -> u64> = None;

    #[test]
    fn a_clock_that_moves_is_not_named() {
        assert_eq!(standing(&counter(1), &[], NO_COUNTER), None);
        // A coarse clock moves seldom.
        let reads = counter(1);
        let coarse = || reads() / (MIN_READS * 2);
        assert_eq!(standing(&coarse, &[], Some(counter(10))), None);
        // A machine that was stopped: the counter is far beyond the clock.
        let reads = counter(1);
        let late = || reads() / (MIN_READS / 2);
        assert_eq!(standing(&late, &[], Some(counter(LIMIT_TICKS))), None);
    }

    /// Symptom: under `faketime -f '+0 x0.001'` no command ended.
    #[test]
    fn a_clock_that_hardly_moves_is_slow() {
        let reads = Cell::new(0);
        let kernel_ns = || reads.replace(reads.get() + 1_000);
        let found = slow(&|| reads.get() / 1_000, &kernel_ns).expect("slow");
        let text = found.to_string();
        assert!(
            text.starts_with("CLOCK_MONOTONIC advanced 2001 ns"),
            "{text}"
        );
    }

    #[test]
    fn a_clock_that_runs_back_is_slow() {
        let back = counter(1);
        assert!(slow(&|| 1_000_000 - back(), &counter(1_000)).is_some());
    }

    #[test]
    fn a_clock_of_another_pace_is_usable() {
        let reads = Cell::new(0);
        let kernel_ns = || reads.replace(reads.get() + 1_000);
        for [times, part] in [[1, 1], [1, 5], [10, 1]] {
            assert_eq!(slow(&|| reads.get() * times / part, &kernel_ns), None);
        }
    }

    #[test]
    fn the_standing_clocks_are_named_with_the_counters_progress() {
        let unix_moves = counter(1);
        for (others, named) in [
            (
                ("CLOCK_REALTIME", &(|| 7_u64) as &dyn Fn() -> u64),
                "CLOCK_MONOTONIC and CLOCK_REALTIME stand still",
            ),
            (
                ("CLOCK_REALTIME", &unix_moves),
                "CLOCK_MONOTONIC stands still",
            ),
        ] {
            let found = standing(&|| 5, &[others], Some(counter(LIMIT_TICKS))).expect("standing");
            let text = found.to_string();
            assert!(text.starts_with(named), "{text}");
            assert!(
                text.contains(&format!("in {} reads", grouped(MIN_READS))),
                "{text}"
            );
            let ticks = grouped(found.ticks.expect("a counter"));
            assert!(
                text.contains(&format!("the counter advanced {ticks} ticks")),
                "{text}"
            );
        }
    }

    #[test]
    fn without_a_counter_the_reads_are_limited() {
        let found = standing(&|| 5, &[], NO_COUNTER).expect("standing");
        assert_eq!((found.reads, found.ticks), (MAX_READS, None));
        assert!(!found.to_string().contains("counter"), "{found}");
    }

    #[test]
    fn the_library_that_replaces_the_clock_is_named() {
        let found = StandingClocks {
            clocks: vec!["CLOCK_MONOTONIC"],
            reads: 1,
            ticks: None,
            library: Some("/usr/lib/libfaketime.so.1".to_owned()),
        };
        let text = found.to_string();
        assert!(
            text.contains("/usr/lib/libfaketime.so.1 replaces libc's clock_gettime"),
            "{text}"
        );
    }
}
