//! Linux: the kernel's clocksource, by sysfs.

use tickline_core::clocksource::{Acceptance, Clocksource};
use tickline_core::counter::HardwareCounter;

use super::file::read;

/// A name has up to 31 bytes, and a line end (`CS_NAME_LEN`, `kernel/time/clocksource.c`).
const NAME_BYTES: usize = 64;
/// Room for a dozen such names. No machine is known to have more than five.
const LIST_BYTES: usize = 384;

/// The kernel's clocksource.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::from_name(read(Clocksource::CURRENT_FILE, &mut [0; NAME_BYTES]))
}

/// Whether the kernel would keep time with this target's counter.
pub(crate) fn acceptance_of_counter() -> Acceptance {
    HardwareCounter::CLOCKSOURCE.acceptance(read(Clocksource::AVAILABLE_FILE, &mut [0; LIST_BYTES]))
}

// Miri does not show a program the machine's files.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use core::ffi::CStr;

    use super::*;

    /// What the kernel says in this file; nothing if there is none.
    fn text(path: &CStr) -> Vec<u8> {
        std::fs::read(path.to_str().expect("ASCII")).unwrap_or_default()
    }

    #[test]
    fn the_clocksource_is_the_one_that_the_kernel_names() {
        assert_eq!(
            clocksource(),
            Clocksource::from_name(&text(Clocksource::CURRENT_FILE))
        );
    }

    #[test]
    fn the_kernel_accepts_the_counter_by_its_whole_list() {
        let list = text(Clocksource::AVAILABLE_FILE);
        let by_whole_list = HardwareCounter::CLOCKSOURCE.acceptance(&list);
        assert_eq!(acceptance_of_counter(), by_whole_list);
    }
}
