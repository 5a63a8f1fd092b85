//! The facts that show a guest, or a sandbox of gVisor.

use crate::machine::{Cpuid, Hypervisor, Machine};

#[test]
fn the_log_or_the_hosts_clock_shows_a_guest() {
    let by_log = Machine {
        kernel_log: Some(vec!["[    0.000000] Hypervisor detected: KVM".to_owned()]),
        ..Machine::default()
    };
    assert_eq!(by_log.is_guest(), Some(true));
    let by_clock = Machine {
        clocksource: Some("kvm-clock".to_owned()),
        ..Machine::default()
    };
    assert_eq!(by_clock.is_guest(), Some(true));
    assert_eq!(Machine::default().is_guest(), None);
}

/// Symptom: a BIOS update alone for a domain of Xen whose CPUID is that of the bare processor;
/// later, of dom0 in a container, which shows no product, the fix for a guest alone.
#[test]
fn a_paravirtual_domain_of_xen_without_a_product_may_be_a_guest_or_dom0() {
    let domain = Machine {
        hypervisor: Some(Hypervisor::NoneNamed),
        cpuid: Some(Cpuid {
            hypervisor: Some(false),
            ..Cpuid::default()
        }),
        kernel_log: Some(vec![
            "[    0.000000] Hypervisor detected: Xen PV".to_owned(),
        ]),
        ..Machine::default()
    };
    assert_eq!(domain.is_guest(), None);
    let named_xen = Machine {
        product: Some("Xen".to_owned()),
        ..domain
    };
    assert_eq!(named_xen.is_guest(), Some(true));
}

/// Dom0 is paravirtual. XenServer can show a guest the texts of its host's firmware.
#[test]
fn a_hardware_virtual_domain_of_xen_is_a_guest_whatever_its_product() {
    let domain = Machine {
        product: Some("Dell Inc. PowerEdge R640".to_owned()),
        clocksource: Some("xen".to_owned()),
        available_clocksources: Some("xen tsc".to_owned()),
        kernel_log: Some(vec![
            "[    0.000000] Hypervisor detected: Xen HVM".to_owned(),
        ]),
        ..Machine::default()
    };
    assert_eq!(domain.is_guest(), Some(true));
}

/// Symptom: a switch to tsc, without a word on what the host may do.
#[test]
fn the_list_shows_a_guest() {
    for list in [
        "kvm-clock tsc hpet acpi_pm",
        "xen tsc",
        "hyperv_clocksource_msr",
    ] {
        let machine = Machine {
            clocksource: Some("hpet".to_owned()),
            available_clocksources: Some(list.to_owned()),
            ..Machine::default()
        };
        assert_eq!(machine.is_guest(), Some(true), "{list}");
    }
}

#[test]
fn a_list_does_not_make_a_guest_of_a_processor_without_a_hypervisor() {
    let bare = Machine {
        hypervisor: Some(Hypervisor::NoneNamed),
        available_clocksources: Some("tsc kvm-clock acpi_pm".to_owned()),
        ..Machine::default()
    };
    assert_eq!(bare.is_guest(), Some(false));
}

/// A host of KVM lists the clocksources of bare metal; Xen's dom0 has real firmware.
#[test]
fn a_host_of_guests_is_no_guest() {
    let bare = Machine {
        hypervisor: Some(Hypervisor::NoneNamed),
        product: Some("Dell Inc. PowerEdge R640".to_owned()),
        available_clocksources: Some("tsc hpet acpi_pm".to_owned()),
        kernel_log: Some(vec!["[    5.000000] kvm: Nested Virtualization".to_owned()]),
        ..Machine::default()
    };
    assert_eq!(bare.is_guest(), Some(false));
    let dom0 = Machine {
        clocksource: Some("xen".to_owned()),
        available_clocksources: Some("xen tsc".to_owned()),
        kernel_log: Some(vec![
            "[    0.000000] Hypervisor detected: Xen PV".to_owned(),
        ]),
        ..bare
    };
    assert_eq!(dom0.is_guest(), Some(false));
}

/// A machine whose processor, log and clocksource name Xen.
fn domain_of_xen(hypervisor: Option<Hypervisor>, xen_dom0: Option<bool>) -> Machine {
    Machine {
        hypervisor,
        xen_dom0,
        cpuid: Some(Cpuid {
            hypervisor: Some(true),
            ..Cpuid::default()
        }),
        clocksource: Some("xen".to_owned()),
        kernel_log: Some(vec![
            "[    0.000000] Hypervisor detected: Xen HVM".to_owned(),
        ]),
        ..Machine::default()
    }
}

/// Symptom: of dom0, "decide first whether the host ever suspends this guest", if CPUID or
/// `/sys/hypervisor/type` named Xen.
#[test]
fn dom0_is_no_guest_whatever_names_xen() {
    for hypervisor in [None, Some(Hypervisor::NoneNamed), Some(Hypervisor::Xen)] {
        let is_guest = |xen_dom0| domain_of_xen(hypervisor.clone(), xen_dom0).is_guest();
        assert_eq!(is_guest(Some(true)), Some(false), "{hypervisor:?}");
        assert_eq!(is_guest(Some(false)), Some(true), "{hypervisor:?}");
        assert_eq!(is_guest(None), Some(true), "{hypervisor:?}");
    }
}

#[test]
fn the_dom0_of_a_xen_that_is_itself_a_guest_is_a_guest() {
    let under_kvm = domain_of_xen(Some(Hypervisor::Kvm), Some(true));
    assert_eq!(under_kvm.is_guest(), Some(true));
    let on_firmware_of_vmware = Machine {
        product: Some("VMware, Inc. VMware7,1".to_owned()),
        ..domain_of_xen(Some(Hypervisor::Xen), Some(true))
    };
    assert_eq!(on_firmware_of_vmware.is_guest(), Some(true));
}

#[test]
fn the_firmware_of_a_hypervisor_names_a_guest() {
    for product in [
        "Oxide OxVM",
        "OpenStack Foundation OpenStack Nova",
        "DigitalOcean Droplet",
        "Hetzner vServer",
        "Parallels International GmbH. Parallels",
    ] {
        let machine = Machine {
            product: Some(product.to_owned()),
            ..Machine::default()
        };
        assert_eq!(machine.is_guest(), Some(true), "{product}");
    }
}

/// A cloud may give its bare metal the name of its guests. Symptom: a guest, by the name alone.
#[test]
fn the_name_of_a_cloud_shows_no_guest() {
    for by_cpuid in [None, Some(false), Some(true)] {
        let machine = Machine {
            product: Some("Alibaba Cloud Alibaba Cloud ECS".to_owned()),
            cpuid: Some(Cpuid {
                hypervisor: by_cpuid,
                ..Cpuid::default()
            }),
            ..Machine::default()
        };
        assert_eq!(machine.is_guest(), by_cpuid);
    }
}

/// gVisor shows the CPUID of its host. Symptom: a BIOS update for a sandbox.
#[test]
fn the_log_or_the_release_shows_gvisor() {
    let by_log = Machine {
        hypervisor: Some(Hypervisor::Kvm),
        kernel_log: Some(vec!["[    0.000000] Starting gVisor...".to_owned()]),
        ..Machine::default()
    };
    let by_release = Machine {
        hypervisor: Some(Hypervisor::NoneNamed),
        kernel: Some("4.19.0-gvisor".to_owned()),
        ..Machine::default()
    };
    for machine in [by_log, by_release] {
        assert!(machine.is_gvisor());
        assert_eq!(machine.is_guest(), Some(true));
    }
    assert!(!Machine::default().is_gvisor());
}

#[test]
fn a_host_that_runs_gvisor_is_none() {
    let host = Machine {
        clocksource: Some("tsc".to_owned()),
        kernel: Some("6.12.0-gvisor-host".to_owned()),
        kernel_log: Some(vec!["[   90.000000] runsc: Starting gVisor".to_owned()]),
        ..Machine::default()
    };
    assert!(!host.is_gvisor());
}

#[test]
fn only_the_kernels_own_message_about_a_hypervisor_shows_a_guest() {
    let host = Machine {
        hypervisor: Some(Hypervisor::NoneNamed),
        kernel_log: Some(vec![
            "[   90.000000] libvirtd: no nested hypervisor detected".to_owned(),
        ]),
        ..Machine::default()
    };
    assert_eq!(host.is_guest(), Some(false));
}

/// Symptom: a document with this word was that of a guest.
#[test]
fn an_unknown_hypervisor_is_none_that_is_known() {
    let machine: Machine = serde_json::from_str(r#"{"hypervisor": "unknown"}"#).unwrap();
    assert_eq!((machine.is_guest(), &machine.hypervisor), (None, &None));
}
