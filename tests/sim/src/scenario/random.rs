//! Random scenarios. The numbers are a choice, up to the limits of `supported.rs`. Some are those
//! of real machines: counters of 24 and 62.5 MHz (aarch64) and of 1 to 5 GHz, reference clocks with
//! the resolution of an HPET (70 ns), of Hyper-V (100 ns), of the ACPI timer (279 ns) and of a
//! kernel's tick at 250 Hz (4 ms).

use tickline_core::state::WRAP_MASK;

use super::{
    Chance, Clock, CounterInSuspend, Decision, Driver, Fault, MAX_OUT_OF_ORDER_NS, Machine, SECOND,
    Scenario, Suspend, TimedFault,
};

/// The program's calls to the keeper. It switches the counter on twice as often.
const SWITCH_FAULTS: [Fault; 4] = [
    Fault::Disable,
    Fault::Enable,
    Fault::Enable,
    Fault::JudgeAgain,
];

impl Scenario {
    /// A random scenario, which `seed` determines completely.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let cpus = rng.u32(1..=4);
        let same_counter = rng.bool();
        let counter_hz = pick(
            rng,
            &[
                1_000_000_000,
                2_596_123_457,
                5_000_000_000,
                24_000_000,
                62_500_000,
            ],
        );
        let interval_ns = pick(
            rng,
            &[1_000_000, 10_000_000, 100_000_000, SECOND / 2, SECOND],
        );
        let faults = rng.usize(0..8);
        let anywhere = rng.u64(..);
        let duration_ns = interval_ns * rng.u64(200..2_000);
        let mut scenario = Self {
            seed,
            max_steps: 200_000,
            duration_ns,
            machine: random_machine(rng, cpus, counter_hz, same_counter, anywhere),
            clock: Clock {
                interval_ns,
                driver: pick(rng, &[Driver::Thread, Driver::Thread, Driver::Reader]),
                per_cpu: false,
                bar_ns: 0,
            },
            readers: rng.u32(1..=4),
            think_ns: interval_ns * pick(rng, &[1, 1, 2, 8]) / pick(rng, &[1, 4, 100]),
            reads_regularly: false,
            chance: Chance {
                preempt_one_in: pick(rng, &[0, 20, 300, 300, 3_000]),
                preempt_ns: pick(rng, &[10_000, 1_000_000, 20_000_000]),
                stall_one_in: pick(rng, &[0, 0, 5_000, 20_000]),
                stall_ns: 15 * SECOND,
                out_of_order_ns: pick(rng, &[0, 200, MAX_OUT_OF_ORDER_NS]),
            },
            faults: Vec::new(),
        };
        scenario.think_ns = scenario.think_ns.max(1_000);
        for _ in 0..faults {
            add_random_fault(rng, &mut scenario);
        }
        make_special(rng, &mut scenario);
        scenario
    }

    fn add_fault(&mut self, at_ns: u64, fault: Fault) {
        self.faults.push(TimedFault { at_ns, fault });
    }
}

/// A random machine, whose counter starts at one of a few places, or at `anywhere`.
fn random_machine(
    rng: &mut fastrand::Rng,
    cpus: u32,
    counter_hz: u64,
    same_counter: bool,
    anywhere: u64,
) -> Machine {
    Machine {
        cpus,
        counter_hz,
        counter_resolution_ticks: if counter_hz > SECOND {
            pick(rng, &[1, 26, 100])
        } else {
            1
        },
        counter_origin: pick(
            rng,
            &[
                0,
                1 << 40,
                u64::MAX - counter_hz,
                (anywhere | WRAP_MASK) - counter_hz,
                anywhere,
            ],
        ),
        cpu_difference_ticks: if same_counter {
            0
        } else {
            pick(rng, &[0, 0, 0, 50, 2_000])
        },
        same_counter,
        resolution_ns: if same_counter {
            1
        } else {
            pick(rng, &[1, 70, 100, 279, 4_000_000])
        },
        stale_ns: if same_counter {
            0
        } else {
            pick(rng, &[0, 0, 100, 1_000])
        },
        reference_origin_ns: pick(rng, &[0, -5_000_000, 1 << 40, -(1 << 55)]),
        rate_ppb: rng.i64(-300_000..=300_000),
        dither_ppb: pick(rng, &[0, 80, 200, 240]),
        wander_ppb: pick(rng, &[0, 0, 1, 10]),
        bracket_ns: pick(rng, &[20, 30, 40, 80, 700]),
        hides_suspends: false,
    }
}

/// Gives some scenarios a special condition, or several. A new one goes to the end, so that a
/// seed's other choices stay as they are.
fn make_special(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    if rng.u32(..4) == 0 {
        make_reference_unsteady(rng, scenario);
    }
    if scenario.clock.driver == Driver::Reader && rng.u32(..4) == 0 {
        // Readers call about as often as is necessary to make an iteration worthwhile.
        scenario.reads_regularly = true;
        scenario.think_ns =
            (scenario.clock.interval_ns / pick(rng, &[64, 128, 256, 512, 1_024, 4_096])).max(1_000);
    }
    if rng.u32(..8) == 0 {
        add_busy_switch(rng, scenario);
    }
    if rng.u32(..4) == 0 {
        add_restless_sleep(rng, scenario);
    }
    if scenario.clock.driver == Driver::Thread && rng.u32(..6) == 0 {
        scenario.clock.per_cpu = true;
        let machine = &mut scenario.machine;
        machine.cpus = machine.cpus.max(2);
        machine.same_counter = false;
        machine.cpu_difference_ticks = pick(rng, &[0, 50, 2_000, 100_000]);
    }
    if rng.u32(..8) == 0 {
        add_busy_device(rng, scenario);
    }
    if !scenario.clock.per_cpu && rng.u32(..16) == 0 {
        scenario.repeat();
    }
}

/// A fault, the end of most faults, and other calls to the keeper.
fn add_random_fault(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let duration_ns = scenario.duration_ns;
    let interval_ns = scenario.clock.interval_ns;
    // Most runs end because of the number of steps, so half of the faults come early.
    let at_ns = if rng.bool() {
        random_ns(rng, duration_ns)
    } else {
        rng.u64(0..duration_ns)
    };
    let fault = random_fault(rng, scenario);
    scenario.add_fault(at_ns, fault);
    // Most faults are followed by their end.
    let again = match fault {
        Fault::Rate { .. } => Some(Fault::Rate {
            ppb: scenario.machine.rate_ppb,
            announced: rng.bool(),
        }),
        Fault::Disable => Some(Fault::Enable),
        Fault::Offline { cpu } => Some(Fault::Online { cpu }),
        Fault::DriverDies => Some(Fault::DriverStarts),
        Fault::Decision { .. } => Some(Fault::Decision {
            decision: Decision::Open,
        }),
        _ => None,
    };
    if matches!(
        fault,
        Fault::Disable | Fault::JudgeAgain | Fault::Decision { .. }
    ) {
        // Several threads call the keeper at the same time, or while the driver judges.
        for _ in 0..rng.u32(..6) {
            let fault = pick(rng, &SWITCH_FAULTS);
            scenario.add_fault(at_ns + random_ns(rng, 4 * interval_ns), fault);
        }
    }
    if let Some(fault) = again
        && rng.u32(..8) != 0
    {
        scenario.add_fault(at_ns + random_ns(rng, 8 * interval_ns), fault);
    }
}

/// Makes the reference often change its rate, so lines are always wrong, and differ from each
/// other.
fn make_reference_unsteady(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let most = pick(rng, &[20_000, 500_000, 500_000, 50_000_000]);
    let until_ns = scenario.duration_ns / pick(rng, &[1, 8, 64]);
    for _ in 0..rng.u32(20..100) {
        let fault = Fault::Rate {
            ppb: rng.i64(-most..=most),
            announced: rng.bool(),
        };
        scenario.add_fault(rng.u64(0..until_ns), fault);
    }
}

/// Makes the program often call the keeper, while the kernel's verdict may still change.
fn add_busy_switch(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let until_ns = scenario.duration_ns / pick(rng, &[1, 8, 64]);
    let decision = |decision| Fault::Decision { decision };
    scenario.add_fault(0, decision(Decision::Passing));
    scenario.add_fault(rng.u64(0..until_ns), decision(Decision::Open));
    for _ in 0..rng.u32(20..200) {
        let fault = pick(rng, &SWITCH_FAULTS);
        scenario.add_fault(rng.u64(0..until_ns), fault);
    }
}

/// Adds many CPUs that begin to read the device, and most of which stop again.
fn add_busy_device(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let duration_ns = scenario.duration_ns;
    let interval_ns = scenario.clock.interval_ns;
    let at_ns = rng.u64(0..duration_ns);
    let usual_ns = scenario.machine.bracket_ns;
    scenario.add_fault(
        at_ns,
        Fault::Bracket {
            ns: pick(rng, &[2, 4, 20]) * usual_ns.min(250),
        },
    );
    let end_ns = at_ns + random_ns(rng, 64 * interval_ns);
    scenario.add_fault(
        end_ns,
        Fault::Bracket {
            ns: pick(rng, &[1, 1, 2]) * usual_ns,
        },
    );
}

/// Adds suspends that follow each other within a window or two. Strong slews before and between
/// them, a stopped driver, or a kernel that hides them make them worse.
fn add_restless_sleep(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let interval_ns = scenario.clock.interval_ns;
    scenario.machine.hides_suspends = rng.u32(..4) == 0;
    for _ in 0..rng.u32(1..4) {
        let shift = rng.u32(..6);
        let mut at_ns = rng.u64(0..scenario.duration_ns >> shift);
        let usual = rng.bool();
        if rng.bool() {
            scenario.add_fault(
                at_ns,
                Fault::Starve {
                    for_ns: rng.u64(0..8 * interval_ns),
                },
            );
        }
        for _ in 0..rng.u32(1..5) {
            if !usual && rng.bool() {
                let most = pick(rng, &[100_000_000, 226_000_000]);
                scenario.add_fault(
                    at_ns,
                    Fault::Rate {
                        ppb: pick(rng, &[-most, most]),
                        announced: rng.bool(),
                    },
                );
            }
            at_ns += random_ns(rng, interval_ns);
            let suspend = random_suspend(rng, interval_ns);
            scenario.add_fault(at_ns, Fault::Suspend(suspend));
            // Faults have true times, so add the suspend: the next fault comes after the wake-up.
            at_ns += suspend.for_ns + random_ns(rng, interval_ns / 4);
        }
    }
}

/// A suspend of a restless machine: up to a few intervals long, and seldom up to a hundred.
fn random_suspend(rng: &mut fastrand::Rng, interval_ns: u64) -> Suspend {
    let for_ns = match rng.u32(..4) {
        0 => random_ns(rng, 100 * interval_ns),
        _ => rng.u64(0..3 * interval_ns),
    };
    let counter = pick(
        rng,
        &[
            CounterInSuspend::Runs,
            CounterInSuspend::Runs,
            CounterInSuspend::Runs,
            CounterInSuspend::Resets,
        ],
    );
    // Restoring a virtual machine resets the counter without a suspend.
    let for_ns = if counter == CounterInSuspend::Resets && rng.bool() {
        0
    } else {
        for_ns
    };
    let reference_runs = rng.u32(..8) == 0;
    Suspend {
        for_ns,
        counter,
        reference_runs,
    }
}

fn random_fault(rng: &mut fastrand::Rng, scenario: &Scenario) -> Fault {
    let interval_ns = scenario.clock.interval_ns;
    let cpu = rng.u32(..scenario.machine.cpus);
    match rng.u32(..16) {
        0 => {
            let most = pick(rng, &[1_000, 20_000, 500_000, 83_000_000, 100_000_000]);
            Fault::Rate {
                ppb: rng.i64(-most..=most),
                announced: rng.bool(),
            }
        }
        1 => {
            let most_ns = pick(rng, &[200, 3_600_000_000_000]);
            Fault::UnixStep {
                by_ns: rng.i64(-most_ns..=most_ns),
            }
        }
        2 => Fault::Jump {
            by_ns: random_ns(rng, 10 * interval_ns),
        },
        3 | 4 => Fault::Suspend(Suspend {
            for_ns: random_ns(rng, 100 * interval_ns),
            counter: pick(
                rng,
                &[
                    CounterInSuspend::Runs,
                    CounterInSuspend::Stops,
                    CounterInSuspend::Resets,
                ],
            ),
            reference_runs: rng.bool(),
        }),
        5 => Fault::CounterRate {
            ppb: rng.i64(-10_000_000..=10_000_000),
        },
        6 => Fault::Pause {
            cpu,
            for_ns: random_ns(rng, 10 * SECOND),
        },
        7 => Fault::Smi {
            for_ns: random_ns(rng, 100_000_000),
        },
        8 => Fault::Offline { cpu },
        9 => Fault::Starve {
            for_ns: random_ns(rng, 20 * interval_ns),
        },
        10 => Fault::DriverDies,
        11 => Fault::Fork,
        12 => Fault::JudgeAgain,
        13 | 14 => Fault::Decision {
            decision: pick(
                rng,
                &[Decision::Passing, Decision::Passing, Decision::Closed],
            ),
        },
        _ => Fault::Disable,
    }
}

/// A random time up to `most`, ns. Each order of magnitude is equally likely.
fn random_ns(rng: &mut fastrand::Rng, most: u64) -> u64 {
    rng.u64(..) % (most >> rng.u32(..20)).max(1)
}

fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}
