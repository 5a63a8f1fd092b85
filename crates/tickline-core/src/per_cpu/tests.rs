//! Tests of the CPUs' lines. Each test moves the thread, or calibrates the CPU, at an exact step.

// Hundreds of clocks become steady here, and there is no unsafe code: Miri would take too long.
#![cfg(not(miri))]

mod passes;
mod schedule;

use super::*;
use crate::cell::NextLine;
use crate::line::Slope;
use crate::shared::ReadingSource;
use crate::testing::{
    HookedCell, INTERVAL_NS, Machine, RESOLUTIONS, Step, interrupted, is_publish, is_replacing,
    leak,
};
use crate::units::FixedNs;

/// CPU 1 is ahead of CPU 0 by this many ticks (ns). It is less than a window, because the window
/// check alone would refuse a larger skew.
const SKEW_TICKS: u64 = 100_000_000;

type Clocks = [SharedClock<HookedCell>];

/// The instructions by which a plain reading gets the counter and the CPU's id.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PlainRead {
    One,
    /// Between which the thread may be moved.
    Two,
}

/// Two CPUs whose counters have one rate and different origins, and a thread on one of them.
struct Board {
    machine: &'static Machine,
    on: Cell<u32>,
    /// How `CpuCounter::now` reads the counter and the CPU's id.
    plain_read: PlainRead,
}

impl CpuCounter for Board {
    fn now(&self) -> Option<CpuRead> {
        if self.plain_read == PlainRead::One {
            return self.now_ordered();
        }
        self.machine.hooks.run(Step::CpuId);
        let before = self.on.get();
        let read = self.now_ordered()?;
        self.machine.hooks.run(Step::CpuId);
        (self.on.get() == before).then_some(CpuRead {
            cpu: before,
            ..read
        })
    }
    fn now_ordered(&self) -> Option<CpuRead> {
        let ticks = self.machine.now();
        let cpu = self.on.get();
        Some(CpuRead {
            ticks: ticks + SKEW_TICKS * u64::from(cpu),
            cpu,
        })
    }
    fn barrier(&self) {}
}

fn new_pass(machine: &Machine) -> Pass {
    Pass::begin(RESOLUTIONS, INTERVAL_NS, machine)
}

/// A board after iterations of both CPUs' loops, which are now in their steady state.
fn steady_board(plain_read: PlainRead) -> (&'static Board, &'static Clocks, [CpuControl; 2]) {
    let machine = Machine::new();
    let board = leak(Board {
        machine,
        on: Cell::new(0),
        plain_read,
    });
    let clocks = leak([(); 2].map(|()| SharedClock::new(HookedCell::new(machine))));
    let mut calibrations = [(); 2].map(|()| CpuControl::new(&new_pass(machine)));
    let mut steady = 0;
    for _ in 0..400 {
        let next = [0, 1].map(|cpu| calibrate(board, clocks, &mut calibrations, cpu));
        steady += u32::from(next == [INTERVAL_NS; 2]);
        if steady == 6 {
            machine.pass(100_000_000);
            board.on.set(0);
            return (board, clocks, calibrations);
        }
        machine.pass(next[0].min(next[1]));
    }
    panic!("the clocks did not become steady");
}

/// Runs an iteration on `cpu`. Returns the time until the next one, ns.
fn calibrate(
    board: &'static Board,
    clocks: &Clocks,
    calibrations: &mut [CpuControl; 2],
    cpu: u32,
) -> u64 {
    board.on.set(cpu);
    let calibration = &mut calibrations[cpu as usize];
    let clock = &clocks[cpu as usize];
    calibration.begin(&new_pass(board.machine));
    loop {
        let CpuIteration { iteration, stay } =
            calibration.iterate(clock, cpu, board, board.machine);
        let iteration = iteration.expect("the thread was just put there");
        if stay != Stay::Again {
            return iteration.next_in_ns;
        }
    }
}

/// Calibrates CPU 0 in a pass of its own. Returns the time until the next calibration, ns.
fn calibrate_in_pass(
    calibration: &mut CpuControl,
    resolutions: Resolutions,
    board: &Board,
    clocks: &Clocks,
) -> u64 {
    calibration.begin(&Pass::begin(resolutions, INTERVAL_NS, board.machine));
    loop {
        let done = calibration.iterate(&clocks[0], 0, board, board.machine);
        match done.stay {
            Stay::Again => {}
            Stay::Wait { ns } => board.machine.pass(ns),
            Stay::Leave => return done.iteration.expect("on the CPU").next_in_ns,
        }
    }
}

/// The first lines are short, so the thread stays until there is one that lasts until it is back.
#[test]
fn a_pass_leaves_a_line_that_lasts() {
    let (board, clocks, _) = steady_board(PlainRead::One);
    let mut calibration = CpuControl::new(&new_pass(board.machine));
    let next_in_ns = calibrate_in_pass(&mut calibration, RESOLUTIONS, board, clocks);
    assert!(next_in_ns > STAY_NS);
}

#[test]
fn a_cpu_whose_line_lasts_is_ready_when_it_is_due_and_not_before() {
    let (board, clocks, _) = steady_board(PlainRead::One);
    let mut calibration = CpuControl::new(&new_pass(board.machine));
    calibrate_in_pass(&mut calibration, RESOLUTIONS, board, clocks);
    let times_ns = [board.machine.truth_ns(), calibration.due_ns()];
    let ready = times_ns.map(|now_ns| calibration.is_ready(now_ns));
    assert_eq!(ready, [false, true]);
}

/// The kernel changes its clocksource. The old samples say nothing about the new clock. Symptom:
/// the bounds went on as if the new clock had no steps.
#[test]
fn a_pass_with_other_resolutions_begins_the_loop_anew() {
    let (board, clocks, _) = steady_board(PlainRead::One);
    let mut calibration = CpuControl::new(&new_pass(board.machine));
    let mut resolutions = RESOLUTIONS;
    calibrate_in_pass(&mut calibration, resolutions, board, clocks);
    resolutions.reference_ns = 20_000;
    calibrate_in_pass(&mut calibration, resolutions, board, clocks);
    assert!(!clocks[0].cell().load().is_published());
}

/// The readings of the fast path. Each returns ns of the reference.
const READINGS: [fn(&Clocks, &Board) -> Option<i64>; 4] = [
    |clocks, board| cpu_clock(clocks, board.now()).and_then(|clock| clock.read_ns()),
    |clocks, board| cpu_clock(clocks, board.now_ordered()).and_then(|clock| clock.read_ns()),
    |clocks, board| {
        let clock = cpu_clock(clocks, board.now())?;
        clock.read_unix_ns().map(|ns| ns - 1_000_000_000_000)
    },
    |clocks, board| {
        let clock = cpu_clock(clocks, board.now_ordered())?;
        clock.read_bounded().map(|line| line.ns)
    },
];

/// Runs `work` once for each of its steps, and moves the thread before that step. Returns the
/// number of steps.
fn moved_at_each_step(board: &'static Board, mut work: impl FnMut()) -> u32 {
    for wanted in 0..10_000 {
        let step = leak(Cell::new(0));
        board.machine.hooks.set(move |_| {
            if step.get() == wanted {
                board.machine.pass(20_000);
                board.on.set(1 - board.on.get());
            }
            step.set(step.get() + 1);
        });
        work();
        board.machine.hooks.clear();
        if step.get() <= wanted {
            return wanted;
        }
    }
    panic!("no end of steps");
}

/// The thread is moved before any step of a reading. The reading is refused, or is the right
/// time. It never combines one CPU's line with the other's counter, which would be off by 0.1 s.
#[test]
fn a_migration_never_pairs_a_line_with_another_counter() {
    for plain_read in [PlainRead::Two, PlainRead::One] {
        let mut refused = 0;
        for reading in READINGS {
            let (board, clocks, _) = steady_board(plain_read);
            let mut served = 0;
            let steps = moved_at_each_step(board, || {
                let before = board.machine.truth_ns();
                match reading(clocks, board) {
                    Some(ns) => {
                        let after = board.machine.truth_ns();
                        assert!(
                            (before - 50..after + 50).contains(&ns),
                            "off by {}",
                            ns - after
                        );
                        served += 1;
                    }
                    None => refused += 1,
                }
            });
            assert!(steps >= 3 && served > 0, "{steps} steps, {served} served");
        }
        // Only plain readings use two instructions to read counter and id. They notice a move
        // between the two.
        let is_right = match plain_read {
            PlainRead::One => refused == 0,
            PlainRead::Two => refused >= 2,
        };
        assert!(is_right, "{plain_read:?}: {refused} refused");
    }
}

/// The thread is moved before any step of a slow reading, which must not take the other CPU's
/// counter for one that was reset, or ran past the window.
#[test]
fn a_migration_never_ends_a_cpus_line() {
    for plain_read in [PlainRead::Two, PlainRead::One] {
        let (board, clocks, _) = steady_board(plain_read);
        let steps = moved_at_each_step(board, || {
            let before = board.machine.truth_ns();
            let SlowCpuReading { reading, .. } =
                read_ordered_on_this_cpu(clocks, board, board.machine).expect("in the table");
            let after = board.machine.truth_ns();
            assert!(
                (before - 50..after + 50).contains(&reading.ns),
                "off by {}",
                reading.ns - after
            );
            assert!(
                matches!(reading.source, ReadingSource::Line { .. }),
                "{reading:?}"
            );
        });
        assert!(steps >= 4, "{steps} steps");
        let has_line = |clock: &SharedClock<HookedCell>| clock.cell().load().is_published();
        assert!(clocks.iter().all(has_line));
    }
}

/// Replaces a clock's line by one of `ns` per 10 ticks, where the old line has 10 ns. The two meet
/// at the present tick.
fn bend(board: &Board, clock: &SharedClock<HookedCell>, ns: u64) {
    let old = clock.cell().snapshot();
    let ticks = board.machine.now();
    let replacing = clock.readings().announce(&old).unwrap().state;
    let slope = Slope::from_hz(10_000_000_000 / ns).unwrap();
    let next = replacing.next_line(slope).unwrap();
    let next = next.with_b(next.b_not_below_time(ticks, FixedNs::from_ns(old.ns_at(ticks))));
    let line = WindowedLine {
        state: next,
        start_ticks: ticks,
        window_ticks: 1 << 20,
    };
    let bounds = clock.cell().slot(old.state).bounds();
    let next = NextLine::new(line, bounds);
    assert!(clock.cell().publish(replacing, &next));
}

/// The thread is stopped between the counter and the line, while the line is replaced by one that
/// starts before the reading. The reading was made when the old line was current, and the new line
/// counts only from later on. In other cases the thread is stopped before the second load, when the
/// line's slot may be filled again.
#[test]
fn a_line_that_is_younger_than_the_reading_is_not_used() {
    for (stop, reading) in [Step::Load, Step::SecondLoad]
        .into_iter()
        .flat_map(|stop| READINGS.map(|reading| (stop, reading)))
    {
        let (board, clocks, _) = steady_board(PlainRead::One);
        let before = read_ordered_on_this_cpu(clocks, board, board.machine)
            .unwrap()
            .reading
            .ns;
        let replace = move || {
            board.machine.pass(100);
            bend(board, &clocks[0], 100);
        };
        let ((), ns) = interrupted(
            board.machine,
            move |step| step == stop,
            replace,
            || reading(clocks, board),
        );
        assert!(ns.is_none_or(|ns| ns >= before), "{ns:?} after {before}");
        assert!(
            stop == Step::Load || ns.is_none(),
            "the line was replaced before the second load"
        );
    }
}

/// Rule 1, in the slow path: the counter was read after a flatter line had replaced the line. A
/// reading by the old line would be ahead of later readings.
#[test]
fn rule_1_a_cpus_line_is_current_when_the_counter_is_read() {
    let (board, clocks, _) = steady_board(PlainRead::One);
    let reads = leak(Cell::new(0));
    let is_stop = |step| {
        reads.set(reads.get() + u32::from(step == Step::Counter));
        step == Step::Counter && reads.get() == 2 // the first read returns the CPU's id
    };
    let replace = || {
        bend(board, &clocks[0], 1);
        board.machine.pass(10_000);
    };
    let read = || {
        read_ordered_on_this_cpu(clocks, board, board.machine)
            .unwrap()
            .reading
            .ns
    };
    let ((), first) = interrupted(board.machine, is_stop, replace, read);
    assert!(reads.get() > 2, "the replaced line was used");
    let second = read();
    assert!(second >= first, "{second} after {first}");
}

/// Rule 3: a reader that finds its CPU's line being replaced has interrupted the writer, and does
/// not wait for it.
#[test]
fn rule_3_a_line_that_is_being_replaced_by_its_cpu_ends_at_once() {
    let (board, clocks, mut calibrations) = steady_board(PlainRead::One);
    let read = move || {
        let start = board.machine.now();
        let seen = read_ordered_on_this_cpu(clocks, board, board.machine)
            .unwrap()
            .reading;
        assert!(
            board.machine.now() - start < 200,
            "waited for a writer that cannot run"
        );
        seen
    };
    let published = clocks[0].readings().event_count(Event::Replacement);
    let (seen, _) = interrupted(board.machine, is_publish, read, || {
        calibrate(board, clocks, &mut calibrations, 0)
    });
    assert_eq!(clocks[0].readings().event_count(Event::Help), 1);
    assert_eq!(
        clocks[0].readings().event_count(Event::Replacement),
        published,
        "the late line was published"
    );
    assert!(
        matches!(seen.source, ReadingSource::Reference { .. }),
        "{seen:?}"
    );
    assert!(
        read_ordered_on_this_cpu(clocks, board, board.machine)
            .unwrap()
            .reading
            .ns
            >= seen.ns
    );
}

#[test]
fn an_id_outside_of_the_table_reads_nothing() {
    let (board, clocks, _) = steady_board(PlainRead::Two);
    board.on.set(1);
    let clocks = &clocks[..1];
    assert!(
        READINGS
            .iter()
            .all(|reading| reading(clocks, board).is_none())
    );
    assert!(read_ordered_on_this_cpu(clocks, board, board.machine).is_none());
}

#[test]
fn a_thread_on_another_cpu_calibrates_nothing_and_leaves() {
    let (board, clocks, _) = steady_board(PlainRead::Two);
    board.on.set(1);
    let mut calibration = CpuControl::new(&new_pass(board.machine));
    assert_eq!(
        calibration.iterate(&clocks[0], 0, board, board.machine),
        CpuIteration::new(None, Stay::Leave)
    );
}

#[test]
fn each_cpu_reads_its_own_line() {
    for plain_read in [PlainRead::Two, PlainRead::One] {
        let (board, clocks, _) = steady_board(plain_read);
        for cpu in [0, 1, 0] {
            board.on.set(cpu);
            for reading in READINGS {
                let ns = reading(clocks, board).expect("a line");
                assert!(ns.abs_diff(board.machine.truth_ns()) < 50, "CPU {cpu}");
            }
            let slow =
                read_ordered_on_this_cpu(clocks, board, board.machine).expect("in the table");
            assert_eq!(slow.cpu, cpu);
            assert_eq!(slow.reading.source, ReadingSource::Line { overdue_ns: 0 });
        }
    }
}

#[test]
fn a_cpu_that_is_not_calibrated_falls_back_alone() {
    let (board, clocks, mut calibrations) = steady_board(PlainRead::Two);
    for _ in 0..10 {
        board.machine.pass(INTERVAL_NS);
        calibrate(board, clocks, &mut calibrations, 0);
    }
    assert!(
        READINGS
            .iter()
            .all(|reading| reading(clocks, board).is_some())
    );
    board.on.set(1);
    assert!(
        READINGS
            .iter()
            .all(|reading| reading(clocks, board).is_none())
    );
    let SlowCpuReading { cpu, reading } =
        read_ordered_on_this_cpu(clocks, board, board.machine).unwrap();
    assert_eq!(cpu, 1);
    assert!(
        matches!(reading.source, ReadingSource::Reference { .. }),
        "{reading:?}"
    );
    let expiries = [0, 1].map(|cpu| clocks[cpu].readings().event_count(Event::Expiry));
    assert_eq!(expiries, [0, 1]);
}

/// The writer's thread is moved away before a step of its iteration. The iteration yields no sample
/// and no line. Readings on its CPU go on in order, by the line or by the reference, and the other
/// CPU's line stays as it is.
#[test]
fn a_writer_that_is_moved_away_publishes_nothing() {
    const BURST_STEPS: u32 = 90;
    let mut lost = 0;
    let mut step = 0;
    loop {
        let (board, clocks, mut calibrations) = steady_board(PlainRead::One);
        board.machine.pass(INTERVAL_NS - 100_000_000);
        let other = clocks[1].cell().snapshot();
        let before = read_ordered_on_this_cpu(clocks, board, board.machine)
            .unwrap()
            .reading
            .ns;
        let steps = leak(Cell::new(0));
        board.machine.hooks.set(move |_| {
            if steps.get() == step {
                board.machine.pass(20_000);
                board.on.set(1);
            }
            steps.set(steps.get() + 1);
        });
        let done = calibrations[0].iterate(&clocks[0], 0, board, board.machine);
        board.machine.hooks.clear();
        lost += u32::from(done.iteration.is_none());
        board.on.set(0);
        let SlowCpuReading { reading, .. } =
            read_ordered_on_this_cpu(clocks, board, board.machine).unwrap();
        let ns = reading.ns;
        let ahead_ns = reading.ns - board.machine.truth_ns();
        assert!(ns >= before, "step {step}: {} ns back", before - ns);
        // What the kernel's strongest slew can make of the 0.2 ms by which the end of a suspend may
        // be returned late, and of the iteration.
        let is_by_line = matches!(reading.source, ReadingSource::Line { .. });
        let limit_ns = if is_by_line { 100 } else { 2_000_000 };
        assert!(ahead_ns < limit_ns, "step {step}: {ahead_ns} ns ahead");
        let disruptions = clocks[0].readings().event_count(Event::Disruption);
        assert_eq!(disruptions, 0, "step {step}: a sample came of it");
        assert_eq!(clocks[1].cell().snapshot(), other, "step {step}");
        if steps.get() <= step {
            break;
        }
        // All brackets are alike.
        step += if step < BURST_STEPS { 9 } else { 1 };
    }
    assert!(step > BURST_STEPS + 10 && lost > 10, "lost {lost}, {step}");
}

/// After such an iteration the next ones make a line again.
#[test]
fn a_cpu_whose_writer_was_moved_away_gets_a_line_again() {
    let (board, clocks, mut calibrations) = steady_board(PlainRead::One);
    board.machine.pass(INTERVAL_NS - 100_000_000);
    let (_, done) = interrupted(
        board.machine,
        is_replacing,
        || board.on.set(1),
        || calibrations[0].iterate(&clocks[0], 0, board, board.machine),
    );
    assert_eq!(done.iteration, None);
    board.on.set(0);
    assert!(READINGS[1](clocks, board).is_none(), "the line has ended");
    for _ in 0..100 {
        let next_in_ns = calibrate(board, clocks, &mut calibrations, 0);
        board.machine.pass(next_in_ns);
    }
    board.on.set(0);
    assert!(READINGS[1](clocks, board).is_some());
}

/// The counter of CPU 3, which counts its barriers.
#[derive(Default)]
struct CounterOfCpu3 {
    barriers: Cell<u32>,
}

impl CpuCounter for CounterOfCpu3 {
    fn now(&self) -> Option<CpuRead> {
        Some(CpuRead { ticks: 40, cpu: 3 })
    }
    fn now_ordered(&self) -> Option<CpuRead> {
        Some(CpuRead { ticks: 41, cpu: 3 })
    }
    fn barrier(&self) {
        self.barriers.set(self.barriers.get() + 1);
    }
}

#[test]
fn a_pinned_counter_is_always_read_in_order() {
    let counter = CounterOfCpu3::default();
    let pinned = PinnedCounter::new(&counter, 3).unwrap();
    assert_eq!([pinned.now(), pinned.now_ordered()], [41; 2]);
}

#[test]
fn a_pinned_counter_has_the_barrier_of_its_counter() {
    let counter = CounterOfCpu3::default();
    PinnedCounter::new(&counter, 3).unwrap().barrier();
    assert_eq!(counter.barriers.get(), 1);
}
