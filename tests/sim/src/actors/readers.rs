//! Readers: threads that read in every way, and the reader that records a plot.

use tickline_core::counter::CpuCounter;
use tickline_core::per_cpu;
use tickline_core::shared::{BoundedReading, Event, ReadingSource, SlowReading};

use super::Context;
use crate::check::{Begin, ONE_LINE, ReadKind, ReadPath, TrackPoint};
use crate::machine::PS;
use crate::world::{Actor, ClockRead, Step};

/// Readers begin to read this long before a stopped actor goes on, ps. A choice, not a measurement:
/// 3 us, as long as some tens of readings.
const AIM_AHEAD_PS: u64 = 3_000_000;

/// The most readings in a burst, and the longest pause between two of them, ps. A choice, not a
/// measurement.
const MAX_BURST: u64 = 64;
const MAX_PAUSE_PS: u64 = 50_000;

/// A reading with more steps than this is waiting for another thread. While a state announces a
/// replacement, a reader loads it up to a thousand times, in two steps each. A few such states may
/// follow each other.
const READING_STEPS: u64 = 20_000;

/// Actors choose each of these kinds once in nine readings, and otherwise an ordered reading.
const RARE_KINDS: [ReadKind; 4] = [
    ReadKind::Plain,
    ReadKind::Bounds,
    ReadKind::Unix,
    ReadKind::Slow,
];

/// The time until a reader reads again.
struct Wait {
    ps: u64,
    /// Whether it aims at the replacement of a line.
    is_aimed: bool,
}

impl Context {
    /// A thread that reads, sometimes in bursts.
    pub(crate) fn read(&self) {
        let mut is_aimed = false;
        loop {
            if self.world.scenario.reads_regularly {
                self.make_one_reading();
                let half_ps = self.world.scenario.think_ns * PS / 2;
                self.world
                    .step(Step::Sleep(half_ps + self.random_below(half_ps)));
                continue;
            }
            let readings = if is_aimed || self.random_below(4) == 0 {
                1 + self.random_below(MAX_BURST)
            } else {
                1
            };
            for _ in 0..readings {
                self.make_one_reading();
                self.world
                    .step(Step::Sleep(self.random_below(MAX_PAUSE_PS)));
            }
            let wait = self.next_wait();
            is_aimed = wait.is_aimed;
            self.world.step(Step::Sleep(wait.ps));
        }
    }

    /// The wait until the next reading. Without aim it has a random length. An aimed wait ends soon
    /// after the driver wakes up, or around the time at which a stopped actor goes on in the middle
    /// of an iteration.
    fn next_wait(&self) -> Wait {
        let world = &self.world;
        let max_ps = self.world.scenario.think_ns * PS;
        let think_ps = self.random_ps(max_ps);
        let now_ps = world.now_ps.get();
        let until_ps = |actor: &Actor| actor.ready_ps.get().saturating_sub(now_ps);
        let stopped = world.actors.iter().find(|actor| {
            actor.is_alive.get() && actor.holds_lock.get() && until_ps(actor) > AIM_AHEAD_PS
        });
        let driver = world.driver.get().map(|driver| &world.actors[driver]);
        let driver = driver.filter(|driver| driver.is_asleep.get() && until_ps(driver) > 0);
        let aim_ps = match stopped {
            Some(actor) => {
                Some(until_ps(actor) - AIM_AHEAD_PS + self.random_below(2 * AIM_AHEAD_PS))
            }
            // An iteration takes about as long as fifty brackets.
            None => driver.map(|driver| {
                let iteration_ps = 64 * world.bracket_ns.get() * PS + 2 * AIM_AHEAD_PS;
                until_ps(driver) + self.random_below(iteration_ps)
            }),
        };
        match aim_ps.filter(|&ps| ps < max_ps) {
            Some(aim_ps) if self.random_below(2) == 0 => Wait {
                ps: aim_ps,
                is_aimed: true,
            },
            _ => Wait {
                ps: think_ps,
                is_aimed: false,
            },
        }
    }

    fn make_one_reading(&self) {
        let choice = usize::try_from(self.random_below(9)).expect("few");
        let kind = RARE_KINDS.get(choice).copied().unwrap_or(ReadKind::Ordered);
        let begin = self.check.begin();
        self.world.me().steps_left.set(READING_STEPS);
        if self.is_per_cpu() && self.random_below(4) == 0 {
            self.go_elsewhere();
        }
        if !self.read_fast(kind, begin) {
            self.read_slowly(kind, begin);
        }
        self.world.me().steps_left.set(u64::MAX);
    }

    /// Whether each CPU has a line.
    pub(super) fn is_per_cpu(&self) -> bool {
        self.world.scenario.clock.per_cpu
    }

    /// A reading by the common line, or by the line of the current CPU. `false` if the fast path
    /// refuses.
    fn read_fast(&self, kind: ReadKind, begin: Begin) -> bool {
        let line = self.clock.readings();
        let clocks = &self.clock.cpu_clocks;
        let access = self.access();
        let cell = || self.world.me().last_read.get().cell;
        let complete = || self.world.step(Step::End);
        let now = || CpuCounter::now(&access);
        let now_ordered = || CpuCounter::now_ordered(&access);
        let by_cpu = |read| per_cpu::cpu_clock(clocks, read).and_then(|clock| clock.read_ns());
        let ns = match (kind, self.is_per_cpu()) {
            (ReadKind::Bounds, _) => {
                let Some(reading) = self.read_ordered_bounded() else {
                    return false;
                };
                complete();
                self.check
                    .check_reading(begin, cell(), reading.ns, ReadPath::FastPath, kind);
                self.check.check_bounds(&reading);
                return true;
            }
            (ReadKind::Unix, per_cpu) => {
                let by_cpu =
                    || per_cpu::cpu_clock(clocks, now()).and_then(|clock| clock.read_unix_ns());
                let Some(ns) = (if per_cpu {
                    by_cpu()
                } else {
                    line.read_unix_ns(&access)
                }) else {
                    return false;
                };
                // No step has come after the reading's second load of the state, so this bound
                // belongs to its line.
                let margin_ns = self.world.cells[cell()].unix_bound_ns.get();
                complete();
                self.check.check_not_while_off(begin);
                self.check.check_unix(ns, margin_ns);
                return true;
            }
            (ReadKind::Slow, _) => None,
            (ReadKind::Plain, false) => line.read_ns(&access),
            (ReadKind::Plain, true) => by_cpu(now()),
            (ReadKind::Ordered, false) => line.read_ordered_ns(&access),
            (ReadKind::Ordered, true) => by_cpu(now_ordered()),
        };
        let Some(ns) = ns else { return false };
        complete();
        self.check
            .check_reading(begin, cell(), ns, ReadPath::FastPath, kind);
        true
    }

    fn read_slowly(&self, kind: ReadKind, begin: Begin) {
        let line = self.clock.readings();
        let access = self.access();
        let check = &self.check;
        let complete = || self.world.step(Step::End);
        let helps = self.clock.event_count(Event::Help);
        let (mut cell, mut reading) = self.read_ordered_in_any_state();
        if self.clock.event_count(Event::Help) != helps {
            // A thread that helps leaves the clock without a line.
            self.check.record_disturbance(self.world.now_ps.get());
        }
        let me = self.world.me();
        let last_read = me.last_read.get();
        let counter_read = me.counter_read.get();
        let loaded = me.loaded.get();
        if self.iterate_as_reader(&reading) {
            (cell, reading) = self.read_ordered_in_any_state();
        } else {
            // The reads of the failed iteration are not part of the reading.
            me.last_read.set(last_read);
            me.counter_read.set(counter_read);
            me.loaded.set(loaded);
        }
        complete();
        let path = match reading.source {
            ReadingSource::Line { .. } => ReadPath::SlowPathByLine,
            ReadingSource::Reference { .. } => ReadPath::SlowPathByReference,
        };
        check.check_reading(begin, cell, reading.ns, path, kind);
        if kind == ReadKind::Bounds && path == ReadPath::SlowPathByLine && !self.is_per_cpu() {
            let begin = check.begin();
            if let Some(reading) = line.read_ordered_bounded_while_valid(&access, &access) {
                complete();
                check.check_reading(begin, ONE_LINE, reading.ns, ReadPath::SlowPathByLine, kind);
                check.check_bounds(&reading);
            }
        }
    }

    fn read_ordered_bounded(&self) -> Option<BoundedReading> {
        let access = self.access();
        if self.is_per_cpu() {
            return per_cpu::cpu_clock(&self.clock.cpu_clocks, CpuCounter::now_ordered(&access))?
                .read_bounded();
        }
        self.clock.readings().read_ordered_bounded(&access)
    }

    /// A reading by the slow path, with the cell that it used.
    fn read_ordered_in_any_state(&self) -> (usize, SlowReading) {
        let access = self.access();
        if self.is_per_cpu() {
            let read = per_cpu::read_ordered_on_this_cpu(&self.clock.cpu_clocks, &access, &access)
                .expect("every CPU is in the table");
            return (read.cpu as usize, read.reading);
        }
        (
            ONE_LINE,
            self.clock
                .readings()
                .read_ordered_in_any_state(&access, &access),
        )
    }

    /// A reader that only records offsets and bounds for a plot, at regular times, on any CPU.
    pub(crate) fn record(&self, every_ps: u64) {
        loop {
            let at_ns = self.world.now_ps.get() / PS;
            if self.is_per_cpu() {
                self.go_elsewhere();
            }
            let point = self
                .read_ordered_bounded()
                .map_or_else(|| self.slow_point(), |reading| self.point(&reading));
            self.check.track.borrow_mut().push(TrackPoint {
                at_ns,
                iterations: self.world.counts.borrow().iterations,
                ..point
            });
            self.world.step(Step::Sleep(every_ps));
        }
    }

    /// A point of a plot, from a reading by a line. The caller sets `at_ns` and `iterations`.
    fn point(&self, reading: &BoundedReading) -> TrackPoint {
        let ClockRead { true_ns, cell, .. } = self.world.me().last_read.get();
        let range = reading.monotonic_range();
        let offset_ns = reading.ns - true_ns;
        let unix_error_ns =
            reading.bounds.unix_offset_ns - self.world.clocks.borrow().unix_offset_ns;
        TrackPoint {
            offset_ns,
            earliest_ns: range.earliest_ns - true_ns,
            latest_ns: range.latest_ns - true_ns,
            unix_offset_ns: offset_ns + unix_error_ns,
            cpu: cell,
            by_line: true,
            ..TrackPoint::default()
        }
    }

    /// A point of a plot, from a reading by the slow path.
    fn slow_point(&self) -> TrackPoint {
        let (cell, SlowReading { ns, source, .. }) = self.read_ordered_in_any_state();
        let me = self.world.me();
        let read = if matches!(source, ReadingSource::Line { .. }) {
            &me.counter_read
        } else {
            &me.last_read
        };
        let offset_ns = ns - read.get().returned_ns;
        TrackPoint {
            offset_ns,
            unix_offset_ns: offset_ns,
            cpu: cell,
            ..TrackPoint::default()
        }
    }
}
