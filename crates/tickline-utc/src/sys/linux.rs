//! Linux: the kernel's own statement about its clock (adjtimex(2)), and the memory of a device.

#![expect(unsafe_code, reason = "system calls")]

use core::ptr::{self, NonNull};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tickline_core::reference::frequency_from_timex_ppb;

use crate::sys::KernelClock;

#[path = "linux/local_socket.rs"]
mod local_socket;

pub(crate) use local_socket::{ask as ask_by_socket, owner};

/// The user of this process.
pub(crate) fn user() -> Option<u32> {
    // SAFETY: the call has no requirements.
    Some(unsafe { libc::geteuid() })
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

#[allow(
    clippy::useless_conversion,
    reason = "long has 32 bits on some targets"
)]
fn converted(timex: &libc::timex, state: i32) -> KernelClock {
    let frequency_ppb = frequency_from_timex_ppb(timex.freq.into());
    let offset_unit_ns = if timex.status & libc::STA_NANO == 0 {
        1_000
    } else {
        1
    };
    KernelClock {
        frequency_ppb,
        tick_us: timex.tick.into(),
        offset_ns: i64::from(timex.offset).saturating_mul(offset_unit_ns),
        time_constant: timex.constant.into(),
        maxerror_us: timex.maxerror.into(),
        esterror_us: timex.esterror.into(),
        status: timex.status,
        state,
        tai_offset_s: timex.tai.into(),
    }
}

/// Maps the first page of a file, read-only. The page stays mapped if `accept` returns true.
pub(crate) fn map_beginning(path: &Path, accept: impl FnOnce(NonNull<u8>) -> bool) {
    /// The length of the mapping, bytes. The kernel rounds it up to whole pages.
    const MAPPED_BYTES: usize = 4_096;
    let Ok(file) = File::open(path) else {
        return;
    };
    // SAFETY: the mapping is new and read-only, and overlaps no other memory.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MAPPED_BYTES,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return;
    }
    let is_accepted = NonNull::new(page.cast()).is_some_and(accept);
    if !is_accepted {
        // SAFETY: the mapping is this function's own.
        unsafe { libc::munmap(page, MAPPED_BYTES) };
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
