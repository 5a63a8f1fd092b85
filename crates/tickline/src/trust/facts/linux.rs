//! Linux: what sysfs says about the kernel's clocksource.

use core::ffi::CStr;

use tickline_core::gate::Clocksource;

use crate::sys::linux::file::{File, read};

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of the kernel.
const CURRENT: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &CStr = c"/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Resolves the path of the file that [`clocksource`] reads.
pub(crate) fn find_clocksource() {
    drop(File::open(CURRENT, libc::O_PATH));
}

/// What the kernel keeps time with.
pub(crate) fn clocksource() -> Clocksource {
    read(CURRENT, Clocksource::from_name)
}

/// Whether the kernel would keep time with `clocksource`; `None` if it does not say.
pub(crate) fn is_available(clocksource: Clocksource) -> Option<bool> {
    read(AVAILABLE, |list| clocksource.is_listed(list))
}
