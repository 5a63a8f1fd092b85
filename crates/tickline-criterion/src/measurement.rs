//! What a measurement by [`CounterTime`](crate::CounterTime) says of itself: its settings, the
//! counter's [`Calibration`], the [`Incidents`] while it measured, and why the counter or the
//! subtraction of lost time is not available.

// The clock that criterion measures by. Everything else in this crate stands on it.
//
// | file | does |
// |---|---|
// | `time.rs`, `builder.rs`, `settings.rs` | implement criterion's `Measurement`; its settings |
// | `readings.rs` | takes the two readings around the measured code |
// | `calibration.rs`, `pair_cost.rs` | convert ticks into ns, and measure the cost of a pair |
// | `progress.rs` | counts criterion's calls, which tell how far it is |
// | `session.rs`, `incidents.rs` | follow tickline's clock: its rate, and what makes samples wrong |
// | `lost_time.rs`, `thread_meter.rs` | measure the time that the thread lost in a sample |
// | `noise_loop.rs` | detects interrupts |
// | `error.rs`, `measured_by.rs` | say why the counter can't measure, and which clock has measured |

pub(crate) mod builder;
pub(crate) mod calibration;
pub(crate) mod error;
pub(crate) mod incidents;
pub(crate) mod lost_time;
pub(crate) mod measured_by;
pub(crate) mod noise_loop;
pub(crate) mod pair_cost;
pub(crate) mod progress;
pub(crate) mod readings;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod thread_meter;
pub(crate) mod time;

pub use builder::CounterTimeBuilder;
pub use calibration::Calibration;
pub use error::{Error, ErrorKind};
pub use incidents::{Incidents, SubtractedTime};
pub use lost_time::NotSubtracted;
pub use measured_by::MeasuredBy;
pub use readings::Start;
