//! Reads the time from the page, if the page serves this process.

use core::cell::Cell;

use tickline_page::lease::{Attachment, PageSource, ReaderOs, Timescale};
use tickline_page::{AttachedPage, HardwareCounter, Reference};

use crate::original::{
    self, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_REALTIME_COARSE, NANOS, Timespec, Timeval,
};
use crate::state::{ProcessState, state};

/// The counter of this target: `Some` on every x86_64 processor.
const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// The monotonic time, ns, if the page's first line suffices, as it nearly always does. Otherwise
/// `None`. All calls are inlined.
#[inline(always)]
pub(crate) fn monotonic_by_line_ns(
    state: &ProcessState,
    attached: &AttachedPage<'_>,
    attachment: &Attachment,
) -> Option<i64> {
    if attachment.is_attached() {
        attached.monotonic_by_line(&COUNTER?, &state.process_high_water)
    } else {
        None
    }
}

/// The time, ns; `None` if the original clock `os` must answer. Only `os` makes system calls here,
/// so a filter of system calls sees only the program's own.
#[inline(always)]
pub(crate) fn time_ns(timescale: Timescale, os: &Original) -> Option<i64> {
    let (attached, attachment) = state().attached()?;
    let counter = COUNTER?;
    let high_water = &state().process_high_water;
    let reading = match timescale {
        Timescale::Monotonic if attachment.is_attached() => {
            attached.monotonic(&counter, os, high_water)
        }
        Timescale::Monotonic => attached.monotonic_of_forked(&counter, os, high_water, attachment),
        // Unix time is the same in all time namespaces (time_namespaces(7)).
        Timescale::Unix => attached.unix(&counter, os, high_water),
    };
    (reading.source == PageSource::Line || !os.has_failed.get()).then_some(reading.ns)
}

/// The clocks that this process has without the library: the vDSO's functions, or the kernel.
pub(crate) struct Original {
    /// Whether a call of these functions has failed.
    has_failed: Cell<bool>,
    /// Whether the program asks for Unix time by `gettimeofday`.
    by_time_of_day: bool,
}

impl Original {
    pub(crate) const fn new() -> Self {
        Self {
            has_failed: Cell::new(false),
            by_time_of_day: false,
        }
    }

    pub(crate) const fn by_time_of_day() -> Self {
        Self {
            by_time_of_day: true,
            ..Self::new()
        }
    }

    fn clock_ns(&self, clock: i32) -> i64 {
        let mut time = Timespec {
            seconds: 0,
            nanos: 0,
        };
        if original::clock_gettime(clock, &raw mut time) != 0 {
            self.has_failed.set(true);
        }
        time.seconds
            .saturating_mul(NANOS)
            .saturating_add(time.nanos)
    }

    /// Reads a coarse clock in the vDSO, without a system call; `None` without a vDSO.
    #[inline(always)]
    fn coarse_ns(clock: i32) -> Option<i64> {
        let vdso = original::vdso_clock_gettime()?;
        let mut time = Timespec {
            seconds: 0,
            nanos: 0,
        };
        // The kernel's times are less than 2^63 ns.
        (vdso(clock, &raw mut time) == 0)
            .then(|| time.seconds.wrapping_mul(NANOS).wrapping_add(time.nanos))
    }
}

impl Reference for Original {
    #[cold]
    fn monotonic_ns(&self) -> i64 {
        self.clock_ns(CLOCK_MONOTONIC)
    }

    #[cold]
    fn unix_ns(&self) -> i64 {
        if !self.by_time_of_day {
            return self.clock_ns(CLOCK_REALTIME);
        }
        let mut time = Timeval {
            seconds: 0,
            micros: 0,
        };
        if original::gettimeofday(&raw mut time, core::ptr::null_mut()) != 0 {
            self.has_failed.set(true);
        }
        time.seconds
            .saturating_mul(NANOS)
            .saturating_add(time.micros.saturating_mul(1_000))
    }
}

impl ReaderOs for Original {
    #[inline(always)]
    fn coarse_unix_ns(&self) -> Option<i64> {
        Self::coarse_ns(CLOCK_REALTIME_COARSE)
    }

    /// Spins. A first publication takes at most 1 ms, and a filter may forbid the system call
    /// `sched_yield`.
    fn pause(&self) {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's time, ns, by a system call.
    fn kernel_ns(clock: i32) -> i64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for a write.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
        assert_eq!(result, 0);
        time.tv_sec * NANOS + time.tv_nsec
    }

    #[test]
    fn the_original_clocks_are_the_kernels() {
        let os = Original::new();
        let before_ns = [CLOCK_MONOTONIC, CLOCK_REALTIME].map(kernel_ns);
        let found_ns = [os.monotonic_ns(), os.unix_ns()];
        let after_ns = [CLOCK_MONOTONIC, CLOCK_REALTIME].map(kernel_ns);
        for clock in 0..2 {
            assert!(
                (before_ns[clock]..=after_ns[clock]).contains(&found_ns[clock]),
                "{found_ns:?}"
            );
        }
        assert!(!os.has_failed.get());
    }

    #[test]
    fn the_time_of_day_is_unix_time_in_whole_microseconds() {
        let os = Original::by_time_of_day();
        let before_ns = kernel_ns(CLOCK_REALTIME);
        let found_ns = os.unix_ns();
        let after_ns = kernel_ns(CLOCK_REALTIME);
        assert_eq!(found_ns % 1_000, 0);
        assert!(
            (before_ns - 999..=after_ns).contains(&found_ns),
            "{found_ns}"
        );
        assert!(!os.has_failed.get());
    }

    #[test]
    fn a_clock_that_does_not_exist_has_failed() {
        let os = Original::new();
        os.clock_ns(999);
        assert!(os.has_failed.get());
    }

    #[test]
    fn the_first_line_needs_an_attached_process() {
        assert!(state().attached().is_none());
        assert_eq!(time_ns(Timescale::Monotonic, &Original::new()), None);
    }
}
