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
use crate::machine::{Cloud, Hypervisor};

/// The fix that lets a guest's kernel trust the TSC, for the administrator of its host. `None` for a
/// hypervisor without a known setting, for gVisor, whatever is below its host, and for Xen's dom0,
/// which is no guest of Xen.
pub(super) fn trusted_tsc(document: &Document) -> Option<Fix> {
    if document.machine.is_gvisor() {
        return None;
    }
    Some(match document.machine.hypervisor.as_ref()? {
        Hypervisor::Kvm => kvm(document),
        Hypervisor::Firecracker => "on the host: use tsc as its own clocksource".into(),
        Hypervisor::HyperV => {
            "on the host: give the machine a generation and version that offer the invariant TSC"
                .into()
        }
        // KVM runs guests with the host's own processor alone.
        Hypervisor::Tcg => Fix::from(
            "on the host: run the machine with KVM instead of QEMU's emulation (-accel kvm -cpu \
             host,+invtsc)",
        )
        .or(
            "or, if the host's processor is not x86 (Apple silicon; a container that Docker \
             emulates), use a machine or an image for the host's own processor",
        ),
        Hypervisor::VirtualBox => virtualbox(document),
        Hypervisor::Vmware => Fix::from(
            "use a kernel with CONFIG_HYPERVISOR_GUEST, which trusts VMware about the TSC",
        )
        .or(
            "or, only for a machine that stays on its host, set monitor_control.virtual_rdtsc = \
             \"FALSE\" in its .vmx (the counter's rate and value change when it is moved or \
             resumed)",
        ),
        Hypervisor::Xen if document.machine.is_xen_dom0() => return None,
        Hypervisor::Xen => Fix::from(
            "on the host: set nomigrate=1 in the domain's configuration, so that Xen shows an \
             invariant TSC, and no longer lets the domain migrate",
        )
        .then(
            "set tsc_mode=\"native\" only for such a domain, because the counter's rate and value \
             change when it is moved",
        ),
        Hypervisor::Bhyve
        | Hypervisor::Gvisor
        | Hypervisor::NoneNamed
        | Hypervisor::Parallels
        | Hypervisor::Other(_) => return None,
    })
}

/// The fix for unsynchronised counters of a sandbox of gVisor.
pub(super) fn synchronised_sandbox() -> Fix {
    "run the sandbox on a host whose counters are synchronised (`tickline warp` on the host): \
     gVisor computes its time from the counters, and offers no other clock"
        .into()
}

/// The fix for unsynchronised counters of a guest whose hypervisor has no known setting.
pub(super) fn synchronised_tsc() -> Fix {
    "on the host: compare its counters (`tickline warp`), use tsc as its own clocksource, and let \
     the hypervisor show the guest a synchronised TSC; if the host's own counters differ, move the \
     guest to another host"
        .into()
}

/// The fix for unsynchronised counters of a guest whose processor is not x86.
pub(super) fn synchronised_counter() -> Fix {
    "on the host: compare its counters (`tickline warp`); if they differ, move the guest to \
     another host"
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
pub(super) fn kvm(document: &Document) -> Fix {
    const QEMU: &str = "on the host: start QEMU with -cpu host,+invtsc (libvirt: <cpu \
                        mode='host-passthrough'> with <feature policy='require' name='invtsc'/>), \
                        and use tsc as the host's own clocksource (QEMU then refuses to migrate or \
                        save the guest, unless -cpu has tsc-frequency= as well)";
    const UNLESS_QEMU: &str = "if it is not QEMU but another hypervisor on KVM (Firecracker, a \
                               cloud's own), ask its administrator for an invariant TSC";
    const UNLESS_YOURS: &str = "if the host is not yours, ask its provider for an invariant TSC, \
                                or take another type of machine";
    // A cloud with QEMU may put its own product name into the firmware, or leave QEMU's.
    let product = document.machine.product.as_deref().unwrap_or_default();
    let unless = if product.contains("QEMU") {
        UNLESS_YOURS
    } else {
        UNLESS_QEMU
    };
    Fix::from(QEMU).or(unless)
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
/// Xen's dom0 is no guest of Xen.
pub(super) fn untrapped_tsc(document: &Document) -> Option<&'static str> {
    match document.machine.hypervisor.as_ref()? {
        Hypervisor::VirtualBox => {
            Some("on the host: VBoxManage setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset")
        }
        Hypervisor::Vmware => Some(
            "in the machine's .vmx, with the machine off: set monitor_control.virtual_rdtsc = \
             \"FALSE\" (the guest then reads the host's own counter, whose rate and value change \
             when the machine is moved or resumed: only for a machine that stays on its host)",
        ),
        Hypervisor::Xen if document.machine.is_xen_dom0() => None,
        Hypervisor::Xen => Some(
            "on the host: set tsc_mode=\"default\" in the domain's configuration: Xen then \
             emulates the counter only if the host's counter has another rate than that of the \
             host where the domain was started. tsc_mode=\"native\" never emulates it: use that \
             only for a domain with nomigrate=1, because the counter's rate and value change when \
             it is moved",
        ),
        Hypervisor::Bhyve
        | Hypervisor::Firecracker
        | Hypervisor::Gvisor
        | Hypervisor::HyperV
        | Hypervisor::Kvm
        | Hypervisor::NoneNamed
        | Hypervisor::Parallels
        | Hypervisor::Tcg
        | Hypervisor::Other(_) => None,
    }
}

/// The fix for the customer of a cloud, who cannot change the host.
pub(super) fn other_host(cloud: &Cloud, document: &Document) -> Option<&'static str> {
    let has_tsc = document.machine.may_be_x86();
    Some(match cloud {
        Cloud::Azure if !has_tsc => {
            "the host is Microsoft's: take another size of the machine, or tell its support"
        }
        Cloud::Azure => {
            "the host is Microsoft's: take another size of the machine, or ask its support for an \
             invariant TSC"
        }
        Cloud::Ec2Nitro => {
            "the host is Amazon's: stop and start the instance, which moves it to another host, \
             and loses the data of its instance store, or take another type"
        }
        Cloud::Ec2Xen => {
            "the host is Amazon's: take an instance type on Nitro, where the vDSO reads the clock"
        }
        Cloud::Google if !has_tsc => {
            "the host is Google's: take another machine type, or tell its support"
        }
        Cloud::Google => {
            "the host is Google's: take another machine type, or ask its support for an invariant \
             TSC"
        }
        Cloud::Other(_) => return None,
    })
}

/// The clocksource that the cloud's provider recommends; `advice` says where.
pub(super) fn recommended(cloud: &Cloud) -> Option<&'static str> {
    match cloud {
        Cloud::Ec2Nitro => Some("kvm-clock"),
        Cloud::Ec2Xen => Some("tsc"),
        Cloud::Azure | Cloud::Google | Cloud::Other(_) => None,
    }
}

/// The cloud provider's own recommendation of a clocksource, with its address.
pub(super) fn advice(cloud: &Cloud) -> Option<&'static str> {
    Some(match cloud {
        Cloud::Azure => {
            "this is Azure; no recommendation of a clocksource by Microsoft is known (its page on \
             time: https://learn.microsoft.com/azure/virtual-machines/linux/time-sync)"
        }
        Cloud::Ec2Nitro => {
            "this is EC2 on Nitro, where AWS recommends kvm-clock \
             (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        Cloud::Ec2Xen => {
            "this is EC2 on Xen, where AWS recommends tsc \
             (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        Cloud::Google => {
            "this is Google Compute Engine; no recommendation of a clocksource by Google is known \
             (its page on accurate time: \
             https://cloud.google.com/compute/docs/instances/time-synchronization/configure-time-sync)"
        }
        Cloud::Other(_) => return None,
    })
}
