//! Collects the facts task by task, so that no reader spends the time for all of them in one call.
//!
//! A task reads two leaves of CPUID or one file of the kernel, or makes one measurement. It takes
//! at most about 10 us (AMD EPYC, family 26, under KVM, where CPUID traps). A task that reads the
//! counter first asks the kernel whether the process may read it. The clock's own facts may change
//! between two calls, so the collector takes them at the end.
//!
//! The collector makes no decision, does not allocate, and may run in a signal handler.

use tickline_core::counter::{HardwareCounter, resolution_ticks_in};
use tickline_core::gate::{Clocksource, Cost, CounterComparison, Facts, Reason};
use tickline_core::reference::Reference;

use super::cost::measure_cost;
use super::cpu::{is_counter_invariant, is_virtual};
use super::environment::environment_switch;
use crate::options::{EnvironmentSwitch, Probes};
use crate::sys::reference::OsClock;
use crate::sys::{COUNTER, clocksource, is_accepted, may_read_counter};

/// The age at which a collection begins anew, ns. A program may stop reading between two tasks.
const COLLECTION_LASTS_NS: i64 = 1_000_000_000;

/// The tasks of a collection. Facts of the processor and the environment never change, and are
/// cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CollectionTask {
    /// Collects no fact, because the caller's lock takes two system calls for its first token.
    Begin,
    /// Whether the processor calls the counter invariant.
    Invariant,
    /// Whether the machine has a hypervisor.
    Hypervisor,
    /// The environment variable at the start of the process.
    Environment,
    Clocksource,
    Accepted,
    Resolution,
    Cost,
    Done,
}

/// The facts that are collected so far.
#[derive(Debug)]
pub(crate) struct Collector {
    next: CollectionTask,
    begun_ns: i64,
    /// The count of requests and switches in the keeper's word at the beginning of this collection.
    changes: u64,
    clocksource: Clocksource,
    kernel_accepts: Option<bool>,
    resolution_ticks: Option<u64>,
    cost: Option<Cost>,
    /// Memory for a task: the caller may be a signal handler with a small stack.
    differences: [u64; 127],
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

/// The counter, if tickline may read it for a measurement.
fn measurable(probes: Probes, comparison: CounterComparison) -> Option<HardwareCounter> {
    COUNTER.filter(|_| may_measure(probes, comparison) && may_read(probes))
}

impl Collector {
    pub(crate) const fn new() -> Self {
        Self {
            next: CollectionTask::Begin,
            begun_ns: 0,
            changes: 0,
            clocksource: Clocksource::Unknown,
            kernel_accepts: None,
            resolution_ticks: None,
            cost: None,
            differences: [0; 127],
        }
    }

    /// Discards the collected facts.
    pub(crate) fn discard_facts(&mut self) {
        self.next = CollectionTask::Begin;
        self.clocksource = Clocksource::Unknown;
        (self.kernel_accepts, self.resolution_ticks, self.cost) = (None, None, None);
    }

    /// Runs one task. Returns whether all tasks were done before. `changes` counts the changes of
    /// the keeper's word; `comparison` is the last one that the clock knows.
    pub(crate) fn run_one(&mut self, changes: u64, probes: Probes, comparison: CounterComparison) -> bool {
        self.begin_if_stale(changes);
        let was_done = self.next == CollectionTask::Done;
        self.advance(probes, comparison);
        was_done
    }

    /// Begins anew if the collection is old, or if the keeper's word has changed since its
    /// beginning.
    fn begin_if_stale(&mut self, changes: u64) {
        let now_ns = OsClock.monotonic_ns();
        let is_old = now_ns.saturating_sub(self.begun_ns) > COLLECTION_LASTS_NS;
        if self.next == CollectionTask::Begin || is_old || self.changes != changes {
            self.discard_facts();
            (self.begun_ns, self.changes) = (now_ns, changes);
        }
    }

    #[inline(never)]
    fn measure_resolution(&mut self, counter: Option<HardwareCounter>) -> Option<u64> {
        counter.map(|counter| resolution_ticks_in(&counter, &mut self.differences))
    }

    fn advance(&mut self, probes: Probes, comparison: CounterComparison) {
        self.next = match self.next {
            CollectionTask::Begin => CollectionTask::Invariant,
            CollectionTask::Invariant => {
                is_counter_invariant();
                CollectionTask::Hypervisor
            }
            CollectionTask::Hypervisor => {
                is_virtual();
                if probes == Probes::Full { CollectionTask::Environment } else { CollectionTask::Resolution }
            }
            CollectionTask::Environment => {
                environment_switch(probes);
                CollectionTask::Clocksource
            }
            CollectionTask::Clocksource => {
                self.clocksource = clocksource();
                // A kernel that keeps time with the counter accepts it.
                let uses = self.clocksource == HardwareCounter::CLOCKSOURCE;
                if uses { CollectionTask::Resolution } else { CollectionTask::Accepted }
            }
            CollectionTask::Accepted => {
                self.kernel_accepts = is_accepted();
                CollectionTask::Resolution
            }
            CollectionTask::Resolution => {
                self.resolution_ticks = self.measure_resolution(measurable(probes, comparison));
                CollectionTask::Cost
            }
            CollectionTask::Cost => {
                self.cost = measurable(probes, comparison).map(|counter| measure_cost(&counter));
                CollectionTask::Done
            }
            CollectionTask::Done => CollectionTask::Done,
        };
    }

    /// Runs the tasks that are left, adds the facts about the machine to the clock's own, and
    /// discards the collection.
    pub(crate) fn finish(&mut self, changes: u64, probes: Probes, facts: &mut Facts) {
        self.begin_if_stale(changes);
        while self.next != CollectionTask::Done {
            self.advance(probes, facts.comparison);
        }
        if facts.switched_off_by.is_none() && environment_switch(probes) == EnvironmentSwitch::Off {
            facts.switched_off_by = Some(Reason::DisabledByEnvironment);
        }
        // Asked again, because the right to read the counter may have changed meanwhile.
        facts.may_read_counter = may_read(probes);
        let may_measure = may_measure(probes, facts.comparison);
        let counter = COUNTER.filter(|_| facts.may_read_counter && may_measure);
        facts.has_counter = COUNTER.is_some();
        facts.has_atomics = tickline_core::cell::has_atomics();
        facts.is_invariant = is_counter_invariant();
        facts.is_virtual = is_virtual();
        facts.matching_clocksource = HardwareCounter::CLOCKSOURCE;
        if probes == Probes::Full {
            (facts.clocksource, facts.kernel_accepts) = (self.clocksource, self.kernel_accepts);
        }
        if !may_measure {
            facts.comparison = CounterComparison::Pending;
        }
        facts.cost = counter.map(|counter| self.cost.unwrap_or_else(|| measure_cost(&counter)));
        let known = self.resolution_ticks.filter(|_| counter.is_some());
        facts.resolution_ticks = known.or_else(|| self.measure_resolution(counter));
        self.discard_facts();
    }
}

#[cfg(test)]
mod tests;
