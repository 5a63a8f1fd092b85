//! A page for tests. One thread plays readers and writers, and a hook runs before each operation.

use core::cell::{Cell, RefCell, RefMut};

use tickline_core::counter::Counter;
use tickline_core::reference::Reference;

use super::memory::{
    Field, LeaseCell, LeaseLine, LeaseMemory, LeaseStore, LeaseWord, SLOT_WORDS, SlotNumber,
};
use super::{
    Basis, LeasePhase, Line, OsBounds, PageChanged, PageReading, PageSource, ProcessHighWater,
    ReaderOs, Slope, Timescale, UnixOffsetBounds, Writer, WriterAction, WriterConfig,
    WriterIteration, read,
};
use crate::{BootContext, Header, WritablePage};

/// An operation of a reader or a writer. The hook runs before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    FirstLoad,
    Field,
    SecondLoad,
    Counter,
    Os,
    Fill,
    /// A swap to this word, after the writer's read of the counter.
    Swap(LeaseWord),
    /// The return from a swap that has stored this word.
    Swapped(LeaseWord),
}

/// The boot and the time namespace of the scene's page.
pub(crate) const CONTEXT: BootContext = BootContext {
    boot_id: [9; 16],
    time_namespace: 4_026_531_834,
    monotonic_offset_ns: Some(0),
};

/// Makes a value that lives as long as the program.
pub(super) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

type Hook = Box<dyn FnMut(Op)>;

/// A page with its writer, a counter of 1 GHz, and OS clocks.
pub(crate) struct Scene {
    pub(crate) page: WritablePage,
    pub(crate) ticks: Cell<u64>,
    /// The OS clock minus the ticks, ns.
    pub(crate) os_ns: Cell<i64>,
    /// Unix time minus the OS clock, ns.
    pub(crate) unix_ns: Cell<i64>,
    pub(crate) has_coarse: Cell<bool>,
    pub(crate) counter_reads: Cell<u32>,
    pub(crate) pauses: Cell<u32>,
    /// The basis of the writer's iterations; `None` for fresh bounds.
    pub(crate) basis: Cell<Option<Basis>>,
    pub(crate) kernel_rate_ppb: Cell<Option<i64>>,
    hook: RefCell<Option<Hook>>,
    writer: RefCell<Option<Writer>>,
}

pub(crate) const UNIX_NS: i64 = 1_000_000_000_000;

/// Half of the distance between the scene's bounds, ns.
const WIDTH_NS: i64 = 50;

/// The range of a line's distance above the OS clock, if its bounds are fresh, ns.
pub(crate) const AHEAD_NS: core::ops::Range<i64> = 0..4 * WIDTH_NS;

impl Scene {
    /// A scene whose page is off, and has no writer.
    pub(crate) fn off() -> &'static Self {
        leak(Self {
            page: WritablePage::new(&Header::new(&CONTEXT).unwrap()),
            ticks: Cell::new(1 << 40),
            os_ns: Cell::new(-(1 << 39)),
            unix_ns: Cell::new(UNIX_NS),
            has_coarse: Cell::new(false),
            counter_reads: Cell::new(0),
            pauses: Cell::new(0),
            basis: Cell::new(None),
            kernel_rate_ppb: Cell::new(Some(0)),
            hook: RefCell::new(None),
            writer: RefCell::new(None),
        })
    }

    /// A scene whose writer has published nothing yet.
    pub(crate) fn without_line() -> &'static Self {
        let scene = Self::off();
        scene.restart();
        scene
    }

    /// A scene whose page names one line.
    pub(crate) fn published() -> &'static Self {
        let scene = Self::without_line();
        scene.does(WriterAction::PublishedFirst);
        assert!(scene.word().phase() == LeasePhase::Published && scene.word().second().is_none());
        scene
    }

    /// A scene whose page names two lines, of which the first is current.
    pub(crate) fn published_twice() -> &'static Self {
        let scene = Self::published();
        scene.pass_until_current();
        scene.does(WriterAction::PublishedNext);
        scene
    }

    /// Lets time pass until a line that was just published is current on every CPU.
    pub(crate) fn pass_until_current(&self) {
        self.pass(WriterConfig::new().cpu_difference_ns + 1_000);
    }

    /// Lets another writer take the page over.
    pub(crate) fn restart(&self) {
        let writer = self.new_writer();
        *self.writer.borrow_mut() = Some(writer);
    }

    pub(crate) fn new_writer(&self) -> Writer {
        Writer::start(self.cell(), WriterConfig::new()).unwrap()
    }

    pub(crate) fn writer(&self) -> RefMut<'_, Writer> {
        RefMut::map(self.writer.borrow_mut(), |writer| {
            writer.as_mut().expect("no iteration runs")
        })
    }

    /// Makes an iteration of the scene's writer.
    pub(crate) fn iterate(&'static self) -> WriterIteration {
        self.iterate_by(&self.bounds())
    }

    pub(crate) fn iterate_by(&'static self, bounds: &OsBounds) -> WriterIteration {
        let mut writer = self.writer.take().expect("no iteration runs");
        let iteration = self.try_iterate(&mut writer, bounds).unwrap();
        *self.writer.borrow_mut() = Some(writer);
        iteration
    }

    pub(crate) fn try_iterate(
        &'static self,
        writer: &mut Writer,
        bounds: &OsBounds,
    ) -> Result<WriterIteration, PageChanged> {
        let basis = self.basis.get().unwrap_or(Basis::Bounds(*bounds));
        writer.iterate(self, &self, &self, basis, self.kernel_rate_ppb.get())
    }

    /// Makes an iteration of the scene's writer, and checks its action.
    #[track_caller]
    pub(crate) fn does(&'static self, action: WriterAction) {
        assert_eq!(self.iterate().action, action);
    }

    /// Switches the page off from outside.
    pub(crate) fn switch_off(&self) {
        let word = self.word();
        assert!(self.cell().try_swap(word, word.switched_off()));
    }

    /// Fills a slot that the word does not name, and stores a word that names it.
    pub(crate) fn put(&self, phase: LeasePhase, words: &[u64; SLOT_WORDS]) {
        let word = self.word();
        let slot = SlotNumber::in_bank(word.bank())
            .into_iter()
            .find(|slot| !word.names(*slot))
            .unwrap();
        self.cell().fill(slot, words);
        assert!(self.cell().try_swap(word, word.next(phase, slot, None)));
    }

    pub(crate) fn on_step(&self, hook: impl FnMut(Op) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }

    /// Runs `action` before each operation that is `wanted`, with its number, from 1 on.
    pub(crate) fn each(&self, wanted: fn(Op) -> bool, mut action: impl FnMut(u32) + 'static) {
        let mut number = 0;
        self.on_step(move |op| {
            if wanted(op) {
                number += 1;
                action(number);
            }
        });
    }

    /// Runs `action` once, before the first operation that is `wanted`.
    pub(crate) fn once(&self, wanted: fn(Op) -> bool, action: impl FnOnce() + 'static) {
        let mut action = Some(action);
        self.each(wanted, move |_| {
            if let Some(action) = action.take() {
                action();
            }
        });
    }

    /// Makes each read of the counter return this tick.
    pub(crate) fn counter_finds(&'static self, ticks: u64) {
        self.each(
            |op| op == Op::Counter,
            move |_| self.ticks.set(ticks.wrapping_sub(10)),
        );
    }

    fn before(&self, op: Op) {
        let hook = self.hook.borrow_mut().take();
        if let Some(mut hook) = hook {
            hook(op);
            self.hook.borrow_mut().get_or_insert(hook);
        }
    }

    pub(crate) fn pass(&self, ns: u64) {
        self.ticks.update(|ticks| ticks + ns);
    }

    /// The OS clock now, ns, without an operation.
    pub(crate) fn truth_ns(&self) -> i64 {
        self.ticks.get().cast_signed() + self.os_ns.get()
    }

    pub(crate) fn os_jumps(&self, ns: i64) {
        self.os_ns.update(|os_ns| os_ns + ns);
    }

    /// Sets Unix time forward by `ns`.
    pub(crate) fn unix_jumps(&self, ns: i64) {
        self.unix_ns.update(|unix_ns| unix_ns + ns);
    }

    /// Resets the counter to near 0; the OS clock goes on.
    pub(crate) fn reset(&self) {
        let truth_ns = self.truth_ns();
        self.ticks.set(5_000);
        self.os_ns.set(truth_ns - 5_000);
    }

    pub(crate) fn bounds(&self) -> OsBounds {
        let line = |ns: i64| Line {
            start_ticks: self.ticks.get(),
            base_ns: self.truth_ns() + ns,
            slope: Slope::from_hz(1_000_000_000).unwrap(),
        };
        OsBounds {
            lower: line(-WIDTH_NS),
            upper: line(WIDTH_NS),
            unix_offset: Some(UnixOffsetBounds {
                least_ns: self.unix_ns.get() - 5,
                most_ns: self.unix_ns.get() + 5,
            }),
        }
    }

    pub(crate) fn read(&'static self, process_high_water: &ProcessHighWater) -> PageReading {
        read(self, &self, &self, process_high_water, Timescale::Monotonic)
    }

    /// Reads the time in a new process.
    pub(crate) fn now(&'static self) -> i64 {
        self.read(&ProcessHighWater::new()).ns
    }

    pub(crate) fn source(&'static self) -> PageSource {
        self.read(&ProcessHighWater::new()).source
    }

    pub(crate) fn read_unix(&'static self) -> PageReading {
        read(
            self,
            &self,
            &self,
            &ProcessHighWater::new(),
            Timescale::Unix,
        )
    }

    /// The distance of a new process's reading above the OS clock, when it is complete, ns.
    pub(crate) fn ahead_ns(&'static self) -> i64 {
        self.now() - self.truth_ns()
    }

    pub(crate) fn unix_ahead_ns(&'static self) -> i64 {
        self.read_unix().ns - self.truth_ns() - self.unix_ns.get()
    }

    pub(crate) const fn cell(&self) -> &LeaseCell {
        self.page.cell()
    }

    /// The word, without an operation.
    pub(crate) fn word(&self) -> LeaseWord {
        self.cell().word()
    }

    /// The lines that the word names.
    pub(crate) fn lines(&self) -> Vec<LeaseLine> {
        let slots = [Some(self.word().first()), self.word().second()]
            .into_iter()
            .flatten();
        slots
            .map(|slot| LeaseLine::load(self.cell(), slot))
            .collect()
    }

    pub(crate) fn last(&self) -> LeaseLine {
        self.lines().pop().expect("a line")
    }

    /// Raises the second line by `ns`, so that a test can distinguish the two lines.
    pub(crate) fn raise_second(&self, ns: i64) {
        let second = self.last();
        let line = Line {
            base_ns: second.line.base_ns + ns,
            ..second.line
        };
        let slot = self.word().second().expect("two lines");
        self.cell()
            .fill(slot, &LeaseLine { line, ..second }.to_words());
    }
}

impl LeaseMemory for Scene {
    fn word(&self) -> LeaseWord {
        self.before(Op::FirstLoad);
        self.cell().word()
    }
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        self.before(Op::Field);
        self.cell().field(slot, field)
    }
    fn is_still(&self, word: LeaseWord) -> bool {
        self.before(Op::SecondLoad);
        self.cell().is_still(word)
    }
}

impl LeaseStore for Scene {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        self.before(Op::Fill);
        self.cell().fill(slot, words);
    }
    fn try_swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        self.before(Op::Swap(to));
        let is_done = self.cell().try_swap(from, to);
        if is_done {
            self.before(Op::Swapped(to));
        }
        is_done
    }
}

impl Counter for &Scene {
    fn now(&self) -> u64 {
        self.before(Op::Counter);
        self.counter_reads.update(|reads| reads + 1);
        self.pass(10);
        self.ticks.get()
    }
    fn barrier(&self) {}
}

impl Reference for &Scene {
    fn monotonic_ns(&self) -> i64 {
        self.before(Op::Os);
        self.pass(10);
        let ns = self.truth_ns();
        self.pass(10);
        ns
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns() + self.unix_ns.get()
    }
}

impl ReaderOs for &Scene {
    fn coarse_unix_ns(&self) -> Option<i64> {
        self.has_coarse
            .get()
            .then(|| self.truth_ns() / 4_000_000 * 4_000_000 + self.unix_ns.get())
    }
    fn pause(&self) {
        self.pauses.update(|pauses| pauses + 1);
        self.pass(500);
    }
}
