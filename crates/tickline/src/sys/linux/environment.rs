//! Linux: the environment variable `TICKLINE` at the start, as the kernel shows it.
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
use crate::options::{EnvironmentSwitch, Probes};

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

/// The variable's value at the start; `None` if the kernel doesn't say, or may not be asked.
pub(crate) fn environment_at_start(probes: Probes) -> Option<EnvironmentSwitch> {
    if is_privileged() {
        return Some(EnvironmentSwitch::Unset);
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
            return Some(entry.value().unwrap_or(EnvironmentSwitch::Unset));
        };
        for byte in bytes {
            if *byte != 0 {
                entry.push(*byte);
            } else if let Some(found) = entry.value() {
                return Some(found); // the first one counts, as for getenv
            } else {
                entry.length = 0;
            }
        }
    }
}

/// Room for the name, `=`, and more than any value that means something.
const ENTRY_BYTES: usize = EnvironmentSwitch::NAME.len() + 8;

/// The beginning of one entry, `NAME=value`.
#[derive(Debug, Default)]
struct Entry {
    bytes: [u8; ENTRY_BYTES],
    /// The length of the whole entry, which may exceed `bytes`.
    length: usize,
}

impl Entry {
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    /// The variable's value, if this is the variable's entry.
    fn value(&self) -> Option<EnvironmentSwitch> {
        let bytes = self.bytes.get(..self.length.min(ENTRY_BYTES))?;
        let value = bytes
            .strip_prefix(EnvironmentSwitch::NAME.as_bytes())?
            .strip_prefix(b"=")?;
        let is_whole = self.length <= ENTRY_BYTES;
        Some(if is_whole {
            EnvironmentSwitch::from_value(value)
        } else {
            EnvironmentSwitch::Unrecognised
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entry: &str) -> Option<EnvironmentSwitch> {
        let mut read = Entry::default();
        entry.bytes().for_each(|byte| read.push(byte));
        read.value()
    }

    #[test]
    fn an_entry_is_the_variables_by_its_whole_name() {
        assert_eq!(value("TICKLINE=off"), Some(EnvironmentSwitch::Off));
        assert_eq!(value("TICKLINE=on"), Some(EnvironmentSwitch::On));
        for odd in [
            "TICKLINE=",
            "TICKLINE=offf",
            "TICKLINE=off and much more than fits",
        ] {
            assert_eq!(value(odd), Some(EnvironmentSwitch::Unrecognised), "{odd}");
        }
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
}
