//! Reads the facts about blocks and slices of pairs.

use std::ffi::c_long;
use std::time::Duration;

use tickline_core::counter::HardwareCounter;

use crate::measurement::noise_loop::{Noise, NoiseLoop, have_risen};
use crate::measurement::readings::PairClock;
use crate::measurement::thread_meter::preemptions;
use crate::measurement::time::CounterTime;
use crate::number::round;
use crate::pairs::disturbance::Disturbance;
use crate::pairs::system_facts::{self, SystemFacts};

/// A block ends after this time, or after [`BLOCK_PAIRS`]. The system call for the thread's
/// preemptions takes 0.2 us (AMD EPYC under KVM), 0.4 % of a block. Between two preemptions the
/// scheduler lets about 3 ms pass, so a preemption excludes one block in 60.
const BLOCK: Duration = Duration::from_micros(50);
pub(crate) const BLOCK_PAIRS: usize = 1_024;

/// A slice ends after this time, which is the unit of `/proc/stat`.
const SLICE: Duration = Duration::from_millis(10);

/// After each block, the loop that detects interrupts runs for the block's time divided by this.
const RUN_PART: u64 = 16;

/// The facts at the end of the last block and of the last slice.
#[derive(Debug)]
pub(crate) struct Monitor {
    /// The longest duration of a block, and of a slice.
    pub(crate) block_ticks: u64,
    pub(crate) slice_ticks: u64,
    /// The loop that detects interrupts; `None` if the OS clock measures.
    noise_loop: Option<NoiseLoop>,
    preemptions: Option<c_long>,
    facts: SystemFacts,
}

impl Monitor {
    pub(crate) fn new(time: &CounterTime, ns_per_tick: f64) -> Self {
        let ticks = |duration: Duration| round(duration.as_secs_f64() * 1e9 / ns_per_tick);
        Self {
            block_ticks: ticks(BLOCK),
            slice_ticks: ticks(SLICE),
            noise_loop: noise_loop(time, ns_per_tick),
            preemptions: None,
            facts: SystemFacts::default(),
        }
    }

    pub(crate) fn noise(&self) -> Noise {
        self.noise_loop
            .map_or(Noise::default(), |noise_loop| noise_loop.noise)
    }

    /// Begins a slice, and its first block.
    pub(crate) fn begin(&mut self, time: &CounterTime) {
        self.facts = SystemFacts::read(system_facts::cpu(), time);
        self.preemptions = preemptions();
    }

    /// Ends a block that took `ticks`, runs the loop, and begins the next block. Returns the
    /// disturbance of the whole block.
    pub(crate) fn end_block(&mut self, ticks: u64) -> Option<Disturbance> {
        let for_ticks = ticks.min(self.slice_ticks) / RUN_PART;
        let now = match &mut self.noise_loop {
            Some(noise_loop) => noise_loop.run_since(self.preemptions, for_ticks, preemptions),
            None => preemptions(),
        };
        let is_preempted = have_risen(self.preemptions, now);
        self.preemptions = now;
        is_preempted.then_some(Disturbance::Preempted)
    }

    /// Ends a slice, and begins the next one. Returns the disturbance of the whole slice, on the
    /// CPU on which it began.
    pub(crate) fn end_slice(&mut self, time: &CounterTime) -> Option<Disturbance> {
        let earlier = self.facts;
        let now = SystemFacts::read(earlier.cpu, time);
        if system_facts::cpu() == earlier.cpu {
            self.facts = now;
            self.preemptions = preemptions();
        } else {
            self.begin(time);
        }
        now.disturbed_since(&earlier)
    }
}

/// The loop after its first run; `None` if the OS clock measures.
fn noise_loop(time: &CounterTime, ns_per_tick: f64) -> Option<NoiseLoop> {
    if let Some(session) = time.session() {
        return Some(session.noise_loop);
    }
    match time.pair_clock() {
        PairClock::Wall => None,
        // A process that serves measures by the counter, but has no session that has run the loop.
        PairClock::WithCpu(_) | PairClock::Plain(_) => {
            HardwareCounter::if_present().map(|counter| NoiseLoop::start(counter, ns_per_tick))
        }
    }
}

#[cfg(test)]
mod tests {
    use tickline_observe::skip;

    use super::*;
    use crate::measurement::error::{Error, ErrorKind};
    use crate::measurement::settings::{Counting, Settings};
    use crate::message::Messages;
    use crate::testing::counter;

    /// Symptom: after a move, all pairs of a slice were `stolen`, because the hypervisor had taken
    /// more from the new CPU since the system's start.
    #[test]
    fn a_slice_is_judged_by_the_cpu_on_which_it_began() {
        let time = CounterTime::builder()
            .quiet()
            .settle(Duration::MAX)
            .build_or_wall_time();
        let mut monitor = Monitor::new(&time, 1.0);
        monitor.begin(&time);
        for cpu in core_affinity::get_core_ids().unwrap_or_default() {
            core_affinity::set_for_current(cpu);
            monitor.end_slice(&time); // It panics if it compares facts of two CPUs.
            assert_eq!(monitor.facts.cpu, system_facts::cpu());
        }
    }

    fn monitor() -> Monitor {
        let time = CounterTime::builder()
            .quiet()
            .settle(Duration::MAX)
            .build_or_wall_time();
        Monitor::new(&time, 1.0)
    }

    #[test]
    fn blocks_take_50_us_and_slices_10_ms() {
        // The OS clock measures, whose ticks are ns.
        let monitor = monitor();
        assert_eq!(
            (monitor.block_ticks, monitor.slice_ticks),
            (50_000, 10_000_000)
        );
    }

    /// Symptom: with `--against`, interrupted pairs counted, because the loop had not run in a
    /// process that serves.
    #[test]
    fn the_noise_loop_has_run_in_a_process_that_serves() {
        let Some(clock) = PairClock::counter() else {
            return skip("no counter on this target");
        };
        let settings = Settings {
            messages: Messages::Shown,
            counting: Counting::Undisturbed,
            output_directory: None,
        };
        let serving = Error::new(ErrorKind::NotMeasuring, String::new());
        let time = CounterTime::from_parts(clock, Err(serving), settings);
        let noise = Monitor::new(&time, 1.0).noise();
        // The first run is 20 ms, without the parts in which the thread was preempted.
        assert!(noise.runtime_ticks > 1_000_000, "{noise:?}");
    }

    #[test]
    fn a_preemption_since_the_last_block_disturbs_the_block() {
        let mut monitor = monitor();
        for (before, disturbance) in [
            (Some(-1), Some(Disturbance::Preempted)),
            (Some(c_long::MAX), None),
            (None, None),
        ] {
            monitor.preemptions = before;
            let found = monitor.end_block(0);
            if preemptions().is_some() {
                assert_eq!(found, disturbance, "{before:?}");
            }
            assert_eq!(monitor.preemptions.is_some(), preemptions().is_some());
        }
    }

    /// The preemption may have made a gap in the loop.
    #[test]
    fn a_run_of_the_noise_loop_counts_unless_the_thread_was_preempted() {
        let Some(counter) = counter() else { return };
        let mut monitor = monitor();
        monitor.noise_loop = Some(NoiseLoop::calibrate(counter));
        monitor.preemptions = Some(-1);
        if monitor.end_block(16 * 1_000).is_some() {
            assert_eq!(monitor.noise().runtime_ticks, 0);
        }
        monitor.preemptions = None;
        monitor.end_block(16 * 1_000);
        assert!(
            monitor.noise().runtime_ticks >= 1_000,
            "{:?}",
            monitor.noise()
        );
    }

    /// Symptom: beside pairs of 1 ms it ran for 0.3 % of the time, and saw few of the pauses that
    /// pairs had.
    #[test]
    fn the_noise_loop_runs_a_sixteenth_of_a_long_pair() {
        let Some(counter) = counter() else { return };
        let mut monitor = monitor();
        monitor.noise_loop = Some(NoiseLoop::calibrate(counter));
        monitor.end_block(16 * 4 * monitor.block_ticks);
        assert!(monitor.noise().runtime_ticks >= 4 * monitor.block_ticks);
    }
}
