//! Scenarios: values that determine a run. The same scenario gives the same run, step by step.
//!
//! A scenario is written down as one line of JSON. The fields say which values the machine was made
//! for; nothing checks them.

use serde::{Deserialize, Serialize};

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Decides everything that happens by chance.
    pub seed: u64,
    /// The run ends after this many steps...
    pub max_steps: u64,
    /// ...or after this much simulated time, ns; at most 10 days.
    pub duration_ns: u64,
    /// The processor and the reference clock.
    pub machine: Machine,
    /// The clock under attack.
    pub clock: Clock,
    /// Threads that read. At most 8.
    pub readers: u32,
    /// The longest pause between two readings of a thread, ns. From 1 us to 1 hour.
    pub think_ns: u64,
    /// Whether a thread's readings are single and even, at least half of the longest pause apart.
    /// Otherwise they also come in bursts, after pauses of any order of magnitude.
    pub even: bool,
    /// What happens by chance at any step.
    pub chance: Chance,
    /// What happens at a given time, in any order.
    pub faults: Vec<Fault>,
}

/// CPUs, their counters, and the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// 1 to 8.
    pub cpus: u32,
    /// Ticks per second: 1 MHz to 10 GHz. There is a line from 7.9 MHz up.
    pub counter_hz: u64,
    /// How many ticks the counter moves by at a time: 1 to 1,000.
    pub counter_resolution_ticks: u64,
    /// The counter at time 0.
    pub counter_origin: u64,
    /// The largest difference between the counters of two CPUs, ticks: up to 100,000.
    pub skew_ticks: u64,
    /// Whether the kernel keeps time with the same counter: then the reference moves with the
    /// counter's steps. Not with skew.
    pub same_counter: bool,
    /// The resolution of the reference, ns: 1 to 1,000.
    pub resolution_ns: u64,
    /// Some callers of the reference get a value that is up to so old, ns, but never less than an
    /// earlier one, as with Linux' `read_hpet`: 0 to 10,000. Not with the same counter.
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
    /// Whether the kernel keeps silent about suspends and their length. It does not wake the
    /// thread then either.
    pub hides_suspends: bool,
    /// The mean time of a read of the reference between two reads of the counter, ns: 10 to
    /// 100,000.
    pub bracket_ns: u64,
}

/// How the clock is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The interval, ns: 50 us to 10 s.
    pub interval_ns: u64,
    /// Who runs the iterations.
    pub driver: Driver,
    /// Whether each CPU has a line of its own, by its own counter; with the thread only. Faults
    /// of the gate do nothing then.
    pub per_cpu: bool,
    /// A thread closes and opens the gate of the cell again and again, after pauses of up to so
    /// long, ns; 0 for never, 10 ms at most. The driver then leaves first lines in use. On a
    /// machine whose clocks agree, the same states come again and again. Not with `per_cpu`.
    pub gate_ns: u64,
}

/// Who runs the iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// A thread.
    Thread,
    /// Whichever reader finds one due.
    Readers,
}

/// What happens by chance, at each step of each thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    /// A thread is preempted before one step in this many; 0 for never.
    pub preempt_one_in: u64,
    /// For up to this long, ns: at most 1 s. Short ones are more frequent.
    pub preempt_ns: u64,
    /// A thread is stopped for long before one step in this many; 0 for never.
    pub stall_one_in: u64,
    /// For up to this long, ns: at most 60 s.
    pub stall_ns: u64,
    /// How far from its place in the program the CPU may execute a read of the counter, ns: at
    /// most 4,000, which the margin of the meeting point allows for.
    pub out_of_order_ns: u64,
}

/// What happens at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, ns of true time.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// A fault, or somebody's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The reference runs at another rate from now on. `announced`: `adjtimex` says so.
    Rate {
        /// Off the nominal one, up to 226 million, which is the most that Linux does (`ADJ_TICK`,
        /// `ADJ_FREQUENCY`, `ADJ_OFFSET` and `adjtime` together).
        ppb: i64,
        /// Whether the kernel says so.
        announced: bool,
    },
    /// Unix time is set, by up to 10 years either way.
    UnixStep {
        /// By so much, ns.
        by_ns: i64,
    },
    /// The monotonic clock jumps ahead: a hypervisor has resumed the machine elsewhere. At most 1
    /// hour.
    Jump {
        /// By so much, ns.
        by_ns: u64,
    },
    /// Nobody runs for a while, of at most 1 day.
    Suspend {
        /// How long, ns.
        for_ns: u64,
        /// What the counter does.
        counter: Sleep,
        /// Whether the reference goes on.
        reference_runs: bool,
    },
    /// The counter has another rate from now on: a migration between hosts.
    CounterRate {
        /// Off the rate before, up to 100 million.
        ppb: i64,
    },
    /// A read of the reference takes another time from now on: more or fewer CPUs wait for the
    /// same device.
    Bracket {
        /// As [`Machine::bracket_ns`], and within the same range.
        ns: u64,
    },
    /// All threads on one CPU stop: a vCPU that is not scheduled. At most 60 s.
    Pause {
        /// Which.
        cpu: u32,
        /// How long, ns.
        for_ns: u64,
    },
    /// All CPUs stop: a system management interrupt. At most 1 s.
    Smi {
        /// How long, ns.
        for_ns: u64,
    },
    /// A CPU goes offline; its threads go elsewhere. Never the last one.
    Offline {
        /// Which.
        cpu: u32,
    },
    /// A CPU comes back.
    Online {
        /// Which.
        cpu: u32,
    },
    /// The thread that drives the clock is stopped; readers too, if they drive it. At most 1 hour.
    Starve {
        /// How long, ns.
        for_ns: u64,
    },
    /// The thread that drives the clock ends, wherever it is.
    DriverDies,
    /// A thread of its own starts to drive the clock.
    DriverStarts,
    /// The process forks: only one reader is left, in a copy of the memory.
    Fork,
    /// The program switches the counter off. Several threads carry out acts that are close to
    /// each other.
    GateCloses,
    /// The program switches it on again.
    GateOpens,
    /// The program sets another policy: the line ends, and the gates are judged again.
    JudgeAgain,
    /// From now on judgements have this result.
    Verdict {
        /// To what.
        verdict: Verdict,
    },
}

/// The result of a judgement of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every gate is open.
    Open,
    /// One is closed for a reason that passes by itself: the driver judges again an interval
    /// later.
    Passing,
    /// One is closed. The driver checks the facts now and then, and has the gate judged again
    /// when they change.
    Closed,
}

/// What the counter does while nobody runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sleep {
    /// It runs on.
    Runs,
    /// It stands still.
    Stops,
    /// It starts again near 0. If that is less than a window back, it stands still instead:
    /// readers cannot detect a counter that comes back within the window of the present line, and
    /// there is no promise of order on such a machine.
    Resets,
}

const SECOND: u64 = 1_000_000_000;

/// CPUs at most.
pub(crate) const MAX_CPUS: usize = 8;

impl Scenario {
    /// A scenario that `seed` decides, with everything in it.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rng = &mut rng;
        let cpus = rng.u32(1..=4);
        let same_counter = rng.bool();
        let counter_hz = pick(rng, &[1_000_000_000, 2_596_123_457, 5_000_000_000, 24_000_000, 62_500_000]);
        let interval_ns = pick(rng, &[1_000_000, 10_000_000, 100_000_000, SECOND / 2, SECOND]);
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
                counter_resolution_ticks: if counter_hz > SECOND { pick(rng, &[1, 26, 100]) } else { 1 },
                counter_origin: pick(rng, &[0, 1 << 40, u64::MAX - counter_hz, anywhere]),
                skew_ticks: if same_counter { 0 } else { pick(rng, &[0, 0, 0, 50, 2_000]) },
                same_counter,
                resolution_ns: if same_counter { 1 } else { pick(rng, &[1, 70, 100, 279]) },
                stale_ns: if same_counter { 0 } else { pick(rng, &[0, 0, 100, 1_000]) },
                reference_origin_ns: pick(rng, &[0, 1_000, 1 << 40, 1 << 55]),
                rate_ppb: rng.i64(-300_000..=300_000),
                dither_ppb: pick(rng, &[0, 80, 200, 240]),
                wander_ppb: pick(rng, &[0, 0, 1, 10]),
                bracket_ns: pick(rng, &[20, 30, 40, 80, 700]),
                hides_suspends: false,
            },
            clock: Clock {
                interval_ns,
                driver: pick(rng, &[Driver::Thread, Driver::Thread, Driver::Readers]),
                per_cpu: false,
                gate_ns: 0,
            },
            readers: rng.u32(1..=4),
            think_ns: interval_ns * pick(rng, &[1, 1, 2, 8]) / pick(rng, &[1, 4, 100]),
            even: false,
            chance: Chance {
                preempt_one_in: pick(rng, &[0, 20, 300, 300, 3_000]),
                preempt_ns: pick(rng, &[10_000, 1_000_000, 20_000_000]),
                stall_one_in: pick(rng, &[0, 0, 5_000, 20_000]),
                stall_ns: 15 * SECOND,
                out_of_order_ns: pick(rng, &[0, 200, 4_000]),
            },
            faults: Vec::new(),
        };
        scenario.think_ns = scenario.think_ns.max(1_000);
        for _ in 0..faults {
            // Most runs end because of the number of steps, so half of the faults come early.
            let at_ns = if rng.bool() { random_ns(rng, duration_ns) } else { rng.u64(0..duration_ns) };
            let what = random_fault(rng, &scenario);
            scenario.faults.push(Fault { at_ns, what });
            // What has stopped usually goes on again.
            let again = match what {
                What::Rate { .. } => {
                    Some(What::Rate { ppb: scenario.machine.rate_ppb, announced: rng.bool() })
                }
                What::GateCloses => Some(What::GateOpens),
                What::Offline { cpu } => Some(What::Online { cpu }),
                What::DriverDies => Some(What::DriverStarts),
                What::Verdict { .. } => Some(What::Verdict { verdict: Verdict::Open }),
                _ => None,
            };
            if matches!(what, What::GateCloses | What::JudgeAgain | What::Verdict { .. }) {
                // Several threads deal with the gate at the same time, or while it is being judged.
                for _ in 0..rng.u32(..6) {
                    let what =
                        pick(rng, &[What::GateCloses, What::GateOpens, What::GateOpens, What::JudgeAgain]);
                    let at_ns = at_ns + random_ns(rng, 4 * interval_ns);
                    scenario.faults.push(Fault { at_ns, what });
                }
            }
            if let Some(what) = again.filter(|_| rng.u32(..8) != 0) {
                let at_ns = at_ns + random_ns(rng, 8 * interval_ns);
                scenario.faults.push(Fault { at_ns, what });
            }
        }
        if rng.u32(..4) == 0 {
            // A restless reference: lines are off, and differ from each other, all the time.
            let most = pick(rng, &[20_000, 500_000, 500_000, 50_000_000]);
            let until_ns = duration_ns / pick(rng, &[1, 8, 64]);
            for _ in 0..rng.u32(20..100) {
                let what = What::Rate { ppb: rng.i64(-most..=most), announced: rng.bool() };
                let at_ns = rng.u64(0..until_ns);
                scenario.faults.push(Fault { at_ns, what });
            }
        }
        if scenario.clock.driver == Driver::Readers && rng.u32(..4) == 0 {
            // Calls are about as frequent as they must be for an iteration to be worth it.
            scenario.even = true;
            scenario.think_ns = (interval_ns / pick(rng, &[64, 128, 256, 512, 1_024, 4_096])).max(1_000);
        }
        if rng.u32(..8) == 0 {
            // A restless program, while the kernel is undecided.
            let until_ns = duration_ns / pick(rng, &[1, 8, 64]);
            let verdict = |verdict| What::Verdict { verdict };
            scenario.faults.push(Fault { at_ns: 0, what: verdict(Verdict::Passing) });
            scenario.faults.push(Fault { at_ns: rng.u64(0..until_ns), what: verdict(Verdict::Open) });
            for _ in 0..rng.u32(20..200) {
                let what = pick(rng, &[What::GateCloses, What::GateOpens, What::GateOpens, What::JudgeAgain]);
                scenario.faults.push(Fault { at_ns: rng.u64(0..until_ns), what });
            }
        }
        if rng.u32(..4) == 0 {
            restless_sleep(rng, &mut scenario);
        }
        // Last: what else a seed decides does not depend on this.
        if scenario.clock.driver == Driver::Thread && rng.u32(..6) == 0 {
            scenario.clock.per_cpu = true;
            let machine = &mut scenario.machine;
            machine.cpus = machine.cpus.max(2);
            machine.same_counter = false;
            machine.skew_ticks = pick(rng, &[0, 50, 2_000, 100_000]);
        }
        if rng.u32(..8) == 0 {
            // Many CPUs come to read the device, and most of them leave it again.
            let at_ns = rng.u64(0..duration_ns);
            let usual_ns = scenario.machine.bracket_ns;
            let slower = What::Bracket { ns: pick(rng, &[2, 4, 20]) * usual_ns.min(250) };
            scenario.faults.push(Fault { at_ns, what: slower });
            let at_ns = at_ns + random_ns(rng, 64 * interval_ns);
            let what = What::Bracket { ns: pick(rng, &[1, 1, 2]) * usual_ns };
            scenario.faults.push(Fault { at_ns, what });
        }
        if !scenario.clock.per_cpu && rng.u32(..16) == 0 {
            scenario.repeat();
        }
        scenario
    }

    /// Makes the same states come again and again. Counter and reference agree exactly, and are
    /// seen to the microsecond. Threads turn the gate all the time, so one first line follows the
    /// other, most of them with the same slope and the same `b`. Threads are stopped for longer
    /// than it takes the count to come around.
    pub fn repeat(&mut self) {
        let machine = &mut self.machine;
        (machine.counter_hz, machine.counter_resolution_ticks, machine.rate_ppb) = (SECOND, 1_000, 0);
        (machine.counter_origin, machine.reference_origin_ns, machine.bracket_ns) = (0, 0, 10);
        (machine.same_counter, machine.resolution_ns) = (true, 1);
        (machine.skew_ticks, machine.stale_ns, machine.dither_ppb, machine.wander_ppb) = (0, 0, 0, 0);
        (self.clock.interval_ns, self.clock.gate_ns) = (50_000, 300_000);
        (self.clock.driver, self.duration_ns) = (Driver::Thread, 60 * SECOND);
        (self.think_ns, self.even) = (100_000, false);
        let stops = Chance { preempt_one_in: 1_000, preempt_ns: 2_000_000, stall_one_in: 0, ..self.chance };
        (self.chance, self.faults) = (stops, Vec::new());
    }
}

/// Suspends that follow each other within a window or two, and what makes them worse: strong
/// slews before and between them, a driver that is stopped meanwhile, a kernel that keeps silent
/// about them.
fn restless_sleep(rng: &mut fastrand::Rng, scenario: &mut Scenario) {
    let interval_ns = scenario.clock.interval_ns;
    scenario.machine.hides_suspends = rng.u32(..4) == 0;
    for _ in 0..rng.u32(1..4) {
        let shift = rng.u32(..6);
        let mut at_ns = rng.u64(0..scenario.duration_ns >> shift);
        let usual = rng.bool();
        let mut strike = |at_ns, what| scenario.faults.push(Fault { at_ns, what });
        if rng.bool() {
            strike(at_ns, What::Starve { for_ns: rng.u64(0..8 * interval_ns) });
        }
        for _ in 0..rng.u32(1..5) {
            if !usual && rng.bool() {
                let most = pick(rng, &[100_000_000, 226_000_000]);
                strike(at_ns, What::Rate { ppb: pick(rng, &[-most, most]), announced: rng.bool() });
            }
            at_ns += random_ns(rng, interval_ns);
            let for_ns = match rng.u32(..4) {
                0 => random_ns(rng, 100 * interval_ns),
                _ => rng.u64(0..3 * interval_ns),
            };
            let counter = pick(rng, &[Sleep::Runs, Sleep::Runs, Sleep::Runs, Sleep::Resets]);
            // A machine that is restored is reset without a suspend.
            let for_ns = if counter == Sleep::Resets && rng.bool() { 0 } else { for_ns };
            strike(at_ns, What::Suspend { for_ns, counter, reference_runs: rng.u32(..8) == 0 });
            // Faults are at true times: the next one follows when the machine is awake.
            at_ns += for_ns + random_ns(rng, interval_ns / 4);
        }
    }
}

fn random_fault(rng: &mut fastrand::Rng, scenario: &Scenario) -> What {
    let interval_ns = scenario.clock.interval_ns;
    let cpu = rng.u32(..scenario.machine.cpus);
    match rng.u32(..16) {
        0 => {
            let most = pick(rng, &[1_000, 20_000, 500_000, 83_000_000, 100_000_000]);
            What::Rate { ppb: rng.i64(-most..=most), announced: rng.bool() }
        }
        1 => What::UnixStep { by_ns: rng.i64(-3_600_000_000_000..=3_600_000_000_000) },
        2 => What::Jump { by_ns: random_ns(rng, 10 * interval_ns) },
        3 | 4 => What::Suspend {
            for_ns: random_ns(rng, 100 * interval_ns),
            counter: pick(rng, &[Sleep::Runs, Sleep::Stops, Sleep::Resets]),
            reference_runs: rng.bool(),
        },
        5 => What::CounterRate { ppb: rng.i64(-10_000_000..=10_000_000) },
        6 => What::Pause { cpu, for_ns: random_ns(rng, 10 * SECOND) },
        7 => What::Smi { for_ns: random_ns(rng, 100_000_000) },
        8 => What::Offline { cpu },
        9 => What::Starve { for_ns: random_ns(rng, 20 * interval_ns) },
        10 => What::DriverDies,
        11 => What::Fork,
        12 => What::JudgeAgain,
        13 | 14 => {
            What::Verdict { verdict: pick(rng, &[Verdict::Passing, Verdict::Passing, Verdict::Closed]) }
        }
        _ => What::GateCloses,
    }
}

/// Up to `most`, each order of magnitude as likely as another.
fn random_ns(rng: &mut fastrand::Rng, most: u64) -> u64 {
    rng.u64(..) % (most >> rng.u32(..20)).max(1)
}

fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}
