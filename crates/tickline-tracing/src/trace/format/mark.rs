//! Marks: instants in a trace by which the sink itself says something.

/// A mark with a count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// The number of the thread that it belongs to; 0 for the process.
    pub(crate) thread: u64,
    pub(crate) ns: u64,
    pub(crate) count: u64,
    /// The words after the count in its name.
    pub(crate) label: &'static str,
    /// The name of its argument, which is the count.
    pub(crate) argument: &'static str,
}
