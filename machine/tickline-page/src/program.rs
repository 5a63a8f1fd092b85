//! The names, numbers and results that `tickline run` and `libtickline_preload.so` share. A program
//! that looks for a page where these two do so begins with [`PAGE`] and [`PAGE_VARIABLE`]. Any
//! release may change the numbers, because both come from one release.

use core::ffi::CStr;

use tickline_core::clocksource::Clocksource;

use crate::page_file::read;

/// The name of the library's file.
pub const LIBRARY: &str = "libtickline_preload.so";

/// The number of what `tickline run` and the library have agreed on: the section of the entry points,
/// their arguments, and the results. Each change of one of these raises it.
pub const RUN_INTERFACE: u32 = 1;

/// The path of the page that the machine's server publishes. A user's page has the same path in
/// `XDG_RUNTIME_DIR` as this one in `/run`. A page of another layout has another name.
pub const PAGE: &CStr = c"/run/tickline/page.v1";

/// The environment variable that names another page than [`PAGE`].
pub const PAGE_VARIABLE: &str = "TICKLINE_PAGE";

/// The environment variable whose value [`ALWAYS`] makes the library serve a program even if the
/// kernel's clock is fast.
pub const SERVE_VARIABLE: &str = "TICKLINE_SERVE";

/// The value of [`SERVE_VARIABLE`].
pub const ALWAYS: &str = "always";

/// Flags of the library's `resume`; the caller passes their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ResumeFlag {
    /// The program ignores SIGTRAP.
    IgnoreTrap = 1,
    /// The program blocks SIGCHLD, so the end of the helper leaves one pending: `resume` takes it.
    TakeChild = 2,
}

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

/// The result of the library's start in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum StartResult {
    /// The page serves the program.
    Served = 0,
    /// The vDSO's symbols already lead to a copy of the library.
    AlreadyServed = 1,
    /// There is no page at the path, or the system does not open it.
    NoPage = 2,
    /// The page's file is not trusted ([`PageFile::open`](crate::page_file::PageFile::open)).
    NotTrusted = 3,
    /// The page is of another boot, another counter, or a time namespace that is not known.
    OtherMachine = 4,
    /// The program may not read the counter (prctl(2), `PR_SET_TSC`).
    CounterDenied = 5,
    /// The kernel does not know `MADV_WIPEONFORK`.
    OldKernel = 6,
    /// The process has no vDSO, or one of an unknown layout. The page still serves libc's
    /// functions, if the library interposes them.
    NoVdso = 7,
    /// The kernel does not let the process change its vDSO. The page still serves libc's functions,
    /// if the library interposes them.
    VdsoReadOnly = 8,
    /// The page's path does not begin with `/`.
    NotAbsolute = 9,
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
    #[cfg_attr(miri, ignore = "Miri has no /sys")]
    fn the_kernels_clocksource_decides_whether_its_clock_is_fast() {
        let name = std::fs::read(Clocksource::CURRENT_FILE.to_str().unwrap()).unwrap_or_default();
        assert_eq!(kernels_clock_is_fast(), is_fast(&name));
    }
}
