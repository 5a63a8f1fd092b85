//! The settings of hypervisors and clouds that give a guest a good TSC.
//!
//! Sources for the fixes on hosts:
//!
//! - xen-tscmode(7). By default Xen emulates the counter after a move to a host with another
//!   counter. It shows an invariant TSC only to a domain that is never moved.
//! - "Timekeeping in VMware Virtual Machines" ("Virtual TSC").
//! - QEMU's `TCG_APM_FEATURES` (`target/i386/cpu.c`). Its emulated processors have no invariant
//!   TSC, and the emulation has no `-cpu host`.
//! - VirtualBox's manual, "VBoxManage modifyvm" and "setextradata". A setting without a value is
//!   removed.
//! - QEMU's `kvm_arch_init_vcpu` (`target/i386/kvm/kvm.c`, `invtsc_mig_blocker`): a guest with
//!   invtsc can't be migrated or saved unless its frequency is set.

use crate::document::{Document, Fix, Place, Steps};

/// The fix that lets a guest's kernel trust the TSC, for the administrator of a host with this
/// hypervisor.
pub(super) fn trusted_tsc(hypervisor: &str, document: &Document) -> Option<Fix> {
    Some(match hypervisor {
        "kvm" => kvm(document),
        "firecracker" => "on the host: use tsc as its own clocksource".into(),
        "hyper_v" => {
            "on the host: give the machine a generation and version that offer the invariant TSC"
                .into()
        }
        "tcg" => "on the host: run the machine with KVM instead of QEMU's emulation (-accel kvm \
            -cpu host,+invtsc)"
            .into(),
        "virtualbox" => virtualbox(document),
        "vmware" => Fix::from(
            "use a kernel with CONFIG_HYPERVISOR_GUEST, which trusts VMware about the TSC",
        )
        .or(
            "or, only for a machine that stays on its host, set monitor_control.virtual_rdtsc = \
             \"FALSE\" in its .vmx (the counter's rate and value change when it is moved or resumed)",
        ),
        "xen" => Fix::from(
            "on the host: set nomigrate=1 in the domain's configuration, so that Xen shows an \
             invariant TSC, and no longer lets the domain migrate",
        )
        .then(
            "set tsc_mode=\"native\" only for such a domain, because the counter's rate and value \
             change when it is moved",
        ),
        _ => return None,
    })
}

/// The fix for unsynchronised counters of a guest whose hypervisor has no known setting.
pub(super) fn synchronised_tsc(hypervisor: &str) -> Fix {
    if hypervisor == "gvisor" {
        return "run the sandbox on a host whose counters are synchronised (`tickline warp` on the \
            host): gVisor computes its time from the counters, and offers no other clock"
            .into();
    }
    "on the host: compare its counters (`tickline warp`), use tsc as its own clocksource, and let \
     the hypervisor show the guest a synchronised TSC; if the host's own counters differ, move the \
     guest to another host"
        .into()
}

/// The fix for unsynchronised counters of a guest whose processor is not x86.
pub(super) fn synchronised_counter() -> Fix {
    "on the host: compare its counters (`tickline warp`); if they differ, move the guest to another \
     host"
        .into()
}

/// The settings of VirtualBox, which has commands for them. In a cloud, the customer has no
/// commands for the host.
fn virtualbox(document: &Document) -> Fix {
    let fix = Fix::from(
        "on the host, with the machine off: VBoxManage modifyvm NAME --paravirtprovider kvm, and \
         VBoxManage setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset",
    );
    if document.machine.cloud.is_none() {
        fix.with_steps(virtualbox_steps())
    } else {
        fix
    }
}

/// CPUID names KVM even if a hypervisor other than QEMU uses KVM.
fn kvm(document: &Document) -> Fix {
    const QEMU: &str = "on the host: start QEMU with -cpu host,+invtsc (libvirt: <cpu \
        mode='host-passthrough'> with <feature policy='require' name='invtsc'/>), and use tsc as \
        the host's own clocksource (QEMU then refuses to migrate or save the guest, unless -cpu has \
        tsc-frequency= as well)";
    const UNLESS_QEMU: &str = "if it is not QEMU but another hypervisor on KVM (Firecracker, a \
        cloud's own), ask its administrator for an invariant TSC";
    // A cloud with QEMU may put its own product name into the firmware.
    let product = document.machine.product.as_deref().unwrap_or_default();
    if product.contains("QEMU") {
        QEMU.into()
    } else {
        Fix::from(QEMU).or(UNLESS_QEMU)
    }
}

/// The commands for VirtualBox, which take effect at the guest's next start. The shell variable VM
/// has the guest's name.
pub(super) fn virtualbox_steps() -> Steps {
    const NAME: &str = "\"${VM:?has no name: VM=NAME, with a name of: VBoxManage list vms}\"";
    const TSC_MODE: &str = "VBoxManage setextradata \"$VM\" VBoxInternal/TM/TSCMode";
    Steps {
        place: Place::Host,
        check: Some(format!(
            "VBoxManage showvminfo {NAME} --machinereadable | grep '^VMState=\"poweroff\"'"
        )),
        keep: Some(format!(
            "VBoxManage modifyvm {NAME} --paravirtprovider kvm && {TSC_MODE} RealTSCOffset"
        )),
        undo_keep: Some(format!(
            "VBoxManage modifyvm {NAME} --paravirtprovider default && {TSC_MODE}"
        )),
        ..Steps::default()
    }
}

/// The fix that lets a guest read the counter without a trap, for the host's administrator.
pub(super) fn untrapped_tsc(hypervisor: &str) -> Option<&'static str> {
    match hypervisor {
        "virtualbox" => {
            Some("on the host: VBoxManage setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset")
        }
        "vmware" => Some(
            "in the machine's .vmx, with the machine off: set monitor_control.virtual_rdtsc = \
             \"FALSE\" (the guest then reads the host's own counter, whose rate and value change \
             when the machine is moved or resumed: only for a machine that stays on its host)",
        ),
        "xen" => Some(
            "on the host: set tsc_mode=\"default\" in the domain's configuration: Xen then \
             emulates the counter only if the host's counter has another rate than that of the \
             host where the domain was started. tsc_mode=\"native\" never emulates it: use that \
             only for a domain with nomigrate=1, because the counter's rate and value change when \
             it is moved",
        ),
        _ => None,
    }
}

/// The fix for the customer of a cloud, who cannot change the host.
pub(super) fn other_host(cloud: &str) -> Option<&'static str> {
    Some(match cloud {
        "azure" => {
            "the host is Microsoft's: take another size of the machine, or ask its support for an \
             invariant TSC"
        }
        "ec2_nitro" => {
            "the host is Amazon's: stop and start the instance, which moves it to another host, and \
             loses the data of its instance store, or take another type"
        }
        "ec2_xen" => {
            "the host is Amazon's: take an instance type on Nitro, where the vDSO reads the clock"
        }
        "google" => {
            "the host is Google's: take another machine type, or ask its support for an invariant \
             TSC"
        }
        _ => return None,
    })
}

/// The clocksource that the cloud's provider recommends; `advice` says where.
pub(super) fn recommended(cloud: &str) -> Option<&'static str> {
    match cloud {
        "ec2_nitro" => Some("kvm-clock"),
        "ec2_xen" => Some("tsc"),
        _ => None,
    }
}

/// The cloud provider's own recommendation of a clocksource, with its address.
pub(super) fn advice(cloud: &str) -> Option<&'static str> {
    Some(match cloud {
        "azure" => {
            "this is Azure; no recommendation of a clocksource by Microsoft is known (its page on \
             time: https://learn.microsoft.com/azure/virtual-machines/linux/time-sync)"
        }
        "ec2_nitro" => {
            "this is EC2 on Nitro, where AWS recommends kvm-clock \
             (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        "ec2_xen" => {
            "this is EC2 on Xen, where AWS recommends tsc \
             (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        "google" => {
            "this is Google Compute Engine; no recommendation of a clocksource by Google is known \
             (its page on accurate time: \
             https://cloud.google.com/compute/docs/instances/time-synchronization/configure-time-sync)"
        }
        _ => return None,
    })
}
