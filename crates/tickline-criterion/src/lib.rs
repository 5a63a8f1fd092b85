//! x
#![forbid(unsafe_code)]

mod builder;
mod calibration;
mod cost;
mod elapsed;
mod error;
mod incidents;
mod message;
mod pair;
mod rate;
mod session;
mod time;

pub use builder::Builder;
pub use calibration::{Calibration, Overhead};
pub use elapsed::Elapsed;
pub use error::{Error, ErrorKind};
pub use incidents::Incidents;
pub use pair::Start;
pub use time::TscTime;
