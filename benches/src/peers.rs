//! The other clocks, each used as its own documentation says, and set up before it is measured.
//!
//! Left out, and why: `high_precision_clock` (x86_64 alone; its rate comes from one sleep of 20
//! ms and it can only be corrected by the one owner of a `&mut`), `cu29-clock` (a robot runtime's
//! types, and 15 crates below it), `tick_counter` and `precision` (helpers for benchmarks: ticks,
//! and a rate from a sleep of 1 s and 5 s), `insecure-time` (for enclaves, with a lock around its
//! rate), `clock-bound` (needs its daemon), `tsc-time` and `tsc-timer` (need a nightly compiler
//! of long ago). libmtev, tscns and templexxx/tsc are no crates.

use std::time::{SystemTime, UNIX_EPOCH};

use clock_kit::{CalibratedClock, Clock as _};

use crate::os::monotonic_ns;
use crate::subject::{Subject, epoch, same, subject, whole_ns};

/// What minstant needs for ns: its instants hold ticks.
fn minstant_anchor() -> &'static minstant::Anchor {
    epoch!(minstant::Anchor, minstant::Anchor::new())
}

/// What fastant needs for ns: its instants hold ticks.
fn fastant_anchor() -> &'static fastant::Anchor {
    epoch!(fastant::Anchor, fastant::Anchor::new())
}

/// A clock that users of quanta also make once.
pub fn quanta_clock() -> &'static quanta::Clock {
    epoch!(quanta::Clock, quanta::Clock::new())
}

fn quanta_ns() -> impl Fn(quanta::Instant) -> u64 + Sync {
    let epoch = epoch!(quanta::Instant, quanta::Instant::now());
    move |now| whole_ns(now.duration_since(*epoch))
}

/// Readings that scale its calibration, from the range that its documentation names.
const CLOCK_KIT_READINGS: u32 = 50_000;

fn clock_kit() -> &'static CalibratedClock {
    epoch!(CalibratedClock, CalibratedClock::new(CLOCK_KIT_READINGS))
}

/// Every peer, and the OS clocks.
pub(crate) fn subjects() -> Vec<Subject> {
    let mut subjects = vec![
        subject!(Time, "libc clock_gettime MONOTONIC", monotonic_ns, ns same),
        subject!(Time, "std Instant::now", std::time::Instant::now, ns {
            let epoch = epoch!(std::time::Instant, std::time::Instant::now());
            move |now: std::time::Instant| whole_ns(now.duration_since(*epoch))
        }),
        subject!(Time, "std SystemTime::now", SystemTime::now, ns |now: SystemTime| {
            whole_ns(now.duration_since(UNIX_EPOCH).unwrap_or_default())
        }),
        subject!(Time, "quanta Instant::now", quanta::Instant::now, ns quanta_ns()),
        subject!(Time, "quanta Clock::now", {
            let clock = quanta_clock();
            move || clock.now()
        }, ns quanta_ns()),
        subject!(
            Time,
            "minstant now, in ns",
            {
                let anchor = minstant_anchor();
                move || minstant::Instant::now().as_unix_nanos(anchor)
            },
            ns same
        ),
        subject!(
            Time,
            "fastant now, in ns",
            {
                let anchor = fastant_anchor();
                move || fastant::Instant::now().as_unix_nanos(anchor)
            },
            ns same
        ),
        subject!(Time, "clock-kit now", {
            let clock = clock_kit();
            move || clock.now()
        }, ns |now: clock_kit::Timestamp| now.mono),
        subject!(Time, "clocksource precise", clocksource::precise::Instant::now, ns {
            |now: clocksource::precise::Instant| now.as_nanos()
        }),
        subject!(Coarse, "coarsetime Instant::now", coarsetime::Instant::now, ns {
            let epoch = epoch!(coarsetime::Instant, coarsetime::Instant::now());
            move |now: coarsetime::Instant| now.duration_since(*epoch).as_nanos()
        }),
        // In whole seconds, so only its cost can be compared.
        subject!(Coarse, "clocksource coarse", clocksource::coarse::Instant::now),
    ];
    subjects.extend(fast::subjects());
    subjects
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod fast {
    use std::time::Duration;

    use fast_clock::wrapping_u64::WrappingU64Instant;
    use fast_clock::{
        Clock as _, DurationCalibration as _, FastClock, FastClockCalibration, FastClockTime, Time as _,
    };

    use super::{Subject, epoch, same, subject};

    /// How long its documentation calibrates.
    const CALIBRATION: Duration = Duration::from_millis(100);

    /// What its users keep: the clock, its rate, and a zero.
    #[derive(Debug)]
    struct Kept {
        clock: FastClock,
        calibration: FastClockCalibration,
        epoch: WrappingU64Instant,
    }

    impl Kept {
        #[inline]
        fn now_ns(&self) -> u64 {
            self.calibration.convert_to_ns(FastClockTime::instant_sub(self.clock.now(), self.epoch))
        }
    }

    fn kept() -> Option<&'static Kept> {
        epoch!(Option<Kept>, {
            let clock = FastClock::try_new_linux_sys().ok()?;
            let (calibration, _) = FastClockCalibration::new_with_std_instant(&clock, CALIBRATION);
            Some(Kept { clock, calibration, epoch: clock.now() })
        })
        .as_ref()
    }

    pub(super) fn subjects() -> Vec<Subject> {
        if kept().is_none() {
            return Vec::new();
        }
        fn clock() -> &'static Kept {
            kept().expect("checked before")
        }
        vec![subject!(
            Time,
            "fast-clock now, in ns",
            {
                let kept = clock();
                move || kept.now_ns()
            },
            ns same
        )]
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod fast {
    pub(super) fn subjects() -> Vec<super::Subject> {
        Vec::new()
    }
}
