//! Who answers a clock.

use serde::{Deserialize, Serialize};

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServedBy {
    /// The vDSO: code that the kernel has mapped into the process.
    Vdso,
    /// The kernel, by a system call.
    SystemCall,
    /// Nobody: the call ends the process (SIGSEGV).
    Nobody,
}
