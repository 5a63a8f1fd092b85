//! Targets on which a program cannot read the CPU's id together with the counter. aarch64 keeps the
//! id in `MPIDR_EL1`, and RISC-V in `mhartid`. User space may read neither.

use super::{CpuCounter, CpuRead};

/// A counter that does not exist: there is no value of this type.
#[derive(Debug, Clone, Copy)]
pub enum HardwareCpuCounter {}

impl HardwareCpuCounter {
    /// Always `None`.
    #[must_use]
    pub fn if_present() -> Option<Self> {
        None
    }
}

impl CpuCounter for HardwareCpuCounter {
    fn now(&self) -> Option<CpuRead> {
        match *self {}
    }
    fn now_ordered(&self) -> Option<CpuRead> {
        match *self {}
    }
    fn barrier(&self) {
        match *self {}
    }
}
