//! Collects the facts that only Linux tells: NTP state, time namespace, the process's right to read
//! the counter. Its modules ask the daemons, the devices of the host and the kernel's log, and find
//! the page. `unsupported.rs` stands in for it on other systems.
//!
//! Only [`allow_counter`] changes anything: the rights of the calling thread.

#![allow(
    unsafe_code,
    reason = "dladdr and clock_gettime, which none of this program's other dependencies wraps"
)]

mod host_clock;
pub(crate) mod library;
mod log;
mod ntp_daemon;
pub(crate) mod page;
mod ptp4l;
mod vmclock;

use std::ffi::CStr;
use std::fs;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rustix::process::{
    TimeStampCounterReadability, set_time_stamp_counter_readability, time_stamp_counter_readability,
};
use tickline_page::page_file::namespace_offset_ns;
use tickline_utc::sources::kernel::KernelClock;

use super::kernel_ntp::flags_of;
use super::{Leap, Machine, Ntp, TimeNamespace, read_text};
pub(crate) use host_clock::now as host_clock_now;

/// The facts that need more than a read of a file.
pub(super) fn facts() -> Machine {
    let (ntp_daemon, ignored_answer) = ntp_daemon::read();
    Machine {
        kernel_log: log::read(),
        clock_gettime_file: clock_gettime_file(),
        clock_gettime_difference_ns: clock_gettime_difference_ns(),
        time_namespace: time_namespace(),
        page_readers: page::count_readers(),
        page_served: page::is_served(),
        page_switched_off: page::is_switched_off(),
        vmclock: vmclock::read(),
        ntp: ntp(),
        ntp_daemon,
        ignored_answer,
        ptp4l: ptp4l::read(),
        ..Machine::default()
    }
}

/// The facts about Unix time alone.
pub(super) fn unix_time_facts() -> Machine {
    let (ntp_daemon, ignored_answer) = ntp_daemon::read();
    Machine {
        ntp: ntp(),
        ntp_daemon,
        ignored_answer,
        ptp4l: ptp4l::read(),
        ..Machine::default()
    }
}

/// The kernel's NTP state; `None` if the kernel does not tell.
pub(crate) fn ntp() -> Option<Ntp> {
    Some(ntp_of(&KernelClock::read()?))
}

fn ntp_of(clock: &KernelClock) -> Ntp {
    Ntp {
        synchronised: clock.is_synchronised(),
        frequency_ppb: clock.frequency_ppb,
        tick_us: clock.tick_us,
        offset_ns: clock.offset_ns,
        time_constant: Some(clock.time_constant),
        maximum_error_us: clock.errors.maximum_us,
        estimated_error_us: clock.errors.estimated_us,
        flags: Some(flags_of(clock.status)),
        leap: Some(leap_of(clock)),
        tai_offset_s: Some(clock.tai_offset_s).filter(|s| *s != 0),
    }
}

/// The kernel's leap second (adjtimex(2), "Return value").
fn leap_of(clock: &KernelClock) -> Leap {
    if clock.state == libc::TIME_OOP {
        Leap::InProgress
    } else if clock.state == libc::TIME_WAIT {
        Leap::Done
    } else if clock.status & libc::STA_INS != 0 {
        Leap::Insert
    } else if clock.status & libc::STA_DEL != 0 {
        Leap::Delete
    } else {
        Leap::None
    }
}

/// The name of a process, which need not be UTF-8; `None` if the process has ended.
pub(crate) fn process_name(pid: u32) -> Option<String> {
    Some(
        read_text(format!("/proc/{pid}/comm"))?
            .trim_end_matches('\n')
            .to_owned(),
    )
}

/// Whether this process has root's user id, with which it may still lack rights in a container.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the calling thread may read the counter (`prctl(PR_GET_TSC)`); `None` if not x86.
pub(crate) fn may_read_counter() -> Option<bool> {
    Some(time_stamp_counter_readability().ok()? == TimeStampCounterReadability::Readable)
}

/// Gives the calling thread, and the threads that it will start, the right to read the counter,
/// after `PR_SET_TSC` has denied it. Without this right, a measurement of libc's clocks would end
/// the process with SIGSEGV.
pub(crate) fn allow_counter() {
    set_time_stamp_counter_readability(TimeStampCounterReadability::Readable).ok();
}

/// The file from which the dynamic linker has taken `clock_gettime`: libc, or a library in
/// `LD_PRELOAD`. `None` if the program itself has the function, as a static program does.
pub(crate) fn clock_gettime_file() -> Option<String> {
    library_of(libc::clock_gettime as *const libc::c_void)
}

/// The library that has the function at this address; `None` if the program itself has it, or if
/// the linker knows no file there. The program is known by its place in memory: its name is that
/// of its first argument, which any caller may choose.
fn library_of(function: *const libc::c_void) -> Option<String> {
    const NAMELESS: &str = "a library without a name";
    let found = file_at(function)?;
    let program = file_at(library_of as *const libc::c_void);
    if program.is_some_and(|program| program.dli_fbase == found.dli_fbase) {
        return None;
    }
    if found.dli_fname.is_null() {
        return Some(NAMELESS.to_owned());
    }
    // SAFETY: the name is a C string, which lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy();
    Some(if name.is_empty() {
        NAMELESS.to_owned()
    } else {
        name.into_owned()
    })
}

/// What the dynamic linker knows about the file at this address.
fn file_at(address: *const libc::c_void) -> Option<libc::Dl_info> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr accepts any address, and `found` is valid for a write.
    let is_found = unsafe { libc::dladdr(address, &raw mut found) } != 0;
    is_found.then_some(found)
}

/// libc's Unix time minus the Unix time of the system call, ns. A large difference shows that
/// libc's time is faked. The function also works if the faked time is beyond the year 2262.
fn clock_gettime_difference_ns() -> Option<i64> {
    let before = kernel_unix_time()?;
    let by_libc = clock_gettime(ClockId::CLOCK_REALTIME).ok()?;
    smallest_difference_ns(by_libc, [before, kernel_unix_time()?])
}

/// The smaller difference from two times of the kernel, before and after. A pause of the process,
/// or a step of the clock, falls between libc and only one of them.
#[allow(
    clippy::useless_conversion,
    reason = "time_t and long have 32 bits on some targets"
)]
fn smallest_difference_ns(by_libc: TimeSpec, by_kernel: [TimeSpec; 2]) -> Option<i64> {
    let ns =
        |time: TimeSpec| i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
    let differences_ns = by_kernel.map(|time| ns(by_libc) - ns(time));
    let least_ns = differences_ns
        .into_iter()
        .min_by_key(|ns| ns.unsigned_abs())?;
    let limits_ns = i128::from(i64::MIN)..=i128::from(i64::MAX);
    i64::try_from(least_ns.clamp(*limits_ns.start(), *limits_ns.end())).ok()
}

/// Unix time by the system call.
fn kernel_unix_time() -> Option<TimeSpec> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system call writes a timespec to a valid address.
    let result =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &raw mut time) };
    (result == 0).then(|| time.into())
}

/// The process's time namespace (time_namespaces(7)); `None` if the kernel has no time namespaces
/// (before Linux 5.6), or if `/proc` is unreadable.
fn time_namespace() -> Option<TimeNamespace> {
    let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let children_elsewhere = link("time")? != link("time_for_children")?;
    let offsets = fs::read("/proc/self/timens_offsets").ok()?;
    let offset_ns = |name: &str| {
        if children_elsewhere {
            None
        } else {
            namespace_offset_ns(&offsets, name)
        }
    };
    Some(TimeNamespace {
        monotonic_offset_ns: offset_ns("monotonic"),
        boottime_offset_ns: offset_ns("boottime"),
        children_elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use tickline_observe::skip;
    use tickline_utc::sources::kernel::KernelErrors;

    use super::*;

    /// What the kernel says while a daemon keeps the clock right.
    const KEPT: KernelClock = KernelClock {
        frequency_ppb: -20_000,
        tick_us: 10_000,
        offset_ns: 1_500,
        time_constant: 7,
        errors: KernelErrors {
            maximum_us: 700,
            estimated_us: 30,
        },
        status: libc::STA_PLL | libc::STA_NANO,
        state: libc::TIME_OK,
        tai_offset_s: 37,
    };

    /// Symptom: without /proc and a first argument, no library was seen. A name tells nothing.
    #[test]
    fn a_function_of_the_program_itself_is_in_no_library() {
        let own = library_of as *const libc::c_void;
        assert!(cfg!(target_feature = "crt-static") || file_at(own).is_some());
        assert_eq!(library_of(own), None);
    }

    #[test]
    fn the_kernels_ntp_state_has_each_figure_in_its_place() {
        let ntp = ntp_of(&KEPT);
        assert!(ntp.synchronised);
        assert_eq!((ntp.frequency_ppb, ntp.tick_us), (-20_000, 10_000));
        assert_eq!((ntp.offset_ns, ntp.time_constant), (1_500, Some(7)));
        assert_eq!((ntp.maximum_error_us, ntp.estimated_error_us), (700, 30));
        assert_eq!(ntp.flags, Some(vec!["PLL".to_owned(), "NANO".to_owned()]));
    }

    #[test]
    fn the_flag_or_the_state_says_that_the_clock_is_not_synchronised() {
        let state = libc::TIME_ERROR;
        assert!(!ntp_of(&KernelClock { state, ..KEPT }).synchronised);
        let status = KEPT.status | libc::STA_UNSYNC;
        let ntp = ntp_of(&KernelClock { status, ..KEPT });
        assert!(!ntp.synchronised);
        assert!(ntp.flags.unwrap().contains(&"UNSYNC".to_owned()));
    }

    #[test]
    fn a_leap_second_is_due_passing_or_over() {
        for (status, state, leap) in [
            (0, libc::TIME_OK, Leap::None),
            (libc::STA_INS, libc::TIME_INS, Leap::Insert),
            // The state of an unsynchronised clock is TIME_ERROR.
            (libc::STA_INS, libc::TIME_ERROR, Leap::Insert),
            (libc::STA_DEL, libc::TIME_DEL, Leap::Delete),
            (libc::STA_INS, libc::TIME_OOP, Leap::InProgress),
            (libc::STA_INS, libc::TIME_WAIT, Leap::Done),
        ] {
            let clock = KernelClock {
                status,
                state,
                ..KEPT
            };
            assert_eq!(ntp_of(&clock).leap, Some(leap), "{status} {state}");
        }
    }

    #[test]
    fn tai_is_unknown_until_a_daemon_tells_it() {
        let tai_offset_s = |s| {
            let tai_offset_s = s;
            ntp_of(&KernelClock {
                tai_offset_s,
                ..KEPT
            })
            .tai_offset_s
        };
        assert_eq!([37, 0].map(tai_offset_s), [Some(37), None]);
    }

    #[test]
    fn the_time_of_libc_is_compared_with_that_of_the_kernel() {
        let difference_ns = || clock_gettime_difference_ns().expect("both times");
        let differences_ns: Vec<_> = (0..100).map(|_| difference_ns()).collect();
        assert!(
            differences_ns
                .iter()
                .any(|ns| ns.unsigned_abs() < 1_000_000_000),
            "{differences_ns:?}, although libc is not faked"
        );
        assert!(differences_ns.iter().any(|ns| *ns != 0), "read once only");
    }

    /// A machine may be suspended, or the clock be set, between two of the calls.
    #[test]
    fn a_pause_beside_the_time_of_libc_is_no_difference() {
        let at = |second| TimeSpec::new(second, 0);
        assert_eq!(smallest_difference_ns(at(10), [at(10), at(99)]), Some(0));
        assert_eq!(smallest_difference_ns(at(99), [at(10), at(99)]), Some(0));
    }

    #[test]
    fn a_faked_time_differs_from_both_times_of_the_kernel() {
        let at = |second| TimeSpec::new(second, 0);
        let difference_ns = smallest_difference_ns(at(3_600), [at(10), at(11)]);
        assert_eq!(difference_ns, Some(3_589_000_000_000));
        let difference_ns = smallest_difference_ns(at(10), [at(3_610), at(3_611)]);
        assert_eq!(difference_ns, Some(-3_600_000_000_000));
    }

    /// i64 nanoseconds since 1970 end in 2262.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_faked_time_may_be_in_a_far_century() {
        let at = |second| TimeSpec::new(second, 0);
        let difference_ns = smallest_difference_ns(at(1 << 40), [at(10), at(11)]);
        assert_eq!(difference_ns, Some(i64::MAX));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernel_says_whether_this_thread_may_read_the_counter() {
        let mut readability: libc::c_int = 0;
        // SAFETY: the call writes an int to a valid address.
        let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut readability) };
        let expected = (result == 0).then_some(readability == libc::PR_TSC_ENABLE);
        assert_eq!(may_read_counter(), expected);
    }

    #[test]
    fn the_kernel_tells_its_ntp_state_to_whom_it_answers() {
        // SAFETY: `timex` is plain data, for which all zeros is a valid value.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: `timex` is valid for reads and writes, and modes of 0 only read.
        let state = unsafe { libc::adjtimex(&raw mut timex) };
        assert_eq!(ntp().is_some(), state >= 0);
    }

    #[test]
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    fn clock_gettime_is_in_a_file_other_than_the_program() {
        let file = clock_gettime_file().expect("a shared library");
        assert!(std::path::Path::new(&file).exists(), "{file}");
        assert_ne!(Some(file.into()), std::env::current_exe().ok());
    }

    #[test]
    fn a_process_stays_in_its_time_namespace_and_knows_its_offset() {
        let offsets = fs::read("/proc/self/timens_offsets").ok();
        let expected = offsets.map(|offsets| TimeNamespace {
            monotonic_offset_ns: namespace_offset_ns(&offsets, "monotonic"),
            boottime_offset_ns: namespace_offset_ns(&offsets, "boottime"),
            children_elsewhere: false,
        });
        assert_eq!(time_namespace(), expected);
    }

    #[test]
    fn the_facts_have_what_each_source_tells() {
        let facts = facts();
        assert_eq!(facts.clock_gettime_file, clock_gettime_file());
        assert_eq!(facts.time_namespace, time_namespace());
        assert_eq!(facts.ntp.is_some(), ntp().is_some());
        assert_eq!(facts.kernel_log.is_some(), log::read().is_some());
        assert!(facts.clock_gettime_difference_ns.is_some());
    }

    /// The right is each thread's own.
    #[test]
    fn a_thread_that_was_denied_the_counter_is_allowed_to_read_it() {
        let answers = std::thread::spawn(|| {
            let denied = TimeStampCounterReadability::RaiseSIGSEGV;
            let is_denied = set_time_stamp_counter_readability(denied).is_ok();
            let while_denied = may_read_counter();
            allow_counter();
            is_denied.then(|| (while_denied, may_read_counter()))
        });
        let Some(answers) = answers.join().expect("no panic") else {
            return skip("this kernel denies nobody the counter");
        };
        assert_eq!(answers, (Some(false), Some(true)));
    }
}
