//! The measurement of a child of `startup`, for any clock.
//!
//! A file of its own, not a part of the library: that links fastant, which runs code before
//! `main`.

use std::time::Duration;

/// When a clock reads the counter.
#[allow(dead_code, reason = "each child needs some of them")]
pub(crate) enum Serves {
    /// After its first call, as far as it shows: quanta does not say when it falls back to the
    /// OS.
    AtOnce,
    /// Never: it asks the OS.
    Never,
    /// Some calls later. The first function is called until the second is no longer `None`; that
    /// says whether the counter serves.
    Later(fn(), fn() -> Option<bool>),
}

/// How long a clock may take until the counter serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// `CLOCK_MONOTONIC`, ns: what a user of libc alone would write.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    #[expect(clippy::cast_sign_loss, reason = "this clock is not negative")]
    {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Prints `CLOCK_MONOTONIC` before the first call, after it, and when the counter served (0:
/// never), and the longest call, ns.
#[expect(clippy::print_stdout, reason = "a program that prints figures")]
pub(crate) fn probe(first: impl FnOnce(), serves: Serves) {
    monotonic_ns(); // the loader's work for the vDSO does not belong to a clock
    let start_ns = monotonic_ns();
    first();
    let first_ns = monotonic_ns();
    let mut slowest_ns = first_ns - start_ns;
    let counter_ns = match serves {
        Serves::AtOnce => first_ns,
        Serves::Never => 0,
        Serves::Later(call, state) => {
            let mut calls = 0_u32;
            let mut last_ns = monotonic_ns();
            loop {
                call();
                let now_ns = monotonic_ns();
                slowest_ns = slowest_ns.max(now_ns - last_ns);
                // A status may take a system call, so it is taken now and then only.
                calls += 1;
                let decided = if calls.trailing_zeros() >= 4 { state() } else { None };
                if let Some(counter) = decided {
                    break if counter { monotonic_ns() } else { 0 };
                }
                last_ns = monotonic_ns();
                assert!(u128::from(last_ns - start_ns) < PATIENCE.as_nanos(), "no decision in {PATIENCE:?}");
            }
        }
    };
    println!("{start_ns} {first_ns} {counter_ns} {slowest_ns}");
}
