//! Reads the facts about the counter that the processor or the hypervisor states by CPUID.

use serde::{Deserialize, Serialize};

use super::Hypervisor;

/// The facts that concern time (Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Cpuid {
    /// Leaf 8000_0007h, EDX bit 8.
    pub(crate) invariant_tsc: Option<bool>,
    /// Leaf 8000_0001h, EDX bit 27.
    pub(crate) rdtscp: Option<bool>,
    /// Leaf 1, ECX bit 31.
    pub(crate) hypervisor: Option<bool>,
    /// Leaf 15h: the crystal's frequency times a ratio, Hz; null if the leaf has no frequency.
    pub(crate) leaf_15h_hz: Option<u64>,
    /// Leaf 4000_0010h: the counter's frequency that the hypervisor states, kHz.
    pub(crate) hypervisor_khz: Option<u32>,
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
pub(super) fn read() -> Option<Cpuid> {
    let cpuid = raw_cpuid::CpuId::new();
    let extended = cpuid.get_extended_processor_and_feature_identifiers();
    Some(Cpuid {
        // A processor without the leaf does not claim an invariant TSC.
        invariant_tsc: Some(
            cpuid
                .get_advanced_power_mgmt_info()
                .is_some_and(|power| power.has_invariant_tsc()),
        ),
        rdtscp: extended.map(|extended| extended.has_rdtscp()),
        hypervisor: cpuid
            .get_feature_info()
            .map(|features| features.has_hypervisor()),
        leaf_15h_hz: cpuid
            .get_tsc_info()
            .and_then(|tsc| tsc.tsc_frequency())
            .filter(|hz| *hz != 0),
        hypervisor_khz: cpuid
            .get_hypervisor_info()
            .and_then(|found| found.tsc_frequency())
            .filter(|khz| *khz != 0),
    })
}

/// The hypervisor that CPUID names, or `NoneNamed` (Linux `Documentation/virt/kvm/x86/cpuid.rst`;
/// Hypervisor Top Level Functional Specification, 2.4).
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
pub(super) fn hypervisor() -> Option<Hypervisor> {
    if !raw_cpuid::CpuId::new()
        .get_feature_info()
        .is_some_and(|features| features.has_hypervisor())
    {
        return Some(Hypervisor::NoneNamed);
    }
    let leaf = raw_cpuid::cpuid!(0x4000_0000);
    Some(hypervisor_by_signature(leaf.ebx, leaf.ecx))
}

/// The hypervisor with this signature. Eight of its twelve bytes suffice to tell hypervisors apart.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn hypervisor_by_signature(ebx: u32, ecx: u32) -> Hypervisor {
    let signature = [ebx, ecx].map(u32::to_le_bytes);
    match signature.as_flattened() {
        b"KVMKVMKV" | b"Linux KV" => Hypervisor::Kvm,
        b"Microsof" => Hypervisor::HyperV,
        b"XenVMMXe" => Hypervisor::Xen,
        b"VMwareVM" => Hypervisor::Vmware,
        b"VBoxVBox" => Hypervisor::VirtualBox,
        b"TCGTCGTC" => Hypervisor::Tcg,
        b"bhyve bh" => Hypervisor::Bhyve,
        b" lrpepyh" => Hypervisor::Parallels,
        _ => Hypervisor::Other("other".to_owned()),
    }
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
pub(super) fn hypervisor() -> Option<Hypervisor> {
    None
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
pub(super) fn read() -> Option<Cpuid> {
    None
}

/// The counter's frequency that the firmware has written to `CNTFRQ_EL0`, Hz; `None` on processors
/// other than aarch64. The kernel denies that register, too, to a process that may not read the
/// counter (Linux 6.12, `arch/arm64/kernel/traps.c`, `cntfrq_read_handler`).
pub(super) fn hz_by_firmware() -> Option<u64> {
    let counter = tickline_core::counter::HardwareCounter::if_present()?;
    let may_ask = super::may_read_counter() != Some(false);
    if may_ask { counter.nominal_hz() } else { None }
}

#[cfg(all(test, any(target_arch = "x86", target_arch = "x86_64")))]
mod tests {
    use super::*;

    #[test]
    fn each_hypervisor_is_known_by_its_signature() {
        for (signature, hypervisor) in [
            (b"KVMKVMKVM\0\0\0", Hypervisor::Kvm),
            (b"Linux KVM Hv", Hypervisor::Kvm),
            (b"Microsoft Hv", Hypervisor::HyperV),
            (b"XenVMMXenVMM", Hypervisor::Xen),
            (b"VMwareVMware", Hypervisor::Vmware),
            (b"VBoxVBoxVBox", Hypervisor::VirtualBox),
            (b"TCGTCGTCGTCG", Hypervisor::Tcg),
            (b"bhyve bhyve ", Hypervisor::Bhyve),
            (b" lrpepyh vr\0", Hypervisor::Parallels),
            (b"ACRNACRNACRN", Hypervisor::Other("other".to_owned())),
        ] {
            let word = |at: usize| u32::from_le_bytes(*signature[at..].first_chunk().unwrap());
            assert_eq!(hypervisor_by_signature(word(0), word(4)), hypervisor);
        }
    }

    #[test]
    fn the_bit_of_a_hypervisor_decides_whether_there_is_one() {
        let has_hypervisor = read().unwrap().hypervisor.unwrap();
        let named = hypervisor().unwrap();
        assert_eq!(named != Hypervisor::NoneNamed, has_hypervisor);
    }
}
