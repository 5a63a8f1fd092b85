//! Targets other than x86_64. Their processors state no facts to programs, except for the counter's
//! frequency on aarch64. On RISC-V the ISA manual demands one rate (volume I, Zicntr), and the
//! frequency is in the device tree.

/// Whether the counter is invariant. The architectures demand it: Arm ARM D12.1.1 for the generic
/// timer of aarch64, the ISA manual for RISC-V.
pub(crate) fn is_counter_invariant() -> bool {
    true
}

/// Unknown.
pub(crate) fn is_virtual() -> bool {
    false
}
