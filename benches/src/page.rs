//! A page with a line that stays valid for minutes, because only the cost of a reading matters.

use std::sync::OnceLock;

use tickline_core::counter::Counter;
use tickline_page::protocol::{
    LeaseLine, LeaseMemory, LeasePhase, LeaseStore, Line, Slope, SlotNumber, UnixShift,
};
use tickline_page::{AttachedPage, Header, Machine, OsClock, ProcessHighWater, WritablePage};

use crate::subject::{Subject, counter, same, subject};

/// Longer than any run of the measurements, ticks.
const WINDOW_TICKS: u64 = 1 << 42;

/// The kernel's clocks, as a reader in a program uses them.
struct Os;

impl OsClock for Os {
    fn monotonic_ns(&self) -> i64 {
        tickline_observe::monotonic_ns().cast_signed()
    }
    fn realtime_ns(&self) -> i64 {
        tickline_observe::clock_ns(libc::CLOCK_REALTIME).cast_signed()
    }
    fn pause(&self) {}
}

const MACHINE: Machine = Machine { boot_id: [1; 16], time_namespace: 0, monotonic_offset_ns: Some(0) };

fn attached() -> AttachedPage<'static> {
    static PAGE: OnceLock<WritablePage> = OnceLock::new();
    let page = PAGE.get_or_init(|| {
        let page = WritablePage::new(&Header::of(&MACHINE));
        let start_ticks = counter().now_ordered();
        let slope = Slope::from_hz(2_600_000_000).expect("a frequency");
        let line = Line { start_ticks, base_ns: tickline_observe::monotonic_ns().cast_signed(), slope };
        let end_ticks = start_ticks + WINDOW_TICKS;
        let line = LeaseLine { line, end_ticks, lead_ns: 0, unix: UnixShift::NONE };
        let (slot, word) = (SlotNumber::from_low_bits(0), page.words().word());
        page.words().fill(slot, &line.to_words());
        assert!(page.words().swap(word, word.next(LeasePhase::Published, slot, None)), "nobody else has it");
        page
    });
    page.attach(&MACHINE).expect("the page of this machine")
}

/// The readings of a page that the programs compare.
pub(crate) fn subjects() -> Vec<Subject> {
    static PRIVATE: ProcessHighWater = ProcessHighWater::new();
    vec![subject!(Internal, "page", {
        let attached = attached();
        move || attached.monotonic(&counter(), &Os, &PRIVATE).ns.unsigned_abs()
    }, ns same)]
}
