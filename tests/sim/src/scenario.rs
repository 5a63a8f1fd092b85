//! Scenarios. A scenario determines a run: the same scenario gives the same run, step by step.
//!
//! `supported.rs` has the values of each field that the simulator supports. A run asserts them.

use tickline_core::control::MEETING_MARGIN_NS;

mod random;
mod supported;

/// Everything about one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The seed of all random choices.
    pub seed: u64,
    /// The run ends after this many steps, or after `duration_ns`.
    pub max_steps: u64,
    /// The run ends after this simulated time, ns, or after `max_steps`.
    pub duration_ns: u64,
    /// The processor and the reference clock.
    pub machine: Machine,
    /// The clock under attack.
    pub clock: Clock,
    /// The number of threads that read.
    pub readers: u32,
    /// The longest pause between two readings of a thread, ns.
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
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The number of CPUs.
    pub cpus: u32,
    /// Ticks per second. The clock has a line only above 7.8125 MHz.
    pub counter_hz: u64,
    /// The number of ticks by which the counter moves at a time.
    pub counter_resolution_ticks: u64,
    /// The counter at time 0.
    pub counter_origin: u64,
    /// The largest difference between the counters of two CPUs, ticks.
    pub cpu_difference_ticks: u64,
    /// Whether the kernel keeps time with the same counter. The reference then moves when the
    /// counter moves. Not if the CPUs' counters differ.
    pub same_counter: bool,
    /// The resolution of the reference, ns.
    pub resolution_ns: u64,
    /// The largest age of a value that some callers of the reference get, ns. As with Linux'
    /// `read_hpet`, values never decrease. Not with the same counter.
    pub stale_ns: u64,
    /// The reference at time 0, ns.
    pub reference_origin_ns: i64,
    /// The reference's rate at time 0, ppb off the counter's nominal one.
    pub rate_ppb: i64,
    /// The kernel switches between two rates that differ by twice this, ppb.
    pub dither_ppb: i64,
    /// Each second the rate changes by up to this, ppb.
    pub wander_ppb: i64,
    /// Whether the kernel hides suspends and their length. It then does not wake the thread either.
    pub hides_suspends: bool,
    /// The mean time of a read of the reference between two reads of the counter, ns.
    pub bracket_ns: u64,
}

/// The settings of the clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Clock {
    /// The interval, ns.
    pub interval_ns: u64,
    /// The driver, which runs the iterations.
    pub driver: Driver,
    /// Whether each CPU has a line of its own, by its own counter. Only with [`Driver::Thread`].
    /// Faults of the keeper then do nothing.
    pub per_cpu: bool,
    /// Threads bar and unbar the clock again and again, after pauses of up to this length, ns; 0
    /// means never. The driver then leaves first lines in use. On a machine whose clocks agree, the
    /// same states recur again and again. Only with [`Driver::Thread`], and not with `per_cpu`.
    pub bar_ns: u64,
}

/// The threads that run the iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// A thread of the clock.
    Thread,
    /// Any reader that finds an iteration due.
    Reader,
}

/// Delays that happen by chance, at each step of each thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Chance {
    /// A thread is preempted before one step in this many; 0 for never.
    pub preempt_one_in: u64,
    /// The longest preemption, ns. Short preemptions are more frequent.
    pub preempt_ns: u64,
    /// A thread is stopped for a long time before one step in this many; 0 for never.
    pub stall_one_in: u64,
    /// The longest such stop, ns.
    pub stall_ns: u64,
    /// The largest distance between a read of the counter in program order and its execution, ns.
    pub out_of_order_ns: u64,
}

/// A fault at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedFault {
    /// The time of the fault, ns of true time.
    pub at_ns: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault of the machine, or an action of the program, the kernel or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The reference runs at another rate from now on.
    Rate {
        /// The difference from the nominal rate, ppb.
        ppb: i64,
        /// Whether `adjtimex` reports the new rate.
        announced: bool,
    },
    /// The user sets Unix time.
    UnixStep {
        /// The change, ns.
        by_ns: i64,
    },
    /// The monotonic clock jumps ahead, because a hypervisor has resumed the machine elsewhere.
    Jump {
        /// The change, ns.
        by_ns: u64,
    },
    /// No thread runs for a while.
    Suspend(Suspend),
    /// The counter has another rate from now on, because of a migration between hosts.
    CounterRate {
        /// The difference from the rate before, ppb.
        ppb: i64,
    },
    /// A read of the reference takes more or less time from now on, because more or fewer CPUs wait
    /// for the same device.
    Bracket {
        /// The new [`Machine::bracket_ns`].
        ns: u64,
    },
    /// All threads on one CPU stop, because the hypervisor does not schedule the vCPU.
    Pause {
        /// The CPU.
        cpu: u32,
        /// The duration, ns.
        for_ns: u64,
    },
    /// All CPUs stop for a system management interrupt.
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
    /// The thread that drives the clock does not run. Readers that drive it do not run either.
    Starve {
        /// The duration, ns.
        for_ns: u64,
    },
    /// The thread that drives the clock is killed, at any step of its next iteration. It never
    /// releases the clock's lock.
    DriverDies,
    /// A thread of its own starts to drive the clock.
    DriverStarts,
    /// The process forks. Only one reader goes on, in a copy of the memory.
    Fork,
    /// The program switches the counter off. If the program's actions are close to each other,
    /// several threads carry them out.
    Disable,
    /// The program switches the counter on again.
    Enable,
    /// The program sets another policy. The line ends, and the driver judges the gates again.
    JudgeAgain,
    /// From now on judgements decide this.
    Decision {
        /// The result.
        decision: Decision,
    },
}

/// What a judgement of the gates decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Every gate is open.
    Open,
    /// A gate is closed for a reason that passes by itself. The driver judges again an interval
    /// later.
    Passing,
    /// A gate is closed. The driver checks the facts now and then, and judges again when they
    /// change.
    Closed,
}

/// A suspend of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspend {
    /// The duration, ns.
    pub for_ns: u64,
    /// The behaviour of the counter.
    pub counter: CounterInSuspend,
    /// Whether the reference goes on.
    pub reference_runs: bool,
}

/// The behaviour of the counter in a suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The limit of [`Chance::out_of_order_ns`]: the margin of the meeting point allows for it, and for
/// the time of a step.
pub const MAX_OUT_OF_ORDER_NS: u64 = MEETING_MARGIN_NS * 4 / 5;

/// The limit of [`Machine::cpus`].
pub(crate) const MAX_CPUS: usize = 8;

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

impl Fault {
    /// This fault at `at_ms`, ms of true time.
    #[must_use]
    pub const fn at_ms(self, at_ms: u64) -> TimedFault {
        TimedFault {
            at_ns: at_ms * 1_000_000,
            fault: self,
        }
    }
}

impl Scenario {
    /// Makes the same states recur again and again. Counter and reference agree exactly, and have a
    /// resolution of a microsecond. Threads bar and unbar the clock all the time, so one first line
    /// follows another, mostly with the same slope and the same `b`. Threads are stopped for longer
    /// than the count takes to wrap around.
    pub fn repeat(&mut self) {
        let machine = &mut self.machine;
        machine.counter_hz = SECOND;
        machine.counter_resolution_ticks = 1_000;
        machine.counter_origin = 0;
        machine.cpu_difference_ticks = 0;
        machine.same_counter = true;
        machine.reference_origin_ns = 0;
        machine.rate_ppb = 0;
        machine.resolution_ns = 1;
        machine.bracket_ns = 10;
        machine.stale_ns = 0;
        machine.dither_ppb = 0;
        machine.wander_ppb = 0;
        self.clock.interval_ns = 50_000;
        self.clock.bar_ns = 300_000;
        self.clock.driver = Driver::Thread;
        self.duration_ns = 60 * SECOND;
        self.think_ns = 100_000;
        self.reads_regularly = false;
        self.chance.preempt_one_in = 1_000;
        self.chance.preempt_ns = 2_000_000;
        self.chance.stall_one_in = 0;
        self.faults = Vec::new();
    }
}
