//! The part of the clock's thread that asks the sources, and the slow path of a reading: what needs
//! the OS.

use tickline_core::sample::Reference;

use super::claim::Claim;
use super::keeper::{Anchor, POLL_NS, UtcKeeper};
use super::source::Sources;
use super::{UtcReading, UtcUnknown};
use crate::engine::Engine;
use crate::options::Probes;
use crate::sys::reference::OsClock;
use crate::sys::reference::system::try_read_ns;

/// Tries to read the clocks without an interruption in between.
const TRIES: u32 = 8;

/// Each clock at one moment: between two readings of `CLOCK_MONOTONIC_RAW`.
fn anchor(engine: &Engine) -> Option<Anchor> {
    let once = || {
        let raw_ns = try_read_ns(libc::CLOCK_MONOTONIC_RAW)?;
        let (ticks, realtime_ns) = (engine.read_ticks(), OsClock.realtime_ns());
        // A reading is rounded down.
        let width_ns = try_read_ns(libc::CLOCK_MONOTONIC_RAW)?.saturating_sub(raw_ns).saturating_add(1);
        Some(Anchor { ticks, raw_ns, realtime_ns, width_ns, suspended_ns: OsClock.suspended_ns()? })
    };
    (0..TRIES).filter_map(|_| once()).min_by_key(|anchor| anchor.width_ns)
}

/// What the clock's thread keeps from one request to the next.
#[derive(Debug, Default)]
pub(crate) struct UtcPolls {
    keeper: UtcKeeper,
    sources: Sources,
    /// When the sources were last asked, by `CLOCK_MONOTONIC_RAW`, ns.
    asked_ns: Option<i64>,
}

impl UtcPolls {
    /// Asks the sources, if it is time to, and publishes the claim. Waits 20 ms for them at most.
    pub(crate) fn poll(&mut self, engine: &Engine) {
        if engine.probes() == Probes::Minimal {
            return;
        }
        let Some(now_ns) = try_read_ns(libc::CLOCK_MONOTONIC_RAW) else { return };
        // The first claims come as soon as the counter's rate is known.
        let since_ns = self.asked_ns.map_or(i64::MAX, |asked_ns| now_ns.saturating_sub(asked_ns));
        if since_ns < POLL_NS && self.keeper.knows_rate() {
            return;
        }
        self.asked_ns = Some(now_ns);
        let Some((anchor, said)) = self.sources.ask(|| anchor(engine), self.keeper.rate()) else { return };
        // A source that misses one request is late; one that misses two has died.
        let interval_ns = i64::try_from(engine.interval_ns()).unwrap_or(i64::MAX);
        let valid_ns = POLL_NS.max(interval_ns).saturating_mul(5) / 2;
        if let Some(claim) = self.keeper.claim(&anchor, said, valid_ns) {
            engine.utc.publish(&claim);
        }
    }

    /// The machine resumed, or somebody set the clock.
    pub(crate) fn force_due(&mut self) {
        self.asked_ns = None;
    }
}

/// A reading where the counter does not serve, or the claim has ended.
#[cold]
pub(crate) fn reading_by_os(claim: &Claim) -> Result<UtcReading, UtcUnknown> {
    claim.source?;
    let suspended_ns = OsClock.suspended_ns().ok_or(UtcUnknown::NoSource)?;
    if claim.is_before_suspend(suspended_ns) {
        return Err(UtcUnknown::Disrupted);
    }
    let raw_ns = try_read_ns(libc::CLOCK_MONOTONIC_RAW).ok_or(UtcUnknown::NoSource)?;
    claim.at_raw(raw_ns).ok_or(claim.then)
}
