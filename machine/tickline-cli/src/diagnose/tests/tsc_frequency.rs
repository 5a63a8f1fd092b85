//! The kernel could not find out the TSC's frequency.

use super::given::guest_without_tsc;

/// Without a frequency the kernel cannot use the TSC, whatever else it is told.
#[test]
fn a_kernel_without_the_tscs_frequency_is_told_it() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let no_reference = "tsc: No reference (HPET/PMTIMER) available";
    for message in [marked, no_reference] {
        for hypervisor in ["none", "kvm", "bhyve", "other"] {
            let machine = guest_without_tsc(hypervisor).log(&[message]);
            machine.clone().assert_no_fix_says("tsc=reliable");
            let findings = machine.findings();
            findings[0]
                .says("could not find out the TSC's frequency")
                .shows(message)
                .fix_has("tsc_early_khz=2596120");
        }
    }
    let found = "tsc: Detected 2600.000 MHz processor";
    let machine = guest_without_tsc("bhyve").log(&[no_reference, found]);
    machine.first("tsc_missing").fix_lacks("tsc_early_khz");
}

#[test]
fn a_kernel_too_old_for_the_parameter_is_named() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let with_kernel = |release| {
        let machine = guest_without_tsc("none").log(&[marked]).kernel(release);
        machine.findings().remove(0)
    };
    with_kernel("5.4.0").fix_has("(with a kernel 5.8 or later: this one is 5.4.0)");
    with_kernel("5.10.0")
        .fix_has("(kernel 5.8 or later)")
        .fix_lacks("this one is");
}

#[test]
fn a_guest_may_get_the_frequency_from_its_host() {
    const BY_CPUID: &str = "or use a host that states the frequency by CPUID";
    const BY_KVM_CLOCK: &str = "or use a kernel with CONFIG_KVM_GUEST";
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let first = |hypervisor| {
        guest_without_tsc(hypervisor)
            .log(&[marked])
            .findings()
            .remove(0)
    };
    first("none").fix_lacks(BY_CPUID).fix_lacks(BY_KVM_CLOCK);
    first("bhyve").fix_has(BY_CPUID).fix_lacks(BY_KVM_CLOCK);
    first("kvm").fix_has(BY_CPUID).fix_has(BY_KVM_CLOCK);
}

/// Symptom: "use a kernel with CONFIG_KVM_GUEST and without no-kvmclock", for a command line that
/// has the parameter.
#[test]
fn a_parameter_against_kvm_clock_is_taken_off() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let machine = guest_without_tsc("kvm").log(&[marked]);
    let finding = machine.command_line("ro no-kvmclock").first("tsc_unstable");
    finding
        .fix_has("or take no-kvmclock off the command line")
        .fix_lacks("without no-kvmclock");
}

/// The hypervisor may hide from CPUID, but its firmware has a name.
#[test]
fn a_guest_of_kvm_that_only_its_product_shows_has_kvm_clock() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    for product in ["QEMU Standard PC", "Red Hat KVM"] {
        let machine = guest_without_tsc("none").log(&[marked]).product(product);
        let finding = machine
            .with(|document| document.machine.hypervisor = None)
            .first("tsc_unstable");
        finding.fix_has("or use a kernel with CONFIG_KVM_GUEST");
    }
}

#[test]
fn only_a_guest_that_may_be_qemus_is_told_of_qemu() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    for (hypervisor, is_told) in [
        ("kvm", true),
        ("other", true),
        ("bhyve", false),
        ("firecracker", false),
        ("hyper_v", false),
        ("tcg", false),
        ("virtualbox", false),
    ] {
        let machine = guest_without_tsc(hypervisor).log(&[marked]);
        let finding = machine.tsc_not_invariant().first("tsc_unstable");
        let text = finding.fix.text();
        assert_eq!(text.contains("QEMU"), is_told, "{hypervisor}: {text}");
    }
}

/// Symptom: QEMU's options, for a guest of VMware whose hypervisor is not named.
#[test]
fn a_guest_that_its_product_shows_to_be_anothers_is_not_told_of_qemu() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    for (product, is_told) in [
        ("QEMU Standard PC (Q35 + ICH9, 2009)", true),
        ("QEMU QEMU Virtual Machine", true),
        ("OpenStack Foundation OpenStack Nova", true),
        ("VMware, Inc. VMware Virtual Platform", false),
        ("innotek GmbH VirtualBox", false),
        ("Microsoft Corporation Virtual Machine", false),
        ("Xen HVM domU", false),
    ] {
        let machine = guest_without_tsc("none").log(&[marked]).product(product);
        let finding = machine
            .hypervisor_by_cpuid(Some(true))
            .tsc_not_invariant()
            .with(|document| document.machine.hypervisor = None)
            .first("tsc_unstable");
        let text = finding.fix.text();
        assert_eq!(text.contains("QEMU"), is_told, "{product}: {text}");
    }
}

/// QEMU shows no invariant TSC unless it is asked to. Symptom: "none: by CPUID the TSC is not
/// invariant, so the kernel's doubts are right".
#[test]
fn a_guest_without_a_frequency_and_an_invariant_tsc_needs_its_host_or_kvm_clock() {
    const BY_KVM_CLOCK: &str = "or use a kernel with CONFIG_KVM_GUEST and without no-kvmclock: it \
        keeps time with kvm-clock";
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let first = |hypervisor| {
        let machine = guest_without_tsc(hypervisor).log(&[marked]);
        machine.tsc_not_invariant().first("tsc_unstable")
    };
    for hypervisor in ["kvm", "firecracker"] {
        first(hypervisor)
            .fix_begins("use a host that shows an invariant TSC and states its frequency")
            .fix_has(BY_KVM_CLOCK)
            .fix_lacks("tsc_early_khz");
    }
    let finding = first("bhyve");
    finding
        .fix_begins("use a host that shows an invariant TSC")
        .fix_lacks("kvm-clock");
}

/// Symptom: "the kernel's doubts are right", of a kernel that only lacked the frequency.
#[test]
fn on_bare_metal_a_varying_rate_is_not_stated() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let machine = guest_without_tsc("none").log(&[marked]);
    let finding = machine.tsc_not_invariant().first("tsc_unstable");
    finding
        .has_no_fix()
        .fix_has("its rate may vary, so a stated frequency does not help");
}

#[test]
fn a_frequency_that_the_hypervisor_states_is_told_to_the_kernel() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let machine = guest_without_tsc("kvm").log(&[marked]).with(|document| {
        let cpuid = document.machine.cpuid.as_mut().expect("CPUID");
        cpuid.hypervisor_khz = Some(2_400_000);
    });
    let finding = machine.first("tsc_unstable");
    finding
        .fix_has("boot with tsc_early_khz=2400000")
        .fix_lacks("use a host that states the frequency");
}

/// Symptom: "none: the kernel's command line has tsc_early_khz=0 already".
#[test]
fn a_stated_frequency_of_0_is_replaced() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let stated = |word| {
        let machine = guest_without_tsc("none").log(&[marked]);
        machine.command_line(word).first("tsc_unstable")
    };
    stated("tsc_early_khz=0").fix_has("tsc_early_khz=2596120, in place of `tsc_early_khz=0`");
    stated("tsc_early_khz=2596120").has_no_fix();
}

/// Symptom: "none: the kernel's command line has tsc_early_khz=abc already".
#[test]
fn a_stated_frequency_that_cannot_be_right_is_replaced() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    for word in ["abc", "", "2.6GHz", "1", "2600", "2596120122", "2400000"] {
        let word = format!("tsc_early_khz={word}");
        let machine = guest_without_tsc("none").log(&[marked]).command_line(&word);
        for release in ["5.4.0", "6.1.0"] {
            let finding = machine.clone().kernel(release).first("tsc_unstable");
            finding
                .fix_has("boot with tsc_early_khz=2596120")
                .fix_has(&format!("in place of `{word}`"));
        }
        let unmeasured = machine.with(|document| document.clock.frequency_hz = None);
        let text = unmeasured.first("tsc_unstable").fix.text();
        let is_replaced = text.contains("in place of");
        assert_eq!(is_replaced, word != "tsc_early_khz=2400000", "{text}");
    }
}

#[test]
fn a_stated_frequency_is_compared_with_that_of_the_hypervisor_first() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let machine = guest_without_tsc("bhyve").log(&[marked]).with(|document| {
        let cpuid = document.machine.cpuid.as_mut().expect("CPUID");
        cpuid.hypervisor_khz = Some(2_400_000);
    });
    let stated = |word| machine.clone().command_line(word).first("tsc_unstable");
    stated("tsc_early_khz=2400500").has_no_fix();
    stated("tsc_early_khz=2596120").fix_has("tsc_early_khz=2400000, in place of");
}

/// Symptom: "none: the kernel's command line has tsc_early_khz=2400000 already", of a kernel that
/// does not know the parameter.
#[test]
fn a_stated_frequency_needs_a_kernel_that_obeys_it() {
    let marked = "tsc: Marking TSC unstable due to could not calculate TSC khz";
    let newer = "use a kernel 5.8 or later, which obeys `tsc_early_khz=2596120`";
    let on = |hypervisor| {
        let machine = guest_without_tsc(hypervisor).log(&[marked]);
        let machine = machine.kernel("5.4.0-100-generic");
        machine.command_line("ro tsc_early_khz=0 tsc_early_khz=2596120")
    };
    on("none")
        .first("tsc_unstable")
        .fix_begins(newer)
        .fix_has("(this one is 5.4.0-100-generic)")
        .fix_lacks("in place of");
    on("kvm").first("tsc_unstable").fix_has(newer);
    let newer_kernel = on("none").kernel("5.8.0");
    newer_kernel.first("tsc_unstable").has_no_fix();
}
