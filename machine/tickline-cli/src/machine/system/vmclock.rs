//! Reads the VMClock: what a hypervisor tells its guest about the guest's clock, and whether it has
//! moved the guest (`struct vmclock_abi` in Linux's `include/uapi/linux/vmclock-abi.h`).

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use tickline::backend::OsClock;

use crate::machine::VmClock;

/// The length of the structure's first version.
const BYTES: u64 = 112;

const MAGIC: u32 = 0x4B4C_4356;

/// `VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT`.
const HAS_GENERATION: u64 = 1 << 8;

/// The VMClock of this machine, if it has one.
pub(super) fn read() -> Option<VmClock> {
    read_from(Path::new(OsClock::VMCLOCK.to_str().ok()?))
}

fn read_from(device: &Path) -> Option<VmClock> {
    let name = device.display().to_string();
    match bytes_of(device) {
        Ok(bytes) => parse(name, &bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(VmClock {
            device: name,
            unreadable: Some(error.to_string()),
            ..VmClock::default()
        }),
    }
}

/// The structure's bytes, of which there may be fewer. Its driver copies them while the hypervisor
/// does not change them.
fn bytes_of(device: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(device)?.take(BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `None` if this is no VMClock.
fn parse(device: String, bytes: &[u8]) -> Option<VmClock> {
    let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let magic = u32::from_le_bytes(*bytes.first_chunk()?);
    if magic != MAGIC {
        return None;
    }
    let status = match bytes.get(0x22) {
        Some(1) => "initialising",
        Some(2) => "synchronised",
        Some(3) => "free_running",
        Some(4) => "unreliable",
        _ => "unknown",
    };
    let has_generation = long(0x18).is_some_and(|flags| flags & HAS_GENERATION != 0);
    Some(VmClock {
        device,
        unreadable: None,
        disruption_marker: long(0x10),
        clock_status: Some(status.to_owned()),
        vm_generation: if has_generation { long(0x68) } else { None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{machine_by_facts_sh, write_sign};

    /// A synchronised VMClock whose marker is 7, and whose generation is 3.
    fn vmclock() -> [u8; 112] {
        let mut bytes = [0; 112];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(0x10, &7_u64.to_le_bytes());
        put(0x18, &HAS_GENERATION.to_le_bytes());
        put(0x22, &[2]);
        put(0x68, &3_u64.to_le_bytes());
        bytes
    }

    fn parsed(bytes: &[u8]) -> Option<VmClock> {
        parse("/dev/vmclock0".to_owned(), bytes)
    }

    #[test]
    fn a_vmclock_has_each_figure_in_its_place() {
        let expected = VmClock {
            device: "/dev/vmclock0".to_owned(),
            unreadable: None,
            disruption_marker: Some(7),
            clock_status: Some("synchronised".to_owned()),
            vm_generation: Some(3),
        };
        assert_eq!(parsed(&vmclock()), Some(expected));
    }

    /// A VMClock with this status (`VMCLOCK_STATUS_...`).
    fn with_status(status: u8) -> Vec<u8> {
        let mut bytes = vmclock().to_vec();
        bytes[0x22] = status;
        bytes
    }

    #[test]
    fn each_status_of_a_vmclock_has_its_name() {
        for (status, name) in [
            (0, "unknown"),
            (1, "initialising"),
            (2, "synchronised"),
            (3, "free_running"),
            (4, "unreliable"),
            (5, "unknown"),
        ] {
            let found = parsed(&with_status(status)).expect("a VMClock");
            assert_eq!(found.clock_status.as_deref(), Some(name), "{status}");
        }
    }

    #[test]
    fn a_generation_without_its_flag_means_nothing() {
        let mut bytes = vmclock();
        bytes[0x18..0x20].fill(0);
        assert_eq!(parsed(&bytes).expect("a VMClock").vm_generation, None);
    }

    #[test]
    fn a_shorter_structure_leaves_figures_unknown() {
        let short = parsed(&vmclock()[..0x18]).expect("a VMClock");
        assert_eq!(short.disruption_marker, Some(7));
        assert_eq!(short.clock_status.as_deref(), Some("unknown"));
        assert_eq!(
            parsed(&vmclock()[..4]).expect("one").disruption_marker,
            None
        );
    }

    #[test]
    fn something_else_is_no_vmclock() {
        assert_eq!(parsed(&[0; 112]), None);
        assert_eq!(parsed(&[]), None);
    }

    /// What `facts.sh` finds below this root, whose VMClock is this one.
    fn by_facts_sh(root: &Path) -> Option<VmClock> {
        let log = write_sign(root, &[]);
        machine_by_facts_sh(root, &log).vmclock
    }

    /// What the program finds there.
    fn by_the_program(root: &Path) -> Option<VmClock> {
        let found = read_from(&root.join("dev/vmclock0"))?;
        Some(VmClock {
            device: "/dev/vmclock0".to_owned(),
            ..found
        })
    }

    /// Symptom: a guest that may be moved to another host looked like one that never is.
    #[test]
    fn facts_sh_reads_each_vmclock_as_the_program_does() {
        let mut without_generation = vmclock();
        without_generation[0x18..0x20].fill(0);
        let mut large = vmclock();
        large[0x10..0x18].fill(0xFF);
        for bytes in [
            &vmclock()[..],
            &with_status(1),
            &with_status(3),
            &with_status(4),
            &without_generation,
            &large,
            &vmclock()[..0x18],
            &vmclock()[..0x17],
            &vmclock()[..4],
            &[0; 112],
            &[],
        ] {
            let root = tempfile::tempdir().expect("a folder");
            let folder = root.path().join("dev");
            std::fs::create_dir(&folder).expect("a folder");
            std::fs::write(folder.join("vmclock0"), bytes).expect("a file");
            let expected = by_the_program(root.path());
            assert_eq!(by_facts_sh(root.path()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn facts_sh_names_a_vmclock_that_can_not_be_read_with_the_error() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("dev/vmclock0")).expect("a folder");
        let unreadable = |found: Option<VmClock>| found?.unreadable;
        let by_facts_sh = unreadable(by_facts_sh(root.path())).expect("an error");
        let by_the_program = unreadable(by_the_program(root.path())).expect("an error");
        // Rust adds the error's number.
        let same = by_the_program.strip_prefix(&by_facts_sh);
        assert!(same.is_some_and(|number| number.starts_with(" (os error ")));
    }

    #[test]
    fn a_device_that_is_missing_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read_from(&folder.path().join("vmclock0")), None);
    }

    #[test]
    fn a_device_that_can_not_be_read_is_named_with_the_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = read_from(folder.path()).expect("it exists");
        assert_eq!(found.device, folder.path().display().to_string());
        assert!(found.unreadable.is_some_and(|error| !error.is_empty()));
        assert_eq!(found.disruption_marker, None);
    }
}
