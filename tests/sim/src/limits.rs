//! The limits for a scenario: offsets, times without a line, order.

use tickline_core::control::{Cadence, MEETING_MARGIN_NS, MIN_INTERVAL_NS};

use crate::machine::{MAX_TICK_PS, PS};
use crate::scenario::{CounterInSuspend, Driver, Fault, Scenario, TimedFault};

// The chosen limits are generous. 80 million steps of random scenarios also pass with 0 for
// `MARK_SPARE_NS`, `LINE_OF_CPU_NS` or `OFFSET_SPARE_NS`, and with 1 ms for `LINE_OF_CLOCK_NS`
// (`cargo xtask sim --seed 100000 --steps 80000000`).

/// In the lead of a high-water mark, a sample's age counts as this many reads of the reference:
/// 0.6 of twice the 32 reads of a sample, rounded up. [`lost_ns`] explains the factors.
const AGE_IN_READS: u64 = 40;

/// What a high-water mark may lead by beyond the stops and the age of the sample, ns: the 0.4 ms
/// that `DESIGN.md` states, section "A line for each CPU".
const MARK_SPARE_NS: u64 = 400_000;

/// The time in which a thread that has come to a CPU starts its line, ns. A choice, not a
/// measurement: two of the longest preemptions of random scenarios.
const LINE_OF_CPU_NS: u64 = 40_000_000;

/// The time beyond an interval in which the driver has started a line, ns. A choice, not a
/// measurement: the longest preemption of random scenarios, and some four hundred of the shortest
/// intervals.
const LINE_OF_CLOCK_NS: u64 = 20_000_000;

/// What a reading may be off beyond the sum of all causes, ns. A choice, not a measurement: less
/// than the margin.
const OFFSET_SPARE_NS: u64 = 1_000;

/// What rounding adds to an offset or to Unix time, ns. A choice, not a measurement.
const ROUNDING_NS: u64 = 20;

/// The validity of a first line, ns: twice its window of twice the shortest interval.
const FIRST_VALID_NS: u64 = 4 * MIN_INTERVAL_NS;

/// What the rate of a first line may be off, ppb: twice 2e-3, to which a first fit knows the slope.
const FIRST_RATE_PPB: u64 = 4_000_000;

/// The limit of an offset is the closer one after this many intervals without a fault. A choice,
/// not a measurement: ten times the validity of a line, five times where each CPU has one.
const INTERVALS_UNTIL_CALM: u64 = 40;

const _: () = assert!(OFFSET_SPARE_NS < MEETING_MARGIN_NS);

/// The limits that every reading of a run must keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The largest step back of an ordered reading, ns: the difference of the counters.
    pub(crate) step_back_ns: i64,
    /// The largest offset at any time, ns; `None` if only the order is promised.
    pub(crate) offset_ns: Option<u64>,
    /// The largest offset after [`calm_after_ns`](Self::calm_after_ns) without a fault, ns.
    pub(crate) calm_offset_ns: u64,
    pub(crate) calm_after_ns: u64,
    /// The longest time from the end of a fault to the next line, ns; `None` if none is promised.
    pub(crate) without_line_ns: Option<u64>,
    /// The error that a read of Unix time adds, ns.
    pub(crate) unix_ns: u64,
    /// The distance by which dithering moves the reference off a straight line, ns.
    pub(crate) dither_ns: u64,
}

/// The longest validity of a line, in intervals.
pub(crate) fn valid_intervals(scenario: &Scenario) -> u64 {
    let cadence = if scenario.clock.per_cpu {
        Cadence::Pinned
    } else {
        Cadence::Scheduled
    };
    2 * cadence.window_intervals()
}

/// The largest lead of the high-water mark over the reference after the writer was moved to another
/// CPU in the middle of an iteration, ns. The mark assumes that the reference has been 36.9 %
/// slower since the iteration's sample (rule 5), so it leads by 0.6 of that time.
///
/// The writer accepts a sample only if its age is at most half of the interval. The age must also
/// be at most twice the time that sampling took, with its 32 reads of the reference. Stops by
/// chance may fill all of that age: a writer was stopped some ten times, by up to 20 ms, in one
/// iteration. Stops that a scenario lists within all of the last samples count for two, as
/// scenarios show. After the sample the writer is stopped at most three times. If a suspend can't
/// be ruled out, the mark is the end of the window.
fn lost_ns(scenario: &Scenario) -> u64 {
    let chance = &scenario.chance;
    let by_chance = [
        (chance.preempt_one_in, chance.preempt_ns),
        (chance.stall_one_in, chance.stall_ns),
    ];
    let by_chance = by_chance
        .into_iter()
        .filter(|(one_in, _)| *one_in != 0)
        .map(|(_, ns)| ns);
    let stops_by_chance = chance.preempt_one_in != 0 || chance.stall_one_in != 0;
    let may_move = stops_by_chance
        || scenario
            .faults
            .iter()
            .any(|timed| matches!(timed.fault, Fault::Offline { .. }));
    if !scenario.clock.per_cpu || !may_move {
        return 0;
    }
    let stops = scenario
        .faults
        .iter()
        .filter_map(|timed| match timed.fault {
            Fault::Pause { for_ns, .. } | Fault::Smi { for_ns } | Fault::Starve { for_ns } => {
                Some(for_ns)
            }
            _ => None,
        });
    // After a suspend the mark is the end of the window.
    let sleeps =
        |timed: &TimedFault| matches!(timed.fault, Fault::Suspend(of) if !of.reference_runs);
    if scenario.machine.hides_suspends || scenario.faults.iter().any(sleeps) {
        return u64::MAX;
    }
    let oldest_ns = scenario.clock.interval_ns * 3 / 10;
    let old_ns = if stops_by_chance {
        oldest_ns
    } else {
        let stop_ns = stops.clone().max().unwrap_or(0);
        (2 * stop_ns + AGE_IN_READS * longest_bracket_ns(scenario)).min(oldest_ns)
    };
    let stop_ns = by_chance.chain(stops).max().unwrap_or(0);
    2 * stop_ns + old_ns + MARK_SPARE_NS
}

/// The mean time of a read of the reference when it takes longest, ns.
fn longest_bracket_ns(scenario: &Scenario) -> u64 {
    let later = scenario
        .faults
        .iter()
        .filter_map(|timed| match timed.fault {
            Fault::Bracket { ns } => Some(ns),
            _ => None,
        });
    later.fold(scenario.machine.bracket_ns, u64::max)
}

fn share_ns(time_ns: u64, ppb: u64) -> u64 {
    u64::try_from(u128::from(time_ns) * u128::from(ppb) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// The effects of a scenario's faults on readings.
struct Disturbances {
    /// The sum of all possible leads and lags of readings or high-water marks, ns.
    jumps_ns: u64,
    /// The sum of all changes of rate, ppb.
    rates_ppb: u64,
}

impl Disturbances {
    /// The disturbances of `scenario`, whose lines have windows of up to `window_ns`.
    fn new(scenario: &Scenario, window_ns: u64) -> Self {
        let machine = &scenario.machine;
        let mut jumps_ns = 0_u64;
        let mut slowest = machine.rate_ppb;
        let mut fastest = machine.rate_ppb;
        let mut asleep_ns = 0_u64;
        let mut counter_ppb = 0_u64;
        for timed in &scenario.faults {
            match timed.fault {
                Fault::Rate { ppb, .. } => {
                    slowest = slowest.min(ppb);
                    fastest = fastest.max(ppb);
                }
                Fault::CounterRate { ppb } => counter_ppb += ppb.unsigned_abs(),
                Fault::Jump { by_ns } => jumps_ns = jumps_ns.saturating_add(by_ns),
                Fault::Suspend(suspend) => match (suspend.counter, suspend.reference_runs) {
                    (CounterInSuspend::Stops, true) => asleep_ns += suspend.for_ns,
                    // The high-water mark is at most the end of the window. If the counter is not
                    // reset, it behaves like one that stands still.
                    (CounterInSuspend::Resets, reference_runs) => {
                        jumps_ns += window_ns;
                        asleep_ns += if reference_runs { suspend.for_ns } else { 0 };
                    }
                    // A line that runs on, and a high-water mark, are ahead by at most the window.
                    // But a coarse reference may not contradict a first slope that a suspend has
                    // bent.
                    (CounterInSuspend::Runs, false) => {
                        let is_coarse = machine.resolution_ns > 1_000;
                        jumps_ns +=
                            suspend
                                .for_ns
                                .min(if is_coarse { u64::MAX } else { window_ns });
                    }
                    // Both run on, or both stand still.
                    (CounterInSuspend::Runs, true) | (CounterInSuspend::Stops, false) => {}
                },
                _ => {}
            }
        }
        if scenario.clock.per_cpu {
            jumps_ns = jumps_ns.saturating_add(lost_ns(scenario).min(window_ns));
        }
        let fastest_ppb = fastest.unsigned_abs().max(slowest.unsigned_abs());
        jumps_ns = jumps_ns.saturating_add(asleep_ns + share_ns(asleep_ns, fastest_ppb));
        let seconds = scenario.duration_ns / 1_000_000_000 + 1;
        let wander_ppb = machine.wander_ppb.unsigned_abs() * seconds.min(300);
        Self {
            jumps_ns,
            rates_ppb: fastest.abs_diff(slowest) + counter_ppb + wander_ppb,
        }
    }
}

/// Whether one line serves CPUs whose counters differ.
fn is_unsynchronised(scenario: &Scenario) -> bool {
    scenario.machine.cpu_difference_ticks != 0 && !scenario.clock.per_cpu
}

/// The longest time from the end of a fault to the next line, ns, on a machine whose counters
/// differ by up to `cpu_difference_ns` for a line that they share. `None` if no line is promised.
///
/// Readers that read rarely start no line. The lead-in of a line covers a difference between
/// counters of one margin. If the difference is larger, a reader whose counter is behind finds each
/// new line's start ahead of its counter. The reader takes this for a reset, and retires the line.
/// The slope of a first line is known to 2e-3, so a coarse reference needs seconds without a stop.
fn without_line_ns(scenario: &Scenario, cpu_difference_ns: u64) -> Option<u64> {
    let machine = &scenario.machine;
    let interval_ns = scenario.clock.interval_ns;
    let ahead_ns = cpu_difference_ns + scenario.chance.out_of_order_ns;
    let is_led_in = ahead_ns < MEETING_MARGIN_NS;
    let is_fine = machine.resolution_ns <= 1_000;
    if scenario.clock.per_cpu && is_fine {
        // If the thread can't be on a CPU, it comes back an interval later, and may first stay on
        // each of the others.
        Some(2 * interval_ns + LINE_OF_CPU_NS * u64::from(machine.cpus))
    } else if scenario.clock.driver == Driver::Thread && is_led_in && is_fine {
        Some(interval_ns + LINE_OF_CLOCK_NS)
    } else {
        None
    }
}

impl Limits {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let machine = &scenario.machine;
        let interval_ns = scenario.clock.interval_ns;
        let valid_ns = interval_ns * valid_intervals(scenario);
        // A suspend can put readings, and the high-water mark of a retired line, ahead of the
        // reference by as much as the window. Past the window, a line counts only for ticks that
        // the reference vouches for (rule 12).
        let window_ns = valid_ns / 2;
        let ticks_ns = |ticks: u64| (ticks * 1_000_000_000).div_ceil(machine.counter_hz) + 1;
        let is_unsynchronised = is_unsynchronised(scenario);
        let cpu_difference_ns = if is_unsynchronised {
            ticks_ns(machine.cpu_difference_ticks)
        } else {
            0
        };
        // A high-water mark that was taken on the CPU that is ahead also has a margin.
        let step_back_ns = if is_unsynchronised {
            cpu_difference_ns + MEETING_MARGIN_NS
        } else {
            0
        };
        // Two brackets: half a bracket at each end of the shortest baseline, and as much again by
        // extrapolation. A stale value is worse than a bracket of the same length, because the
        // bounds of the samples do not include it. The reference shows up to its resolution less
        // than its time.
        let bracket_ns = longest_bracket_ns(scenario);
        let read_ns = 4 * bracket_ns
            + 12 * machine.stale_ns
            + 3 * machine.resolution_ns
            + 2 * ticks_ns(machine.counter_resolution_ticks);
        // A high-water mark is the old line's time one margin later. The next line starts there,
        // one margin before its publication.
        let high_water_ns = 2 * MEETING_MARGIN_NS;
        let Disturbances {
            jumps_ns,
            rates_ppb,
        } = Disturbances::new(scenario, window_ns);
        let dither_ns = share_ns(MAX_TICK_PS / PS, 2 * machine.dither_ppb.unsigned_abs());
        let offset_ns = OFFSET_SPARE_NS
            + read_ns
            + high_water_ns
            + dither_ns
            // The line removes a jump by the end of its window. If no new line comes, it is off by
            // as much on the other side when its validity ends.
            + jumps_ns * 3 / 2
            + share_ns(valid_ns, 2 * rates_ppb)
            + share_ns(FIRST_VALID_NS, FIRST_RATE_PPB);
        Self {
            step_back_ns: i64::try_from(step_back_ns).expect("in its range"),
            // Brackets that begin on one CPU and end on another may make any slope. With
            // unsynchronised counters the clock therefore promises only order, and that only up to
            // their difference.
            offset_ns: (!is_unsynchronised).then_some(offset_ns),
            calm_offset_ns: read_ns
                + 2 * dither_ns
                + ROUNDING_NS
                + share_ns(valid_ns, 10 + 10 * machine.wander_ppb.unsigned_abs()),
            // A lead is slewed at half rate, so it takes twice as long to go.
            calm_after_ns: INTERVALS_UNTIL_CALM * interval_ns
                + 3 * jumps_ns
                + 2 * share_ns(valid_ns, 2 * rates_ppb),
            without_line_ns: without_line_ns(scenario, cpu_difference_ns),
            unix_ns: 4 * (bracket_ns + machine.resolution_ns) + ROUNDING_NS,
            dither_ns,
        }
    }
}
