//! Asks for the facts about blocks and slices of pairs.

use std::ffi::c_long;
use std::time::Duration;

use tickline::{Events, State};

use crate::evidence::{self, CpuFacts};
use crate::incidents::is_disturbed;
use crate::number::round;
use crate::pairs::cause::Cause;
use crate::pairs::slice::Preempted;
use crate::pairs::spin::{Spinner, Spins};
use crate::time::CounterTime;

/// A block ends after so long, or so many pairs. Asking how often the thread was preempted takes
/// 0.2 us (AMD EPYC under KVM), 0.4 % of this; and the pairs that a preemption takes along are one
/// in 60 of those between two of them, which the scheduler puts 3 ms apart.
const BLOCK: Duration = Duration::from_micros(50);
pub(crate) const BLOCK_PAIRS: usize = 1_024;

/// A slice ends after so long: the unit of `/proc/stat`.
const SLICE: Duration = Duration::from_millis(10);

/// The loop that shows interrupts runs for this part of each block.
const SPIN_PART: u64 = 16;

/// What is known since the last block and the last slice ended.
#[derive(Debug)]
pub(crate) struct Watch {
    /// In ticks.
    pub(crate) block_ticks: u64,
    pub(crate) slice_ticks: u64,
    spinner: Option<Spinner>,
    pub(crate) spins: Spins,
    preemptions: Option<c_long>,
    facts: CpuFacts,
    clock: Option<(Events, State)>,
}

impl Watch {
    pub(crate) fn new(time: &CounterTime) -> Self {
        let ns_per_tick = time.scale().ns_per_tick;
        let ticks = |duration: Duration| round(duration.as_secs_f64() * 1e9 / ns_per_tick);
        let (spinner, spins) = time.spinner().unzip();
        Self {
            block_ticks: ticks(BLOCK),
            slice_ticks: ticks(SLICE),
            spinner,
            spins: spins.unwrap_or_default(),
            preemptions: None,
            facts: CpuFacts::default(),
            clock: None,
        }
    }

    /// A sample, and its first slice and block, begin on this CPU.
    pub(crate) fn begin(&mut self, time: &CounterTime, cpu: Option<usize>) {
        self.facts = CpuFacts::of(cpu.or_else(evidence::cpu));
        self.clock = time.clock_facts();
        self.preemptions = evidence::preemptions();
    }

    /// A block that took so long ends, and the next one begins. The loop runs in between.
    pub(crate) fn end_block(&mut self, ticks: u64) -> Preempted {
        let for_ticks = ticks.min(self.block_ticks) / SPIN_PART;
        let spun = self.spinner.map(|spinner| spinner.spin(for_ticks));
        let preemptions = evidence::preemptions();
        let has_risen = self.preemptions.zip(preemptions).is_some_and(|(before, now)| now > before);
        self.preemptions = preemptions;
        if has_risen {
            return Preempted::Yes;
        }
        if let Some(spun) = spun {
            self.spins.add(&spun);
        }
        Preempted::No
    }

    /// A slice ends, and the next one begins. What disturbed all of it.
    pub(crate) fn end_slice(&mut self, time: &CounterTime, cpu: Option<usize>) -> Option<Cause> {
        let (facts, clock) = (self.facts, self.clock.take());
        self.begin(time, cpu);
        if clock.zip(self.clock.as_ref()).is_some_and(|(before, now)| has_been_disturbed(&before, now)) {
            Some(Cause::Clock)
        } else if self.facts.has_stolen_since(&facts) {
            Some(Cause::Stolen)
        } else if self.facts.has_changed_frequency_since(&facts) {
            Some(Cause::Frequency)
        } else {
            None
        }
    }
}

/// Whether tickline's clock noticed an event, or had a gate closed at one end.
fn has_been_disturbed((before, was): &(Events, State), (now, is): &(Events, State)) -> bool {
    is_disturbed(before, now) || [was, is].into_iter().any(|state| *state != State::Fast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_is_closed_at_one_end_disturbs_a_slice() {
        let clock = tickline::Clock::builder().driver(tickline::Driver::Manual).start().expect("a clock");
        let events = clock.status().events;
        let closed = State::Fallback(tickline::Reason::Disabled);
        let fast = (events, State::Fast);
        assert!(!has_been_disturbed(&fast, &fast));
        assert!(has_been_disturbed(&fast, &(events, closed)));
        assert!(has_been_disturbed(&(events, closed), &fast));
        clock.disable();
        let after = (clock.status().events, State::Fast);
        if after.0 == events {
            return eprintln!("SKIPPED: without a counter no gate can close");
        }
        assert!(has_been_disturbed(&fast, &after), "it was closed in between");
    }
}
