//! What the sources say of themselves, and why one does not answer: for a program that shows them
//! to an operator, as `tickline doctor` does. A program that only wants UTC needs
//! [`Utc`](crate::Utc) alone.
//!
//! Each call asks now, on the calling thread, and waits for the answer. It does not alter what a
//! [`Utc`](crate::Utc) claims.

pub use crate::source::{chronyd, ptp4l};

/// What the kernel says of its clock (adjtimex(2)).
pub mod kernel {
    pub use crate::sys::{KernelClock, KernelErrors, UNSET_ERROR_US};
}
