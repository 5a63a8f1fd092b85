//! Systems that do not let a thread choose its CPU, macOS among them.

/// Unknown.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    Vec::new()
}

/// Not available.
pub(crate) fn pin_this_thread(_: u32) -> bool {
    false
}
