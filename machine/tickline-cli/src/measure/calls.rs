//! The calls whose cost is measured. Each call has a loop of its own, so that the compiler inlines
//! the call as it does in a program. The C functions and the system calls need unsafe code.

#![allow(
    unsafe_code,
    reason = "clock_gettime and friends as C programs call them"
)]

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use tickline_core::counter::{Counter, HardwareCounter};

/// A loop that makes the given number of calls.
pub(crate) type Loop = Box<dyn Fn(u32)>;

/// A call whose cost is measured: a clock, a read of the counter, or a system call.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// `None` if the clock does not exist, or if the process may not read it.
    pub(crate) run: Option<Loop>,
    /// One reading, ns; `None` for calls that do not return nanoseconds.
    pub(crate) read_ns: Option<Box<dyn Fn() -> u64>>,
}

impl Call {
    /// A call that is not measured.
    pub(crate) const fn not_made(name: &'static str) -> Self {
        Self {
            name,
            run: None,
            read_ns: None,
        }
    }
}

fn call<T>(name: &'static str, read: impl Fn() -> T + 'static) -> Call {
    Call {
        name,
        run: Some(repeat(read)),
        read_ns: None,
    }
}

/// A clock that returns nanoseconds.
fn clock(name: &'static str, read_ns: impl Fn() -> u64 + Copy + 'static) -> Call {
    Call {
        name,
        run: Some(repeat(read_ns)),
        read_ns: Some(Box::new(read_ns)),
    }
}

fn repeat<T>(read: impl Fn() -> T + 'static) -> Loop {
    Box::new(move |calls| {
        for _ in 0..calls {
            black_box(read());
        }
    })
}

/// The name of the counter read. The costs of all calls are compared with its cost.
pub(crate) const COUNTER: &str = HardwareCounter::NAME;

/// The usual reading of tickline's clock.
pub(crate) const NOW_NS: &str = "tickline::now_ns";

/// The precise Unix time.
pub(crate) const REALTIME: &str = "clock_gettime REALTIME";

/// Unix time of the kernel's last tick.
pub(crate) const REALTIME_COARSE: &str = "clock_gettime REALTIME_COARSE";

/// The precise Unix time by its older function.
pub(crate) const GETTIMEOFDAY: &str = "gettimeofday";

/// Unix time in whole seconds.
pub(crate) const TIME: &str = "time";

/// The time of the kernel's last tick: a clock that does not read the counter.
pub(crate) const MONOTONIC_COARSE: &str = "clock_gettime MONOTONIC_COARSE";

/// The clock that tickline follows, and with which programs measure time.
pub(crate) const MONOTONIC: &str = "clock_gettime MONOTONIC";

/// As `MONOTONIC`, at the clocksource's rate, which NTP does not correct.
pub(crate) const MONOTONIC_RAW: &str = "clock_gettime MONOTONIC_RAW";

/// As `MONOTONIC`, with the time of suspends.
pub(crate) const BOOTTIME: &str = "clock_gettime BOOTTIME";

/// International atomic time.
pub(crate) const TAI: &str = "clock_gettime TAI";

/// The CPU time of this process.
pub(crate) const PROCESS_CPU_TIME: &str = "clock_gettime PROCESS_CPUTIME";

/// The CPU time of this thread.
pub(crate) const CPU_TIME: &str = "clock_gettime THREAD_CPUTIME";

/// A call that enters the kernel even if the vDSO answers `clock_gettime`.
pub(crate) const SYSTEM_CALL: &str = "system call clock_gettime";

/// A call that enters the kernel and reads no counter.
pub(crate) const GETPPID: &str = "system call getppid";

/// The loop of `rdtscp`; `None` on a processor without it.
#[cfg(target_arch = "x86_64")]
fn rdtscp() -> Option<Loop> {
    use tickline_core::counter::{CpuCounter, HardwareCpuCounter};
    let counter = HardwareCpuCounter::if_present()?;
    Some(repeat(move || counter.now_ordered()))
}

/// Every call, in the order of the table. `counter` is `None` if the process may not read it.
pub(crate) fn all(counter: Option<HardwareCounter>) -> Vec<Call> {
    let ticks = |name, run: Option<Loop>| Call {
        name,
        run,
        read_ns: None,
    };
    let mut calls = vec![
        clock(NOW_NS, tickline::now_ns),
        clock("tickline::now_ordered_ns", tickline::now_ordered_ns),
        clock("tickline::unix_ns", tickline::unix_ns),
        clock("tickline::recent_ns", tickline::recent_ns),
        ticks(
            COUNTER,
            counter.map(|counter| repeat(move || counter.now())),
        ),
        ticks(
            HardwareCounter::NAME_ORDERED,
            counter.map(|counter| repeat(move || counter.now_ordered())),
        ),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.push(ticks("rdtscp", counter.and_then(|_admitted| rdtscp())));
    calls.extend([
        call("std::time::Instant", Instant::now),
        call("std::time::SystemTime", SystemTime::now),
    ]);
    #[cfg(unix)]
    calls.extend([
        clock(GETTIMEOFDAY, || {
            let mut time = libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            };
            // SAFETY: `time` is valid for a write, and the pointer to the time zone may be null.
            unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
            ns(time.tv_sec, time.tv_usec, 1_000)
        }),
        clock(TIME, || {
            // SAFETY: the pointer is null, so nothing is written.
            let seconds = unsafe { libc::time(std::ptr::null_mut()) };
            ns(seconds, 0, 1)
        }),
        clock(REALTIME, || clock_ns(libc::CLOCK_REALTIME)),
        clock(MONOTONIC, || clock_ns(libc::CLOCK_MONOTONIC)),
    ]);
    #[cfg(target_os = "linux")]
    calls.extend([
        clock(MONOTONIC_RAW, || clock_ns(libc::CLOCK_MONOTONIC_RAW)),
        clock(BOOTTIME, || clock_ns(libc::CLOCK_BOOTTIME)),
        clock(REALTIME_COARSE, || clock_ns(libc::CLOCK_REALTIME_COARSE)),
        clock(MONOTONIC_COARSE, || clock_ns(libc::CLOCK_MONOTONIC_COARSE)),
        clock(TAI, || clock_ns(libc::CLOCK_TAI)),
        clock(PROCESS_CPU_TIME, || {
            clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
        }),
        clock(CPU_TIME, || clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)),
        call(SYSTEM_CALL, kernel_ns),
        // SAFETY: the system call takes no arguments.
        call(GETPPID, || unsafe { libc::syscall(libc::SYS_getppid) }),
    ]);
    calls
}

/// A clock's time, ns.
#[cfg(unix)]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    ns(time.tv_sec, time.tv_nsec, 1)
}

/// Seconds, and a part of a second in units of `unit_ns`, as ns. C's types for both differ between
/// targets.
#[cfg(unix)]
fn ns(seconds: impl TryInto<u64>, part: impl TryInto<u64>, unit_ns: u64) -> u64 {
    let seconds = seconds.try_into().unwrap_or(0);
    let part = part.try_into().unwrap_or(0);
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(part.wrapping_mul(unit_ns))
}

/// CLOCK_MONOTONIC by the system call, ns. No library replaces this clock, so loops that must end
/// are bounded by it. It also answers a process that may not read the counter.
#[cfg(target_os = "linux")]
pub(crate) fn kernel_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system call writes a timespec to a valid address.
    unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            &raw mut time,
        )
    };
    ns(time.tv_sec, time.tv_nsec, 1)
}

/// The OS clock, ns: only Linux has a system call for it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kernel_ns() -> u64 {
    monotonic_ns()
}

/// The clock that tickline follows, ns: CLOCK_MONOTONIC on Linux.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The clock that tickline follows, ns. An uncalibrated tickline clock returns the OS clock's time.
#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic_ns() -> u64 {
    use std::sync::LazyLock;
    use tickline::{Clock, Driver, Error};
    static UNCALIBRATED: LazyLock<Result<Clock, Error>> =
        LazyLock::new(|| Clock::builder().driver(Driver::Manual).build());
    UNCALIBRATED
        .as_ref()
        .map_or(0, |clock| clock.now().as_nanos())
}
