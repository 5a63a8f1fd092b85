//! The counter's frequency by name.

use core::sync::atomic::{AtomicU64, Ordering};

use super::cpu;
use crate::options::Probes;
use crate::sys::counter_readable;

/// [`nominal_hz`], once known.
static NOMINAL_HZ: AtomicU64 = AtomicU64::new(NOT_ASKED);
const NOT_ASKED: u64 = 0;
const NOT_NAMED: u64 = 1;

/// The counter's frequency as the processor, the firmware or the hypervisor names it, Hz. With
/// minimal probes it is unknown where the process needs a right to read it.
pub(crate) fn nominal_hz(probes: Probes) -> Option<u64> {
    // ORDERING: Relaxed for both, the figure is all there is, and all threads store the same.
    let mut known = NOMINAL_HZ.load(Ordering::Relaxed);
    if known == NOT_ASKED {
        if cpu::NAMED_BESIDE_THE_COUNTER && (probes == Probes::Minimal || !counter_readable()) {
            return None;
        }
        known = cpu::nominal_hz().unwrap_or(NOT_NAMED);
        // ORDERING: as above.
        NOMINAL_HZ.store(known, Ordering::Relaxed);
    }
    Some(known).filter(|hz| *hz > NOT_NAMED)
}
