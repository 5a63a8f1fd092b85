//! What to do: commands, parameters of the kernel, settings of hypervisors.

use super::facts::Facts;
use crate::machine::CLOCKSOURCE;

/// Caveat of telling the kernel to trust the TSC.
const CAVEAT: &str = "this switches off the kernel's own tests of the TSC: only where the counters of all CPUs are in \
                      step, and the machine is not moved to another host";

/// What QEMU has to be told.
macro_rules! qemu {
    () => {
        "on the host: QEMU with -cpu host,+invtsc (libvirt: <cpu mode='host-passthrough'> with <feature policy='require' \
         name='invtsc'/>), and tsc as the host's own clocksource"
    };
}

/// How a fix begins where there is none: nothing can be gained there either.
const NONE: &str = "none: ";

/// There is nothing to be done here, for this reason.
pub(super) fn none(why: &str) -> String {
    format!("{NONE}{why}")
}

/// Whether this is no fix, but the reason why there is none.
pub(super) fn is_none(fix: &str) -> bool {
    fix.starts_with(NONE)
}

/// Has the kernel use another clocksource, which it offers, now and after a restart.
pub(super) fn switch_to(clocksource: &str, facts: &Facts) -> String {
    let now = format!("echo {clocksource} | sudo tee {CLOCKSOURCE}/current_clocksource");
    let chosen = facts
        .parameter_of("clocksource=")
        .filter(|word| word.strip_prefix("clocksource=") != Some(clocksource));
    match chosen {
        // Without the word, the kernel would choose by its own preferences.
        Some(word) => format!("{now}; to keep it, boot with clocksource={clocksource} instead of `{word}`"),
        None => format!("{now}; to keep it, boot with clocksource={clocksource}"),
    }
}

/// Has the kernel use the TSC, which it accepts. That is no word for its rate: CPUID may have said otherwise.
pub(super) fn use_tsc(facts: &Facts) -> String {
    let switch = switch_to("tsc", facts);
    if facts.invariant() != Some(false) {
        return switch;
    }
    let fix = invariant_tsc(facts);
    if is_none(&fix) {
        return fix;
    }
    format!(
        "{fix}; or, as CPUID does not call the TSC invariant, only where the host's processors are known to keep their TSC \
         at one rate, `tickline warp` finds the counters in step, and the machine is not moved to another host: {switch}"
    )
}

/// The same where the clock in use shows that the host does not vouch for the TSC.
pub(super) fn use_tsc_of_doubtful_host(facts: &Facts) -> String {
    let fix = use_tsc(facts);
    // The first names that condition already, among others.
    if facts.invariant() == Some(false) || facts.in_step() {
        return fix;
    }
    format!("where `tickline warp` finds the counters in step, for which the host does not vouch: {fix}")
}

/// A TSC that CPUID calls invariant: from the host, if there is one.
pub(super) fn invariant_tsc(facts: &Facts) -> String {
    match on_the_host(facts) {
        Some(host) => host.to_owned(),
        None if facts.is_guest() => {
            "on the host: have the hypervisor show the guest the processor's invariant TSC".to_owned()
        }
        None => none("the processor has no invariant TSC; leave the choice of clocksource to the kernel"),
    }
}

/// Has the kernel trust the TSC although it has doubts. They are right where the TSC's rate depends on power states.
pub(super) fn trust_tsc(facts: &Facts) -> String {
    match facts.invariant() {
        Some(false) => {
            none("the TSC is not invariant, as far as CPUID says, so the kernel's doubts are right")
        }
        _ => format!("boot with tsc=reliable clocksource=tsc (kernel 3.3 or later); {CAVEAT}"),
    }
}

/// A TSC of which the kernel has seen that its rate was another one, or may have. Its watchdog's limits are some 100 ppm and
/// more (`kernel/time/clocksource.c`), which `tickline warp` can still tell beside an hpet of 700 ns, over `RATE_TIME`.
pub(super) fn check_tsc(facts: &Facts) -> String {
    if facts.invariant() == Some(false) {
        return on_the_host_or_trust_tsc(facts);
    }
    let check = "the kernel may be right: see whether the counter keeps one rate (`tickline warp` names it: the same to 100 \
                 ppm when idle, under load, and hours later, while NTP slews nothing; a single jump does not show there)";
    let place = on_the_host(facts).unwrap_or(FIRMWARE);
    format!("{check}; {place}; only if the rate is steady then: {}", trust_tsc(facts))
}

/// What can be done on the host; or else, where that may be right, in the kernel.
pub(super) fn on_the_host_or_trust_tsc(facts: &Facts) -> String {
    match (on_the_host(facts), facts.invariant()) {
        (Some(host), Some(false)) => host.to_owned(),
        (Some(host), _) => format!("{host}; or {}", trust_tsc(facts)),
        (None, _) => trust_tsc(facts),
    }
}

/// What the administrator of the host can do so that a guest's kernel may trust the TSC. `None` where nobody is known to be
/// below.
pub(super) fn on_the_host(facts: &Facts) -> Option<&'static str> {
    Some(match facts.hypervisor() {
        "virtualbox" => {
            "on the host, with the machine off: VBoxManage modifyvm NAME --paravirtprovider kvm, and VBoxManage \
             setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset"
        }
        "vmware" => {
            "in the machine's .vmx: monitor_control.virtual_rdtsc = \"FALSE\" (only for a machine that is not moved to another \
             host); and a kernel with CONFIG_HYPERVISOR_GUEST, \
             which takes VMware's word for the TSC"
        }
        // Its processors have no invariant TSC (`TCG_APM_FEATURES` in `target/i386/cpu.c`), and no `-cpu host`.
        "tcg" => {
            "on the host: run the machine with KVM instead of QEMU's emulation (-accel kvm -cpu host,+invtsc)"
        }
        "kvm" if facts.is_qemu() => QEMU,
        "kvm" => QEMU_OR_OTHERS,
        "firecracker" => "on the host: tsc as its own clocksource",
        "xen" => "on the host: tsc_mode=\"native\" in the domain's configuration",
        "hyper_v" => "on the host: a generation and version of the machine that offers the invariant TSC",
        _ => return None,
    })
}

const QEMU: &str = qemu!();

/// CPUID names KVM alone, whatever is built on it.
pub(super) const QEMU_OR_OTHERS: &str = concat!(
    qemu!(),
    "; if it is not QEMU but something else that is built on KVM (Firecracker, a cloud's own), ask its administrator for an \
     invariant TSC"
);

/// Firmware has left the counters of CPUs apart, or has touched them.
pub(super) const FIRMWARE: &str =
    "update the firmware (BIOS), and switch the machine off and on again, which sets all counters to 0";
