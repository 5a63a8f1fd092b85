//! Linux: an environment variable at the start of the process, as the kernel shows it.
//!
//! `/proc/self/environ` is the memory that `execve` filled (proc(5), `environ`). `setenv` and
//! `set_var` don't write there. A program that writes a title for `ps` over that memory
//! (`setproctitle`) may overwrite it, but seldom before its first reading.
//!
//! The file cannot be read without procfs, nor by a process that has given up root's rights without
//! an `execve` (proc(5), "dumpable"). In these cases the next start of a clock or a thread reads
//! the variable through std. This is the second choice, because std shows the program's own
//! changes.
//!
//! A process that has more rights than its user (set-user-id) ignores the variable. libc ignores
//! its own variables there, too. Otherwise a user could steer a program of another user.

use core::ffi::CStr;

use super::file::File;
use crate::settings::Probes;

const ENVIRON: &CStr = c"/proc/self/environ";

/// The size of a read, bytes. The buffer is on the stack of the reading, which may be a signal
/// handler's.
const CHUNK_BYTES: usize = 256;

/// Whether the process runs with more rights than its user's (getauxval(3), `AT_SECURE`).
fn is_privileged() -> bool {
    // SAFETY: the call takes a number, and reads no memory that changes.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}

/// What `convert` makes of the value that the variable `name` had at the start, or of `None` if it
/// was not set. A value gets to `convert` without what is beyond [`ENTRY_BYTES`]. Returns `None` if
/// the kernel doesn't say, or may not be asked.
pub(crate) fn variable_at_start<T>(
    name: &str,
    probes: Probes,
    convert: impl FnOnce(Option<&[u8]>) -> T,
) -> Option<T> {
    if is_privileged() {
        return Some(convert(None));
    }
    if probes == Probes::Minimal {
        return None;
    }
    let file = File::open(ENVIRON, libc::O_RDONLY)?;
    let mut entry = Entry::default();
    let mut chunk = [0_u8; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk)?;
        let bytes = chunk.get(..length).filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else {
            return Some(convert(entry.value_of(name)));
        };
        for byte in bytes {
            if *byte != 0 {
                entry.push(*byte);
            } else if let Some(value) = entry.value_of(name) {
                return Some(convert(Some(value))); // the first one counts, as for getenv
            } else {
                entry.length = 0;
            }
        }
    }
}

/// Room for the name, `=`, and more than any value that means something.
const ENTRY_BYTES: usize = 24;

/// The beginning of one entry, `NAME=value`.
#[derive(Debug, Default)]
struct Entry {
    bytes: [u8; ENTRY_BYTES],
    /// The number of bytes in use.
    length: usize,
}

impl Entry {
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.length) {
            *free = byte;
            self.length += 1;
        }
    }

    /// The value of the variable `name`, if this is its entry.
    fn value_of(&self, name: &str) -> Option<&[u8]> {
        self.bytes
            .get(..self.length)?
            .strip_prefix(name.as_bytes())?
            .strip_prefix(b"=")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entry: &str) -> Option<String> {
        let mut read = Entry::default();
        entry.bytes().for_each(|byte| read.push(byte));
        let value = read.value_of("TICKLINE")?;
        Some(String::from_utf8(value.to_vec()).expect("ASCII"))
    }

    #[test]
    fn an_entry_is_the_variables_by_its_whole_name() {
        assert_eq!(value("TICKLINE=off").as_deref(), Some("off"));
        assert_eq!(value("TICKLINE=").as_deref(), Some(""));
        for other in [
            "",
            "TICKLINE",
            "TICKLINES=off",
            "XTICKLINE=off",
            "tickline=off",
            "TICKLIN=off",
        ] {
            assert_eq!(value(other), None, "{other}");
        }
    }

    #[test]
    fn a_value_that_is_too_long_stays_longer_than_off() {
        let value = value("TICKLINE=off and much more than fits");
        assert_eq!(value.as_deref(), Some("off and much mo"));
    }
}
