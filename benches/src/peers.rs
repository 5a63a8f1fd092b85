//! The clocks with which tickline is compared: std, quanta, fastant (formerly minstant),
//! coarsetime, and the OS clocks. Each is used as its own documentation recommends, and set up
//! before the measurement.

use std::time::{SystemTime, UNIX_EPOCH};

use tickline_observe::monotonic_ns;

use crate::subject::{ClockSubject, once, same, subject, whole_ns};

fn quanta_ns() -> impl Fn(quanta::Instant) -> u64 + Sync {
    let epoch = once!(quanta::Instant, quanta::Instant::now());
    move |now| whole_ns(now.duration_since(*epoch))
}

/// Every peer, and the OS clocks.
pub(crate) fn subjects() -> Vec<ClockSubject> {
    vec![
        subject!(Time, "libc clock_gettime MONOTONIC", monotonic_ns, ns same),
        subject!(Time, "std Instant::now", std::time::Instant::now, ns {
            let epoch = once!(std::time::Instant, std::time::Instant::now());
            move |now: std::time::Instant| whole_ns(now.duration_since(*epoch))
        }),
        subject!(Time, "std SystemTime::now", SystemTime::now, ns |now: SystemTime| {
            whole_ns(now.duration_since(UNIX_EPOCH).unwrap_or_default())
        }),
        subject!(Time, "quanta Instant::now", quanta::Instant::now, ns quanta_ns()),
        subject!(Time, "quanta Clock::now", {
            let clock = once!(quanta::Clock, quanta::Clock::new());
            move || clock.now()
        }, ns quanta_ns()),
        subject!(
            Time,
            "fastant now, in ns",
            {
                // fastant's instants hold ticks, and the anchor converts them to ns.
                let anchor = once!(fastant::Anchor, fastant::Anchor::new());
                move || fastant::Instant::now().as_unix_nanos(anchor)
            },
            ns same
        ),
        subject!(Coarse, "coarsetime Instant::now", coarsetime::Instant::now, ns {
            let epoch = once!(coarsetime::Instant, coarsetime::Instant::now());
            move |now: coarsetime::Instant| now.duration_since(*epoch).as_nanos()
        }),
    ]
}
