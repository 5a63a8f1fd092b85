//! The settings of a [`Writer`](super::Writer).

use tickline_core::control::MEETING_MARGIN_NS;

/// The settings of a writer. A server sets the two resolutions. The promises of
/// `machine/docs/lease.md` hold only with the other values of [`new`](Self::new): the simulator and
/// tests set others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterConfig {
    /// The length of a lease, ns.
    pub lease_ns: u64,
    /// A line's successor is published at least this long before the line's end, ns.
    pub renewal_notice_ns: u64,
    /// The longest time that readers wait for a first publication, ns.
    pub first_publication_wait_ns: u64,
    /// The largest difference between two CPUs' counters, late reads included, ns.
    pub cpu_difference_ns: u64,
    /// The shortest time between two first publications, ns; doubled after each failed one.
    pub first_publication_pause_ns: u64,
    /// The resolution of the OS clock, ns.
    pub os_resolution_ns: i64,
    /// The resolution of the counter, ticks.
    pub counter_resolution_ticks: u64,
}

impl WriterConfig {
    /// The settings that `machine/docs/lease.md` explains: a lease is half a second. The
    /// resolutions are 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lease_ns: 500_000_000,
            renewal_notice_ns: 100_000_000,
            first_publication_wait_ns: 1_000_000,
            // The promise of `machine/docs/lease.md` holds for CPUs whose counters differ by less.
            cpu_difference_ns: MEETING_MARGIN_NS,
            first_publication_pause_ns: 1_000_000_000,
            os_resolution_ns: 1,
            counter_resolution_ticks: 1,
        }
    }
}

impl Default for WriterConfig {
    fn default() -> Self {
        Self::new()
    }
}
