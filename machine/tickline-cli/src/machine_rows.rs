//! Describes a document's machine in words, as rows for `doctor` and for the report.

use crate::cpu_list;
use crate::document::{ClockStatus, Document};
use crate::float::{as_f64, signed_f64};
use crate::machine::{
    Channel, Cpuid, HostClock, Machine, Ntp, NtpDaemon, Ptp4l, TimeNamespace, VmClock,
};
use crate::utc_unknown;
use crate::words::{UNKNOWN, frequency, grouped, plain, rate, source_name, time};

/// The name of each row, and its text.
pub(crate) fn machine_rows(document: &Document) -> Vec<(&'static str, String)> {
    let machine = &document.machine;
    let clock = &document.clock;
    vec![
        ("CPU", text(&machine.cpu)),
        ("product", product(machine)),
        ("kernel", text(&machine.kernel)),
        ("command line", command_line(document)),
        ("boot loader", text(&machine.boot_loader)),
        ("clocksource", clocksource(machine)),
        ("hypervisor", hypervisor(machine)),
        ("container", container(machine)),
        ("counter", counter(clock, document.recorded_nominal_hz())),
        ("host clock", host_clock(document.host_clock.as_ref())),
        ("counters", text(&Some(document.counters_in_words()))),
        ("CPUID", cpuid(machine.cpuid.as_ref())),
        ("rights", rights(machine)),
        ("CPUs", cpus(machine)),
        ("namespace", namespace(machine.time_namespace.as_ref())),
        ("VMClock", vmclock(machine.vmclock.as_ref())),
        ("NTP", ntp(document)),
        ("NTP daemon", ntp_daemon(machine)),
        ("ptp4l", ptp4l(machine.ptp4l.as_ref())),
        ("UTC", utc(clock)),
        ("page", page(machine)),
        ("clock", clock_row(clock)),
        ("kernel log", kernel_log(machine)),
    ]
}

/// The known parts of a row; a row without any is unknown.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    let known: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    if known.is_empty() {
        UNKNOWN.to_owned()
    } else {
        known.join(", ")
    }
}

/// A fact that is a text already.
fn text(fact: &Option<String>) -> String {
    joined([fact.as_deref().map(plain)])
}

/// One of two texts; `None` if the fact is unknown.
fn either(fact: Option<bool>, yes: &str, no: &str) -> Option<String> {
    fact.map(|is_so| if is_so { yes } else { no }.to_owned())
}

fn product(machine: &Machine) -> String {
    let cloud = machine.cloud.as_ref();
    joined([
        machine.product.as_deref().map(plain),
        cloud.map(|cloud| format!("cloud {}", plain(&cloud.to_string()))),
    ])
}

fn container(machine: &Machine) -> String {
    machine
        .container
        .as_deref()
        .map_or_else(|| "none is seen".to_owned(), plain)
}

fn hypervisor(machine: &Machine) -> String {
    let name = machine.hypervisor.as_ref();
    joined([
        name.map(|name| plain(&name.to_string())),
        machine.is_xen_dom0().then(|| "Xen's dom0".to_owned()),
    ])
}

/// The parameters of the kernel's command line that concern clocks; the JSON has the whole line.
fn command_line(document: &Document) -> String {
    const TOPICS: [&str; 9] = [
        "tsc",
        "clocksource",
        "hpet",
        "vdso",
        "acpi_pm",
        "no-kvmclock",
        "lpj",
        "nohz",
        "isolcpus",
    ];
    if document.machine.kernel_command_line.is_none() {
        return UNKNOWN.to_owned();
    }
    let is_topic = |parameter: &&str| TOPICS.iter().any(|topic| parameter.contains(topic));
    let parameters: Vec<&str> = document
        .machine
        .kernel_parameters()
        .filter(is_topic)
        .collect();
    if parameters.is_empty() {
        "nothing about clocks".to_owned()
    } else {
        plain(&parameters.join(" "))
    }
}

fn clocksource(machine: &Machine) -> String {
    let available = machine.available_clocksources.as_deref();
    joined([
        machine.clocksource.as_deref().map(plain),
        available.map(|list| format!("available: {}", plain(list))),
    ])
}

fn counter(clock: &ClockStatus, nominal_hz: Option<u64>) -> String {
    let measured_hz = clock.frequency_hz;
    let measured = match measured_hz {
        Some(hz) => format!("{} measured", frequency(hz)),
        None => "not measured".to_owned(),
    };
    let difference = measured_hz.zip(nominal_hz).map(|(measured, nominal)| {
        let ppm = (as_f64(measured) / as_f64(nominal) - 1.0) * 1e6;
        format!("{ppm:+.0} ppm from nominal")
    });
    let nominal = match nominal_hz {
        Some(hz) => format!("{} nominal (by processor or hypervisor)", frequency(hz)),
        None => "no nominal frequency".to_owned(),
    };
    joined([Some(measured), difference, Some(nominal)])
}

fn host_clock(host: Option<&HostClock>) -> String {
    let Some(host) = host else {
        return "none is seen".to_owned();
    };
    format!(
        "{} ({}): the kernel's clock without NTP runs {} from it, within {}, over {}",
        plain(&host.name),
        plain(&host.device),
        rate(host.raw_rate_ppb),
        rate(host.uncertainty_ppb),
        time(signed_f64(host.span_ns))
    )
}

fn cpuid(cpuid: Option<&Cpuid>) -> String {
    let Some(cpuid) = cpuid else {
        return "none is stated".to_owned();
    };
    joined([
        either(cpuid.invariant_tsc, "invariant TSC", "no invariant TSC"),
        either(cpuid.rdtscp, "rdtscp", "no rdtscp"),
        either(cpuid.hypervisor, "hypervisor", "no hypervisor"),
        cpuid
            .leaf_15h_hz
            .map(|hz| format!("leaf 15h {}", frequency(hz))),
        cpuid
            .hypervisor_khz
            .map(|khz| format!("leaf 4000_0010h {} kHz", grouped(khz))),
    ])
}

fn rights(machine: &Machine) -> String {
    let counter = match machine.counter_readable {
        Some(true) => "may read the counter",
        Some(false) => "may not read the counter (PR_SET_TSC)",
        None => "the right to read the counter is unknown",
    };
    let vdso = match machine.vdso_mapped {
        Some(true) => "vDSO mapped",
        Some(false) => "no vDSO mapped",
        None => "vDSO unknown",
    };
    format!("{counter}, {vdso}")
}

fn cpus(machine: &Machine) -> String {
    let of = |cpus: &Option<String>, which| {
        let cpus = cpus.as_deref()?;
        Some(format!("{which}: {}", cpu_list::named(&plain(cpus))))
    };
    joined([
        of(&machine.allowed_cpus, "allowed"),
        of(&machine.online_cpus, "online"),
    ])
}

fn namespace(namespace: Option<&TimeNamespace>) -> String {
    let Some(namespace) = namespace else {
        return "none is seen".to_owned();
    };
    let from_machine = |name: &str, offset_ns: i64| match offset_ns {
        0 => format!("the machine's {name}"),
        ns => format!("{name} {} from the machine's", time(signed_f64(ns))),
    };
    let children = "children receive another namespace".to_owned();
    joined([
        namespace
            .monotonic_offset_ns
            .map(|ns| from_machine("monotonic time", ns)),
        namespace
            .boottime_offset_ns
            .map(|ns| from_machine("boot time", ns)),
        namespace.children_elsewhere.then_some(children),
    ])
}

fn vmclock(vmclock: Option<&VmClock>) -> String {
    let Some(vmclock) = vmclock else {
        return "none is seen".to_owned();
    };
    joined([
        Some(plain(&vmclock.device)),
        vmclock
            .unreadable
            .as_deref()
            .map(|error| format!("this user can't read it: {}", plain(error))),
        vmclock
            .disruption_marker
            .map(|marker| format!("disruption marker {marker}")),
        vmclock
            .vm_generation
            .map(|generation| format!("generation {generation}")),
        vmclock
            .clock_status
            .as_deref()
            .map(|status| format!("the host's clock is {}", plain(status).replace('_', " "))),
    ])
}

fn ntp(document: &Document) -> String {
    let ntp = document.machine.ntp.as_ref();
    // Without a daemon's claim, the two errors are the kernel's limits and assumptions.
    let claim = if document.orphaned_claim().is_none() {
        document.kernel_claim()
    } else {
        None
    };
    let us = |us: i64| time(signed_f64(us) * 1e3);
    let maximum = match claim {
        Some(claim) => format!("within {} of UTC by its claim", us(claim.maximum_error_us)),
        None => "no claim of its error".to_owned(),
    };
    let correction = |ntp: &Ntp| match ntp.rate_ppb() {
        0 => "rate not corrected".to_owned(),
        ppb => format!("rate corrected by {}", rate(ppb)),
    };
    let left = |ntp: &Ntp| match ntp.offset_ns {
        0 => None,
        ns => Some(format!(
            "{} left to the kernel to remove",
            time(signed_f64(ns))
        )),
    };
    let flags = |flags: &Vec<String>| {
        let names: Vec<String> = flags.iter().map(|flag| plain(flag)).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join("; ")
        };
        format!("flags: {names}")
    };
    joined([
        either(
            ntp.map(|ntp| ntp.synchronised),
            "synchronised",
            "not known to be synchronised",
        ),
        Some(maximum),
        claim
            .and_then(Ntp::set_estimated_error_us)
            .map(|error_us| format!("probably within {}", us(error_us))),
        ntp.map(correction),
        ntp.and_then(left),
        ntp.and_then(|ntp| ntp.flags.as_ref()).map(flags),
        ntp.and_then(|ntp| ntp.tai_offset_s)
            .map(|s| format!("TAI is {} s ahead of UTC", grouped(s))),
    ])
}

fn updated(daemon: &NtpDaemon) -> Option<String> {
    match daemon.updated_s {
        Some(s) => Some(format!("updated {} ago", time(as_f64(s) * 1e9))),
        None if daemon.synchronised => None,
        None => Some("never updated".to_owned()),
    }
}

fn ntp_daemon(machine: &Machine) -> String {
    let Some(daemon) = &machine.ntp_daemon else {
        return match &machine.ignored_answer {
            Some(answer) => format!("none has answered; {}", answer.in_words()),
            None => "none has answered".to_owned(),
        };
    };
    let asked = |channel: &Channel| match daemon.user {
        Some(user) => format!("asked by {} of user {user}", channel.in_words()),
        None => format!("asked by {}", channel.in_words()),
    };
    let left = |ns: i64| match ns {
        0 => "nothing left to remove".to_owned(),
        ns => format!("{} left to remove", time(signed_f64(ns))),
    };
    joined([
        Some(plain(&daemon.name)),
        either(
            Some(daemon.synchronised),
            "synchronised",
            "not synchronised",
        ),
        daemon
            .reference
            .as_deref()
            .map(|reference| format!("follows {}", plain(reference))),
        daemon
            .stratum
            .map(|stratum| format!("stratum {}", grouped(stratum))),
        daemon.offset_ns.map(left),
        daemon
            .bound_ns
            .map(|ns| format!("within {} of UTC by its claim", time(signed_f64(ns)))),
        daemon
            .frequency_ppb
            .map(|ppb| format!("its clock's rate is off by {}", rate(ppb))),
        daemon.skew_ppb.map(|ppb| format!("skew {}", rate(ppb))),
        daemon
            .root_delay_ns
            .map(|ns| format!("root delay {}", time(signed_f64(ns)))),
        daemon
            .root_dispersion_ns
            .map(|ns| format!("root dispersion {}", time(signed_f64(ns)))),
        updated(daemon),
        daemon.channel.as_ref().map(asked),
    ])
}

fn ptp4l(ptp4l: Option<&Ptp4l>) -> String {
    let Some(ptp4l) = ptp4l else {
        return "none has answered".to_owned();
    };
    let ns = |ns: i64| time(signed_f64(ns));
    let accuracy = match ptp4l.accuracy_ns {
        Some(accuracy_ns) => format!("accuracy {}", ns(accuracy_ns)),
        None => "no accuracy stated".to_owned(),
    };
    joined([
        Some(format!("port {}", plain(&ptp4l.port_state))),
        Some(format!("domain {}", ptp4l.domain)),
        ptp4l
            .grandmaster
            .as_deref()
            .map(|name| format!("grandmaster {}", plain(name))),
        Some(format!("class {}", ptp4l.clock_class)),
        Some(accuracy),
        Some(format!("{} steps away", ptp4l.steps_removed)),
        Some(format!("offset {}", ns(ptp4l.offset_ns))),
        Some(format!("mean path delay {}", ns(ptp4l.mean_path_delay_ns))),
        ptp4l
            .utc_offset_s
            .map(|s| format!("TAI is {s} s ahead of UTC")),
        ptp4l.bound_ns.map(|bound_ns| {
            format!(
                "its clock was within {} of UTC at the last Sync",
                ns(bound_ns)
            )
        }),
        ptp4l
            .unbounded
            .as_deref()
            .map(|why| format!("bounds nothing: {}", plain(why))),
    ])
}

/// What is known about UTC, which `watch` shows as well.
pub(crate) fn utc(clock: &ClockStatus) -> String {
    joined([
        clock
            .utc_width_ns
            .map(|ns| format!("known to within an interval of {}", time(as_f64(ns)))),
        clock
            .utc_source
            .as_deref()
            .map(|code| format!("as {} claims", source_name(code))),
        clock
            .utc_error_ns
            .map(|ns| format!("Unix time is off by {} at most", time(as_f64(ns)))),
        clock
            .utc_unknown
            .as_deref()
            .map(|code| format!("not known: {}", utc_unknown::in_short(code))),
    ])
}

fn page(machine: &Machine) -> String {
    let is_off = machine.page_switched_off == Some(true);
    let by = if is_off { "" } else { " (tickline serve)" };
    let readers = match machine.page_readers {
        Some(0) => "mapped by no process".to_owned(),
        Some(1) => format!("mapped by 1 process{by}"),
        Some(readers) => format!("mapped by {} processes{by}", grouped(readers)),
        // Root, too, may not examine each process, as in a container.
        None if machine.page_served.is_some() => {
            "mapped by no process that this user may examine".to_owned()
        }
        // Whether a page serves is also unknown to a process that may not read the counter.
        None if machine.counter_readable == Some(true) => {
            "none is found where this user's programs look".to_owned()
        }
        None => "none is served, or this user may not see by whom it is mapped".to_owned(),
    };
    let is_unseen = machine.page_readers.is_none() && machine.page_served == Some(true);
    let is_idle = machine.page_served == Some(false) && !is_off;
    joined([
        is_off.then(|| "switched off (tickline serve status says what ends this)".to_owned()),
        (is_unseen && !is_off).then(|| "serves".to_owned()),
        Some(readers),
        is_idle.then(|| "it serves nothing now (tickline serve status)".to_owned()),
    ])
}

fn clock_row(clock: &ClockStatus) -> String {
    let bound = match clock.bound_ns {
        Some(ns) => format!("bound {}", time(as_f64(ns))),
        None => "no bound".to_owned(),
    };
    // The drift is the condition for a bound, so it says nothing without one.
    let drift = match (clock.bound_ns, clock.max_drift_ppb) {
        (None, _) | (_, None | Some(0)) => None,
        (Some(_), Some(ppb)) => Some(format!(
            "which holds while CLOCK_MONOTONIC's rate is within {} of the measured one",
            rate(i64::try_from(ppb).unwrap_or(i64::MAX))
        )),
    };
    let interval = match clock.interval_ns {
        None | Some(0) => None,
        Some(ns) => Some(format!("recalibrated every {}", time(as_f64(ns)))),
    };
    let thread_error = clock.thread_error.as_deref();
    let events: Vec<String> = clock
        .events
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(event, count)| format!("{} {}", event.replace('_', " "), grouped(count)))
        .collect();
    let has_events = !events.is_empty();
    joined([
        Some(bound),
        drift,
        interval,
        thread_error.map(|error| format!("no thread: {}", plain(error))),
        has_events.then(|| format!("events: {}", events.join(", "))),
    ])
}

fn kernel_log(machine: &Machine) -> String {
    match machine.kernel_log.as_ref().map(Vec::len) {
        Some(0) => "no messages about clocks".to_owned(),
        Some(lines) => format!("messages about clocks: {} (see --json)", grouped(lines)),
        None => "unknown: this user may not read it, or it was not recorded".to_owned(),
    }
}

#[cfg(test)]
mod tests;
