//! Where `tickline run` and `libtickline_preload.so` look for a page, and the variables that they
//! obey.
//!
//! A program that only wants the time calls `open`, and needs nothing from here. A reader of one's
//! own that looks for a page where these two do so takes [`PAGE`] and [`PAGE_VARIABLE`].
//!
//! [`Entries`], [`Start`], [`StartResult`], [`Resume`], [`ResumeFlag`] and [`RUN_INTERFACE`] are how
//! `tickline run` starts the library in a program. They are public only because two other crates use
//! them. They do not follow semantic versioning: both sides come from one release, and `run` refuses
//! another library.

use core::ffi::CStr;

use tickline_core::clocksource::Clocksource;

use crate::page_file::read;

mod run_interface;

pub use run_interface::{
    ALWAYS, Entries, PAGE_VARIABLE, RUN_INTERFACE, Resume, ResumeFlag, SERVE_VARIABLE, Start,
    StartResult,
};

/// The name of the library's file.
pub const LIBRARY: &str = "libtickline_preload.so";

/// The path of the page that the machine's server publishes. A user's page has the same path in
/// `XDG_RUNTIME_DIR` as this one in `/run`. A page of another layout has another name.
pub const PAGE: &CStr = c"/run/tickline/page.v1";

/// The environment variable whose value [`OFF`] switches the counter off.
pub const SWITCH_VARIABLE: &str = "TICKLINE";

/// The value of [`SWITCH_VARIABLE`].
pub const OFF: &str = "off";

/// Whether the vDSO reads this clocksource on x86_64. `name` may end with a line break.
fn is_fast(name: &[u8]) -> bool {
    use Clocksource::{HypervPage, KvmClock, Tsc, TscEarly};
    matches!(
        Clocksource::from_name(name),
        Tsc | TscEarly | KvmClock | HypervPage
    )
}

/// Whether the kernel's clock needs no system call, by the name of its clocksource. The name does
/// not show whether a host forbids its guests to read kvm-clock in the vDSO.
#[must_use]
pub fn kernels_clock_is_fast() -> bool {
    read(Clocksource::CURRENT_FILE, &mut [0; 64]).is_ok_and(is_fast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_of_a_fast_clocksource_counts() {
        for name in [
            &b"tsc\n"[..],
            b"tsc-early",
            b"kvm-clock",
            b"hyperv_clocksource_tsc_page",
        ] {
            assert!(is_fast(name), "{}", name.escape_ascii());
        }
        for name in [&b"hpet"[..], b"hyperv_clocksource_msr", b"tsc ", b""] {
            assert!(!is_fast(name), "{}", name.escape_ascii());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /sys")]
    fn the_kernels_clocksource_decides_whether_its_clock_is_fast() {
        let name = std::fs::read(Clocksource::CURRENT_FILE.to_str().unwrap()).unwrap_or_default();
        assert_eq!(kernels_clock_is_fast(), is_fast(&name));
    }
}
