//! Scenarios. A scenario determines a run: the same scenario gives the same run, step by step.
//!
//! The documentation of a field says which values the simulator supports. No code checks them.

use serde::Deserialize;
use tickline_core::control::MEETING_MARGIN_NS;
use tickline_core::state::WRAP_MASK;

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The seed of all random choices.
    pub seed: u64,
    /// The run ends after this many steps, or after `duration_ns`.
    pub max_steps: u64,
    /// The run ends after this simulated time, ns, or after `max_steps`. At most 10 days.
    pub duration_ns: u64,
    /// The processor and the reference clock.
    pub machine: Machine,
    /// The clock under attack.
    pub clock: Clock,
    /// Threads that read. At most 8.
    pub readers: u32,
    /// The longest pause between two readings of a thread, ns. From 1 us to 1 hour.
    pub think_ns: u64,
    /// Whether a thread reads regularly, with pauses from half the longest pause up to the longest.
    /// Otherwise readings also come in bursts, after pauses of any order of magnitude.
    pub reads_regularly: bool,
    /// Delays that happen by chance at any step.
    pub chance: Chance,
    /// Faults at given times. The list may have any order.
    pub faults: Vec<TimedFault>,
}

/// CPUs, their counters, and the reference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The number of CPUs: 1 to 8.
    pub cpus: u32,
    /// Ticks per second: 1 MHz to 10 GHz. The clock has a line only from 7.9 MHz up.
    pub counter_hz: u64,
    /// The number of ticks by which the counter moves at a time: 1 to 1,000.
    pub counter_resolution_ticks: u64,
    /// The counter at time 0.
    pub counter_origin: u64,
    /// The largest difference between the counters of two CPUs, ticks: up to 100,000.
    pub cpu_difference_ticks: u64,
    /// Whether the kernel keeps time with the same counter. The reference then moves with the
    /// counter's steps. Not if the CPUs' counters differ.
    pub same_counter: bool,
    /// The resolution of the reference, ns: 1 to 4,000,000, that of jiffies at 250 Hz.
    pub resolution_ns: u64,
    /// The largest age of a value that some callers of the reference get, ns: 0 to 10,000. As with
    /// Linux' `read_hpet`, values never decrease. Not with the same counter.
    pub stale_ns: u64,
    /// The reference at time 0, ns.
    pub reference_origin_ns: i64,
    /// The reference's rate at time 0, ppb off the counter's nominal one: up to 100 million
    /// either way.
    pub rate_ppb: i64,
    /// The kernel switches between two rates that differ by twice this, ppb: up to 1,000.
    pub dither_ppb: i64,
    /// Each second the rate changes by up to this, ppb: up to 10,000.
    pub wander_ppb: i64,
    /// Whether the kernel hides suspends and their length. It then does not wake the thread either.
    pub hides_suspends: bool,
    /// The mean time of a read of the reference between two reads of the counter, ns: 10 to
    /// 100,000.
    pub bracket_ns: u64,
}

/// The settings of the clock.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The interval, ns: 50 us to 10 s.
    pub interval_ns: u64,
    /// The driver, which runs the iterations.
    pub driver: Driver,
    /// Whether each CPU has a line of its own, by its own counter. Only with [`Driver::Thread`].
    /// Faults of the gate then do nothing.
    pub per_cpu: bool,
    /// A thread closes and opens the gate of the cell again and again, after pauses of up to this
    /// length, ns. The length is at most 10 ms; 0 means never. The driver then leaves first lines
    /// in use. On a machine whose clocks agree, the same states recur again and again. Not with
    /// `per_cpu`.
    pub gate_ns: u64,
}

/// The threads that run the iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// A thread of the clock.
    Thread,
    /// Any reader that finds an iteration due.
    Reader,
}

/// Delays that happen by chance, at each step of each thread.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    /// A thread is preempted before one step in this many; 0 for never.
    pub preempt_one_in: u64,
    /// The longest preemption, ns: at most 1 s. Short preemptions are more frequent.
    pub preempt_ns: u64,
    /// A thread is stopped for a long time before one step in this many; 0 for never.
    pub stall_one_in: u64,
    /// The longest such stop, ns: at most 60 s.
    pub stall_ns: u64,
    /// The largest distance between a read of the counter in program order and its execution, ns.
    /// At most [`MAX_OUT_OF_ORDER_NS`].
    pub out_of_order_ns: u64,
}

/// A fault at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedFault {
    /// The time of the fault, ns of true time.
    pub at_ns: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault of the machine, or an action of the program, the kernel or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The reference runs at another rate from now on.
    Rate {
        /// The difference from the nominal rate, ppb: up to 226 million, which is Linux' limit
        /// (`ADJ_TICK`, `ADJ_FREQUENCY`, `ADJ_OFFSET` and `adjtime` together).
        ppb: i64,
        /// Whether `adjtimex` reports the new rate.
        announced: bool,
    },
    /// The user sets Unix time, by up to 10 years either way.
    UnixStep {
        /// The change, ns.
        by_ns: i64,
    },
    /// The monotonic clock jumps ahead, because a hypervisor has resumed the machine elsewhere. At
    /// most 1 hour.
    Jump {
        /// The change, ns.
        by_ns: u64,
    },
    /// No thread runs for a while, of at most 1 day.
    Suspend(Suspend),
    /// The counter has another rate from now on, because of a migration between hosts.
    CounterRate {
        /// The difference from the rate before, ppb: up to 100 million.
        ppb: i64,
    },
    /// A read of the reference takes more or less time from now on, because more or fewer CPUs wait
    /// for the same device.
    Bracket {
        /// The new [`Machine::bracket_ns`], within the same range.
        ns: u64,
    },
    /// All threads on one CPU stop, because the hypervisor does not schedule the vCPU. At most 60
    /// s.
    Pause {
        /// The CPU.
        cpu: u32,
        /// The duration, ns.
        for_ns: u64,
    },
    /// All CPUs stop for a system management interrupt. At most 1 s.
    Smi {
        /// The duration, ns.
        for_ns: u64,
    },
    /// A CPU goes offline, and its threads move to others. The last CPU stays online.
    Offline {
        /// The CPU.
        cpu: u32,
    },
    /// A CPU comes back.
    Online {
        /// The CPU.
        cpu: u32,
    },
    /// The thread that drives the clock does not run. Readers that drive it do not run either. At
    /// most 1 hour.
    Starve {
        /// The duration, ns.
        for_ns: u64,
    },
    /// The thread that drives the clock ends, at any of its steps.
    DriverDies,
    /// A thread of its own starts to drive the clock.
    DriverStarts,
    /// The process forks. Only one reader goes on, in a copy of the memory.
    Fork,
    /// The program switches the counter off. If the program's actions are close to each other,
    /// several threads carry them out.
    GateCloses,
    /// The program switches the counter on again.
    GateOpens,
    /// The program sets another policy. The line ends, and the driver judges the gates again.
    JudgeAgain,
    /// From now on judgements have this result.
    Judgement {
        /// The result.
        judgement: Judgement,
    },
}

/// The result of a judgement of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Every gate is open.
    Open,
    /// A gate is closed for a reason that passes by itself. The driver judges again an interval
    /// later.
    Passing,
    /// A gate is closed. The driver checks the facts now and then, and judges the gate again when
    /// they change.
    Closed,
}

/// A suspend of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Suspend {
    /// The duration, ns.
    pub for_ns: u64,
    /// The behaviour of the counter.
    pub counter: CounterInSuspend,
    /// Whether the reference goes on.
    pub reference_runs: bool,
}

/// The behaviour of the counter in a suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterInSuspend {
    /// It runs on.
    Runs,
    /// It stands still.
    Stops,
    /// It starts again near 0. If this would move it back by less than the validity of a line, it
    /// stands still instead. Readers cannot detect a counter that comes back within the present
    /// line's validity, so the clock promises no order on such a machine.
    Resets,
}

const SECOND: u64 = 1_000_000_000;

/// The program's acts on the gate. It opens the gate twice as often.
const GATE_FAULTS: [Fault; 4] = [
    Fault::GateCloses,
    Fault::GateOpens,
    Fault::GateOpens,
    Fault::JudgeAgain,
];

/// The limit of [`Chance::out_of_order_ns`]: the margin of the meeting point allows for it, and for
/// the time of a step.
pub const MAX_OUT_OF_ORDER_NS: u64 = MEETING_MARGIN_NS * 4 / 5;

/// The limit of [`Machine::cpus`].
pub(crate) const MAX_CPUS: usize = 8;

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
            machine: Machine {
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
                reference_origin_ns: pick(rng, &[0, 1_000, 1 << 40, 1 << 55]),
                rate_ppb: rng.i64(-300_000..=300_000),
                dither_ppb: pick(rng, &[0, 80, 200, 240]),
                wander_ppb: pick(rng, &[0, 0, 1, 10]),
                bracket_ns: pick(rng, &[20, 30, 40, 80, 700]),
                hides_suspends: false,
            },
            clock: Clock {
                interval_ns,
                driver: pick(rng, &[Driver::Thread, Driver::Thread, Driver::Reader]),
                per_cpu: false,
                gate_ns: 0,
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
        if rng.u32(..4) == 0 {
            unsteady_reference(rng, &mut scenario);
        }
        if scenario.clock.driver == Driver::Reader && rng.u32(..4) == 0 {
            // Readers call about as often as is necessary to make an iteration worthwhile.
            scenario.reads_regularly = true;
            scenario.think_ns =
                (interval_ns / pick(rng, &[64, 128, 256, 512, 1_024, 4_096])).max(1_000);
        }
        if rng.u32(..8) == 0 {
            busy_switch(rng, &mut scenario);
        }
        if rng.u32(..4) == 0 {
            restless_sleep(rng, &mut scenario);
        }
        // This choice comes last, so that a seed's other choices do not depend on it.
        if scenario.clock.driver == Driver::Thread && rng.u32(..6) == 0 {
            scenario.clock.per_cpu = true;
            let machine = &mut scenario.machine;
            machine.cpus = machine.cpus.max(2);
            machine.same_counter = false;
            machine.cpu_difference_ticks = pick(rng, &[0, 50, 2_000, 100_000]);
        }
        if rng.u32(..8) == 0 {
            busy_device(rng, &mut scenario);
        }
        if !scenario.clock.per_cpu && rng.u32(..16) == 0 {
            scenario.repeat();
        }
        scenario
    }

    fn add_fault(&mut self, at_ns: u64, fault: Fault) {
        self.faults.push(TimedFault { at_ns, fault });
    }

    /// Makes the same states recur again and again. Counter and reference agree exactly, and have a
    /// resolution of a microsecond. Threads close and open the gate all the time, so one first line
    /// follows another, mostly with the same slope and the same `b`. Threads are stopped for longer
    /// than the count takes to wrap around.
    pub fn repeat(&mut self) {
        let machine = &mut self.machine;
        (
            machine.counter_hz,
            machine.counter_resolution_ticks,
            machine.rate_ppb,
        ) = (SECOND, 1_000, 0);
        (
            machine.counter_origin,
            machine.reference_origin_ns,
            machine.bracket_ns,
        ) = (0, 0, 10);
        (
            machine.same_counter,
            machine.resolution_ns,
            machine.cpu_difference_ticks,
        ) = (true, 1, 0);
        (machine.stale_ns, machine.dither_ppb, machine.wander_ppb) = (0, 0, 0);
        (self.clock.interval_ns, self.clock.gate_ns) = (50_000, 300_000);
        (self.clock.driver, self.duration_ns) = (Driver::Thread, 60 * SECOND);
        (self.think_ns, self.reads_regularly) = (100_000, false);
        let stops = Chance {
            preempt_one_in: 1_000,
            preempt_ns: 2_000_000,
            stall_one_in: 0,
            ..self.chance
        };
        (self.chance, self.faults) = (stops, Vec::new());
    }
}

/// A fault, the end of most faults, and other switches of the gate.
fn add_random_fault(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let (duration_ns, interval_ns) = (scenario.duration_ns, scenario.clock.interval_ns);
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
        Fault::GateCloses => Some(Fault::GateOpens),
        Fault::Offline { cpu } => Some(Fault::Online { cpu }),
        Fault::DriverDies => Some(Fault::DriverStarts),
        Fault::Judgement { .. } => Some(Fault::Judgement {
            judgement: Judgement::Open,
        }),
        _ => None,
    };
    if matches!(
        fault,
        Fault::GateCloses | Fault::JudgeAgain | Fault::Judgement { .. }
    ) {
        // Several threads change the gate at the same time, or while the driver judges it.
        for _ in 0..rng.u32(..6) {
            let fault = pick(rng, &GATE_FAULTS);
            scenario.add_fault(at_ns + random_ns(rng, 4 * interval_ns), fault);
        }
    }
    if let Some(fault) = again.filter(|_| rng.u32(..8) != 0) {
        scenario.add_fault(at_ns + random_ns(rng, 8 * interval_ns), fault);
    }
}

/// The reference often changes its rate, so lines are always wrong, and differ from each
/// other.
fn unsteady_reference(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
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

/// The program often switches the gate, while the kernel's verdict may still change.
fn busy_switch(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let until_ns = scenario.duration_ns / pick(rng, &[1, 8, 64]);
    let judgement = |judgement| Fault::Judgement { judgement };
    scenario.add_fault(0, judgement(Judgement::Passing));
    scenario.add_fault(rng.u64(0..until_ns), judgement(Judgement::Open));
    for _ in 0..rng.u32(20..200) {
        let fault = pick(rng, &GATE_FAULTS);
        scenario.add_fault(rng.u64(0..until_ns), fault);
    }
}

/// Many CPUs begin to read the device, and most of them stop again.
fn busy_device(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let (duration_ns, interval_ns) = (scenario.duration_ns, scenario.clock.interval_ns);
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

/// Suspends that follow each other within a window or two. Strong slews before and between them, a
/// stopped driver, or a kernel that hides them make them worse.
fn restless_sleep(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
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
            scenario.add_fault(
                at_ns,
                Fault::Suspend(Suspend {
                    for_ns,
                    counter,
                    reference_runs,
                }),
            );
            // Faults have true times, so add the suspend: the next fault comes after the wake-up.
            at_ns += for_ns + random_ns(rng, interval_ns / 4);
        }
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
        1 => Fault::UnixStep {
            by_ns: rng.i64(-3_600_000_000_000..=3_600_000_000_000),
        },
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
        13 | 14 => Fault::Judgement {
            judgement: pick(
                rng,
                &[Judgement::Passing, Judgement::Passing, Judgement::Closed],
            ),
        },
        _ => Fault::GateCloses,
    }
}

/// A random time up to `most`, ns. Each order of magnitude is equally likely.
fn random_ns(rng: &mut fastrand::Rng, most: u64) -> u64 {
    rng.u64(..) % (most >> rng.u32(..20)).max(1)
}

fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}
