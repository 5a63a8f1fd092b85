//! Findings about the process's rights, the counters, the NTP state, and the settings.

use super::finding::{Finding, Severity};
use super::{fix, log, steps};
use crate::document::Document;
use crate::measure::calls::GETPPID;
use crate::measure::served_by::ServedBy;

/// `PR_SET_TSC`: where the vDSO reads the counter, libc's clocks end the process with SIGSEGV.
pub(super) fn counter_denied(facts: &Document) -> Option<Finding> {
    if facts.machine.counter_readable != Some(false) {
        return None;
    }
    let killed = facts.costs.iter().filter(|row| row.served_by == Some(ServedBy::Nobody)).count();
    let deadly = killed > 0;
    let what = if deadly {
        "this process may not read the counter, and a call of a libc clock ends it with SIGSEGV"
    } else {
        "this process may not read the counter, so nothing in it can use it"
    };
    let severity = if deadly { Severity::Wrong } else { Severity::Note };
    let seen = deadly.then(|| format!("{killed} of the clocks ended the process that called them"));
    Some(
        Finding::new("counter_denied", severity, what)
            .seen("prctl(PR_GET_TSC) says PR_TSC_SIGSEGV")
            .seen_if(seen)
            .fix(
                "find the parent process that calls prctl(PR_SET_TSC, PR_TSC_SIGSEGV), which children inherit; it must call \
                 prctl(PR_SET_TSC, PR_TSC_ENABLE) before it starts the program",
            ),
    )
}

/// Clocksources that are the counter itself, and share its differences between CPUs.
const COUNTERS: [&str; 5] =
    ["tsc", "tsc-early", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];

/// Whether the vDSO computes this clocksource from the counter. It uses one CPU's parameters, where
/// the host guarantees that they hold for all CPUs (`__arch_get_hw_counter` and `vread_pvclock` in
/// `arch/x86/include/asm/vdso/gettimeofday.h`). A system call uses each CPU's own parameters.
fn is_read_by_vdso(name: &str, facts: &Document) -> bool {
    ["kvm-clock", "xen"].contains(&name) && matches!(facts.precise(), Some((_, ServedBy::Vdso)))
}

/// The counters of two CPUs differ.
pub(super) fn counters_unsynchronised(facts: &Document) -> Option<Finding> {
    if !facts.are_unsynchronised() {
        return None;
    }
    let used =
        facts.clocksource().is_some_and(|name| COUNTERS.contains(&name) || is_read_by_vdso(name, facts));
    let what = if used {
        "the counters of two CPUs differ, and the kernel keeps time with them: threads see time step back"
    } else {
        "the counters of two CPUs differ: programs that read them directly see time step back"
    };
    let severity = if used { Severity::Wrong } else { Severity::Note };
    let host = fix::on_the_host(facts).unwrap_or(fix::FIRMWARE);
    let others = facts.machine.available_clocksources.as_deref().unwrap_or_default();
    let is_other = |name: &&str| !COUNTERS.contains(name) && facts.clocksource() != Some(name);
    let other = others.split_whitespace().find(is_other).filter(|_| used);
    let fix = match other {
        Some(other) => format!("{}; then {host}", fix::switch_to(other, facts)),
        None => host.to_owned(),
    };
    let seen = facts.are_unsynchronised_by_clock().then(|| match facts.machine.counters.as_str() {
        // Facts that were written by hand may lack the words.
        "" => "a comparison of the CPUs' counters".to_owned(),
        words => words.to_owned(),
    });
    let forced = facts.parameter("tsc=reliable").then(|| {
        "the kernel's command line has tsc=reliable, so the kernel has not compared the counters".to_owned()
    });
    Some(
        Finding::new("counters_unsynchronised", severity, what)
            .seen_if(seen)
            .seen_if(facts.unsynchronised_pairs())
            .seen_if(forced)
            .fix(fix)
            .steps(other.and_then(|other| steps::switch(other, facts))),
    )
}

/// Reading the counter takes longer than a system call that reads no clock. Only an emulated
/// instruction is that slow.
pub(super) fn counter_trapped(facts: &Document) -> Option<Finding> {
    let ((name, counter), call) = (facts.counter()?, facts.cost_ns(GETPPID)?);
    if counter <= call {
        return None;
    }
    // On Arm, Linux itself may trap the instruction, to work around an erratum
    // (`drivers/clocksource/arm_arch_timer.c`).
    let arm = name == "cntvct_el0";
    let who = if arm { "kernel or hypervisor" } else { "the hypervisor" };
    let what = format!("reading the counter takes longer than a system call: {who} emulates the instruction");
    let fix = match facts.hypervisor() {
        _ if arm => {
            "see whether the kernel works around an erratum of the counter (dmesg | grep -i erratum); if so, only another \
             processor helps"
        }
        "virtualbox" => "on the host: VBoxManage setextradata NAME VBoxInternal/TM/TSCMode RealTSCOffset",
        "vmware" => fix::VMWARE,
        "xen" => {
            "on the host: tsc_mode=\"default\" in the domain's configuration, with which Xen emulates the counter only where that of \
             the host has another rate than the one that the domain was started with; tsc_mode=\"native\" never emulates, but \
             only for a domain with nomigrate=1, because the counter's rate and value change when it is moved"
        }
        _ => {
            "on the host: a processor that scales the guest's TSC (tsc_scaling, or VMX TSC scaling), or a guest that was not \
             moved from a host with another frequency"
        }
    };
    let seen =
        format!("{name} takes {counter:.0} ns, a system call that reads no clock (getppid) {call:.0} ns");
    let clock = facts.precise_ns().zip(facts.precise());
    let clock = clock.map(|(ns, (clock, _))| format!("{clock}, which reads the counter, takes {ns:.0} ns"));
    Some(Finding::new("counter_trapped", Severity::Slow, what).seen(seen).seen_if(clock).fix(fix))
}

/// CPUID does not say that the counter runs at one rate.
pub(super) fn not_invariant(facts: &Document) -> Option<Finding> {
    if facts.invariant()? {
        return None;
    }
    let what = "CPUID does not say that the counter runs at one rate in all power states";
    let seen = "CPUID 8000_0007h, EDX bit 8 is 0";
    Some(
        Finding::new("counter_not_invariant", Severity::Note, what).seen(seen).fix(fix::invariant_tsc(facts)),
    )
}

/// Largest plausible difference between the measured and the nominal frequency, ppm: that of the
/// gate `plausible`.
const PLAUSIBLE_PPM: u64 = 5_000;

/// The measured frequency differs from the nominal one.
pub(super) fn frequency_implausible(facts: &Document) -> Option<Finding> {
    let (named, measured) = (facts.clock.nominal_frequency_hz?, facts.clock.frequency_hz?);
    if named.abs_diff(measured) <= named / 1_000_000 * PLAUSIBLE_PPM {
        return None;
    }
    let what = "the counter's frequency differs from the nominal one, which processor or hypervisor report";
    Some(
        Finding::new("frequency_implausible", Severity::Note, what)
            .seen(format!("nominal {named} Hz, measured {measured} Hz against CLOCK_MONOTONIC"))
            .fix(
                "see whether the kernel has calibrated the counter wrongly (dmesg | grep -i 'tsc:'; compare after a restart), or \
                 the guest was moved to a host with another frequency (restart the guest)",
            ),
    )
}

/// Firmware writes to the TSC.
pub(super) fn firmware_writes_tsc(facts: &Document) -> Option<Finding> {
    let lines = log::firmware_writes_tsc(facts.machine.kernel_log.as_deref()?);
    let first = (*lines.first()?).clone();
    let what = format!(
        "the firmware writes to the counter of a CPU; the kernel has undone that {} times",
        lines.len()
    );
    Some(Finding::new("firmware_writes_tsc", Severity::Note, what).seen(first).fix(fix::FIRMWARE))
}

/// `TICKLINE=off`.
pub(super) fn switched_off(facts: &Document) -> Option<Finding> {
    if facts.reason.as_deref() != Some("switched_off") {
        return None;
    }
    let what = "the user has switched off the counter for tickline";
    let seen = "the environment variable TICKLINE is off";
    Some(Finding::new("switched_off", Severity::Note, what).seen(seen).fix("unset TICKLINE"))
}

/// `TICKLINE` is neither `on` nor `off`.
pub(super) fn environment_unrecognised(facts: &Document) -> Option<Finding> {
    if !facts.clock.environment_unrecognised {
        return None;
    }
    let what = "the environment variable TICKLINE has a value that is ignored";
    let seen = "TICKLINE is neither on nor off";
    Some(Finding::new("environment_unrecognised", Severity::Note, what).seen(seen).fix("unset TICKLINE"))
}

/// Largest lasting correction of a clock's rate, ppb: crystals are off by 100 ppm at most. A
/// larger one comes from an NTP daemon that slews, or from a wrong frequency of the counter.
const CRYSTAL_PPB: i64 = 100_000;

/// The kernel corrects its clock's rate by more than any crystal needs.
pub(super) fn ntp_slewing(facts: &Document) -> Option<Finding> {
    let ntp = facts.machine.ntp.as_ref()?;
    // One microsecond more or less in a hundredth of a second is 100 ppm.
    let rate_ppb =
        ntp.frequency_ppb.saturating_add(ntp.tick_us.saturating_sub(10_000).saturating_mul(100_000));
    if rate_ppb.saturating_abs() <= CRYSTAL_PPB {
        return None;
    }
    let what = "the kernel's clocks are corrected by more than a crystal needs: an NTP daemon slews them, or the kernel uses a \
                wrong frequency of the counter";
    Some(
        Finding::new("ntp_slewing", Severity::Note, what)
            .seen(format!("adjtimex: rate corrected by {rate_ppb} ppb (tick {} us)", ntp.tick_us))
            .fix("wait until the NTP daemon has removed the offset (chronyc tracking, ntpq -p); if the correction stays, check the kernel's frequency of the counter: dmesg | grep -i 'tsc:'"),
    )
}

/// The largest error that the kernel claims for its clock, us (`NTP_PHASE_LIMIT`,
/// `include/linux/timex.h`). The kernel starts with this claim. An NTP daemon sets a smaller one,
/// which the kernel lets grow by 500 ppm. A smaller claim is therefore a daemon's, and some hours
/// old at most.
const NTP_LIMIT_US: i64 = 16_000_000;

/// The kernel does not call Unix time synchronised. chronyd clears STA_UNSYNC only with `rtcsync`
/// (chrony.conf(5); `set_sync_status` in chrony's `sys_timex.c`), but it always states its error.
pub(super) fn ntp_unsynchronised(facts: &Document) -> Option<Finding> {
    let ntp = facts.machine.ntp.as_ref().filter(|ntp| !ntp.synchronised)?;
    let flag = "adjtimex: STA_UNSYNC is set";
    if ntp.maximum_error_us < NTP_LIMIT_US {
        let what =
            "the kernel's flag says that Unix time is not synchronised to UTC, but a daemon states its error";
        let seen = format!("adjtimex: maxerror is {} us", ntp.maximum_error_us);
        return Some(
            Finding::new("ntp_flag", Severity::Note, what)
                .seen(flag)
                .seen(seen)
                .fix("see what the daemon says: chronyc tracking; with `rtcsync` in its chrony.conf, chronyd clears the flag"),
        );
    }
    let what = "the kernel knows of no NTP daemon that keeps Unix time near UTC";
    let seen = format!("{flag}, and maxerror is {} us, at the kernel's limit", ntp.maximum_error_us);
    Some(
        Finding::new("ntp_unsynchronised", Severity::Note, what)
            .seen(seen)
            .fix("run an NTP daemon: sudo timedatectl set-ntp true, or chronyd")
            .steps(Some(steps::setting("sudo timedatectl set-ntp true", "sudo timedatectl set-ntp false"))),
    )
}
