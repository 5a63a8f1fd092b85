//! The sources of UTC, one file for each. The thread asks them, and prefers clock-bound to
//! chronyd, chronyd to ptp4l, and ptp4l to the kernel. A reader never asks.

use tickline_core::reference::Reference;

use crate::interval::Interval;
use crate::moment::Moment;
use crate::sys::{KernelClock, adjtime_left_us};
use crate::unbounded::MAX_FREQUENCY_PPB;
use crate::{UtcSource, UtcUnknown};

pub mod chronyd;
mod clock_bound;
mod daemon_socket;
mod kernel;
mod phc;
pub mod ptp4l;

pub(crate) use chronyd::ChronydSource;
use chronyd::KernelSteering;
pub(crate) use kernel::KernelSource;

/// The report of a source about one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) id: MeasurementId,
    /// UTC minus `CLOCK_REALTIME`, ns.
    pub(crate) offset_ns: Interval<i64>,
    /// The part of either side of `offset_ns` that the request adds to the source's own error, ns.
    pub(crate) request_ns: i64,
    /// The rates that UTC may have against `CLOCK_MONOTONIC_RAW`, ppb.
    pub(crate) rates_ppb: Interval<i64>,
    /// The part of the width of `rates_ppb` that allows for a measured slew and for the error of
    /// its measurement, ppb. It says nothing of how well chronyd knows the rate of its clock. It is
    /// large until the slew is known.
    pub(crate) slew_width_ppb: i64,
    /// The time for which the source lets its claim hold, ns.
    pub(crate) valid_ns: i64,
    /// Whether the UTC day ends with a leap second.
    pub(crate) leap_second_today: bool,
}

/// A measurement of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasurementId {
    pub(crate) origin: Origin,
    /// Changes when the source measures again.
    pub(crate) number: u64,
}

/// Where a report comes from. clock-bound's daemon writes two versions of its segment for one
/// measurement, with two numbers. So the measurements of the versions are compared as if two
/// sources had made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    ClockBound3,
    ClockBound2,
    Chronyd,
    Ptp4l,
    Kernel,
}

impl Origin {
    pub(crate) fn source(self) -> UtcSource {
        match self {
            Self::ClockBound3 | Self::ClockBound2 => UtcSource::ClockBound,
            Self::Chronyd => UtcSource::Chronyd,
            Self::Ptp4l => UtcSource::Ptp4l,
            Self::Kernel => UtcSource::Kernel,
        }
    }
}

/// A source's report, or why it has none.
pub(crate) type SourceAnswer = Result<Report, UtcUnknown>;

/// The answers of the sources to one request.
#[derive(Debug)]
pub(crate) struct SourceAnswers {
    /// The moment after the request.
    pub(crate) moment: Moment,
    /// The best source's answer about that moment.
    pub(crate) best: SourceAnswer,
    /// The measurements of all sources.
    pub(crate) measurements: Vec<MeasurementId>,
}

impl SourceAnswers {
    /// What the sources, the best one first, have answered between two moments. `None` if meanwhile
    /// the clock was set, or the machine was suspended.
    fn new<const N: usize>(
        answers: [Option<SourceAnswer>; N],
        kernel: &KernelSource,
        [before, after]: [&Moment; 2],
    ) -> Option<Self> {
        let reports = answers.iter().flatten().flatten();
        let measurements = reports.map(|report| report.id).collect();
        let best = best(answers).map(|report| kernel.announce(report));
        Some(Self {
            moment: *after,
            best: widen(before, after, best)?,
            measurements,
        })
    }
}

/// A change of `CLOCK_REALTIME` against `CLOCK_MONOTONIC_RAW` by more than one part in `SLEW_PARTS`
/// of the time counts as a step, and the request does not count. A choice, not a measurement: Linux
/// warns above 11 % (`timekeeping_adjust`), but can slew by up to 22.6 % (`MAX_KERNEL_SLEW_PPB` in
/// `tickline-core`). For more than one part in 8 the kernel must remove an offset with a time
/// constant of 2 at most, beside a steering of its rate. Such a slew counts as a step for as long
/// as it lasts: no request counts, so the last claim goes on to its end, and then readings fail
/// with [`Expired`](UtcUnknown::Expired). No range misses UTC.
const SLEW_PARTS: i64 = 8;

/// The sources that remember what they said.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) chronyd: ChronydSource,
    pub(crate) kernel: KernelSource,
}

impl Sources {
    /// Asks all sources. `slopes` is the counter's rate, if it is known. What chronyd's replies
    /// have shown of the kernel's clock counts for at most `max_gap_ns`. `moment` reads the clocks,
    /// `kernel_clock` asks the kernel, and `os` reads the steering and the monotonic time. Waits
    /// for chronyd for at most 40 ms, and for ptp4l for 20 ms. `None` if meanwhile the clock was
    /// set, its steering changed, or the machine was suspended; or if there is no moment.
    pub(crate) fn ask(
        &mut self,
        slopes: Option<Interval<u64>>,
        max_gap_ns: i64,
        os: &impl Reference,
        moment: impl Fn() -> Option<Moment>,
        kernel_clock: impl FnOnce() -> Option<KernelClock>,
    ) -> Option<SourceAnswers> {
        let steered = os.steering_ppb();
        let before = moment()?;
        let segments = clock_bound::read();
        let tracking = self.chronyd.ask();
        let by_ptp4l = ptp4l::answer(os, steered.unwrap_or(0));
        let clock = kernel_clock();
        let adjtime_left_us = adjtime_left_us().unwrap_or(0);
        let steering = clock
            .as_ref()
            .map(|clock| KernelSteering::new(clock, adjtime_left_us));
        let by_kernel = clock.as_ref().and_then(|clock| self.kernel.report(clock));
        let after = moment()?;
        if os.steering_ppb() != steered {
            return None;
        }
        let monotonic_ns = os.monotonic_ns();
        let [version_3, version_2] = segments
            .map(|segment| segment?.report(&after, slopes, steered.unwrap_or(0), monotonic_ns));
        let by_chronyd = tracking.map(|tracking| {
            let phc_bound_ns = phc::error_bound_ns();
            let moments = [&before, &after];
            self.chronyd
                .report(&tracking, phc_bound_ns, steering, moments, max_gap_ns)
        });
        let answers = [version_3, version_2, by_chronyd, by_ptp4l, by_kernel];
        SourceAnswers::new(answers, &self.kernel, [&before, &after])
    }
}

/// The first report, of clock-bound (version 3, then 2), then chronyd, ptp4l, the kernel; without
/// one, why the last source has none. If several are not synchronised, the best of them says why:
/// it is the one to mend. If a source reports a disruption, those behind it may not have noticed,
/// so they don't count.
fn best(answers: impl IntoIterator<Item = Option<SourceAnswer>>) -> SourceAnswer {
    let mut best = Err(UtcUnknown::NoSource);
    let mut first_unsynchronised = None;
    for answer in answers.into_iter().flatten() {
        best = match answer {
            Ok(_) | Err(UtcUnknown::Disrupted) => return answer,
            Err(UtcUnknown::Unsynchronised(..)) => *first_unsynchronised.get_or_insert(answer),
            Err(_) => answer,
        };
    }
    best
}

/// The rates that UTC may have if the source states none, ppb. UTC's rate is within 500 ppm of the
/// OS clock's; the kernel promises no more. Or it is within 500 ppm of the rate of an oscillator
/// that NTP can steer. The two rates differ by the steering, and a part of the steering may be a
/// slew.
fn unknown_rates_ppb(steered_ppb: i64) -> Interval<i64> {
    Interval::at(0)
        .hull(Interval::at(steered_ppb))
        .widened_by(MAX_FREQUENCY_PPB)
}

/// Widens an answer about some moment between `before` and `after`, so that it holds at `after`.
/// `None` if `CLOCK_REALTIME` was set between the two, or the machine was suspended: the answer may
/// be from before that, and then says nothing of the time after.
fn widen(before: &Moment, after: &Moment, answer: SourceAnswer) -> Option<SourceAnswer> {
    let ahead_ns = |moment: &Moment| moment.realtime_ns.saturating_sub(moment.raw_ns);
    let width_ns = before.width_ns.max(after.width_ns);
    let age_ns = after
        .raw_ns
        .saturating_sub(before.raw_ns)
        .saturating_add(after.width_ns);
    // The clock moved in one direction, because its steering has not changed.
    let moved_ns = ahead_ns(after).saturating_sub(ahead_ns(before));
    let is_slewed = moved_ns.saturating_abs()
        <= (age_ns / SLEW_PARTS).saturating_add(width_ns.saturating_mul(2));
    if !is_slewed || after.is_disrupted_since(before) {
        return None;
    }
    Some(answer.map(|report| {
        // How much more, and how much less, UTC may be ahead of `CLOCK_REALTIME` than in the
        // answer. Each change may have come before the answer, after it, or partly after it.
        let widening_ns = |fastest_ppb: i64, moved_ns: i128| {
            let gained_ns = (i128::from(age_ns) * i128::from(fastest_ppb) / 1_000_000_000).max(0);
            let request_ns = gained_ns + moved_ns.max(0) + i128::from(width_ns) + 1;
            i64::try_from(request_ns).unwrap_or(i64::MAX)
        };
        let moved_ns = i128::from(moved_ns);
        let less_ns = widening_ns(report.rates_ppb.min.saturating_neg(), moved_ns);
        let more_ns = widening_ns(report.rates_ppb.max, -moved_ns);
        Report {
            offset_ns: report.offset_ns.plus(Interval::between(-less_ns, more_ns)),
            request_ns: report.request_ns.saturating_add(less_ns.max(more_ns)),
            ..report
        }
    }))
}

#[cfg(test)]
mod tests;
