//! Reads the boot and the time namespace of this process from `/proc`. No function here allocates,
//! because a forked child reads them again.

use core::ffi::CStr;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FsWord, Mode, OFlags, fstatfs, openat, stat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::file_error::FileError;
use crate::BootContext;

impl BootContext {
    /// Reads the boot and the time namespace of this process from `/proc`. Makes a few system
    /// calls, and allocates nothing.
    ///
    /// # Errors
    ///
    /// [`FileError::System`] if the boot id or the time namespace cannot be read; with `EINVAL` if
    /// the file of the boot id contains something else.
    pub fn current() -> Result<Self, FileError> {
        Self::current_or(None)
    }

    /// Like [`current`](Self::current), but with `boot_id_of_page` if `/proc` hides the boot id.
    pub(super) fn current_or(boot_id_of_page: Option<[u8; 16]>) -> Result<Self, FileError> {
        let boot_id = read(c"/proc/sys/kernel/random/boot_id", &mut [0; 64])
            .and_then(|id| parse_boot_id(id).ok_or(Errno::INVAL));
        Self::by_reads(boot_id, boot_id_of_page, inode(c"/proc/self/ns/time"))
    }

    /// The context by what `/proc` has for the boot id and the inode of the time namespace.
    fn by_reads(
        boot_id: rustix::io::Result<[u8; 16]>,
        boot_id_of_page: Option<[u8; 16]>,
        time_namespace: rustix::io::Result<u64>,
    ) -> Result<Self, FileError> {
        let no_boot_id = FileError::system("/proc/sys/kernel/random/boot_id can't be read");
        match (boot_id, boot_id_of_page) {
            (Err(error @ Errno::NOENT), Some(boot_id)) => {
                match Self::for_boot(boot_id, time_namespace)? {
                    // Without any `/proc`, the namespace is not known.
                    Self {
                        time_namespace: 0, ..
                    } => Err(no_boot_id(error)),
                    found => Ok(found),
                }
            }
            (boot_id, _) => Self::for_boot(boot_id.map_err(no_boot_id)?, time_namespace),
        }
    }

    fn for_boot(
        boot_id: [u8; 16],
        time_namespace: rustix::io::Result<u64>,
    ) -> Result<Self, FileError> {
        let time_namespace = match time_namespace {
            // Linux before 5.6 has no time namespaces.
            Err(Errno::NOENT) => {
                return Ok(Self {
                    boot_id,
                    time_namespace: 0,
                    monotonic_offset_ns: Some(0),
                });
            }
            found => found.map_err(FileError::system("/proc/self/ns/time can't be read"))?,
        };
        // The table has the offsets of the namespace that children get.
        let is_own = inode(c"/proc/self/ns/time_for_children") == Ok(time_namespace);
        let mut table = [0; 256];
        let table = if is_own {
            read(c"/proc/self/timens_offsets", &mut table).ok()
        } else {
            None
        };
        let monotonic_offset_ns = monotonic_offset_ns(time_namespace, table);
        Ok(Self {
            boot_id,
            time_namespace,
            monotonic_offset_ns,
        })
    }
}

/// The inode number of the initial time namespace (Linux, `linux/proc_ns.h`, `PROC_TIME_INIT_INO`).
const INITIAL_NAMESPACE: u64 = 0xefff_fffa;

/// `CLOCK_MONOTONIC` in `namespace` minus that in the initial one, ns, by its table of offsets.
fn monotonic_offset_ns(namespace: u64, table: Option<&[u8]>) -> Option<i64> {
    if namespace == INITIAL_NAMESPACE {
        Some(0)
    } else {
        namespace_offset_ns(table?, "monotonic")
    }
}

fn inode(path: &CStr) -> rustix::io::Result<u64> {
    stat(path).map(|found| found.st_ino)
}

/// Whether an open file is on a tmpfs (tmpfs(5)), as all files of `/run` are.
pub(super) fn is_on_tmpfs(file: impl AsFd) -> bool {
    // Linux, `linux/magic.h`.
    const TMPFS_MAGIC: FsWord = 0x0102_1994;
    fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC)
}

/// Opens a file for reading.
fn open(path: impl Arg) -> rustix::io::Result<OwnedFd> {
    const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
    openat(CWD, path, FLAGS, Mode::empty())
}

/// Reads the beginning of a file into `buffer`. Returns the bytes that were read.
pub(crate) fn read(path: impl Arg, buffer: &mut [u8]) -> rustix::io::Result<&[u8]> {
    let file = open(path)?;
    let length = rustix::io::read(&file, &mut *buffer)?;
    Ok(buffer.get(..length).unwrap_or_default())
}

/// Parses thirty-two hexadecimal digits; ignores hyphens and line breaks.
fn parse_boot_id(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16));
    let mut id = [0; 16];
    for byte in &mut id {
        let (high, low) = (digits.next()?, digits.next()?);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    digits.next().is_none().then_some(id)
}

/// Parses one clock's offset in a table of `/proc/self/timens_offsets`, ns. Each line of the table
/// has a name, seconds and nanoseconds (time_namespaces(7)). `None` if the table does not have the
/// clock, or the clock's line has another format.
///
/// ```
/// use tickline_page::page_file::namespace_offset_ns;
///
/// let table = b"monotonic          -7         5\nboottime          86400         0\n";
/// assert_eq!(namespace_offset_ns(table, "monotonic"), Some(-6_999_999_995));
/// assert_eq!(namespace_offset_ns(table, "realtime"), None);
/// ```
#[must_use]
pub fn namespace_offset_ns(table: &[u8], clock: &str) -> Option<i64> {
    let table = core::str::from_utf8(table).ok()?;
    let line = table
        .lines()
        .find(|line| line.split_whitespace().next() == Some(clock))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no openat")]
    fn a_program_that_this_one_becomes_does_not_inherit_a_file() {
        // No file of /proc: QEMU's user-mode emulation makes up some of these, without the flag.
        let file = open(c"/dev/null");
        assert_eq!(file.and_then(fcntl_getfd), Ok(FdFlags::CLOEXEC));
    }

    const BOOT: [u8; 16] = [7; 16];

    fn error_of(
        boot_id: rustix::io::Result<[u8; 16]>,
        boot_id_of_page: Option<[u8; 16]>,
        time_namespace: rustix::io::Result<u64>,
    ) -> std::string::String {
        let found = BootContext::by_reads(boot_id, boot_id_of_page, time_namespace);
        std::format!("{}", found.expect_err("one is missing"))
    }

    /// Asserts that the text names this file, no other one, and the error's number. Its words are
    /// known only with the feature `file`.
    fn assert_is_of_file(text: &str, file: &str) {
        assert!(
            text.starts_with(&std::format!("{file} can't be read: ")),
            "{text}"
        );
        assert!(
            text.trim_end_matches(')').ends_with("os error 13"),
            "{text}"
        );
        assert_eq!(text.matches("/proc").count(), 1, "{text}");
    }

    /// Symptom: the text named both files.
    #[test]
    fn the_error_of_a_boot_id_that_cannot_be_read_names_its_file_alone() {
        let text = error_of(Err(Errno::ACCESS), None, Ok(INITIAL_NAMESPACE));
        assert_is_of_file(&text, "/proc/sys/kernel/random/boot_id");
    }

    #[test]
    fn the_error_of_a_namespace_that_cannot_be_read_names_its_file_alone() {
        for boot_id in [Ok(BOOT), Err(Errno::NOENT)] {
            let text = error_of(boot_id, Some(BOOT), Err(Errno::ACCESS));
            assert_is_of_file(&text, "/proc/self/ns/time");
        }
    }

    /// Without any `/proc`, a page on tmpfs doesn't replace the boot id.
    #[test]
    fn without_proc_the_boot_id_is_missing() {
        let text = error_of(Err(Errno::NOENT), Some(BOOT), Err(Errno::NOENT));
        assert!(
            text.starts_with("/proc/sys/kernel/random/boot_id can't be read: "),
            "{text}"
        );
    }

    #[test]
    fn a_boot_id_has_sixteen_bytes() {
        let id = parse_boot_id(b"00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
        assert_eq!((id[0], id[1], id[15]), (0, 0x11, 0xff));
        assert_eq!(parse_boot_id(b"00112233-4455-6677-8899-aabbccddee\n"), None);
        assert_eq!(
            parse_boot_id(b"00112233-4455-6677-8899-aabbccddeeff0"),
            None
        );
    }

    #[test]
    fn the_initial_namespace_needs_no_table() {
        assert_eq!(monotonic_offset_ns(INITIAL_NAMESPACE, None), Some(0));
        // Without a table: it may be the table of a namespace that only children get.
        assert_eq!(monotonic_offset_ns(4_026_532_000, None), None);
        assert_eq!(
            monotonic_offset_ns(4_026_532_000, Some(b"monotonic 1 2\n")),
            Some(1_000_000_002)
        );
    }

    #[test]
    fn the_offset_of_a_namespace_is_read_from_its_clocks_row() {
        let table = b"monotonic          -7         5\nboottime          86400         0\n";
        assert_eq!(
            namespace_offset_ns(table, "monotonic"),
            Some(-6_999_999_995)
        );
        assert_eq!(
            namespace_offset_ns(table, "boottime"),
            Some(86_400_000_000_000)
        );
        assert_eq!(namespace_offset_ns(table, "realtime"), None);
        assert_eq!(namespace_offset_ns(b"monotonic x 0\n", "monotonic"), None);
        assert_eq!(
            namespace_offset_ns(b"monotonic 9223372036854775807 0\n", "monotonic"),
            None
        );
    }

    /// The file systems of `/dev/shm` and `/proc` are the same on every Linux that has them.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no statfs")]
    fn a_file_of_shared_memory_is_on_tmpfs_and_one_of_proc_is_not() {
        let is_tmpfs = |path: &str| std::fs::File::open(path).map(is_on_tmpfs).ok();
        assert_ne!(is_tmpfs("/dev/shm"), Some(false));
        assert_ne!(is_tmpfs("/proc/self/status"), Some(true));
    }
}
