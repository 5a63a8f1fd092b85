//! What a system call for the time costs, measured for each clock that was called.

#![allow(unsafe_code, reason = "system calls past libc, which would ask the vDSO")]

use super::clocks::Asked;

/// Rounds, of which the fastest counts.
#[cfg(target_os = "linux")]
const ROUNDS: u32 = 40;

/// Calls in a round: 20 us to 1 ms.
#[cfg(target_os = "linux")]
const CALLS: u32 = 200;

/// A system call to this clock, ns. `None` for the CPU time of another process, for the clock of a
/// device, and where the kernel refuses the call.
#[cfg(target_os = "linux")]
pub(super) fn measure(asked: Asked) -> Option<f64> {
    use std::time::Instant;

    let call: &dyn Fn() -> bool = match asked {
        Asked::Clock(number @ 0..) => &move || clock_gettime(number),
        Asked::Clock(_) => return None,
        Asked::GetTimeOfDay => &gettimeofday,
        Asked::Time => &time,
    };
    if !call() {
        return None;
    }
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).min_by(f64::total_cmp)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: Asked) -> Option<f64> {
    None
}

#[cfg(target_os = "linux")]
fn clock_gettime(number: i32) -> bool {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system call writes a timespec to a valid address, or fails.
    unsafe { libc::syscall(libc::SYS_clock_gettime, number, &raw mut time) == 0 }
}

#[cfg(target_os = "linux")]
fn gettimeofday() -> bool {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let no_zone = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the system call writes a timeval to a valid address; the time zone is not asked for.
    unsafe { libc::syscall(libc::SYS_gettimeofday, &raw mut time, no_zone) == 0 }
}

/// Of the architectures on which calls are counted, only x86_64 has this call.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn time() -> bool {
    let nowhere = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the pointer is null, so nothing is written.
    unsafe { libc::syscall(libc::SYS_time, nowhere) > 0 }
}

#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
fn time() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_can_be_asked_has_a_cost() {
        assert!(measure(Asked::Clock(1)).is_some_and(|ns| ns > 0.0));
        assert_eq!(measure(Asked::Clock(-6)), None);
        assert_eq!(measure(Asked::Clock(1_000)), None, "no kernel has this clock");
    }
}
