//! The hypervisor below this machine. CPUID names one, but not always the right one: Firecracker
//! shows KVM's signature, gVisor the host's, and VirtualBox offers KVM's interface. Firmware and
//! kernel are more exact, so their words come first.

use tickline::Hypervisor;

/// The facts that show a hypervisor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traces<'a> {
    /// `None` if the processor has no CPUID.
    pub(super) by_cpuid: Option<Hypervisor>,
    pub(super) product: Option<&'a str>,
    /// `/proc/version`.
    pub(super) kernel_version: Option<&'a str>,
    pub(super) kernel_log: Option<&'a [String]>,
    /// The names in `/sys/bus/acpi/devices`, which every user may read.
    pub(super) acpi_devices: &'a [String],
}

/// The build that every version of gVisor's kernel claims (`pkg/sentry/syscalls/linux/linux64.go`,
/// `LinuxVersion`), and the beginning of its log.
const GVISOR_BUILD: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
const GVISOR_LOG: &str = "Starting gVisor";

/// The OEM id of Firecracker's ACPI tables (`src/vmm/src/acpi`), which the kernel lists when it
/// boots.
const FIRECRACKER_ACPI: &str = "FIRECK";

/// Firecracker's name for its VM generation device (`src/vmm/src/devices/acpi/vmgenid.rs`), from
/// 1.8 until its pull request 5760 of 2026.
const FIRECRACKER_DEVICE: &str = "FCVMGID:";

/// Words of the firmware, and the hypervisor that they name.
const PRODUCTS: [(&str, &str); 4] = [
    ("VirtualBox", "virtualbox"),
    ("VMware", "vmware"),
    ("Microsoft Corporation Virtual Machine", "hyper_v"),
    ("Xen HVM domU", "xen"),
];

/// The hypervisor's stable code. "none" means that CPUID could have named one, and did not; `None`
/// means that no fact tells.
pub(super) fn find(traces: &Traces<'_>) -> Option<String> {
    let logged = |word: &str| traces.kernel_log.is_some_and(|log| log.iter().any(|line| line.contains(word)));
    if traces.kernel_version.is_some_and(|version| version.contains(GVISOR_BUILD)) || logged(GVISOR_LOG) {
        return Some("gvisor".to_owned());
    }
    let has_device = traces.acpi_devices.iter().any(|name| name.starts_with(FIRECRACKER_DEVICE));
    if logged(FIRECRACKER_ACPI) || has_device {
        return Some("firecracker".to_owned());
    }
    let by_product = PRODUCTS.iter().find(|(word, _)| traces.product.is_some_and(|text| text.contains(word)));
    if let Some((_, name)) = by_product {
        return Some((*name).to_owned());
    }
    traces.by_cpuid.map(|found| found.code().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(traces: Traces<'_>) -> String {
        find(&traces).unwrap_or_else(|| "unknown".to_owned())
    }

    #[test]
    fn the_most_exact_word_counts() {
        let log = ["ACPI: RSDP 0x00000000000E0000 000024 (v02 FIRECK)".to_owned()];
        let kvm = Traces { by_cpuid: Some(Hypervisor::Kvm), ..Traces::default() };
        assert_eq!(found(kvm), "kvm");
        assert_eq!(found(Traces { kernel_log: Some(&log), ..kvm }), "firecracker");
        // A user who may not read the log.
        let devices = ["ACPI0013:00".to_owned(), "FCVMGID:00".to_owned()];
        assert_eq!(found(Traces { acpi_devices: &devices, ..kvm }), "firecracker");
        assert_eq!(found(Traces { acpi_devices: &["VMGENCTR:00".to_owned()], ..kvm }), "kvm");
        assert_eq!(found(Traces { product: Some("innotek GmbH VirtualBox"), ..kvm }), "virtualbox");
        let version = Some("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016");
        assert_eq!(found(Traces { kernel_version: version, ..kvm }), "gvisor");
        assert_eq!(found(Traces { product: Some("QEMU Standard PC"), ..kvm }), "kvm");
    }

    #[test]
    fn silence_is_none_only_with_cpuid() {
        assert_eq!(found(Traces { by_cpuid: Some(Hypervisor::None), ..Traces::default() }), "none");
        assert_eq!(found(Traces::default()), "unknown");
    }
}
