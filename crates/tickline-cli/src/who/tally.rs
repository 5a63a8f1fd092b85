//! Samples -> the calls of each process to each clock.

use std::collections::BTreeMap;

use super::clocks::Asked;

/// What was counted.
pub(super) struct Counted {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    /// The sampling period: one call in so many was sampled.
    pub(super) every: u64,
    /// `CLOCK_MONOTONIC` when counting began, and when it ended, ns.
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
}

/// The calls that were counted so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    calls: BTreeMap<(u32, Asked), u64>,
    /// The names of processes, read when they were first seen.
    names: BTreeMap<u32, Option<String>>,
    /// Calls for which no sample stands.
    pub(super) lost: u64,
}

impl Tally {
    /// Adds a sample that stands for `calls` calls. `name` reads the name of a process.
    pub(super) fn add(
        &mut self,
        pid: u32,
        asked: Asked,
        calls: u64,
        name: impl FnOnce(u32) -> Option<String>,
    ) {
        *self.calls.entry((pid, asked)).or_default() += calls;
        self.names.entry(pid).or_insert_with(|| name(pid));
    }

    /// Process, its name, what it has asked, and the number of calls.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, Option<&str>, Asked, u64)> + '_ {
        self.calls.iter().map(|(&(pid, asked), &calls)| {
            (pid, self.names.get(&pid).and_then(Option::as_deref), asked, calls)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_process_and_clock_and_names_are_read_once() {
        let mut tally = Tally::default();
        let mut reads = 0;
        for (pid, asked) in [(7, Asked::Clock(1)), (7, Asked::Clock(1)), (7, Asked::GetTimeOfDay)] {
            tally.add(pid, asked, 11, |_| {
                reads += 1;
                Some("seven".to_owned())
            });
        }
        tally.add(8, Asked::Time, 1, |_| None);
        let rows: Vec<_> = tally.rows().collect();
        assert_eq!(reads, 1);
        assert_eq!(
            rows,
            [
                (7, Some("seven"), Asked::Clock(1), 22),
                (7, Some("seven"), Asked::GetTimeOfDay, 11),
                (8, None, Asked::Time, 1)
            ]
        );
    }
}
