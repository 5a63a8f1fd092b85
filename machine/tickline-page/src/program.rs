//! Where `tickline run` and `libtickline_preload.so` look for a page, and the variables that they
//! obey.
//!
//! A program that only wants the time calls `open`, and needs nothing from here. A reader of one's
//! own that looks for a page where these two do so takes [`PAGE`] and [`PAGE_VARIABLE`].
//!
//! [`Entries`], [`Start`], [`StartResult`], [`Resume`], [`ResumeFlag`] and [`RUN_INTERFACE`] are
//! how `tickline run` starts the library in a program. They are public only because two other
//! crates use them. They do not follow semantic versioning: both sides come from one release, and
//! `run` refuses another library.

use core::ffi::CStr;

use tickline_core::clocksource::Clocksource;

use crate::layout::LAYOUT_VERSION;
use crate::page_file::read;

mod run_interface;

pub use run_interface::{
    ALWAYS, Entries, PAGE_VARIABLE, Resume, ResumeFlag, SERVE_VARIABLE, Start, StartResult,
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

/// The number of the interface between `tickline run` and the library: the hash of the file that
/// states it, and of the version of the page's layout. If a person had to raise a number, no test
/// would see that it was forgotten, because a part of the interface is prose (the registers of
/// [`Resume`]).
// Symptom of a number that nobody had raised: two builds of one version with different interfaces
// accepted each other's library.
pub const RUN_INTERFACE: u32 = hash(include_bytes!("program/run_interface.rs")) ^ LAYOUT_VERSION;

/// The hash FNV-1a of 32 bits, by Fowler, Noll and Vo.
const fn hash(mut bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    while let [first, rest @ ..] = bytes {
        hash ^= u32::from_le_bytes([*first, 0, 0, 0]);
        hash = hash.wrapping_mul(0x0100_0193);
        bytes = rest;
    }
    hash
}

impl StartResult {
    const ALL: [Self; 10] = [
        Self::Served,
        Self::AlreadyServed,
        Self::NoPage,
        Self::NotTrusted,
        Self::OtherMachine,
        Self::CounterDenied,
        Self::OldKernel,
        Self::NoVdso,
        Self::VdsoReadOnly,
        Self::NotAbsolute,
    ];

    /// The result with this number; `None` if no result has it.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|result| *result as i32 == number)
    }
}

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

    /// The vectors are those of the hash's authors.
    #[test]
    fn the_hash_of_a_source_is_fnv_1a() {
        for (source, number) in [
            (&b""[..], 0x811c_9dc5),
            (b"a", 0xe40c_292c),
            (b"foobar", 0xbf9c_f968),
        ] {
            assert_eq!(hash(source), number, "{}", source.escape_ascii());
        }
    }

    /// The library is C to the program that asks, and answers by a number.
    #[test]
    fn each_number_is_one_result() {
        for (number, result) in (0..).zip(StartResult::ALL) {
            assert_eq!(result as i32, number);
            assert_eq!(StartResult::from_number(number), Some(result));
        }
        assert_eq!(StartResult::from_number(-1), None);
        assert_eq!(StartResult::from_number(10), None);
    }

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
