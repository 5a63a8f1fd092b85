//! The source that the thread waits for while a worse one answers.

use crate::UtcSource;
use crate::claim_maker::POLL_NS;

/// Two requests that are closer count as one, ns: half of the period of the polls. After a step of
/// the OS clock the next request follows at once.
const SAME_REQUEST_NS: i64 = POLL_NS / 2;

/// A source, and since when it misses requests. A source that misses one request is late, and is
/// waited for; the second miss in a row ends the wait.
#[derive(Debug, Default)]
pub(crate) struct ExpectedSource {
    source: Option<UtcSource>,
    /// The first request of the present row of misses, by `CLOCK_MONOTONIC_RAW`, ns.
    first_miss_ns: Option<i64>,
}

impl ExpectedSource {
    /// Expects this source from now on, or none.
    pub(crate) fn set(&mut self, source: Option<UtcSource>) {
        self.source = source;
        self.first_miss_ns = None;
    }

    /// Counts the misses anew.
    pub(crate) fn forgive(&mut self) {
        self.first_miss_ns = None;
    }

    /// Counts the request at `raw_ns`; `misses` says whether a source has missed it. Returns
    /// whether the expected source is late: this is the first request in a row that it misses.
    pub(crate) fn count_request(
        &mut self,
        misses: impl FnOnce(UtcSource) -> bool,
        raw_ns: i64,
    ) -> bool {
        if !self.source.is_some_and(misses) {
            self.first_miss_ns = None;
            return false;
        }
        let first_ns = *self.first_miss_ns.get_or_insert(raw_ns);
        raw_ns.saturating_sub(first_ns) < SAME_REQUEST_NS
    }
}
