//! Finds the hypervisor and the cloud below this machine by words in texts of the firmware and of
//! the kernel, most of which every user may read.
//!
//! CPUID names a hypervisor, but not always the right one: Firecracker shows KVM's signature,
//! gVisor the host's signature, and VirtualBox offers KVM's interface. The texts of firmware and
//! kernel are more exact, so they take precedence.

/// A text of the firmware or of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Text {
    /// The kernel's name, release and build.
    KernelVersion,
    /// The kernel's messages.
    KernelLog,
    /// The names of the devices in the ACPI tables.
    AcpiDevices,
    /// The vendor and the product that the firmware names.
    VendorAndProduct,
    /// The field of the DMI tables with this name.
    Dmi(&'static str),
}

/// A stable code, and for each text the words that it must contain.
type Sign = (&'static str, &'static [(Text, &'static str)]);

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
        &[(Text::KernelVersion, "#1 SMP Sun Jan 10 15:06:54 PST 2016")],
    ),
    ("gvisor", &[(Text::KernelLog, "Starting gVisor")]),
    ("firecracker", &[(Text::KernelLog, "FIRECK")]),
    ("firecracker", &[(Text::AcpiDevices, "FCVMGID:")]),
    ("virtualbox", &[(Text::VendorAndProduct, "VirtualBox")]),
    ("vmware", &[(Text::VendorAndProduct, "VMware")]),
    (
        "hyper_v",
        &[(
            Text::VendorAndProduct,
            "Microsoft Corporation Virtual Machine",
        )],
    ),
    ("xen", &[(Text::VendorAndProduct, "Xen HVM domU")]),
];

/// Signs of clouds. On EC2 with Nitro the vendor is Amazon EC2. On EC2 with Xen the vendor is Xen,
/// and the BIOS version ends in `.amazon` (Amazon EC2 User Guide, "Detect whether a host is an EC2
/// instance"). Azure's tag is `AZURE_CHASSIS_ASSET_TAG` in cloud-init's `DataSourceAzure.py`.
pub(super) const CLOUDS: [Sign; 4] = [
    ("ec2_nitro", &[(Text::Dmi("sys_vendor"), "Amazon EC2")]),
    (
        "ec2_xen",
        &[
            (Text::Dmi("sys_vendor"), "Xen"),
            (Text::Dmi("bios_version"), "amazon"),
        ],
    ),
    (
        "google",
        &[(Text::Dmi("product_name"), "Google Compute Engine")],
    ),
    (
        "azure",
        &[(
            Text::Dmi("chassis_asset_tag"),
            "7783-7084-3265-9085-8269-3286-77",
        )],
    ),
];

/// The code of the first sign whose words are all found.
pub(super) fn first_match(
    signs: &[Sign],
    text_of: impl Fn(Text) -> Option<String>,
) -> Option<String> {
    let has = |(text, word): &(Text, &str)| text_of(*text).is_some_and(|text| text.contains(word));
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
        let firmware = |vendor, version| {
            vec![
                (Text::Dmi("sys_vendor"), vendor),
                (Text::Dmi("bios_version"), version),
            ]
        };
        for (signs, texts, expected) in [
            (
                &HYPERVISORS[..],
                vec![
                    (Text::VendorAndProduct, "QEMU Standard PC"),
                    (Text::AcpiDevices, "VMGENCTR:00"),
                ],
                None,
            ),
            (
                &HYPERVISORS,
                vec![(Text::KernelLog, "ACPI: RSDP (v02 FIRECK)")],
                Some("firecracker"),
            ),
            // This user may not read the log.
            (
                &HYPERVISORS,
                vec![(Text::AcpiDevices, "ACPI0013:00\nFCVMGID:00")],
                Some("firecracker"),
            ),
            (
                &HYPERVISORS,
                vec![(Text::VendorAndProduct, "innotek GmbH VirtualBox")],
                Some("virtualbox"),
            ),
            (
                &HYPERVISORS,
                vec![
                    (Text::KernelVersion, GVISOR),
                    (Text::VendorAndProduct, "VMware"),
                ],
                Some("gvisor"),
            ),
            (
                &HYPERVISORS,
                vec![(Text::VendorAndProduct, "VMware, Inc. VMware7,1")],
                Some("vmware"),
            ),
            (
                &HYPERVISORS,
                vec![(
                    Text::VendorAndProduct,
                    "Microsoft Corporation Virtual Machine",
                )],
                Some("hyper_v"),
            ),
            (
                &HYPERVISORS,
                vec![(Text::VendorAndProduct, "Xen HVM domU")],
                Some("xen"),
            ),
            (
                &HYPERVISORS,
                vec![(Text::KernelLog, "Starting gVisor...")],
                Some("gvisor"),
            ),
            (&CLOUDS, firmware("Xen", "4.11.amazon"), Some("ec2_xen")),
            (&CLOUDS, firmware("Xen", "4.17"), None),
            (&CLOUDS, firmware("Amazon EC2", "1.0"), Some("ec2_nitro")),
            (
                &CLOUDS,
                vec![(Text::Dmi("product_name"), "Google Compute Engine")],
                Some("google"),
            ),
            (
                &CLOUDS,
                vec![(
                    Text::Dmi("chassis_asset_tag"),
                    "7783-7084-3265-9085-8269-3286-77",
                )],
                Some("azure"),
            ),
            (&CLOUDS, firmware("Microsoft Corporation", "1.0"), None),
        ] {
            let texts = BTreeMap::from_iter(texts);
            let found = first_match(signs, |text| texts.get(&text).map(ToString::to_string));
            assert_eq!(found.as_deref(), expected, "{texts:?}");
        }
    }
}
