//! Changes a counter in the stored state of a machine. The machine then seems to have moved to a
//! host whose counter started at another time.
//!
//! The stored state has a section for each device. `save_section_header` in QEMU's
//! `migration/savevm.c` writes the section's head, and the fields follow. The last section
//! describes all sections, in JSON.
//!
//! The field `cpu_ticks_offset` of "timer" is the value of the emulator's counter while the machine
//! is stopped (`vmstate_timers` in `system/cpu-timers.c`). Each CPU adds its field `env.tsc_offset`
//! of "cpu" to this value (`vmstate_x86_cpu` in `target/i386/machine.c`; `helper_rdtsc`).

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The first bytes of sections: `QEMU_VM_SECTION_FULL` precedes the section's number of 4 bytes,
/// and `QEMU_VM_VMDESCRIPTION` precedes the length of the JSON.
const SECTION_FULL: u8 = 4;
const DESCRIPTION: u8 = 6;

/// The length of the last part of the state, bytes, which is searched. The devices come after the
/// memory, and take about 100 kB.
const END: usize = 1 << 20;

/// Adds `ticks` to the machine's counter in a stored state, or to the counter of one CPU. Fails
/// unless the state has exactly one such counter.
pub(super) fn add_ticks(state: &Path, cpu: Option<u64>, ticks: i64) -> io::Result<()> {
    let mut bytes = fs::read(state)?;
    let end = bytes.len().saturating_sub(END);
    let end = &mut bytes[end..];
    let offset = match cpu.map(u32::try_from) {
        None => field_offset(end, "timer", 0, "cpu_ticks_offset"),
        Some(cpu) => cpu
            .ok()
            .and_then(|cpu| field_offset(end, "cpu", cpu, "env.tsc_offset")),
    };
    let counter = offset.and_then(|offset| end.get_mut(offset..)?.first_chunk_mut());
    let counter = counter.ok_or_else(|| {
        io::Error::other("the stored state has no counter of this kind, or its format has changed")
    })?;
    *counter = u64::from_be_bytes(*counter)
        .wrapping_add_signed(ticks)
        .to_be_bytes();
    fs::write(state, bytes)
}

/// The offset of a device's field in the last part of a state.
fn field_offset(end: &[u8], device: &str, instance: u32, field: &str) -> Option<usize> {
    let text = (5..end.len())
        .map(|at| end.split_at(at))
        .find_map(|(head, text)| {
            let length = u32::try_from(text.len()).ok()?.to_be_bytes();
            (head[head.len() - 5] == DESCRIPTION && head.ends_with(&length)).then_some(text)
        });
    let description: Value = serde_json::from_slice(text?).ok()?;
    let is_device = |one: &&Value| one["name"] == device && one["instance_id"] == instance;
    let fields = description["devices"].as_array()?.iter().find(is_device)?["fields"].as_array()?;
    let before = &fields[..fields.iter().position(|one| one["name"] == field)?];
    // The description of an array has only one of its elements.
    let bytes = before
        .iter()
        .map(|one| Some(one["size"].as_u64()? * one["array_len"].as_u64().unwrap_or(1)));
    let bytes = usize::try_from(bytes.sum::<Option<u64>>()?).ok()?;
    // A head ends with the length of the name, the name, the instance, and a version of 4 bytes.
    let name = [
        &[u8::try_from(device.len()).ok()?],
        device.as_bytes(),
        &instance.to_be_bytes(),
    ]
    .concat();
    let head = 1 + 4 + name.len();
    let is_head = |bytes: &[u8]| bytes[0] == SECTION_FULL && bytes.ends_with(&name);
    let mut heads = (0..)
        .zip(end.windows(head))
        .filter(|(_, bytes)| is_head(bytes))
        .map(|(at, _)| at);
    let at: usize = heads.next().filter(|_| heads.next().is_none())?;
    Some(at + head + 4 + bytes)
}
