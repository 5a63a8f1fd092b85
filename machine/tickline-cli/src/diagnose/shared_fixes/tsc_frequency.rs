//! The fix for a kernel that could not find out the TSC's frequency.

use std::ops::RangeInclusive;

use super::after_decision;
use crate::clocksources::is_tick;
use crate::document::{Document, Fix};
use crate::machine::Hypervisor;

/// Gives the kernel the TSC's frequency, without which it cannot use the TSC whatever else it is
/// told. The rate of a TSC that is not invariant may vary, so nobody can state it.
pub(super) fn state_frequency(document: &Document) -> Fix {
    let knows_parameter = document.machine.is_kernel_at_least(5, 8) != Some(false);
    let why_not = if document.machine.has_invariant_tsc() == Some(false) {
        "by CPUID the TSC is not invariant: its rate may vary, so a stated frequency does not help"
            .to_owned()
    } else if let Some(parameter) = stated_frequency(document)
        && knows_parameter
    {
        format!("the kernel's command line has {parameter} already")
    } else {
        let fix = after_decision(state_frequency_by_parameter(document), document);
        return or_each(fix, &frequency_by_host(document));
    };
    match frequency_by_host(document).as_slice() {
        [] => Fix::none(&why_not),
        [first, others @ ..] => or_each(first.as_str().into(), others),
    }
}

/// The frequencies that a TSC may have, kHz: more than any processor of 64 bits has, and no number
/// that is in Hz or MHz by mistake. The kernel takes 0 for no statement.
const PLAUSIBLE_KHZ: RangeInclusive<u64> = 100_000..=10_000_000;

/// The parameter that states the TSC's frequency, if it may be right.
fn stated_frequency(document: &Document) -> Option<&str> {
    let parameter = document.machine.last_parameter(EARLY_KHZ)?;
    let khz: u64 = parameter.strip_prefix(EARLY_KHZ)?.parse().ok()?;
    let is_plausible = PLAUSIBLE_KHZ.contains(&khz)
        && known_khz(document)
            .is_none_or(|known| !document.is_implausible(known * 1_000, khz * 1_000));
    is_plausible.then_some(parameter)
}

/// The TSC's frequency that the hypervisor states, or else that was measured, kHz. Jiffies are too
/// coarse to measure it.
fn known_khz(document: &Document) -> Option<u64> {
    if let Some(khz) = khz_by_hypervisor(document) {
        return Some(khz.into());
    }
    if document.machine.clocksource().is_some_and(is_tick) {
        return None;
    }
    document.clock.frequency_hz.map(|hz| hz / 1_000)
}

/// Adds each text as an alternative.
fn or_each(fix: Fix, texts: &[String]) -> Fix {
    texts
        .iter()
        .fold(fix, |fix, text| fix.or(format!("or {text}")))
}

/// The parameter that stands in for the kernel's first calibration (Linux 5.8, commit
/// bd35c77e32e4).
const EARLY_KHZ: &str = "tsc_early_khz=";

/// If the command line states the frequency already, the kernel is too old to know the parameter.
fn state_frequency_by_parameter(document: &Document) -> Fix {
    if let Some(parameter) = stated_frequency(document) {
        let kernel = document.machine.kernel.as_deref().unwrap_or("unknown");
        return format!(
            "use a kernel 5.8 or later, which obeys `{parameter}` on its command line (this one is \
             {kernel})"
        )
        .into();
    }
    let is_measurable = !document.machine.clocksource().is_some_and(is_tick);
    let mut khz = if let Some(khz) = known_khz(document) {
        format!("{EARLY_KHZ}{khz}")
    } else if is_measurable {
        "tsc_early_khz=KHZ, with the counter's rate in kHz as `tickline warp` prints it".to_owned()
    } else if document.machine.is_guest() == Some(true) {
        "tsc_early_khz=KHZ, with the rate in kHz that the host's kernel found (sudo dmesg | grep \
         'tsc:' there), as jiffies are too coarse to measure it"
            .to_owned()
    } else {
        "tsc_early_khz=KHZ, with the processor's rate in kHz by its data sheet, as jiffies are too \
         coarse to measure it"
            .to_owned()
    };
    if let Some(parameter) = document.machine.last_parameter(EARLY_KHZ) {
        khz += &format!(", in place of `{parameter}`");
    }
    let kernel = match document.machine.kernel.as_deref() {
        Some(older) if document.machine.is_kernel_at_least(5, 8) == Some(false) => {
            format!("with a kernel 5.8 or later: this one is {older}")
        }
        _ => "kernel 5.8 or later".to_owned(),
    };
    Fix::from(format!(
        "tell the kernel the TSC's frequency, which it could not measure: boot with {khz} ({kernel})"
    ))
}

/// The TSC's frequency that the hypervisor states by CPUID leaf 4000_0010h, kHz.
fn khz_by_hypervisor(document: &Document) -> Option<u32> {
    document.machine.cpuid.as_ref()?.hypervisor_khz
}

/// How a guest's kernel gets the TSC's frequency from its host, or a clock that needs none.
fn frequency_by_host(document: &Document) -> Vec<String> {
    if document.machine.is_guest() != Some(true) {
        return Vec::new();
    }
    let is_invariant = document.machine.has_invariant_tsc() != Some(false);
    let mut ways = Vec::new();
    let leaves = if may_be_qemu_on_kvm(document) {
        "leaf 15h or 4000_0010h; QEMU: -cpu host,+invtsc"
    } else {
        "leaf 15h or 4000_0010h"
    };
    if !is_invariant {
        ways.push(format!(
            "use a host that shows an invariant TSC and states its frequency by CPUID ({leaves})"
        ));
    } else if khz_by_hypervisor(document).is_none() {
        ways.push(format!(
            "use a host that states the frequency by CPUID ({leaves})"
        ));
    }
    if has_kvm_clock(document) {
        let kernel = if document.machine.has_parameter("no-kvmclock") {
            "take no-kvmclock off the command line of a kernel with CONFIG_KVM_GUEST"
        } else {
            "use a kernel with CONFIG_KVM_GUEST and without no-kvmclock"
        };
        let gain = if is_invariant {
            "it learns the frequency from kvm-clock"
        } else {
            "it keeps time with kvm-clock, which needs no invariant TSC"
        };
        ways.push(format!("{kernel}: {gain}"));
    }
    ways
}

/// Whether the guest's hypervisor has kvm-clock, by its name or, if that is unknown, by the
/// firmware's.
fn has_kvm_clock(document: &Document) -> bool {
    let product = document.machine.product.as_deref().unwrap_or_default();
    match document.machine.hypervisor {
        Some(Hypervisor::Kvm | Hypervisor::Firecracker) => true,
        None => ["QEMU", "KVM"].iter().any(|word| product.contains(word)),
        Some(_) => false,
    }
}

/// Whether the guest's hypervisor is, or may be, QEMU with the host's processor: by its name or, if
/// that is unknown, by the firmware's. A cloud's customer has no options of QEMU.
fn may_be_qemu_on_kvm(document: &Document) -> bool {
    /// Words in the products of other hypervisors: VMware, VirtualBox and Hyper-V ("Virtual"),
    /// bhyve, Xen, Oxide, Parallels.
    const OTHERS: [&str; 6] = [
        "VMware",
        "Virtual",
        "BHYVE",
        "HVM domU",
        "OxVM",
        "Parallels",
    ];
    if document.machine.cloud.is_some() {
        return false;
    }
    let product = document.machine.product.as_deref().unwrap_or_default();
    match document.machine.hypervisor {
        Some(Hypervisor::Kvm) => true,
        None | Some(Hypervisor::NoneNamed | Hypervisor::Other(_)) => {
            // "QEMU Virtual Machine".
            product.contains("QEMU") || !OTHERS.iter().any(|word| product.contains(word))
        }
        Some(_) => false,
    }
}
