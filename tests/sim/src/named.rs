//! Scenarios with names: the steady one, from which tests make their own, and those that the
//! documentation plots.

use crate::scenario::{
    Chance, Clock, CounterInSuspend, Driver, Fault, Machine, SECOND, Scenario, Suspend,
};

/// The rate of the steady reference, ppb off the counter's nominal rate. A choice, not a
/// measurement: as much as a common quartz is off.
pub const STEADY_PPB: i64 = 37_000;

/// A reference that never changes, for 20 s: the kernel keeps time with the same 2.6 GHz counter,
/// and a read of it takes 30 ns. One thread drives the clock, two read it.
#[must_use]
pub fn steady() -> Scenario {
    Scenario {
        seed: 0,
        max_steps: u64::MAX,
        duration_ns: 20 * SECOND,
        machine: Machine {
            cpus: 4,
            counter_hz: 2_596_123_457,
            counter_resolution_ticks: 1,
            counter_origin: 1 << 40,
            cpu_difference_ticks: 0,
            same_counter: true,
            resolution_ns: 1,
            stale_ns: 0,
            reference_origin_ns: 1 << 40,
            rate_ppb: STEADY_PPB,
            dither_ppb: 0,
            wander_ppb: 0,
            hides_suspends: false,
            bracket_ns: 30,
        },
        clock: Clock {
            interval_ns: SECOND / 2,
            driver: Driver::Thread,
            per_cpu: false,
            bar_ns: 0,
        },
        readers: 2,
        think_ns: 100_000_000,
        reads_regularly: false,
        chance: Chance {
            preempt_one_in: 0,
            preempt_ns: 0,
            stall_one_in: 0,
            stall_ns: 0,
            out_of_order_ns: 100,
        },
        faults: Vec::new(),
    }
}

/// A slew by the NTP daemon from 5.1 s to 10.1 s, to this rate. The kernel says so.
fn slew(ppb: i64) -> Scenario {
    let rate = |ppb| Fault::Rate {
        ppb,
        announced: true,
    };
    Scenario {
        faults: vec![rate(ppb).at_ms(5_100), rate(STEADY_PPB).at_ms(10_100)],
        ..steady()
    }
}

/// A slew by 500 ppm.
#[must_use]
pub fn ntp_slew() -> Scenario {
    slew(STEADY_PPB + 500_000)
}

/// A slew to 100,000 ppm.
#[must_use]
pub fn violent_slew() -> Scenario {
    slew(100_000_000)
}

/// Unix time is set ahead by an hour at 5.1 s.
#[must_use]
pub fn unix_step() -> Scenario {
    let by_ns = 3_600_000_000_000;
    Scenario {
        faults: vec![Fault::UnixStep { by_ns }.at_ms(5_100)],
        ..steady()
    }
}

/// A suspend in which the counter runs on, and the reference stands still.
#[must_use]
pub fn sleep(for_ms: u64) -> Fault {
    Fault::Suspend(Suspend {
        for_ns: for_ms * 1_000_000,
        counter: CounterInSuspend::Runs,
        reference_runs: false,
    })
}

/// The machine sleeps from 5.1 s on.
#[must_use]
pub fn suspend(for_ms: u64) -> Scenario {
    Scenario {
        duration_ns: 30 * SECOND,
        faults: vec![sleep(for_ms).at_ms(5_100)],
        ..steady()
    }
}

/// The scenarios of the documentation's plot (`docs/offsets.gp`), with their titles.
#[must_use]
pub fn plotted() -> [(&'static str, Scenario); 5] {
    [
        ("steady reference", steady()),
        ("NTP slew: 500 ppm from 5.1 s to 10.1 s", ntp_slew()),
        ("slew by 100,000 ppm from 5.1 s to 10.1 s", violent_slew()),
        ("Unix time set ahead by 1 h at 5.1 s", unix_step()),
        (
            "asleep for 10 s from 5.1 s, the counter running",
            suspend(10_000),
        ),
    ]
}
