//! Why the clocks are slow: the kernel's clocksource, and whether the vDSO can read it.

use super::finding::{Finding, Severity};
use super::fix;
use super::log::Blame;
use super::steps;
use crate::document::Document;
use crate::measure::served_by::ServedBy;

/// Clocksources that are slow or coarse, even if the vDSO answers: hardware behind a bus, or the
/// timer tick.
const SLOW: [&str; 6] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "pmtmr"];

/// Clocksources that every vDSO of their architecture can read.
const FAST: [&str; 5] =
    ["tsc", "tsc-early", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];

const COARSE_BY_VDSO: &str = "the vDSO answers clock_gettime MONOTONIC_COARSE, so it is in use";

const LOG_UNREADABLE: &str = "the kernel's log, which says why, may not be read by this user";

/// At most one finding: the deepest cause with evidence. A clocksource in `SLOW` is a finding
/// whoever answers. Any other is one only if a system call answers, or if its name is unreadable.
pub(super) fn slow(facts: &Document) -> Option<Finding> {
    let current = facts.clocksource();
    let served = facts.precise();
    let is_slow = current.is_some_and(|name| SLOW.contains(&name));
    let by_call = matches!(served, Some((_, ServedBy::SystemCall)));
    if !is_slow && !by_call {
        return unknown(facts);
    }
    let bypassed = if is_slow { None } else { bypassed(facts) };
    let finding = match (bypassed, current) {
        _ if facts.machine.vsyscall64 == Some(0) => vsyscall64(),
        (Some(finding), _) => finding,
        (None, current) => by_clocksource(current, facts),
    };
    let host = if finding.steps.is_none() { fix::host_steps(&finding.fix, facts) } else { None };
    let finding = if host.is_some() { finding.steps(host) } else { finding };
    let asked =
        served.filter(|_| by_call).map(|(clock, _)| format!("a system call answers {clock}, not the vDSO"));
    let finding = finding.seen_if(asked).seen_if(fix::provider(facts).map(str::to_owned));
    Some(match facts.precise_ns().zip(facts.attainable_ns()) {
        // A smaller ratio may be an error of the measurement.
        Some((now, then)) if now > DEARER * then => {
            let seen =
                format!("it takes {now:.0} ns; coarse clock plus counter read, {then:.0} ns, is attainable");
            let gain_ratio = (!fix::is_none(&finding.fix)).then_some(now / then);
            Finding { gain_ratio, ..finding.seen(seen) }
        }
        _ => finding,
    })
}

/// The least ratio of two costs that counts. A smaller one may be an error of the measurement.
const DEARER: f64 = 1.5;

/// The vDSO reads the hypervisor's clock, which takes longer than the TSC would. The vDSO must also
/// check whether the hypervisor has changed the parameters meanwhile (`vread_pvclock`).
pub(super) fn paravirtual_dearer(facts: &Document) -> Option<Finding> {
    let name = facts.clocksource().filter(|name| ["kvm-clock", "xen"].contains(name))?;
    let by_vdso = matches!(facts.precise(), Some((_, ServedBy::Vdso)));
    let (now_ns, then_ns) = facts.precise_ns().zip(facts.attainable_ns())?;
    if !by_vdso
        || now_ns <= DEARER * then_ns
        || facts.accepts_tsc() != Some(true)
        || facts.are_unsynchronised()
    {
        return None;
    }
    let fix = fix::use_tsc_of_doubtful_host(facts);
    let gain_ratio = (!fix::is_none(&fix)).then_some(now_ns / then_ns);
    let what = format!("the vDSO reads {name}, which takes longer than the TSC would");
    let finding = Finding::new("paravirtual_clock_dearer", Severity::Note, what)
        .seen(keeps(name))
        .seen("available_clocksource has tsc")
        .seen(format!(
            "a call takes {now_ns:.0} ns; coarse clock plus counter read, {then_ns:.0} ns, is attainable"
        ))
        .seen_if(fix::provider(facts).map(str::to_owned))
        .fix(fix)
        .steps(fix::tsc_steps(facts));
    Some(Finding { gain_ratio, ..finding })
}

fn by_clocksource(current: Option<&str>, facts: &Document) -> Finding {
    match current {
        Some(name) if FAST.contains(&name) => unused(name, facts),
        Some("kvm-clock") => kvm_clock(facts),
        Some("xen") => xen(facts),
        Some(name @ ("hyperv_clocksource_msr" | "hyperv_clocksource")) => hyperv(name, facts),
        Some(name) if facts.is_x86() => without_tsc(name, facts),
        Some(name) => not_read(name),
        None => unexplained(facts),
    }
}

fn keeps(name: &str) -> String {
    format!("current_clocksource is {name}")
}

/// The name of the clocksource is unreadable. While nothing is slow, that is only worth knowing.
fn unknown(facts: &Document) -> Option<Finding> {
    // Without a kernel's release nothing is known, or the system is not Linux.
    if facts.clocksource().is_some() || facts.machine.kernel.is_none() {
        return None;
    }
    let what = "the name of the kernel's clocksource is unreadable";
    let served = match facts.precise() {
        Some((clock, ServedBy::Vdso)) => Some(format!("the vDSO answers {clock} all the same")),
        _ => None,
    };
    Some(masked(Finding::new("clocksource_unknown", Severity::Note, what)).seen_if(served))
}

fn masked(finding: Finding) -> Finding {
    let place = crate::machine::CLOCKSOURCE;
    finding.seen(format!("{place}/current_clocksource cannot be read")).fix(
        "give the container the host's /sys, read-only, or run this outside: mount -t sysfs -o ro sysfs /sys",
    )
}

fn unexplained(facts: &Document) -> Finding {
    let what = match facts.hypervisor() {
        "gvisor" => "each call for the time is a call into gVisor, which hides the host's clocksource",
        _ => {
            "each call for the time is a system call, and the name of the kernel's clocksource is unreadable"
        }
    };
    masked(Finding::new("clocksource_unknown", Severity::Slow, what))
}

fn vsyscall64() -> Finding {
    let what = "a setting of the kernel makes each call for the time a system call";
    Finding::new("vsyscall64_off", Severity::Slow, what)
        .seen("/proc/sys/kernel/vsyscall64 is 0")
        .fix("sudo sysctl -w kernel.vsyscall64=1 (2 is as fast, with a resolution of ms); to keep it, the same in /etc/sysctl.conf")
        .steps(Some(steps::setting("sudo sysctl -w kernel.vsyscall64=1", "sudo sysctl -w kernel.vsyscall64=0")))
}

/// The process does not use the vDSO. That can't be the cause where the vDSO answers the coarse
/// clock.
fn bypassed(facts: &Document) -> Option<Finding> {
    let coarse = facts.coarse();
    if coarse == Some(ServedBy::Vdso) {
        return None;
    }
    let off = "the vDSO is switched off, so each call for the time is a system call";
    // `Documentation/admin-guide/kernel-parameters.txt`: `vdso32=0` applies to 32-bit processes.
    let words = ["vdso=0", "vdso32=0"].into_iter().filter(|word| *word == "vdso=0" || facts.is_x86_32());
    // A vDSO that is mapped all the same is not off.
    let word = words.into_iter().find(|word| facts.parameter(word));
    if let Some(word) = word.filter(|_| facts.machine.vdso_mapped != Some(true)) {
        return Some(
            Finding::new("vdso_off", Severity::Slow, off)
                .seen(format!("the kernel's command line has {word}"))
                .fix(format!("take `{word}` off the kernel's command line"))
                .steps(Some(steps::take_off(word))),
        );
    }
    // An unknown clocksource may be slow by itself. Where the vDSO cannot read a counter, a kernel
    // for 32-bit Arm takes every clock out of the vDSO (PLATFORM.md).
    let name = facts.clocksource().filter(|_| facts.machine.architecture.as_deref() != Some("arm"))?;
    let what = "this process does not use the vDSO, so each call for the time is a system call";
    let seen = "a system call answers clock_gettime MONOTONIC_COARSE, which a vDSO in use answers with any clocksource";
    let unused = Finding::new("vdso_unused", Severity::Slow, what).seen(keeps(name)).seen(seen);
    (coarse == Some(ServedBy::SystemCall)).then(|| unused.seen_if(mapped(facts)).fix(BETWEEN))
}

/// The vDSO can read the clocksource, but does not answer.
fn unused(name: &str, facts: &Document) -> Finding {
    let what = format!("the kernel keeps time with {name}, which the vDSO can read, but does not here");
    let finding = Finding::new("vdso_unused", Severity::Slow, what).seen(keeps(name));
    let unable = "a kernel too old for its vDSO to read that clocksource, or on Arm, a counter with an erratum (dmesg | grep -i \
                  erratum)";
    match facts.coarse() {
        // The vDSO is in use, so nothing stands between it and the process.
        Some(ServedBy::Vdso) => finding.seen(COARSE_BY_VDSO).fix(format!("look for {unable}")),
        _ => finding.seen_if(mapped(facts)).fix(format!("{BETWEEN}; {unable}")),
    }
}

/// What may stand between a process and its vDSO.
const BETWEEN: &str = "look for what stands between program and vDSO: an interposed libc (LD_PRELOAD), a recorder or debugger \
                       (rr, valgrind), a sandbox, a libc without vDSO";

fn mapped(facts: &Document) -> Option<String> {
    Some(match facts.machine.vdso_mapped? {
        false => "/proc/self/maps has no [vdso]".to_owned(),
        true => "/proc/self/maps has a [vdso], so the callers bypass it".to_owned(),
    })
}

fn kvm_clock(facts: &Document) -> Finding {
    const NO_VSYSCALL: &str = "no-kvmclock-vsyscall";
    if facts.parameter(NO_VSYSCALL) {
        return Finding::new(
            "vdso_off",
            Severity::Slow,
            "the kernel's command line keeps kvm-clock from the vDSO",
        )
        .seen(keeps("kvm-clock"))
        .seen(format!("the kernel's command line has {NO_VSYSCALL}"))
        .fix(format!("take `{NO_VSYSCALL}` off the kernel's command line"))
        .steps(Some(steps::take_off(NO_VSYSCALL)));
    }
    // A 64-bit vDSO that is in use reads kvm-clock if the host sets PVCLOCK_TSC_STABLE_BIT
    // (PLATFORM.md).
    let (what, used) = match facts.coarse().filter(|_| !facts.is_x86_32()) {
        Some(ServedBy::Vdso) => (
            "the vDSO cannot read kvm-clock here: the host does not guarantee a stable TSC (PVCLOCK_TSC_STABLE_BIT)",
            Some(COARSE_BY_VDSO.to_owned()),
        ),
        _ => (
            "the kernel keeps time with kvm-clock, which the vDSO does not read here; usually the host does not guarantee a \
             stable TSC",
            None,
        ),
    };
    let finding = Finding::new("kvm_clock_unstable", Severity::Slow, what)
        .seen(keeps("kvm-clock"))
        .seen_if(used)
        .seen_all(rejection(facts));
    if facts.accepts_tsc() == Some(true) && !facts.are_unsynchronised() {
        return finding
            .seen("available_clocksource has tsc")
            .fix(fix::use_tsc_of_doubtful_host(facts))
            .steps(fix::tsc_steps(facts));
    }
    let host = fix::on_the_host(facts).unwrap_or(fix::QEMU_OR_OTHERS);
    finding.fix(format!(
        "{host}; the host's kernel must not have marked its TSC unstable; after that the guest may use tsc itself"
    ))
}

fn xen(facts: &Document) -> Finding {
    let what = "the kernel keeps time with xen's clock, which the vDSO cannot read here";
    let finding = Finding::new("xen_clocksource", Severity::Slow, what).seen(keeps("xen"));
    if facts.are_unsynchronised() {
        return finding.fix(fix::none("the counters are unsynchronised; use another type of instance"));
    }
    let finding = finding.seen_all(rejection(facts));
    if facts.accepts_tsc() == Some(true) {
        return finding
            .seen("available_clocksource has tsc")
            .fix(fix::use_tsc_of_doubtful_host(facts))
            .steps(fix::tsc_steps(facts));
    }
    if facts.blame().is_some() || facts.lists_tsc() {
        return finding.fix(given_up(&blame(facts), facts));
    }
    finding.fix(match (facts.accepts_tsc(), facts.invariant()) {
        (_, Some(false)) => fix::on_the_host_or_trust_tsc(facts),
        (None, _) => {
            let (place, then) = (crate::machine::CLOCKSOURCE, fix::use_tsc_of_doubtful_host(facts));
            format!("see what it would accept: cat {place}/available_clocksource; if tsc is there, {then}")
        }
        _ => fix::trust_tsc(facts),
    })
}

fn hyperv(name: &str, facts: &Document) -> Finding {
    let what = "each call for the time is a call of Hyper-V: the host offers no page with the TSC's rate";
    let finding = Finding::new("hyperv_without_page", Severity::Slow, what).seen(keeps(name));
    let finding = finding.seen_all(rejection(facts));
    match facts.accepts_tsc() {
        Some(true) if !facts.are_unsynchronised() => {
            finding.seen("available_clocksource has tsc").fix(fix::use_tsc(facts)).steps(fix::tsc_steps(facts))
        }
        _ => finding.fix(
            "a host that offers the reference TSC page (privilege AccessPartitionReferenceTsc), and a kernel with \
             CONFIG_HYPERV_TIMER: the clocksource is then hyperv_clocksource_tsc_page, which the vDSO reads",
        ),
    }
}

fn not_read(name: &str) -> Finding {
    let what = format!("the kernel keeps time with {name}, which the vDSO does not read");
    Finding::new("clocksource_slow", Severity::Slow, what)
        .seen(keeps(name))
        .fix("describe the CPU's own counter in the device tree or ACPI, so that the kernel uses it")
}

/// An x86 machine whose clocksource is not the TSC.
fn without_tsc(name: &str, facts: &Document) -> Finding {
    let slow = |code, what: String| Finding::new(code, Severity::Slow, what).seen(keeps(name));
    if facts.accepts_tsc() == Some(true) {
        let finding =
            slow("tsc_not_chosen", format!("the kernel keeps time with {name}, though it would accept tsc"))
                .seen("available_clocksource has tsc")
                .seen_if(
                    facts
                        .parameter_of("clocksource=")
                        .map(|word| format!("the kernel's command line has {word}")),
                );
        return if facts.are_unsynchronised() {
            finding.fix(fix::none("the counters are unsynchronised"))
        } else {
            finding.fix(fix::use_tsc(facts)).steps(fix::tsc_steps(facts))
        };
    }
    if let Some(word) = ["notsc", "tsc=unstable"].into_iter().find(|word| facts.parameter(word)) {
        return slow(
            "tsc_switched_off",
            format!("the kernel's command line switches the TSC off, and the kernel keeps time with {name}"),
        )
        .seen(format!("the kernel's command line has {word}"))
        .fix(take_off(word, facts))
        .steps(may_take_off(facts).then(|| steps::take_off(word)));
    }
    let offered = facts.machine.available_clocksources.as_deref();
    let missing = offered.map(|list| match facts.lists_tsc() {
        true => format!("available_clocksource has tsc, but the kernel has rejected it: {list}"),
        false => format!("available_clocksource has no tsc: {list}"),
    });
    let log = facts.machine.kernel_log.as_deref();
    let Some((blame, lines)) = facts.blame() else {
        let then = match facts.lists_tsc() {
            true => given_up(&Blame::Watchdog, facts),
            false => not_offered(facts),
        };
        let (why, then) = match log {
            Some(_) => ("the kernel's log does not say why (any more)", then),
            // There is no fix, whatever the log says.
            None if fix::is_none(&then) => (LOG_UNREADABLE, then),
            None => {
                (LOG_UNREADABLE, format!("read why: sudo dmesg | grep -iE 'tsc|clocksource'; then {then}"))
            }
        };
        let Some(missing) = missing else { return offer_unknown(name, facts, &then) };
        let (code, what) = match facts.lists_tsc() {
            true => (
                "tsc_unstable",
                format!("the kernel has marked the TSC unstable, and keeps time with {name}"),
            ),
            false => ("tsc_missing", format!("the kernel does not offer tsc, and keeps time with {name}")),
        };
        return slow(code, what).seen(missing).seen(why).fix(then);
    };
    let (code, why) = match &blame {
        Blame::Warp => ("tsc_warp", "saw the counters of two CPUs differ".to_owned()),
        Blame::Skew => ("tsc_skew", "saw the TSC's rate differ from another clock's".to_owned()),
        Blame::Delay => (
            "tsc_watchdog_delay",
            "could not read its clocks fast enough to compare the TSC with another one".to_owned(),
        ),
        Blame::Watchdog => (
            "tsc_watchdog",
            "could not confirm the TSC's rate by another clock, and its log does not say why (any more)"
                .to_owned(),
        ),
        Blame::Unsynchronised => {
            ("tsc_unsynchronised", "has no guarantee that the TSCs of several CPUs agree".to_owned())
        }
        Blame::HaltsInIdle => ("tsc_halts", "found that the TSC stops when a CPU sleeps".to_owned()),
        Blame::Parameter => ("tsc_switched_off", "has a parameter that calls the TSC unstable".to_owned()),
        Blame::Other(reason) => ("tsc_unstable", format!("rejected the TSC: {reason}")),
    };
    let mut finding = slow(code, format!("the kernel {why}, and keeps time with {name}")).seen_if(missing);
    finding.evidence.extend(lines);
    // The kernel's verdict is as old as its message.
    let today = facts.counters();
    if !today.is_empty() {
        finding.evidence.push(format!("the counters today: {today}"));
    }
    finding.fix(given_up(&blame, facts))
}

/// The kernel's messages about its rejection of the TSC. If there is none, the place of the TSC on
/// the list of clocksources may show the rejection.
fn rejection(facts: &Document) -> Vec<String> {
    match facts.blame() {
        Some((_, lines)) => lines,
        None if facts.lists_tsc() && facts.accepts_tsc() == Some(false) => {
            vec!["available_clocksource has tsc at its end, where the kernel puts one that it has marked unstable".to_owned()]
        }
        None => Vec::new(),
    }
}

/// Why the kernel has rejected the TSC. Without a message it was probably the watchdog, since the
/// kernel had registered the TSC before it rejected it.
fn blame(facts: &Document) -> Blame {
    facts.blame().map_or(Blame::Watchdog, |(blame, _)| blame)
}

/// What to do about a TSC that the kernel does not offer, for an unknown reason.
fn not_offered(facts: &Document) -> String {
    match fix::on_the_host(facts) {
        Some(host) => host.to_owned(),
        None if facts.are_unsynchronised() => fix::FIRMWARE.to_owned(),
        None => fix::trust_tsc(facts),
    }
}

/// The clocksource is slow, and it is unknown which others the kernel accepts. `then` is the fix if
/// the kernel rejects the TSC.
fn offer_unknown(name: &str, facts: &Document, then: &str) -> Finding {
    let what = format!("the kernel keeps time with {name}, and it is not known whether it would accept tsc");
    let finding = Finding::new("clocksource_slow", Severity::Slow, what).seen(keeps(name));
    if facts.are_unsynchronised() || facts.invariant() == Some(false) {
        return finding.fix(then);
    }
    let (place, switch) = (crate::machine::CLOCKSOURCE, fix::use_tsc(facts));
    finding.fix(format!(
        "see what it would accept: cat {place}/available_clocksource; if tsc is there, {switch}; if not, {then}"
    ))
}

/// What to do about a TSC that the kernel has rejected.
fn given_up(blame: &Blame, facts: &Document) -> String {
    match blame {
        // The kernel is probably right.
        _ if facts.are_unsynchronised() => fix::on_the_host(facts).unwrap_or(fix::FIRMWARE).to_owned(),
        Blame::Warp if fix::on_the_host(facts).is_none() => fix::FIRMWARE.to_owned(),
        Blame::Skew | Blame::Watchdog => fix::check_tsc(facts),
        Blame::Delay => fix::on_the_host_or_no_watchdog(facts),
        Blame::Warp | Blame::Unsynchronised | Blame::Other(_) => fix::on_the_host_or_trust_tsc(facts),
        // Only one of the two idle drivers is in use. Each has its own parameter.
        Blame::HaltsInIdle => {
            "boot with processor.max_cstate=1 intel_idle.max_cstate=1, which costs power; the TSC of newer processors does not \
             stop"
                .to_owned()
        }
        Blame::Parameter => take_off("tsc=unstable", facts),
    }
}

/// Whether the TSC is good enough for a kernel that is told to use it.
fn may_take_off(facts: &Document) -> bool {
    !facts.are_unsynchronised() && facts.invariant() != Some(false)
}

/// What to do about a parameter that keeps the kernel from the TSC. Where the TSC is bad, the
/// parameter stays.
fn take_off(word: &str, facts: &Document) -> String {
    if facts.are_unsynchronised() {
        return fix::on_the_host(facts).unwrap_or(fix::FIRMWARE).to_owned();
    }
    if facts.invariant() == Some(false) {
        return fix::invariant_tsc(facts);
    }
    format!("take `{word}` off the kernel's command line")
}
