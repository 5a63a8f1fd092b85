//! The values that the simulator supports. With others it would break its own rules, not the
//! clock's: a wrapped product, an actor without a place, a limit that does not hold. A range that
//! names no other source is a choice: wider than the values of machines.

use core::fmt::Display;
use core::ops::RangeInclusive;

use super::{
    Chance, Clock, Driver, Fault, MAX_CPUS, MAX_OUT_OF_ORDER_NS, Machine, SECOND, Scenario,
};

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A hundred thousand ppm, ppb.
const TENTH_PPB: i64 = 100_000_000;

/// The limit of the reference's rate under Linux, ppb: `ADJ_TICK` (10 %), `ADJ_OFFSET` or
/// `adjtime`, and `ADJ_FREQUENCY` together.
const LINUX_RATE_PPB: i64 = 226_000_000;

/// The largest step of Unix time, ns: ten years.
const UNIX_STEP_NS: i64 = (10 * 365 * DAY).cast_signed();

/// The mean time of a read of the reference, ns.
const BRACKETS_NS: RangeInclusive<u64> = 10..=100_000;

#[track_caller]
fn assert_in<T: PartialOrd + Display>(what: &str, value: T, range: RangeInclusive<T>) {
    assert!(
        range.contains(&value),
        "{what} is {value}; the simulator supports {} to {}",
        range.start(),
        range.end()
    );
}

impl Scenario {
    /// Asserts that the simulator supports the scenario. A run does so before its first step.
    ///
    /// # Panics
    ///
    /// If a value is outside of its range, or excludes another one.
    pub fn assert_supported(&self) {
        assert_in("duration_ns", self.duration_ns, 0..=10 * DAY);
        assert_in("readers", self.readers, 0..=8);
        assert_in("think_ns", self.think_ns, 1_000..=HOUR);
        self.machine.assert_supported();
        self.clock.assert_supported();
        self.chance.assert_supported();
        for timed in &self.faults {
            timed.fault.assert_supported(&self.machine);
        }
    }
}

impl Machine {
    fn assert_supported(&self) {
        let max_cpus = u32::try_from(MAX_CPUS).expect("a small number");
        assert_in("cpus", self.cpus, 1..=max_cpus);
        assert_in("counter_hz", self.counter_hz, 1_000_000..=10 * SECOND);
        assert_in(
            "counter_resolution_ticks",
            self.counter_resolution_ticks,
            1..=1_000,
        );
        assert_in(
            "cpu_difference_ticks",
            self.cpu_difference_ticks,
            0..=100_000,
        );
        // Up to that of jiffies at 250 Hz.
        assert_in("resolution_ns", self.resolution_ns, 1..=4_000_000);
        assert_in("stale_ns", self.stale_ns, 0..=10_000);
        assert_in("rate_ppb", self.rate_ppb, -TENTH_PPB..=TENTH_PPB);
        assert_in("dither_ppb", self.dither_ppb, 0..=1_000);
        assert_in("wander_ppb", self.wander_ppb, 0..=10_000);
        assert_in("bracket_ns", self.bracket_ns, BRACKETS_NS);
        if self.same_counter {
            assert!(
                self.cpu_difference_ticks == 0,
                "same_counter excludes CPUs whose counters differ, here by {} ticks",
                self.cpu_difference_ticks
            );
            assert!(
                self.stale_ns == 0,
                "same_counter excludes stale values, here of {} ns",
                self.stale_ns
            );
        }
    }
}

impl Clock {
    fn assert_supported(&self) {
        assert_in("interval_ns", self.interval_ns, 50_000..=10 * SECOND);
        assert_in("bar_ns", self.bar_ns, 0..=10_000_000);
        let needs_thread = self.per_cpu || self.bar_ns != 0;
        assert!(
            self.driver == Driver::Thread || !needs_thread,
            "per_cpu and bar_ns need a thread as the driver"
        );
        assert!(
            !self.per_cpu || self.bar_ns == 0,
            "per_cpu excludes bar_ns, here {} ns",
            self.bar_ns
        );
    }
}

impl Chance {
    fn assert_supported(&self) {
        assert_in("preempt_ns", self.preempt_ns, 0..=SECOND);
        assert_in("stall_ns", self.stall_ns, 0..=MINUTE);
        // The margin of the meeting point allows for this, and for the time of a step.
        assert_in(
            "out_of_order_ns",
            self.out_of_order_ns,
            0..=MAX_OUT_OF_ORDER_NS,
        );
    }
}

impl Fault {
    fn assert_supported(self, machine: &Machine) {
        let last_cpu = machine.cpus - 1;
        match self {
            Self::Rate { ppb, .. } => {
                assert_in("Rate: ppb", ppb, -LINUX_RATE_PPB..=LINUX_RATE_PPB);
            }
            Self::UnixStep { by_ns } => {
                assert_in("UnixStep: by_ns", by_ns, -UNIX_STEP_NS..=UNIX_STEP_NS);
            }
            Self::Jump { by_ns } => assert_in("Jump: by_ns", by_ns, 0..=HOUR),
            Self::Suspend(suspend) => assert_in("Suspend: for_ns", suspend.for_ns, 0..=DAY),
            Self::CounterRate { ppb } => {
                assert_in("CounterRate: ppb", ppb, -TENTH_PPB..=TENTH_PPB);
            }
            Self::Bracket { ns } => assert_in("Bracket: ns", ns, BRACKETS_NS),
            Self::Pause { cpu, for_ns } => {
                assert_in("Pause: cpu", cpu, 0..=last_cpu);
                assert_in("Pause: for_ns", for_ns, 0..=MINUTE);
            }
            Self::Smi { for_ns } => assert_in("Smi: for_ns", for_ns, 0..=SECOND),
            Self::Offline { cpu } => assert_in("Offline: cpu", cpu, 0..=last_cpu),
            Self::Online { cpu } => assert_in("Online: cpu", cpu, 0..=last_cpu),
            Self::Starve { for_ns } => assert_in("Starve: for_ns", for_ns, 0..=HOUR),
            Self::DriverDies
            | Self::DriverStarts
            | Self::Fork
            | Self::Disable
            | Self::Enable
            | Self::JudgeAgain
            | Self::Decision { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::named::steady;
    use crate::run;

    use super::*;

    #[track_caller]
    fn assert_refused(scenario: &Scenario, why: &str) {
        let error = run(scenario).unwrap_err();
        assert_eq!(error, format!("step 0, 0 ns: {why}"));
    }

    #[test]
    fn a_run_refuses_a_value_outside_of_its_range() {
        let mut scenario = steady();
        scenario.machine.bracket_ns = 9;
        let why = "bracket_ns is 9; the simulator supports 10 to 100000";
        assert_refused(&scenario, why);
    }

    /// A scheduler can't be made for it.
    #[test]
    fn a_run_refuses_a_machine_without_a_cpu() {
        let mut scenario = steady();
        scenario.machine.cpus = 0;
        let error = run(&scenario).unwrap_err();
        assert!(error.starts_with("step 0, 0 ns: cpus is 0;"), "{error}");
    }

    #[test]
    fn a_run_refuses_values_that_exclude_each_other() {
        let mut scenario = steady();
        scenario.machine.stale_ns = 100;
        let why = "same_counter excludes stale values, here of 100 ns";
        assert_refused(&scenario, why);
    }

    #[test]
    fn a_run_refuses_a_fault_of_a_cpu_that_is_not_there() {
        let scenario = Scenario {
            faults: vec![Fault::Offline { cpu: 4 }.at_ms(1)],
            ..steady()
        };
        let why = "Offline: cpu is 4; the simulator supports 0 to 3";
        assert_refused(&scenario, why);
    }

    #[test]
    fn random_scenarios_are_supported() {
        (0..10_000).for_each(|seed| Scenario::random(seed).assert_supported());
    }
}
