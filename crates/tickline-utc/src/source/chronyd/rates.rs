//! The rates that UTC may have by chronyd's reply, and by what the kernel says of its steering.
//!
//! The frequency in a reply belongs to the clock that chronyd corrects (`current_freq_ppm` in
//! `local.c`). Which clock that is, the reply does not say:
//!
//! | chronyd | the rate of UTC against `CLOCK_MONOTONIC_RAW` |
//! |---|---|
//! | steers the kernel's clock | 1 - f, where f is the frequency; the kernel's rate is that too, plus a slew |
//! | has the option `-x`, and another program steers (`sys_null.c`) | (1 - f) times the kernel's rate: f is relative to `CLOCK_REALTIME` |
//! | compensates for the temperature (`tempcomp`) | the kernel's rate: the reply leaves the compensation out |
//!
//! The kernel's rate includes what adjtime(3) may slew beside the steering: up to 500 ppm, in the
//! direction of what is left, until a request after the last one at which something was left. A
//! slew of which nothing is left at any request is measured (`slew.rs`).
//!
//! With the kernel's parameter `ntp_tick_adj`, the kernel's rate is higher by that parameter than
//! adjtimex(2) says, and so is 1 - f.
//!
//! A claim by the first row alone misses UTC where the second one holds: steered by 100 ppm, it is
//! off by 100 us after a second. So a claim has the hull of the first two rates, until chronyd has
//! shown that it steers. It shows this by two replies about one measurement. Between them chronyd's
//! clock has run on at one rate, so that the rate can be measured. If that is the rate of the first
//! row, and of the second by none of three rates of the kernel: as stated at either reply, and as
//! measured between them, then chronyd steers, and what the kernel's rate has beyond it is a slew.
//! That counts until chronyd may have been started anew.
//!
//! The third row's rate is in the hull wherever the kernel's rate and the reply's differ by less
//! than the largest compensation. In a faster slew the last such difference counts. A compensation
//! that a slew of the same size hides is not noticed.

use super::TICK_PPB;
use super::Tracking;
use crate::interval::Interval;
use crate::moment::Moment;
use crate::sys::KernelClock;
use crate::unbounded::MAX_FREQUENCY_PPB;

mod slew;

use slew::{KernelPoll, SlewMeter};

/// The largest compensation for the temperature, ppb (`MAX_COMP` in chrony's `tempcomp.c`).
const MAX_COMPENSATION_PPB: i64 = 10_000;

/// A time in which chronyd can't be started anew and synchronise, ns: its first four measurements
/// are 2 s apart (chrony.conf(5), `iburst`).
const RESTART_NS: i64 = 3_000_000_000;

/// The rate by which adjtime(3) slews, ppb (`MAX_TICKADJ` in `kernel/time/ntp.c`).
const ADJTIME_PPB: i64 = 500_000;

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
    /// The rates that the kernel's clock may have by what the kernel states; `None` if it did not
    /// say.
    kernel_ppb: Option<Rates>,
    /// `CLOCK_MONOTONIC_RAW` at the reply, ns.
    raw_ns: Interval<i64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC_RAW`, ns.
    ahead_ns: Interval<i64>,
    /// chronyd's clock minus `CLOCK_MONOTONIC_RAW`, ns.
    lead_ns: Interval<i64>,
}

/// What the replies so far have shown of chronyd.
#[derive(Debug, Default)]
pub(super) struct Steering {
    /// Whether chronyd has shown that it steers the kernel's clock.
    steers: bool,
    /// The first reply about the present measurement, and the last reply.
    first: Option<Observation>,
    last: Option<Observation>,
    /// The kernel's rate minus the reply's when the two last differed by no more than a
    /// compensation, ppb.
    compensation_ppb: i64,
    /// `ntp_tick_adj` on the kernel's command line, ppb.
    tick_adjustment_ppb: i64,
    /// What adjtime(3) had to remove at the last reply, us.
    adjtime_left_us: i64,
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
        let kernel_ppb =
            kernel.map(|kernel| kernel.rate_ppb.saturating_add(self.tick_adjustment_ppb));
        let adjtime_ppb = self.adjtime_ppb(kernel.map_or(0, |kernel| kernel.adjtime_left_us));
        let read_ns =
            |moment: &Moment| Interval::at(moment.realtime_ns.saturating_sub(moment.raw_ns));
        let ahead_ns = read_ns(before)
            .hull(read_ns(after))
            .widened_by(before.width_ns.max(after.width_ns));
        let correction_ns = Interval::around(tracking.correction_ns, tracking.rounded_ns());
        let observation = Observation {
            measurement: tracking.measurement,
            frequency_ppb: tracking.frequency_ppb,
            kernel_ppb: kernel_ppb.map(|ppb| Interval::at(ppb).plus(adjtime_ppb)),
            raw_ns: Interval {
                min: before.raw_ns,
                max: after.raw_ns.saturating_add(after.width_ns),
            },
            ahead_ns,
            lead_ns: ahead_ns.plus(correction_ns),
        };
        if kernel_ppb.is_none() {
            // It is unknown which rates the kernel has had since the base.
            self.slew = SlewMeter::default();
        }
        let slewed_ppb = kernel_ppb.map(|ppb| self.slewed_ppb(&observation, ppb, max_gap_ns));
        self.observe(observation);
        self.slew_width_ppb = if self.steers {
            0
        } else {
            slewed_ppb.map_or(0, Rates::width)
        };
        let steered_ppb = self.if_it_steers_ppb(&observation);
        let mut rates = Interval::at(steered_ppb);
        if let Some(kernel_ppb) = kernel_ppb {
            let beyond_ppb = kernel_ppb.saturating_sub(steered_ppb);
            if beyond_ppb.saturating_abs() <= MAX_COMPENSATION_PPB {
                self.compensation_ppb = beyond_ppb;
            }
            let compensated_ppb = steered_ppb.saturating_add(self.compensation_ppb);
            rates = rates.hull(Interval::at(compensated_ppb));
        }
        if self.steers {
            rates
        } else {
            let possible_ppb = observation
                .kernel_ppb
                .zip(slewed_ppb)
                .map(|(stated_ppb, slewed_ppb)| stated_ppb.hull(slewed_ppb));
            rates.hull(if_another_steers_ppb(possible_ppb, tracking.frequency_ppb))
        }
    }

    /// The part of the width of the last rates that allows for a slew by measurement, ppb.
    pub(super) fn slew_width_ppb(&self) -> i64 {
        self.slew_width_ppb
    }

    /// Whether claims get narrower once the slew has been measured for longer.
    pub(super) fn awaits_slew(&self) -> bool {
        !self.steers && self.slew.is_new()
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed.
    pub(super) fn record_clock_set(&mut self) {
        self.slew.record_clock_set();
    }

    /// Forgets what chronyd has shown: it does not answer, or is not synchronised, so it may have
    /// been started anew.
    pub(super) fn forget(&mut self) {
        self.steers = false;
        self.first = None;
        self.last = None;
    }

    /// The rates by which adjtime(3) may slew the kernel's clock now that it has `left_us` to
    /// remove, ppb. The kernel subtracts a second's part at that second's beginning, so a slew may
    /// go on while nothing is left.
    fn adjtime_ppb(&mut self, left_us: i64) -> Rates {
        let last_us = core::mem::replace(&mut self.adjtime_left_us, left_us);
        let rate_ppb = |left_us: i64| Interval::at(left_us.signum() * ADJTIME_PPB);
        Interval::at(0)
            .hull(rate_ppb(left_us))
            .hull(rate_ppb(last_us))
    }

    /// The rates that the kernel's clock may have by measurement, ppb, if the kernel states
    /// `stated_ppb`.
    fn slewed_ppb(&mut self, observation: &Observation, stated_ppb: i64, max_gap_ns: i64) -> Rates {
        let stated_ppb = Interval::at(stated_ppb);
        let now = KernelPoll {
            raw_ns: observation.raw_ns,
            ahead_ns: observation.ahead_ns,
            stated_ppb,
        };
        stated_ppb.plus(self.slew.measure(now, max_gap_ns))
    }

    /// The rate of UTC if chronyd steers the kernel's clock, ppb.
    fn if_it_steers_ppb(&self, observation: &Observation) -> i64 {
        self.tick_adjustment_ppb
            .saturating_sub(observation.frequency_ppb)
    }

    /// Adds an observation, and learns from it whether chronyd steers.
    fn observe(&mut self, observation: Observation) {
        let last = self.last.replace(observation);
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
        let [before, now, measured_between] =
            [first.kernel_ppb, observation.kernel_ppb, kernel_ppb]
                .map(|kernel_ppb| if_another_steers_ppb(kernel_ppb, observation.frequency_ppb));
        let steered_ppb = self.if_it_steers_ppb(&observation);
        // Each rounding, and the kernel's tick.
        let unsure_ppb = (steered_ppb.saturating_abs() >> super::PLACES) + 3 + TICK_PPB;
        let agrees = |rates: Rates| measured.overlaps(rates.widened_by(unsure_ppb));
        if !agrees(Interval::at(steered_ppb)) {
            self.steers = false;
            self.first = Some(observation);
        } else if !agrees(before.hull(now).hull(measured_between)) {
            self.steers = true;
        }
    }
}

/// The rates of UTC if another program steers the kernel's clock by `kernel_ppb`, and chronyd's
/// frequency is `frequency_ppb`. A kernel that does not say steers by as much as NTP can.
fn if_another_steers_ppb(kernel_ppb: Option<Rates>, frequency_ppb: i64) -> Rates {
    // BOUND: the product of two numbers of 64 bits.
    let by_kernel = |ppb: i64| {
        let product = (BILLION + i128::from(ppb)) * (BILLION - i128::from(frequency_ppb));
        Interval::at(to_ppb(product / BILLION - BILLION))
    };
    let unknown = Interval::around(0, MAX_FREQUENCY_PPB);
    let kernel_ppb = kernel_ppb.unwrap_or(unknown);
    by_kernel(kernel_ppb.min).hull(by_kernel(kernel_ppb.max))
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
