//! Models for loom: the interleavings of a few threads over a page with at most 2 or 3 preemptions,
//! and every value that the orderings let an atomic load return. The first models check the memory;
//! the next ones run the real writer against real readers. In the last ones, threads of one process
//! disable and enable its page.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tickline-page --lib --release --target-dir target/loom
//! loom_tests`
//!
//! The limit of preemptions is an argument of [`check`]; with a higher one a model would take
//! minutes. The head of `crates/tickline-core/src/loom_tests.rs` lists what loom cannot see.
//!
//! The models of the memory publish one line after another in two slots. In the models of the
//! order, each reader is a process of its own. A second reading begins when the first is complete,
//! and shares only the page with it.

#[path = "../../../../crates/tickline-core/src/loom_tests/harness.rs"]
mod harness;

use std::sync::Arc;

use loom::sync::atomic::{AtomicI64, Ordering};
use tickline_core::counter::Counter;
use tickline_core::reference::Reference;

use super::memory::{
    LeaseCell, LeaseLine, LeaseMemory, LeaseStore, LeaseWord, SlotNumber, UnixOffset,
};
use super::use_stage::UseStage;
use super::{
    Basis, LeasePhase, Line, OsBounds, PageReading, PageSource, ProcessHighWater, ReaderOs, Slope,
    Timescale, Writer, WriterAction, WriterConfig, read,
};
use harness::{Coverage, Time, View, check, new_shared, spawn};

impl ReaderOs for View<'_> {
    fn pause(&self) {
        loom::thread::yield_now();
    }
}

/// A line in which each field shows the line's number.
fn line(number: i64) -> LeaseLine {
    let start_ticks = number.unsigned_abs();
    LeaseLine {
        line: Line {
            start_ticks,
            base_ns: number * 1_000,
            slope: Slope {
                bits: number.unsigned_abs() << 48,
            },
        },
        end_ticks: 1_000 + start_ticks,
        lead_ns: number,
        unix: UnixOffset {
            offset_ns: number * 7,
            lead_ns: number,
            least_ns: number,
        },
    }
}

fn publish(memory: &LeaseCell, from: LeaseWord, number: i64) -> LeaseWord {
    let slot = SlotNumber::from_low_bits(number.unsigned_abs() & 1);
    memory.fill(slot, &line(number).to_words());
    let to = from.next(LeasePhase::Published, slot, None);
    assert!(memory.try_swap(from, to));
    to
}

/// A writer publishes three lines while `read` reads the memory and describes the result.
fn among_lines(
    preemptions: usize,
    wanted: &'static [&'static str],
    read: fn(&LeaseCell) -> String,
) {
    check(Some(preemptions), wanted, move |seen| {
        let memory = new_shared(LeaseCell::new());
        let first = publish(&memory, LeaseWord::default(), 1);
        let reader = spawn(&memory, move |memory| seen.saw(read(memory)));
        let second = publish(&memory, first, 2);
        publish(&memory, second, 3);
        reader.join().unwrap();
    });
}

/// A reader never mixes two lines, and never uses a slot before its line is complete.
#[test]
fn a_lease_is_never_a_mixture() {
    among_lines(3, &["line 1", "line 2", "line 3", "changed"], |memory| {
        let word = memory.word();
        let found = LeaseLine::load(memory, word.first());
        if !memory.is_still(word) {
            return "changed".to_owned();
        }
        let number = i64::try_from(word.generation()).unwrap();
        assert_eq!(found, line(number));
        format!("line {number}")
    });
}

/// A reading by the real reader comes from one line. The counter stands still.
#[test]
fn a_reading_of_a_page_is_never_a_mixture() {
    among_lines(2, &["line 1", "line 3"], |memory| {
        let (time, process_high_water) = (
            new_shared(Time::new(500, 0)),
            new_shared(ProcessHighWater::new()),
        );
        let view = time.view(0);
        let PageReading { ns, source } =
            read(memory, &view, &view, &process_high_water, Timescale::Unix);
        assert_eq!(source, PageSource::Line);
        let value = |number: i64| line(number).line.ns_at(500) + number * 7;
        let number = (1..=3)
            .find(|number| ns == value(*number))
            .expect("a value of one line");
        format!("line {number}")
    });
}

/// Two writers break the rules: one of them ends, and has changed no slot of the other.
#[test]
fn rule_w1_of_two_writers_one_ends_and_changes_no_slot() {
    check(Some(3), &["lost", "won"], |seen| {
        let (memory, time) = (
            new_shared(LeaseCell::new()),
            new_shared(Time::new(1 << 30, 0)),
        );
        let view = time.view(10);
        let mut first = Writer::start(&*memory, CONFIG).unwrap();
        let begun = first
            .iterate(&*memory, &view, &view, basis(&time), None)
            .unwrap();
        assert_eq!(begun.action, WriterAction::PublishedFirst);
        time.pass(100);
        let basis = basis(&time);
        let other = spawn(&(memory.clone(), time.clone()), move |(memory, time)| {
            let view = time.view(1);
            let Ok(mut second) = Writer::start(&**memory, CONFIG) else {
                return;
            };
            second.iterate(&**memory, &view, &view, basis, None).ok();
        });
        let ended = first.iterate(&*memory, &view, &view, basis, None);
        other.join().unwrap();
        seen.saw(if ended.is_err() { "lost" } else { "won" });
        let word = memory.word();
        let last = LeaseLine::load(&*memory, word.second().expect("a successor"));
        let before = LeaseLine::load(&*memory, word.first());
        assert_eq!(last.line.start_ticks, before.end_ticks);
        assert!(last.lead_ns < 1_000, "{last:?}");
    });
}

/// Short leases, so that a few reads of the counter reach the next lease.
const CONFIG: WriterConfig = WriterConfig {
    lease_ns: 10_000,
    renewal_notice_ns: 2_000,
    first_publication_wait_ns: 1_000,
    cpu_difference_ns: 10,
    first_publication_pause_ns: 0,
    ..WriterConfig::new()
};

const WIDTH_NS: i64 = 20;

fn basis(time: &Time) -> Basis {
    // ORDERING: Relaxed: the threads that change the ticks have not started, or wait.
    let ticks = time.ticks.load(Ordering::Relaxed);
    let line = |ns: i64| Line {
        start_ticks: ticks,
        base_ns: i64::try_from(ticks).unwrap() + ns,
        slope: Slope::from_hz(1_000_000_000).unwrap(),
    };
    Basis::Bounds(OsBounds {
        lower: line(-WIDTH_NS),
        upper: line(WIDTH_NS),
        unix_offset: None,
    })
}

/// The memory, the clocks and the results that the threads of a model of the order share.
#[derive(Clone)]
struct Scene {
    memory: Arc<LeaseCell>,
    time: Arc<Time>,
    /// The latest completed reading, ns; 0 for none.
    returned: Arc<AtomicI64>,
    seen: &'static Coverage,
}

impl Scene {
    fn new(seen: &'static Coverage) -> (Self, Writer) {
        let (memory, time) = (
            new_shared(LeaseCell::new()),
            new_shared(Time::new(1 << 30, 0)),
        );
        let writer = Writer::start(&*memory, CONFIG).unwrap();
        (
            Self {
                memory,
                time,
                returned: Arc::new(AtomicI64::new(0)),
                seen,
            },
            writer,
        )
    }

    fn read(&self, view: &View<'_>, process_high_water: &ProcessHighWater) -> PageReading {
        read(
            &*self.memory,
            view,
            view,
            process_high_water,
            Timescale::Monotonic,
        )
    }

    /// A completed reading, ns; 0 for none.
    fn before_ns(&self) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `note`: that reading happened before.
        self.returned.load(Ordering::Acquire)
    }

    fn note(&self, ns: i64) {
        // ORDERING: Release, pairs with the Acquire load in `before_ns`.
        self.returned.store(ns, Ordering::Release);
    }

    fn assert_ordered(&self, reading: PageReading, before_ns: i64) {
        assert!(
            reading.ns >= before_ns,
            "{} after {before_ns}, {:?}",
            reading.ns,
            reading.source
        );
        if before_ns > 0 {
            self.seen.saw(format!("{:?} after another", reading.source));
        }
    }

    /// Makes a reading in a new process, and checks that no earlier completed one is above it.
    fn read_in_new_process(&self, ticks: u64) {
        let before_ns = self.before_ns();
        let reading = self.read(&self.time.view(ticks), &new_shared(ProcessHighWater::new()));
        self.assert_ordered(reading, before_ns);
        self.note(reading.ns);
    }

    fn iterate(&self, writer: &mut Writer, basis: Basis, ticks: u64) -> WriterAction {
        let view = self.time.view(ticks);
        let action = writer
            .iterate(&*self.memory, &view, &view, basis, None)
            .unwrap()
            .action;
        self.seen.saw(format!("{action:?}"));
        action
    }
}

/// A model of the order: threads make readings, each in a new process, while a writer makes an
/// iteration.
struct Order {
    wanted: &'static [&'static str],
    /// The number of readings of each thread.
    readings: &'static [u32],
    /// The duration of a read of a clock, for a reader and for the writer, ticks.
    reader_ticks: u64,
    writer_ticks: u64,
    begin: fn(&Scene, &mut Writer),
}

impl Order {
    fn check(self) {
        let Self {
            wanted,
            readings,
            reader_ticks,
            writer_ticks,
            begin,
        } = self;
        check(Some(2), wanted, move |seen| {
            let (scene, mut writer) = Scene::new(seen);
            begin(&scene, &mut writer);
            let basis = basis(&scene.time);
            let read = |readings: u32| {
                spawn(&scene, move |scene| {
                    for _ in 0..readings {
                        scene.read_in_new_process(reader_ticks);
                    }
                })
            };
            let threads: Vec<_> = readings.iter().map(|readings| read(*readings)).collect();
            scene.iterate(&mut writer, basis, writer_ticks);
            for thread in threads {
                thread.join().unwrap();
            }
            scene.read_in_new_process(10);
        });
    }
}

fn begin_line(scene: &Scene, writer: &mut Writer) {
    assert_eq!(
        scene.iterate(writer, basis(&scene.time), 10),
        WriterAction::PublishedFirst
    );
    scene.time.pass(20);
}

/// Rules R1, R6, R7 and W5: a first publication, while a reader asks the OS. A reader that finds it
/// gives up at once, because its reads take longer than W.
#[test]
fn rule_w5_readings_are_in_order_across_a_first_publication() {
    let wanted = &["PublishedFirst", "Line after another", "Os after another"];
    Order {
        wanted,
        readings: &[2],
        reader_ticks: 600,
        writer_ticks: 10,
        begin: |_, _| {},
    }
    .check();
}

/// Rules R2, R3, W2 and W3: a successor, while readers reach the end of the line.
#[test]
fn rule_w2_readings_are_in_order_across_a_successor() {
    let wanted = &[
        "PublishedNext",
        "Waited",
        "Line after another",
        "Os after another",
    ];
    Order {
        wanted,
        readings: &[1, 1],
        reader_ticks: 4_500,
        writer_ticks: 10,
        begin: begin_line,
    }
    .check();
}

/// Rules R3, R6 and W4: the leases run out, and the page has no line.
#[test]
fn rule_w4_readings_are_in_order_across_the_end_of_the_leases() {
    let begin = |scene: &Scene, writer: &mut Writer| {
        begin_line(scene, writer);
        scene.time.pass(4_700);
        scene.time.suspend(5_000);
    };
    let wanted = &["Ended", "Os after another"];
    Order {
        wanted,
        readings: &[1, 1],
        reader_ticks: 300,
        writer_ticks: 300,
        begin,
    }
    .check();
}

/// Rule R8: two threads of one process at a first publication. The OS clock is above its bounds.
#[test]
fn rule_r8_no_reading_is_below_one_of_another_thread() {
    check(Some(3), &["Line after another"], |seen| {
        let (scene, mut writer) = Scene::new(seen);
        let process_high_water = new_shared(ProcessHighWater::new());
        let basis = basis(&scene.time);
        // The OS clock is far above the line that will be published.
        let other = spawn(
            &(scene.clone(), process_high_water.clone()),
            move |(scene, process_high_water)| {
                scene.note(scene.read(&scene.time.view(10), process_high_water).ns + 1);
            },
        );
        let view = scene.time.view(10);
        process_high_water.raise(view.now_ordered().try_into().unwrap());
        scene.iterate(&mut writer, basis, 10);
        let before_ns = scene.before_ns() - 1;
        let reading = scene.read(&view, &process_high_water);
        scene.assert_ordered(reading, before_ns);
        assert!(reading.ns >= process_high_water.ns().min(before_ns));
        other.join().unwrap();
        assert!(scene.read(&view, &process_high_water).ns >= reading.ns);
    });
}

/// How far the OS clock is behind the page, ns: further than a model lasts.
const BEHIND_NS: i64 = 1_000;

/// A process whose program disables and enables its page. The page's time is the ticks. A tick
/// orders nothing else, as on a processor, so the fences must.
#[derive(Clone)]
struct Process {
    stage: Arc<UseStage>,
    process_high_water: Arc<ProcessHighWater>,
    ticks: Arc<AtomicI64>,
    /// The largest completed reading, ns; 0 for none.
    returned: Arc<AtomicI64>,
    seen: &'static Coverage,
}

impl Process {
    fn new(seen: &'static Coverage) -> Self {
        Self {
            stage: new_shared(UseStage::new()),
            process_high_water: new_shared(ProcessHighWater::new()),
            ticks: Arc::new(AtomicI64::new(BEHIND_NS)),
            returned: Arc::new(AtomicI64::new(0)),
            seen,
        }
    }

    fn page_ns(&self) -> i64 {
        // ORDERING: Relaxed: see the head of `Process`.
        self.ticks.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As `read_page` in `clock/reader.rs`.
    fn read_page(&self) -> Option<i64> {
        if !self.stage.allows_page() {
            return None;
        }
        let ns = self.page_ns().max(self.process_high_water.ns());
        if self.stage.must_raise() {
            self.process_high_water.raise(ns);
        }
        Some(ns)
    }

    /// Makes a reading, checks that no earlier completed one is above it, and returns its source.
    fn read(&self) -> PageSource {
        // ORDERING: Acquire, pairs with the exchange below: that reading happened before.
        let before_ns = self.returned.load(Ordering::Acquire);
        let (ns, source) = match self.read_page() {
            Some(ns) => (ns, PageSource::Line),
            None => {
                let os_ns = self.page_ns() - BEHIND_NS;
                let ns = os_ns.max(self.process_high_water.ns());
                self.process_high_water.raise(ns);
                (ns, PageSource::Os)
            }
        };
        assert!(ns >= before_ns, "{ns} after {before_ns}, {source:?}");
        if before_ns > 0 {
            self.seen.saw(format!("{source:?} after another"));
        }
        // ORDERING: AcqRel, pairs with the load above.
        self.returned.fetch_max(ns, Ordering::AcqRel);
        source
    }

    /// As `disable` in `clock/reader.rs`.
    fn disable(&self) {
        if let Some(ending) = self.stage.begin_disable() {
            self.read_page();
            self.stage.finish_disable(ending);
        }
    }
}

/// Runs these threads of one process, and then makes a reading.
fn among_threads<const N: usize>(
    preemptions: usize,
    wanted: &'static [&'static str],
    threads: [fn(&Process); N],
) {
    check(Some(preemptions), wanted, move |seen| {
        let process = Process::new(seen);
        let threads = threads.map(|thread| spawn(&process, thread));
        for thread in threads {
            thread.join().unwrap();
        }
        let source = process.read();
        seen.saw(format!("{source:?} at the end"));
    });
}

/// Symptom: readings used the counter after a call of `disable` had returned, while another ran.
#[test]
fn no_reading_uses_the_page_after_one_of_two_calls_has_disabled_it() {
    let disable = |process: &Process| {
        process.disable();
        assert_eq!(process.read(), PageSource::Os);
    };
    among_threads(3, &["Os after another"], [disable, disable]);
}

/// Nothing else orders the readings with the call.
#[test]
fn readings_are_in_order_while_the_page_is_disabled() {
    let read = |process: &Process| {
        process.read();
        process.read();
    };
    let wanted = &["Line after another", "Os after another", "Os at the end"];
    among_threads(3, wanted, [Process::disable, read]);
}

/// Symptom: a reading stepped back by the page's lead, because the process's high-water mark was
/// older than the readings after `enable`.
#[test]
fn readings_are_in_order_while_the_page_is_disabled_and_enabled() {
    let disable = |process: &Process| {
        process.disable();
        process.read();
    };
    let enable = |process: &Process| {
        process.stage.enable();
        process.read();
    };
    let wanted = &[
        "Line after another",
        "Os after another",
        "Line at the end",
        "Os at the end",
    ];
    among_threads(3, wanted, [disable, enable]);
}

/// Without a count of changes, the first call could end what the second one has begun.
#[test]
fn readings_are_in_order_while_the_page_is_disabled_enabled_and_disabled() {
    let disable = |process: &Process| {
        process.disable();
        process.read();
    };
    let enable_and_disable = |process: &Process| {
        process.stage.enable();
        process.read();
        process.disable();
    };
    let wanted = &["Line after another", "Os after another", "Os at the end"];
    among_threads(3, wanted, [disable, enable_and_disable]);
}

/// Of two calls that disable, one may end what the other has begun.
#[test]
fn readings_are_in_order_while_two_threads_disable_and_one_enables() {
    let enable_and_read = |process: &Process| {
        process.stage.enable();
        process.read();
        process.read();
    };
    let wanted = &[
        "Line after another",
        "Os after another",
        "Line at the end",
        "Os at the end",
    ];
    among_threads(
        2,
        wanted,
        [Process::disable, Process::disable, enable_and_read],
    );
}
