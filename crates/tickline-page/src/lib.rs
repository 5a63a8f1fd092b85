#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! A page that nobody has opened yet gives the OS clock:
//!
//! ```
//! use tickline_page::{
//!     BootContext, Counter, Header, PageSource, ProcessHighWater, ReaderOs, Reference, WritablePage,
//! };
//!
//! struct Os;
//! impl Reference for Os {
//!     fn monotonic_ns(&self) -> i64 { 1_000 }
//!     fn realtime_ns(&self) -> i64 { 2_000 }
//! }
//! impl ReaderOs for Os {
//!     fn pause(&self) {}
//! }
//! struct Ticks;
//! impl Counter for Ticks {
//!     fn now(&self) -> u64 { 5 }
//!     fn barrier(&self) {}
//! }
//!
//! let context = BootContext { boot_id: [7; 16], time_namespace: 0, monotonic_offset_ns: Some(0) };
//! let page = WritablePage::new(&Header::of(&context));
//! let reading = page.attach(&context).unwrap().monotonic(&Ticks, &Os, &ProcessHighWater::new());
//! assert_eq!((reading.ns, reading.source), (1_000, PageSource::Os));
//! ```

#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg(target_has_atomic = "64")]
#![cfg_attr(
    not(test),
    deny(clippy::float_arithmetic, clippy::arithmetic_side_effects, clippy::indexing_slicing)
)]

#[cfg(all(feature = "file", target_os = "linux"))]
extern crate std;

mod attach;
#[cfg(target_os = "linux")]
pub mod host;
mod layout;
mod lease;
mod primitive;
/// For the library and the program of this version, which start programs with a page. No part of
/// the API.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod program;

pub use attach::{AttachedPage, BootContext, Refusal};
pub use layout::{COUNTER, Header, LAYOUT_VERSION, PAGE_BYTES, Page, WritablePage};
// What a reading takes, and what it is.
pub use lease::{LeasePhase, PageReading, PageSource, ProcessHighWater, ReaderOs};
pub use tickline_core::counter::{Counter, HardwareCounter};
pub use tickline_core::sample::Reference;

// The protocol, for tickline's own crates, its simulator and its tests. Every release may change
// it, so it is not part of the API. The items above are those that a user of a page needs.
#[doc(hidden)]
pub mod protocol {
    pub use crate::lease::*;
}
