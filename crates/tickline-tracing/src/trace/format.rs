//! The file of a trace: its two formats, and what one trace contains.

mod callsite_names;
pub(crate) mod json;
pub(crate) mod mark;
pub(crate) mod perfetto;
pub(crate) mod summary;
pub(crate) mod trace_output;
