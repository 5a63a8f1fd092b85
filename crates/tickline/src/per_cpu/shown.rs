//! What programs choose and see of a line for each CPU.

use tickline_core::per_cpu::CPU_IDS;

/// Whether a clock has one line, or one for each CPU.
///
/// With a line for each CPU, readings are in order on one CPU. A thread that is moved, or another one elsewhere, may see a step
/// back of no more than the two CPUs' bounds; so may one that reads across `disable()`, or while its CPU's line starts.
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, PerCpu};
///
/// let clock = Clock::builder().per_cpu(PerCpu::Off).start()?; // whatever the comparison of the counters says
/// assert!(clock.status().per_cpu.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PerCpu {
    /// One for each CPU if the counters were found to be apart.
    #[default]
    Auto,
    /// One for each CPU.
    On,
    /// One for all.
    Off,
}

/// Why there cannot be a line for each CPU.
///
/// ```
/// use tickline::{Clock, ErrorKind, PerCpu};
///
/// match Clock::builder().per_cpu(PerCpu::On).start().map_err(|error| error.kind()) {
///     Ok(clock) => println!("{} CPUs, each with a line", clock.status().per_cpu.len()),
///     Err(ErrorKind::PerCpu(reason)) => println!("one line for all: {reason}"),
///     Err(other) => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PerCpuUnsupported {
    /// The system cannot be asked for its CPUs, or does not let a thread choose one.
    System,
    /// The processor has no instruction that reads its counter and its id (`rdtscp`).
    Instruction,
    /// The system has more CPU ids than the processor's register tells apart.
    TooManyIds,
}

impl core::fmt::Display for PerCpuUnsupported {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::System => f.write_str("this system cannot be asked for its CPUs"),
            Self::Instruction => {
                f.write_str("this processor has no instruction for its counter and its id (rdtscp)")
            }
            Self::TooManyIds => write!(f, "this system has more than {CPU_IDS} CPU ids"),
        }
    }
}

/// How one CPU's readings are served.
///
/// ```
/// use tickline::{Clock, CpuState};
///
/// let status = Clock::global().status();
/// let fallen_back = status.per_cpu.iter().filter(|cpu| cpu.state == CpuState::Fallback).count();
/// println!("{fallen_back} CPUs without a line");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuState {
    /// By the OS clock: there is no line yet, or not again.
    Calibrating,
    /// By its counter.
    Fast,
    /// By the OS clock: 15 s have passed without a line. It is still tried.
    Fallback,
}

/// What a clock with a line for each CPU says about one of them.
///
/// ```
/// for cpu in tickline::Clock::global().status().per_cpu {
///     println!("CPU {}: {:?}, {:?} Hz, off by {} ns", cpu.cpu, cpu.state, cpu.frequency_hz, cpu.offset_ns);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStatus {
    /// The CPU's id.
    pub cpu: usize,
    /// How its readings are served.
    pub state: CpuState,
    /// The measured frequency of its counter, Hz (ticks per ns times 10^9); `None` before its first line.
    pub frequency_hz: Option<u64>,
    /// Line minus `CLOCK_MONOTONIC` as estimated at its last recalibration, before it was corrected, ns.
    pub offset_ns: i64,
    /// Time since its last recalibration, ns; `None` before the first one.
    pub age_ns: Option<u64>,
    /// Visits that failed (the CPU was offline, or forbidden, or the thread was moved away), and times that it fell back.
    pub failures: u64,
}
