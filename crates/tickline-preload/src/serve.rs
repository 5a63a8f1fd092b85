//! A time from the page, if this process is served.

use core::cell::Cell;

use tickline_page::{Attached, Counter, HardwareCounter, OsClock, ProcessHighWater, Source};

use crate::original::{
    self, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, CLOCK_REALTIME_COARSE, NANOS, Timespec,
    Timeval,
};
use crate::state::{Here, Known, ProcessState, state};

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Monotonic,
    Unix,
    /// Unix time, for a program that asks for it by `gettimeofday`.
    TimeOfDay,
}

/// The counter of this target: `Some` on every x86_64 processor.
const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// A line is above the coarse clock by up to a tick of the kernel, 10 ms, and a slew may have put
/// it 1.5 ms higher or lower (`docs/lease.md`). Outside of this, ns, this may be another time
/// namespace...
const NEAR_NS: core::ops::Range<i64> = -2_000_000..12_000_000;

/// ...or a line that ran on in a suspend, for two leases at most. Further away than this, ns, it is
/// taken for another time namespace.
const FAR_NS: i64 = 2_000_000_000;

/// The monotonic time, ns, where the page's line has it at once: nearly always. Calls nothing.
#[inline(always)]
pub(crate) fn monotonic_by_line_ns(
    state: &ProcessState,
    attached: &Attached<'_>,
    known: Known,
) -> Option<i64> {
    let counter = COUNTER?;
    match known.here() {
        Here::Served => attached.monotonic_by_line(&counter, &state.high_water),
        Here::Attaching | Here::Unknown => None,
    }
}

/// The time of `clock`, ns; `None` if the original must answer. No system call but the one that the
/// original makes, so that a filter of system calls sees none that the program does not make.
#[inline(always)]
pub(crate) fn time_ns(clock: Clock) -> Option<i64> {
    let ((attached, known), counter) = (state().attached()?, COUNTER?);
    // Unix time is the same in all time namespaces (time_namespaces(7)).
    if clock == Clock::Monotonic && known.here() != Here::Served {
        return look_again(attached, known, &counter);
    }
    read(attached, &counter, clock)
}

#[inline(always)]
fn read(attached: &Attached<'_>, counter: &impl Counter, clock: Clock) -> Option<i64> {
    let os = Original { has_failed: Cell::new(false), by_time_of_day: clock == Clock::TimeOfDay };
    let reading = match clock {
        Clock::Monotonic => attached.monotonic(counter, &os, &state().high_water),
        Clock::Unix | Clock::TimeOfDay => attached.unix(counter, &os, &state().high_water),
    };
    (reading.source == Source::Line || !os.has_failed.get()).then_some(reading.ns)
}

/// The monotonic time in a process that was forked, until it is known whether it is in another time
/// namespace, whose clock is another one: only a line, compared with the kernel's coarse clock,
/// shows it.
#[cold]
fn look_again(attached: &Attached<'_>, known: Known, counter: &impl Counter) -> Option<i64> {
    let os = Original::new();
    // Without any high-water mark.
    if let Some(line_ns) = attached.monotonic_by_line(counter, &ProcessHighWater::new()) {
        let coarse_ns = Original::coarse_ns(CLOCK_MONOTONIC_COARSE).unwrap_or_else(|| os.monotonic_ns());
        let apart_ns = line_ns.saturating_sub(coarse_ns);
        if os.has_failed.get() {
            return None;
        }
        if NEAR_NS.contains(&apart_ns) {
            // Until now this process may have had the OS clock (rule R8).
            known.rise_to(Here::Attaching);
            attached.begin(&os, &state().high_water);
            if os.has_failed.get() {
                return None;
            }
            known.rise_to(Here::Served);
            return read(attached, counter, Clock::Monotonic);
        }
        if apart_ns.unsigned_abs() > FAR_NS.unsigned_abs() && !known.may_have_attached() {
            // Not for good: the line of a VM that was paused may be as far away, until the next
            // one.
            return None;
        }
    }
    // Not below what the parent had, unless that was in another namespace.
    let (ns, mark_ns) = (os.monotonic_ns(), state().high_water.ns().saturating_add(attached.shift_ns()));
    if os.has_failed.get() {
        return None;
    }
    if known.may_have_attached() {
        state().high_water.raise(ns.saturating_sub(attached.shift_ns()));
    }
    Some(if mark_ns.saturating_sub(ns) < FAR_NS { ns.max(mark_ns) } else { ns })
}

/// The process's own clocks: the vDSO's functions, or the kernel.
pub(crate) struct Original {
    /// Whether the kernel has refused to answer.
    has_failed: Cell<bool>,
    /// Whether the program asks for Unix time by `gettimeofday`.
    by_time_of_day: bool,
}

impl Original {
    pub(crate) const fn new() -> Self {
        Self { has_failed: Cell::new(false), by_time_of_day: false }
    }

    fn ask(&self, clock: i32) -> i64 {
        let mut time = Timespec { seconds: 0, nanos: 0 };
        if original::clock_gettime(clock, &raw mut time) != 0 {
            self.has_failed.set(true);
        }
        time.seconds.saturating_mul(NANOS).saturating_add(time.nanos)
    }

    /// A coarse clock, which the vDSO reads without a system call; `None` without a vDSO.
    #[inline(always)]
    fn coarse_ns(clock: i32) -> Option<i64> {
        let vdso = original::vdso_clock_gettime()?;
        let mut time = Timespec { seconds: 0, nanos: 0 };
        // The kernel's times are less than 2^63 ns.
        (vdso(clock, &raw mut time) == 0).then(|| time.seconds.wrapping_mul(NANOS).wrapping_add(time.nanos))
    }
}

impl OsClock for Original {
    #[cold]
    fn monotonic_ns(&self) -> i64 {
        self.ask(CLOCK_MONOTONIC)
    }

    #[cold]
    fn realtime_ns(&self) -> i64 {
        if !self.by_time_of_day {
            return self.ask(CLOCK_REALTIME);
        }
        let mut time = Timeval { seconds: 0, micros: 0 };
        if original::gettimeofday(&raw mut time, core::ptr::null_mut()) != 0 {
            self.has_failed.set(true);
        }
        time.seconds.saturating_mul(NANOS).saturating_add(time.micros.saturating_mul(1_000))
    }

    #[inline(always)]
    fn coarse_realtime_ns(&self) -> Option<i64> {
        Self::coarse_ns(CLOCK_REALTIME_COARSE)
    }

    /// Spins: a first publication lasts 1 ms at most, and `sched_yield` is a system call that the
    /// program may not make.
    fn pause(&self) {
        core::hint::spin_loop();
    }
}
