//! One clock for all processes of a machine, on Linux.
//!
//! One process calibrates the counter and publishes a page of 4096 bytes ([`Publisher`]); all
//! others map it read-only ([`Clock::open_page`](crate::Clock::open_page)). The program
//! `tickline serve` is such a process. The file is trusted if it and its folder belong to root or
//! to the reader's own user, and nobody else may write to either. `docs/lease.md` in the
//! repository says what is promised between processes.

mod os;
mod publisher;
mod reader;
mod status;

pub use publisher::Publisher;
pub(crate) use reader::PageReader;
pub use status::{PageStatus, Phase};

/// By how much the kernel says that it changes the rate of its clocks now, ppb: what corrects the
/// crystal, and slews (adjtimex(2)), without those by adjtime(3), of 500 ppm. `None` where it does
/// not say. While this is beyond 1,000 ppm, a [`Publisher`] publishes no line.
#[must_use]
pub fn slew_ppb() -> Option<i64> {
    crate::sys::reference::slew_ppb()
}
