//! The page's protocol, leases: one process publishes lines for readers that cannot write to its
//! memory.
//!
//! A program that only wants the time calls `open`, and needs nothing from here. This module is for
//! whoever writes a server or a reader of their own:
//!
//! | to write | take from here |
//! |---|---|
//! | a reader, which attaches to a page by itself | what it passes to a reading and gets from it: [`ReaderOs`], [`ProcessHighWater`], [`PageReading`] |
//! | a server | [`Writer`], and what it takes and returns |
//! | a simulator, or a test that needs a page with a line | also [`memory`]: words, slots and their fields |
//!
//! A writer calls [`Writer::iterate`] with the bounds of the OS clock. Its memory is the page's
//! file (`page_file::LockedPageFile`, feature `file`), a page in the program's own memory
//! ([`WritablePage::cell`](crate::WritablePage::cell)), or a simulator's.
//!
//! ```
//! use core::cell::Cell;
//!
//! use tickline_page::lease::{
//!     Basis, LeasePhase, Line, OsBounds, PageSource, ProcessHighWater, ReaderOs, Slope, Timescale,
//!     UnixOffsetBounds, Writer, WriterAction, WriterConfig, memory::LeaseCell, read,
//! };
//! use tickline_page::{Counter, Reference};
//!
//! /// A machine whose counter ticks once a nanosecond, as its OS clock does.
//! struct Machine {
//!     ticks: Cell<u64>,
//! }
//!
//! impl Counter for Machine {
//!     fn now(&self) -> u64 {
//!         self.ticks.update(|ticks| ticks + 10);
//!         self.ticks.get()
//!     }
//!     fn barrier(&self) {}
//! }
//! impl Reference for Machine {
//!     fn monotonic_ns(&self) -> i64 {
//!         self.now().cast_signed()
//!     }
//!     fn unix_ns(&self) -> i64 {
//!         self.monotonic_ns() + 1_000_000
//!     }
//! }
//! impl ReaderOs for Machine {
//!     fn pause(&self) {}
//! }
//!
//! // The writer knows the OS clock to 20 ns either way, and Unix time to 5 ns.
//! let slope = Slope::from_hz(1_000_000_000).expect("1 GHz");
//! let line = |base_ns| Line { start_ticks: 0, base_ns, slope };
//! let bounds = OsBounds {
//!     lower: line(-20),
//!     upper: line(20),
//!     unix_offset: Some(UnixOffsetBounds { least_ns: 999_995, most_ns: 1_000_005 }),
//! };
//!
//! let machine = Machine { ticks: Cell::new(5_000_000) };
//! let page = LeaseCell::new();
//! let mut writer = Writer::start(&page, WriterConfig::new())?;
//! let iteration = writer.iterate(&page, &machine, &machine, Basis::Bounds(bounds), Some(0))?;
//! assert_eq!(iteration.action, WriterAction::PublishedFirst);
//! assert_eq!(writer.word().phase(), LeasePhase::Published);
//! // The writer now sleeps for `iteration.next_in_ns`, and comes again with newer bounds.
//!
//! let high_water = ProcessHighWater::new();
//! let reading = read(&page, &machine, &machine, &high_water, Timescale::Monotonic);
//! assert_eq!(reading.source, PageSource::Line);
//! // Half a lease later the line is near the OS clock, and not below it.
//! machine.ticks.update(|ticks| ticks + 250_000_000);
//! let os_ns = machine.monotonic_ns();
//! let reading = read(&page, &machine, &machine, &high_water, Timescale::Monotonic);
//! assert!((os_ns..os_ns + 100).contains(&reading.ns));
//! # Ok::<(), tickline_page::lease::PageChanged>(())
//! ```
//!
//! The writer of a page calibrates the counter; every other process maps the page read-only. Such a
//! reader leaves no trace: it can neither retire a line nor help a stopped writer. So a line
//! carries its own end, and the writer publishes the next line a lease ahead. Each line is at or
//! above the upper bound of the OS clock.
//! [machine/docs/lease.md](https://github.com/tickline/tickline/blob/main/machine/docs/lease.md)
//! has the rules, R1 to R11 for readers and W1 to W10 for the writer, with their reasons.
//!
//! The same page defines the words. Most of those that DESIGN.md has, too, mean the same here.
//! Slot, state and high-water mark differ, and readers wait for a first publication (rule 7) only
//! until its deadline (R7). Three words stand for others there: a lease for a line's validity, off
//! for barred (rule 8), an end mark for the high-water mark (rule 5).
//!
//! ```text
//!           W5                        W2, again and again
//! NoLine -------> FirstPublication -----> Published(n) ----> Published(n, n+1) ----> ...
//!    ^                 | too late              |                   |   late, or in doubt
//!    |<----------------+                       v                   v
//!    +<---------- past the last end ----- Published, or Doubted(n, n+1)
//! ```
//!
//! - [`memory`]: the page's word and slots, as readers load and the writer stores them;
//! - [`read`]: a reading; programs, the simulator and the models execute the same code;
//! - [`read_forked`]: a reading of a forked child that does not know its time namespace yet;
//! - `use_stage.rs`: whether a process's readings use the page, which its program decides;
//! - [`Writer`]: publishes lines; the caller passes a [`Basis`] to each iteration;
//! - [`Line`]: converts ticks to nanoseconds, in integers. Layout version 1 fixes its arithmetic.

mod bounds;
mod cell;
mod forked;
#[cfg(all(test, loom))]
mod loom_tests;
mod reader;
mod slot;
mod store;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(any(test, all(feature = "clock", target_os = "linux", not(miri))))]
mod use_stage;
mod word;
mod writer;

pub use bounds::{OsBounds, UnixOffsetBounds};
pub use forked::{Attachment, read_forked};
pub(crate) use reader::read_first_line;
pub use reader::{PageReading, PageSource, ProcessHighWater, ReaderOs, read};
#[cfg(all(feature = "clock", target_os = "linux", not(miri)))]
pub(crate) use use_stage::UseStage;
pub use word::LeasePhase;
pub use writer::{
    Basis, FAST_RATE_PPB, PageChanged, Writer, WriterAction, WriterConfig, WriterIteration,
};

pub use tickline_core::line::{Line, Slope};
pub use tickline_core::reference::Timescale;
use tickline_core::units::ticks_between;

/// The word and the slots of a page: for simulators and tests, which put lines into a page, or load
/// them, by themselves. Readers and servers need nothing from here. Its items do not follow
/// semantic versioning: they are public because the simulator of this repository uses them.
///
/// - [`LeaseWord`](memory::LeaseWord): the state of a page, 8 bytes whose value never recurs;
/// - [`LeaseLine`](memory::LeaseLine) and [`EndMark`](memory::EndMark): the contents of a slot;
/// - [`LeaseMemory`](memory::LeaseMemory) and [`LeaseStore`](memory::LeaseStore): a reader's loads
///   and the writer's stores; [`LeaseCell`](memory::LeaseCell) is the memory itself.
pub mod memory {
    pub use super::cell::LeaseCell;
    pub use super::slot::{
        EndMark, Field, LeaseLine, SLOT_WORDS, SLOTS, TimeWithLead, UNIX_BY_OS, UnixOffset,
    };
    pub use super::store::{LeaseMemory, LeaseStore, SwapResult};
    pub use super::word::{Bank, LeaseWord, SlotNumber};
}

/// Whether `ticks` is before `other`, on a counter that wraps.
#[inline(always)]
pub(crate) const fn is_before(ticks: u64, other: u64) -> bool {
    ticks_between(other, ticks) < 0
}
