//! The calls whose cost is measured, each as a loop of its own, so that the call is inlined into it as it would be into a
//! program. The only file of this crate with unsafe code: C functions and a system call.

#![allow(unsafe_code, reason = "clock_gettime and friends as C programs call them")]

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use tickline_core::counter::{Counter, HardwareCounter};

/// A loop of so many calls.
pub(crate) type Loop = Box<dyn Fn(u32)>;

/// A clock that can be called.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// `None` where there is no such clock, or the process may not read it.
    pub(crate) run: Option<Loop>,
}

fn call<T>(name: &'static str, read: impl Fn() -> T + 'static) -> Call {
    Call { name, run: Some(repeat(read)) }
}

fn repeat<T>(read: impl Fn() -> T + 'static) -> Loop {
    Box::new(move |calls| {
        for _ in 0..calls {
            black_box(read());
        }
    })
}

/// The name of the call to which all others are compared.
pub(crate) const COUNTER: &str = HardwareCounter::NAME;

/// Every call, in the order of the table. `readable` says whether the process may read the counter.
pub(crate) fn all(readable: bool) -> Vec<Call> {
    let counter = HardwareCounter::if_present().filter(|_| readable);
    let counted = |name, run: Option<Loop>| Call { name, run };
    let mut calls = vec![
        call("tickline::now_ns", tickline::now_ns),
        call("tickline::now_ordered_ns", tickline::now_ordered_ns),
        call("tickline::unix_ns", tickline::unix_ns),
        call("tickline::recent_ns", tickline::recent_ns),
        counted(COUNTER, counter.map(|counter| repeat(move || counter.now()))),
        counted(HardwareCounter::ORDERED_NAME, counter.map(|counter| repeat(move || counter.now_ordered()))),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.push(counted(
        "rdtscp",
        tickline_core::counter::Rdtscp::detect()
            .filter(|_| readable)
            .map(|rdtscp| repeat(move || rdtscp.read())),
    ));
    calls.extend([call("std::time::Instant", Instant::now), call("std::time::SystemTime", SystemTime::now)]);
    #[cfg(unix)]
    calls.extend([
        call("gettimeofday", || {
            let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
            // SAFETY: `time` is valid for a write; the time zone is not asked for.
            unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
            time.tv_usec
        }),
        call("clock_gettime REALTIME", || clock_ns(libc::CLOCK_REALTIME)),
        call("clock_gettime MONOTONIC", || clock_ns(libc::CLOCK_MONOTONIC)),
    ]);
    #[cfg(target_os = "linux")]
    calls.extend([
        call("clock_gettime MONOTONIC_RAW", || clock_ns(libc::CLOCK_MONOTONIC_RAW)),
        call("clock_gettime BOOTTIME", || clock_ns(libc::CLOCK_BOOTTIME)),
        call("clock_gettime REALTIME_COARSE", || clock_ns(libc::CLOCK_REALTIME_COARSE)),
        call("clock_gettime MONOTONIC_COARSE", || clock_ns(libc::CLOCK_MONOTONIC_COARSE)),
        call("system call clock_gettime", || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the system call writes a timespec to a valid address.
            unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
            time.tv_nsec
        }),
    ]);
    calls
}

/// A clock as programs use it: in nanoseconds.
#[cfg(unix)]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let part = |value| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).wrapping_mul(1_000_000_000).wrapping_add(part(time.tv_nsec))
}

/// The clock that tickline follows, ns: CLOCK_MONOTONIC on Linux.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The clock that tickline follows, ns: what a clock says that nobody calibrates.
#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic_ns() -> u64 {
    use std::sync::LazyLock;
    use tickline::{Clock, Driver, Error};
    static UNCALIBRATED: LazyLock<Result<Clock, Error>> =
        LazyLock::new(|| Clock::builder().driver(Driver::Manual).start());
    UNCALIBRATED.as_ref().map_or(0, Clock::now_ns)
}
