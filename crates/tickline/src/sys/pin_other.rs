//! Systems on which a thread cannot be bound to a CPU, macOS among them.

/// Nobody can say.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    Vec::new()
}

/// Not available.
pub(crate) fn pin_this_thread(_: u32) -> bool {
    false
}
