//! What traces ask of the operating system. Only these files, `own_file.rs` and the memory of rings
//! (`rings/memory/`) differ between systems.

pub(crate) mod clocks;
pub(crate) mod cpu_clock;
#[cfg(unix)]
pub(crate) mod file_number;
pub(crate) mod stderr;
pub(crate) mod temporary;
