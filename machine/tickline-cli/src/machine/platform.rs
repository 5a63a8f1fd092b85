//! Finds the hypervisor and the cloud below this machine by words in texts of the firmware and of
//! the kernel, most of which every user may read.
//!
//! CPUID names a hypervisor, but not always the right one: Firecracker shows KVM's signature,
//! gVisor the host's signature, and VirtualBox offers KVM's interface. The texts of firmware and
//! kernel are more exact, so they take precedence.

/// A stable code, and for each named text the words that it must contain.
type Sign = (&'static str, &'static [(&'static str, &'static str)]);

/// Signs of hypervisors:
///
/// - gVisor: the build that every version of its kernel claims
///   (`pkg/sentry/syscalls/linux/linux64.go`, `LinuxVersion`), and the first line of its log.
/// - Firecracker: the OEM id of its ACPI tables (`src/vmm/src/acpi`), which the kernel logs when it
///   boots; the name of its VM generation device (`src/vmm/src/devices/acpi/vmgenid.rs`), from
///   version 1.8 until pull request 5760 of 2026.
pub(super) const HYPERVISORS: [Sign; 8] = [
    (
        "gvisor",
        &[("version", "#1 SMP Sun Jan 10 15:06:54 PST 2016")],
    ),
    ("gvisor", &[("log", "Starting gVisor")]),
    ("firecracker", &[("log", "FIRECK")]),
    ("firecracker", &[("acpi", "FCVMGID:")]),
    ("virtualbox", &[("product", "VirtualBox")]),
    ("vmware", &[("product", "VMware")]),
    (
        "hyper_v",
        &[("product", "Microsoft Corporation Virtual Machine")],
    ),
    ("xen", &[("product", "Xen HVM domU")]),
];

/// Signs of clouds. On EC2 with Nitro the vendor is Amazon EC2. On EC2 with Xen the vendor is Xen,
/// and the BIOS version ends in `.amazon` (Amazon EC2 User Guide, "Detect whether a host is an EC2
/// instance"). Azure's tag is `AZURE_CHASSIS_ASSET_TAG` in cloud-init's `DataSourceAzure.py`.
pub(super) const CLOUDS: [Sign; 4] = [
    ("ec2_nitro", &[("sys_vendor", "Amazon EC2")]),
    (
        "ec2_xen",
        &[("sys_vendor", "Xen"), ("bios_version", "amazon")],
    ),
    ("google", &[("product_name", "Google Compute Engine")]),
    (
        "azure",
        &[("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")],
    ),
];

/// The code of the first sign whose words are all found. `text` returns the text of a name.
pub(super) fn first_match(signs: &[Sign], text: impl Fn(&str) -> Option<String>) -> Option<String> {
    let has = |(name, word): &(&str, &str)| text(name).is_some_and(|text| text.contains(word));
    signs
        .iter()
        .find(|(_, words)| words.iter().all(has))
        .map(|(code, _)| (*code).to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const GVISOR: &str = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016";

    #[test]
    fn the_most_exact_sign_names_the_hypervisor_or_the_cloud() {
        let firmware = |vendor, version| vec![("sys_vendor", vendor), ("bios_version", version)];
        for (signs, texts, expected) in [
            (
                &HYPERVISORS[..],
                vec![("product", "QEMU Standard PC"), ("acpi", "VMGENCTR:00")],
                None,
            ),
            (
                &HYPERVISORS,
                vec![("log", "ACPI: RSDP (v02 FIRECK)")],
                Some("firecracker"),
            ),
            // This user may not read the log.
            (
                &HYPERVISORS,
                vec![("acpi", "ACPI0013:00\nFCVMGID:00")],
                Some("firecracker"),
            ),
            (
                &HYPERVISORS,
                vec![("product", "innotek GmbH VirtualBox")],
                Some("virtualbox"),
            ),
            (
                &HYPERVISORS,
                vec![("version", GVISOR), ("product", "VMware")],
                Some("gvisor"),
            ),
            (
                &HYPERVISORS,
                vec![("product", "VMware, Inc. VMware7,1")],
                Some("vmware"),
            ),
            (
                &HYPERVISORS,
                vec![("product", "Microsoft Corporation Virtual Machine")],
                Some("hyper_v"),
            ),
            (&HYPERVISORS, vec![("product", "Xen HVM domU")], Some("xen")),
            (
                &HYPERVISORS,
                vec![("log", "Starting gVisor...")],
                Some("gvisor"),
            ),
            (&CLOUDS, firmware("Xen", "4.11.amazon"), Some("ec2_xen")),
            (&CLOUDS, firmware("Xen", "4.17"), None),
            (&CLOUDS, firmware("Amazon EC2", "1.0"), Some("ec2_nitro")),
            (
                &CLOUDS,
                vec![("product_name", "Google Compute Engine")],
                Some("google"),
            ),
            (
                &CLOUDS,
                vec![("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")],
                Some("azure"),
            ),
            (&CLOUDS, firmware("Microsoft Corporation", "1.0"), None),
        ] {
            let texts = BTreeMap::from_iter(texts);
            let found = first_match(signs, |name| texts.get(name).map(ToString::to_string));
            assert_eq!(found.as_deref(), expected, "{texts:?}");
        }
    }
}
