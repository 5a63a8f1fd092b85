//! The clocks of a trace: readings of several clocks at one moment, by which viewers convert the
//! trace's times, and merge it with other traces.

use super::proto::{Bytes, clocks, packet, trace};
use crate::trace::sys::clocks::SystemClocks;

/// Readings at one moment: the number of each clock, and its time, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockReadings(pub(super) Vec<(u64, u64)>);

impl ClockReadings {
    /// The present readings.
    pub(crate) fn now() -> Self {
        let Some(read) = SystemClocks::read() else {
            return Self::unknown();
        };
        let boottime = read.boottime_ns.map(|ns| (clocks::BOOTTIME, ns));
        let monotonic = (clocks::MONOTONIC, read.monotonic_ns);
        let realtime = (clocks::REALTIME, read.realtime_ns);
        let all = [Some(monotonic), boottime, Some(realtime)];
        Self(all.into_iter().flatten().collect())
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
