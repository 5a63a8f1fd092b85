//! What the sources have said before, with which a claim is compared: see the head of
//! `claim_maker.rs`.

use crate::UtcUnknown;
use crate::claim::Claim;
use crate::interval::Interval;
use crate::moment::Moment;
use crate::source::{MeasurementId, Report};
use crate::unbounded::MAX_FREQUENCY_PPB;

/// The earlier measurements of the sources, and the last claim.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The last measurement of each source that is believed; the source that answered last comes
    /// last. A report must agree with that one, and with the one that it repeats.
    measured: Vec<Measurement>,
    /// After a disruption: the first measurement that each source has stated since, which may be
    /// from before. The source is believed when it has another one. `None` before any disruption.
    first_stated: Option<Vec<MeasurementId>>,
    /// Whether the OS clock was set since a report was last judged.
    was_clock_set: bool,
}

/// The claims that were made from one measurement.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    id: MeasurementId,
    first: PastClaim,
    last: PastClaim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PastClaim {
    claim: Claim,
    /// Twice the error that reading the clocks and the request add to either side of the source's
    /// own claim, ns.
    tolerance_ns: i64,
}

impl PastClaim {
    /// Whether a claim of `utc_ns` at `raw_ns` says the same: it reaches both ends of this one.
    fn is_repeated_by(&self, utc_ns: Interval<i64>, raw_ns: i64) -> bool {
        let since_ns = self.claim.by_raw.between_ns(raw_ns);
        let reached_ns = |end_ns: i64| Interval::around(end_ns, self.tolerance_ns).plus(since_ns);
        utc_ns.min <= reached_ns(self.claim.utc_ns.min).max
            && utc_ns.max >= reached_ns(self.claim.utc_ns.max).min
    }
}

impl Measurement {
    /// Whether a claim of `utc_ns` at `raw_ns` can be true if the claims of this measurement are.
    fn agrees(&self, raw_ns: i64, id: MeasurementId, utc_ns: Interval<i64>) -> bool {
        if id != self.id {
            let last = &self.last.claim;
            return utc_ns.overlaps(last.utc_ns.plus(last.by_raw.between_ns(raw_ns)));
        }
        // The first claim alone would miss a small step, because the range has grown since. The
        // last claim alone would let small differences add up.
        self.first.is_repeated_by(utc_ns, raw_ns) && self.last.is_repeated_by(utc_ns, raw_ns)
    }
}

impl History {
    /// Whether no source is believed.
    pub(crate) fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed.
    pub(crate) fn record_clock_set(&mut self) {
        self.was_clock_set = true;
    }

    /// Demands a new measurement from each source.
    pub(crate) fn disrupt(&mut self) {
        self.measured.clear();
        self.first_stated = Some(Vec::new());
        self.was_clock_set = false;
    }

    /// Remembers the measurements of all sources after a disruption, so that each is believed once
    /// it has another one, also if a better source answers meanwhile.
    pub(crate) fn remember(&mut self, measurements: Vec<MeasurementId>) {
        let Some(stated) = &mut self.first_stated else {
            return;
        };
        for id in measurements {
            if stated.iter().all(|first| first.origin != id.origin) {
                stated.push(id);
            }
        }
    }

    /// Fails with `Disrupted` until the source has measured again, after an event that it may not
    /// have noticed.
    ///
    /// After the clock was set, the source's report counts at once only if it repeats a
    /// measurement: `agrees` then compares the two claims. At least two requests must have seen
    /// that measurement, because the thread may have made the newest one after the clock was set,
    /// but before it learned of that. And the source must know a rate: without one, a small step
    /// looks like a drift.
    ///
    /// A slew need not be known, although a small step looks like one: by up to 501 us for each
    /// second since the last claim. While a slew is awaited, claims are 256 ms apart as a rule. If
    /// the slew counted, readings would fail until chronyd has measured again, for up to 1,024 s,
    /// whenever the clock is set shortly after the thread's start.
    pub(crate) fn expect_another_measurement(&mut self, report: &Report) -> Result<(), UtcUnknown> {
        let id = report.id;
        let rates_width_ppb = report
            .rates_ppb
            .width()
            .saturating_sub(report.slew_width_ppb);
        let source_knows_rate = rates_width_ppb < 2 * MAX_FREQUENCY_PPB;
        let is_repeated = |past: &Measurement| past.id == id && past.first != past.last;
        let is_comparable = source_knows_rate && self.measured.iter().any(is_repeated);
        if core::mem::take(&mut self.was_clock_set) {
            // The other sources may not know that the clock was set.
            self.measured.retain(|past| is_comparable && past.id == id);
            self.first_stated = Some(Vec::new());
        }
        let is_believed = self.measured.iter().any(|past| past.id.origin == id.origin);
        let is_another = |stated: &Vec<MeasurementId>| {
            stated
                .iter()
                .any(|first| first.origin == id.origin && *first != id)
        };
        if is_believed || self.first_stated.as_ref().is_none_or(is_another) {
            Ok(())
        } else {
            Err(UtcUnknown::Disrupted)
        }
    }

    /// Stores the claim. Fails with `Disrupted` if it does not agree with the newest claim, or with
    /// the claims of the measurement that the report repeats. Another source may have answered
    /// meanwhile with a claim so wide that a step is small against it.
    pub(crate) fn add(
        &mut self,
        claim: Claim,
        moment: &Moment,
        report: &Report,
    ) -> Result<(), UtcUnknown> {
        let id = report.id;
        let tolerance_ns = moment
            .width_ns
            .saturating_add(report.request_ns)
            .saturating_mul(2);
        let newest = self.measured.last();
        let same = self.measured.iter().find(|past| past.id == id);
        let mut must_agree = newest.into_iter().chain(same);
        if !must_agree.all(|past| past.agrees(moment.raw_ns, id, claim.utc_ns)) {
            self.disrupt();
            return Err(UtcUnknown::Disrupted);
        }
        let last = PastClaim {
            claim,
            tolerance_ns,
        };
        let first = same.map_or(last, |same| same.first);
        self.measured.retain(|past| past.id.origin != id.origin);
        self.measured.push(Measurement { id, first, last });
        Ok(())
    }
}
