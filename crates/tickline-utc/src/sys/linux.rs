//! Linux: the kernel's own statement about its clock (adjtimex(2)), the clocks of devices, and the
//! sockets of daemons.

#![expect(unsafe_code, reason = "system calls")]

#[path = "linux/management_socket.rs"]
mod management_socket;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tickline_core::reference::{frequency_from_timex_ppb, offset_from_timex_ns};

use crate::sys::{KernelClock, KernelErrors};

#[path = "linux/local_socket.rs"]
mod local_socket;

pub(crate) use local_socket::{ask as ask_by_socket, owner};

pub(crate) use management_socket::ManagementSocket;

/// The user of this process.
pub(crate) fn user() -> Option<u32> {
    // SAFETY: the call has no requirements.
    Some(unsafe { libc::geteuid() })
}

/// A clock of a device (`/dev/ptpN`), such as a network card.
pub(crate) struct ClockDevice(File);

impl ClockDevice {
    /// The clock of this device; `None` if there is none, or this user may not read it.
    pub(crate) fn open(device: &Path) -> Option<Self> {
        File::open(device).ok().map(Self)
    }

    /// Its time, ns; `None` if the device is gone.
    pub(crate) fn now_ns(&self) -> Option<i64> {
        /// The lowest bits of a dynamic clock's id (`CLOCKFD`,
        /// `include/linux/posix-timers_types.h`).
        const CLOCKFD: libc::clockid_t = 3;
        // clock_getres(2), "Dynamic clocks".
        let clock = (!self.0.as_raw_fd() << 3) | CLOCKFD;
        let mut time = core::mem::MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: `time` is valid for a write; a clock that does not exist is an error code.
        let result = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
        // SAFETY: `timespec` is plain data, of which all zeros is a valid value.
        let time = unsafe { time.assume_init() };
        if result != 0 {
            return None;
        }
        nanos(time.tv_sec, time.tv_nsec)
    }
}

/// A time in ns; `None` beyond the year 2262. `time_t` and `long` have 32 bits on some targets.
fn nanos(seconds: impl Into<i64>, nanos: impl Into<i64>) -> Option<i64> {
    seconds
        .into()
        .checked_mul(1_000_000_000)?
        .checked_add(nanos.into())
}

/// What the kernel says of its clock; `None` if it may not be asked.
pub(crate) fn kernel_clock() -> Option<KernelClock> {
    let mut timex = core::mem::MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
    let state = unsafe { libc::adjtimex(timex.as_mut_ptr()) };
    // SAFETY: `timex` is plain data, of which all zeros is a valid value.
    let timex = unsafe { timex.assume_init_ref() };
    (state >= 0).then(|| converted(timex, state))
}

/// The offset that adjtime(3) has still to remove, us: `ADJ_OFFSET_SS_READ` of adjtimex(2), which
/// needs no privilege. `None` if the kernel may not be asked.
#[allow(
    clippy::useless_conversion,
    reason = "long has 32 bits on some targets"
)]
pub(crate) fn adjtime_left_us() -> Option<i64> {
    // SAFETY: `timex` is plain data, of which all zeros is a valid value.
    let mut timex: libc::timex = unsafe { core::mem::zeroed() };
    timex.modes = libc::ADJ_OFFSET_SS_READ;
    // SAFETY: `timex` is valid for reads and writes; this mode changes nothing.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    (state >= 0).then(|| timex.offset.into())
}

#[allow(
    clippy::useless_conversion,
    reason = "long has 32 bits on some targets"
)]
fn converted(timex: &libc::timex, state: i32) -> KernelClock {
    let frequency_ppb = frequency_from_timex_ppb(timex.freq.into());
    let is_in_ns = timex.status & libc::STA_NANO != 0;
    KernelClock {
        frequency_ppb,
        tick_us: timex.tick.into(),
        offset_ns: offset_from_timex_ns(timex.offset.into(), is_in_ns),
        time_constant: timex.constant.into(),
        errors: KernelErrors {
            maximum_us: timex.maxerror.into(),
            estimated_us: timex.esterror.into(),
        },
        status: timex.status,
        state,
        tai_offset_s: timex.tai.into(),
    }
}

/// Reads the beginning of a file into `bytes`; what is beyond the file's end stays as it is. The
/// file may be of any kind: a pipe is not waited for, and no more is read than fits.
pub(crate) fn read_beginning(path: &Path, bytes: &mut [u8]) -> Option<()> {
    let mut options = File::options();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let mut rest = bytes;
    loop {
        match file.read(rest).ok()? {
            0 => return Some(()),
            length => rest = rest.get_mut(length..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_read_as_far_as_it_fits() {
        let mut bytes = [7; 104];
        assert_eq!(read_beginning(Path::new("/dev/zero"), &mut bytes), Some(()));
        assert_eq!(bytes, [0; 104]);
    }

    /// The thread would wait for a writer, and the drop of its handle for the thread.
    #[test]
    fn a_pipe_without_a_writer_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("tickline-utc-pipe-{}", std::process::id()));
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut bytes = [7; 4];
        let read = read_beginning(&path, &mut bytes);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((read, bytes), (Some(()), [7; 4]));
    }

    #[test]
    fn a_timex_is_in_one_unit_and_says_whether_it_is_synchronised() {
        let timex = libc::timex {
            tick: 10_833,
            freq: -(30 << 16),
            offset: -700,
            // SAFETY: plain data, of which all zeros is a valid value.
            ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
        };
        let convert = |status, state| converted(&libc::timex { status, ..timex }, state);
        assert_eq!(convert(0, libc::TIME_OK).steering_ppb(), 83_270_000);
        assert_eq!(
            [0, libc::STA_NANO].map(|status| convert(status, 0).offset_ns),
            [-700_000, -700]
        );
        for (status, state, is_synchronised, leap_second_today) in [
            (0, libc::TIME_OK, true, false),
            (0, libc::TIME_ERROR, false, false),
            (libc::STA_UNSYNC, libc::TIME_OK, false, false),
            (libc::STA_INS, libc::TIME_INS, true, true),
            (libc::STA_DEL, libc::TIME_DEL, true, true),
            (libc::STA_INS, libc::TIME_WAIT, true, false),
        ] {
            let timex = convert(status, state);
            assert_eq!(
                (timex.is_synchronised(), timex.leap_second_today()),
                (is_synchronised, leap_second_today)
            );
        }
    }

    /// Symptom: under busybox' ntpd and Linux 5.10 a rate of -40.4 ppm was read as +16,803 ppm.
    #[test]
    fn the_rate_of_a_kernel_that_takes_its_offset_for_a_positive_number_is_right() {
        let timex = libc::timex {
            tick: 10_000,
            freq: -(40 << 16),
            offset: 4_294_867,
            constant: 6,
            // SAFETY: plain data, of which all zeros is a valid value.
            ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
        };
        // The kernel removes one part in 255 of the 100 us.
        let rate_ppb = converted(&timex, libc::TIME_OK).rate_ppb();
        assert_eq!(rate_ppb, -40_393);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no adjtimex")]
    fn the_kernel_says_what_its_clock_is_if_it_may_be_asked() {
        // SAFETY: plain data, of which all zeros is a valid value.
        let mut timex: libc::timex = unsafe { core::mem::zeroed() };
        // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
        let is_answered = unsafe { libc::adjtimex(&mut timex) } >= 0;
        assert_eq!(kernel_clock().is_some(), is_answered);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no adjtimex")]
    fn what_adjtime_has_to_remove_is_known_where_the_kernel_may_be_asked() {
        assert_eq!(adjtime_left_us().is_some(), kernel_clock().is_some());
    }

    #[test]
    fn a_file_without_a_clock_has_no_time() {
        let device = ClockDevice::open(Path::new("/dev/null")).expect("a device");
        assert_eq!(device.now_ns(), None);
        assert!(ClockDevice::open(Path::new("/dev/ptp-missing")).is_none());
    }

    /// Calls `ask` while a signal ends this thread's system calls each millisecond.
    fn ask_under_signals<T>(ask: impl FnOnce() -> T) -> T {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::time::Duration;

        extern "C" fn handler(_: libc::c_int) {}
        // SAFETY: plain data, of which all zeros is a valid value.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does nothing, and lives as long as the program.
        let result = unsafe { libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut()) };
        assert_eq!(result, 0);
        // SAFETY: the call has no requirements.
        let process = unsafe { libc::getpid() };
        // SAFETY: as above.
        let this_thread = unsafe { libc::gettid() };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // ORDERING: Relaxed, a flag on its own.
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: the call takes no pointer. The thread waits for this scope, so it
                    // lives.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, this_thread, libc::SIGUSR2) };
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let answer = ask();
            // ORDERING: Relaxed, as above.
            is_over.store(true, Ordering::Relaxed);
            answer
        })
    }

    /// Symptom: a program with an interval timer got no answers, because its handler ended each
    /// wait.
    #[test]
    fn a_signal_loses_no_answer() {
        use std::net::{Ipv4Addr, UdpSocket};
        use std::os::unix::net::UnixDatagram;
        use std::thread;
        use std::time::Duration;

        use crate::deadline::Deadline;
        use crate::source::chronyd::ask_by;

        /// Long enough for many signals, and for every machine.
        const LATE: Duration = Duration::from_millis(50);
        const PATIENCE: Duration = Duration::from_secs(60);

        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let served = thread::spawn(move || {
            let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
            thread::sleep(LATE);
            server.send_to(&[7; 4], from).unwrap();
        });
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let answer = ask_under_signals(|| ask_by(&socket, port, &[1], PATIENCE));
        assert_eq!(answer, Some(vec![7; 4]));
        served.join().unwrap();

        let folder = std::env::temp_dir();
        let name = format!("tickline-signals-{}", std::process::id());
        let path = folder.join(&name);
        let daemon = UnixDatagram::bind(&path).unwrap();
        let served = thread::spawn(move || {
            for _ in 0..2 {
                let (_, from) = daemon.recv_from(&mut [0; 8]).unwrap();
                thread::sleep(LATE);
                daemon.send_to_addr(&[7], &from).unwrap();
            }
        });
        let mut reply = [0; 4];
        let answer =
            ask_under_signals(|| ask_by_socket(&folder, &name, &[1], PATIENCE, &mut reply));
        assert_eq!((answer.unwrap(), reply[0]), (Some(1), 7));
        let answer = ask_under_signals(|| {
            let socket = ManagementSocket::connect(&path, Deadline::after(PATIENCE)).unwrap();
            socket.send(&[1]).unwrap();
            socket.receive()
        });
        assert_eq!(answer, Some(vec![7]));
        served.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
