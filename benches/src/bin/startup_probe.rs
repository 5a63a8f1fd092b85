//! A child of `startup`: the first readings of the clock that the argument names. Those with code
//! before `main` have programs of their own.

use clock_kit::{CalibratedClock, Clock as _};
use std::hint::black_box;
use tickline::{Clock, State};

#[path = "../probe.rs"]
mod probe;

use probe::{Serves, probe};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tickline") => probe(
            || _ = black_box(tickline::now_ns()),
            Serves::Later(
                || _ = black_box(tickline::now_ns()),
                || match Clock::global().status().state {
                    State::Calibrating => None,
                    state => Some(state == State::Fast),
                },
            ),
        ),
        Some("libc") => probe(|| _ = black_box(probe::monotonic_ns()), Serves::Never),
        Some("std") => probe(|| _ = black_box(std::time::Instant::now()), Serves::Never),
        Some("quanta") => probe(|| _ = black_box(quanta::Instant::now()), Serves::AtOnce),
        Some("coarsetime") => probe(|| _ = black_box(coarsetime::Instant::now()), Serves::Never),
        Some("clocksource") => {
            probe(|| _ = black_box(clocksource::precise::Instant::now()), Serves::Never);
        }
        // As many readings as in the library's `peers`.
        Some("clock-kit") => probe(|| _ = black_box(CalibratedClock::new(50_000).now()), Serves::AtOnce),
        Some("fast-clock") => fast::probe_it(),
        other => panic!("{other:?} is no clock"),
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod fast {
    use std::hint::black_box;
    use std::time::Duration;

    use fast_clock::{
        Clock as _, DurationCalibration as _, FastClock, FastClockCalibration, FastClockTime, Time as _,
    };

    use super::probe::{Serves, probe};

    pub(super) fn probe_it() {
        let Ok(clock) = FastClock::try_new_linux_sys() else { return super::not_here() };
        let first = || {
            // As long as in the library's `peers`.
            let (rate, _) = FastClockCalibration::new_with_std_instant(&clock, Duration::from_millis(100));
            let epoch = clock.now();
            black_box(rate.convert_to_ns(FastClockTime::instant_sub(clock.now(), epoch)));
        };
        probe(first, Serves::AtOnce);
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod fast {
    pub(super) fn probe_it() {
        super::not_here();
    }
}

/// There is no such clock on this machine: nothing is printed.
fn not_here() {}
