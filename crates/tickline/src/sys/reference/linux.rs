//! Linux: `clock_gettime` through libc's symbol, so that tickline follows a library that interposes
//! the symbol (simulators, `faketime`).

use core::sync::atomic::{AtomicU8, Ordering};

use tickline_core::reference::{self, Reference, SUSPENDED_BOUND_NS};

use super::OsClock;
use crate::sys::vmclock::VMCLOCK;
use crate::sys::{PreserveErrno, may_read_counter};

/// How this process reads the OS clocks.
static ROUTE: AtomicU8 = AtomicU8::new(ROUTE_UNKNOWN);

const ROUTE_UNKNOWN: u8 = 0;
/// Through libc, which uses the vDSO if there is one.
const ROUTE_LIBC: u8 = 1;
/// By system call, because the process may not read the counter (`PR_SET_TSC`). The vDSO executes
/// `rdtsc` as well, which would raise SIGSEGV.
const ROUTE_KERNEL: u8 = 2;

/// Tries to read the two clocks whose difference is the time suspended. A thread that is preempted
/// between the two tries again.
const TRIES: u32 = 4;

impl OsClock {
    /// Chooses libc's clock without a test whether the process may read the counter, unless a route
    /// is chosen already.
    pub(crate) fn choose_libc() {
        // ORDERING: Relaxed for both, the number publishes no other memory.
        let order = Ordering::Relaxed;
        ROUTE
            .compare_exchange(ROUTE_UNKNOWN, ROUTE_LIBC, order, order)
            .ok();
    }

    /// `CLOCK_MONOTONIC_RAW` of Linux, ns, which nobody steers; `None` on other systems.
    #[must_use]
    pub fn raw_ns() -> Option<i64> {
        try_read_ns(libc::CLOCK_MONOTONIC_RAW)
    }
}

/// What `convert` makes of the kernel's discipline of its clocks (adjtimex(2)); `None` if the
/// kernel may not be asked.
fn timex<T>(convert: impl FnOnce(&libc::timex) -> T) -> Option<T> {
    let mut timex = core::mem::MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
    let state = unsafe { libc::adjtimex(timex.as_mut_ptr()) };
    // SAFETY: `timex` is plain data, of which all zeros is a valid value.
    let timex = unsafe { timex.assume_init_ref() };
    (state >= 0).then(|| convert(timex))
}

/// The time, ns. Every Linux has both clocks of [`OsClock`], so the call cannot fail; if it did,
/// the time would be 0.
#[inline]
fn read_ns(clock: libc::clockid_t) -> i64 {
    try_read_ns(clock).unwrap_or(0)
}

#[inline]
fn try_read_ns(clock: libc::clockid_t) -> Option<i64> {
    // ORDERING: Relaxed, the number publishes no other memory.
    let route = ROUTE.load(Ordering::Relaxed);
    if route != ROUTE_LIBC {
        return read_ns_unrouted(clock, route);
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write; a clock that does not exist is an error code.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| in_ns(time.tv_sec, time.tv_nsec))
}

/// Converts to ns. `time_t` and `long` have 32 bits on some targets.
#[inline]
fn in_ns(seconds: impl Into<i64>, nanos: impl Into<i64>) -> i64 {
    seconds
        .into()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanos.into())
}

/// The first reading of the process, and every reading without the vDSO.
#[cold]
#[inline(never)]
fn read_ns_unrouted(clock: libc::clockid_t, route: u8) -> Option<i64> {
    if route == ROUTE_UNKNOWN {
        let _errno = PreserveErrno::new();
        let found = if may_read_counter() {
            ROUTE_LIBC
        } else {
            ROUTE_KERNEL
        };
        // ORDERING: Relaxed, as in `try_read_ns`. The loser of a race takes the winner's route.
        ROUTE
            .compare_exchange(ROUTE_UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
        return try_read_ns(clock);
    }
    // The kernel's timespec for this call has the width of long, whatever libc's has.
    let mut time: [libc::c_long; 2] = [0; 2];
    // SAFETY: `time` is valid for a write, and as large as the kernel's structure.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time.as_mut_ptr()) };
    (result == 0).then(|| in_ns(time[0], time[1]))
}

/// The correction of the clocks' rate, ppb, without a slew of the offset.
#[allow(
    clippy::useless_conversion,
    reason = "long has 32 bits on some targets"
)]
fn steering_ppb(timex: &libc::timex) -> i64 {
    let frequency_ppb = reference::frequency_from_timex_ppb(timex.freq.into());
    reference::steering_from_timex_ppb(frequency_ppb, timex.tick.into())
}

impl Reference for OsClock {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        read_ns(libc::CLOCK_MONOTONIC)
    }

    #[inline]
    fn unix_ns(&self) -> i64 {
        read_ns(libc::CLOCK_REALTIME)
    }

    fn steering_ppb(&self) -> Option<i64> {
        timex(steering_ppb)
    }

    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, which a suspend raises and nothing else changes.
    /// On most PCs the kernel measures a suspend by the battery's clock, in whole seconds. A short
    /// suspend may then add 0 (`timekeeping_resume` in `kernel/time/timekeeping.c`).
    fn suspended_ns(&self) -> Option<i64> {
        for _ in 0..TRIES {
            let before_ns = read_ns(libc::CLOCK_MONOTONIC);
            let boottime_ns = try_read_ns(libc::CLOCK_BOOTTIME)?;
            let after_ns = read_ns(libc::CLOCK_MONOTONIC);
            // A suspend between two of these readings does not widen the bracket. The difference is
            // then the one from before the suspend, or from after it.
            if u64::try_from(after_ns.saturating_sub(before_ns))
                .is_ok_and(|ns| ns <= SUSPENDED_BOUND_NS)
            {
                return Some(boottime_ns.saturating_sub(before_ns));
            }
        }
        None
    }

    #[inline]
    fn disruption_marker(&self) -> Option<u64> {
        VMCLOCK.marker()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: libc::timex = {
        // SAFETY: plain data, of which all zeros is a valid value.
        unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    };

    /// The kernel's answer; `None` if it may not be asked.
    fn by_kernel() -> Option<libc::timex> {
        let mut timex = EMPTY;
        // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
        let state = unsafe { libc::adjtimex(&raw mut timex) };
        (state != -1).then_some(timex)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no CLOCK_MONOTONIC_RAW")]
    fn the_raw_time_comes_from_the_kernel() {
        let by_kernel_ns = || {
            let mut time = core::mem::MaybeUninit::<libc::timespec>::zeroed();
            // SAFETY: `time` is valid for writes.
            let result =
                unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, time.as_mut_ptr()) };
            assert_eq!(result, 0);
            // SAFETY: plain data, of which all zeros is a valid value.
            let time = unsafe { time.assume_init() };
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let before_ns = by_kernel_ns();
        let raw_ns = OsClock::raw_ns().map(i128::from);
        let after_ns = by_kernel_ns();
        assert!(
            raw_ns.is_some_and(|raw_ns| (before_ns..=after_ns).contains(&raw_ns)),
            "{raw_ns:?} is not in {before_ns} to {after_ns} ns"
        );
    }

    #[test]
    fn the_steering_is_the_sum_of_frequency_and_tick() {
        let timex = libc::timex {
            freq: -(30 << 16),
            tick: 10_833,
            ..EMPTY
        };
        assert_eq!(steering_ppb(&timex), 83_270_000);
    }

    /// adjtimex(2): `freq` is in ppm with 16 binary places, and each microsecond that `tick` has
    /// above 10,000 is 100 ppm. A daemon may change both between two calls.
    #[test]
    #[allow(
        clippy::useless_conversion,
        reason = "long has 32 bits on some targets"
    )]
    fn the_steering_comes_from_the_kernel() {
        let by_kernel_ppb = || {
            by_kernel()
                .map(|timex| (i64::from(timex.freq), i64::from(timex.tick)))
                .map(|(freq, tick_us)| ((freq * 1_000) >> 16) + (tick_us - 10_000) * 100_000)
        };
        assert!(
            (0..10).any(|_| OsClock.steering_ppb() == by_kernel_ppb()),
            "{:?}, not {:?}",
            OsClock.steering_ppb(),
            by_kernel_ppb()
        );
    }

    /// Only a suspend changes the time suspended, and this machine is awake.
    #[test]
    fn the_time_asleep_is_constant_while_awake() {
        let first_ns = OsClock.suspended_ns();
        for _ in 0..1_000 {
            // A machine that is too busy to bracket anything may not say.
            let (Some(first_ns), Some(now_ns)) = (first_ns, OsClock.suspended_ns()) else {
                continue;
            };
            assert!(
                now_ns.abs_diff(first_ns) <= SUSPENDED_BOUND_NS,
                "{first_ns} ns, then {now_ns} ns"
            );
        }
    }
}
