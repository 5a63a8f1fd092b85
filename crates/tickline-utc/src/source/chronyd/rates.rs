//! The rates that UTC may have by chronyd's reply, and by what the kernel says of its steering.
//!
//! The frequency in a reply belongs to the clock that chronyd corrects (`current_freq_ppm` in
//! `local.c`). Which clock that is, the reply does not say:
//!
//! | chronyd | the rate of UTC against `CLOCK_MONOTONIC_RAW` |
//! |---|---|
//! | steers the kernel's clock | 1 - f, where f is the frequency; the kernel's rate is that too, plus that by which chronyd slews |
//! | steers it, and another program slews it by adjtime(3) | 1 - f + s: chronyd has measured the kernel's clock with the slew s, so s is in f |
//! | has the option `-x`, and another program steers (`sys_null.c`) | (1 - f) times the kernel's rate: f is relative to `CLOCK_REALTIME` |
//! | compensates for the temperature (`tempcomp`) | the kernel's rate: the reply leaves the compensation out |
//!
//! The slew s is part of the kernel's rate in each row. adjtime(3) slews by up to 500 ppm, in the
//! direction of what is left, and may go on for [`ADJTIME_LASTS_NS`] after the last request at
//! which something was left. A slew of which nothing is left at any request is measured
//! (`slew.rs`).
//!
//! With the kernel's parameter `ntp_tick_adj`, the kernel's rate is higher by that parameter than
//! adjtimex(2) says, and so is 1 - f.
//!
//! A claim by the first row alone misses UTC where the third one holds: steered by 100 ppm, it is
//! off by 100 us after a second. So a claim has the hull of the first three rates, until chronyd
//! has shown that it steers. It shows this by two replies about one measurement. Between them
//! chronyd's clock has run on at one rate, so that the rate can be measured. If that is the rate of
//! the first row, and of the third by none of three rates of the kernel: as stated at either reply,
//! and as measured between them, then chronyd steers. That counts until chronyd may have been
//! started anew.
//!
//! By the second row the measured rate is 1 - f + s. So chronyd does not show that it steers,
//! unless s is within the error of that measurement. And a slew may begin after chronyd has shown
//! that it steers, and be in f from chronyd's next measurement on. So a claim allows for each s
//! of an interval: by two replies about chronyd's present measurement, or by the kernel's own clock
//! (`slew.rs`), whichever is narrower.
//!
//! The fourth row's rate is in the hull wherever the kernel's rate and the reply's differ by less
//! than the largest compensation. In a faster slew the last such difference counts. A compensation
//! that a slew of the same size hides is not noticed.

use super::TICK_PPB;
use super::Tracking;
use crate::interval::Interval;
use crate::moment::Moment;
use crate::sys::KernelClock;
use crate::unbounded::{MAX_FREQUENCY_PPB, MAX_RATE_PPB};

mod slew;

use slew::{KernelPoll, SlewAtPoll, SlewMeter, less_allowed, limited};

/// The largest compensation for the temperature, ppb (`MAX_COMP` in chrony's `tempcomp.c`).
const MAX_COMPENSATION_PPB: i64 = 10_000;

/// A time in which chronyd can't be started anew and synchronise, ns: its first four measurements
/// are 2 s apart (chrony.conf(5), `iburst`).
const RESTART_NS: i64 = 3_000_000_000;

/// The rate by which adjtime(3) slews, ppb (`MAX_TICKADJ` in `kernel/time/ntp.c`).
const ADJTIME_PPB: i64 = 500_000;

/// The longest time for which adjtime(3) may slew after the last request at which something was
/// left, ns: 2.5 s. The kernel takes the last part out of what is left when its next second begins,
/// at most a second after the request, and slews in that second. Two seconds of a clock that is
/// steered to be slow take longer: by [`MAX_RATE_PPB`] at most, because a faster slew makes no
/// claim.
const ADJTIME_LASTS_NS: i64 = 2_000_000_000_000 / (1_000 - MAX_RATE_PPB / 1_000_000);

const BILLION: i128 = 1_000_000_000;

/// Rates against `CLOCK_MONOTONIC_RAW`, ppb.
type Rates = Interval<i64>;

/// How the kernel moves its clock, as it says itself.
#[derive(Debug, Clone, Copy)]
pub(in crate::source) struct KernelSteering {
    /// The rate against `CLOCK_MONOTONIC_RAW`, ppb, without a slew by adjtime(3).
    rate_ppb: i64,
    /// The offset that adjtime(3) has still to remove, us.
    adjtime_left_us: i64,
}

impl KernelSteering {
    pub(in crate::source) fn new(clock: &KernelClock, adjtime_left_us: i64) -> Self {
        Self {
            rate_ppb: clock.rate_ppb(),
            adjtime_left_us,
        }
    }
}

/// One observation of chronyd: its reply, with the clocks before and after it.
#[derive(Debug, Clone, Copy)]
struct Observation {
    measurement: u64,
    frequency_ppb: i64,
    /// The rate that the kernel states for its clock, ppb; `None` if it did not say.
    stated_ppb: Option<i64>,
    /// The slews by adjtime(3) that may go on beside that, by what was left, ppb.
    adjtime_ppb: Rates,
    /// `CLOCK_MONOTONIC_RAW` at the reply, ns.
    raw_ns: Interval<i64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC_RAW`, ns.
    ahead_ns: Interval<i64>,
    /// chronyd's clock minus `CLOCK_MONOTONIC_RAW`, ns.
    lead_ns: Interval<i64>,
}

impl Observation {
    /// The rates that the kernel's clock may have if it has one of these slews, ppb; `None` if the
    /// kernel did not say its rate.
    fn kernel_ppb(&self, slew_ppb: Rates) -> Option<Rates> {
        let stated_ppb = Interval::at(self.stated_ppb?);
        Some(stated_ppb.plus(self.adjtime_ppb.hull(slew_ppb)))
    }
}

/// What the replies so far have shown of chronyd.
#[derive(Debug, Default)]
pub(super) struct Steering {
    /// Whether chronyd has shown that it steers the kernel's clock.
    steers: bool,
    /// If it steers: the slews that its frequency may have in it, ppb, by two replies about the
    /// present measurement.
    hidden_slew_ppb: Option<Rates>,
    /// The first reply about the present measurement, and the last reply.
    first: Option<Observation>,
    last: Option<Observation>,
    /// The kernel's rate minus the reply's when the two last differed by no more than a
    /// compensation, ppb.
    compensation_ppb: i64,
    /// `ntp_tick_adj` on the kernel's command line, ppb.
    tick_adjustment_ppb: i64,
    /// The slews by adjtime(3) in the directions of what was left, ppb, and
    /// `CLOCK_MONOTONIC_RAW` at the last reply when something was, ns.
    adjtime_ppb: Rates,
    adjtime_left_ns: Option<i64>,
    slew: SlewMeter,
    /// The part of the last rates' width that allows for a slew by measurement, ppb.
    slew_width_ppb: i64,
}

impl Steering {
    pub(super) fn new(tick_adjustment_ppb: i64) -> Self {
        Self {
            tick_adjustment_ppb,
            ..Self::default()
        }
    }

    /// The rates that UTC may have by a reply that came between two moments, when `kernel` was how
    /// the kernel moved its clock; `None` if the kernel did not say. What was measured until a
    /// reply more than `max_gap_ns` ago does not count.
    pub(super) fn rates_ppb(
        &mut self,
        tracking: &Tracking,
        kernel: Option<KernelSteering>,
        [before, after]: [&Moment; 2],
        max_gap_ns: i64,
    ) -> Rates {
        let raw_ns = Interval {
            min: before.raw_ns,
            max: after.raw_ns.saturating_add(after.width_ns),
        };
        let read_ns =
            |moment: &Moment| Interval::at(moment.realtime_ns.saturating_sub(moment.raw_ns));
        let ahead_ns = read_ns(before)
            .hull(read_ns(after))
            .widened_by(before.width_ns.max(after.width_ns));
        let correction_ns = Interval::around(tracking.correction_ns, tracking.rounded_ns());
        let left_us = kernel.map_or(0, |kernel| kernel.adjtime_left_us);
        let observation = Observation {
            measurement: tracking.measurement,
            frequency_ppb: tracking.frequency_ppb,
            stated_ppb: kernel
                .map(|kernel| kernel.rate_ppb.saturating_add(self.tick_adjustment_ppb)),
            adjtime_ppb: self.adjtime_ppb(left_us, raw_ns),
            raw_ns,
            ahead_ns,
            lead_ns: ahead_ns.plus(correction_ns),
        };
        let slew = self.measure_slew(&observation, max_gap_ns);
        self.observe(observation);
        self.notice_compensation(&observation);
        let slew_ppb = self.slew_ppb(&slew);
        let rates = self.if_slewed_ppb(&observation, slew_ppb);
        let without_slew = self.if_slewed_ppb(&observation, Interval::at(0));
        self.slew_width_ppb = rates.width().saturating_sub(without_slew.width());
        match slew.unexplained_ppb {
            Some(kernel_ppb) if !self.steers => {
                rates.hull(self.if_another_steers_ppb(Some(kernel_ppb), tracking.frequency_ppb))
            }
            _ => rates,
        }
    }

    /// The slews that the kernel's clock may have, ppb, less what each report allows for: by its
    /// own measurement, or, if chronyd steers, by chronyd's present measurement. Both have the
    /// slew, and the narrower one counts.
    fn slew_ppb(&self, slew: &SlewAtPoll) -> Rates {
        let measured_ppb = slew.by_adjtime_ppb;
        match self.hidden_slew_ppb.map(less_allowed) {
            Some(hidden_ppb) if self.steers && hidden_ppb.width() < measured_ppb.width() => {
                hidden_ppb
            }
            _ => measured_ppb,
        }
    }

    /// The part of the width of the last rates that allows for a slew by measurement, ppb.
    pub(super) fn slew_width_ppb(&self) -> i64 {
        self.slew_width_ppb
    }

    /// If claims get narrower once the slew has been measured for longer: `CLOCK_MONOTONIC_RAW`
    /// at the poll where the measurement began, ns.
    pub(super) fn slew_awaited_since_ns(&self) -> Option<i64> {
        let is_allowed = |hidden_ppb: Rates| less_allowed(hidden_ppb) == Interval::at(0);
        if self.steers && self.hidden_slew_ppb.is_some_and(is_allowed) {
            return None;
        }
        self.slew.new_since_ns()
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed. Two replies with a step
    /// between them would show a slew less the step.
    pub(super) fn record_clock_set(&mut self) {
        self.first = None;
        self.slew.record_clock_set();
    }

    /// Forgets what chronyd has shown. If it does not answer, or is not synchronised, it may have
    /// been started anew.
    pub(super) fn forget(&mut self) {
        self.steers = false;
        self.first = None;
        self.last = None;
    }

    /// The rates by which adjtime(3) may slew the kernel's clock at a reply that came at `raw_ns`,
    /// when it had `left_us` to remove, ppb.
    fn adjtime_ppb(&mut self, left_us: i64, raw_ns: Interval<i64>) -> Rates {
        let is_over = |left_ns: i64| raw_ns.min.saturating_sub(left_ns) > ADJTIME_LASTS_NS;
        if self.adjtime_left_ns.is_none_or(is_over) {
            self.adjtime_ppb = Interval::at(0);
        }
        if left_us != 0 {
            let slew_ppb = Interval::at(left_us.signum() * ADJTIME_PPB);
            self.adjtime_ppb = self.adjtime_ppb.hull(slew_ppb);
            self.adjtime_left_ns = Some(raw_ns.max);
        }
        self.adjtime_ppb
    }

    /// What this observation shows of the slew.
    fn measure_slew(&mut self, observation: &Observation, max_gap_ns: i64) -> SlewAtPoll {
        let Some(stated_ppb) = observation.stated_ppb else {
            // It is unknown which rates the kernel has had since the base.
            self.slew = SlewMeter::default();
            return SlewAtPoll::unknown();
        };
        let now = KernelPoll {
            raw_ns: observation.raw_ns,
            ahead_ns: observation.ahead_ns,
            stated_ppb: Interval::at(stated_ppb),
        };
        self.slew.measure(now, max_gap_ns)
    }

    /// Remembers by how much the kernel's rate and the reply's differ, if that may be a
    /// compensation.
    fn notice_compensation(&mut self, observation: &Observation) {
        let Some(stated_ppb) = observation.stated_ppb else {
            return;
        };
        let beyond_ppb = stated_ppb.saturating_sub(self.if_it_steers_ppb(observation));
        if beyond_ppb.saturating_abs() <= MAX_COMPENSATION_PPB {
            self.compensation_ppb = beyond_ppb;
        }
    }

    /// The rates that UTC may have if the kernel's clock has one of these slews, ppb.
    fn if_slewed_ppb(&self, observation: &Observation, slew_ppb: Rates) -> Rates {
        let steered_ppb = Interval::at(self.if_it_steers_ppb(observation));
        let compensation_ppb = Interval::at(0).hull(Interval::at(self.compensation_ppb));
        let by_chronyd = |slew_ppb: Rates| steered_ppb.plus(slew_ppb).plus(compensation_ppb);
        if self.steers {
            return by_chronyd(slew_ppb);
        }
        let kernel_ppb = observation.kernel_ppb(slew_ppb);
        let by_another = self.if_another_steers_ppb(kernel_ppb, observation.frequency_ppb);
        by_chronyd(observation.adjtime_ppb.hull(slew_ppb)).hull(by_another)
    }

    /// The rate of UTC if chronyd steers the kernel's clock, and nobody slews it, ppb.
    fn if_it_steers_ppb(&self, observation: &Observation) -> i64 {
        self.tick_adjustment_ppb
            .saturating_sub(observation.frequency_ppb)
    }

    /// Adds an observation, and learns from it whether chronyd steers.
    fn observe(&mut self, observation: Observation) {
        let last = self.last.replace(observation);
        self.hidden_slew_ppb = None;
        let is_repeated = |first: &Observation| {
            (first.measurement, first.frequency_ppb)
                == (observation.measurement, observation.frequency_ppb)
        };
        let Some(first) = self.first.filter(is_repeated) else {
            self.first = Some(observation);
            let is_late =
                |last: Observation| observation.raw_ns.minus(last.raw_ns).min > RESTART_NS;
            self.steers &= !last.is_none_or(is_late);
            return;
        };
        let elapsed_ns = observation.raw_ns.minus(first.raw_ns);
        let gained_ns = observation.lead_ns.minus(first.lead_ns);
        let Some(measured) = mean_rates_ppb(elapsed_ns, gained_ns) else {
            return;
        };
        let kernel_ppb = mean_rates_ppb(elapsed_ns, observation.ahead_ns.minus(first.ahead_ns));
        let [before, now, measured_between] = [
            first.kernel_ppb(Interval::at(0)),
            observation.kernel_ppb(Interval::at(0)),
            kernel_ppb,
        ]
        .map(|kernel_ppb| self.if_another_steers_ppb(kernel_ppb, observation.frequency_ppb));
        let steered_ppb = self.if_it_steers_ppb(&observation);
        // Each rounding, and the kernel's tick.
        let unsure_ppb = (steered_ppb.saturating_abs() >> super::PLACES) + 3 + TICK_PPB;
        let agrees = |rates: Rates| measured.overlaps(rates.widened_by(unsure_ppb));
        if !agrees(Interval::at(steered_ppb)) {
            self.steers = false;
            self.first = Some(observation);
            return;
        }
        if !agrees(before.hull(now).hull(measured_between)) {
            self.steers = true;
        }
        self.hidden_slew_ppb = Some(limited(measured.minus(Interval::at(steered_ppb))));
    }

    /// The rates of UTC if another program steers the kernel's clock by `kernel_ppb`, and chronyd's
    /// frequency is `frequency_ppb`. A kernel that does not say steers by as much as NTP can, and
    /// slews by as much as adjtime(3) can.
    fn if_another_steers_ppb(&self, kernel_ppb: Option<Rates>, frequency_ppb: i64) -> Rates {
        // BOUND: the product of two numbers of 64 bits.
        let by_kernel = |ppb: i64| {
            let product = (BILLION + i128::from(ppb)) * (BILLION - i128::from(frequency_ppb));
            Interval::at(to_ppb(product / BILLION - BILLION))
        };
        let unknown_ppb =
            Interval::around(self.tick_adjustment_ppb, MAX_FREQUENCY_PPB + ADJTIME_PPB);
        let kernel_ppb = kernel_ppb.unwrap_or(unknown_ppb);
        by_kernel(kernel_ppb.min).hull(by_kernel(kernel_ppb.max))
    }
}

/// The mean rate of a clock that has gained `gained_ns` on `CLOCK_MONOTONIC_RAW` in `elapsed_ns`;
/// `None` if that time may be 0.
fn mean_rates_ppb(elapsed_ns: Interval<i64>, gained_ns: Interval<i64>) -> Option<Rates> {
    if elapsed_ns.min <= 0 {
        return None;
    }
    // A gain in less time is a higher rate, a loss in less time a lower one.
    let rates_ppb = |elapsed_ns: i64| {
        gained_ns.map(|gained_ns| {
            to_ppb((i128::from(gained_ns) * BILLION).div_euclid(i128::from(elapsed_ns)))
        })
    };
    let rates = rates_ppb(elapsed_ns.min).hull(rates_ppb(elapsed_ns.max));
    Some(Interval::between(rates.min, rates.max + 1))
}

fn to_ppb(ppb: i128) -> i64 {
    i64::try_from(ppb).unwrap_or(if ppb < 0 { i64::MIN + 1 } else { i64::MAX - 1 })
}

#[cfg(test)]
mod tests;
