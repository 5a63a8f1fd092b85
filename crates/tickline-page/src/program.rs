//! What `tickline run` and `libtickline_preload.so` agree on. A release may change it: both are of
//! one release.

use core::ffi::CStr;

use tickline_core::gate::Clocksource;

use crate::host::read;

/// The library's file.
pub const LIBRARY: &str = "libtickline_preload.so";

/// The page of the machine's server. In a user's `XDG_RUNTIME_DIR`, a page has the same name as
/// this one in `/run`. A new layout is a new name.
pub const PAGE: &CStr = c"/run/tickline/page.v1";

/// The variable of the environment that names another page than the machine's.
pub const PAGE_VARIABLE: &str = "TICKLINE_PAGE";

/// The variable that serves a program even where the kernel's clock is fast, with [`ALWAYS`].
pub const SERVE_VARIABLE: &str = "TICKLINE_SERVE";

/// See [`SERVE_VARIABLE`].
pub const ALWAYS: &str = "always";

/// Flags of the library's `finish`, to be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum FinishFlag {
    /// The program ignores SIGTRAP.
    IgnoreTrap = 1,
    /// There is a SIGCHLD for the end of the helper, as the program blocks it.
    TakeChild = 2,
}

/// The variable that switches the counter off, as for programs that use `tickline`, with [`OFF`].
pub const SWITCH_VARIABLE: &str = "TICKLINE";

/// See [`SWITCH_VARIABLE`].
pub const OFF: &str = "off";

/// The file with the name of the kernel's clocksource.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Whether the vDSO reads this clocksource on x86_64. `name` may end with a line break.
fn is_fast(name: &[u8]) -> bool {
    use Clocksource::{HypervPage, KvmClock, Tsc, TscEarly};
    matches!(Clocksource::from_name(name), Tsc | TscEarly | KvmClock | HypervPage)
}

/// Whether the kernel's clock needs no system call here, by the name of its clocksource. The name
/// does not say that a host forbids its guests to read kvm-clock in the vDSO.
#[must_use]
pub fn kernels_clock_is_fast() -> bool {
    read(CLOCKSOURCE, &mut [0; 64]).is_ok_and(is_fast)
}

/// What came of the start in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum StartResult {
    /// The page serves the program.
    Served = 0,
    /// The vDSO's symbols lead to such a library already.
    AlreadyServed = 1,
    /// There is no page at the path, or it cannot be opened.
    NoPage = 2,
    /// The page's file is not trusted ([`PageFile::open`](crate::host::PageFile::open)).
    NotTrusted = 3,
    /// The page is of another boot, another counter, or a time namespace that is not known.
    OtherMachine = 4,
    /// The program may not read the counter (prctl(2), `PR_SET_TSC`).
    CounterDenied = 5,
    /// The kernel does not know `MADV_WIPEONFORK`.
    OldKernel = 6,
    /// There is no vDSO, or none that is understood. Libc's functions are served all the same, if
    /// they are interposed.
    NoVdso = 7,
    /// The vDSO cannot be changed; otherwise as [`NoVdso`](Self::NoVdso).
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

    /// The result of this number; `None` if there is none.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|result| *result as i32 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_are_fast() {
        assert!(is_fast(b"tsc\n") && is_fast(b"kvm-clock"));
        assert!(![&b"hpet"[..], b"hyperv_clocksource_msr", b""].map(is_fast).contains(&true));
    }
}
