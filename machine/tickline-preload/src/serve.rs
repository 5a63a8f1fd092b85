//! Reads the time from the page, if the page serves this process.

use core::cell::Cell;

use tickline_page::protocol::Timescale;
use tickline_page::{
    AttachedPage, HardwareCounter, PageSource, ProcessHighWater, ReaderOs, Reference,
};

use crate::original::{
    self, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, CLOCK_REALTIME_COARSE, NANOS,
    Timespec, Timeval,
};
use crate::state::{ProcessState, ServiceCell, ServiceState, state};

/// The counter of this target: `Some` on every x86_64 processor.
const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// Distances of the line from the coarse clock, ns, at which both belong to the same time
/// namespace. The line is above the coarse clock by up to a tick of the kernel, 10 ms. A slew may
/// have put the line 1.5 ms higher or lower (`machine/docs/lease.md`).
const NEAR_NS: core::ops::Range<i64> = -2_000_000..12_000_000;

/// If the distance of line and clock is larger than this, ns, the process is probably in another
/// time namespace. A distance between [`NEAR_NS`] and this can also come from a suspend, in which
/// the line may have run on for at most two leases.
const OTHER_NAMESPACE_NS: i64 = 2_000_000_000;

/// The monotonic time, ns, if the page's first line suffices, as it nearly always does. Otherwise
/// `None`. All calls are inlined.
#[inline(always)]
pub(crate) fn monotonic_by_line_ns(
    state: &ProcessState,
    attached: &AttachedPage<'_>,
    service: ServiceCell,
) -> Option<i64> {
    match service.get() {
        ServiceState::Served => attached.monotonic_by_line(&COUNTER?, &state.process_high_water),
        ServiceState::Attaching | ServiceState::Unknown => None,
    }
}

/// The time, ns; `None` if the original clock `os` must answer. This function makes only the system
/// call that `os` makes, so that a filter of system calls sees only the program's own calls.
#[inline(always)]
pub(crate) fn time_ns(timescale: Timescale, os: &Original) -> Option<i64> {
    let (attached, service) = state().attached()?;
    // Unix time is the same in all time namespaces (time_namespaces(7)).
    if timescale == Timescale::Monotonic && service.get() != ServiceState::Served {
        return check_namespace(attached, service, os);
    }
    read(attached, timescale, os)
}

#[inline(always)]
fn read(attached: &AttachedPage<'_>, timescale: Timescale, os: &Original) -> Option<i64> {
    let reading = match timescale {
        Timescale::Monotonic => attached.monotonic(&COUNTER?, os, &state().process_high_water),
        Timescale::Unix => attached.unix(&COUNTER?, os, &state().process_high_water),
    };
    (reading.source == PageSource::Line || !os.has_failed.get()).then_some(reading.ns)
}

/// The monotonic time, ns, in a forked child that may be in another time namespace, which has
/// another monotonic clock. Only the comparison of a line with the kernel's coarse clock shows
/// whether the namespace is another one. `None` if the original clock must answer.
#[cold]
fn check_namespace(
    attached: &AttachedPage<'_>,
    service: ServiceCell,
    os: &Original,
) -> Option<i64> {
    // With a new high-water mark, the reading is the line's value.
    if let Some(line_ns) = attached.monotonic_by_line(&COUNTER?, &ProcessHighWater::new()) {
        let coarse_ns =
            Original::coarse_ns(CLOCK_MONOTONIC_COARSE).unwrap_or_else(|| os.monotonic_ns());
        let distance_ns = line_ns.saturating_sub(coarse_ns);
        if os.has_failed.get() {
            return None;
        }
        if NEAR_NS.contains(&distance_ns) {
            // This process may have read the OS clock until now (rule R8).
            service.raise_to(ServiceState::Attaching);
            attached.raise_to_os_clock(os, &state().process_high_water);
            if os.has_failed.get() {
                return None;
            }
            service.raise_to(ServiceState::Served);
            return read(attached, Timescale::Monotonic, os);
        }
        if distance_ns.unsigned_abs() > OTHER_NAMESPACE_NS.unsigned_abs()
            && !service.may_have_attached()
        {
            // The next reading compares again. After a pause of the VM, the line may be this far
            // away until the writer publishes the next line.
            return None;
        }
    }
    // The parent's readings are a lower limit, unless the parent was in another namespace.
    let (ns, mark_ns) = (
        os.monotonic_ns(),
        state()
            .process_high_water
            .ns()
            .saturating_add(attached.page_offset_ns()),
    );
    if os.has_failed.get() {
        return None;
    }
    if service.may_have_attached() {
        state()
            .process_high_water
            .raise(ns.saturating_sub(attached.page_offset_ns()));
    }
    Some(if mark_ns.saturating_sub(ns) < OTHER_NAMESPACE_NS {
        ns.max(mark_ns)
    } else {
        ns
    })
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
