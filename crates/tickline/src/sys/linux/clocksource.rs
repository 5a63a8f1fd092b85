//! Linux: the kernel's clocksource, by sysfs.

use tickline_core::clocksource::Clocksource;
use tickline_core::counter::HardwareCounter;

use super::file::read;

/// A name has up to 31 bytes, and a line end (`CS_NAME_LEN`, `kernel/time/clocksource.c`).
const NAME_BYTES: usize = 64;
/// Room for a dozen such names. No machine is known to have more than five.
const LIST_BYTES: usize = 12 * 32;

/// The kernel's clocksource.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::from_name(read(Clocksource::CURRENT_FILE, &mut [0; NAME_BYTES]))
}

/// Whether the kernel would keep time with this target's counter; `None` if it does not say.
pub(crate) fn is_accepted() -> Option<bool> {
    HardwareCounter::CLOCKSOURCE
        .is_accepted(read(Clocksource::AVAILABLE_FILE, &mut [0; LIST_BYTES]))
}
