//! The counter and the reference as functions of true time, which is in picoseconds.
//!
//! Both are straight lines between events, and each event starts a new line. Dither, wander and
//! [`Fault::Rate`](crate::scenario::Fault::Rate) change the reference's rate; only
//! [`Fault::CounterRate`](crate::scenario::Fault::CounterRate) changes the counter's, and leaves
//! the reference as it is.

use tickline_core::state::{SHIFT, WRAP_MASK};

use crate::scenario::{CounterInSuspend, Machine, Suspend};

/// Binary places of a slope, ns a tick.
pub(crate) const SLOPE_BITS: u32 = 48;

/// Picoseconds in a nanosecond.
pub(crate) const PS: u64 = 1_000;

/// Picoseconds in a second.
pub(crate) const PS_PER_S: u64 = 1_000_000_000_000;

/// Binary places of the reference's nanoseconds.
const NS_BITS: u32 = 60;

/// Binary places of the counter's rate, ticks per ps.
const RATE_BITS: u32 = 64;

/// The counter's value when the machine goes on after a reset, ticks: a wake-up takes some time.
const RESET_TICKS: u64 = 5_000;

/// The longest time between two of the kernel's ticks, ps: 100 ms when idle.
pub(crate) const MAX_TICK_PS: u64 = 100_000_000_000;

/// The machine's counter. A CPU's counter differs from it by a fixed number of ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    /// The time of the last change of the counter's value or rate, ps.
    pub(crate) since_ps: u64,
    base_ticks: u64,
    rate: u128,
    resolution_ticks: u64,
}

impl Counter {
    fn new(machine: &Machine) -> Self {
        let rate = (u128::from(machine.counter_hz) << RATE_BITS) / u128::from(PS_PER_S);
        Self {
            since_ps: 0,
            base_ticks: machine.counter_origin,
            rate,
            resolution_ticks: machine.counter_resolution_ticks,
        }
    }

    fn unrounded(&self, at_ps: u64) -> u64 {
        let delta = (u128::from(at_ps - self.since_ps) * self.rate) >> RATE_BITS;
        self.base_ticks
            .wrapping_add(u64::try_from(delta).expect("a run is too short to wrap"))
    }

    /// The counter, ticks.
    pub(crate) fn at(&self, at_ps: u64) -> u64 {
        let ticks = self.unrounded(at_ps);
        ticks - ticks % self.resolution_ticks
    }

    /// The time at which the counter was at `ticks`, ps; for earlier ticks, the time of the last
    /// change.
    pub(crate) fn time_ps(&self, ticks: u64) -> u64 {
        let delta = ticks.wrapping_sub(self.base_ticks);
        if delta > u64::MAX / 2 {
            return self.since_ps;
        }
        let ps = (u128::from(delta) << RATE_BITS) / self.rate;
        self.since_ps
            .saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

/// The reference clock.
#[derive(Debug)]
pub(crate) struct Reference {
    since_ps: u64,
    base: i128,
    /// In 2^-60 ns per ps.
    rate: i128,
    nominal_ppb: i64,
    /// The time that dithering has added so far, 2^-60 ns.
    dither_phase: i128,
    dither_sign: i64,
    next_tick_ps: u64,
    next_wander_ps: u64,
    rng: fastrand::Rng,
}

/// A rate of the reference.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// The time from which it held, ps.
    since_ps: u64,
    /// In 2^-48 ns per tick.
    bits: u128,
}

/// The CPUs' counters and the reference, with the record of their changes.
#[derive(Debug)]
pub(crate) struct Clocks {
    machine: Machine,
    pub(crate) counter: Counter,
    reference: Reference,
    /// The reference's rates without dither, the oldest first.
    rates: Vec<Rate>,
    /// The time of the last jump of the reference or the counter, ps.
    pub(crate) jumped_ps: u64,
    /// The total time for which the reference stood still in suspends, ns.
    pub(crate) suspended_ns: i64,
    /// Unix time minus the reference, ns.
    pub(crate) unix_offset_ns: i64,
    /// The steering that `adjtimex` returns, ppb.
    pub(crate) steering_ppb: i64,
}

fn rate_of(ppb: i64) -> i128 {
    let nominal = (1_i128 << NS_BITS) / i128::from(PS);
    nominal + nominal * i128::from(ppb) / 1_000_000_000
}

impl Clocks {
    pub(crate) fn new(machine: &Machine, seed: u64) -> Self {
        let reference = Reference {
            since_ps: 0,
            base: i128::from(machine.reference_origin_ns) << NS_BITS,
            rate: rate_of(machine.rate_ppb),
            nominal_ppb: machine.rate_ppb,
            dither_phase: 0,
            dither_sign: 1,
            next_tick_ps: 0,
            next_wander_ps: PS_PER_S,
            rng: fastrand::Rng::with_seed(seed),
        };
        let mut clocks = Self {
            machine: machine.clone(),
            counter: Counter::new(machine),
            reference,
            rates: Vec::new(),
            jumped_ps: 0,
            suspended_ns: 0,
            unix_offset_ns: 1_000_000_000_000_000_000,
            steering_ppb: 0,
        };
        clocks.record_rate(0);
        clocks
    }

    /// The value of the reference that a call returns at `at_ps`, ns. Calls must come in the order
    /// of their times.
    pub(crate) fn reference_ns(&mut self, at_ps: u64) -> i64 {
        self.advance(at_ps);
        self.returned(self.true_ns(at_ps))
    }

    /// The value that a call returns when the reference is at `ns`.
    pub(crate) fn returned(&self, ns: i64) -> i64 {
        ns - ns.rem_euclid(i64::try_from(self.machine.resolution_ns).expect("in its range"))
    }

    /// The reference before it is rounded down to its step, a little before or after the last
    /// call, ns.
    pub(crate) fn true_ns(&self, at_ps: u64) -> i64 {
        let reference = &self.reference;
        // With the same counter, the reference moves when the counter does.
        let moved_ps = || self.counter.time_ps(self.counter.at(at_ps));
        let at_ps = if self.machine.same_counter {
            moved_ps()
        } else {
            at_ps
        };
        let since = i128::from(at_ps) - i128::from(reference.since_ps);
        let ns = (reference.base + since * reference.rate) >> NS_BITS;
        i64::try_from(ns).expect("a run is too short to overflow")
    }

    /// Whether the reference's rate has been within these slopes (2^-48 ns per tick) since
    /// `from_ps`, without a jump.
    pub(crate) fn rate_was_within(&self, from_ps: u64, slowest: u64, fastest: u64) -> bool {
        let within = |rate: u128| (u128::from(slowest)..=u128::from(fastest)).contains(&rate);
        let first = self
            .rates
            .partition_point(|rate| rate.since_ps <= from_ps)
            .saturating_sub(1);
        self.jumped_ps < from_ps && self.rates[first..].iter().all(|rate| within(rate.bits))
    }

    /// Whether both clocks have kept their rates and have not jumped since `from_ps`. The kernel's
    /// dither does not count.
    pub(crate) fn was_straight(&self, from_ps: u64) -> bool {
        (self.jumped_ps == 0 || self.jumped_ps < from_ps)
            && self
                .rates
                .last()
                .is_none_or(|rate| rate.since_ps == 0 || rate.since_ps < from_ps)
    }

    /// Whether the clock can't have a line now, because the counter is slower than 128 ns a tick
    /// (less 2 % for the error of a first fit), or wraps within `valid_ns`.
    pub(crate) fn has_no_line(&self, now_ps: u64, valid_ns: u64) -> bool {
        let too_slow = (1_u128 << (SLOPE_BITS + SHIFT)) * 49 / 50;
        let reach_ps = u128::from(valid_ns + 10_000) * u128::from(PS);
        let reach = u64::try_from((reach_ps * self.counter.rate) >> RATE_BITS).expect("minutes");
        // The counter may have had another rate when the writer planned the line.
        let now = self.counter.at(now_ps);
        let reach = reach + reach / 4;
        self.rates.last().is_some_and(|rate| rate.bits >= too_slow)
            || (now.wrapping_sub(reach / 4) ^ now.wrapping_add(reach)) & !WRAP_MASK != 0
    }

    /// Carries out the kernel's ticks, and the wander of each second, up to `at_ps`.
    fn advance(&mut self, at_ps: u64) {
        // If no thread has read for a long time, the kernel's ticks in between do not matter.
        if self.reference.next_tick_ps + 20 * PS_PER_S < at_ps {
            self.reference.next_tick_ps = at_ps;
        }
        if self.reference.next_wander_ps + 100 * PS_PER_S < at_ps {
            self.reference.next_wander_ps = at_ps;
        }
        while self.machine.dither_ppb != 0 && self.reference.next_tick_ps <= at_ps {
            self.anchor(self.reference.next_tick_ps);
            let reference = &mut self.reference;
            let longest_ps = MAX_TICK_PS >> reference.rng.u32(..6);
            let length_ps = reference.rng.u64(1_000_000_000..=longest_ps);
            // Like the kernel, dither towards the intended line.
            reference.dither_sign = if reference.dither_phase > 0 { -1 } else { 1 };
            let ppb = reference.dither_sign * self.machine.dither_ppb;
            reference.dither_phase += i128::from(length_ps) * (rate_of(ppb) - rate_of(0));
            reference.next_tick_ps += length_ps;
            self.set_rate();
        }
        while self.machine.wander_ppb != 0 && self.reference.next_wander_ps <= at_ps {
            let now_ps = self.reference.next_wander_ps;
            let most = self.machine.wander_ppb;
            let change = self.reference.rng.i64(-most..=most);
            self.reference.next_wander_ps += PS_PER_S;
            self.set_nominal(now_ps, self.reference.nominal_ppb + change);
        }
    }

    /// Starts the reference's ramp anew at `at_ps`.
    fn anchor(&mut self, at_ps: u64) {
        let reference = &mut self.reference;
        let at_ps = at_ps.max(reference.since_ps);
        reference.base += i128::from(at_ps - reference.since_ps) * reference.rate;
        reference.since_ps = at_ps;
    }

    fn set_rate(&mut self) {
        let reference = &mut self.reference;
        let dither = reference.dither_sign * self.machine.dither_ppb;
        reference.rate = rate_of(reference.nominal_ppb + dither);
    }

    fn set_nominal(&mut self, at_ps: u64, ppb: i64) {
        self.anchor(at_ps);
        self.reference.nominal_ppb = ppb;
        self.set_rate();
        self.record_rate(at_ps);
    }

    fn record_rate(&mut self, at_ps: u64) {
        let rate = unsigned_rate(rate_of(self.reference.nominal_ppb));
        // 2^-60 ns per ps over 2^-64 ticks per ps, in units of 2^-48.
        let bits = (rate << (RATE_BITS - NS_BITS + SLOPE_BITS)) / self.counter.rate;
        self.rates.push(Rate {
            since_ps: at_ps,
            bits,
        });
    }

    // ---- faults -------------------------------------------------------------------------------

    /// Changes the reference's rate. Returns the difference from the rate before, ppb.
    pub(crate) fn change_rate(&mut self, at_ps: u64, ppb: i64) -> i64 {
        self.advance(at_ps);
        let change_ppb = ppb - self.reference.nominal_ppb;
        self.set_nominal(at_ps, ppb);
        change_ppb
    }

    pub(crate) fn jump(&mut self, at_ps: u64, by_ns: u64) {
        self.advance(at_ps);
        self.anchor(at_ps);
        self.reference.base += i128::from(by_ns) << NS_BITS;
        self.jumped_ps = at_ps;
    }

    /// The machine sleeps from `at_ps` on. Returns whether the counter started again.
    pub(crate) fn suspend(&mut self, at_ps: u64, suspend: Suspend, valid_ps: u64) -> bool {
        let Suspend {
            for_ns,
            counter,
            reference_runs,
        } = suspend;
        let end_ps = at_ps + for_ns * PS;
        self.advance(at_ps);
        self.anchor(at_ps);
        let ticks = self.counter.unrounded(at_ps);
        let valid_ticks = (u128::from(valid_ps) * self.counter.rate) >> RATE_BITS;
        let is_valid = u128::from(ticks.wrapping_sub(RESET_TICKS)) < valid_ticks;
        let starts_again = counter == CounterInSuspend::Resets && !is_valid;
        if counter != CounterInSuspend::Runs {
            self.counter.since_ps = end_ps;
            self.counter.base_ticks = if starts_again { RESET_TICKS } else { ticks };
        }
        if !reference_runs {
            self.reference.since_ps = end_ps;
            self.suspended_ns += i64::try_from(for_ns).expect("in its range");
        }
        // The kernel's ticks stop too.
        self.reference.next_tick_ps = self.reference.next_tick_ps.max(end_ps);
        self.jumped_ps = end_ps;
        starts_again
    }

    pub(crate) fn change_counter(&mut self, at_ps: u64, ppb: i64) {
        self.advance(at_ps);
        let ticks = self.counter.unrounded(at_ps);
        let rate = i128::try_from(self.counter.rate).expect("below 2^60");
        let changed = rate + rate * i128::from(ppb) / 1_000_000_000;
        self.counter = Counter {
            since_ps: at_ps,
            base_ticks: ticks,
            rate: unsigned_rate(changed),
            ..self.counter
        };
        self.record_rate(at_ps);
        self.jumped_ps = at_ps;
    }
}

fn unsigned_rate(rate: i128) -> u128 {
    u128::try_from(rate).expect("rates change by 10 % at most")
}
