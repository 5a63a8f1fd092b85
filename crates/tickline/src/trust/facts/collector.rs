//! Collects the facts task by task. All tasks together take about 100 us, too long for one reading:
//! each call of a reader that drives the clock runs one. `benches/README.md` has the time of the
//! slowest call.
//!
//! A task reads two leaves of CPUID or one file of the kernel, or makes one measurement. It takes
//! at most about 10 us (AMD EPYC, family 26, under KVM, where CPUID traps). A task that reads the
//! counter first asks the kernel whether the process may read it. The clock's own facts may change
//! between two calls, so the collector takes them at the end.
//!
//! The collector makes no decision, does not allocate, and may run in a signal handler.

use tickline_core::clocksource::{Acceptance, Clocksource};
use tickline_core::comparison::CounterComparison;
use tickline_core::counter::{HardwareCounter, resolution_ticks};
use tickline_core::gate::{Cost, Facts, SwitchedOffBy};
use tickline_core::reference::Reference;

use super::cost::measure_cost;
use super::cpu::{is_counter_invariant, is_virtual};
use crate::environment::{EnvironmentSwitch, environment_switch};
use crate::settings::Probes;
use crate::sys::reference::OsClock;
use crate::sys::vmclock::VMCLOCK;
use crate::sys::{COUNTER, acceptance_of_counter, clocksource, may_read_counter};

/// The age at which a collection begins anew, ns. A program may stop reading between two tasks.
const COLLECTION_LASTS_NS: i64 = 1_000_000_000;

/// A task of a collection.
#[derive(Debug, Clone, Copy)]
enum Task {
    /// Collects no fact, because the caller's lock takes two system calls for its first token.
    Lock,
    Invariant,
    Virtual,
    Environment,
    Clocksource,
    Acceptance,
    /// Collects no fact: maps the hypervisor's device, which samples need.
    VmClock,
    Resolution,
    Cost,
}

/// The tasks in their order.
const TASKS: [Task; 9] = [
    Task::Lock,
    Task::Invariant,
    Task::Virtual,
    Task::Environment,
    Task::Clocksource,
    Task::Acceptance,
    Task::VmClock,
    Task::Resolution,
    Task::Cost,
];

/// The facts that are collected so far.
#[derive(Debug)]
pub(crate) struct Collector {
    /// The index of the next task.
    next: usize,
    begun_ns: i64,
    /// The count of changes of the keeper's word at the beginning of this collection.
    changes: u64,
    clocksource: Clocksource,
    acceptance: Acceptance,
    resolution_ticks: Option<u64>,
    cost: Option<Cost>,
}

/// Whether tickline may measure the counter. With minimal probes it does not ask the system whether
/// the process may read the counter, so it needs an earlier comparison, which has read the counter.
fn may_measure(probes: Probes, comparison: CounterComparison) -> bool {
    use CounterComparison::{Synchronised, Unsynchronised};
    probes == Probes::Full || matches!(comparison, Synchronised { .. } | Unsynchronised { .. })
}

/// Whether tickline may read the counter. With minimal probes this is true, without asking.
fn may_read(probes: Probes) -> bool {
    probes == Probes::Minimal || may_read_counter()
}

/// The counter, if tickline may read and measure it.
fn readable_counter(probes: Probes, comparison: CounterComparison) -> Option<HardwareCounter> {
    let counter = COUNTER?;
    (may_measure(probes, comparison) && may_read(probes)).then_some(counter)
}

impl Collector {
    pub(crate) const fn new() -> Self {
        Self {
            next: 0,
            begun_ns: 0,
            changes: 0,
            clocksource: Clocksource::Unknown,
            acceptance: Acceptance::Unknown,
            resolution_ticks: None,
            cost: None,
        }
    }

    /// Discards the collected facts.
    pub(crate) fn discard_facts(&mut self) {
        self.next = 0;
        self.clocksource = Clocksource::Unknown;
        self.acceptance = Acceptance::Unknown;
        self.resolution_ticks = None;
        self.cost = None;
    }

    /// Runs the next task. Returns whether all tasks were done before. `changes` counts the changes
    /// of the keeper's word; `comparison` is the last one that the clock knows.
    pub(crate) fn run_one(
        &mut self,
        changes: u64,
        probes: Probes,
        comparison: CounterComparison,
    ) -> bool {
        self.begin_if_stale(changes);
        let Some(&task) = TASKS.get(self.next) else {
            return true;
        };
        self.run(task, probes, comparison);
        self.next += 1;
        false
    }

    /// Runs `task`. Facts of the processor and the environment never change, and are cached. With
    /// minimal probes no task reads a file.
    fn run(&mut self, task: Task, probes: Probes, comparison: CounterComparison) {
        match task {
            Task::Lock => {}
            Task::Invariant => _ = is_counter_invariant(),
            Task::Virtual => _ = is_virtual(),
            Task::Environment => _ = environment_switch(probes),
            Task::Clocksource => {
                if probes == Probes::Full {
                    self.clocksource = clocksource();
                }
            }
            Task::Acceptance => {
                // A kernel that keeps time with the counter accepts it.
                if probes == Probes::Full && self.clocksource != HardwareCounter::CLOCKSOURCE {
                    self.acceptance = acceptance_of_counter();
                }
            }
            Task::VmClock => {
                if probes == Probes::Full {
                    VMCLOCK.map(OsClock::VMCLOCK);
                }
            }
            Task::Resolution => {
                let counter = readable_counter(probes, comparison);
                self.resolution_ticks = counter.map(|counter| resolution_ticks(&counter));
            }
            Task::Cost => {
                let counter = readable_counter(probes, comparison);
                self.cost = counter.map(|counter| measure_cost(&counter));
            }
        }
    }

    /// Begins anew if the collection is old, or if the keeper's word has changed since its
    /// beginning.
    fn begin_if_stale(&mut self, changes: u64) {
        let now_ns = OsClock.monotonic_ns();
        let is_old = now_ns.saturating_sub(self.begun_ns) > COLLECTION_LASTS_NS;
        if self.next == 0 || is_old || self.changes != changes {
            self.discard_facts();
            self.begun_ns = now_ns;
            self.changes = changes;
        }
    }

    /// Runs the tasks that are left, adds the facts about the machine to the clock's own, and
    /// discards the collection.
    pub(crate) fn finish(&mut self, changes: u64, probes: Probes, facts: &mut Facts) {
        self.begin_if_stale(changes);
        for &task in TASKS.iter().skip(self.next) {
            self.run(task, probes, facts.comparison);
        }
        if facts.switched_off_by.is_none() && environment_switch(probes) == EnvironmentSwitch::Off {
            facts.switched_off_by = Some(SwitchedOffBy::Environment);
        }
        // Asked again, because the right to read the counter may have changed meanwhile.
        facts.may_read_counter = may_read(probes);
        let may_measure = may_measure(probes, facts.comparison);
        let counter = if may_measure && facts.may_read_counter {
            COUNTER
        } else {
            None
        };
        facts.has_counter = COUNTER.is_some();
        facts.has_atomics = tickline_core::state::has_atomics();
        facts.is_invariant = is_counter_invariant();
        facts.is_virtual = is_virtual();
        facts.matching_clocksource = HardwareCounter::CLOCKSOURCE;
        // The probes may have changed since the tasks ran.
        if probes == Probes::Full {
            facts.clocksource = self.clocksource;
            facts.kernel_acceptance = self.acceptance;
        }
        if !may_measure {
            facts.comparison = CounterComparison::Pending;
        }
        facts.cost = counter.map(|counter| self.cost.unwrap_or_else(|| measure_cost(&counter)));
        facts.resolution_ticks = counter.map(|counter| {
            self.resolution_ticks
                .unwrap_or_else(|| resolution_ticks(&counter))
        });
        self.discard_facts();
    }
}

#[cfg(test)]
mod tests;
