//! A machine's state in a file, in which the counter is given another value, as on a host whose own
//! counter was started at another time.
//!
//! In the state, the section "timer" has the emulator's counter, version 2 (`vmstate_timers` in
//! QEMU's `softmmu/cpus.c`, later `system/cpus.c` and `system/cpu-timers.c`): `cpu_ticks_offset`,
//! which is the counter's value while the machine stands still. The head of a section is written by
//! `save_section_header` in `migration/savevm.c`.

use std::fs;
use std::io;
use std::path::Path;

/// `QEMU_VM_SECTION_FULL`, before the section's number.
const SECTION_FULL: u8 = 4;

/// After the section's number: its name with the length in front, its instance 0, its version 2.
const TIMER: &[u8] = b"\x05timer\0\0\0\0\0\0\0\x02";

/// The head of the section: before its name a byte, and the section's number of 4 bytes.
const HEAD: usize = 1 + 4 + TIMER.len();

/// The end of the state that is searched for the section, bytes. Devices come last, after the
/// memory, and take some 100 kB.
const END: usize = 1 << 20;

/// Adds `ticks` to the counter in a stored state. Fails if there is not exactly one.
pub(super) fn add_ticks(state: &Path, ticks: i64) -> io::Result<()> {
    let mut bytes = fs::read(state)?;
    let end = bytes.len().saturating_sub(END);
    let is_head = |head: &[u8]| head[0] == SECTION_FULL && head.ends_with(TIMER);
    let heads: Vec<usize> =
        (end..).zip(bytes[end..].windows(HEAD)).filter(|(_, head)| is_head(head)).map(|(at, _)| at).collect();
    let counter = match heads[..] {
        [head] => bytes.get_mut(head + HEAD..).and_then(<[u8]>::first_chunk_mut),
        _ => None,
    };
    let counter = counter
        .ok_or_else(|| io::Error::other(format!("the state has {} counters, expected 1", heads.len())))?;
    *counter = u64::from_be_bytes(*counter).wrapping_add_signed(ticks).to_be_bytes();
    fs::write(state, bytes)
}
