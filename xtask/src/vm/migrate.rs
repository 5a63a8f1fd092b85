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
pub(super) fn add_ticks(state: &Path, cpu: Option<u32>, ticks: i64) -> io::Result<()> {
    let mut bytes = fs::read(state)?;
    let end = bytes.len().saturating_sub(END);
    let end = &mut bytes[end..];
    let offset = match cpu {
        None => field_offset(end, "timer", 0, "cpu_ticks_offset"),
        Some(cpu) => field_offset(end, "cpu", cpu, "env.tsc_offset"),
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
    let windows = end.windows(head).enumerate();
    let mut heads = windows.filter(|(_, bytes)| is_head(bytes));
    match (heads.next(), heads.next()) {
        (Some((at, _)), None) => Some(at + head + 4 + bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A section of a device: the head, and the fields.
    fn section(device: &str, instance: u32, fields: &[u8]) -> Vec<u8> {
        let mut bytes = vec![
            SECTION_FULL,
            0,
            0,
            0,
            9,
            u8::try_from(device.len()).unwrap(),
        ];
        bytes.extend(device.as_bytes());
        bytes.extend(instance.to_be_bytes());
        bytes.extend(2_u32.to_be_bytes());
        bytes.extend(fields);
        bytes
    }

    /// A machine's state: memory, a timer and two CPUs, and the description.
    fn state(timer: u64, cpus: [u64; 2]) -> Vec<u8> {
        let mut bytes = vec![7; 100];
        // Two fields come before the counter of the machine, and an array before a CPU's counter.
        bytes.extend(section(
            "timer",
            0,
            &[&[1; 12], &timer.to_be_bytes()[..], &[3; 4]].concat(),
        ));
        for (instance, ticks) in (0..).zip(cpus) {
            let fields = [&[4; 32], &ticks.to_be_bytes()[..]].concat();
            bytes.extend(section("cpu", instance, &fields));
        }
        let cpu = |instance: u32| {
            json!({ "name": "cpu", "instance_id": instance, "fields": [
                { "name": "env.regs", "size": 8, "array_len": 4 },
                { "name": "env.tsc_offset", "size": 8 } ] })
        };
        let description = json!({ "devices": [
            { "name": "timer", "instance_id": 0, "fields": [
                { "name": "cpu_ticks_prev", "size": 8 }, { "name": "unused", "size": 4 },
                { "name": "cpu_ticks_offset", "size": 8 } ] },
            cpu(0),
            cpu(1) ] });
        let description = description.to_string();
        bytes.push(DESCRIPTION);
        bytes.extend(u32::try_from(description.len()).unwrap().to_be_bytes());
        bytes.extend(description.as_bytes());
        bytes
    }

    /// The state after `add_ticks`.
    fn changed(name: &str, state: &[u8], cpu: Option<u32>, ticks: i64) -> io::Result<Vec<u8>> {
        let file = format!("tickline-state-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        fs::write(&path, state)?;
        let changed = add_ticks(&path, cpu, ticks).and_then(|()| fs::read(&path));
        fs::remove_file(path)?;
        changed
    }

    #[test]
    fn the_machines_counter_and_nothing_else_is_changed() {
        let before = state(1_000, [5, 6]);
        let ahead = changed("ahead", &before, None, 500).unwrap();
        assert_eq!(ahead, state(1_500, [5, 6]));
        let behind = changed("behind", &before, None, -400).unwrap();
        assert_eq!(behind, state(600, [5, 6]));
    }

    #[test]
    fn the_counter_of_one_cpu_and_nothing_else_is_changed() {
        let ahead = changed("cpu", &state(1_000, [5, 6]), Some(1), 1 << 32).unwrap();
        assert_eq!(ahead, state(1_000, [5, 6 + (1 << 32)]));
    }

    #[test]
    fn a_state_without_exactly_one_such_counter_is_refused() {
        let whole = state(1_000, [5, 6]);
        assert!(changed("no-cpu", &whole, Some(2), 1).is_err());
        let twice = [section("timer", 0, &[0; 24]), whole.clone()].concat();
        assert!(changed("twice", &twice, None, 1).is_err());
        let cut = &whole[..whole.len() - 1];
        assert!(changed("cut", cut, None, 1).is_err());
    }
}
