//! How records come out of rings again: who takes them, in which order, and on which tracks.

pub(crate) mod cpu_times;
pub(crate) mod held_ends;
pub(crate) mod merge;
pub(crate) mod reader;
pub(crate) mod snapshot;
pub(crate) mod span_tracks;
