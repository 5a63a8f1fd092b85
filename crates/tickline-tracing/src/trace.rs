//! Records of spans and events, which a trace file or a flight recorder is made of.
//!
//! Each thread writes its records to a ring of its own ([`ring`]), which nobody locks. What else a
//! thread keeps is in [`local`]. A [`Recorder`](recorder::Recorder) knows the rings of all
//! threads; [`crate::chrome`] takes records out while the program runs, [`crate::flight`] copies
//! them when it is asked to.

mod callsites;
mod fields;
pub(crate) mod json;
pub(crate) mod local;
pub(crate) mod recorder;
pub(crate) mod ring;
mod thread;
