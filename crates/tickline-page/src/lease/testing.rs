//! A page whose every step can be interrupted: one thread plays readers and writers.

use core::cell::{Cell, RefCell};

use tickline_core::counter::Counter;

use super::{
    Config, Estimate, Field, LeaseLine, LeaseMemory, LeaseStore, LeaseWord, LeaseWords, Line, OsClock,
    PrivateFloor, Reading, SLOT_WORDS, Slope, SlotNumber, Step, Timescale, Writer, read,
};

/// A step of a reader or a writer. The hook runs before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    FirstLook,
    Field,
    SecondLook,
    Counter,
    Os,
    Pause,
    Fill,
    /// Between the writer's look at the counter and its swap.
    Swap(LeaseWord),
    /// After a swap that took place.
    Swapped(LeaseWord),
}

/// A value that lives as long as the program.
pub(super) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

type Hook = Box<dyn FnMut(At)>;

/// A page, a counter of 1 GHz, and OS clocks.
pub(crate) struct Scene {
    pub(crate) memory: LeaseWords,
    pub(crate) ticks: Cell<u64>,
    /// The OS clock minus the ticks, ns.
    pub(crate) os_ns: Cell<i64>,
    /// Unix time minus the OS clock, ns.
    pub(crate) unix_ns: Cell<i64>,
    pub(crate) has_coarse: Cell<bool>,
    pub(crate) counter_reads: Cell<u32>,
    pub(crate) pauses: Cell<u32>,
    hook: RefCell<Option<Hook>>,
}

pub(crate) const UNIX_NS: i64 = 1_000_000_000_000;

/// The OS clock is within this of what an estimate of the scene says, ns.
pub(crate) const WIDTH_NS: i64 = 50;

impl Scene {
    pub(crate) fn new() -> &'static Self {
        leak(Self {
            memory: LeaseWords::new(),
            ticks: Cell::new(1 << 40),
            os_ns: Cell::new(-(1 << 39)),
            unix_ns: Cell::new(UNIX_NS),
            has_coarse: Cell::new(false),
            counter_reads: Cell::new(0),
            pauses: Cell::new(0),
            hook: RefCell::new(None),
        })
    }

    /// A page that serves one line, and its writer.
    pub(crate) fn live() -> (&'static Self, Writer) {
        let scene = Self::new();
        let mut writer = Writer::start(scene, Config::DEFAULT).unwrap();
        scene.step(&mut writer);
        assert!(writer.word().phase() == super::LeasePhase::Live && writer.word().second().is_none());
        (scene, writer)
    }

    /// A page that serves two lines, the first of which is current, and its writer.
    pub(crate) fn live_twice() -> (&'static Self, Writer) {
        let (scene, mut writer) = Self::live();
        scene.pass(6_000);
        assert_eq!(scene.step(&mut writer).did, super::Did::Succeeded);
        (scene, writer)
    }

    pub(crate) fn on_step(&self, hook: impl FnMut(At) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }

    /// Runs `action` once, before the first step that is `wanted`.
    pub(crate) fn once(&self, wanted: fn(At) -> bool, action: impl FnOnce() + 'static) {
        let mut action = Some(action);
        self.on_step(move |at| {
            if wanted(at)
                && let Some(action) = action.take()
            {
                action();
            }
        });
    }

    fn at(&self, at: At) {
        let hook = self.hook.borrow_mut().take();
        if let Some(mut hook) = hook {
            hook(at);
            self.hook.borrow_mut().get_or_insert(hook);
        }
    }

    pub(crate) fn pass(&self, ns: u64) {
        self.ticks.set(self.ticks.get() + ns);
    }

    /// The OS clock now.
    pub(crate) fn truth_ns(&self) -> i64 {
        i64::try_from(self.ticks.get()).unwrap() + self.os_ns.get()
    }

    /// The counter starts again near 0; the OS clock goes on.
    pub(crate) fn reset(&self) {
        let truth_ns = self.truth_ns();
        self.ticks.set(5_000);
        self.os_ns.set(truth_ns - 5_000);
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let line = |ns: i64| Line {
            start_ticks: self.ticks.get(),
            base_ns: self.truth_ns() + ns,
            slope: Slope::from_hz(1_000_000_000).unwrap(),
        };
        let unix_ns = self.unix_ns.get();
        Estimate { lower: line(-WIDTH_NS), upper: line(WIDTH_NS), unix_ns: Some((unix_ns - 5, unix_ns + 5)) }
    }

    pub(crate) fn step(&'static self, writer: &mut Writer) -> Step {
        writer.step(self, &self, &self, Some(&self.estimate())).unwrap()
    }

    pub(crate) fn read(&'static self, private: &PrivateFloor) -> Reading {
        read(self, &self, &self, private, Timescale::Monotonic)
    }

    /// A reading of a process of its own.
    pub(crate) fn now(&'static self) -> i64 {
        self.read(&PrivateFloor::new()).ns
    }

    pub(crate) fn unix(&'static self) -> i64 {
        read(self, &self, &self, &PrivateFloor::new(), Timescale::Unix).ns
    }

    /// The last line that the word names.
    pub(crate) fn last(&self) -> LeaseLine {
        let word = self.memory.word();
        LeaseLine::load(&self.memory, word.second().unwrap_or(word.first()))
    }
}

impl LeaseMemory for Scene {
    fn word(&self) -> LeaseWord {
        self.at(At::FirstLook);
        self.memory.word()
    }
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        self.at(At::Field);
        self.memory.field(slot, field)
    }
    fn is_still(&self, word: LeaseWord) -> bool {
        self.at(At::SecondLook);
        self.memory.is_still(word)
    }
}

impl LeaseStore for Scene {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        self.at(At::Fill);
        self.memory.fill(slot, words);
    }
    fn swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        self.at(At::Swap(to));
        let is_done = self.memory.swap(from, to);
        if is_done {
            self.at(At::Swapped(to));
        }
        is_done
    }
}

impl Counter for &Scene {
    fn now(&self) -> u64 {
        self.at(At::Counter);
        self.counter_reads.set(self.counter_reads.get() + 1);
        self.pass(10);
        self.ticks.get()
    }
    fn now_ordered(&self) -> u64 {
        self.now()
    }
    fn barrier(&self) {}
}

impl OsClock for &Scene {
    fn monotonic_ns(&self) -> i64 {
        self.at(At::Os);
        self.pass(10);
        let ns = self.truth_ns();
        self.pass(10);
        ns
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns() + self.unix_ns.get()
    }
    fn coarse_realtime_ns(&self) -> Option<i64> {
        self.has_coarse.get().then(|| self.truth_ns() / 4_000_000 * 4_000_000 + self.unix_ns.get())
    }
    fn pause(&self) {
        self.at(At::Pause);
        self.pauses.set(self.pauses.get() + 1);
        self.pass(500);
    }
}
