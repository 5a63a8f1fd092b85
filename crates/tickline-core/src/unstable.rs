//! Internals that `tickline`, its simulator, benches and fuzz targets share. Every release may
//! change them, so a program that uses them depends on one version (`=0.1.0`).

/// Which readers run an iteration.
pub mod callers {
    pub use crate::callers::*;
}
/// The cell that readers load, and what is in it.
pub mod cell {
    pub use crate::cell::*;
}
/// Lists of CPUs as Linux spells them.
pub mod cpu_list {
    pub use crate::cpu_list::*;
}
/// The next line.
pub mod discipline {
    pub use crate::discipline::*;
}
/// The lines that fit all samples.
pub mod estimate {
    pub use crate::estimate::*;
}
/// Who opens and closes the gate.
pub mod keeper {
    pub use crate::gate::keeper::*;
}
/// Lines.
pub mod line {
    pub use crate::line::*;
}
/// A line for each CPU.
pub mod per_cpu {
    pub use crate::per_cpu::*;
}
/// Fixed-point nanoseconds, and arithmetic on ticks.
pub mod units {
    pub use crate::units::*;
}
