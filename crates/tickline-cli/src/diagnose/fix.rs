//! What to do: commands, parameters of the kernel, settings of hypervisors.

use super::steps::{self, Steps};
use crate::document::Document;

/// The caveat of `tsc=reliable` (`Documentation/admin-guide/kernel-parameters.txt`).
const CAVEAT: &str = "this switches off both the kernel's watchdog and its comparison of the CPUs' counters at boot: do so only \
                      where `tickline warp` finds the counters of all CPUs synchronised, and the machine is not moved to another \
                      host";

/// The settings of QEMU.
macro_rules! qemu {
    () => {
        "on the host: QEMU with -cpu host,+invtsc (libvirt: <cpu mode='host-passthrough'> with <feature policy='require' \
         name='invtsc'/>), and tsc as the host's own clocksource"
    };
}

/// What to check before a switch to the TSC where the log is unknown.
const LOG_FIRST: &str = "that the kernel's log, which could not be read here, does not call the TSC unstable (sudo dmesg | grep -iE \
                         'tsc|clocksource')";

/// What to check where the host does not guarantee its TSC.
const WARP_FIRST: &str =
    "that `tickline warp` finds the counters synchronised, which the host does not guarantee";

/// The beginning of the text where there is no fix, and therefore no gain.
const NONE: &str = "none: ";

/// The text where there is no fix, with the reason.
pub(super) fn none(why: &str) -> String {
    format!("{NONE}{why}")
}

/// Whether the text says that there is no fix.
pub(super) fn is_none(fix: &str) -> bool {
    fix.starts_with(NONE)
}

/// How to switch the kernel to another clocksource that it accepts, now and after a restart.
pub(super) fn switch_to(clocksource: &str, facts: &Document) -> String {
    let now = steps::choose(clocksource);
    match facts.parameter_of("clocksource=") {
        Some(word) if word.strip_prefix("clocksource=") == Some(clocksource) => {
            format!("{now}; the kernel's command line has `{word}` already, for the next start")
        }
        // If the word were only removed, the kernel would choose by its own preferences.
        Some(word) => format!("{now}; to keep it, boot with clocksource={clocksource} instead of `{word}`"),
        None => format!("{now}; to keep it, boot with clocksource={clocksource}"),
    }
}

/// The steps of a switch to the TSC, which the kernel must accept. `None` where the TSC's rate may
/// vary, since one comparison of the CPUs can't show that, and where the counters are
/// unsynchronised.
pub(super) fn tsc_steps(facts: &Document) -> Option<Steps> {
    let varies = facts.invariant() == Some(false) || facts.are_unsynchronised();
    if varies { None } else { steps::switch("tsc", facts) }
}

/// How to switch the kernel to the TSC, which it must accept. By CPUID, the TSC's rate may still
/// vary.
pub(super) fn use_tsc(facts: &Document) -> String {
    use_tsc_after(facts, Vec::new())
}

/// As `use_tsc`, where the clocksource in use shows that the host does not guarantee its TSC.
pub(super) fn use_tsc_of_doubtful_host(facts: &Document) -> String {
    // With a TSC that is not invariant, the fix names that condition already.
    let is_said = facts.invariant() == Some(false) || facts.synchronised();
    use_tsc_after(facts, if is_said { Vec::new() } else { vec![WARP_FIRST] })
}

/// How to switch to the TSC, with what must be checked before in front of it.
fn use_tsc_after(facts: &Document, mut checks: Vec<&str>) -> String {
    if facts.machine.kernel_log.is_none() {
        checks.push(LOG_FIRST);
    }
    let mut switch = switch_to("tsc", facts);
    if !checks.is_empty() {
        switch = format!("check first {}; then: {switch}", checks.join(", and "));
    }
    if facts.invariant() != Some(false) {
        return switch;
    }
    let fix = invariant_tsc(facts);
    if is_none(&fix) {
        return fix;
    }
    format!(
        "{fix}; or, as CPUID does not call the TSC invariant, only where the host's processors are known to keep their TSC \
         at one rate, `tickline warp` finds the counters synchronised, and the machine is not moved to another host: {switch}"
    )
}

/// How to have a TSC that CPUID calls invariant: the host must offer it.
pub(super) fn invariant_tsc(facts: &Document) -> String {
    match on_the_host(facts) {
        Some(host) => host.to_owned(),
        None if facts.is_guest() => {
            "on the host: let the hypervisor show the processor's invariant TSC to the guest".to_owned()
        }
        None => none("the processor has no invariant TSC; leave the choice of clocksource to the kernel"),
    }
}

/// How to make the kernel trust a TSC that it doubts. Where the TSC's rate depends on power states,
/// the kernel is right, and there is no fix.
pub(super) fn trust_tsc(facts: &Document) -> String {
    match facts.invariant() {
        Some(false) => none("by CPUID the TSC is not invariant, so the kernel's doubts are right"),
        _ => format!("boot with tsc=reliable clocksource=tsc ({}); {CAVEAT}", needs_3_3(facts)),
    }
}

/// Which kernels compare no counters with `tsc=reliable` (`unsynchronized_tsc` in
/// `arch/x86/kernel/tsc.c`), and whether this one does not.
fn needs_3_3(facts: &Document) -> String {
    match facts.machine.kernel.as_deref().filter(|_| facts.is_kernel_at_least(3, 3) == Some(false)) {
        Some(older) => format!("with a kernel 3.3 or later: this one is {older}"),
        None => "kernel 3.3 or later".to_owned(),
    }
}

/// How to keep the kernel's watchdog from the TSC. The kernel still compares the CPUs' counters at
/// boot (`no_tsc_watchdog` in `arch/x86/kernel/tsc.c`; git pull "x86/timers updates for v5.2").
pub(super) fn no_watchdog(facts: &Document) -> String {
    match facts.invariant() {
        Some(false) => trust_tsc(facts),
        _ => format!(
            "boot with tsc=nowatchdog clocksource=tsc (kernel 5.2 or later), which keeps the kernel's comparison of the CPUs' \
             counters at boot; older kernels: tsc=reliable clocksource=tsc; {CAVEAT}"
        ),
    }
}

/// What to do where the kernel's watchdog has, or may have, measured a wrong rate of the TSC. The
/// watchdog tolerates some 100 ppm or more (`kernel/time/clocksource.c`). `tickline warp` measures
/// the rate more closely than that, even if a read of hpet takes 700 ns.
pub(super) fn check_tsc(facts: &Document) -> String {
    if facts.invariant() == Some(false) {
        return on_the_host_or_trust_tsc(facts);
    }
    let check = "the kernel may be right: see whether the counter keeps one rate (`tickline warp` prints it; compare it when \
                 idle, under load, and hours later, while NTP slews nothing: a steady rate differs by less than 100 ppm; a \
                 single jump does not show there)";
    let place = on_the_host(facts).unwrap_or(FIRMWARE);
    format!("{check}; {place}; only if the rate is steady then: {}", no_watchdog(facts))
}

/// What to do on the host, or else in the kernel. Only the host can help where the TSC is not
/// invariant. Only the kernel is left where the host is unknown.
pub(super) fn on_the_host_or_trust_tsc(facts: &Document) -> String {
    match (on_the_host(facts), facts.invariant()) {
        (Some(host), Some(false)) => host.to_owned(),
        (Some(host), _) => format!("{host}; or {}", trust_tsc(facts)),
        (None, _) => trust_tsc(facts),
    }
}

/// As `on_the_host_or_trust_tsc`, where only the watchdog's own measurement has failed.
pub(super) fn on_the_host_or_no_watchdog(facts: &Document) -> String {
    match (on_the_host(facts), facts.invariant()) {
        (Some(host), Some(false)) => host.to_owned(),
        (Some(host), _) => format!("{host}; or {}", no_watchdog(facts)),
        (None, _) => no_watchdog(facts),
    }
}

/// On Xen: xen-tscmode(7). With `native` the counter's rate and value change when the domain is
/// moved to a host whose counter differs. By default Xen emulates the counter there. Xen shows an
/// invariant TSC only to a domain that is never moved.
pub(super) const XEN: &str = "on the host: nomigrate=1 in the domain's configuration, with which Xen shows an invariant TSC; tsc_mode=\"native\" \
                              only for such a domain, because the counter's rate and value change when it is moved";

/// On VMware ("Timekeeping in VMware Virtual Machines", "Virtual TSC"): with this setting the guest
/// reads the host's own counter.
pub(super) const VMWARE: &str = "in the machine's .vmx, with the machine off: monitor_control.virtual_rdtsc = \"FALSE\" (the guest then reads the \
                                 host's own counter, whose rate and value change when the machine is moved or resumed: only for a machine \
                                 that stays on its host)";

/// The provider's own recommendation, with its address; `None` outside of the known clouds.
pub(super) fn provider(facts: &Document) -> Option<&'static str> {
    Some(match facts.machine.cloud.as_deref()? {
        "ec2_xen" => {
            "this is EC2 on Xen, where AWS recommends tsc (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        "ec2_nitro" => {
            "this is EC2 on Nitro, where AWS recommends kvm-clock \
             (https://repost.aws/knowledge-center/manage-ec2-linux-clock-source)"
        }
        "google" => {
            "this is Google Compute Engine; no recommendation of a clocksource by Google is known (its page on accurate time: \
             https://cloud.google.com/compute/docs/instances/time-synchronization/configure-time-sync)"
        }
        "azure" => {
            "this is Azure; no recommendation of a clocksource by Microsoft is known (its page on time: \
             https://learn.microsoft.com/azure/virtual-machines/linux/time-sync)"
        }
        _ => return None,
    })
}

/// What a customer can do where the provider runs the host.
fn another_type(facts: &Document) -> Option<&'static str> {
    Some(match facts.machine.cloud.as_deref()? {
        "ec2_xen" => "the host is Amazon's: take an instance type on Nitro, where the vDSO reads the clock",
        "ec2_nitro" => {
            "the host is Amazon's: stop and start the instance, which moves it to another host, or take another type"
        }
        "google" => {
            "the host is Google's: take another machine type, or ask its support for an invariant TSC"
        }
        "azure" => {
            "the host is Microsoft's: take another size of the machine, or ask its support for an invariant TSC"
        }
        _ => return None,
    })
}

/// The commands of a fix that begins with what `on_the_host` says; `None` where those are no commands.
pub(super) fn host_steps(fix: &str, facts: &Document) -> Option<Steps> {
    let is_virtualbox = facts.hypervisor() == "virtualbox" && facts.machine.cloud.is_none();
    (is_virtualbox && fix.starts_with(on_the_host(facts)?)).then(steps::virtualbox)
}

/// What the host's administrator can do so that a guest's kernel may trust the TSC. `None` without
/// a known hypervisor.
pub(super) fn on_the_host(facts: &Document) -> Option<&'static str> {
    if let Some(other) = another_type(facts) {
        return Some(other);
    }
    Some(match facts.hypervisor() {
        "virtualbox" => {
            "on the host, with the machine off: VBoxManage modifyvm NAME --paravirtprovider kvm, and VBoxManage \
             setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset"
        }
        "vmware" => VMWARE_AND_KERNEL,
        // QEMU's emulated processors have no invariant TSC (`TCG_APM_FEATURES` in
        // `target/i386/cpu.c`), and the emulation has no `-cpu host`.
        "tcg" => {
            "on the host: run the machine with KVM instead of QEMU's emulation (-accel kvm -cpu host,+invtsc)"
        }
        "kvm" if facts.is_qemu() => QEMU,
        "kvm" => QEMU_OR_OTHERS,
        "firecracker" => "on the host: tsc as its own clocksource",
        "xen" => XEN,
        "hyper_v" => "on the host: a generation and version of the machine that offers the invariant TSC",
        _ => return None,
    })
}

const VMWARE_AND_KERNEL: &str = "in the machine's .vmx: monitor_control.virtual_rdtsc = \"FALSE\" (only for a machine that stays on its host: \
                                 the counter's rate and value change when it is moved); and a kernel with CONFIG_HYPERVISOR_GUEST, which \
                                 trusts VMware about the TSC";

const QEMU: &str = qemu!();

/// CPUID names only KVM, even where another hypervisor is built on it.
pub(super) const QEMU_OR_OTHERS: &str = concat!(
    qemu!(),
    "; if it is not QEMU but another hypervisor on KVM (Firecracker, a cloud's own), ask its administrator for an invariant \
     TSC"
);

/// For firmware that has written to the counters, or left them unsynchronised.
pub(super) const FIRMWARE: &str =
    "update the firmware (BIOS), and switch the machine off and on again, which sets all counters to 0";
