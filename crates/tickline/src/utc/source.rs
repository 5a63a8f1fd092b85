//! Who says what UTC is: a file for each, the best first. The clock's thread asks them; a reader
//! never does.

use tickline_core::sample::Reference;

use super::UtcUnknown;
use super::claim_maker::{MAX_FREQUENCY_PPB, Moment, Report};
use crate::sys::reference::OsClock;

mod chronyd;
mod clock_bound;
mod kernel;
mod phc;

/// The fastest slew, as a part of the time: Linux changes a rate by 11 % at most
/// (`timekeeping_adjust`).
const SLEW_PARTS: i64 = 8;

/// What the sources remember from one time to the next.
#[derive(Debug, Default)]
pub(super) struct Sources {
    kernel: kernel::Kernel,
}

impl Sources {
    /// The moment after the request, taken by `moment`, and what the best source that answers says
    /// of it. `None` if the clock was set or steered anew meanwhile, or the machine suspended.
    /// `rate` is the least and the greatest time of a tick, if it is known, ns with `RATE_BITS`
    /// places.
    pub(super) fn ask(
        &mut self,
        moment: impl Fn() -> Option<Moment>,
        rate: Option<[u64; 2]>,
    ) -> Option<(Moment, Result<Report, UtcUnknown>)> {
        let steered = OsClock.steering_ppb();
        let before = moment()?;
        let segments = clock_bound::Segments::read();
        let (chronyd, kernel) = (chronyd::ask(), self.kernel.ask());
        let after = moment()?;
        let request = Request::between(&before, &after).filter(|_| OsClock.steering_ppb() == steered)?;
        let chronyd = chronyd.map(|tracking| tracking.report(phc::error_bound_ns()));
        // A disruption is no gap that another source could fill: it makes their claims wrong, too.
        let mut best = Err(UtcUnknown::NoSource);
        for answer in [segments.report(&after, rate), chronyd, kernel].into_iter().flatten() {
            if !matches!(best, Ok(_) | Err(UtcUnknown::Disrupted)) {
                best = answer;
            }
        }
        let report = best.map(|report| with_rate(report, steered.unwrap_or(0)));
        Some((after, report.map(|report| self.kernel.complete(request.at_end(report)))))
    }
}

/// A report with the rates that UTC may have, where the source says none: within 500 ppm of the OS
/// clock's, which is all that the kernel promises, or of an oscillator's that NTP can steer. The two
/// differ by the steering, of which a part may be a slew.
fn with_rate(report: Report, steered_ppb: i64) -> Report {
    if report.drift_ppb != MAX_FREQUENCY_PPB {
        return report;
    }
    let half_ppb = steered_ppb / 2;
    let drift_ppb = report.drift_ppb.saturating_add(half_ppb.saturating_abs()).saturating_add(1);
    Report { rate_ppb: half_ppb, drift_ppb, ..report }
}

/// The time between two moments. A source answered at some moment of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    age_ns: i64,
    width_ns: i64,
    /// By how much `CLOCK_REALTIME` has moved against `CLOCK_MONOTONIC_RAW`: in one direction,
    /// because nobody has steered it anew.
    moved_ns: i64,
}

impl Request {
    /// `None` if `CLOCK_REALTIME` was set between the two, or the machine suspended: an answer from
    /// before that says nothing of the time after.
    pub(super) fn between(before: &Moment, after: &Moment) -> Option<Self> {
        let ahead_ns = |moment: &Moment| moment.realtime_ns.saturating_sub(moment.raw_ns);
        let width_ns = before.width_ns.max(after.width_ns);
        let age_ns = after.raw_ns.saturating_sub(before.raw_ns).saturating_add(after.width_ns);
        let moved_ns = ahead_ns(after).saturating_sub(ahead_ns(before));
        let is_slewed =
            moved_ns.saturating_abs() <= (age_ns / SLEW_PARTS).saturating_add(width_ns.saturating_mul(2));
        (is_slewed && !after.is_disrupted_since(before)).then_some(Self { age_ns, width_ns, moved_ns })
    }

    /// What was true of one moment of the request, at its end.
    pub(super) fn at_end(&self, report: Report) -> Report {
        // How much more, and how much less than before UTC may be ahead of CLOCK_REALTIME. Each of
        // these has happened in full, in part, or before the answer.
        let gained_ns = |ppb: i64| i128::from(self.age_ns) * i128::from(ppb) / 1_000_000_000;
        let moved_ns = i128::from(self.moved_ns);
        let widening_ns = |rate_ppb: i64, moved_ns: i128| {
            let gained_ns = gained_ns(rate_ppb.saturating_add(report.drift_ppb)).max(0);
            let request_ns = gained_ns + moved_ns.max(0) + i128::from(self.width_ns) + 1;
            i64::try_from(request_ns).unwrap_or(i64::MAX)
        };
        let (less_ns, more_ns) = (
            widening_ns(report.rate_ppb.saturating_neg(), moved_ns),
            widening_ns(report.rate_ppb, -moved_ns),
        );
        let [least_ns, greatest_ns] = report.offset_ns;
        Report {
            offset_ns: [least_ns.saturating_sub(less_ns), greatest_ns.saturating_add(more_ns)],
            request_ns: report.request_ns.saturating_add(less_ns.max(more_ns)),
            ..report
        }
    }
}

#[cfg(test)]
mod tests;
