//! The guest's system calls.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use crate::report;

/// Gives the guest its file systems and the port for reports.
///
/// # Errors
///
/// If one of them cannot be had.
pub(crate) fn prepare() -> io::Result<()> {
    for (kind, place) in [(c"proc", c"/proc"), (c"sysfs", c"/sys"), (c"devtmpfs", c"/dev")] {
        mount(kind, place)?;
    }
    report::open()
}

/// Mounts a file system of this kind.
pub(crate) fn mount(kind: &CStr, place: &CStr) -> io::Result<()> {
    // SAFETY: both are C strings, and no data is passed on.
    check(unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, ptr::null()) })
}

/// Takes a file system away, though files in it may be open.
pub(crate) fn unmount(place: &CStr) -> io::Result<()> {
    // SAFETY: a C string.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) })
}

/// A program that is started without the right to read the counter.
pub(crate) fn without_counter(command: &mut Command) -> &mut Command {
    let deny = || {
        // SAFETY: changes this process's own right only.
        check(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) })
    };
    // SAFETY: between fork and exec a system call is made, and nothing else.
    unsafe { command.pre_exec(deny) }
}

/// No echo and no change of line ends on a serial port.
pub(crate) fn make_raw(port: &File) -> io::Result<()> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the descriptor is open, and the memory is that of a `termios`.
    check(unsafe { libc::tcgetattr(port.as_raw_fd(), settings.as_mut_ptr()) })?;
    // SAFETY: written above; all zero is a value, too.
    let mut settings = unsafe { settings.assume_init() };
    // SAFETY: a valid `termios`.
    unsafe { libc::cfmakeraw(&raw mut settings) };
    // SAFETY: the descriptor is open, and the settings are valid.
    check(unsafe { libc::tcsetattr(port.as_raw_fd(), libc::TCSANOW, &raw const settings) })
}

/// The end of the guest.
pub(crate) fn power_off() -> ! {
    // SAFETY: ends this machine, which is a guest of its own: `main` looks.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    loop {
        std::thread::park();
    }
}

/// Pins the calling thread to one CPU. Fails if that is offline.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: guests have a handful of CPUs, far below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid and of that size; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })
}

/// Names this process, as `/proc/PID/comm` shows it.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: a C string; changes nothing but this thread's name, which is the process's.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sleeps until `CLOCK_MONOTONIC` has this value, ns. It needs no call for the time.
pub(crate) fn sleep_until(at_ns: u64) {
    let part = |ns: u64| libc::c_long::try_from(ns).unwrap_or(libc::c_long::MAX);
    let time = libc::timespec { tv_sec: part(at_ns / 1_000_000_000), tv_nsec: part(at_ns % 1_000_000_000) };
    // SAFETY: a valid time; nothing is to be written.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, ptr::null_mut())
    };
}

/// Sends a signal.
pub(crate) fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: a signal, to a child of this process.
    check(unsafe { libc::kill(pid, signal) })
}

/// Makes the calling thread nicer.
pub(crate) fn be_nice(nice: i32) {
    // SAFETY: changes nothing but this thread's weight.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// `CLOCK_MONOTONIC` by libc, ns.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` by libc, ns.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// `CLOCK_MONOTONIC_RAW` by libc, ns: no daemon changes its rate.
pub(crate) fn monotonic_raw_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// `CLOCK_BOOTTIME` by libc, ns: counts suspended time, which `CLOCK_MONOTONIC` does not.
pub(crate) fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Sets `CLOCK_REALTIME` forward by so many seconds, or back.
pub(crate) fn step_clock(seconds: i64) -> io::Result<()> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec += seconds;
    // SAFETY: `time` is valid. The machine is a guest of its own.
    check(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) })
}

/// Makes the kernel's clocks run faster by so many ppm, or slower.
pub(crate) fn set_rate(ppm: i64) -> io::Result<()> {
    // SAFETY: all zero is a `timex` that asks for nothing.
    let mut request: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    request.modes = libc::ADJ_FREQUENCY;
    request.freq = ppm << 16; // adjtimex(2): in units of 2^-16 ppm
    // SAFETY: the request is valid for reads and writes.
    check(unsafe { libc::adjtimex(&raw mut request) })
}

/// The kernel's clocks count a tick of 10,000 us, the usual length, as so many us.
pub(crate) fn set_tick_us(us: i64) -> io::Result<()> {
    // SAFETY: all zero is a `timex` that asks for nothing.
    let mut request: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    request.modes = libc::ADJ_TICK;
    request.tick = us;
    // SAFETY: the request is valid for reads and writes.
    check(unsafe { libc::adjtimex(&raw mut request) })
}

/// The kernel's NTP state.
#[derive(Debug)]
pub(crate) struct Timex {
    pub(crate) is_synchronised: bool,
    /// The correction of the rate, ppm, the tick's included.
    pub(crate) rate_ppm: i64,
    pub(crate) maximum_error_us: i64,
}

/// Reads it.
pub(crate) fn timex() -> io::Result<Timex> {
    // SAFETY: all zero is a `timex` that asks for nothing.
    let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the request is valid for reads and writes.
    check(unsafe { libc::adjtimex(&raw mut state) })?;
    Ok(Timex {
        is_synchronised: state.status & libc::STA_UNSYNC == 0,
        // A microsecond more or less in a hundredth of a second is 100 ppm.
        rate_ppm: (state.freq >> 16) + (state.tick - 10_000) * 100,
        maximum_error_us: state.maxerror,
    })
}

/// The kernel's messages.
pub(crate) fn kernel_log() -> String {
    const READ_ALL: i32 = 3; // syslog(2), SYSLOG_ACTION_READ_ALL
    let mut log = vec![0_u8; 1 << 18];
    let size = i32::try_from(log.len()).unwrap_or(i32::MAX);
    // SAFETY: the memory is as large as said.
    let length = unsafe { libc::klogctl(READ_ALL, log.as_mut_ptr().cast(), size) };
    log.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&log).into_owned()
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
