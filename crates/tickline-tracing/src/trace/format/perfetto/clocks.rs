//! The clocks of a trace: readings of several clocks at one moment, by which viewers convert the
//! trace's times, and merge it with other traces.

use super::proto::{Bytes, clocks, packet, trace};

/// Readings at one moment: the number of each clock, and its time, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockReadings(pub(super) Vec<(u64, u64)>);

impl ClockReadings {
    /// The present readings: `CLOCK_MONOTONIC`, which the times of records are of, the time since
    /// the boot, as `perf` and `ftrace` may record it, and Unix time.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn now() -> Self {
        use nix::time::{ClockId, clock_gettime};
        let read = |clock| {
            let time = clock_gettime(clock).ok()?;
            let seconds = u64::try_from(time.tv_sec()).ok()?;
            Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).ok()?)
        };
        // The thread may be interrupted between two readings. The closest of a few attempts counts.
        let attempt = || {
            let before = read(ClockId::CLOCK_MONOTONIC)?;
            let others = [
                (clocks::BOOTTIME, read(ClockId::CLOCK_BOOTTIME)?),
                (clocks::REALTIME, read(ClockId::CLOCK_REALTIME)?),
            ];
            let width = read(ClockId::CLOCK_MONOTONIC)?.saturating_sub(before);
            Some((width, (clocks::MONOTONIC, before + width / 2), others))
        };
        let closest = (0..5)
            .filter_map(|_| attempt())
            .min_by_key(|(width, ..)| *width);
        closest.map_or_else(Self::unknown, |(_, monotonic, others)| {
            Self([monotonic].into_iter().chain(others).collect())
        })
    }

    /// The present readings. Other systems have only one clock that the format knows: Unix time.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn now() -> Self {
        let now = tickline::Instant::now();
        let unix = tickline::Anchor::unix().to_unix(now);
        Self(vec![
            (clocks::MONOTONIC, now.as_nanos()),
            (clocks::REALTIME, unix.as_nanos()),
        ])
    }

    /// The trace of another process, which may be of an earlier boot, has only its own times.
    pub(crate) fn unknown() -> Self {
        Self(vec![(clocks::MONOTONIC, 0)])
    }

    /// Adds a packet with these readings. All times of the trace are converted to the time since
    /// the boot, as in other traces of Perfetto's, if it is known.
    pub(super) fn push(&self, bytes: &mut Bytes) {
        let is_known = self.0.iter().any(|(clock, _)| *clock == clocks::BOOTTIME);
        let packet = bytes.begin(trace::PACKET);
        let snapshot = bytes.begin(packet::CLOCK_SNAPSHOT);
        for (clock, ns) in &self.0 {
            let reading = bytes.begin(clocks::CLOCKS);
            bytes.number(clocks::ID, *clock);
            bytes.number(clocks::TIMESTAMP, *ns);
            bytes.end(reading);
        }
        let primary = if is_known {
            clocks::BOOTTIME
        } else {
            clocks::MONOTONIC
        };
        bytes.number(clocks::PRIMARY, primary);
        bytes.end(snapshot);
        bytes.end(packet);
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
        let by_kernel = || {
            [
                (clocks::MONOTONIC, read(ClockId::CLOCK_MONOTONIC)),
                (clocks::BOOTTIME, read(ClockId::CLOCK_BOOTTIME)),
            ]
        };
        let before = by_kernel();
        let ClockReadings(readings) = ClockReadings::now();
        let after = by_kernel();
        for ((clock, before_ns), (_, after_ns)) in before.into_iter().zip(after) {
            let reading = readings.iter().find(|(id, _)| *id == clock);
            let (_, ns) = reading.expect("a reading of each clock");
            assert!(
                (before_ns..=after_ns).contains(ns),
                "clock {clock}: {ns} is not in {before_ns} to {after_ns} ns"
            );
        }
    }
}
