//! What a system call for the time costs, measured for each clock that was called.

#![allow(unsafe_code, reason = "system calls past libc, which would ask the vDSO")]

use super::clocks::Asked;

/// A system call to this clock, ns. `None` for the CPU time of another process, for the clock of a
/// device, and where the kernel refuses the call.
#[cfg(target_os = "linux")]
pub(super) fn measure(asked: Asked) -> Option<f64> {
    /// Rounds, of which the fastest counts.
    const ROUNDS: u32 = 40;
    /// Calls in a round: 20 us to 1 ms.
    const CALLS: u32 = 200;

    let mut time = [0_u64; 2];
    let mut call = || match asked {
        Asked::Clock(..0) => false,
        // SAFETY: the system call writes a timespec to a place that has room, or fails.
        Asked::Clock(number) => 0 == unsafe { libc::syscall(libc::SYS_clock_gettime, number, &raw mut time) },
        Asked::GetTimeOfDay => {
            let no_zone = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: as above, a timeval; the time zone is not asked for.
            0 == unsafe { libc::syscall(libc::SYS_gettimeofday, &raw mut time, no_zone) }
        }
        // Of the architectures on which calls are counted, only x86_64 has this call.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, a number.
        Asked::Time => unsafe { libc::syscall(libc::SYS_time, &raw mut time) > 0 },
        #[cfg(not(target_arch = "x86_64"))]
        Asked::Time => false,
    };
    if !call() {
        return None;
    }
    let round = |_| {
        let start = std::time::Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..ROUNDS).map(round).min_by(f64::total_cmp)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: Asked) -> Option<f64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_can_be_asked_has_a_cost() {
        let known = [Asked::Clock(1), Asked::GetTimeOfDay].map(measure);
        assert!(known.into_iter().all(|ns| ns.is_some_and(|ns| ns > 0.0)), "{known:?}");
        // No kernel has the other clock.
        assert_eq!([Asked::Clock(-6), Asked::Clock(1_000)].map(measure), [None, None]);
    }
}
