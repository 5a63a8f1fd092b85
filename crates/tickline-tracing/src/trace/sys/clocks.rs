//! The system's clocks, read at one moment.

/// The times of the clocks, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClocks {
    /// `CLOCK_MONOTONIC`, which the times of records are of.
    pub(crate) monotonic_ns: u64,
    /// The time since the boot, as `perf` and `ftrace` may record it; `None` on other systems than
    /// Linux.
    pub(crate) boottime_ns: Option<u64>,
    /// Unix time.
    pub(crate) realtime_ns: u64,
}

impl SystemClocks {
    /// `None` if the system refuses a reading.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn read() -> Option<Self> {
        use nix::time::{ClockId, clock_gettime};
        let read = |clock| {
            let time = clock_gettime(clock).ok()?;
            let seconds = u64::try_from(time.tv_sec()).ok()?;
            Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).ok()?)
        };
        // The thread may be interrupted between two readings. The closest of a few attempts counts.
        let attempt = || {
            let before = read(ClockId::CLOCK_MONOTONIC)?;
            let boottime_ns = Some(read(ClockId::CLOCK_BOOTTIME)?);
            let realtime_ns = read(ClockId::CLOCK_REALTIME)?;
            let width = read(ClockId::CLOCK_MONOTONIC)?.saturating_sub(before);
            let clocks = Self {
                monotonic_ns: before + width / 2,
                boottime_ns,
                realtime_ns,
            };
            Some((width, clocks))
        };
        let attempts = (0..5).filter_map(|_| attempt());
        attempts
            .min_by_key(|(width, _)| *width)
            .map(|(_, clocks)| clocks)
    }

    /// The time of records, and Unix time.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn read() -> Option<Self> {
        let now = tickline::Instant::now();
        let unix = tickline::Anchor::unix().to_unix(now);
        Some(Self {
            monotonic_ns: now.as_nanos(),
            boottime_ns: None,
            realtime_ns: unix.as_nanos(),
        })
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use nix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn the_readings_are_those_of_the_kernels_clocks() {
        let read = |clock| {
            let time = std::time::Duration::from(clock_gettime(clock).expect("a clock of Linux"));
            u64::try_from(time.as_nanos()).expect("less than 584 years")
        };
        let by_kernel = || [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_BOOTTIME].map(read);
        let before = by_kernel();
        let clocks = SystemClocks::read().expect("the clocks of Linux");
        let after = by_kernel();
        let readings = [Some(clocks.monotonic_ns), clocks.boottime_ns];
        for ((before, after), reading) in before.into_iter().zip(after).zip(readings) {
            let ns = reading.expect("a reading of each clock");
            assert!(
                (before..=after).contains(&ns),
                "{ns} is not in {before} to {after} ns"
            );
        }
    }
}
