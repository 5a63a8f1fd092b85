#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! A new page is off, so its readings come from the OS clock:
//!
//! ```
//! use tickline_page::lease::{PageSource, ProcessHighWater, ReaderOs};
//! use tickline_page::{BootContext, Counter, Header, Reference, WritablePage};
//!
//! struct Os;
//! impl Reference for Os {
//!     fn monotonic_ns(&self) -> i64 { 1_000 }
//!     fn unix_ns(&self) -> i64 { 2_000 }
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
//! let page = WritablePage::new(&Header::new(&context).expect("a known offset"));
//! let attached = page.attach(&context).unwrap();
//! // The process keeps its mark. Each attach raises the mark before the first reading.
//! let process_high_water = ProcessHighWater::new();
//! attached.raise_to_os_clock(&Os, &process_high_water);
//! let reading = attached.monotonic(&Ticks, &Os, &process_high_water);
//! assert_eq!((reading.ns, reading.source), (1_000, PageSource::Os));
//! ```
//!
//! # Stability
//!
//! All public items follow semantic versioning, but for [`lease::memory`], which the simulator of
//! this repository uses, and for six of `program`, which that module's head names. The page has a
//! version of its own: the bytes and the rules of layout version 1 stay as they are. A program that
//! calls `open` needs only the crate root. The modules are for other programs:
//!
//! | for | module |
//! |---|---|
//! | a reader that attaches to a page by itself | `page_file`, and of [`lease`] the types of readings |
//! | a program that opens, makes or switches off a page's file | `page_file` |
//! | a writer of one's own, a simulator, a test: its head has an example | [`lease`] |
//! | a program that looks for a page where `tickline run` and the preloaded library do | `program` |

#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg(target_has_atomic = "64")]
#![cfg_attr(
    not(test),
    deny(
        clippy::float_arithmetic,
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing
    )
)]

#[cfg(any(feature = "clock", all(feature = "file", target_os = "linux")))]
extern crate std;

mod attach;
#[cfg(feature = "clock")]
#[cfg_attr(any(not(target_os = "linux"), miri), path = "clock/other.rs")]
mod clock;
mod layout;
pub mod lease;
#[cfg(any(feature = "clock", target_os = "linux"))]
#[cfg_attr(not(target_os = "linux"), path = "page_file/other.rs")]
pub mod page_file;
mod primitive;
#[cfg(target_os = "linux")]
pub mod program;

pub use attach::{AttachError, AttachedPage, BootContext};
#[cfg(all(feature = "clock", target_os = "linux", not(miri)))]
pub use clock::Publisher;
#[cfg(feature = "clock")]
pub use clock::{open, open_with_probes};
pub use layout::{COUNTER_ID, Header, LAYOUT_VERSION, PAGE_BYTES, Page, WritablePage};
#[cfg(feature = "clock")]
pub use page_file::PageError;
pub use tickline_core::counter::{Counter, HardwareCounter};
pub use tickline_core::reference::Reference;
