//! Asks for the facts about blocks and slices of pairs.

use std::ffi::c_long;
use std::time::Duration;

use crate::evidence::{self, Facts};
use crate::number::round;
use crate::pairs::cause::Cause;
use crate::pairs::spin::{Spinner, Spins};
use crate::session::Session;
use crate::time::CounterTime;

/// A block ends after this time, or after [`BLOCK_PAIRS`]. Asking for the thread's preemptions
/// takes 0.2 us (AMD EPYC under KVM), 0.4 % of a block. The scheduler lets some 3 ms pass between
/// two preemptions, so the block that one of them excludes is one in 60.
const BLOCK: Duration = Duration::from_micros(50);
pub(crate) const BLOCK_PAIRS: usize = 1_024;

/// A slice ends after this time: the unit of `/proc/stat`.
const SLICE: Duration = Duration::from_millis(10);

/// The loop that shows interrupts runs for this part of each block.
const SPIN_PART: u64 = 16;

/// The facts at the end of the last block and of the last slice.
#[derive(Debug)]
pub(crate) struct Monitor {
    /// The length of a block; that of a slice follows.
    pub(crate) block_ticks: u64,
    pub(crate) slice_ticks: u64,
    /// The loop that shows interrupts; `None` where the OS clock measures.
    spinner: Option<Spinner>,
    preemptions: Option<c_long>,
    facts: Facts,
}

impl Monitor {
    pub(crate) fn new(time: &CounterTime) -> Self {
        let ns_per_tick = time.scale().ns_per_tick;
        let ticks = |duration: Duration| round(duration.as_secs_f64() * 1e9 / ns_per_tick);
        Self {
            block_ticks: ticks(BLOCK),
            slice_ticks: ticks(SLICE),
            spinner: time.session().map(|session| session.spinner),
            preemptions: None,
            facts: Facts::default(),
        }
    }

    /// What the loop has shown.
    pub(crate) fn spins(&self) -> Spins {
        self.spinner.map_or(Spins::default(), |spinner| spinner.spins)
    }

    /// Begins a sample on this CPU, with its first slice and block.
    pub(crate) fn begin(&mut self, time: &CounterTime, cpu: Option<usize>) {
        self.facts = Facts::of(cpu, time.session().map(Session::clock_facts));
        self.preemptions = evidence::preemptions();
    }

    /// Ends a block that took `ticks`, runs the loop, and begins the next block. Returns what
    /// disturbed all of the block.
    pub(crate) fn end_block(&mut self, ticks: u64) -> Option<Cause> {
        let for_ticks = ticks.min(self.block_ticks) / SPIN_PART;
        let before = self.spinner;
        if let Some(spinner) = &mut self.spinner {
            spinner.spin(for_ticks);
        }
        let preemptions = evidence::preemptions();
        let has_risen = self.preemptions.zip(preemptions).is_some_and(|(before, now)| now > before);
        self.preemptions = preemptions;
        if has_risen {
            // A preemption made a gap in the loop, too.
            self.spinner = before;
        }
        has_risen.then_some(Cause::Preempted)
    }

    /// Ends a slice, and begins the next one. Returns what disturbed all of the slice.
    pub(crate) fn end_slice(&mut self, time: &CounterTime, cpu: Option<usize>) -> Option<Cause> {
        let earlier = self.facts;
        self.begin(time, cpu);
        self.facts.disturbed_since(&earlier)
    }
}
