//! Scenarios with names: what the documentation's plots show, and what tests state limits for.

use crate::scenario::{Chance, Clock, Driver, Fault, Machine, Scenario, Sleep, Verdict, What};

const SECOND: u64 = 1_000_000_000;

/// A reference that never changes: the kernel keeps time with the same 2.6 GHz counter, and a
/// read of it takes 30 ns. One thread drives the clock, two read it.
#[must_use]
pub fn steady(seed: u64) -> Scenario {
    Scenario {
        seed,
        max_steps: u64::MAX,
        duration_ns: 20 * SECOND,
        machine: Machine {
            cpus: 4,
            counter_hz: 2_596_123_457,
            counter_step: 1,
            counter_origin: 1 << 40,
            skew_ticks: 0,
            same_counter: true,
            quantum_ns: 1,
            stale_ns: 0,
            reference_origin_ns: 1 << 40,
            rate_ppb: 37_000,
            dither_ppb: 0,
            wander_ppb: 0,
            bracket_ns: 30,
            hides_suspends: false,
        },
        clock: Clock {
            interval_ns: SECOND / 2,
            driver: Driver::Thread,
            per_cpu: false,
            gate_ns: 0,
            uncounted: false,
        },
        readers: 2,
        think_ns: SECOND / 10,
        even: false,
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

/// The same, with faults at these times, ns.
#[must_use]
pub fn with(seed: u64, faults: &[(u64, What)]) -> Scenario {
    let faults = faults.iter().map(|&(at_ns, what)| Fault { at_ns, what }).collect();
    Scenario { faults, ..steady(seed) }
}

/// The rate changes by `ppb` at `at_ns`, and the kernel does not say so.
#[must_use]
pub fn rate_change(seed: u64, at_ns: u64, ppb: i64) -> Scenario {
    with(seed, &[(at_ns, What::Rate { ppb: 37_000 + ppb, announced: false })])
}

/// An NTP daemon slews by 500 ppm for 5 s, and the kernel says so.
#[must_use]
pub fn ntp_slew(seed: u64) -> Scenario {
    let rate = |ppb| What::Rate { ppb, announced: true };
    with(seed, &[(5 * SECOND + 100_000_000, rate(537_000)), (10 * SECOND + 100_000_000, rate(37_000))])
}

/// A slew by 100,000 ppm for 5 s.
#[must_use]
pub fn violent_slew(seed: u64) -> Scenario {
    let rate = |ppb| What::Rate { ppb, announced: true };
    with(seed, &[(5 * SECOND + 100_000_000, rate(100_000_000)), (10 * SECOND + 100_000_000, rate(37_000))])
}

/// Unix time is set ahead by an hour.
#[must_use]
pub fn step(seed: u64) -> Scenario {
    with(seed, &[(5 * SECOND + 100_000_000, What::UnixStep { by_ns: 3_600_000_000_000 })])
}

/// The machine sleeps for 10 s. The counter runs on, `CLOCK_MONOTONIC` does not.
#[must_use]
pub fn suspend(seed: u64) -> Scenario {
    let suspend = What::Suspend { for_ns: 10 * SECOND, counter: Sleep::Runs, reference_runs: false };
    Scenario { duration_ns: 30 * SECOND, ..with(seed, &[(5 * SECOND + 100_000_000, suspend)]) }
}

/// The reference is a device that takes 1.4 us to answer, and 60 us from 2.1 s to 4.1 s, while
/// other CPUs ask it, too. The interval is 10 ms.
#[must_use]
pub fn contended(seed: u64) -> Scenario {
    let bracket = |ns| What::Bracket { ns };
    let mut scenario = with(seed, &[(2_100_000_000, bracket(60_000)), (4_100_000_000, bracket(1_400))]);
    (scenario.machine.bracket_ns, scenario.machine.same_counter) = (1_400, false);
    scenario.machine.quantum_ns = 10;
    (scenario.clock.interval_ns, scenario.think_ns) = (SECOND / 100, SECOND / 1_000);
    scenario.duration_ns = 6 * SECOND;
    scenario
}

/// A counter of 8 MHz that becomes slower than a line allows, by 5 % from 5.1 s to 10.1 s.
#[must_use]
pub fn slow_counter(seed: u64) -> Scenario {
    let rate = |ppb| What::CounterRate { ppb };
    let mut scenario = with(seed, &[(5_100_000_000, rate(-50_000_000)), (10_100_000_000, rate(52_000_000))]);
    scenario.machine.counter_hz = 8_000_000;
    scenario
}

/// One reader drives the clock, and calls once in `pause_ns` to half of that; the interval is 0.5
/// s.
#[must_use]
pub fn even_caller(seed: u64, pause_ns: u64) -> Scenario {
    let mut scenario = Scenario { readers: 1, think_ns: pause_ns, even: true, ..steady(seed) };
    scenario.clock.driver = Driver::Readers;
    scenario
}

/// The kernel decides about the counter after 0.2 s. Meanwhile three threads of the program,
/// which are preempted all the time, switch the counter off and on and set policies; the last act
/// switches it on. The driver judges every 1 ms.
#[must_use]
pub fn gates(seed: u64) -> Scenario {
    const ACTS: u64 = 300;
    let decided_ns = SECOND / 5;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut faults = vec![(0, What::Verdict { verdict: Verdict::Passing })];
    for _ in 0..ACTS {
        let what = [What::GateCloses, What::GateOpens, What::GateOpens, What::JudgeAgain][rng.usize(..4)];
        faults.push((rng.u64(1..decided_ns), what));
    }
    faults.extend([(decided_ns, What::GateOpens), (decided_ns, What::Verdict { verdict: Verdict::Open })]);
    let mut scenario = with(seed, &faults);
    scenario.clock.interval_ns = 1_000_000;
    scenario.duration_ns = SECOND / 2;
    scenario.think_ns = 100_000;
    (scenario.chance.preempt_one_in, scenario.chance.preempt_ns) = (20, 1_000_000);
    scenario
}

/// The same states come again and again: see [`Scenario::repeat`].
#[must_use]
pub fn repeating(seed: u64) -> Scenario {
    let mut scenario = steady(seed);
    scenario.repeat();
    (scenario.readers, scenario.max_steps) = (4, 1_000_000);
    scenario
}

/// A line for each of three CPUs, whose counters are up to 39 us apart. Threads are preempted and
/// moved. One CPU is offline from 8.1 s to 12.1 s, another one stands still for 0.3 s at 16.1 s.
#[must_use]
pub fn per_cpu(seed: u64) -> Scenario {
    let faults = [
        (8_100_000_000, What::Offline { cpu: 1 }),
        (12_100_000_000, What::Online { cpu: 1 }),
        (16_100_000_000, What::Pause { cpu: 2, for_ns: 300_000_000 }),
    ];
    let mut scenario = with(seed, &faults);
    scenario.clock.per_cpu = true;
    (scenario.machine.cpus, scenario.machine.skew_ticks) = (3, 100_000);
    scenario.machine.same_counter = false;
    scenario.readers = 4;
    (scenario.chance.preempt_one_in, scenario.chance.preempt_ns) = (300, 1_000_000);
    scenario
}

/// The five of the documentation's plot, with their titles.
#[must_use]
pub fn plotted() -> [(&'static str, Scenario); 5] {
    [
        ("steady reference", steady(1)),
        ("NTP slew: 500 ppm from 5.1 s to 10.1 s", ntp_slew(1)),
        ("slew by 100,000 ppm from 5.1 s to 10.1 s", violent_slew(1)),
        ("Unix time set ahead by 1 h at 5.1 s", step(1)),
        ("asleep for 10 s from 5.1 s, the counter running", suspend(1)),
    ]
}
