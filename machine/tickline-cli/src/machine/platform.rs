//! Finds the hypervisor and the cloud below this machine by words in texts of the firmware and of
//! the kernel, most of which every user may read.
//!
//! CPUID names a hypervisor, but not always the right one: Firecracker shows KVM's signature,
//! gVisor the host's signature, and VirtualBox offers KVM's interface. The texts of firmware and
//! kernel are more exact, so they take precedence.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

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

/// The hypervisor below a machine. The names in lower case are its stable code in JSON and texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hypervisor {
    Bhyve,
    Firecracker,
    /// A sandbox, whose kernel is a process of the host.
    Gvisor,
    HyperV,
    Kvm,
    /// CPUID and all other facts name none.
    #[serde(rename = "none")]
    NoneNamed,
    Parallels,
    /// QEMU's emulation.
    Tcg,
    #[serde(rename = "virtualbox")]
    VirtualBox,
    Vmware,
    Xen,
    /// `other` if CPUID has an unknown signature; the code of another version of the program.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for Hypervisor {
    /// The code, as JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The hypervisor in a document; `None` for null, and for `unknown`, as the metrics say it.
pub(super) fn known_hypervisor<'de, D>(deserializer: D) -> Result<Option<Hypervisor>, D::Error>
where
    D: Deserializer<'de>,
{
    let hypervisor = Option::<Hypervisor>::deserialize(deserializer)?;
    let unknown = Hypervisor::Other("unknown".to_owned());
    Ok(hypervisor.filter(|named| *named != unknown))
}

/// The cloud below a machine. The names in lower case are its stable code in JSON and texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cloud {
    Azure,
    Ec2Nitro,
    Ec2Xen,
    Google,
    /// The code of another version of the program.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for Cloud {
    /// The code, as JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What is below a machine, and for each text the words that it must contain.
pub(super) type Sign<T> = (T, &'static [(Text, &'static str)]);

/// Signs of hypervisors:
///
/// - gVisor: the build that every version of its kernel claims
///   (`pkg/sentry/syscalls/linux/linux64.go`, `LinuxVersion`), and the first line of its log.
/// - Firecracker: the OEM id of its ACPI tables (`src/vmm/src/acpi`), which the kernel logs when it
///   boots; the name of its VM generation device (`src/vmm/src/devices/acpi/vmgenid.rs`), from
///   version 1.8 until pull request 5760 of 2026.
pub(super) static HYPERVISORS: [Sign<Hypervisor>; 8] = [
    (
        Hypervisor::Gvisor,
        &[(Text::KernelVersion, "#1 SMP Sun Jan 10 15:06:54 PST 2016")],
    ),
    (Hypervisor::Gvisor, &[(Text::KernelLog, "Starting gVisor")]),
    (Hypervisor::Firecracker, &[(Text::KernelLog, "FIRECK")]),
    (Hypervisor::Firecracker, &[(Text::AcpiDevices, "FCVMGID:")]),
    (
        Hypervisor::VirtualBox,
        &[(Text::VendorAndProduct, "VirtualBox")],
    ),
    (Hypervisor::Vmware, &[(Text::VendorAndProduct, "VMware")]),
    (
        Hypervisor::HyperV,
        &[(
            Text::VendorAndProduct,
            "Microsoft Corporation Virtual Machine",
        )],
    ),
    (Hypervisor::Xen, &[(Text::VendorAndProduct, "Xen HVM domU")]),
];

/// Signs of clouds. On EC2 with Nitro the vendor is Amazon EC2. On EC2 with Xen the vendor is Xen,
/// and the BIOS version ends in `.amazon` (Amazon EC2 User Guide, "Detect whether a host is an EC2
/// instance"). Azure's tag is `AZURE_CHASSIS_ASSET_TAG` in cloud-init's `DataSourceAzure.py`.
pub(super) static CLOUDS: [Sign<Cloud>; 4] = [
    (Cloud::Ec2Nitro, &[(Text::Dmi("sys_vendor"), "Amazon EC2")]),
    (
        Cloud::Ec2Xen,
        &[
            (Text::Dmi("sys_vendor"), "Xen"),
            (Text::Dmi("bios_version"), "amazon"),
        ],
    ),
    (
        Cloud::Google,
        &[(Text::Dmi("product_name"), "Google Compute Engine")],
    ),
    (
        Cloud::Azure,
        &[(
            Text::Dmi("chassis_asset_tag"),
            "7783-7084-3265-9085-8269-3286-77",
        )],
    ),
];

/// What the first sign shows whose words are all found.
pub(super) fn first_match<T: Clone>(
    signs: &[Sign<T>],
    text_of: impl Fn(Text) -> Option<String>,
) -> Option<T> {
    let has = |(text, word): &(Text, &str)| text_of(*text).is_some_and(|text| text.contains(word));
    signs
        .iter()
        .find(|(_, words)| words.iter().all(has))
        .map(|(found, _)| found.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const GVISOR: &str = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016";

    /// What the first sign shows in these texts.
    fn found<T: Clone>(signs: &[Sign<T>], texts: &[(Text, &str)]) -> Option<T> {
        let texts: BTreeMap<_, _> = texts.iter().copied().collect();
        first_match(signs, |text| texts.get(&text).map(ToString::to_string))
    }

    #[test]
    fn the_most_exact_sign_names_the_hypervisor() {
        use Text::{AcpiDevices, KernelLog, KernelVersion, VendorAndProduct};

        for (texts, expected) in [
            (
                &[
                    (VendorAndProduct, "QEMU Standard PC"),
                    (AcpiDevices, "VMGENCTR:00"),
                ][..],
                None,
            ),
            (
                &[(KernelLog, "ACPI: RSDP (v02 FIRECK)")],
                Some(Hypervisor::Firecracker),
            ),
            // This user may not read the log.
            (
                &[(AcpiDevices, "ACPI0013:00\nFCVMGID:00")],
                Some(Hypervisor::Firecracker),
            ),
            (
                &[(VendorAndProduct, "innotek GmbH VirtualBox")],
                Some(Hypervisor::VirtualBox),
            ),
            (
                &[(KernelVersion, GVISOR), (VendorAndProduct, "VMware")],
                Some(Hypervisor::Gvisor),
            ),
            (
                &[(VendorAndProduct, "VMware, Inc. VMware7,1")],
                Some(Hypervisor::Vmware),
            ),
            (
                &[(VendorAndProduct, "Microsoft Corporation Virtual Machine")],
                Some(Hypervisor::HyperV),
            ),
            (&[(VendorAndProduct, "Xen HVM domU")], Some(Hypervisor::Xen)),
            (
                &[(KernelLog, "Starting gVisor...")],
                Some(Hypervisor::Gvisor),
            ),
        ] {
            assert_eq!(found(&HYPERVISORS, texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn the_firmware_names_the_cloud() {
        let firmware = |vendor, version| {
            vec![
                (Text::Dmi("sys_vendor"), vendor),
                (Text::Dmi("bios_version"), version),
            ]
        };
        for (texts, expected) in [
            (firmware("Xen", "4.11.amazon"), Some(Cloud::Ec2Xen)),
            (firmware("Xen", "4.17"), None),
            (firmware("Amazon EC2", "1.0"), Some(Cloud::Ec2Nitro)),
            (
                vec![(Text::Dmi("product_name"), "Google Compute Engine")],
                Some(Cloud::Google),
            ),
            (
                vec![(
                    Text::Dmi("chassis_asset_tag"),
                    "7783-7084-3265-9085-8269-3286-77",
                )],
                Some(Cloud::Azure),
            ),
            (firmware("Microsoft Corporation", "1.0"), None),
        ] {
            assert_eq!(found(&CLOUDS, &texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn the_code_of_another_version_is_kept() {
        let other = |text: &str| Hypervisor::Other(text.to_owned());
        for (code, hypervisor) in [
            ("hyper_v", Hypervisor::HyperV),
            ("virtualbox", Hypervisor::VirtualBox),
            ("none", Hypervisor::NoneNamed),
            ("other", other("other")),
            ("of a later version", other("of a later version")),
        ] {
            let read: Hypervisor = serde_json::from_value(code.into()).unwrap();
            assert_eq!(read, hypervisor);
            assert_eq!(read.to_string(), code);
        }
    }
}
