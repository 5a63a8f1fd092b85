//! The OS clocks of a process that reads or serves a page, and what the kernel says of them.
//!
//! As in `tickline`, libc's symbol reads them, so a library that replaces the symbol (a simulator,
//! `faketime`) sets them.
//!
//! `tickline::backend::OsClock` reads the same clocks, but can't stand in here. It chooses between
//! vDSO and system call once for the process, and a clock with minimal probes makes that choice
//! without asking whether the process may read the counter. A page's clock asks when it opens the
//! page, because the process may have lost that right since. It also needs the coarse clock, by the
//! same choice, and [`ReaderOs::pause`]. So with `OsClock`, both ways to read a clock would still
//! be here.

use core::mem::MaybeUninit;

use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};
use tickline::Probes;
use tickline_core::clocksource::Clocksource;
use tickline_core::counter::HardwareCounter;
use tickline_core::gate::Reason;
use tickline_core::reference::{
    Reference, frequency_from_timex_ppb, kernel_rate_ppb, offset_from_timex_ns,
    steering_from_timex_ppb,
};

use crate::lease::ReaderOs;
use crate::page_file::read;

/// The counter of this target; an error if there is none, or this process may not read it.
pub(super) fn admitted_counter() -> Result<HardwareCounter, Reason> {
    let counter = HardwareCounter::if_present().ok_or(Reason::NoCounter)?;
    // A kernel without this call can't deny the counter in this way.
    if time_stamp_counter_readability() == Ok(TimeStampCounterReadability::RaiseSIGSEGV) {
        return Err(Reason::Denied);
    }
    Ok(counter)
}

/// The OS clocks of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageOs {
    /// The system calls that a reading may make.
    probes: Probes,
    /// Whether libc may read the clocks: its vDSO reads the counter.
    may_use_vdso: bool,
    /// Whether the vDSO serves the coarse clocks. A vDSO does so with every clocksource.
    has_coarse: bool,
}

impl PageOs {
    /// The clocks of a process that may read the counter, or may not.
    pub(super) fn new(probes: Probes, refused: Option<Reason>) -> Self {
        let may_use_vdso = refused != Some(Reason::Denied);
        // If the kernel has mapped no vDSO, the value is 0.
        // SAFETY: the call takes a number, and reads no memory that changes.
        let has_vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        Self {
            probes,
            may_use_vdso,
            has_coarse: may_use_vdso && has_vdso,
        }
    }

    pub(super) const fn probes(&self) -> Probes {
        self.probes
    }

    /// The time, ns. `None` if the kernel does not have this clock.
    #[inline]
    fn try_ns(self, clock: libc::clockid_t) -> Option<i64> {
        if !self.may_use_vdso {
            return ns_by_system_call(clock);
        }
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for a write; a clock that does not exist is an error code.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        (result == 0).then(|| in_ns(time.tv_sec, time.tv_nsec))
    }
}

/// Converts to ns. `time_t` and `long` have 32 bits on some targets.
#[inline]
fn in_ns(seconds: impl Into<i64>, nanos: impl Into<i64>) -> i64 {
    seconds
        .into()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanos.into())
}

/// The time, ns, without the vDSO: it would read the counter, which this process is denied.
#[cold]
#[inline(never)]
fn ns_by_system_call(clock: libc::clockid_t) -> Option<i64> {
    // The kernel's timespec for this call has the width of long, whatever libc's has.
    let mut time: [libc::c_long; 2] = [0; 2];
    // SAFETY: `time` is valid for a write, and as large as the kernel's structure.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time.as_mut_ptr()) };
    let [seconds, nanos] = time;
    (result == 0).then(|| in_ns(seconds, nanos))
}

/// Every Linux has both clocks, so no call can fail; if one did, the time would be 0.
impl Reference for PageOs {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        self.try_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
    }

    #[inline]
    fn unix_ns(&self) -> i64 {
        self.try_ns(libc::CLOCK_REALTIME).unwrap_or(0)
    }
}

impl ReaderOs for PageOs {
    #[inline]
    fn coarse_unix_ns(&self) -> Option<i64> {
        if self.has_coarse {
            self.try_ns(libc::CLOCK_REALTIME_COARSE)
        } else {
            None
        }
    }

    fn pause(&self) {
        match self.probes {
            Probes::Full => std::thread::yield_now(),
            _ => core::hint::spin_loop(),
        }
    }
}

/// The resolution of the OS clock, ns, by the kernel's clocksource.
pub(super) fn os_resolution_ns() -> i64 {
    resolution_ns(read(Clocksource::CURRENT_FILE, &mut [0; 64]).unwrap_or_default())
}

/// The resolution of the OS clock, ns, if the kernel's clocksource has this name.
fn resolution_ns(name: &[u8]) -> i64 {
    // The counter's own resolution matters only for brackets.
    Clocksource::from_name(name)
        .resolutions(HardwareCounter::CLOCKSOURCE, 0)
        .reference_ns
        .max(1)
}

/// The whole correction of the rate of the kernel's clocks, ppb, with the slew of an offset that a
/// daemon leaves to the kernel (systemd-timesyncd); `None` if the kernel may not be asked.
pub(super) fn whole_rate_ppb() -> Option<i64> {
    let mut timex = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
    let state = unsafe { libc::adjtimex(timex.as_mut_ptr()) };
    // SAFETY: `timex` is plain data, of which all zeros is a valid value.
    let timex = unsafe { timex.assume_init_ref() };
    (state >= 0).then(|| rate_ppb(timex))
}

#[allow(
    clippy::useless_conversion,
    reason = "long has 32 bits on some targets"
)]
fn rate_ppb(timex: &libc::timex) -> i64 {
    let frequency_ppb = frequency_from_timex_ppb(timex.freq.into());
    let is_in_ns = timex.status & libc::STA_NANO != 0;
    kernel_rate_ppb(
        steering_from_timex_ppb(frequency_ppb, timex.tick.into()),
        offset_from_timex_ns(timex.offset.into(), is_in_ns),
        Some(timex.constant.into()),
    )
}

#[cfg(test)]
mod tests {
    use tickline_observe::skip;

    use super::*;

    /// Rule W10. Symptom: under a daemon that leaves the slew to the kernel, a line lasted too
    /// long.
    #[test]
    fn a_rate_has_the_slew_that_is_left_to_the_kernel() {
        // SAFETY: plain data, of which all zeros is a valid value.
        let empty: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
        let timex = |offset, status| libc::timex {
            tick: 10_833,
            freq: -(30 << 16),
            offset,
            status,
            ..empty
        };
        let expected_ppb = 183_270_000; // a third of the offset in this second
        assert_eq!(rate_ppb(&timex(300_000, 0)), expected_ppb);
        assert_eq!(rate_ppb(&timex(300_000_000, libc::STA_NANO)), expected_ppb);
    }

    /// A process that is denied the counter asks the kernel, whose clocks are the same.
    #[test]
    fn the_clocks_are_the_same_by_libc_and_by_system_call() {
        let [by_libc, by_kernel] =
            [None, Some(Reason::Denied)].map(|refused| PageOs::new(Probes::Full, refused));
        for read in [PageOs::monotonic_ns, PageOs::unix_ns] {
            let [before_ns, between_ns, after_ns] =
                [by_libc, by_kernel, by_libc].map(|os| read(&os));
            assert!(
                before_ns <= between_ns && between_ns <= after_ns,
                "{before_ns}, {between_ns}, {after_ns}"
            );
        }
        assert_eq!(
            by_kernel.coarse_unix_ns(),
            None,
            "it would be a system call"
        );
    }

    /// Unix time by std, ns.
    fn std_unix_ns() -> i64 {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        i64::try_from(since.as_nanos()).unwrap()
    }

    #[test]
    fn the_unix_clock_is_that_of_std() {
        let os = PageOs::new(Probes::Full, None);
        let before_ns = std_unix_ns();
        let ns = os.unix_ns();
        assert!((before_ns..=std_unix_ns()).contains(&ns), "{ns}");
    }

    #[test]
    fn the_coarse_time_is_the_kernels() {
        let os = PageOs::new(Probes::Full, None);
        if !os.has_coarse {
            return skip("no vDSO here");
        }
        let asked_ns = || ns_by_system_call(libc::CLOCK_REALTIME_COARSE);
        let (before_ns, coarse_ns, after_ns) = (asked_ns(), os.coarse_unix_ns(), asked_ns());
        assert!(
            before_ns <= coarse_ns && coarse_ns <= after_ns,
            "{before_ns:?}, {coarse_ns:?}, {after_ns:?}"
        );
    }

    #[test]
    fn libc_serves_coarse_clocks_if_there_is_a_vdso() {
        let auxiliary = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let mut entries = auxiliary.chunks_exact(2 * size_of::<usize>());
        let vdso_type = usize::try_from(libc::AT_SYSINFO_EHDR).expect("a small number");
        let has_vdso = entries.any(|entry| entry.starts_with(&vdso_type.to_ne_bytes()));
        if auxiliary.is_empty() {
            return skip("the auxiliary vector cannot be read");
        }
        assert_eq!(PageOs::new(Probes::Full, None).has_coarse, has_vdso);
    }

    #[test]
    fn a_process_that_is_denied_the_counter_has_no_coarse_clocks() {
        assert!(!PageOs::new(Probes::Full, Some(Reason::Denied)).has_coarse);
    }

    #[test]
    fn the_resolution_of_the_os_clock_is_that_of_the_kernels_clocksource() {
        for (name, expected_ns) in [
            (&b"kvm-clock\n"[..], 1),
            (b"hpet\n", 100),
            (b"acpi_pm\n", 280),
            (b"jiffies\n", 10_000_000),
            (b"", 280), // unknown
        ] {
            assert_eq!(resolution_ns(name), expected_ns, "{}", name.escape_ascii());
        }
    }

    /// The kernel's answer, by a call of the test.
    fn asked_rate_ppb() -> Option<i64> {
        // SAFETY: plain data, of which all zeros is a valid value.
        let mut timex: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
        let state = unsafe { libc::adjtimex(&raw mut timex) };
        (state != -1).then(|| rate_ppb(&timex))
    }

    #[test]
    fn the_whole_rate_is_the_kernels_answer() {
        // A daemon may change it between the two calls.
        assert!((0..10).any(|_| whole_rate_ppb() == asked_rate_ppb()));
    }
}
