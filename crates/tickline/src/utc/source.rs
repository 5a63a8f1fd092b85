//! Who says what UTC is: a file for each, the best first. The clock's thread asks them; a reader
//! never does.

use super::UtcUnknown;
use super::keeper::{Anchor, Report};

mod chronyd;
mod clock_bound;
mod kernel;
mod phc;

/// The fastest slew, as a part of the time: a twelfth by default, a tenth at most (chrony.conf(5),
/// `maxslewrate`).
const SLEW_PARTS: i64 = 10;

/// What the sources remember from one time to the next.
#[derive(Debug, Default)]
pub(super) struct Sources {
    kernel: kernel::Kernel,
}

impl Sources {
    /// What the best source that answers says of the moment of the anchor, which `anchor` takes;
    /// `None` if the clock was set meanwhile.
    /// `rate` is the time of a tick, if it is known, ns with `RATE_BITS` places.
    pub(super) fn ask(
        &mut self,
        anchor: impl Fn() -> Option<Anchor>,
        rate: Option<u64>,
    ) -> Option<(Anchor, Result<Report, UtcUnknown>)> {
        let before = anchor()?;
        let segments = clock_bound::Segments::read();
        let (chronyd, kernel) = (chronyd::ask(), self.kernel.ask());
        let anchor = anchor()?;
        let age_ns = anchor.raw_ns.saturating_sub(before.raw_ns);
        if was_set(&before, &anchor, age_ns / SLEW_PARTS) {
            return None;
        }
        let chronyd = chronyd.map(|tracking| tracking.report(age_ns / SLEW_PARTS));
        // A disruption is no gap that another source could fill: it makes their claims wrong, too.
        let mut best = Err(UtcUnknown::NoSource);
        for said in [segments.report(&anchor, rate), chronyd, kernel].into_iter().flatten() {
            if !matches!(best, Ok(_) | Err(UtcUnknown::Disrupted)) {
                best = said;
            }
        }
        let tai_offset_s = self.kernel.tai_offset_s();
        Some((anchor, best.map(|report| Report { tai_offset_s, ..report })))
    }
}

/// Whether `CLOCK_REALTIME` was set between two anchors: an answer from before that says nothing
/// of the time after. A slew is no more than `slewed_ns`.
fn was_set(before: &Anchor, after: &Anchor, slewed_ns: i64) -> bool {
    let ahead_ns = |anchor: &Anchor| anchor.realtime_ns.saturating_sub(anchor.raw_ns);
    let unsure_ns = before.width_ns.saturating_add(after.width_ns).saturating_add(slewed_ns).unsigned_abs();
    ahead_ns(before).abs_diff(ahead_ns(after)) > unsure_ns
}
