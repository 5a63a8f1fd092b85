//! One clock for all processes of a machine, on Linux.
//!
//! One process calibrates the counter and publishes a page of 4096 bytes ([`Publisher`]); all
//! others map it read-only ([`Clock::open_page`](crate::Clock::open_page)). The program `tickline
//! serve` is such a publisher. The file is trusted if it and its folder belong to root or to the
//! reader's own user, and no other user may write to either.
//! [machine/docs/lease.md](https://github.com/tickline/tickline/blob/main/machine/docs/lease.md) states the
//! guarantees between processes.

mod publisher;
mod reader;

pub use publisher::Publisher;
pub use tickline_page::LeasePhase;
