//! Records of spans and events, for trace files and flight recorders.
//!
//! Each thread writes its records to a [`buffer`] of its own. [`local`] has the rest of a thread's
//! state. A [`Recorder`](recorder::Recorder) knows the buffers of all threads. [`crate::chrome`] takes
//! records out while the program runs; [`crate::flight`] copies them on request.

pub(crate) mod buffer;
mod fields;
pub(crate) mod json;
pub(crate) mod local;
pub(crate) mod recorder;
mod thread;
