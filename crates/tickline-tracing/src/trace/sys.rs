//! What traces ask of the operating system. Besides these files, `own_file.rs` and the memory of
//! rings (`rings/memory/`) differ between systems, and so do two decisions: what a thread's end
//! does for its traces (`flusher.rs`), and where a thread's number comes from
//! (`capture/recorder.rs`).

pub(crate) mod clocks;
pub(crate) mod cpu_clock;
#[cfg(unix)]
pub(crate) mod file_number;
pub(crate) mod stderr;
pub(crate) mod temporary;
pub(crate) mod thread_life;
