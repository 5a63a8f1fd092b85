//! The table, and calibrations of this machine's CPUs.

use std::sync::Arc;
use std::time::Duration;

use tickline_core::control::{Cadence, MIN_INTERVAL_NS};
use tickline_core::driver::{CpusPermit, DrivenClock, Next};
use tickline_core::gate::keeper::{Decision, LineKind};
use tickline_core::reference::{ReferenceKind, Resolutions};
use tickline_core::state::LineState;
use tickline_core::try_lock::LockToken;

use super::calibrations::CpuCalibrations;
use super::*;
use crate::engine::Engine;
use crate::settings::{Driver, Settings};
use crate::sys::{AffinityGuard, CpuMask, StoppableSleep, WakeCause};
use crate::testing::skip;
use crate::thread::ClockThread;

/// The interval of the passes below, ns.
const INTERVAL_NS: u64 = 10_000_000;

/// Passes over the CPUs of this machine, with ids in the table that no CPU has.
struct Passes<'a> {
    cpu_lines: CpuLines,
    calibrations: CpuCalibrations,
    permit: CpusPermit<'a>,
    sleep: StoppableSleep,
    /// The CPUs on which this thread may run.
    mask: CpuMask,
    /// The id of a CPU that does not exist. A reader has asked for its line.
    absent: usize,
}

impl<'a> Passes<'a> {
    /// Passes for `clock`, before the first one. `None`, with a message, if they are impossible
    /// here.
    #[allow(
        unreachable_code,
        unused_variables,
        reason = "some targets have no counter that reads the CPU's id"
    )]
    fn new(clock: &'a DrivenClock) -> Option<Self> {
        let Requirements { counter, cpu_ids } =
            Requirements::of_this_machine().map_err(skip).ok()?;
        if !sys::may_read_counter() {
            skip("the counter cannot be used here");
            return None;
        }
        let Some(mask) = CpuMask::for_current_thread() else {
            skip("no way to say where this thread may run");
            return None;
        };
        clock.set_line_kind(LineKind::PerCpu);
        let Next::Judge(ticket) = clock.ask(sys::lock_token(), &OsClock) else {
            panic!("a judgement is due");
        };
        let decision = Decision::Open {
            resolutions: Resolutions::new(0, 1, ReferenceKind::Independent),
            serves_unix_time: true,
        };
        let Next::CalibrateCpus(permit) = ticket.settle(decision, sys::COUNTER.as_ref(), &OsClock)
        else {
            panic!("every gate is open");
        };
        let cpu_lines = CpuLines::with(Requirements {
            counter,
            cpu_ids: cpu_ids + 3,
        });
        let absent = cpu_ids + 1;
        cpu_lines.records[absent].report_miss();
        Some(Self {
            cpu_lines,
            calibrations: CpuCalibrations::default(),
            permit,
            sleep: StoppableSleep::notifying_clock_set(),
            mask,
            absent,
        })
    }

    /// One pass. Returns the time until the next one, ns.
    fn run(&mut self) -> u64 {
        self.calibrations
            .run(&self.cpu_lines, &self.permit, INTERVAL_NS, &self.sleep)
    }

    /// The records of the CPUs on which this thread may run.
    fn records(&self) -> impl Iterator<Item = &CpuRecord> {
        let records = (0..).zip(&self.cpu_lines.records);
        records.filter_map(|(cpu, record)| self.mask.contains(cpu).then_some(record))
    }

    /// The status of the absent CPU, if the thread calibrates it.
    fn absent_status(&self) -> Option<CpuStatus> {
        let is_absent = |cpu: &CpuStatus| cpu.cpu as usize == self.absent;
        self.cpu_lines.status().into_iter().find(is_absent)
    }

    /// The end of the last line, ns; `None` if no CPU has a line.
    fn last_end_ns(&self) -> Option<i64> {
        let clocks = self.cpu_lines.clocks.iter();
        clocks
            .filter(|clock| clock.cell().load().is_published())
            .map(|clock| clock.cell().snapshot())
            .map(|line| line.ns_at(line.validity_end_ticks()))
            .max()
    }
}

/// A clock without a line.
fn new_clock() -> DrivenClock {
    DrivenClock::new(SharedClock::new(LineCell::new()))
}

#[test]
fn the_next_pass_is_due_within_an_interval() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    let wait_ns = passes.run();
    assert!(
        (MIN_INTERVAL_NS..=INTERVAL_NS).contains(&wait_ns),
        "{wait_ns}"
    );
}

#[test]
fn a_cpu_that_is_still_to_get_a_line_is_awaited() {
    let clock = new_clock();
    let Some(passes) = Passes::new(&clock) else {
        return;
    };
    assert!(passes.cpu_lines.awaits_line_here());
}

#[test]
fn a_cpu_that_was_given_up_is_not_awaited() {
    let clock = new_clock();
    let Some(passes) = Passes::new(&clock) else {
        return;
    };
    let long_ago_ns = OsClock.monotonic_ns() - FALLBACK_AFTER_NS;
    for record in passes.records() {
        // ORDERING: Relaxed; the same thread loads it.
        record
            .calibrated_since_ns
            .store(long_ago_ns, Ordering::Relaxed);
    }
    assert!(!passes.cpu_lines.awaits_line_here());
}

#[test]
fn a_pass_that_a_set_clock_has_woken_is_followed_at_once() {
    let mut calibrations = CpuCalibrations::default();
    let wait_ns = calibrations.wait_after_pass_ns(WakeCause::ClockSet, i64::MAX);
    assert_eq!(wait_ns, MIN_INTERVAL_NS);
}

#[test]
fn a_pass_that_a_set_clock_has_woken_makes_every_cpu_due() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let calibrations = &mut passes.calibrations;
    _ = calibrations.wait_after_pass_ns(WakeCause::ClockSet, i64::MAX);
    let mut calibrated = calibrations.cpus.iter().flatten();
    assert!(calibrated.all(|control| control.due_ns() == i64::MIN));
}

#[test]
fn a_pass_fulfils_the_requests_for_the_cpus_of_the_mask() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.records().for_each(CpuRecord::report_miss);
    passes.run();
    // ORDERING: Relaxed: one thread.
    let is_requested = |record: &CpuRecord| record.has_missed.load(Ordering::Relaxed);
    assert!(!passes.records().any(is_requested));
}

#[test]
fn the_next_pass_begins_with_another_cpu() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let first = passes.calibrations.first;
    passes.calibrations.force_due();
    passes.cpu_lines.records[passes.absent].report_miss();
    passes.run();
    assert_ne!(passes.calibrations.first, first);
}

#[test]
fn a_pass_gives_the_thread_its_cpus_back() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let after = CpuMask::for_current_thread();
    let may_run = |cpu| after.as_ref().is_some_and(|mask| mask.contains(cpu));
    let mut ids = (0..).take(passes.cpu_lines.clocks.len());
    assert!(ids.all(|cpu| passes.mask.contains(cpu) == may_run(cpu)));
}

#[test]
fn a_cpu_that_the_thread_cannot_reach_fails_alone() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let absent = passes.absent_status().expect("a reader has asked for it");
    assert_eq!(absent.failures, 1);
    assert_eq!(
        (absent.state, absent.age_ns),
        (ClockState::Calibrating, None)
    );
    // CPUs of the mask may fail, too, if the kernel numbers them otherwise than the register.
    let mut others = passes.cpu_lines.status();
    others.retain(|cpu| cpu.cpu != absent.cpu);
    assert!(
        others.iter().all(|cpu| passes.mask.contains(cpu.cpu)),
        "{others:?}"
    );
}

#[test]
fn a_cpu_is_left_out_while_no_reader_asks_for_it() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    passes.calibrations.force_due(); // as if it were due, and more than 15 s had passed
    passes.run();
    assert_eq!(passes.absent_status(), None, "nobody has asked again");
    passes.cpu_lines.records[passes.absent].report_miss();
    passes.run();
    assert!(passes.absent_status().is_some(), "a reader has asked again");
}

/// Symptom: the 15 s after which a CPU is given up began anew if a pass came before the next miss.
#[test]
fn a_pass_before_a_reader_asks_again_keeps_the_time_since_which_a_cpu_is_calibrated() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    // ORDERING: Relaxed: one thread.
    let order = Ordering::Relaxed;
    passes.run();
    let record = |passes: &Passes<'_>| {
        passes.cpu_lines.records[passes.absent]
            .calibrated_since_ns
            .load(order)
    };
    let first_ns = record(&passes);
    passes.run();
    passes.cpu_lines.records[passes.absent].report_miss();
    passes.run();
    assert_eq!(record(&passes), first_ns);
}

#[test]
fn the_lines_are_at_most_the_time_at_which_the_last_one_ends() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let end_ns = passes.last_end_ns().unwrap_or(0);
    let reference_ns = end_ns.max(OsClock.monotonic_ns());
    assert!(passes.cpu_lines.are_all_at_most(reference_ns));
}

#[test]
fn a_line_may_be_later_than_a_time_before_its_end() {
    let clock = new_clock();
    let Some(mut passes) = Passes::new(&clock) else {
        return;
    };
    passes.run();
    let Some(end_ns) = passes.last_end_ns() else {
        return skip("no CPU has a line");
    };
    assert!(!passes.cpu_lines.are_all_at_most(end_ns - 1));
}

/// Passes until a CPU has a line. `None`, with a message, if that is impossible here. A busy
/// machine takes several.
fn passes_with_a_line(clock: &DrivenClock) -> Option<Passes<'_>> {
    let mut passes = Passes::new(clock)?;
    for _ in 0..100 {
        passes.run();
        if passes.last_end_ns().is_some() {
            return Some(passes);
        }
    }
    skip("no CPU has a line");
    None
}

/// Passes until a CPU has had a line, and all lines have ended.
fn passes_with_ended_lines(clock: &DrivenClock) -> Option<Passes<'_>> {
    let passes = passes_with_a_line(clock)?;
    while passes.last_end_ns() >= Some(OsClock.monotonic_ns()) {
        std::thread::yield_now();
    }
    Some(passes)
}

/// Symptom: the clock's state was `Fast` until a reader found that the line had ended.
#[test]
fn cpus_whose_lines_have_ended_have_none() {
    let clock = new_clock();
    if let Some(passes) = passes_with_ended_lines(&clock) {
        assert!(!passes.cpu_lines.has_line());
    }
}

#[test]
fn a_cpu_whose_line_has_ended_is_not_fast() {
    let clock = new_clock();
    if let Some(passes) = passes_with_ended_lines(&clock) {
        let cpus = passes.cpu_lines.status();
        let is_fast = |cpu: &CpuStatus| cpu.state == ClockState::Fast;
        assert!(!cpus.is_empty() && !cpus.iter().any(is_fast), "{cpus:?}");
    }
}

#[test]
fn a_cpu_has_a_line_until_its_end() {
    let clock = new_clock();
    let Some(passes) = passes_with_a_line(&clock) else {
        return;
    };
    let mut clocks = passes.cpu_lines.clocks.iter();
    let with_line = clocks.find(|clock| clock.cell().load().is_published());
    let with_line = with_line.expect("a CPU has a line");
    let line = with_line.cell().snapshot();
    let end_ns = line.ns_at(line.validity_end_ticks());
    assert!(has_line_at(with_line, end_ns));
    assert!(!has_line_at(with_line, end_ns + 1));
}

/// Sets a CPU's high-water mark to `b_ns`, as the end of a line so far ahead would.
fn set_high_water(clock: &SharedClock, b_ns: i64) {
    let mark = LineState {
        b: b_ns,
        ..LineState::default()
    };
    while !clock.cell().try_swap(clock.cell().load(), mark) {}
}

/// Starts the engine's thread, and waits until each CPU has a line. `None`, with a message, if that
/// is impossible here.
fn with_cpus_lines(engine: &Arc<Engine>) -> Option<(ClockThread<Arc<Engine>>, &CpuLines)> {
    let interval = Duration::from_millis(10);
    let settings = Settings {
        line_per_cpu: LinePerCpu::On,
        interval,
        ..Settings::DEFAULT
    };
    engine.apply(&settings);
    let thread = ClockThread::start(Arc::clone(engine), settings).expect("a thread");
    loop {
        match engine.cpu_lines() {
            Some(cpu_lines) => return Some((thread, cpu_lines)),
            None if Requirements::of_this_machine().is_err()
                || engine.clock.stage().is_closed() =>
            {
                break;
            }
            None => std::thread::yield_now(),
        }
    }
    skip("there can be no line for each CPU here");
    None
}

/// After the thread's end, or in a forked child, readers keep the CPUs' lines until the OS clock
/// has caught up with all of them. Symptom: readings stepped back at the thread's end. In a child
/// the second reading stepped back, and on other CPUs any reading.
#[test]
fn readers_leave_the_cpus_lines_in_order() {
    let engine = Arc::new(Engine::new(Driver::Reader));
    let Some((thread, cpu_lines)) = with_cpus_lines(&engine) else {
        return;
    };
    let Some(mask) = CpuMask::for_current_thread() else {
        return skip("no way to say where this thread may run");
    };
    let here = (0..)
        .take(cpu_lines.clocks.len())
        .find(|cpu| mask.contains(*cpu))
        .expect("this CPU");
    let mut affinity = AffinityGuard::new(mask);
    assert!(affinity.pin(here), "it is in the mask");
    let mut most_ns = 0;
    for (cpu, clock) in (0..).zip(&cpu_lines.clocks) {
        let ahead_ns = if cpu == here { 20_000_000 } else { 100_000_000 };
        let mark_ns = OsClock.monotonic_ns() + ahead_ns;
        set_high_water(clock, mark_ns);
        most_ns = most_ns.max(mark_ns);
    }
    drop(thread);
    let mut last = crate::Instant::ZERO;
    while engine.cpu_lines().is_some() {
        let now = engine.now_ordered();
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    let now = engine.now_ordered();
    assert!(now >= last, "{now:?} after {last:?}");
    assert!(
        now.as_signed_nanos() >= most_ns,
        "{now:?}, though others may have read {most_ns}"
    );
}

/// Symptom: a forked child took the clock's lock over from its parent's thread, and could not judge
/// yet. Readings by the OS clock were then below earlier ones by the CPUs' lines.
#[test]
fn a_child_that_takes_the_lock_over_keeps_the_cpus_lines() {
    let engine = Arc::new(Engine::new(Driver::Reader));
    let Some((thread, cpu_lines)) = with_cpus_lines(&engine) else {
        return;
    };
    cpu_lines
        .clocks
        .iter()
        .for_each(|clock| set_high_water(clock, 0));
    engine.now_ordered();
    assert!(engine.cpu_lines().is_some(), "the thread renews them");
    let mark_ns = OsClock.monotonic_ns() + 10_000_000_000;
    cpu_lines
        .clocks
        .iter()
        .for_each(|clock| set_high_water(clock, mark_ns));
    drop(thread);
    assert_eq!(engine.now_ordered().as_signed_nanos(), mark_ns);
    // The lock stays held, as in a child that is forked while its parent's thread holds the lock.
    // SAFETY: the guard is not used any more, as if its holder were in another process.
    let parents = unsafe { LockToken::new(sys::process_number().saturating_add(1)) };
    let held = engine.clock.lock(parents);
    core::mem::forget(held.expect("a free lock"));
    let others = engine.collector();
    _ = engine.iterate(Cadence::Scheduled);
    assert_eq!(
        engine.now_ordered().as_signed_nanos(),
        mark_ns,
        "the facts are another thread's"
    );
    drop(others);
    _ = engine.iterate(Cadence::Scheduled);
    assert_eq!(
        engine.now_ordered().as_signed_nanos(),
        mark_ns,
        "judged again"
    );
}

#[test]
fn a_cpu_without_a_line_falls_back_after_15_s() {
    assert_eq!(
        [0, 14_999_999_999].map(state_after_ns),
        [ClockState::Calibrating; 2]
    );
    assert_eq!(
        state_after_ns(15_000_000_000),
        ClockState::Fallback(Reason::NoLine)
    );
}

#[test]
fn a_counter_tells_4096_cpu_ids_apart_and_no_more() {
    assert_eq!(checked_ids(1), Ok(1));
    assert_eq!(checked_ids(4_096), Ok(4_096));
    assert_eq!(checked_ids(4_097), Err(Unmet::CpuIds(4_097)));
}

#[test]
fn too_many_cpu_ids_are_named_with_their_limit() {
    assert_eq!(
        Unmet::CpuIds(5_000).to_string(),
        "this system has 5000 CPU ids, and the processor's register holds at most 4096"
    );
}

/// Each result of a comparison, and whether the counters are unsynchronised.
fn comparisons() -> [(CounterComparison, bool); 5] {
    use tickline_core::comparison::CounterDifference;
    let unsynchronised = CounterComparison::Unsynchronised {
        cpu: 0,
        other_cpu: 1,
        difference: CounterDifference {
            min_ticks: 900,
            max_ticks: 1_000,
        },
    };
    [
        (CounterComparison::Pending, false),
        (CounterComparison::Single, false),
        (
            CounterComparison::Synchronised {
                cpus: 2,
                max_difference_ticks: 400,
            },
            false,
        ),
        (CounterComparison::Impossible, false),
        (unsynchronised, true),
    ]
}

#[test]
fn auto_wants_a_line_for_each_cpu_only_if_the_counters_are_unsynchronised() {
    for (comparison, is_wanted) in comparisons() {
        let wanted = wants_line_per_cpu(LinePerCpu::Auto, comparison);
        assert_eq!(wanted, is_wanted, "{comparison:?}");
    }
}

#[test]
fn the_builder_overrules_the_comparison() {
    for (comparison, _) in comparisons() {
        let wanted =
            [LinePerCpu::On, LinePerCpu::Off].map(|choice| wants_line_per_cpu(choice, comparison));
        assert_eq!(wanted, [true, false], "{comparison:?}");
    }
}

#[test]
fn the_cpus_loops_have_the_interval_of_the_clock() {
    let engine = Engine::new(Driver::Manual);
    engine.apply(&Settings {
        line_per_cpu: LinePerCpu::On,
        interval: Duration::from_millis(70),
        ..Settings::DEFAULT
    });
    let mut calibrations = CpuCalibrations::default();
    let sleep = StoppableSleep::plain();
    let iterated = engine.calibrate_cpus(&mut calibrations, &sleep);
    let controls: Vec<_> = calibrations.cpus.iter().flatten().collect();
    if iterated.is_err() || controls.is_empty() {
        return skip("there can be no line for each CPU here");
    }
    for control in controls {
        assert_eq!(control.control().config.interval_ns, 70_000_000);
    }
}
