//! The way of a machine's state from one QEMU to another: a relay that gives the counter another
//! value, as a host does whose own counter was started at another time.
//!
//! In the state, the section "timer" has the emulator's counter, version 2 (`vmstate_timers` in
//! QEMU's `softmmu/cpus.c`, later `system/cpus.c` and `system/cpu-timers.c`): `cpu_ticks_offset`,
//! which is the counter's value while the machine stands still. The head of a section is written by
//! `save_section_header` in `migration/savevm.c`.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

/// `QEMU_VM_SECTION_FULL`, before the section's number.
const SECTION_FULL: u8 = 4;

/// After the section's number: its name with the length in front, its instance 0, its version 2.
const TIMER: &[u8] = b"\x05timer\0\0\0\0\0\0\0\x02";

/// The number of a section, bytes.
const NUMBER: usize = 4;

/// The head of the section and the counter's value, bytes.
const WHOLE: usize = 1 + NUMBER + TIMER.len() + size_of::<i64>();

/// The end of the state that is searched for the section, bytes. Devices come last, after the memory,
/// and take some 100 kB.
const END: usize = 1 << 20;

/// Starts to wait at `from` for a machine's state, and passes it on to `to` with a counter that is
/// `ticks` higher. The thread returns how many counters it has changed, which must be 1.
pub(super) fn relay(from: &Path, to: &Path, ticks: i64) -> io::Result<JoinHandle<io::Result<usize>>> {
    let listener = UnixListener::bind(from)?;
    let to = to.to_owned();
    Ok(thread::spawn(move || {
        let (source, _) = listener.accept()?;
        pass_on(source, UnixStream::connect(to)?, ticks)
    }))
}

/// Copies all bytes, with another counter. Returns how many counters there were.
fn pass_on(mut source: impl Read, mut destination: impl Write, ticks: i64) -> io::Result<usize> {
    let (mut chunk, mut kept) = (vec![0; END], Vec::new());
    loop {
        let length = source.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        kept.extend_from_slice(&chunk[..length]);
        let before = kept.len().saturating_sub(END);
        if before >= END {
            destination.write_all(&kept[..before])?;
            kept.drain(..before);
        }
    }
    let end = kept.len().saturating_sub(END);
    let changed = change(&mut kept[end..], ticks);
    destination.write_all(&kept)?;
    Ok(changed)
}

/// Adds to each counter in these bytes. Returns how many there are.
fn change(bytes: &mut [u8], ticks: i64) -> usize {
    let mut changed = 0;
    for start in 0..(bytes.len() + 1).saturating_sub(WHOLE) {
        let section = &mut bytes[start..start + WHOLE];
        let (head, value) = section.split_at_mut(WHOLE - size_of::<i64>());
        if head[0] == SECTION_FULL && head[1 + NUMBER..] == *TIMER {
            let counter = value.iter().fold(0_u64, |counter, byte| counter << 8 | u64::from(*byte));
            value.copy_from_slice(&counter.wrapping_add_signed(ticks).to_be_bytes());
            changed += 1;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(counter: u64) -> Vec<u8> {
        let mut state = vec![7; 100];
        state.extend([SECTION_FULL, 0, 0, 0, 9]);
        state.extend(TIMER);
        state.extend(counter.to_be_bytes());
        state.extend([8; 100]);
        state
    }

    /// Gives a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len());
            self.0.read(&mut into[..length])
        }
    }

    #[test]
    fn the_counter_and_nothing_else_is_changed_wherever_the_stream_is_cut() {
        for size in [1, 7, 100, 250] {
            let mut passed = Vec::new();
            let changed = pass_on(Slow(&state(1_000), size), &mut passed, -400).unwrap();
            assert_eq!((changed, passed), (1, state(600)), "in pieces of {size}");
        }
    }

    #[test]
    fn memory_comes_first_and_is_left_alone() {
        let whole = |counter| [vec![1; 3 * END], state(5), vec![2; END], state(counter)].concat();
        let mut passed = Vec::new();
        assert_eq!(pass_on(&whole(1_000)[..], &mut passed, 9).unwrap(), 1);
        assert_eq!(passed, whole(1_009));
    }

    #[test]
    fn another_section_is_left_alone() {
        let mut other = state(5);
        other[100 + 1 + NUMBER + TIMER.len() - 1] = 3; // version 3
        let mut passed = Vec::new();
        assert_eq!(pass_on(&other[..], &mut passed, 1).unwrap(), 0);
        assert_eq!(passed, other);
    }
}
