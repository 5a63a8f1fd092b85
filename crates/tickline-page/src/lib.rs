#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! A page that nobody has opened yet gives the OS clock:
//!
//! ```
//! use tickline_page::{Counter, Header, Machine, OsClock, Page, PrivateFloor, Source};
//!
//! struct Os;
//! impl OsClock for Os {
//!     fn monotonic_ns(&self) -> i64 { 1_000 }
//!     fn realtime_ns(&self) -> i64 { 2_000 }
//!     fn pause(&self) {}
//! }
//! struct Ticks;
//! impl Counter for Ticks {
//!     fn now(&self) -> u64 { 5 }
//!     fn now_ordered(&self) -> u64 { 5 }
//!     fn barrier(&self) {}
//! }
//!
//! let machine = Machine { boot_id: [7; 16], time_namespace: 0, monotonic_offset_ns: Some(0) };
//! let page = Page::new();
//! assert!(page.attach(&machine).is_err(), "nobody has claimed it");
//! page.claim(&Header::of(&machine)).unwrap();
//! let reading = page.attach(&machine).unwrap().monotonic(&Ticks, &Os, &PrivateFloor::new());
//! assert_eq!((reading.ns, reading.source), (1_000, Source::Os));
//! ```

#![no_std]
#![cfg(target_has_atomic = "64")]
#![deny(clippy::float_arithmetic, clippy::arithmetic_side_effects, clippy::indexing_slicing)]

mod attach;
mod file;
mod layout;

pub use attach::{Attached, Machine, Refusal};
pub use file::{FileFacts, FileRefusal, judge_file};
pub use layout::{COUNTER, Header, LAYOUT_VERSION, PAGE_BYTES, Page};
pub use tickline_core::counter::{Counter, HardwareCounter};
pub use tickline_core::unstable::lease::{
    Lost, OsClock, PrivateFloor, Reading, Source, Timescale, attach as begin_with_os_clock,
};
