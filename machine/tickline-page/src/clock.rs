//! Clocks of `tickline` over a page: [`open`] gives a [`Clock`](tickline::Clock) that reads one,
//! and [`Publisher`] serves the calibration of a clock on one. Both use only what `tickline` offers
//! to everybody: [`Backend`](tickline::backend::Backend),
//! [`Clock::bounds`](tickline::Clock::bounds) and the status.

mod os;
mod process_mark;
mod publisher;
mod reader;

pub use publisher::Publisher;
pub use reader::{open, open_with_probes};
